//! What a transaction has changed in one collection.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::write::change::IndexChange;
use treedb_query::access::{Direction, IndexInfo, KeyRange, RowId};
use treedb_query::index::ordered::IndexDef;

/// The least number of a row that the transaction inserted: above every row there can be. It gets its real number when
/// the transaction commits.
pub(super) const FIRST_NEW_ROW: u64 = 1 << 62;

/// A change of a document.
#[derive(Debug)]
pub(super) enum Op {
    /// Under a number of the transaction's own.
    Insert(RowId, RawDocumentBuf),
    /// `whole`: it was asked for as a whole, and not as changes of parts.
    Replace {
        row: RowId,
        document: RawDocumentBuf,
        whole: bool,
    },
    Delete(RowId),
}

/// An entry of an index.
pub(super) type Entry = (Vec<u8>, RowId);

/// The entries of one index that came and went.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    pub(super) added: BTreeSet<Entry>,
    pub(super) removed: BTreeSet<Entry>,
}

impl Entries {
    /// The added entries in `range`, behind `after`, in order of `direction`.
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
        // A tree refuses bounds that leave nothing.
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

    /// The row that the transaction gave a key to.
    pub(super) fn holder(&self, key: &[u8]) -> Option<RowId> {
        let from = (key.to_vec(), RowId(0));
        self.added.range(from..).next().filter(|(found, _)| found == key).map(|(_, row)| *row)
    }
}

/// The changes of one collection.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(super) namespace: Namespace,
    /// The collection in the snapshot, if it was there.
    pub(super) base: Option<Arc<Meta>>,
    /// Its indexes as the transaction has them.
    pub(super) infos: Vec<IndexInfo>,
    /// Documents the transaction inserted or changed; `None`: deleted.
    pub(super) rows: BTreeMap<u64, Option<RawDocumentBuf>>,
    /// As many as `infos`.
    pub(super) entries: Vec<Entries>,
    next: u64,
    /// Rows that came, less those that went.
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

    /// A number for a new row.
    pub(super) fn new_row(&mut self) -> RowId {
        let row = self.next;
        self.next += 1;
        RowId(row)
    }

    /// Carries out what the indexes change for `row`; returns the bytes that takes.
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
