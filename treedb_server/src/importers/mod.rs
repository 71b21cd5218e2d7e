//! Readers of other key/value databases, for `treedb import --from` (feature `importers`).
//!
//! | file | reads |
//! |---|---|
//! | `lmdb` | LMDB, through heed |
//! | `mdbx` | libmdbx, through the crate of that name |
//! | `leveldb` | LevelDB, through rusty-leveldb |
//!
//! Each iterates over one snapshot of a database and passes all entries to a [`Sink`]. The original is not changed.

mod leveldb;
mod lmdb;
mod mdbx;

use std::path::Path;

use crate::cli::Failure;

/// The table for what has none of its own.
const MAIN: &str = "main";

/// The most tables of one database.
const MOST_TABLES: u32 = 65_536;

/// Gets a database, table by table.
pub(crate) trait Sink {
    /// Announces the number of entries to come, if that is known.
    fn expect(&mut self, entries: u64);
    /// A table begins; `dup` if it has many values under a key.
    fn table(&mut self, name: &str, dup: bool) -> Result<(), Failure>;
    /// An entry of the table that began last.
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;
}

/// Walks through the database of that kind at `path`.
pub(crate) fn walk(kind: &str, path: &Path, sink: &mut dyn Sink) -> Result<(), Failure> {
    if !path.exists() {
        return Err(Failure(format!("{}: nothing is there", path.display())));
    }
    let walk = match kind {
        "lmdb" => lmdb::walk,
        "mdbx" => mdbx::walk,
        "leveldb" => leveldb::walk,
        _ => return Err(Failure(format!("--from {kind}: this is lmdb, mdbx or leveldb"))),
    };
    walk(path, sink).map_err(|Failure(why)| Failure(format!("{}: {why}", path.display())))
}

/// The length and the first bytes of the record of a named table in the main table of LMDB and MDBX.
const RECORD: usize = 48;

/// The name of the table whose record this may be.
fn named(key: &[u8], value: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(key).ok().filter(|name| !name.is_empty() && !name.contains('\0'))?;
    (value.len() == RECORD).then(|| name.to_owned())
}
