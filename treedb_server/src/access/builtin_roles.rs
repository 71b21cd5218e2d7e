//! The roles that every server has: MongoDB's built-in roles, with the actions that this server knows.

use super::action::Action::*;
use super::action::ActionSet;
use super::privilege::Privilege;
use super::resource::Resource;

const READ: ActionSet = ActionSet::of(&[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
]);

const WRITE: ActionSet = ActionSet::of(&[
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    DropIndex,
    DropSearchIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
    UpdateSearchIndex,
]);

const READ_WRITE: ActionSet = READ.and(WRITE);

const DB_ADMIN: ActionSet = ActionSet::of(&[
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DbHash,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    DropSearchIndex,
    EnableProfiler,
    IndexStats,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    StorageDetails,
    UpdateSearchIndex,
    Validate,
]);

/// In `system.profile`, for administrators of the data.
const PROFILE: ActionSet = READ.and(ActionSet::of(&[ConvertToCapped, CreateCollection, DropCollection]));

const USER_ADMIN: ActionSet = ActionSet::of(&[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
]);

const MONITOR: ActionSet = ActionSet::of(&[
    ConnPoolStats,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    HostInfo,
    Inprog,
    ListDatabases,
    ListSessions,
    Netstat,
    OperationMetrics,
    QueryStatsRead,
    QueryStatsReadTransformed,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    Top,
]);

const MONITOR_DATABASES: ActionSet = ActionSet::of(&[CollStats, DbStats, IndexStats, UseUuid]);

const MANAGE_HOST: ActionSet = ActionSet::of(&[
    ApplicationMessage,
    DropConnections,
    Fsync,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    Killop,
    LogRotate,
    RotateCertificates,
    SetParameter,
    Shutdown,
    Unlock,
]);

const MANAGE_CLUSTER: ActionSet = ActionSet::of(&[
    AppendOplogNote,
    ApplicationMessage,
    GetDefaultRwConcern,
    ListSessions,
    ReplSetGetConfig,
    ReplSetGetStatus,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
]);

const BACKUP: ActionSet =
    ActionSet::of(&[AppendOplogNote, Backup, GetParameter, ListDatabases, ServerStatus]);

const RESTORE: ActionSet = ActionSet::of(&[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    Insert,
    Remove,
    Update,
])
.and(USER_ADMIN);

/// The roles that every database has.
const OF_ANY_DATABASE: [&str; 5] = ["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"];

/// The roles that only the database `admin` has.
const OF_ADMIN: [&str; 11] = [
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

/// The names of the roles that a database has without anybody creating them.
pub(crate) fn names(database: &str) -> impl Iterator<Item = &'static str> {
    let of_admin = if database == "admin" { &OF_ADMIN[..] } else { &[] };
    OF_ANY_DATABASE.iter().chain(of_admin).copied()
}

/// The privileges of a role; `None` if it is not one of these.
pub(crate) fn privileges(role: &str, database: &str) -> Option<Vec<Privilege>> {
    names(database).find(|name| *name == role).map(|role| of(role, database))
}

