//! Destroying a database, and repairing a damaged one.

use std::path::{Path, PathBuf};

use super::TABLE;
use super::db::Options;
use crate::disk::real::LOCK_FILE;
use crate::kv::backup::StagedStore;
use crate::kv::catalog::TableKind;
use crate::kv::options::Durability;
use crate::kv::reads::Reads;
use crate::kv::recover::{LOG, PAGES, VALUES, sync_parents};
use crate::kv::store::Store;
use crate::kv::write::WriteTxn;
use crate::{Error, Result};

/// Removes the database in `dir`: its files, and the directory if nothing else is in it. It is no error if there is none.
///
/// # Errors
/// `InUse` if a process has it open; `Io` from the system.
pub fn destroy(dir: impl AsRef<Path>, options: &Options) -> Result<()> {
    let (dir, disk) = (dir.as_ref(), &options.disk);
    let (pages, log) = (dir.join(PAGES), dir.join(LOG));
    if !disk.exists(dir)? || !disk.exists(&pages)? && !disk.exists(&log)? {
        return Ok(());
    }
    let lock = disk.lock(dir)?;
    // The page file first: without it, the rest is not taken for a database. The log last: it tells the next call that
    // there is something left to remove, should this one be interrupted.
    if disk.exists(&pages)? {
        disk.remove(&pages)?;
        disk.sync_dir(dir)?;
    }
    for folder in [dir.join(VALUES), log] {
        if disk.exists(&folder)? {
            for name in disk.list(&folder)? {
                disk.remove(&folder.join(name))?;
            }
            disk.remove_dir(&folder)?;
            disk.sync_dir(dir)?;
        }
    }
    drop(lock);
    let left = disk.list(dir)?;
    if left.iter().all(|name| name == LOCK_FILE) {
        for name in left {
            disk.remove(&dir.join(name))?;
        }
        disk.remove_dir(dir)?;
        sync_parents(&**disk, dir)?;
    }
    Ok(())
}

/// Makes a database that opens and can be read as a whole out of a damaged one, as far as that is possible. Whatever can
/// be read of every table, from its beginning up to the damage and from its end back to it, is copied; the damaged files
/// are kept in a directory of the same name plus `.damaged`. Returns true if something was repaired, and false, without a
/// change, if the database is not damaged. A repair that was interrupted is completed by the next call.
///
/// # Errors
/// `Corrupt` if not even the list of its tables can be read, or its log: restore a backup then. `InUse` if a process has
/// it open, `Invalid` if there is something under the names needed, `DiskFull` and `Io` from the system.
pub fn repair(dir: impl AsRef<Path>, options: &Options) -> Result<bool> {
    let dir = dir.as_ref();
    if repair_was_cut_short(dir, options)? {
        put(&beside(dir, ".repaired")?, dir, options)?;
        return Ok(true);
    }
    let store = Store::open_with(dir, options.of_store())?;
    match store.check() {
        Ok(_) => return Ok(false),
        Err(Error::Corrupt(_)) => {}
        Err(other) => return Err(other),
    }
    let (repaired, damaged) = (beside(dir, ".repaired")?, beside(dir, ".damaged")?);
    if options.disk.exists(&damaged)? {
        let text = "is in the way of the damaged files: move it";
        return Err(Error::Invalid(format!("{}: {text}", damaged.display())));
    }
    StagedStore::new(&options.of_store(), &repaired)?.fill(|copy| salvage(&store, copy))?;
    drop(store);
    // One after the other, also on the disk.
    put(dir, &damaged, options)?;
    put(&repaired, dir, options)?;
    Ok(true)
}

/// True if a repair has moved the damaged files away and not yet moved the repaired ones into place.
pub(super) fn repair_was_cut_short(dir: &Path, options: &Options) -> Result<bool> {
    let there = |dir: &Path| options.disk.exists(&dir.join(PAGES));
    Ok(dir.file_name().is_some()
        && !there(dir)?
        && there(&beside(dir, ".damaged")?)?
        && there(&beside(dir, ".repaired")?)?)
}

/// Moves a directory, durably.
fn put(from: &Path, to: &Path, options: &Options) -> Result<()> {
    options.disk.rename(from, to)?;
    sync_parents(&*options.disk, to)
}

/// The path with more at the end of its name.
fn beside(dir: &Path, more: &str) -> Result<PathBuf> {
    let name =
        dir.file_name().ok_or_else(|| Error::Invalid(format!("{} has no file name", dir.display())))?;
    let mut name = name.to_os_string();
    name.push(more);
    Ok(dir.with_file_name(name))
}

/// Entries of a transaction of the copy.
const STEP: usize = 10_000;

/// Copies what can be read of every table.
fn salvage(from: &Store, to: &Store) -> Result<()> {
    let read = from.begin_read()?;
    let mut txn = to.begin_write()?;
    txn.open_table(TABLE, TableKind::Ordered)?;
    txn.commit_with(Durability::None)?;
    for table in read.tables()? {
        let mut txn = to.begin_write()?;
        let copy = txn.open_table(table.name(), table.kind())?;
        txn.commit_with(Durability::None)?;
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        match table.kind() {
            TableKind::Ordered => {
                let put = |txn: &mut WriteTxn, (key, value): (Vec<u8>, &[u8])| txn.put(&copy, &key, value);
                copy_until_damaged(to, read.range(&table, all)?, put)?;
                copy_until_damaged(to, read.range(&table, all)?.rev(), put)?;
            }
            TableKind::Rows => {
                let put = |txn: &mut WriteTxn, (row, value): (u64, &[u8])| txn.put_row(&copy, row, value);
                copy_until_damaged(to, read.rows(&table, 0)?, put)?;
                copy_until_damaged(to, read.rows(&table, 0)?.rev(), put)?;
            }
            #[cfg(not(feature = "dup-tables"))]
            TableKind::Dup => crate::kv::dup::check_kind(TableKind::Dup)?,
            #[cfg(feature = "dup-tables")]
            TableKind::Dup => {
                let put = |txn: &mut WriteTxn, (key, value): (Vec<u8>, Vec<u8>)| {
                    txn.put_pair(&copy, &key, &value).map(|_| ())
                };
                copy_until_damaged(to, read.pairs(&table, all)?, put)?;
                copy_until_damaged(to, read.pairs(&table, all)?.rev(), put)?;
            }
        }
    }
    Ok(())
}

/// Copies entries up to the first that cannot be read.
fn copy_until_damaged<T>(
    to: &Store,
    entries: impl Iterator<Item = Result<T>>,
    put: impl Fn(&mut WriteTxn, T) -> Result<()>,
) -> Result<()> {
    let mut entries = entries.peekable();
    while entries.peek().is_some() {
        let mut txn = to.begin_write()?;
        for entry in entries.by_ref().take(STEP) {
            match entry {
                Ok(entry) => put(&mut txn, entry)?,
                Err(Error::Corrupt(_)) => return txn.commit_with(Durability::None),
                Err(other) => return Err(other),
            }
        }
        txn.commit_with(Durability::None)?;
    }
    Ok(())
}
