//! Reading LMDB databases.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, EnvFlags, EnvOpenOptions, RoTxn};

use super::{MAIN, MOST_TABLES, Sink, named};
use crate::cli::Failure;

type Table = Database<Bytes, Bytes>;

/// The flag of tables with many values under a key, in bytes 4 and 5 of a record.
const DUPSORT: u16 = 0x04;

pub(super) fn walk(path: &Path, sink: &mut dyn Sink) -> Result<(), Failure> {
    let mut flags = EnvFlags::READ_ONLY;
    if path.is_file() {
        flags |= EnvFlags::NO_SUB_DIR;
    } else if !path.join("data.mdb").is_file() {
        return Err(Failure("holds no LMDB database: there is no data.mdb".into()));
    }
    let mut options = EnvOpenOptions::new();
    options.max_dbs(MOST_TABLES);
    // SAFETY: the environment is only read, within its own transaction, and is not opened elsewhere in this process;
    // that its files are only written through LMDB is a requirement of LMDB.
    let env = unsafe { options.flags(flags).open(path) }?;
    let txn = env.read_txn()?;
    let main: Table =
        env.open_database(&txn, None)?.ok_or_else(|| Failure("has no main table".to_owned()))?;
    let (mut tables, mut plain, mut dup, mut last) = (Vec::new(), 0, false, Vec::new());
    for entry in main.iter(&txn)? {
        let (key, value) = entry?;
        match named(key, value) {
            Some(name) => tables.push((name, u16::from_le_bytes([value[4], value[5]]) & DUPSORT != 0)),
            None => plain += 1,
        }
        // What the main table is like is not in a record; a key that comes twice tells.
        dup |= plain > 1 && last == key;
        last.clear();
        last.extend_from_slice(key);
    }
    let mut opened = Vec::new();
    for (name, dup) in tables {
        // A value that only looks like a record belongs to no table.
        match env.open_database::<Bytes, Bytes>(&txn, Some(&name)) {
            Ok(Some(table)) => opened.push((name, dup, table)),
            _ => plain += 1,
        }
    }
    let mut total = plain;
    for (_, _, table) in &opened {
        total += table.len(&txn)?;
    }
    sink.expect(total);
    if plain > 0 {
        sink.table(MAIN, dup)?;
        for entry in main.iter(&txn)? {
            let (key, value) = entry?;
            if !opened.iter().any(|(name, _, _)| name.as_bytes() == key) {
                sink.entry(key, value)?;
            }
        }
    }
    opened.iter().try_for_each(|(name, dup, table)| copy(&txn, name, *dup, *table, sink))
}

fn copy(txn: &RoTxn<'_>, name: &str, dup: bool, table: Table, sink: &mut dyn Sink) -> Result<(), Failure> {
    sink.table(name, dup)?;
    for entry in table.iter(txn)? {
        let (key, value) = entry?;
        sink.entry(key, value)?;
    }
    Ok(())
}
