//! MongoDB's error codes, and [`QueryError`], the error of everything that works on documents.
//!
//! One table ([`ErrorCode`]) gives each code its number and its name: drivers decide by the number, people read the name,
//! SQL maps it to a SQLSTATE. Documents, indexes, queries and collections return [`QueryError`], which can wrap an error of
//! the storage engine.

use bson::RawDocumentBuf;

use treedb_formats::Error;

/// What documents, indexes, queries and collections return.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// MongoDB's error codes, as far as TreeDB uses them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl ErrorCode {
            /// Every code of the table, in order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The code's name on the wire (`codeName`): `BadValue`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => stringify!($name),)*
                }
            }
        }
    };
}

codes! {
    /// Something that should not happen, or that the disk refused.
    InternalError = 1,
    /// An operand or option has an impossible value.
    BadValue = 2,
    /// A failure without a better name.
    UnknownError = 8,
    /// The shape of a filter, update or command is wrong.
    FailedToParse = 9,
    /// The user does not exist.
    UserNotFound = 11,
    /// Not allowed for this user.
    Unauthorized = 13,
    /// A value has another type than is needed there.
    TypeMismatch = 14,
    /// A number does not fit.
    Overflow = 15,
    /// Something is too long or too short.
    InvalidLength = 16,
    /// The wire protocol was not followed.
    ProtocolError = 17,
    /// Wrong user or password.
    AuthenticationFailed = 18,
    /// Not possible on this kind of server or collection.
    IllegalOperation = 20,
    /// Bytes that should be BSON are not.
    InvalidBSON = 22,
    /// The collection does not exist.
    NamespaceNotFound = 26,
    /// The index does not exist.
    IndexNotFound = 27,
    /// The path of an update goes through a value that is neither a document nor an array.
    PathNotViable = 28,
    /// The role does not exist.
    RoleNotFound = 31,
    /// The role does not have that role or privilege.
    InvalidRoleModification = 35,
    /// Two updates of one statement touch the same path.
    ConflictingUpdateOperators = 40,
    /// The cursor does not exist: it was closed, it timed out, or it was never opened.
    CursorNotFound = 43,
    /// A requested pre-image or post-image of a document is not available.
    NoMatchingDocument = 47,
    /// The collection exists already.
    NamespaceExists = 48,
    /// The operation's own time limit has passed.
    MaxTimeMSExpired = 50,
    /// A field name may not start with `$` there.
    DollarPrefixedFieldName = 52,
    /// `_id` has a type it cannot have.
    InvalidIdField = 53,
    /// A path of an upsert's filter has more than one value.
    NotSingleValueField = 54,
    /// A path has an empty field name.
    EmptyFieldName = 56,
    /// A field name may not contain a dot there.
    DottedFieldName = 57,
    /// The command does not exist.
    CommandNotFound = 59,
    /// The write concern could not be met.
    WriteConcernFailed = 64,
    /// `_id` cannot be changed.
    ImmutableField = 66,
    /// The index cannot be created as specified.
    CannotCreateIndex = 67,
    /// The index exists already.
    IndexAlreadyExists = 68,
    /// An option does not exist, or cannot be combined with another option.
    InvalidOptions = 72,
    /// The name of a database or collection is not valid.
    InvalidNamespace = 73,
    /// An index of that key pattern exists with other options.
    IndexOptionsConflict = 85,
    /// An index of that name exists with other keys.
    IndexKeySpecsConflict = 86,
    /// The server is stopping.
    ShutdownInProgress = 91,
    /// Two transactions changed the same document: try again.
    WriteConflict = 112,
    /// Views would read each other in a circle.
    GraphContainsCycle = 5,
    /// The next documents of a tailable cursor have been deleted.
    CappedPositionLost = 136,
    /// The pipelines of a view and of those that it reads are too long.
    ViewPipelineMaxSizeExceeded = 164,
    /// Too many views read each other.
    ViewDepthLimitExceeded = 165,
    /// A view was named where a collection is needed.
    CommandNotSupportedOnView = 166,
    /// An option that views do not have.
    OptionNotSupportedOnView = 167,
    /// A document does not match the collection's validator.
    DocumentValidationFailure = 121,
    /// An option does not exist for this index.
    InvalidIndexSpecificationOption = 197,
    /// The collection that a cursor reads is gone.
    QueryPlanKilled = 175,
    /// More memory than allowed would be needed.
    ExceededMemoryLimit = 146,
    /// There is no expression operator of that name.
    InvalidPipelineOperator = 168,
    /// A document has arrays at two fields of one compound index.
    CannotIndexParallelArrays = 171,
    /// The number of a retried write belongs to a transaction.
    IncompleteTransactionHistory = 217,
    /// The session has already started a newer transaction or retryable write.
    TransactionTooOld = 225,
    /// The feature is not implemented.
    NotImplemented = 238,
    /// The requested point in time is older than the history.
    SnapshotTooOld = 239,
    /// The requested point in time is in the future or not in the history.
    SnapshotUnavailable = 246,
    /// The transaction does not exist.
    NoSuchTransaction = 251,
    /// The transaction has been committed: nothing more can be done in it.
    TransactionCommitted = 256,
    /// The changes of a transaction need more memory than allowed.
    TransactionTooLarge = 257,
    /// A change stream cannot resume from this position.
    InvalidResumeToken = 260,
    /// More sessions with transactions or retryable writes than allowed.
    TooManyLogicalSessions = 261,
    /// The operation is not possible in a transaction.
    OperationNotSupportedInTransaction = 263,
    /// A change stream cannot continue.
    ChangeStreamFatalError = 280,
    /// The changes that a change stream would resume with have been removed.
    ChangeStreamHistoryLost = 286,
    /// There is no authentication mechanism of that name.
    MechanismUnavailable = 334,
    /// A legacy wire operation that is no longer supported.
    UnsupportedOpQueryCommand = 352,
    /// A document is larger than 16 MiB.
    BSONObjectTooLarge = 10334,
    /// A unique index has that key already.
    DuplicateKey = 11000,
    /// The operation was interrupted because the server is stopping.
    InterruptedAtShutdown = 11600,
    /// The operation was interrupted on request.
    Interrupted = 11601,
    /// The name of a database differs only in case from that of another.
    DatabaseDifferCase = 13297,
    /// The disk is full.
    OutOfDiskSpace = 14031,
    /// The values of a `distinct` take more than 16 MiB.
    Location17217 = 17217,
    /// An index of the collection is being built.
    BackgroundOperationInProgressForNamespace = 12587,
    /// A key is too long to be indexed.
    KeyTooLong = 17280,
    /// The direction of a sort is neither 1 nor -1.
    Location15975 = 15975,
    /// A value in the field of a `2d` index is no pair of coordinates.
    Location13026 = 13026,
    /// A point is outside of the bounds of a `2d` index.
    Location13027 = 13027,
    /// `$geoNear` has no point.
    Location16605 = 16605,
    /// The `distanceField` of `$geoNear` is not a string.
    Location16606 = 16606,
    /// The `includeLocs` of `$geoNear` is not a string.
    Location16607 = 16607,
    /// `$near` with a distance needs GeoJSON.
    Location16681 = 16681,
    /// A value in the field of a `2dsphere` index is no location.
    Location16755 = 16755,
    /// `$minDistance` beside `$near` is not a number.
    Location16893 = 16893,
    /// `$minDistance` beside `$near` is negative.
    Location16894 = 16894,
    /// `$maxDistance` beside `$near` is not a number.
    Location16895 = 16895,
    /// `$maxDistance` beside `$near` is negative.
    Location16896 = 16896,
    /// `$minDistance` within `$near` is not a number.
    Location16897 = 16897,
    /// `$minDistance` within `$near` is negative.
    Location16898 = 16898,
    /// `$maxDistance` within `$near` is not a number.
    Location16899 = 16899,
    /// `$maxDistance` within `$near` is negative.
    Location16900 = 16900,
    /// `$near` is not allowed here.
    Location5626500 = 5_626_500,
    /// A document has too many keys in an index.
    CannotBuildIndexKeys = 201,
    /// A hashed index cannot be unique.
    Location16764 = 16764,
    /// `$out` cannot replace the documents of a capped collection.
    Location17152 = 17152,
    /// `$merge` cannot write to a database of the server's own.
    Location31320 = 31320,
    /// `$out` cannot write to a database of the server's own.
    Location31321 = 31321,
    /// A field of a hashed index contains an array.
    Location16766 = 16766,
    /// An index has two hashed fields.
    Location31303 = 31303,
    /// A hint names an index that cannot answer the query.
    NoQueryExecutionPlans = 291,
    /// An index was dropped while it was being built.
    IndexBuildAborted = 276,
    /// A sort would need more memory than allowed.
    QueryExceededMemoryLimitNoDiskUseAllowed = 292,
    /// A value cannot be converted to the requested type.
    ConversionFailure = 241,
    /// An expression document has other fields besides its operator.
    Location15983 = 15983,
    /// An operator has too many or too few operands.
    Location16020 = 16020,
    /// The divisor of `$mod` is zero.
    Location16610 = 16610,
    /// The operand of `$size` is not an array.
    Location17124 = 17124,
    /// A variable is not defined.
    Location17276 = 17276,
    /// `$arrayElemAt` and the like need an array.
    Location28689 = 28689,
    /// The argument of a logarithm or root is outside its domain.
    Location28714 = 28714,
    /// An operand that must be an array is not one.
    Location5126 = 5126,
    /// A role of that name exists already.
    Location51002 = 51002,
    /// A user of that name exists already.
    Location51003 = 51003,
    /// `$in` needs an array.
    Location40081 = 40081,
    /// The new root of a document is not a document.
    Location40228 = 40228,
    /// The time zone does not exist.
    Location40485 = 40485,
    /// There is no pipeline stage of that name.
    Location40324 = 40324,
    /// A change stream is not available: changes are not recorded.
    Location40573 = 40573,
    /// A stage must be a document with exactly one field.
    Location40323 = 40323,
    /// The operands of a `$slice` are invalid.
    Location28667 = 28667,
    /// The number of elements of a `$slice` is not positive.
    Location28724 = 28724,
    /// No document exists that a document of `$merge` could be merged with.
    MergeStageNoMatchingDocument = 13113,
    /// Pipelines are nested too deeply.
    MaxSubPipelineDepthExceeded = 232,
    /// The specification of a `$group` is not a document.
    Location15947 = 15947,
    /// There is no accumulator of that name.
    Location15952 = 15952,
    /// A `$group` has no `_id`.
    Location15955 = 15955,
    /// The operand of `$skip` is not a valid number.
    Location15956 = 15956,
    /// The operand of `$limit` is not a valid number.
    Location15957 = 15957,
    /// The operand of `$limit` is not positive.
    Location15958 = 15958,
    /// A sort has no fields.
    Location15976 = 15976,
    /// The operand of `$unwind` is neither a string nor a document.
    Location15981 = 15981,
    /// The result of `$redact` is none of `$$KEEP`, `$$PRUNE` and `$$DESCEND`.
    Location17053 = 17053,
    /// A path does not start with `$`.
    Location28818 = 28818,
    /// The field name of `$count` is invalid.
    Location40156 = 40156,
    /// `preserveNullAndEmptyArrays` of `$unwind` is no boolean.
    Location28809 = 28809,
    /// `$unwind` has no path.
    Location28812 = 28812,
    /// No branch of a `$switch` is true, and it has no default.
    Location40066 = 40066,
    /// The default of a `$bucket` is inside one of its buckets.
    Location40199 = 40199,
    /// The specification of a `$bucket` is invalid.
    Location40201 = 40201,
    /// A field of a `$group` is not an accumulator.
    Location40234 = 40234,
    /// An accumulator has more than one operand.
    Location40237 = 40237,
    /// A change stream has more than one start position.
    Location40674 = 40674,
    /// The specification of `$changeStream` is not a document.
    Location50808 = 50808,
    /// A stage is not allowed in the pipeline of another stage.
    Location40600 = 40600,
    /// A stage must be the last of its pipeline.
    Location40601 = 40601,
    /// A stage must be the first of its pipeline.
    Location40602 = 40602,
    /// A document of `$merge` has no value for one of the `on` fields.
    Location51132 = 51132,
    /// The `on` fields of `$merge` match more than one document.
    Location51183 = 51183,
    /// The operand of `$documents` is not an array of documents.
    Location5858203 = 5_858_203,
    /// Two paths of a projection overlap.
    Location31249 = 31249,
    /// An exclusion projection includes a field.
    Location31253 = 31253,
    /// An inclusion projection excludes a field.
    Location31254 = 31254,
    /// A field of an exclusion projection is computed.
    Location31252 = 31252,
    /// A field of an exclusion projection is a literal.
    Location31310 = 31310,
    /// A `path.$` of a projection is neither 0 nor 1.
    Location31271 = 31271,
    /// An operator of a projection does not exist.
    Location31325 = 31325,
    /// The operand of a trigonometric operator is out of its domain.
    Location50989 = 50989,
    /// A field of a projection is an empty document.
    Location51270 = 51270,
    /// Bounds without an index to which they apply.
    Location51173 = 51173,
    /// Bounds that do not fit the index.
    Location51174 = 51174,
    /// The upper bound is not above the lower one.
    Location51175 = 51175,
    /// The bounds have different fields.
    Location51176 = 51176,
    /// An `$elemMatch` projection is on a nested field.
    Location31255 = 31255,
    /// A projection has more than one `path.$`.
    Location31276 = 31276,
    /// A path of a projection has a `$` that is not at the end.
    Location31394 = 31394,
    /// An exclusion projection has a `path.$`.
    Location31395 = 31395,
    /// A path has an empty field name.
    Location40352 = 40352,
    /// A required field is missing.
    Location40414 = 40414,
    /// A command has an unknown argument.
    Location40415 = 40415,
    /// The options of a regular expression are given twice.
    Location51075 = 51075,
    /// A regular expression is invalid.
    Location51091 = 51091,
    /// The operand of `$meta` is not a string.
    Location17307 = 17307,
    /// There is no metadata of this name.
    Location17308 = 17308,
    /// The documents have no such metadata.
    Location40218 = 40218,
    /// The operand of `$changeStreamSplitLargeEvent` is not an empty document.
    Location7182800 = 7_182_800,
    /// `$changeStreamSplitLargeEvent` is not the last stage.
    Location7182802 = 7_182_802,
    /// The limit of a `$vectorSearch` is not positive.
    Location7912700 = 7_912_700,
    /// The limit of a `$vectorSearch` is not a number.
    Location8575100 = 8_575_100,
    /// The query did not match an array element for a `path.$`.
    Location51246 = 51246,
    /// The match of a regular expression was given up.
    Location51156 = 51156,
    /// The variables of a `$merge` that has no pipeline to use them.
    Location51199 = 51199,
    /// A regular expression has an option that does not exist.
    Location51108 = 51108,
    /// The `subtype` of `$convert` is not an integer.
    Location4341106 = 4_341_106,
    /// The `subtype` of `$convert` is not one of binary data.
    Location4341107 = 4_341_107,
    /// The `subtype` of `$convert` is not a number.
    Location4341108 = 4_341_108,
    /// The `format` of `$convert` is not a string.
    Location4341114 = 4_341_114,
    /// A conversion of `$convert` needs a `format`.
    Location4341115 = 4_341_115,
    /// The `format` of `$convert` does not exist.
    Location4341125 = 4_341_125,
    /// The `byteOrder` of `$convert` is not a string.
    Location9130001 = 9_130_001,
    /// The `byteOrder` of `$convert` does not exist.
    Location9130002 = 9_130_002,
}

