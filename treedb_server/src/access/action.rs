//! What a command does to a resource: MongoDB's privilege actions. Those of what this server does not have are among them: a role may have
//! them, and they permit nothing.

use std::fmt;

macro_rules! actions {
    ($($name:ident = $text:literal,)*) => {
        /// An action that a privilege can permit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum Action {
            $($name,)*
        }

        impl Action {
            /// Every action, by name.
            pub(crate) const ALL: &'static [Action] = &[$(Action::$name,)*];

            /// MongoDB's name for it.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Action::$name => $text,)*
                }
            }
        }
    };
}

actions! {
    AddShard = "addShard",
    AdvanceClusterTime = "advanceClusterTime",
    AllCollectionStats = "allCollectionStats",
    Analyze = "analyze",
    AnalyzeShardKey = "analyzeShardKey",
    Any = "anyAction",
    AppendOplogNote = "appendOplogNote",
    ApplicationMessage = "applicationMessage",
    ApplyOps = "applyOps",
    AuditConfigure = "auditConfigure",
    AuditLogRotate = "auditLogRotate",
    AuthCheck = "authCheck",
    AuthSchemaUpgrade = "authSchemaUpgrade",
    Authenticate = "authenticate",
    Backup = "backup",
    BypassDocumentValidation = "bypassDocumentValidation",
    BypassWriteBlockingMode = "bypassWriteBlockingMode",
    ChangeCustomData = "changeCustomData",
    ChangeOwnCustomData = "changeOwnCustomData",
    ChangeOwnPassword = "changeOwnPassword",
    ChangePassword = "changePassword",
    ChangeStream = "changeStream",
    CheckFreeMonitoringStatus = "checkFreeMonitoringStatus",
    CheckMetadataConsistency = "checkMetadataConsistency",
    CleanupOrphaned = "cleanupOrphaned",
    CleanupStructuredEncryptionData = "cleanupStructuredEncryptionData",
    ClearJumboFlag = "clearJumboFlag",
    CloseAllDatabases = "closeAllDatabases",
    CollMod = "collMod",
    CollStats = "collStats",
    Compact = "compact",
    CompactStructuredEncryptionData = "compactStructuredEncryptionData",
    ConfigureQueryAnalyzer = "configureQueryAnalyzer",
    ConnPoolStats = "connPoolStats",
    ConnPoolSync = "connPoolSync",
    ConvertToCapped = "convertToCapped",
    CpuProfiler = "cpuProfiler",
    CreateCollection = "createCollection",
    CreateDatabase = "createDatabase",
    CreateIndex = "createIndex",
    CreateRole = "createRole",
    CreateSearchIndexes = "createSearchIndexes",
    CreateUser = "createUser",
    DbCheck = "dbCheck",
    DbHash = "dbHash",
    DbStats = "dbStats",
    DropAllRolesFromDatabase = "dropAllRolesFromDatabase",
    DropAllUsersFromDatabase = "dropAllUsersFromDatabase",
    DropCollection = "dropCollection",
    DropConnections = "dropConnections",
    DropDatabase = "dropDatabase",
    DropIndex = "dropIndex",
    DropRole = "dropRole",
    DropSearchIndex = "dropSearchIndex",
    DropUser = "dropUser",
    Emptycapped = "emptycapped",
    EnableProfiler = "enableProfiler",
    EnableSharding = "enableSharding",
    ExportCollection = "exportCollection",
    Find = "find",
    FlushRouterConfig = "flushRouterConfig",
    ForceUuid = "forceUUID",
    Fsync = "fsync",
    FsyncUnlock = "fsyncUnlock",
    GetChangeStreamState = "getChangeStreamState",
    GetClusterParameter = "getClusterParameter",
    GetCmdLineOpts = "getCmdLineOpts",
    GetDatabaseVersion = "getDatabaseVersion",
    GetDefaultRwConcern = "getDefaultRWConcern",
    GetLog = "getLog",
    GetParameter = "getParameter",
    GetShardMap = "getShardMap",
    GetShardVersion = "getShardVersion",
    GrantPrivilegesToRole = "grantPrivilegesToRole",
    GrantRole = "grantRole",
    GrantRolesToRole = "grantRolesToRole",
    GrantRolesToUser = "grantRolesToUser",
    HostInfo = "hostInfo",
    Impersonate = "impersonate",
    ImportCollection = "importCollection",
    IndexStats = "indexStats",
    Inprog = "inprog",
    Insert = "insert",
    Internal = "internal",
    InvalidateUserCache = "invalidateUserCache",
    IssueDirectShardOperations = "issueDirectShardOperations",
    KillAnyCursor = "killAnyCursor",
    KillAnySession = "killAnySession",
    KillCursors = "killCursors",
    Killop = "killop",
    ListCachedAndActiveUsers = "listCachedAndActiveUsers",
    ListCollections = "listCollections",
    ListCursors = "listCursors",
    ListDatabases = "listDatabases",
    ListIndexes = "listIndexes",
    ListSampledQueries = "listSampledQueries",
    ListSearchIndexes = "listSearchIndexes",
    ListSessions = "listSessions",
    ListShards = "listShards",
    LogRotate = "logRotate",
    MoveChunk = "moveChunk",
    MoveCollection = "moveCollection",
    Netstat = "netstat",
    OidReset = "oidReset",
    OidcListKeys = "oidcListKeys",
    OidcRefreshKeys = "oidcRefreshKeys",
    OperationMetrics = "operationMetrics",
    PlanCacheIndexFilter = "planCacheIndexFilter",
    PlanCacheRead = "planCacheRead",
    PlanCacheWrite = "planCacheWrite",
    QuerySettings = "querySettings",
    QueryStatsRead = "queryStatsRead",
    QueryStatsReadTransformed = "queryStatsReadTransformed",
    ReIndex = "reIndex",
    RefineCollectionShardKey = "refineCollectionShardKey",
    Remove = "remove",
    RemoveShard = "removeShard",
    RenameCollection = "renameCollection",
    RenameCollectionSameDb = "renameCollectionSameDB",
    RepairDatabase = "repairDatabase",
    ReplSetConfigure = "replSetConfigure",
    ReplSetGetConfig = "replSetGetConfig",
    ReplSetGetStatus = "replSetGetStatus",
    ReplSetHeartbeat = "replSetHeartbeat",
    ReplSetReconfig = "replSetReconfig",
    ReplSetResizeOplog = "replSetResizeOplog",
    ReplSetStateChange = "replSetStateChange",
    ReshardCollection = "reshardCollection",
    Resync = "resync",
    RevokePrivilegesFromRole = "revokePrivilegesFromRole",
    RevokeRole = "revokeRole",
    RevokeRolesFromRole = "revokeRolesFromRole",
    RevokeRolesFromUser = "revokeRolesFromUser",
    RotateCertificates = "rotateCertificates",
    RunAsLessPrivilegedUser = "runAsLessPrivilegedUser",
    RunTenantMigration = "runTenantMigration",
    ServerStatus = "serverStatus",
    SetAuthenticationRestriction = "setAuthenticationRestriction",
    SetChangeStreamState = "setChangeStreamState",
    SetClusterParameter = "setClusterParameter",
    SetDefaultRwConcern = "setDefaultRWConcern",
    SetFeatureCompatibilityVersion = "setFeatureCompatibilityVersion",
    SetFreeMonitoring = "setFreeMonitoring",
    SetParameter = "setParameter",
    SetUserWriteBlockMode = "setUserWriteBlockMode",
    ShardCollection = "shardCollection",
    ShardedDataDistribution = "shardedDataDistribution",
    ShardingState = "shardingState",
    Shutdown = "shutdown",
    SplitChunk = "splitChunk",
    SplitVector = "splitVector",
    StorageDetails = "storageDetails",
    Top = "top",
    Touch = "touch",
    TrafficRecord = "trafficRecord",
    TransitionFromDedicatedConfigServer = "transitionFromDedicatedConfigServer",
    TransitionToDedicatedConfigServer = "transitionToDedicatedConfigServer",
    Unlock = "unlock",
    Update = "update",
    UpdateRole = "updateRole",
    UpdateSearchIndex = "updateSearchIndex",
    UpdateUser = "updateUser",
    UseTenant = "useTenant",
    UseUuid = "useUUID",
    Validate = "validate",
    ViewRole = "viewRole",
    ViewUser = "viewUser",
}

