//! SQL errors: a SQLSTATE, a message that names the thing, a detail that says what was met, a hint that says what to do.

pub(crate) use pgrx::PgSqlErrorCode as SqlState;
use pgrx::pg_sys::panic::ErrorReport;
use treedb_query::doc::json;
use treedb_query::{ErrorCode, QueryError};

use super::error_frame::{ErrorObject, announce};

/// Aborts the statement. Unwinds, so destructors on the way run.
#[track_caller]
pub(crate) fn fail(state: SqlState, message: impl Into<String>, hint: impl Into<String>) -> ! {
    raise(ErrorReport::new(state, message.into(), "treedb"), hint.into())
}

/// The same with a detail: whole sentences.
#[track_caller]
pub(crate) fn fail_with_detail(
    state: SqlState,
    message: impl Into<String>,
    detail: impl Into<String>,
    hint: impl Into<String>,
) -> ! {
    raise(ErrorReport::new(state, message.into(), "treedb").set_detail(detail.into()), hint.into())
}

/// The same, naming the object that the error is about.
#[track_caller]
pub(crate) fn fail_about(
    object: &ErrorObject,
    state: SqlState,
    message: String,
    detail: String,
    hint: &str,
) -> ! {
    announce(state, &message, &detail, hint, object);
    fail_with_detail(state, message, detail, hint)
}

#[track_caller]
fn raise(mut report: ErrorReport, hint: String) -> ! {
    if !hint.is_empty() {
        report = report.set_hint(hint);
    }
    report.report(pgrx::PgLogLevel::ERROR);
    unreachable!("an error report at level ERROR does not return")
}

/// Aborts the statement with an error of the engine: its message, MongoDB's code as the detail.
#[track_caller]
pub(crate) fn refuse(error: QueryError) -> ! {
    let state = state_of(error.code);
    refuse_as(state, error)
}

/// The same with a SQLSTATE of the caller's.
#[track_caller]
pub(crate) fn refuse_as(state: SqlState, error: QueryError) -> ! {
    let detail = detail_of(&error);
    fail_with_detail(state, error.message, detail, hint_of(error.code))
}

/// [`refuse`], naming the object that the error is about.
#[track_caller]
pub(crate) fn refuse_about(object: &ErrorObject, error: QueryError) -> ! {
    let detail = detail_of(&error);
    fail_about(object, state_of(error.code), error.message, detail, hint_of(error.code))
}

/// Sends a warning to the client: the condition's SQLSTATE, what is reported and its detail.
pub(crate) fn warn(state: SqlState, message: impl Into<String>, detail: String) {
    ErrorReport::new(state, message.into(), "treedb").set_detail(detail).report(pgrx::PgLogLevel::WARNING);
}

/// The detail of an error: MongoDB's number and name, and for a document that failed validation what is wrong with it.
fn detail_of(error: &QueryError) -> String {
    let mut detail = format!("MongoDB error {} ({}).", error.code.number(), error.code.name());
    if let Some(info) = &error.info {
        detail.push('\n');
        detail.push_str(&json::to_json(info));
    }
    detail
}

/// An SQL error as one of the engine: that which [`detail_of`] tells of, or else MongoDB's error for the SQLSTATE.
pub(super) fn engine_error(state: SqlState, message: &str, detail: Option<&str>) -> QueryError {
    let told = detail.and_then(|detail| {
        let (first, info) = detail.split_once('\n').unwrap_or((detail, ""));
        let number: i32 = first.strip_prefix("MongoDB error ")?.split(' ').next()?.parse().ok()?;
        let code = *ErrorCode::ALL.iter().find(|code| code.number() == number)?;
        Some((code, json::from_json(info).ok()))
    });
    let (code, info) = told.unwrap_or_else(|| {
        let code = match state {
            SqlState::ERRCODE_UNIQUE_VIOLATION => ErrorCode::DuplicateKey,
            SqlState::ERRCODE_CHECK_VIOLATION | SqlState::ERRCODE_NOT_NULL_VIOLATION => {
                ErrorCode::DocumentValidationFailure
            }
            SqlState::ERRCODE_INSUFFICIENT_PRIVILEGE => ErrorCode::Unauthorized,
            _ => ErrorCode::UnknownError,
        };
        (code, None)
    });
    let mut error = QueryError::new(code, message);
    error.info = info.map(Box::new);
    error
}

/// The value, or [`refuse`].
#[track_caller]
pub(crate) fn accept<T>(result: Result<T, QueryError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => refuse(error),
    }
}

