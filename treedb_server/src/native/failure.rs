//! Why a request of the native protocol failed, which its error frame says.

use treedb_collections::{ErrorCode, QueryError};
use treedb_protocol::{ErrorFrame, Malformed};

use crate::mongo::protocol_code::ProtocolCode;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Failure(pub(crate) ErrorFrame);

impl Failure {
    /// An error with a code and a message.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Failure(ErrorFrame { code: code.number(), name: code.name().to_owned(), message: message.into() })
    }

    /// That of a request whose client has closed the connection.
    pub(super) fn disconnected() -> Self {
        let code = ProtocolCode::ClientDisconnect;
        let message = "the client has closed the connection".to_owned();
        Failure(ErrorFrame { code: code.number(), name: code.name().to_owned(), message })
    }

    /// That of a request which the protocol has and this server does not.
    pub(super) fn unknown() -> Self {
        Failure::new(ErrorCode::CommandNotFound, "this server does not execute such requests")
    }

    /// That of a request that has panicked.
    pub(super) fn bug() -> Self {
        let message = "the request failed in a way that is a bug in the server; its log says where";
        Failure::new(ErrorCode::InternalError, message)
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
