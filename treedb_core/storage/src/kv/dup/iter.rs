//! The values of a key, and the pairs of a range of keys.

use std::ops::Bound;

use super::cursor::DupCursor;
use super::held::{Held, Values, damaged_set};
use super::set::Set;
use crate::Result;
use crate::btree::TreeRoot;
use crate::kv::cursor::{Range, item, owned, slice};
use crate::kv::reads::{Bounds, Look, above, below};
use crate::page::Pager;

/// The values of a key within bounds, from both ends. After an error it is at its end.
pub struct DupValues<'a> {
    pager: &'a Pager,
    rest: Rest<'a>,
}

/// What has not been given out yet.
enum Rest<'a> {
    Set(Set<'a>, std::ops::Range<usize>),
    Tree(Box<Range<'a>>),
}

impl<'a> DupValues<'a> {
    pub(in crate::kv) fn new(look: Look<'a>, held: Option<Held<'a>>, bounds: Bounds<'_>) -> Result<Self> {
        let pager = look.pager;
        let rest = match held {
            None => Rest::Tree(Box::new(Range::new(look, &TreeRoot::EMPTY, bounds))),
            Some(Held(Values::Tree(root))) => Rest::Tree(Box::new(Range::new(look, &root, bounds))),
            Some(Held(Values::Set(set))) => {
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

/// The pairs of the keys between two bounds, by key and then by value, from either end. After an error it is at its
/// end.
pub struct Pairs<'a> {
    front: DupCursor<'a>,
    back: DupCursor<'a>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    begun_front: bool,
    begun_back: bool,
    done: bool,
}

/// A key and a value of it.
type Pair = (Vec<u8>, Vec<u8>);

impl<'a> Pairs<'a> {
    pub(in crate::kv) fn new(pager: &'a Pager, root: &TreeRoot, (from, to): Bounds<'_>) -> Pairs<'a> {
        Pairs {
            front: DupCursor::new(pager, root),
            back: DupCursor::new(pager, root),
            from: owned(from),
            to: owned(to),
            begun_front: false,
            begun_back: false,
            done: false,
        }
    }

    fn forward(&mut self) -> Result<Option<Pair>> {
        let front = &mut self.front;
        let mut on = match (&self.from, self.begun_front) {
            (_, true) => front.next()?,
            (Bound::Unbounded, false) => front.first()?,
            (Bound::Included(key) | Bound::Excluded(key), false) => front.seek(key)?,
        };
        self.begun_front = true;
        if on && !front.key()?.is_some_and(|key| above(key, slice(&self.from))) {
            // The excluded lower bound itself.
            on = front.next_key()?;
        }
        let Some((key, value)) = front.pair()?.filter(|_| on) else { return Ok(None) };
        if !below(key, slice(&self.to)) {
            return Ok(None);
        }
        if self.begun_back && self.back.pair()?.is_none_or(|back| (key, value) >= back) {
            return Ok(None);
        }
        Ok(Some((key.to_vec(), value.to_vec())))
    }

    fn backward(&mut self) -> Result<Option<Pair>> {
        let back = &mut self.back;
        let mut on = match (&self.to, self.begun_back) {
            (_, true) => back.prev()?,
            (Bound::Unbounded, false) => back.last()?,
            (Bound::Included(key) | Bound::Excluded(key), false) => back.seek_back(key)?,
        };
        self.begun_back = true;
        if on && !back.key()?.is_some_and(|key| below(key, slice(&self.to))) {
            on = back.prev_key()?;
        }
        let Some((key, value)) = back.pair()?.filter(|_| on) else { return Ok(None) };
        if !above(key, slice(&self.from)) {
            return Ok(None);
        }
        if self.begun_front && self.front.pair()?.is_none_or(|front| (key, value) <= front) {
            return Ok(None);
        }
        Ok(Some((key.to_vec(), value.to_vec())))
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.forward();
        item(&mut self.done, step)
    }
}

impl DoubleEndedIterator for Pairs<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.backward();
        item(&mut self.done, step)
    }
}
