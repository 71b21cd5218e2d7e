//! [`Pending`]: the entries that an open transaction has added and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bson::RawDocumentBuf;

use treedb_query::access::{Direction, KeyRange, RowId};

use super::IndexChange;

/// An index entry.
pub(crate) type Entry = (Vec<u8>, RowId);

/// The entries that an open transaction has added to one index and removed from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    added: BTreeSet<Entry>,
    removed: BTreeSet<Entry>,
}

impl Pending {
    /// Adds the change of a row; returns the bytes that it takes.
    pub(crate) fn apply(&mut self, row: RowId, change: IndexChange) -> usize {
        let mut bytes = 0;
        for key in change.remove {
            let entry = (key, row);
            if !self.added.remove(&entry) {
                bytes += entry.0.len() + size_of::<Entry>();
                self.removed.insert(entry);
            }
        }
        for key in change.add {
            let entry = (key, row);
            if !self.removed.remove(&entry) {
                bytes += entry.0.len() + size_of::<Entry>();
                self.added.insert(entry);
            }
        }
        bytes
    }

    /// The entries that the transaction has added.
    pub(crate) fn added(&self) -> impl Iterator<Item = &Entry> {
        self.added.iter()
    }

    /// The rows of which the transaction has removed entries.
    pub(crate) fn removed_rows(&self) -> impl Iterator<Item = RowId> {
        self.removed.iter().map(|(_, row)| *row)
    }

    /// Whether the transaction has removed an entry.
    pub(crate) fn has_removed(&self, key: &[u8], row: RowId) -> bool {
        // The look-up copies the key, so it is only done if any entry was removed.
        !self.removed.is_empty() && self.removed.contains(&(key.to_vec(), row))
    }

    /// The added entries in `range` after `after`, in order of `direction`.
    pub(crate) fn range<'e>(
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
        let found = self.added.range((low, high));
        match direction {
            Direction::Forward => Box::new(found),
            Direction::Backward => Box::new(found.rev()),
        }
    }

    /// The row to which the transaction has added a key.
    pub(crate) fn holder(&self, key: &[u8]) -> Option<RowId> {
        let from = (key.to_vec(), RowId(0));
        self.added.range(from..).next().filter(|(found, _)| found == key).map(|(_, row)| *row)
    }
}

/// What an open transaction has changed, as far as one index is concerned.
pub(crate) struct Uncommitted<'t> {
    /// The entries of the index.
    pub(crate) entries: &'t Pending,
    /// The documents inserted or changed; `None` if deleted.
    pub(crate) rows: &'t BTreeMap<u64, Option<RawDocumentBuf>>,
}