/// The SQLSTATE of one of MongoDB's codes.
fn state_of(code: ErrorCode) -> SqlState {
    use ErrorCode as C;
    use SqlState as S;
    match code.general() {
        C::InternalError | C::UnknownError => S::ERRCODE_INTERNAL_ERROR,
        C::Unauthorized => S::ERRCODE_INSUFFICIENT_PRIVILEGE,
        C::TypeMismatch => S::ERRCODE_DATATYPE_MISMATCH,
        C::Overflow => S::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        C::InvalidBSON => S::ERRCODE_INVALID_BINARY_REPRESENTATION,
        C::BSONObjectTooLarge | C::KeyTooLong | C::InvalidLength | C::Location17217 => {
            S::ERRCODE_PROGRAM_LIMIT_EXCEEDED
        }
        C::NamespaceNotFound => S::ERRCODE_UNDEFINED_TABLE,
        C::IndexNotFound => S::ERRCODE_UNDEFINED_OBJECT,
        C::NamespaceExists => S::ERRCODE_DUPLICATE_TABLE,
        C::IndexAlreadyExists | C::IndexOptionsConflict | C::IndexKeySpecsConflict => {
            S::ERRCODE_DUPLICATE_OBJECT
        }
        C::CannotCreateIndex => S::ERRCODE_INVALID_OBJECT_DEFINITION,
        C::InvalidNamespace => S::ERRCODE_INVALID_NAME,
        C::DuplicateKey => S::ERRCODE_UNIQUE_VIOLATION,
        C::DocumentValidationFailure => S::ERRCODE_CHECK_VIOLATION,
        C::WriteConflict => S::ERRCODE_T_R_SERIALIZATION_FAILURE,
        C::NotImplemented | C::CommandNotFound => S::ERRCODE_FEATURE_NOT_SUPPORTED,
        C::IllegalOperation => S::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        C::ExceededMemoryLimit | C::QueryExceededMemoryLimitNoDiskUseAllowed => {
            S::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
        }
        C::Interrupted | C::MaxTimeMSExpired => S::ERRCODE_QUERY_CANCELED,
        C::OutOfDiskSpace => S::ERRCODE_DISK_FULL,
        _ => S::ERRCODE_INVALID_PARAMETER_VALUE,
    }
}

