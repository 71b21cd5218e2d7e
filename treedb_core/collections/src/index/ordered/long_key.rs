//! Index keys that are too long for an entry.
//!
//! A key of more than 972 bytes is stored *shortened*, as 972 bytes:
//!
//! | bytes | contents |
//! |---|---|
//! | 0..940 | the first bytes of the key |
//! | 940..944 | the marker `FF 00 FF 00` |
//! | 944..972 | the first bytes of the SHA-256 of the whole key |
//!
//! A key of exactly 972 bytes with the marker in that place is shortened as well. So a stored key shows whether it is shortened,
//! and different keys are stored differently: unique indexes stay unique.
//!
//! Only this module and the code that writes entries know of shortened keys. A scan returns whole keys: it computes the shortened
//! ones from the documents, and sorts the few that share the same first 940 bytes, because their stored order is not that of the
//! keys. A key that differs from all others in those bytes is in its place.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;

use sha2::{Digest, Sha256};

use treedb_query::access::{Direction, Flow, KeyRange, RowId, VisitTypedEntry, after_prefix};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::IndexDef;
use treedb_storage::Reads;

use super::Ordered;
use super::entry::{split_entry, type_bits_of};
use crate::read::view::View;

/// The longest stored key, in bytes, without the row id after it.
pub(crate) const MAX_STORED_LEN: usize = 972;
/// Bytes of the key that a shortened key begins with.
pub(crate) const PREFIX_LEN: usize = 940;
/// The marker after them.
const MARK: [u8; 4] = [0xff, 0, 0xff, 0];

const _: () =
    assert!(MAX_STORED_LEN + 8 <= treedb_storage::MAX_KEY && PREFIX_LEN + MARK.len() + 28 == MAX_STORED_LEN);

/// Bytes of keys that are sorted at a time.
#[cfg(not(test))]
const SORT_MEMORY: usize = 16 << 20;
/// Small in tests, so that several rounds are needed.
#[cfg(test)]
const SORT_MEMORY: usize = 50_000;

/// True if `key` is stored shortened.
pub(crate) fn is_long(key: &[u8]) -> bool {
    key.len() > MAX_STORED_LEN || is_shortened(key)
}

/// True if a stored key is shortened.
pub(crate) fn is_shortened(stored: &[u8]) -> bool {
    stored.len() == MAX_STORED_LEN && stored.get(PREFIX_LEN..).is_some_and(|rest| rest.starts_with(&MARK))
}

/// The stored form of a key.
pub(crate) fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    if !is_long(key) {
        return Cow::Borrowed(key);
    }
    let hash = Sha256::digest(key);
    let own = key.iter().take(PREFIX_LEN).chain(&MARK);
    Cow::Owned(own.chain(&hash).copied().take(MAX_STORED_LEN).collect())
}

/// The range of stored keys that a range of keys needs.
pub(crate) struct StoredRange<'r> {
    /// The lower bound of the stored keys.
    pub(crate) low: Cow<'r, [u8]>,
    /// The upper bound of the stored keys.
    pub(crate) high: Option<Cow<'r, [u8]>>,
    /// The key and its stored form, if the range has only one.
    pub(crate) single: Option<(&'r [u8], Cow<'r, [u8]>)>,
    /// True if the stored range may contain keys outside of the range of keys.
    pub(crate) is_wider: bool,
}

impl<'r> StoredRange<'r> {
    pub(crate) fn of(def: &IndexDef, range: &'r KeyRange) -> Self {
        let KeyRange { low, high } = range;
        if low.len() <= PREFIX_LEN && high.as_ref().is_none_or(|high| high.len() <= PREFIX_LEN) {
            let high = high.as_deref().map(Cow::Borrowed);
            return StoredRange { low: Cow::Borrowed(low), high, single: None, is_wider: false };
        }
        if low.len() > PREFIX_LEN && *high == after_prefix(low) && def.is_whole(low) {
            let single = stored(low);
            let high = after_prefix(&single).map(Cow::Owned);
            return StoredRange { low: single.clone(), high, single: Some((low, single)), is_wider: false };
        }
        let high = match high.as_deref() {
            Some(high) if high.len() > PREFIX_LEN => {
                shared_prefix(high).and_then(after_prefix).map(Cow::Owned)
            }
            high => high.map(Cow::Borrowed),
        };
        StoredRange {
            low: Cow::Borrowed(shared_prefix(low).unwrap_or(low)),
            high,
            single: None,
            is_wider: true,
        }
    }

    /// The range as bounds.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&*self.low), self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// The prefix that a long key shares with the keys it must be sorted with; `None` if it is short.
pub(crate) fn shared_prefix(key: &[u8]) -> Option<&[u8]> {
    if key.len() > PREFIX_LEN { key.get(..PREFIX_LEN) } else { None }
}

/// An entry to sort.
struct SortedEntry {
    key: Vec<u8>,
    row: RowId,
    type_bits: Vec<u8>,
    direction: Direction,
}

impl SortedEntry {
    fn size(&self) -> usize {
        self.key.len() + self.type_bits.len() + size_of::<Self>()
    }
}

/// Ascending in the direction of the scan.
impl Ord for SortedEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = (&self.key, self.row).cmp(&(&other.key, other.row));
        if self.direction == Direction::Forward { order } else { order.reverse() }
    }
}

impl PartialOrd for SortedEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortedEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortedEntry {}

