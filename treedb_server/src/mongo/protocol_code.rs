//! Error codes that only MongoDB's wire protocol has. Those of documents, queries and collections are
//! [`ErrorCode`](treedb_query::query::ErrorCode)s; no number is in both tables.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// A code of MongoDB's, as far as only the protocol uses it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub(crate) enum ProtocolCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl ProtocolCode {
            /// Every code of the table, in order.
            pub(crate) const ALL: &'static [ProtocolCode] = &[$(ProtocolCode::$name,)*];

            /// MongoDB's name for it.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(ProtocolCode::$name => stringify!($name),)*
                }
            }
        }
    };
}

impl ProtocolCode {
    /// MongoDB's number.
    pub(crate) const fn number(self) -> i32 {
        self as i32
    }
}

codes! {
    /// A required field is missing; there is nothing of this name.
    NoSuchKey = 4,
    /// Of failpoints.
    HostUnreachable = 6,
    /// Of failpoints.
    HostNotFound = 7,
    /// The lock of `fsync` cannot be taken in time.
    LockTimeout = 24,
    /// The server is no member of a replica set.
    NoReplicationEnabled = 76,
    /// No write concern has this name.
    UnknownReplWriteConcern = 79,
    /// Of failpoints.
    NetworkTimeout = 89,
    /// Something cannot be done as it was asked for.
    OperationFailed = 96,
    /// More members would have to acknowledge than there are.
    UnsatisfiableWriteConcern = 100,
    /// Another operation is on its way that this one cannot run beside.
    ConflictingOperationInProgress = 117,
    /// A command that only a transaction can have.
    CommandFailed = 125,
    /// Of failpoints.
    ReadConcernMajorityNotAvailableYet = 134,
    /// Another request is reading the cursor.
    CursorInUse = 143,
    /// Of failpoints.
    PrimarySteppedDown = 189,
    /// A failpoint cannot be set like that.
    FailPointSetFailed = 193,
    /// A binary of the subtype of UUIDs that has another length.
    InvalidUUID = 207,
    /// Something that is not set up.
    QueryFeatureNotAllowed = 224,
    /// Of failpoints.
    ExceededTimeLimit = 262,
    /// Of failpoints.
    PreparedTransactionInProgress = 267,
    /// There is no such version of the interface.
    APIVersionError = 322,
    /// The version of the interface does not have it.
    APIStrictError = 323,
    /// Of failpoints.
    ReauthenticationRequired = 391,
    /// The connection was closed.
    SocketException = 9001,
    /// Of failpoints.
    NotWritablePrimary = 10_107,
    /// Of failpoints.
    InterruptedDueToReplStateChange = 11_602,
    /// Of failpoints.
    NotPrimaryNoSecondaryOk = 13_435,
    /// Of failpoints.
    NotPrimaryOrSecondary = 13_436,
    /// The number of an operation that none can have.
    Location26823 = 26_823,
    /// `topologyVersion` and `maxAwaitTimeMS` come together.
    Location31368 = 31_368,
    /// A `topologyVersion` with a negative counter.
    Location31372 = 31_372,
    /// A negative `maxAwaitTimeMS`.
    Location31373 = 31_373,
    /// A message has several bodies.
    Location40430 = 40_430,
    /// A message has several sequences of one name.
    Location40431 = 40_431,
    /// A section of an unknown kind.
    Location40432 = 40_432,
    /// An argument is both in the body and in a sequence.
    Location40433 = 40_433,
    /// A message names no database.
    Location40571 = 40_571,
    /// A message has no body.
    Location40587 = 40_587,
    /// The checksum of a message is wrong.
    Location48614 = 48_614,
    /// The cursor is of another session.
    Location50738 = 50_738,
    /// The cursor is of no transaction.
    Location50739 = 50_739,
    /// The cursor is of a transaction.
    Location50740 = 50_740,
    /// The cursor is of another transaction.
    Location50741 = 50_741,
    /// A transaction number where there can be none.
    Location50768 = 50_768,
    /// The collection whose plans are asked for does not exist.
    Location50933 = 50_933,
    /// A value is out of its range.
    Location51024 = 51_024,
    /// A command about the concerns of a replica set, which the server is not.
    Location51300 = 51_300,
    /// The collection of an entry of `applyOps` has another UUID than the entry says.
    Location3318200 = 3_318_200,
    /// A stage of sharded clusters.
    Location4503200 = 4_503_200,
    /// Options of an interface without its version.
    Location4886600 = 4_886_600,
    /// A `featureCompatibilityVersion` that there is not.
    Location4926900 = 4_926_900,
    /// One that the server cannot be set to.
    Location5147403 = 5_147_403,
    /// `dropDatabase` among other entries.
    Location6275900 = 6_275_900,
    /// A `featureCompatibilityVersion` without `confirm`.
    Location7369100 = 7_369_100,
}

#[cfg(test)]
mod tests {
    use treedb_query::query::ErrorCode;

    use super::*;

    #[test]
    fn each_number_is_once_in_both_tables_and_in_the_name_of_those_that_have_no_other() {
        assert!(ProtocolCode::ALL.is_sorted_by(|a, b| a.number() < b.number()));
        for code in ProtocolCode::ALL {
            assert!(ErrorCode::ALL.iter().all(|other| other.number() != code.number()), "{code:?}");
            if let Some(number) = code.name().strip_prefix("Location") {
                assert_eq!(number, code.number().to_string());
            }
        }
    }
}
