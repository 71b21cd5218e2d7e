//! The engine's error: one enum for everything from the disk up to the key/value API.
//!
//! Query and document errors (bad filter, duplicate key) have their own enum in [`crate::query`], with
//! MongoDB's codes; it wraps this one.

use std::path::{Path, PathBuf};

/// What the layers up to `kv` return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the storage engine. Every variant says what happened, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{op} {}: {source}", path.display())]
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
    /// The disk is full: the write was not done; reads go on.
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
    /// A key is longer than the limit.
    #[error("key of {len} bytes is over the limit of {limit}")]
    KeyTooLong {
        /// Length of the key, in bytes.
        len: usize,
        /// The longest key allowed.
        limit: usize,
    },
    /// A value is longer than the limit.
    #[error("value of {len} bytes is over the limit of {limit}")]
    ValueTooLong {
        /// Length of the value, in bytes.
        len: u64,
        /// The longest value allowed.
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
    /// The request cannot be carried out as given.
    #[error("{0}")]
    Invalid(String),
}

/// Where bytes were damaged, and how that was seen.
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
    /// Damage in a file that has no pages.
    pub(crate) fn damaged(
        file: &Path,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: file.to_path_buf(),
            page: None,
            offset,
            expected: expected.into(),
            found: found.into(),
        }))
    }
}
