//! What to do about the failures that people run into first: directories, ports, servers that are not there.

use std::io::ErrorKind;
use std::path::Path;

use treedb_collections::{Error, QueryError};

use super::Failure;
use crate::client;
use crate::server::ServeError;

/// A database directory that does not open.
pub(super) fn directory(dir: &Path, error: &QueryError) -> Failure {
    let told = error.message.as_str();
    let dir = dir.display();
    let Some(Error::Io { source, .. }) = error.source.as_deref() else {
        return Failure(told.to_owned());
    };
    Failure(match source.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::ReadOnlyFilesystem => format!("{told}: name a directory with --dir"),
        ErrorKind::NotFound => {
            format!("{told}: {dir} cannot be made there: name another directory with --dir")
        }
        _ => told.to_owned(),
    })
}

/// A server that does not start, or does not stop cleanly.
pub(super) fn server(dir: &Path, error: &ServeError) -> Failure {
    match error {
        ServeError::Database(error) => directory(dir, error),
        ServeError::Listen { door, source, .. } => Failure(match source.kind() {
            ErrorKind::AddrInUse => format!(
                "{error}: another program listens there: stop it, or name another port with --{door} HOST:PORT \
                 (port 0 lets the system choose)"
            ),
            ErrorKind::PermissionDenied => {
                format!(
                    "{error}: ports below 1024 are for privileged users: name another with --{door} HOST:PORT"
                )
            }
            _ => error.to_string(),
        }),
        other => Failure(other.to_string()),
    }
}

/// A native port that does not answer.
pub(super) fn connection(address: &str, error: &client::Error) -> Failure {
    let told = format!("{address}: {error}");
    let client::Error::Io { source, .. } = error else { return Failure(told) };
    Failure(match source.kind() {
        ErrorKind::ConnectionRefused => {
            format!("{told}: no server listens there: start one with treedb serve --native {address}")
        }
        ErrorKind::InvalidInput => format!("{told}: expected HOST:PORT, such as 127.0.0.1:27117"),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            format!(
                "{told}: is it the native port (treedb serve --native), and not the one of MongoDB's drivers?"
            )
        }
        _ => told,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_may_not_be_written_is_told_with_what_to_do() {
        let source = std::io::Error::from(ErrorKind::PermissionDenied);
        let error = Error::Io { op: "open", path: "data/LOCK".into(), source };
        let told = directory(Path::new("data"), &error.into()).0;
        assert!(
            told.starts_with("open data/LOCK: permission denied: a database's directory and files must be"),
            "{told}"
        );
        assert!(told.ends_with("--dir"), "{told}");
    }
}
