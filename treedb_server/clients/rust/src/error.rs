//! Errors of a client.

use std::io;

use treedb_protocol::bytes::Malformed;
use treedb_protocol::error_frame::ErrorFrame;
use treedb_protocol::scram::Refused;

/// What a call of a client returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request; the connection remains usable.
    #[error(transparent)]
    Server(#[from] ErrorFrame),
    /// The request does not fit into a frame; nothing was sent.
    #[error("the request cannot be sent: {0}")]
    TooLarge(Malformed),
    /// The connection failed. It is unknown whether unanswered writes were executed.
    #[error("{op}: {source}")]
    Io {
        /// What was being done.
        op: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// The password cannot be used, or the server does not know it.
    #[error("authentication: {0}")]
    Authentication(String),
    /// What came is not the native protocol, or not a version of it that this client speaks.
    #[error("not an answer of a TreeDB server: {0}; is this the native port (`treedb serve --native`)?")]
    Protocol(String),
    /// TLS cannot be used as it was asked for.
    #[error("TLS: {0}")]
    Tls(String),
    /// An earlier failure ended this connection.
    #[error("the connection has ended ({0}): connect again")]
    Ended(String),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Authentication(refused.to_string())
    }
}

impl Error {
    /// MongoDB's number of the server's error; `None` if it was not the server that failed.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Server(error) => Some(error.code),
            _ => None,
        }
    }
}
