//! Indexes of every kind: what a change of a document does to one, and what one answers.
//!
//! [`IndexKind`] is all that the rest of this package knows of a kind. It is implemented by the kind's definition, and
//! [`by_kind`] calls it: catalog, edits, bulk inserts, index builds, checks, transactions and the change log do nothing to an index
//! but by this trait. An entry of an index is bytes of the kind's making, and a row.
//!
//! | file | what it holds |
//! |---|---|
//! | [`ordered`] | keys in order |
//! | [`vector`] | vectors, in a graph |
//! | `change` | [`IndexChange`]: the entries that a row gains and loses |
//! | `pending` | [`Pending`]: the entries that an open transaction has added and removed |
//! | `build` | [`BuildSlice`]: a part of an index build |

mod build;
mod change;
pub(crate) mod ordered;
mod pending;
mod vector;

use std::collections::BTreeSet;

use bson::RawDocument;

use treedb_query::access::{Among, Compared, KeyRange, Probe, RowId};
use treedb_query::error::Result;
use treedb_storage::{Reads, SharedReadTxn, Table, TableKind, WriteTxn};

use self::vector::KnownCentre;
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta};
use crate::read::view::View;

pub(crate) use build::{BuildSlice, Progress, building};
pub(crate) use change::{EntryList, Holder, IndexChange, Versions, index_changes};
pub(crate) use pending::{Pending, Uncommitted};
pub use vector::VectorMemory;
pub(crate) use vector::{Asks, Images, NearestRows, log_writing};

/// Evaluates an expression with the definition of an index bound to a name, whatever the index's kind: the table of all kinds.
macro_rules! by_kind {
    ($definition:expr, $kind:ident => $call:expr) => {
        match $definition {
            treedb_query::index::Definition::Ordered($kind) => $call,
            treedb_query::index::Definition::Vector($kind) => $call,
        }
    };
}
pub(crate) use by_kind;

/// A kind of index.
pub(crate) trait IndexKind {
    /// The kind of the table that an index is in.
    fn table_kind(&self) -> TableKind;

    /// The entries that a row gains and loses when its document changes.
    ///
    /// # Errors
    /// Those of a document that cannot be indexed: `DuplicateKey` if `holder` knows another row for an entry that is to be
    /// unique.
    fn difference(&self, versions: &Versions<'_>, holder: &Holder<'_>) -> Result<IndexChange>;

    /// Applies the change of a row to an index of a collection, which may be one that is being built and have only some of the entries.
    /// The row is as it is after the change. Returns the flags that the index requires now.
    fn apply(
        &self,
        txn: &mut WriteTxn,
        meta: &Meta,
        index: &IndexMeta,
        row: RowId,
        change: IndexChange,
    ) -> Result<IndexFlags>;

    /// The row that has an entry, in an index of unique entries.
    fn holder(&self, reads: &impl Reads, table: &Table, entry: &[u8]) -> Result<Option<RowId>>;

    /// What an index will have of documents that are to be inserted; `None` if it would refuse one of them.
    fn prepare(
        &self,
        txn: &WriteTxn,
        table: &Table,
        documents: &[&RawDocument],
    ) -> Result<Option<Box<dyn Prepared>>>;

    /// Adds the next rows to an index that is being built. Calls `on_progress` with the number of rows done in each step.
    fn build(&self, slice: &BuildSlice<'_>, on_progress: &mut dyn FnMut(u64)) -> Result<Progress>;

    /// Checks what can be of an index by a row, and adds to `required` what it has to have of it.
    ///
    /// # Errors
    /// What is wrong with the index.
    fn check_row(
        &self,
        view: &View<'_, SharedReadTxn>,
        index: &IndexMeta,
        row: RowId,
        document: &RawDocument,
        required: &mut Required,
    ) -> Result<(), Mismatch>;

    /// Ranges of keys that have all entries of an index, about `parts` of them, each of which can be checked by itself.
    fn check_parts(&self, view: &View<'_, SharedReadTxn>, parts: usize) -> Result<Vec<KeyRange>>;

    /// Checks that the entries of one of these ranges belong to rows; returns their number. `required` is what all rows require.
    ///
    /// # Errors
    /// What is wrong with the index.
    fn check_entries(
        &self,
        view: &View<'_, SharedReadTxn>,
        index: &IndexMeta,
        keys: &KeyRange,
        required: &Required,
    ) -> Result<u64, Mismatch>;

    /// Checks that none of `required` is missing, of an index that has so many entries, all of which belong to rows.
    ///
    /// # Errors
    /// What is wrong with the index.
    fn check_count(&self, index: &IndexMeta, entries: u64, required: &Required) -> Result<(), Mismatch>;

    /// Answers a query; `index` is the position of the index.
    ///
    /// # Errors
    /// [`Probe::refused`]; those of `probe`'s callback.
    fn walk(&self, view: &View<'_, impl Reads>, index: usize, table: &Table, probe: Probe<'_>) -> Result<()>;

    /// See [`Source::nearest_among`](treedb_query::access::Source::nearest_among): `None` of an index that is not of vectors.
    ///
    /// # Errors
    /// Those of a damaged index.
    fn nearest_among(
        &self,
        view: &View<'_, impl Reads>,
        table: &Table,
        vector: &[f32],
        among: &Among<'_>,
        visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
    ) -> Result<Option<Compared>> {
        let _ = (view, table, vector, among, visit);
        Ok(None)
    }

    /// [`Self::walk`] in an open transaction that has changed the collection. `base` is the collection in the snapshot, if it
    /// exists there.
    fn walk_uncommitted(
        &self,
        base: Option<&View<'_, impl Reads>>,
        index: usize,
        uncommitted: &Uncommitted<'_>,
        probe: Probe<'_>,
    ) -> Result<()>;
}

/// What an index will have of documents that are to be inserted.
pub(crate) trait Prepared {
    /// Writes it to an index of a collection that has the documents already, in these `rows`; returns the flags that the index requires then.
    fn write(&self, txn: &mut WriteTxn, meta: &Meta, index: &IndexMeta, rows: &[RowId])
    -> Result<IndexFlags>;
}

/// What rows require of an index.
#[derive(Debug, Default)]
pub(crate) struct Required {
    /// The number of its entries, if it is an ordered one.
    pub(crate) entries: u64,
    /// Its nodes, if it is one of vectors.
    pub(crate) nodes: BTreeSet<u64>,
    /// What its codes are about, if it is one of vectors: read once, for the rows that one thread checks.
    centre: KnownCentre,
}

impl Required {
    /// What other rows require too.
    pub(crate) fn add(&mut self, mut other: Required) {
        self.entries += other.entries;
        self.nodes.append(&mut other.nodes);
    }
}

/// Why a check ends.
pub(crate) enum Mismatch {
    /// The index is not what the rows require.
    Found(String),
    /// The check could not go on.
    Failed(treedb_query::QueryError),
}

impl<E: Into<treedb_query::QueryError>> From<E> for Mismatch {
    fn from(error: E) -> Self {
        Mismatch::Failed(error.into())
    }
}
