//! The changes that a transaction has made to one collection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::index::{IndexChange, Pending};
use treedb_query::access::{IndexInfo, RowId};
use treedb_query::index::Definition;
use treedb_query::index::ordered::IndexDef;

use super::catalog::NewCollection;

/// The first temporary id for rows that the transaction inserts, above all real ids. The rows get their real ids when the
/// transaction commits.
pub(super) const FIRST_NEW_ROW: u64 = 1 << 62;

/// A change of a document.
#[derive(Debug)]
pub(super) enum Op {
    /// The row has a temporary id.
    Insert(RowId, RawDocumentBuf),
    /// `whole`: a replacement by a whole document, not an update.
    Replace {
        row: RowId,
        document: RawDocumentBuf,
        whole: bool,
    },
    Delete(RowId),
}

impl Op {
    /// The row, by its temporary id if the transaction has inserted it.
    pub(super) fn row(&self) -> RowId {
        match self {
            Op::Insert(row, _) | Op::Replace { row, .. } | Op::Delete(row) => *row,
        }
    }
}

/// The changes of one collection.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(super) namespace: Namespace,
    /// The collection in the snapshot, if it exists there.
    pub(super) base: Option<Arc<Meta>>,
    /// What the transaction creates explicitly; `None` if it only writes to the collection.
    pub(super) created: Option<NewCollection>,
    /// Its indexes in the transaction.
    pub(super) infos: Vec<IndexInfo>,
    /// Documents that the transaction inserted or changed; `None` if deleted.
    pub(super) rows: BTreeMap<u64, Option<RawDocumentBuf>>,
    /// The changed entries of each index, in the order of `infos`.
    pub(super) pending: Vec<Pending>,
    /// Rows that were written without regard to the validator.
    pub(super) unvalidated: BTreeSet<u64>,
    next: u64,
    /// Rows inserted minus rows deleted.
    pub(super) row_delta: i64,
}

impl Overlay {
    pub(super) fn new(namespace: Namespace, base: Option<Arc<Meta>>) -> Self {
        let infos = match &base {
            Some(meta) => meta.infos.clone(),
            None => vec![IndexInfo::new(Definition::id(), false)],
        };
        let pending = infos.iter().map(|_| Pending::default()).collect();
        Overlay {
            namespace,
            base,
            created: None,
            infos,
            rows: BTreeMap::new(),
            pending,
            unvalidated: BTreeSet::new(),
            next: FIRST_NEW_ROW,
            row_delta: 0,
        }
    }

    /// The changes of a collection that the transaction creates.
    pub(super) fn of_created(namespace: Namespace, created: NewCollection) -> Self {
        let mut id = IndexDef::id();
        id.options.collation = created.collation.clone();
        let infos = vec![IndexInfo::new(Definition::Ordered(id), false)];
        Overlay { infos, created: Some(created), ..Overlay::new(namespace, None) }
    }

    /// Adds an index to a collection that has no documents.
    pub(super) fn add_index(&mut self, def: Definition) {
        self.infos.push(IndexInfo::new(def, false));
        self.pending.push(Pending::default());
    }

    /// True if the transaction changes neither the collection nor its documents.
    pub(super) fn is_unchanged(&self) -> bool {
        self.rows.is_empty() && self.created.is_none()
    }

    /// A temporary id for a new row.
    pub(super) fn new_row(&mut self) -> RowId {
        let row = self.next;
        self.next += 1;
        RowId(row)
    }

    /// Applies the changes of the indexes for `row`; returns the bytes they take.
    pub(super) fn apply(&mut self, row: RowId, changes: Vec<IndexChange>) -> usize {
        let mut bytes = 0;
        for ((info, pending), change) in self.infos.iter_mut().zip(&mut self.pending).zip(changes) {
            info.multikey |= change.multikey;
            bytes += pending.apply(row, change);
        }
        bytes
    }
}
