//! The error of a store: everything that can go wrong between the disk and the key/value API.
//!
//! It is defined here, below the stores, because the query layer wraps it and depends on no store.

use std::path::{Path, PathBuf};

/// What a store returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the storage engine. Every variant says what happened, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{op} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// The operation, in the words of the system call: `open`, `write`, `fdatasync`.
        op: &'static str,
        /// The file it was asked of.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// Bytes on disk are not what was written there.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
    /// Another process has this directory open.
    #[error("{} is in use by process {pid}: stop it, or open another directory", dir.display())]
    InUse {
        /// The database directory.
        dir: PathBuf,
        /// The process that holds its lock.
        pid: u32,
    },
    /// An earlier write or flush failed; nothing more is written until the database is opened again.
    #[error(
        "writes are refused since an earlier failure ({reason}): close and reopen the database to recover"
    )]
    Poisoned {
        /// The failure that poisoned the database.
        reason: String,
    },
    /// The disk is full: nothing was written; reads still work.
    #[error("no room left on the disk for {}: free some space and try again", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The file was written by a newer TreeDB, or is not TreeDB's at all.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and found, and what to do.
        what: String,
    },
    /// The database is encrypted, and was opened without a key.
    #[error("{} is encrypted: open the database with its key", path.display())]
    Encrypted {
        /// A file of it.
        path: PathBuf,
    },
    /// The database is encrypted with another key.
    #[error("{} was encrypted with another key: open the database with its own", path.display())]
    WrongKey {
        /// A file of it.
        path: PathBuf,
    },
    /// A key was given for a database that is not encrypted.
    #[error("{} is not encrypted: open the database without a key, or copy its contents to a new one with it",
        path.display())]
    NotEncrypted {
        /// A file of it.
        path: PathBuf,
    },
    /// A key is longer than the limit.
    #[error(
        "key of {len} bytes is over the limit of {limit}: use a shorter one, and keep the rest in the value"
    )]
    KeyTooLong {
        /// Length of the key, in bytes.
        len: usize,
        /// The longest key allowed.
        limit: usize,
    },
    /// A value is longer than the limit.
    #[error("value of {len} bytes is over the limit of {limit}: store it in parts")]
    ValueTooLong {
        /// Length of the value, in bytes.
        len: u64,
        /// The longest value allowed.
        limit: u64,
    },
    /// A transaction is larger than a frame of the command log may be.
    #[error("the transaction's changes are {bytes} bytes, over the limit of {limit}: commit them in parts")]
    TransactionTooLarge {
        /// Bytes of its changes, keys and values included.
        bytes: u64,
        /// The most bytes allowed.
        limit: u64,
    },
    /// The table does not exist.
    #[error("table {name:?} does not exist: create it first")]
    NoSuchTable {
        /// Its name.
        name: String,
    },
    /// The table exists already, or exists with another kind.
    #[error("table {name:?} {what}")]
    TableMismatch {
        /// Its name.
        name: String,
        /// How it differs from what was asked.
        what: String,
    },
    /// An optimistic transaction cannot commit: another one committed a conflicting change first.
    #[error("key {:?} of table {table:?} {what}: run the transaction again", key.escape_ascii().to_string())]
    Conflict {
        /// The table's name.
        table: String,
        /// The key in it that both need, or a row's number in eight bytes, big-endian. If a range was removed,
        /// the start of that; empty if it is not known.
        key: Vec<u8>,
        /// What happened to it.
        what: &'static str,
    },
    /// The request cannot be carried out as given.
    #[error("{0}")]
    Invalid(String),
}

/// What to do about an error that concerns the path, not the device; appended to the system's message.
fn advice(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::PermissionDenied => {
            ": a database's directory and files must be readable and writable for the user: change their owner"
        }
        ErrorKind::ReadOnlyFilesystem => {
            ": opening a database writes to it, to recover: mount the file system writable, or copy the directory"
        }
        ErrorKind::IsADirectory => {
            ": a directory is where a file of the database belongs: move it away, and restore the file"
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            ": a file is where a directory of the database belongs: move it away, or open another directory"
        }
        _ => "",
    }
}

/// Where bytes are damaged, and how that was detected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged at byte {offset}{}: expected {expected}, found {found}; restore it from a backup",
    file.display(), page.map(|p| format!(" (page {p})")).unwrap_or_default())]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// The page, where the file has pages.
    pub page: Option<u64>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Error {
    /// True for a [`Conflict`](Error::Conflict): nothing was changed, and the transaction may be run again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }

    /// A file that does not begin as a file of its kind does.
    pub fn foreign(path: &Path, kind: &str, magic: &[u8]) -> Error {
        let found = String::from_utf8_lossy(magic);
        let what = format!(
            "not a {kind} of TreeDB, it begins with {found:?}: restore it from a backup, or open another directory"
        );
        Error::Format { path: path.to_path_buf(), what }
    }

    /// A file of a format that this TreeDB does not read.
    pub fn other_version(path: &Path, kind: &str, found: u32, ours: u32) -> Error {
        let what =
            format!("{kind} of format {found}, this TreeDB reads up to {ours}: use the TreeDB that wrote it");
        Error::Format { path: path.to_path_buf(), what }
    }

    /// Damage in a file that has no pages.
    pub fn damaged(file: &Path, offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: file.to_path_buf(),
            page: None,
            offset,
            expected: expected.into(),
            found: found.into(),
        }))
    }
}
