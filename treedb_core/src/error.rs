//! The error of every call of this library.

use bson::RawDocumentBuf;
use treedb_query::error::QueryError;

pub use treedb_query::error::{DuplicateKey, ErrorCode};
pub use treedb_storage::Error as StorageError;

/// What every call returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. [`Error::code`] is the code that MongoDB gives in the same case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A unique index has the key already. Code 11000.
    #[error("{message}")]
    DuplicateKey {
        /// MongoDB's message: collection, index and key.
        message: String,
        /// Which key of which index.
        key: Box<DuplicateKey>,
    },
    /// A document does not match the validator of its collection. Code 121.
    #[error("{message}")]
    Validation {
        /// What happened.
        message: String,
        /// Which rules the document does not satisfy, as MongoDB's `errInfo` tells it.
        details: Box<RawDocumentBuf>,
    },
    /// Another transaction changed the same document first: run the transaction again. Code 112.
    #[error("{message}")]
    WriteConflict {
        /// Which collection.
        message: String,
    },
    /// Some documents of an `insert_many` were refused; the others are inserted.
    #[error("{} of {} documents were not inserted; the first, number {}: {}",
        .0.errors.len(), .0.errors.len() + .0.inserted_ids.len() + .0.not_tried,
        .0.errors.first().map_or(0, |(at, _)| *at), .0.errors.first().map_or_else(String::new, |(_, error)| error.to_string()))]
    InsertMany(Box<InsertManyError>),
    /// The request is not valid, or cannot be carried out.
    #[error("{message}")]
    Command {
        /// MongoDB's code.
        code: ErrorCode,
        /// What is wrong, naming the field.
        message: String,
    },
    /// A value of your type cannot become a document, or a document cannot become a value of it.
    #[error("{0}")]
    Bson(#[from] bson::error::Error),
    /// The storage engine failed: a full or failing disk, a damaged file, a directory in use.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// What an `insert_many` did that was refused in part.
#[derive(Debug)]
pub struct InsertManyError {
    /// The `_id`s of the documents that were inserted, by position.
    pub inserted_ids: std::collections::BTreeMap<usize, bson::Bson>,
    /// The documents that were refused: position and reason.
    pub errors: Vec<(usize, Error)>,
    /// Documents after the first refused one, which an ordered insert does not try.
    pub not_tried: usize,
}

impl Error {
    /// MongoDB's error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::DuplicateKey { .. } => ErrorCode::DuplicateKey,
            Error::Validation { .. } => ErrorCode::DocumentValidationFailure,
            Error::WriteConflict { .. } => ErrorCode::WriteConflict,
            Error::InsertMany(done) => {
                done.errors.first().map_or(ErrorCode::UnknownError, |(_, error)| error.code())
            }
            Error::Command { code, .. } => *code,
            Error::Bson(_) => ErrorCode::InvalidBSON,
            Error::Storage(error) => QueryError::code_of(error),
        }
    }

    pub(crate) fn command(code: ErrorCode, message: impl Into<String>) -> Self {
        Error::Command { code, message: message.into() }
    }
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Self {
        let QueryError { code, message, duplicate, info, source } = error;
        if let Some(source) = source {
            return Error::Storage(*source);
        }
        match (code, duplicate, info) {
            (_, Some(key), _) => Error::DuplicateKey { message, key },
            (_, _, Some(details)) => Error::Validation { message, details },
            (ErrorCode::WriteConflict, ..) => Error::WriteConflict { message },
            (code, ..) => Error::Command { code, message },
        }
    }
}
