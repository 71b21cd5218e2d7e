//! [`BuildSlice`]: a part of an index build.
//!
//! A build proceeds in slices, and a slice is written in several short transactions, so that other writers can proceed. The
//! catalog has the index and how far its build is, so that every change of a row maintains it meanwhile, and a crash loses one
//! slice at most.

use std::sync::{Arc, Mutex};

use treedb_query::error::Result;
use treedb_query::index::Definition;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt;
use treedb_storage::{Durability, ReadTxn};

use crate::catalog::meta::{BUILT, IndexFlags, IndexMeta, Meta, drop_index_tables};
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
        let Some(target) = meta.indexes.get_mut(index) else { return Ok(()) };
        target.flags = target.flags.union(flags);
        target.building = next.or(Some(BUILT));
        let def = target.def.clone();
        match (next, def) {
            (Some(_), _) => {}
            (None, Definition::Vector(def)) => return self.finish_search_index(&def),
            (None, def) => self.finish_ordered(index, &def)?,
        }
        let meta = Arc::make_mut(&mut self.meta);
        meta.sort_indexes();
        self.catalog.write(self.txn, meta)
    }

    /// Makes an ordered index ready, which has been built.
    fn finish_ordered(&mut self, index: usize, def: &Definition) -> Result<()> {
        let meta = Arc::make_mut(&mut self.meta);
        let Some(target) = meta.indexes.get_mut(index) else { return Ok(()) };
        target.building = None;
        let id = target.id;
        // One that was rebuilt has not been created now.
        if meta.indexes.iter().all(|other| other.id == id || other.def.name() != def.name()) {
            self.record_index(Defined::CreateIndexes, def)?;
        }
        // An index that replaces another one does so in the transaction that makes it ready. Where collation keys have another version
        // there is more to be changed with it.
        self.remove_indexes(|other| other.def.name() == def.name() && other.id < id && !other.is_outdated())?;
        Ok(())
    }

    /// Makes a search index ready, if all of its fields that have to be built are: those of `def`. It takes the place of the one that there was, of which
    /// the fields stay that have the same graph.
    pub(crate) fn finish_search_index(&mut self, def: &VectorDef) -> Result<()> {
        let meta = Arc::make_mut(&mut self.meta);
        let mut own = meta.indexes.iter().filter(|index| index.is_of_search_index(&def.name));
        if own.all(|index| matches!(index.building, None | Some(BUILT))) {
            // Those that were not built have a graph already.
            let mut fields = def.all_fields();
            for built in meta.indexes.iter().filter(|index| index.building.is_some()) {
                let own = built.def.as_vector().filter(|own| own.name == def.name);
                fields.retain(|field| own.is_none_or(|own| own.path != field.path));
            }
            let (mut removed, mut before) = (Vec::new(), None);
            for index in meta.indexes.iter_mut().filter(|index| index.is_of_search_index(&def.name)) {
                let (id, Some(own)) = (index.id, index.def.as_vector_mut()) else { continue };
                if index.building.take().is_some() {
                    continue;
                }
                before = Some(own.clone());
                match fields.iter().find(|field| field.is_same_graph(own)) {
                    Some(field) => *own = field.clone(),
                    None => removed.push(id),
                }
            }
            self.remove_indexes(|index| removed.contains(&index.id))?;
            // One that was built anew has not been changed now.
            if before.as_ref().is_none_or(|before| before.spec() != def.spec()) {
                if let Some(before) = before {
                    self.record_index(Defined::DropIndexes, &Definition::Vector(before))?;
                }
                self.record_index(Defined::CreateIndexes, &Definition::Vector(def.clone()))?;
            }
        }
        let meta = Arc::make_mut(&mut self.meta);
        meta.sort_indexes();
        self.catalog.write(self.txn, meta)
    }

    /// Records that the ready search index of this name is dropped, if there is one.
    pub(crate) fn record_dropped_search_index(&mut self, name: &str) -> Result<()> {
        let mut own = self.meta.indexes.iter().filter(|index| index.is_of_search_index(name));
        match own.find(|index| index.building.is_none()).map(|index| index.def.clone()) {
            Some(def) => self.record_index(Defined::DropIndexes, &def),
            None => Ok(()),
        }
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