/// What to do about one of MongoDB's codes.
fn hint_of(code: ErrorCode) -> &'static str {
    use ErrorCode as C;
    match code {
        C::InternalError | C::UnknownError => "Report this as a bug of treedb, with the statement.",
        C::BadValue
        | C::FailedToParse
        | C::TypeMismatch
        | C::Location16605
        | C::Location16606
        | C::Location16607
        | C::Location16681
        | C::Location16893
        | C::Location16894
        | C::Location16895
        | C::Location16896
        | C::Location16897
        | C::Location16898
        | C::Location16899
        | C::Location16900 => {
            "Filters, updates, sorts and projections are written as in MongoDB; docs/postgres.md lists what there is."
        }
        C::InvalidBSON => "Send one BSON document, as a MongoDB driver encodes it.",
        C::BSONObjectTooLarge => "A document may have 16 MiB; keep larger parts in documents of their own.",
        C::Overflow => "Documents may be nested 100 deep, and numbers must fit their type.",
        C::ConversionFailure => "Convert with $convert, whose onError says what becomes of other values.",
        C::DuplicateKey => "Choose another value, or update the document that has it.",
        C::DocumentValidationFailure => {
            "The collection's validator decides; treedb.collection_options() shows it, treedb.coll_mod() changes it."
        }
        C::WriteConflict => "Run the transaction again.",
        C::InvalidIdField => "Any other type can be an _id; without one it is generated.",
        C::ImmutableField => "Insert a new document and delete the old one to change its _id.",
        C::ConflictingUpdateOperators => "Leave one of the two out, or make two updates of them.",
        C::PathNotViable => "Set the whole field, or leave documents with such a value out by the filter.",
        C::NotSingleValueField => "Give the field one value in the filter, or set it in the update.",
        C::DollarPrefixedFieldName
        | C::EmptyFieldName
        | C::DottedFieldName
        | C::Location15998
        | C::Location16410
        | C::Location16411
        | C::Location16412
        | C::Location40352
        | C::Location40353 => {
            "Rename the field: a name is not empty, begins with no dollar sign and has no dots."
        }
        C::IndexNotFound => {
            "treedb.list_indexes() lists the indexes of a collection, treedb.list_search_indexes() those of vectors."
        }
        C::IndexAlreadyExists | C::IndexOptionsConflict | C::IndexKeySpecsConflict => {
            "Drop the existing index with treedb.drop_index(), or choose another name."
        }
        C::CannotCreateIndex => {
            "An index is written {\"field\": 1, \"other.field\": -1}, one of vectors {\"fields\": [{\"type\": \"vector\", ..}]}."
        }
        C::InvalidIndexSpecificationOption => "Leave the option out: an index of this kind does not have it.",
        C::CannotIndexParallelArrays => "Index one of the two fields, or leave arrays out of one of them.",
        C::KeyTooLong | C::InvalidLength => {
            "Values this long cannot be indexed so. Index a part of the value, or its hash: {\"field\": \"hashed\"}."
        }
        C::Location16764 => "Leave out unique, or index the field by its values: {\"field\": 1}.",
        C::Location16766 | C::Location31303 => {
            "An index has one hashed field at most, without arrays; index others by their values: {\"field\": 1}."
        }
        C::InvalidOptions => {
            "What is asked for is not possible here: the message says what; docs/postgres.md lists what is."
        }
        C::Location40414 => "Add the field.",
        C::Location40415 => "Leave it out, or check how it is written.",
        C::Location13026 => {
            "An index \"2d\" is of pairs [x, y]: write the location as one, or create an index \"2dsphere\"."
        }
        C::Location13027 => "Correct the location, or create the index with wider bounds min and max.",
        C::Location16755 => {
            "A location is a GeoJSON object, {\"type\": \"Point\", \"coordinates\": [longitude, latitude]}, or a pair [longitude, latitude]."
        }
        C::CannotBuildIndexKeys => {
            "Locations that cover much, and each element of an array, have keys of their own: leave some out of the document or of the index."
        }
        C::NoQueryExecutionPlans => {
            "$near and $geoNear need an index {\"field\": \"2dsphere\"}, of pairs in a plane \"2d\"; if there is one, see whether a hint names another one."
        }
        C::Location5626500 => {
            "treedb.find() takes it, and updates and deletions do; $geoNear begins a pipeline of treedb.aggregate(); $geoWithin gives no order."
        }
        C::Location15974 | C::Location15975 => "A sort is written {\"field\": 1, \"other.field\": -1}.",
        C::Location31249 | C::Location31253 | C::Location31254 => {
            "A projection either keeps fields ({\"a\": 1}) or leaves them out ({\"a\": 0}); only _id may be the other way."
        }
        C::Location51091 | C::Location51108 | C::Location51075 => {
            "docs/mongodb-compatibility.md says which patterns and options there are."
        }
        C::Location51156 => "Write the regular expression so that it has fewer ways to match.",
        C::IllegalOperation => "Choose another name.",
        C::InvalidNamespace => "Name a table: name, or schema.name.",
        C::NotImplemented | C::CommandNotFound => "docs/postgres.md lists what there is.",
        C::NamespaceExists => "Drop it with treedb.drop_collection(), or choose another name.",
        C::NamespaceNotFound => "Create it with treedb.create_collection().",
        C::Unauthorized => {
            "Ask the owner of the table to GRANT it; docs/postgres.md lists what each function needs."
        }
        C::ExceededMemoryLimit | C::QueryExceededMemoryLimitNoDiskUseAllowed => {
            "Raise treedb.stage_mem, or let earlier stages leave fewer or smaller documents."
        }
        C::MaxTimeMSExpired | C::Interrupted => {
            "Give it more time, or let it read fewer documents: treedb.explain() shows how it finds them."
        }
        C::OutOfDiskSpace => "Free space on the disk of the server's temporary files.",
        // Of one operator, stage or projection each, which the message names.
        _ => "docs/mongodb-compatibility.md says how each stage, expression and operator is written.",
    }
}

/// What was met, as the sentence of a detail.
fn sentence(what: impl std::fmt::Display) -> String {
    let what = what.to_string();
    let mut rest = what.chars();
    rest.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), rest.as_str()))
}

/// What to do about a damaged index.
pub(super) const REINDEX: &str =
    "REINDEX the index; if it was restored from a backup or the disk is failing, check the table too.";

/// Bytes of a relation are not what was written there.
#[track_caller]
pub(crate) fn corrupted(relation: &str, block: u32, what: impl std::fmt::Display) -> ! {
    fail_with_detail(
        SqlState::ERRCODE_INDEX_CORRUPTED,
        format!("index \"{relation}\" is damaged at block {block}"),
        sentence(what),
        REINDEX,
    )
}

/// The pages of an index are of a version that this library does not read: `what` says which.
#[track_caller]
pub(crate) fn other_version(relation: &str, what: impl std::fmt::Display) -> ! {
    fail_with_detail(
        SqlState::ERRCODE_INDEX_CORRUPTED,
        format!("index \"{relation}\" was written by another version of treedb"),
        sentence(what),
        "REINDEX the index; its table is not affected.",
    )
}
