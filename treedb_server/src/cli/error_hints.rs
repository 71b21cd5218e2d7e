//! Hints for the most common failures: directories, ports, servers that do not run.

use std::io::ErrorKind;
use std::path::Path;

use treedb_collections::{Error, QueryError};

use super::Failure;
use super::mongo_client::Uri;
use crate::server::ServeError;

/// How a key is named.
const KEY: &str =
    "--key-file FILE (for treedb serve also TREEDB_KEY_FILE, or key_file in its configuration file)";

/// A database directory that does not open.
pub(super) fn directory(dir: &Path, error: &QueryError) -> Failure {
    let message = error.message.as_str();
    let dir = dir.display();
    let source = match error.source.as_deref() {
        Some(Error::Io { source, .. }) => source,
        Some(Error::Encrypted { .. } | Error::WrongKey { .. }) => {
            return Failure(format!("{message}: name the file that it is in with {KEY}"));
        }
        Some(Error::NotEncrypted { .. }) => return Failure(format!("{message}: leave out {KEY}")),
        _ => return Failure(message.to_owned()),
    };
    Failure(match source.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::ReadOnlyFilesystem => format!("{message}: use another directory with --dir"),
        ErrorKind::NotFound => {
            format!("{message}: {dir} cannot be created: use another directory with --dir")
        }
        _ => message.to_owned(),
    })
}

/// A server that does not start, or does not stop cleanly.
pub(super) fn server(dir: &Path, error: &ServeError) -> Failure {
    match error {
        ServeError::Database(error) => directory(dir, error),
        ServeError::Listen { door, source, .. } => Failure(match source.kind() {
            ErrorKind::AddrInUse => format!(
                "{error}: another program uses the port: stop it, or choose another port with --{door} HOST:PORT \
                 (port 0 lets the system choose)"
            ),
            ErrorKind::PermissionDenied => {
                format!(
                    "{error}: ports below 1024 are reserved for privileged users: choose another with --{door} HOST:PORT"
                )
            }
            _ => error.to_string(),
        }),
        other => Failure(other.to_string()),
    }
}

/// A native port that cannot be connected to.
pub(super) fn connection(address: &str, error: &treedb_client::Error) -> Failure {
    let message = format!("{address}: {error}");
    let treedb_client::Error::Io { source, .. } = error else { return Failure(message) };
    Failure(match source.kind() {
        ErrorKind::ConnectionRefused => {
            format!(
                "{message}: no server listens on that port: start one with treedb serve --native {address}"
            )
        }
        ErrorKind::InvalidInput => format!("{message}: expected HOST:PORT, such as 127.0.0.1:27117"),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            format!(
                "{message}: is it the native port (treedb serve --native), and not the one of MongoDB's drivers?"
            )
        }
        _ => message,
    })
}

const NO_TLS: &str = ": what listens there does not speak TLS: leave out tls and tlsCAFile, or give the server --tls-certificate";

/// TLS with a server that could not begin.
pub(super) fn tls(at: &Uri, error: &treedb_client::Error, authority: &Path) -> Failure {
    let message = format!("{at}: {error}");
    let treedb_client::Error::Io { source, .. } = error else { return Failure(message) };
    let hint = match source.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            ": the server's certificate has to be certified by one in {} (tlsCAFile), and be for the host that the URI names",
            authority.display()
        ),
        Some(rustls::Error::InvalidMessage(_)) => NO_TLS.to_owned(),
        _ if source.kind() == ErrorKind::UnexpectedEof => NO_TLS.to_owned(),
        _ => String::new(),
    };
    Failure(message + &hint)
}

/// A command that got no reply from a server of MongoDB's protocol; `first`: none that was sent before it did.
pub(super) fn exchange(at: &Uri, error: &std::io::Error, first: bool) -> Failure {
    let closed =
        matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    Failure(match (closed, first) {
        (true, true) if !at.is_through_tls() => format!(
            "{at}: the server has closed the connection: if it asks for TLS, add ?tlsCAFile=FILE to the URI"
        ),
        (true, _) => format!("{at}: the server has closed the connection"),
        (false, _) => format!("{at}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_of_the_key_is_called_as_the_error_calls_it() {
        let row = crate::settings::TABLE.iter().find(|row| row.name == "key_file").unwrap();
        for name in [format!("--{} FILE", row.flag()), row.variable(), row.name.to_owned()] {
            assert!(KEY.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_error_of_a_directory_without_write_permission_has_a_hint() {
        let source = std::io::Error::from(ErrorKind::PermissionDenied);
        let error = Error::Io { op: "open", path: "data/LOCK".into(), source };
        let message = directory(Path::new("data"), &error.into()).0;
        assert!(
            message
                .starts_with("open data/LOCK: permission denied: a database's directory and files must be"),
            "{message}"
        );
        assert!(message.ends_with("--dir"), "{message}");
    }
}
