//! Keys that are too long for an entry.
//!
//! A key of more than 972 bytes is stored *shortened*, as 972 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0..940 | of the key |
//! | 940..944 | the mark `FF 00 FF 00` |
//! | 944..972 | the first bytes of the SHA-256 of the whole key |
//!
//! A key of just 972 bytes that has the mark at that place is stored shortened, too. So what is stored tells whether it
//! is shortened, and two keys are stored alike only if they are the same: a unique index is as unique as with short ones.
//!
//! Only here, and where entries are written, is it known that keys are stored shortened. A walk shows whole keys: it takes
//! those that were shortened from the documents again, and puts in order the few that begin with the same 940
//! bytes, whose stored order says nothing. A key that differs in those from all others lies at its place.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;

use sha2::{Digest, Sha256};

use treedb_query::access::{Direction, Flow, KeyRange, RowId, VisitTypedEntry, after_prefix};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::IndexDef;
use treedb_storage::Reads;

use crate::catalog::meta::IndexMeta;
use crate::read::view::{View, split_entry, type_bits_of};

/// The longest key an entry has, in bytes: a row id goes behind it.
pub(crate) const LONGEST: usize = 972;
/// Bytes of a shortened key that are the key's own.
pub(crate) const KEPT: usize = 940;
/// Stands behind them.
const MARK: [u8; 4] = [0xff, 0, 0xff, 0];

const _: () = assert!(LONGEST + 8 <= treedb_storage::MAX_KEY && KEPT + MARK.len() + 28 == LONGEST);

/// Bytes of keys that are put in order at a time.
#[cfg(not(test))]
const ROOM: usize = 16 << 20;
/// In tests a few keys are too many.
#[cfg(test)]
const ROOM: usize = 50_000;

/// True if a key is stored shortened.
pub(crate) fn is_long(key: &[u8]) -> bool {
    key.len() > LONGEST || is_shortened(key)
}

/// True if a stored key is a shortened one.
pub(crate) fn is_shortened(stored: &[u8]) -> bool {
    stored.len() == LONGEST && stored.get(KEPT..).is_some_and(|rest| rest.starts_with(&MARK))
}

/// A key as it is stored.
pub(crate) fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    if !is_long(key) {
        return Cow::Borrowed(key);
    }
    let hash = Sha256::digest(key);
    let own = key.iter().take(KEPT).chain(&MARK);
    Cow::Owned(own.chain(&hash).copied().take(LONGEST).collect())
}

/// A range of keys, for a walk of what is stored.
pub(crate) struct StoredRange<'r> {
    /// The least key as it may be stored.
    pub(crate) low: Cow<'r, [u8]>,
    /// What lies above all keys as they may be stored.
    pub(crate) high: Option<Cow<'r, [u8]>>,
    /// The key, and how it is stored, if there is but one in the range.
    pub(crate) only: Option<(&'r [u8], Cow<'r, [u8]>)>,
    /// True if keys that are stored in there may lie outside of the range.
    pub(crate) wider: bool,
}

impl<'r> StoredRange<'r> {
    pub(crate) fn of(def: &IndexDef, range: &'r KeyRange) -> Self {
        let KeyRange { low, high } = range;
        if low.len() <= KEPT && high.as_ref().is_none_or(|high| high.len() <= KEPT) {
            let high = high.as_deref().map(Cow::Borrowed);
            return StoredRange { low: Cow::Borrowed(low), high, only: None, wider: false };
        }
        if low.len() > KEPT && *high == after_prefix(low) && def.is_whole(low) {
            let only = stored(low);
            let high = after_prefix(&only).map(Cow::Owned);
            return StoredRange { low: only.clone(), high, only: Some((low, only)), wider: false };
        }
        let high = match high.as_deref() {
            Some(high) if high.len() > KEPT => beginning(high).and_then(after_prefix).map(Cow::Owned),
            high => high.map(Cow::Borrowed),
        };
        StoredRange { low: Cow::Borrowed(beginning(low).unwrap_or(low)), high, only: None, wider: true }
    }

