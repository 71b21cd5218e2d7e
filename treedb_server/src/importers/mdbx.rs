//! Reading libmdbx databases.

use std::borrow::Cow;
use std::path::Path;

use libmdbx::{Database, DatabaseOptions, Mode, NoWriteMap, TableFlags};

use super::{MAIN, MOST_TABLES, Sink, named};
use crate::cli::Failure;

type Bytes<'t> = Cow<'t, [u8]>;

pub(super) fn walk(path: &Path, sink: &mut dyn Sink) -> Result<(), Failure> {
    if path.is_dir() && !path.join("mdbx.dat").is_file() {
        return Err(Failure("holds no MDBX database: there is no mdbx.dat".into()));
    }
    let options = DatabaseOptions {
        // More than libmdbx itself has.
        max_tables: Some(u64::from(MOST_TABLES / 4)),
        no_sub_dir: path.is_file(),
        mode: Mode::ReadOnly,
        ..DatabaseOptions::default()
    };
    let database = Database::<NoWriteMap>::open_with_options(path, options)?;
    let txn = database.begin_ro_txn()?;
    let main = txn.open_table(None)?;
    let (mut opened, mut plain) = (Vec::new(), 0);
    for entry in txn.cursor(&main)?.iter_start::<Bytes<'_>, Bytes<'_>>() {
        let (key, value) = entry?;
        // A value that only looks like a record belongs to no table.
        match named(&key, &value).map(|name| (txn.open_table(Some(&name)), name)) {
            Some((Ok(table), name)) => opened.push((name, table)),
            _ => plain += 1,
        }
    }
    let mut total = plain;
    for (_, table) in &opened {
        total += txn.table_stat(table)?.entries() as u64;
    }
    sink.expect(total);
    if plain > 0 {
        sink.table(MAIN, txn.table_flags(&main)?.contains(TableFlags::DUP_SORT))?;
        for entry in txn.cursor(&main)?.iter_start::<Bytes<'_>, Bytes<'_>>() {
            let (key, value) = entry?;
            if !opened.iter().any(|(name, _)| name.as_bytes() == &*key) {
                sink.entry(&key, &value)?;
            }
        }
    }
    for (name, table) in &opened {
        sink.table(name, txn.table_flags(table)?.contains(TableFlags::DUP_SORT))?;
        for entry in txn.cursor(table)?.iter_start::<Bytes<'_>, Bytes<'_>>() {
            let (key, value) = entry?;
            sink.entry(&key, &value)?;
        }
    }
    Ok(())
}
