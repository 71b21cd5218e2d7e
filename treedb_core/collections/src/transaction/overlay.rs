//! The changes that a transaction has made to one collection.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::write::change::IndexChange;
use treedb_query::access::{Direction, IndexInfo, KeyRange, RowId};
use treedb_query::index::ordered::IndexDef;

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

/// An index entry.
pub(super) type Entry = (Vec<u8>, RowId);

/// The entries added to and removed from one index.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    pub(super) added: BTreeSet<Entry>,
    pub(super) removed: BTreeSet<Entry>,
}

impl Entries {
    /// The added entries in `range` after `after`, in order of `direction`.
    pub(super) fn walk<'e>(
        &'e self,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
    ) -> Box<dyn Iterator<Item = &'e Entry> + 'e> {
        let mut low = Bound::Included((range.low.clone(), RowId(0)));
        let mut high = match &range.high {
            Some(high) => Bound::Excluded((high.clone(), RowId(0))),
            None => Bound::Unbounded,
        };
        if let Some((key, row)) = after {
            let last = Bound::Excluded((key.to_vec(), row));
            match direction {
                Direction::Forward => low = last,
                Direction::Backward => high = last,
            }
        }
        // `BTreeSet::range` panics if the bounds are in the wrong order.
        let empty = match (&low, &high) {
            (Bound::Included(low), Bound::Excluded(high)) => low >= high,
            (Bound::Excluded(low), Bound::Excluded(high)) => low >= high,
            _ => false,
        };
        if empty {
            return Box::new(std::iter::empty());
        }
        let walk = self.added.range((low, high));
        match direction {
            Direction::Forward => Box::new(walk),
            Direction::Backward => Box::new(walk.rev()),
        }
    }

    /// The row to which the transaction has added a key.
    pub(super) fn holder(&self, key: &[u8]) -> Option<RowId> {
        let from = (key.to_vec(), RowId(0));
        self.added.range(from..).next().filter(|(found, _)| found == key).map(|(_, row)| *row)
    }
}

/// The changes of one collection.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(super) namespace: Namespace,
    /// The collection in the snapshot, if it exists there.
    pub(super) base: Option<Arc<Meta>>,
    /// Its indexes in the transaction.
    pub(super) infos: Vec<IndexInfo>,
    /// Documents that the transaction inserted or changed; `None` if deleted.
    pub(super) rows: BTreeMap<u64, Option<RawDocumentBuf>>,
    /// The changed entries, in the order of `infos`.
    pub(super) entries: Vec<Entries>,
    next: u64,
    /// Rows inserted minus rows deleted.
    pub(super) row_delta: i64,
}

impl Overlay {
    pub(super) fn new(namespace: Namespace, base: Option<Arc<Meta>>) -> Self {
        let infos = match &base {
            Some(meta) => meta.infos.clone(),
            None => vec![IndexInfo { def: IndexDef::id(), multikey: false, ordered: true }],
        };
        let entries = infos.iter().map(|_| Entries::default()).collect();
        Overlay { namespace, base, infos, rows: BTreeMap::new(), entries, next: FIRST_NEW_ROW, row_delta: 0 }
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
        for ((info, entries), change) in self.infos.iter_mut().zip(&mut self.entries).zip(changes) {
            info.multikey |= change.multikey;
            for key in change.remove {
                let entry = (key, row);
                if !entries.added.remove(&entry) {
                    bytes += entry.0.len() + size_of::<Entry>();
                    entries.removed.insert(entry);
                }
            }
            for key in change.add {
                let entry = (key, row);
                if !entries.removed.remove(&entry) {
                    bytes += entry.0.len() + size_of::<Entry>();
                    entries.added.insert(entry);
                }
            }
        }
        bytes
    }
}