    /// The same as bounds.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&*self.low), self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// What a key has in common with those whose stored order says nothing; `None` if it is too short to have any.
pub(crate) fn beginning(key: &[u8]) -> Option<&[u8]> {
    if key.len() > KEPT { key.get(..KEPT) } else { None }
}

/// An entry that is put in order.
struct Member {
    key: Vec<u8>,
    row: RowId,
    type_bits: Vec<u8>,
    direction: Direction,
}

impl Member {
    fn size(&self) -> usize {
        self.key.len() + self.type_bits.len() + size_of::<Self>()
    }
}

/// What comes first on the way is less.
impl Ord for Member {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = (&self.key, self.row).cmp(&(&other.key, other.row));
        if self.direction == Direction::Forward { order } else { order.reverse() }
    }
}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Member {}

impl<R: Reads> View<'_, R> {
    /// Shows the entries whose keys are longer than `beginning` and begin so, as far as they lie in `range`, in the order
    /// of their keys. With `after`, those behind that entry.
    pub(crate) fn walk_alike(
        &self,
        index: &IndexMeta,
        beginning: &[u8],
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<Flow> {
        let among = after.filter(|(key, _)| key.len() > KEPT && key.starts_with(beginning));
        let mut last =
            among.map(|(key, row)| Member { key: key.to_vec(), row, type_bits: Vec::new(), direction });
        loop {
            let (members, more) = self.next_alike(index, beginning, range, direction, last.as_ref())?;
            for member in &members {
                if visit(member.row, &member.key, &member.type_bits)? == Flow::Break(()) {
                    return Ok(Flow::Break(()));
                }
            }
            last = members.into_iter().next_back();
            if !more {
                return Ok(Flow::Continue(()));
            }
        }
    }

    /// The next of those entries behind `last`, as many as there is room for, and whether there are more.
    fn next_alike(
        &self,
        index: &IndexMeta,
        beginning: &[u8],
        range: &KeyRange,
        direction: Direction,
        last: Option<&Member>,
    ) -> Result<(Vec<Member>, bool)> {
        let (mut first, mut bytes) = (BinaryHeap::new(), 0);
        // The first of those there is no room for: what lies behind it is not wanted either.
        let mut left_out: Option<Member> = None;
        let mut cursor = self.reads.cursor(&index.table)?;
        let mut on = cursor.seek(beginning)?;
        while on
            && let Some((key, value)) = cursor.entry()?
            && key.starts_with(beginning)
        {
            let (stored, row) = split_entry(index, key, value)?;
            let key = if is_shortened(stored) { self.whole(index, stored, row)? } else { stored.to_vec() };
            let member =
                Member { key, row, type_bits: type_bits_of(index.def.unique, value).to_vec(), direction };
            if range.contains(&member.key)
                && last.is_none_or(|last| member > *last)
                && left_out.as_ref().is_none_or(|left_out| member < *left_out)
            {
                bytes += member.size();
                first.push(member);
                while bytes > ROOM && first.len() > 1 {
                    left_out = first.pop();
                    bytes -= left_out.as_ref().map_or(0, Member::size);
                }
            }
            on = cursor.next()?;
        }
        Ok((first.into_sorted_vec(), left_out.is_some()))
    }

    /// The key of a row that is stored shortened.
    fn whole(&self, index: &IndexMeta, shortened: &[u8], row: RowId) -> Result<Vec<u8>> {
        let key = match self.document(row)? {
            Some(document) => key_of(index.def.keys(&document)?.keys, shortened),
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
pub(crate) fn key_of(keys: Vec<Vec<u8>>, stored_so: &[u8]) -> Option<Vec<u8>> {
    // Hashes are made of those only that begin alike.
    let own = stored_so.get(..KEPT).unwrap_or(stored_so);
    keys.into_iter().find(|key| key.starts_with(own) && *stored(key) == *stored_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_key_tells_whether_it_is_shortened_and_different_keys_are_stored_differently() {
        let long: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
        for len in [0, 1, KEPT, KEPT + 1, LONGEST] {
            assert!(matches!(stored(&long[..len]), Cow::Borrowed(same) if same == &long[..len]));
            assert!(!is_shortened(&long[..len]));
        }
        let (one, other) = (stored(&long), stored(&long[..4999]));
        assert!(is_shortened(&one) && one[..KEPT] == long[..KEPT] && one != other);
        // What looks like a shortened key is shortened itself.
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
                assert_eq!(found.only.is_some(), low.len() > KEPT && range.high == after_prefix(low));
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
