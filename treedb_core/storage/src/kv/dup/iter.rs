//! The values of a key, and the pairs of a range of keys.

use std::cmp::Ordering;
use std::ops::Bound;

use super::cursor::DupCursor;
use super::inline_set::InlineSet;
use super::key_values::{KeyValues, Repr, damaged_set};
use crate::Result;
use crate::btree::TreeRoot;
use crate::kv::cursor::Range;
use crate::kv::reads::{Bounds, ReadContext};
use crate::kv::two_ended::{RangeCursor, TwoEnded};
use crate::page::Pager;

/// The values of a key within bounds, from both ends. After an error it is at its end.
pub struct DupValues<'a> {
    pager: &'a Pager,
    rest: Rest<'a>,
}

/// What has not been given out yet.
enum Rest<'a> {
    Set(InlineSet<'a>, std::ops::Range<usize>),
    Tree(Box<Range<'a>>),
}

impl<'a> DupValues<'a> {
    pub(in crate::kv) fn new(
        context: ReadContext<'a>,
        held: Option<KeyValues<'a>>,
        bounds: Bounds<'_>,
    ) -> Result<Self> {
        let pager = context.pager;
        let rest = match held {
            None => Rest::Tree(Box::new(Range::new(context, &TreeRoot::EMPTY, bounds))),
            Some(KeyValues(Repr::Tree(root))) => Rest::Tree(Box::new(Range::new(context, &root, bounds))),
            Some(KeyValues(Repr::Inline(set))) => {
                let place = |value: &[u8], beyond: bool| match set.search(value) {
                    Some(Ok(at)) => Ok(at + usize::from(beyond)),
                    Some(Err(at)) => Ok(at),
                    None => Err(damaged_set(pager)),
                };
                let low = match bounds.0 {
                    Bound::Included(value) => place(value, false)?,
                    Bound::Excluded(value) => place(value, true)?,
                    Bound::Unbounded => 0,
                };
                let high = match bounds.1 {
                    Bound::Included(value) => place(value, true)?,
                    Bound::Excluded(value) => place(value, false)?,
                    Bound::Unbounded => set.count(),
                };
                Rest::Set(set, low..high)
            }
        };
        Ok(DupValues { pager, rest })
    }

    fn step(&mut self, forward: bool) -> Option<Result<Vec<u8>>> {
        match &mut self.rest {
            Rest::Set(set, left) => {
                let at = if forward { left.next() } else { left.next_back() }?;
                let value = set.get(at).map(<[u8]>::to_vec).ok_or_else(|| damaged_set(self.pager));
                if value.is_err() {
                    *left = 0..0;
                }
                Some(value)
            }
            Rest::Tree(range) => {
                let entry = if forward { range.next() } else { range.next_back() }?;
                Some(entry.map(|(value, _)| value))
            }
        }
    }
}

impl Iterator for DupValues<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl DoubleEndedIterator for DupValues<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

impl RangeCursor for DupCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        DupCursor::first(self)
    }
    fn last(&mut self) -> Result<bool> {
        DupCursor::last(self)
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        DupCursor::seek(self, key)
    }
    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        DupCursor::seek_back(self, key)
    }
    fn next(&mut self) -> Result<bool> {
        DupCursor::next(self)
    }
    fn prev(&mut self) -> Result<bool> {
        DupCursor::prev(self)
    }
    fn next_key(&mut self) -> Result<bool> {
        DupCursor::next_key(self)
    }
    fn prev_key(&mut self) -> Result<bool> {
        DupCursor::prev_key(self)
    }
    fn key(&mut self) -> Result<Option<&[u8]>> {
        DupCursor::key(self)
    }
    fn compare(&mut self, other: &mut Self) -> Result<Option<Ordering>> {
        Ok(self.pair()?.zip(other.pair()?).map(|(mine, theirs)| mine.cmp(&theirs)))
    }
}

/// The pairs of the keys between two bounds, by key and then by value, from either end. It ends after an error.
pub struct Pairs<'a>(TwoEnded<DupCursor<'a>>);

impl<'a> Pairs<'a> {
    pub(in crate::kv) fn new(pager: &'a Pager, root: &TreeRoot, bounds: Bounds<'_>) -> Pairs<'a> {
        Pairs(TwoEnded::new(DupCursor::new(pager, root), DupCursor::new(pager, root), bounds))
    }
}

/// A copy of the pair the cursor is on.
fn owned_pair(cursor: &mut DupCursor<'_>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    Ok(cursor.pair()?.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

impl Iterator for Pairs<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(true, owned_pair)
    }
}

impl DoubleEndedIterator for Pairs<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(false, owned_pair)
    }
}
