//! What a command does to a resource: MongoDB's privilege actions.

use std::fmt;

macro_rules! actions {
    ($($name:ident = $text:literal,)*) => {
        /// An action that a privilege can permit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Any = "anyAction",
    AppendOplogNote = "appendOplogNote",
    ApplicationMessage = "applicationMessage",
    ApplyOps = "applyOps",
    Backup = "backup",
    BypassDocumentValidation = "bypassDocumentValidation",
    ChangeCustomData = "changeCustomData",
    ChangeOwnCustomData = "changeOwnCustomData",
    ChangeOwnPassword = "changeOwnPassword",
    ChangePassword = "changePassword",
    ChangeStream = "changeStream",
    CollMod = "collMod",
    CollStats = "collStats",
    Compact = "compact",
    ConnPoolStats = "connPoolStats",
    ConvertToCapped = "convertToCapped",
    CreateCollection = "createCollection",
    CreateIndex = "createIndex",
    CreateRole = "createRole",
    CreateSearchIndexes = "createSearchIndexes",
    CreateUser = "createUser",
    DbHash = "dbHash",
    DbStats = "dbStats",
    DropCollection = "dropCollection",
    DropConnections = "dropConnections",
    DropDatabase = "dropDatabase",
    DropIndex = "dropIndex",
    DropRole = "dropRole",
    DropSearchIndex = "dropSearchIndex",
    DropUser = "dropUser",
    EnableProfiler = "enableProfiler",
    Find = "find",
    Fsync = "fsync",
    GetCmdLineOpts = "getCmdLineOpts",
    GetDefaultRwConcern = "getDefaultRWConcern",
    GetLog = "getLog",
    GetParameter = "getParameter",
    GrantRole = "grantRole",
    HostInfo = "hostInfo",
    IndexStats = "indexStats",
    Inprog = "inprog",
    Insert = "insert",
    InvalidateUserCache = "invalidateUserCache",
    KillAnyCursor = "killAnyCursor",
    KillAnySession = "killAnySession",
    KillCursors = "killCursors",
    Killop = "killop",
    ListCollections = "listCollections",
    ListDatabases = "listDatabases",
    ListIndexes = "listIndexes",
    ListSearchIndexes = "listSearchIndexes",
    ListSessions = "listSessions",
    LogRotate = "logRotate",
    Netstat = "netstat",
    OperationMetrics = "operationMetrics",
    PlanCacheIndexFilter = "planCacheIndexFilter",
    PlanCacheRead = "planCacheRead",
    PlanCacheWrite = "planCacheWrite",
    ReIndex = "reIndex",
    Remove = "remove",
    RenameCollectionSameDb = "renameCollectionSameDB",
    ReplSetGetConfig = "replSetGetConfig",
    ReplSetGetStatus = "replSetGetStatus",
    RevokeRole = "revokeRole",
    RotateCertificates = "rotateCertificates",
    ServerStatus = "serverStatus",
    SetAuthenticationRestriction = "setAuthenticationRestriction",
    SetDefaultRwConcern = "setDefaultRWConcern",
    SetParameter = "setParameter",
    Shutdown = "shutdown",
    StorageDetails = "storageDetails",
    Top = "top",
    Unlock = "unlock",
    Update = "update",
    UpdateSearchIndex = "updateSearchIndex",
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

    const fn bit(self) -> u128 {
        1 << self as u8
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of actions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ActionSet(u128);

impl ActionSet {
    /// None.
    pub(crate) const EMPTY: ActionSet = ActionSet(0);

    /// The set of these.
    pub(crate) const fn of(actions: &[Action]) -> ActionSet {
        let (mut bits, mut at) = (0, 0);
        // `for` is not const.
        while at < actions.len() {
            bits |= actions[at].bit();
            at += 1;
        }
        ActionSet(bits)
    }

    /// The actions of both.
    pub(crate) const fn and(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 | other.0)
    }

    /// The actions of this set that are not in the other.
    pub(crate) const fn without(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 & !other.0)
    }

    /// Whether it has none.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it permits an action.
    pub(crate) const fn permits(self, action: Action) -> bool {
        self.0 & (action.bit() | Action::Any.bit()) != 0
    }

    /// The actions, by name.
    pub(crate) fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |action| self.0 & action.bit() != 0)
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
        assert!(Action::ALL.len() <= 128);
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
    }
}
