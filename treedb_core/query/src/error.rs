//! [`QueryError`], the error of everything that works on documents, and [`ErrorCode`], the table of MongoDB's codes.
//!
//! Documents, indexes, queries and collections return [`QueryError`], which can wrap an error of the storage engine.

mod codes;

use bson::RawDocumentBuf;

use treedb_formats::Error;

pub use codes::ErrorCode;

/// What documents, indexes, queries and collections return.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

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

    /// The error of a search by a vector index that there is not.
    pub fn no_vector_index(name: &str) -> Self {
        Self::new(ErrorCode::IndexNotFound, format!("vector index not found with name [{name}]"))
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