fn of(role: &str, database: &str) -> Vec<Privilege> {
    let on = |resource: Resource, actions: ActionSet| Privilege { resource, actions };
    let own = |actions| vec![on(Resource::database(database), actions)];
    let everywhere = |actions| on(Resource::database(""), actions);
    let cluster = |actions| on(Resource::Cluster, actions);
    let list = || cluster(ActionSet::of(&[ListDatabases]));
    let users = |actions: ActionSet| {
        ["system.users", "system.roles"].map(|name| on(Resource::collection("admin", name), actions))
    };
    let profile = |database: &str, actions| on(Resource::collection(database, "system.profile"), actions);
    let all = |roles: &[&str]| roles.iter().flat_map(|role| of(role, database)).collect();
    match role {
        "read" => own(READ),
        "readWrite" => own(READ_WRITE),
        "dbAdmin" => vec![on(Resource::database(database), DB_ADMIN), profile(database, PROFILE)],
        "userAdmin" => own(USER_ADMIN),
        "dbOwner" => {
            vec![
                on(Resource::database(database), READ_WRITE.and(DB_ADMIN).and(USER_ADMIN)),
                profile(database, PROFILE),
            ]
        }
        "readAnyDatabase" => vec![everywhere(READ), list()],
        "readWriteAnyDatabase" => vec![everywhere(READ_WRITE), list()],
        "dbAdminAnyDatabase" => vec![everywhere(DB_ADMIN), profile("", PROFILE), list()],
        "userAdminAnyDatabase" => {
            let mut privileges = vec![
                everywhere(USER_ADMIN),
                on(Resource::database("config"), USER_ADMIN),
                on(Resource::database("local"), USER_ADMIN),
                cluster(ActionSet::of(&[InvalidateUserCache, ListDatabases])),
            ];
            privileges.extend(users(READ));
            privileges
        }
        "clusterMonitor" => vec![
            cluster(MONITOR),
            everywhere(MONITOR_DATABASES),
            profile("", ActionSet::of(&[Find])),
            on(Resource::database("config"), READ),
            on(Resource::database("local"), READ),
        ],
        "hostManager" => vec![cluster(MANAGE_HOST), everywhere(ActionSet::of(&[KillCursors]))],
        "clusterManager" => vec![cluster(MANAGE_CLUSTER)],
        "clusterAdmin" => {
            let mut privileges: Vec<Privilege> = all(&["clusterMonitor", "hostManager", "clusterManager"]);
            privileges.push(everywhere(ActionSet::of(&[DropDatabase])));
            privileges
        }
        "backup" => {
            let listing = ActionSet::of(&[ListCollections, ListIndexes, ListSearchIndexes]);
            let find = ActionSet::of(&[Find]);
            let mut privileges = vec![cluster(BACKUP), on(Resource::Any, listing), everywhere(find)];
            privileges.push(on(Resource::database("config"), find));
            privileges.push(on(Resource::database("local"), find));
            privileges.extend(users(find));
            privileges
        }
        "restore" => {
            let mut privileges = vec![cluster(ActionSet::of(&[GetParameter])), everywhere(RESTORE)];
            // mongorestore asks which collections there are.
            privileges.push(on(Resource::Any, ActionSet::of(&[ListCollections])));
            privileges.extend(users(ActionSet::of(&[Find])));
            privileges
        }
        "root" => {
            let mut privileges: Vec<Privilege> = all(&[
                "backup",
                "clusterAdmin",
                "dbAdminAnyDatabase",
                "readWriteAnyDatabase",
                "restore",
                "userAdminAnyDatabase",
            ]);
            privileges.push(on(Resource::Any, ActionSet::of(&[Validate])));
            privileges
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::privilege::permits;
    use super::super::resource::Target;
    use super::*;

    #[test]
    fn every_role_has_privileges_and_those_of_admin_only_there() {
        for role in names("admin") {
            assert!(privileges(role, "admin").is_some_and(|privileges| !privileges.is_empty()), "{role}");
        }
        for role in OF_ADMIN {
            assert!(privileges(role, "shop").is_none(), "{role}");
        }
        assert!(privileges("reader", "admin").is_none());
    }

    #[test]
    fn roles_permit_what_their_names_say() {
        let orders = Target::Collection("shop", "orders");
        let oplog = Target::Collection("local", "oplog.rs");
        for (role, database, action, target, permitted) in [
            ("read", "shop", Find, orders, true),
            ("read", "shop", Insert, orders, false),
            ("read", "other", Find, orders, false),
            ("readWrite", "shop", Insert, orders, true),
            ("readWrite", "shop", DropDatabase, Target::Database("shop"), false),
            ("dbAdmin", "shop", Find, orders, false),
            ("dbAdmin", "shop", Find, Target::Collection("shop", "system.profile"), true),
            ("dbAdmin", "shop", Find, Target::Collection("other", "system.profile"), false),
            ("dbAdmin", "shop", DropCollection, Target::Collection("shop", "system.profile"), true),
            ("readWrite", "shop", DropCollection, Target::Collection("shop", "system.profile"), false),
            ("read", "shop", Find, Target::Collection("shop", "system.profile"), false),
            ("clusterMonitor", "admin", Find, Target::Collection("shop", "system.profile"), true),
            ("dbAdmin", "shop", DropDatabase, Target::Database("shop"), true),
            ("userAdmin", "shop", CreateUser, Target::Database("shop"), true),
            ("userAdmin", "shop", CreateUser, Target::Database("other"), false),
            ("dbOwner", "shop", Insert, orders, true),
            ("readAnyDatabase", "admin", Find, orders, true),
            ("readAnyDatabase", "admin", Find, Target::Collection("admin", "system.users"), false),
            ("readWriteAnyDatabase", "admin", ListDatabases, Target::Cluster, true),
            ("clusterMonitor", "admin", ServerStatus, Target::Cluster, true),
            ("clusterMonitor", "admin", Find, orders, false),
            ("clusterMonitor", "admin", Shutdown, Target::Cluster, false),
            ("hostManager", "admin", Shutdown, Target::Cluster, true),
            ("backup", "admin", Find, Target::Collection("admin", "system.users"), true),
            ("backup", "admin", Insert, orders, false),
            ("backup", "admin", Find, oplog, true),
            ("backup", "admin", Insert, oplog, false),
            ("clusterMonitor", "admin", Find, oplog, true),
            ("read", "local", Find, oplog, true),
            ("read", "shop", Find, oplog, false),
            ("readAnyDatabase", "admin", Find, oplog, false),
            ("root", "admin", Find, oplog, true),
            ("restore", "admin", Insert, orders, true),
            ("restore", "admin", Find, orders, false),
            ("restore", "admin", ListCollections, Target::Database("shop"), true),
            ("restore", "admin", ListCollections, Target::Database("config"), true),
            ("restore", "admin", ListIndexes, orders, false),
            ("root", "admin", Find, orders, true),
            ("root", "admin", CreateUser, Target::Database("shop"), true),
            ("root", "admin", Action::Backup, Target::Cluster, true),
        ] {
            let privileges = privileges(role, database).unwrap();
            assert_eq!(permits(&privileges, action, target), permitted, "{role} {action} {target:?}");
        }
    }
}
