//! [`BuildSlice`]: a part of an index build.
//!
//! A build proceeds in slices, and a slice is written in several short transactions, so that other writers can proceed. The
//! catalog has the index and how far its build is, so that every change of a row maintains it meanwhile, and a crash loses one
//! slice at most.

use std::sync::{Arc, Mutex};

use treedb_query::error::Result;
use treedb_query::query::interrupt;
use treedb_storage::{Durability, ReadTxn};

use crate::catalog::meta::{IndexFlags, IndexMeta, Meta, drop_index_tables};
use crate::catalog::namespace::Namespace;
use crate::changes::Defined;
use crate::database::Database;
use crate::write::edit::Edit;

/// The state of a build after a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There are more rows to read.
    More,
    /// The index is ready.
    Ready,
    /// The index was dropped meanwhile.
    Dropped,
}

/// Where the next slice of a build begins.
pub(crate) struct BuildSlice<'b> {
    pub(crate) db: &'b Database,
    pub(crate) namespace: &'b Namespace,
    /// The index.
    pub(crate) id: i64,
    /// A snapshot that has the index in the catalog, so that every later change of a row maintains the index.
    pub(crate) reads: Arc<Mutex<ReadTxn>>,
    /// The collection in the snapshot.
    pub(crate) meta: Arc<Meta>,
    /// The first row to read.
    pub(crate) from: u64,
}

impl BuildSlice<'_> {
    /// Runs `work` in a transaction with the present position of the index; `None` if it was dropped.
    ///
    /// # Errors
    /// Those of `work`; `Interrupted`, if the build was.
    pub(crate) fn edit<T>(&self, work: impl FnOnce(&mut Edit<'_>, usize) -> Result<T>) -> Result<Option<T>> {
        interrupt::check()?;
        let done = self.db.edit(self.namespace, false, Some(Durability::Relaxed), |edit| {
            match building(&edit.meta, self.id) {
                Some((index, Some(_))) => work(edit, index).map(Some),
                _ => Ok(None),
            }
        })?;
        done.ok_or_else(|| Database::namespace_not_found(self.namespace))
    }
}

/// The position of an index, and the first row that its build has not read; `None` if it is ready.
pub(crate) fn building(meta: &Meta, id: i64) -> Option<(usize, Option<u64>)> {
    let index = meta.indexes.iter().position(|index| index.id == id)?;
    Some((index, meta.indexes.get(index)?.building))
}

impl Edit<'_> {
    /// Stores in the catalog that the build of an index has read all rows before `next`, all of them if it is `None`, and the flags
    /// that their entries require.
    pub(crate) fn finish_slice(&mut self, index: usize, flags: IndexFlags, next: Option<u64>) -> Result<()> {
        let meta = Arc::make_mut(&mut self.meta);
        if let Some(target) = meta.indexes.get_mut(index) {
            target.flags = target.flags.union(flags);
            target.building = next;
            let (id, def) = (target.id, target.def.clone());
            // One that was rebuilt has not been created now.
            let is_new = meta.indexes.iter().all(|other| other.id == id || other.def.name() != def.name());
            if next.is_none() && is_new {
                self.record_index(Defined::CreateIndexes, &def)?;
            }
            // An index that replaces another one does so in the transaction that makes it ready. Where collation keys have another version
            // there is more to be changed with it.
            if next.is_none() {
                self.remove_indexes(|other| {
                    other.def.name() == def.name() && other.id < id && !other.is_outdated()
                })?;
            }
        }
        let meta = Arc::make_mut(&mut self.meta);
        meta.sort_indexes();
        self.catalog.write(self.txn, meta)
    }

    /// Removes every index that is meant and its entries. False if there is none.
    pub(crate) fn remove_indexes(&mut self, is_meant: impl Fn(&IndexMeta) -> bool) -> Result<bool> {
        if !self.meta.indexes.iter().any(&is_meant) {
            return Ok(false);
        }
        let meta = Arc::make_mut(&mut self.meta);
        for removed in meta.indexes.extract_if(.., |index| is_meant(index)) {
            drop_index_tables(self.txn, meta.id, removed.id)?;
        }
        meta.sort_indexes();
        self.catalog.write(self.txn, meta)?;
        Ok(true)
    }
}