impl ErrorCode {
    /// The number that drivers see.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

/// An error about documents: MongoDB's code, and a message that names the field.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// MongoDB's code.
    pub code: ErrorCode,
    /// What is wrong, where, in MongoDB's form where drivers or people look for it.
    pub message: String,
    /// For [`ErrorCode::DuplicateKey`]: which index and key.
    pub duplicate: Option<Box<DuplicateKey>>,
    /// For [`ErrorCode::DocumentValidationFailure`]: which document, and what it does not match (`errInfo`).
    pub info: Option<Box<RawDocumentBuf>>,
    /// The storage engine's error that caused it, if there is one.
    #[source]
    pub source: Option<Box<Error>>,
}

/// Which key of which index exists already.
#[derive(Debug, Clone, PartialEq)]
pub struct DuplicateKey {
    /// Name of the index.
    pub index: String,
    /// The index's key pattern: `{ a: 1 }`.
    pub key_pattern: RawDocumentBuf,
    /// The values that exist already, under the pattern's names: `{ a: 5 }`.
    pub key_value: RawDocumentBuf,
}

impl QueryError {
    /// An error of `code` saying `message`.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        QueryError { code, message: message.into(), duplicate: None, info: None, source: None }
    }

    /// A `BadValue`.
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadValue, message)
    }

    /// The error of a stage that no pipeline has.
    pub(crate) fn unknown_stage(name: &str) -> Self {
        Self::new(ErrorCode::Location40324, format!("Unrecognized pipeline stage name: '{name}'"))
    }

    /// An `InvalidBSON`.
    pub fn invalid_bson(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidBSON, message)
    }

    /// The code of a store's error.
    pub fn code_of(error: &Error) -> ErrorCode {
        match error {
            Error::DiskFull { .. } => ErrorCode::OutOfDiskSpace,
            Error::KeyTooLong { .. } => ErrorCode::KeyTooLong,
            Error::ValueTooLong { .. } | Error::TransactionTooLarge { .. } => ErrorCode::BSONObjectTooLarge,
            Error::Conflict { .. } => ErrorCode::WriteConflict,
            Error::Invalid(_) => ErrorCode::BadValue,
            _ => ErrorCode::InternalError,
        }
    }

    /// A duplicate key, with MongoDB's message (`E11000 duplicate key error collection: db.coll index: a_1 dup
    /// key: { a: 5 }`; `shown` is the last part, as `index::ordered` renders it).
    pub fn duplicate_key(namespace: &str, duplicate: DuplicateKey, shown: &str) -> Self {
        QueryError {
            code: ErrorCode::DuplicateKey,
            message: format!(
                "E11000 duplicate key error collection: {namespace} index: {} dup key: {shown}",
                duplicate.index
            ),
            duplicate: Some(Box::new(duplicate)),
            info: None,
            source: None,
        }
    }
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        QueryError {
            code: QueryError::code_of(&error),
            message: error.to_string(),
            duplicate: None,
            info: None,
            source: Some(Box::new(error)),
        }
    }
}

impl From<bson::error::Error> for QueryError {
    fn from(error: bson::error::Error) -> Self {
        Self::invalid_bson(format!("not valid BSON: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_named_after_their_variant() {
        let mut numbers: Vec<i32> = ErrorCode::ALL.iter().map(|code| code.number()).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), ErrorCode::ALL.len());
        assert_eq!(ErrorCode::DuplicateKey.number(), 11000);
        assert_eq!(ErrorCode::DuplicateKey.name(), "DuplicateKey");
    }

    #[test]
    fn a_full_disk_keeps_its_cause_and_gets_mongodbs_code() {
        let error = QueryError::from(Error::DiskFull { path: "pages".into() });
        assert_eq!(error.code, ErrorCode::OutOfDiskSpace);
        assert!(std::error::Error::source(&error).is_some());
    }
}
