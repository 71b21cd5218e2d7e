//! Why a request of the native protocol failed, which its error frame says.

use treedb_collections::{ErrorCode, QueryError};
use treedb_protocol::{ErrorFrame, Malformed};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Failure(pub(crate) ErrorFrame);

impl Failure {
    /// An error with a code and a message.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Failure(ErrorFrame { code: code.number(), name: code.name().to_owned(), message: message.into() })
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::new(error.code, error.message)
    }
}

impl From<treedb_collections::Error> for Failure {
    fn from(error: treedb_collections::Error) -> Self {
        QueryError::from(error).into()
    }
}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Self {
        Failure::new(ErrorCode::ProtocolError, error.to_string())
    }
}