impl<R: Reads> View<'_, R> {
    /// Visits the entries in `range` whose keys begin with `shared_prefix` and are longer, in the order of their keys. With
    /// `after`, those after that entry.
    pub(crate) fn walk_shared_prefix(
        &self,
        index: Ordered<'_>,
        shared_prefix: &[u8],
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<Flow> {
        let last_shown = after.filter(|(key, _)| key.len() > PREFIX_LEN && key.starts_with(shared_prefix));
        let mut last = last_shown.map(|(key, row)| SortedEntry {
            key: key.to_vec(),
            row,
            type_bits: Vec::new(),
            direction,
        });
        loop {
            let (entries, more) =
                self.next_with_prefix(index, shared_prefix, range, direction, last.as_ref())?;
            for entry in &entries {
                if visit(entry.row, &entry.key, &entry.type_bits)? == Flow::Break(()) {
                    return Ok(Flow::Break(()));
                }
            }
            last = entries.into_iter().next_back();
            if !more {
                return Ok(Flow::Continue(()));
            }
        }
    }

    /// The next of these entries after `last`, as many as fit into [`SORT_MEMORY`], and whether there are more.
    fn next_with_prefix(
        &self,
        index: Ordered<'_>,
        shared_prefix: &[u8],
        range: &KeyRange,
        direction: Direction,
        last: Option<&SortedEntry>,
    ) -> Result<(Vec<SortedEntry>, bool)> {
        let (mut first, mut bytes) = (BinaryHeap::new(), 0);
        // The first entry that did not fit: entries after it are not needed in this round.
        let mut left_out: Option<SortedEntry> = None;
        let mut cursor = self.reads.cursor(index.table)?;
        let mut on = cursor.seek(shared_prefix)?;
        while on
            && let Some((key, value)) = cursor.entry()?
            && key.starts_with(shared_prefix)
        {
            let (stored, row) = split_entry(index.def, key, value)?;
            let key = if is_shortened(stored) { self.whole(index, stored, row)? } else { stored.to_vec() };
            let entry = SortedEntry {
                key,
                row,
                type_bits: type_bits_of(index.def.unique, value).to_vec(),
                direction,
            };
            if range.contains(&entry.key)
                && last.is_none_or(|last| entry > *last)
                && left_out.as_ref().is_none_or(|left_out| entry < *left_out)
            {
                bytes += entry.size();
                first.push(entry);
                while bytes > SORT_MEMORY && first.len() > 1 {
                    left_out = first.pop();
                    bytes -= left_out.as_ref().map_or(0, SortedEntry::size);
                }
            }
            on = cursor.next()?;
        }
        Ok((first.into_sorted_vec(), left_out.is_some()))
    }

    /// The whole key of a row, which is stored shortened.
    fn whole(&self, index: Ordered<'_>, shortened: &[u8], row: RowId) -> Result<Vec<u8>> {
        let key = match self.document(row)? {
            Some(document) => find_stored_key(index.def.keys(&document)?.keys, shortened),
            None => None,
        };
        key.ok_or_else(|| {
            QueryError::new(
                ErrorCode::InternalError,
                format!(
                    "{}: index {} has a key for row {row:?} that the row does not have; restore from a backup",
                    self.meta.namespace, index.def.name
                ),
            )
        })
    }
}

/// The one of `keys` that is stored as `stored_so`.
pub(crate) fn find_stored_key(keys: Vec<Vec<u8>>, stored_so: &[u8]) -> Option<Vec<u8>> {
    // Only keys with the same prefix are hashed.
    let own = stored_so.get(..PREFIX_LEN).unwrap_or(stored_so);
    keys.into_iter().find(|key| key.starts_with(own) && *stored(key) == *stored_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_key_tells_whether_it_is_shortened_and_different_keys_are_stored_differently() {
        let long: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
        for len in [0, 1, PREFIX_LEN, PREFIX_LEN + 1, MAX_STORED_LEN] {
            assert!(matches!(stored(&long[..len]), Cow::Borrowed(same) if same == &long[..len]));
            assert!(!is_shortened(&long[..len]));
        }
        let (one, other) = (stored(&long), stored(&long[..4999]));
        assert!(is_shortened(&one) && one[..PREFIX_LEN] == long[..PREFIX_LEN] && one != other);
        // A key that looks like a shortened one is shortened itself.
        let again = stored(&one);
        assert!(is_shortened(&again) && again != one);
    }

    #[test]
    fn a_range_holds_its_keys_as_they_are_stored() {
        let def = IndexDef::id();
        let key = |byte: u8, len: usize| [vec![0x20], vec![b'x'; 950], vec![byte; len], vec![0]].concat();
        let keys = [key(b'a', 5), key(b'a', 900), key(b'b', 900), key(b'c', 5), vec![0x20, b'y', 0]];
        for low in &keys {
            for high in keys.iter().cloned().map(Some).chain([None, after_prefix(low)]) {
                let range = KeyRange { low: low.clone(), high };
                let found = StoredRange::of(&def, &range);
                assert_eq!(found.single.is_some(), low.len() > PREFIX_LEN && range.high == after_prefix(low));
                for key in keys.iter().filter(|key| range.contains(key)) {
                    let stored = stored(key);
                    assert!(
                        *found.low <= *stored && found.high.as_deref().is_none_or(|high| &*stored < high)
                    );
                }
            }
        }
    }
}
