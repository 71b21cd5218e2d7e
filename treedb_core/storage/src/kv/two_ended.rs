//! Walks over a range of keys from both ends.

use std::cmp::Ordering;
use std::ops::Bound;

use super::reads::{Bounds, is_above, is_below};
use crate::Result;

/// A cursor that [`TwoEnded`] walks with. One key may have many entries.
pub(super) trait RangeCursor {
    /// Goes to the first entry.
    fn first(&mut self) -> Result<bool>;
    /// Goes to the last entry.
    fn last(&mut self) -> Result<bool>;
    /// Goes to the first entry of the first key not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    /// Goes to the last entry of the last key not above `key`.
    fn seek_back(&mut self, key: &[u8]) -> Result<bool>;
    /// Goes to the next entry.
    fn next(&mut self) -> Result<bool>;
    /// Goes to the previous entry.
    fn prev(&mut self) -> Result<bool>;
    /// Goes to the first entry of the next key.
    fn next_key(&mut self) -> Result<bool>;
    /// Goes to the last entry of the previous key.
    fn prev_key(&mut self) -> Result<bool>;
    /// The key of the entry the cursor is on.
    fn key(&mut self) -> Result<Option<&[u8]>>;
    /// Compares the entries that two cursors are on; `None` if one is on none.
    fn compare(&mut self, other: &mut Self) -> Result<Option<Ordering>>;
}

/// A range of keys with a cursor at each end. After an error or the end of one direction it returns no more entries.
pub(super) struct TwoEnded<C> {
    front: C,
    back: C,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front_started: bool,
    back_started: bool,
    done: bool,
}

impl<C: RangeCursor> TwoEnded<C> {
    /// A walk over the keys within `bounds`; both cursors are on no entry yet.
    pub(super) fn new(front: C, back: C, (from, to): Bounds<'_>) -> TwoEnded<C> {
        TwoEnded {
            front,
            back,
            from: owned(from),
            to: owned(to),
            front_started: false,
            back_started: false,
            done: false,
        }
    }

    /// Steps on from the front, or from the back, and reads the item there with `read`.
    #[inline]
    pub(super) fn step<T>(
        &mut self,
        forward: bool,
        read: impl FnOnce(&mut C) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        if self.done {
            return None;
        }
        let on = if forward { self.forward() } else { self.backward() };
        let end = if forward { &mut self.front } else { &mut self.back };
        let read = on.and_then(|on| if on { read(end) } else { Ok(None) });
        item(&mut self.done, read)
    }

    #[inline]
    fn forward(&mut self) -> Result<bool> {
        let front = &mut self.front;
        let on = if self.front_started {
            front.next()?
        } else {
            self.front_started = true;
            let on = match &self.from {
                Bound::Unbounded => front.first()?,
                Bound::Included(key) | Bound::Excluded(key) => front.seek(key)?,
            };
            let on_bound = on && !front.key()?.is_some_and(|key| is_above(key, slice(&self.from)));
            // The excluded lower bound itself is skipped.
            if on_bound { front.next_key()? } else { on }
        };
        // Keys ascend, so that from here on only the upper bound matters.
        let unbounded = matches!(self.to, Bound::Unbounded);
        if !on || !unbounded && !front.key()?.is_some_and(|key| is_below(key, slice(&self.to))) {
            return Ok(false);
        }
        Ok(!self.back_started || front.compare(&mut self.back)? == Some(Ordering::Less))
    }

    #[inline]
    fn backward(&mut self) -> Result<bool> {
        let back = &mut self.back;
        let on = if self.back_started {
            back.prev()?
        } else {
            self.back_started = true;
            let on = match &self.to {
                Bound::Unbounded => back.last()?,
                Bound::Included(key) | Bound::Excluded(key) => back.seek_back(key)?,
            };
            let on_bound = on && !back.key()?.is_some_and(|key| is_below(key, slice(&self.to)));
            // The excluded upper bound itself is skipped.
            if on_bound { back.prev_key()? } else { on }
        };
        // Keys descend, so that from here on only the lower bound matters.
        let unbounded = matches!(self.from, Bound::Unbounded);
        if !on || !unbounded && !back.key()?.is_some_and(|key| is_above(key, slice(&self.from))) {
            return Ok(false);
        }
        Ok(!self.front_started || back.compare(&mut self.front)? == Some(Ordering::Greater))
    }
}

pub(super) fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(<[u8]>::to_vec)
}

#[inline]
pub(super) fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Turns the result of a step into an iterator's item, and ends the iterator after the last item and after an error.
#[inline]
pub(super) fn item<T>(done: &mut bool, step: Result<Option<T>>) -> Option<Result<T>> {
    let item = step.transpose();
    *done = !matches!(item, Some(Ok(_)));
    item
}