impl Action {
    /// The action of this name.
    pub(crate) fn named(name: &str) -> Option<Action> {
        Action::ALL.iter().copied().find(|action| action.name() == name)
    }

    /// The word of a set that has it, and its bit there.
    const fn place(self) -> (usize, u128) {
        (self as usize / 128, 1 << (self as u8 % 128))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of actions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ActionSet([u128; 2]);

impl ActionSet {
    /// None.
    pub(crate) const EMPTY: ActionSet = ActionSet([0; 2]);

    /// The set of these.
    pub(crate) const fn of(actions: &[Action]) -> ActionSet {
        let (mut words, mut at) = ([0; 2], 0);
        // `for` is not const.
        while at < actions.len() {
            let (word, bit) = actions[at].place();
            words[word] |= bit;
            at += 1;
        }
        ActionSet(words)
    }

    /// The actions of both.
    pub(crate) const fn and(self, other: ActionSet) -> ActionSet {
        ActionSet([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The actions of this set that are not in the other.
    pub(crate) const fn without(self, other: ActionSet) -> ActionSet {
        ActionSet([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    /// Whether it has none.
    pub(crate) const fn is_empty(self) -> bool {
        self.0[0] | self.0[1] == 0
    }

    /// Whether it permits an action.
    pub(crate) const fn permits(self, action: Action) -> bool {
        self.has(action) || self.has(Action::Any)
    }

    const fn has(self, action: Action) -> bool {
        let (word, bit) = action.place();
        self.0[word] & bit != 0
    }

    /// The actions, by name.
    pub(crate) fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |action| self.has(*action))
    }
}

impl fmt::Debug for ActionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Action::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_sorted_fit_into_a_set_and_are_found_by_name() {
        assert!(Action::ALL.is_sorted_by_key(|action| action.name()));
        assert!(Action::ALL.len() <= 256);
        for action in Action::ALL {
            assert_eq!(Action::named(action.name()), Some(*action));
        }
        assert_eq!(Action::named("fly"), None);
    }

    #[test]
    fn any_action_permits_every_action() {
        assert!(ActionSet::of(&[Action::Any]).permits(Action::Shutdown));
        let set = ActionSet::of(&[Action::Find, Action::Insert]);
        assert!(set.permits(Action::Find) && !set.permits(Action::Remove));
        assert!(set.without(ActionSet::of(&[Action::Find])).permits(Action::Insert));
        // No two actions share a bit.
        for action in Action::ALL.iter().filter(|action| **action != Action::Any) {
            let permitted = Action::ALL.iter().filter(|other| ActionSet::of(&[*action]).permits(**other));
            assert_eq!(permitted.collect::<Vec<_>>(), [action]);
            let all = ActionSet::of(Action::ALL).without(ActionSet::of(&[Action::Any, *action]));
            assert!(!all.permits(*action));
        }
    }
}
