//! A cursor over keys and their values, in both directions.

use super::inline_set::InlineSet;
use super::key_values::{KeyValues, Repr, damaged_set};
use crate::Result;
use crate::btree::TreeRoot;
use crate::kv::pinned_cursor::PinnedCursor;
use crate::page::Pager;

/// Where the cursor is among the values of its key.
#[derive(Debug, Clone, Copy)]
enum Inner<'a> {
    /// On no key.
    Outside,
    /// On a value of a set.
    Set(InlineSet<'a>, usize),
    /// On a value of a tree with that many.
    Tree(u64),
}

/// A cursor over the pairs of a dup table, in both directions: over all pairs, which are sorted by key and then by
/// value, from key to key, or among the values of one key. It starts outside: `next` goes to the first pair, `prev` to
/// the last. Moving allocates nothing.
pub struct DupCursor<'a> {
    pager: &'a Pager,
    root: TreeRoot,
    keys: PinnedCursor<'a>,
    inner: Inner<'a>,
    /// In the tree of the key's values, if they have one.
    values: PinnedCursor<'a>,
}

impl<'a> DupCursor<'a> {
    pub(in crate::kv) fn new(pager: &'a Pager, root: &TreeRoot) -> DupCursor<'a> {
        DupCursor {
            pager,
            root: *root,
            keys: PinnedCursor::new(pager, root),
            inner: Inner::Outside,
            values: PinnedCursor::new(pager, &TreeRoot::EMPTY),
        }
    }

    /// Opens the values of the key that `keys` has moved to, if there is one, and moves to the first or the last of them.
    fn enter(&mut self, on: bool, last: bool) -> Result<bool> {
        self.inner = Inner::Outside;
        let Some(cell) = self.keys.value().filter(|_| on) else { return Ok(false) };
        match KeyValues::open(self.pager, cell)?.0 {
            Repr::Inline(set) => self.inner = Inner::Set(set, if last { set.count() - 1 } else { 0 }),
            Repr::Tree(root) => {
                self.values.reset(&root);
                if last {
                    self.values.last()?
                } else {
                    self.values.first()?
                };
                self.inner = Inner::Tree(root.entries);
            }
        }
        Ok(true)
    }

    /// Leaves the current pair.
    fn leave(&mut self) {
        self.keys.reset(&self.root);
        self.inner = Inner::Outside;
    }

    /// Goes to the first pair; false if the table is empty.
    pub fn first(&mut self) -> Result<bool> {
        let on = self.keys.first()?;
        self.enter(on, false)
    }

    /// Goes to the last pair; false if the table is empty.
    pub fn last(&mut self) -> Result<bool> {
        let on = self.keys.last()?;
        self.enter(on, true)
    }

    /// Goes to the first value of the first key not below `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let on = self.keys.seek(key)?;
        self.enter(on, false)
    }

    /// Goes to the first value of `key`; false, and outside, if it has none.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        let on = self.keys.seek_exact(key)?;
        self.enter(on, false)
    }

    /// Goes to the last value of the last key not above `key`; false if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        let on = self.keys.seek_back(key)?;
        self.enter(on, true)
    }

    /// Goes to the pair; false, and outside, if it is not there.
    pub fn seek_both(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let there = self.seek_exact(key)? && self.seek_value(value)? && self.value()? == Some(value);
        if !there {
            self.leave();
        }
        Ok(there)
    }

    /// Goes to the first value of `key` not below `value`; false, and outside, if it has none. The next key is not
    /// checked.
    pub fn seek_both_range(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let there = self.seek_exact(key)? && self.seek_value(value)?;
        if !there {
            self.leave();
        }
        Ok(there)
    }

    /// Goes to the first pair that is not below this one; false if there is none.
    pub fn seek_pair(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if !self.seek(key)? {
            return Ok(false);
        }
        Ok(self.key()? != Some(key) || self.seek_value(value)? || self.next_key()?)
    }

    /// Goes to the first value of this key that is not below `value`; false if there is none.
    fn seek_value(&mut self, value: &[u8]) -> Result<bool> {
        match &mut self.inner {
            Inner::Outside => Ok(false),
            Inner::Set(set, at) => {
                let tree = set.search(value).ok_or_else(|| damaged_set(self.pager))?;
                let (Ok(tree) | Err(tree)) = tree;
                if tree < set.count() {
                    *at = tree;
                }
                Ok(tree < set.count())
            }
            Inner::Tree(_) => self.values.seek(value),
        }
    }

    /// Goes to the next pair, to the next key after the last value of this one; false after the last pair.
    #[expect(clippy::should_implement_trait, reason = "pairs are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        Ok(self.step(true)? || self.next_key()?)
    }

    /// Goes to the previous pair, to the last value of the key before before the first value of this one; false before
    /// the first pair.
    pub fn prev(&mut self) -> Result<bool> {
        Ok(self.step(false)? || self.prev_key()?)
    }

    /// Goes to the first value of the next key; false after the last key.
    pub fn next_key(&mut self) -> Result<bool> {
        let on = self.keys.next()?;
        self.enter(on, false)
    }

    /// Goes to the last value of the key before; false before the first key.
    pub fn prev_key(&mut self) -> Result<bool> {
        let on = self.keys.prev()?;
        self.enter(on, true)
    }

    /// Goes to the next value of this key; false, and it stays, if there is none.
    pub fn next_dup(&mut self) -> Result<bool> {
        let moved = self.step(true)?;
        if !moved && matches!(self.inner, Inner::Tree(_)) {
            self.values.last()?;
        }
        Ok(moved)
    }

    /// Goes to the value before of this key; false, and it stays, if there is none.
    pub fn prev_dup(&mut self) -> Result<bool> {
        let moved = self.step(false)?;
        if !moved && matches!(self.inner, Inner::Tree(_)) {
            self.values.first()?;
        }
        Ok(moved)
    }

    /// Goes to the first value of this key; false if it is on none.
    pub fn first_dup(&mut self) -> Result<bool> {
        let on = self.keys.value().is_some();
        self.enter(on, false)
    }

    /// Goes to the last value of this key; false if it is on none.
    pub fn last_dup(&mut self) -> Result<bool> {
        let on = self.keys.value().is_some();
        self.enter(on, true)
    }

    /// A step among the values of this key; a tree's cursor is beyond its end if there is none that way.
    #[inline]
    fn step(&mut self, forward: bool) -> Result<bool> {
        match &mut self.inner {
            Inner::Outside => Ok(false),
            Inner::Set(set, at) => {
                let to = if forward { Some(*at + 1) } else { at.checked_sub(1) };
                let to = to.filter(|&to| to < set.count());
                *at = to.unwrap_or(*at);
                Ok(to.is_some())
            }
            Inner::Tree(_) if forward => self.values.next(),
            Inner::Tree(_) => self.values.prev(),
        }
    }

    /// The key it is on.
    pub fn key(&mut self) -> Result<Option<&[u8]>> {
        self.keys.key()
    }

    /// The value it is on.
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.pair()?.map(|(_, value)| value))
    }

    /// Key and value it is on.
    pub fn pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let value = match &self.inner {
            Inner::Outside => return Ok(None),
            Inner::Set(set, at) => Some(set.get(*at).ok_or_else(|| damaged_set(self.pager))?),
            Inner::Tree(_) => self.values.key()?,
        };
        Ok(self.keys.key()?.zip(value))
    }

    /// How many values its key has; 0 if it is on none. They are not read for it.
    pub fn count(&self) -> u64 {
        match self.inner {
            Inner::Outside => 0,
            Inner::Set(set, _) => set.count() as u64,
            Inner::Tree(count) => count,
        }
    }
}
