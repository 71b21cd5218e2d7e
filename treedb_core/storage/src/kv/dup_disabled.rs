//! Takes the place of `dup` in a build without the feature `dup-tables`: no store with such a table is opened and none
//! is created, so that the functions which the rest of the store calls for one only return the error.

use super::catalog::{self, Record, Table, TableKind};
use super::edit::{Edit, Outcome};
use super::reads::{Bounds, Reads};
use crate::btree::{TreeRoot, Value};
use crate::page::Pager;
use crate::{Error, Result};

fn unsupported(table: &str) -> Error {
    Error::Invalid(format!(
        "{table} has many values under a key, which this program was built without: enable the feature `dup-tables` \
         of treedb_storage"
    ))
}

/// Refuses a store that contains a dup table.
pub(super) fn check_supported(pager: &Pager, catalog: &TreeRoot) -> Result<()> {
    let _epoch = pager.enter_epoch();
    match catalog::all(pager, catalog)?.iter().find(|table| table.kind() == TableKind::Dup) {
        Some(table) => Err(unsupported(&format!("table {:?}", table.name()))),
        None => Ok(()),
    }
}

/// Refuses to create a dup table, be it for a transaction or in recovery.
pub(super) fn check_kind(kind: TableKind) -> Result<()> {
    if kind == TableKind::Dup { Err(unsupported("the table")) } else { Ok(()) }
}

pub(super) fn check_pair(_key: &[u8], _value: &[u8]) -> Result<()> {
    Err(unsupported("the table"))
}

pub(super) fn count_pages(_pager: &Pager, _record: &Record) -> Result<(u64, u64)> {
    Err(unsupported("the table"))
}

pub(super) fn check_cell(_pager: &Pager, _cell: Value<'_>) -> Result<(u64, Option<TreeRoot>)> {
    Err(unsupported("the table"))
}

pub(super) fn for_each_pair(
    _read: &impl Reads,
    table: &Table,
    _visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    Err(unsupported(table.name()))
}

/// How far the value trees of a table have been walked: there are none.
#[derive(Default)]
pub(super) struct ValueTreePosition;

impl Edit<'_> {
    pub(super) fn put_pair(&mut self, _id: u32, _key: &[u8], _value: &[u8]) -> Result<Outcome> {
        Err(unsupported("the table"))
    }

    pub(super) fn delete_pair(&mut self, _id: u32, _key: &[u8], _value: &[u8]) -> Result<Outcome> {
        Err(unsupported("the table"))
    }

    pub(super) fn delete_values(&mut self, _id: u32, _record: Record, _key: &[u8]) -> Result<Outcome> {
        Err(unsupported("the table"))
    }

    pub(super) fn free_values_in(&mut self, _record: &mut Record, _bounds: Bounds<'_>) -> Result<()> {
        Err(unsupported("the table"))
    }

    pub(super) fn relocate_value_trees(
        &mut self,
        _id: u32,
        _from: ValueTreePosition,
    ) -> Result<(u64, Option<ValueTreePosition>)> {
        Ok((0, None))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::{Options, Store};
    use super::*;
    use crate::disk::SimDisk;

    fn open(disk: &SimDisk) -> Result<Store> {
        let mut options = Options::default();
        (options.disk, options.background, options.max_bytes) = (Arc::new(disk.clone()), false, 16 << 20);
        Store::open_with(Path::new("/data/store"), options)
    }

    fn is_refused<T>(result: Result<T>) -> bool {
        matches!(result, Err(Error::Invalid(text)) if text.contains("`dup-tables`"))
    }

    #[test]
    fn a_dup_table_is_not_created() {
        let store = open(&SimDisk::new()).unwrap();
        let mut txn = store.begin_write().unwrap();
        assert!(is_refused(txn.create_table("tags", TableKind::Dup)));
        txn.create_table("films", TableKind::Ordered).unwrap();
        txn.commit().unwrap();
        assert_eq!(store.begin_read().unwrap().tables().unwrap().len(), 1);
    }

    #[test]
    fn a_store_whose_catalog_has_a_dup_table_is_not_opened() {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        // Another build made it.
        store
            .inner
            .run_maintenance(|edit| {
                let mut sink = edit.pager.writer(&mut edit.writer.alloc);
                catalog::create(&mut sink, &mut edit.writer.catalog, 1, TableKind::Dup, "tags")
            })
            .unwrap();
        store.close().unwrap();
        assert!(is_refused(open(&disk)));
    }

    #[test]
    fn a_store_whose_log_creates_a_dup_table_is_not_opened() {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        let mut frame = vec![super::super::command::FORMAT];
        super::super::command::Command::Create { table: 1, kind: TableKind::Dup, name: "tags" }
            .encode(&mut frame);
        store.inner.log.append(&frame, crate::wal::Sync::Relaxed).unwrap();
        let disk = disk.crash(crate::disk::crash::Crash::Everything);
        assert!(is_refused(open(&disk)));
    }
}
