//! Commands on dup tables applied to pages.

use std::ops::Bound;

use super::MAX_DUP_VALUE;
use super::inline_set::{self, InlineSet};
use super::key_values::{KeyValues, Repr, damaged_set};
use crate::btree::{Tree, TreeRoot, Value};
use crate::kv::catalog::{Record, TableKind};
use crate::kv::edit::{Edit, Outcome, check_limits};
use crate::kv::large_values::INLINE;
use crate::kv::reads::{Bounds, is_above, is_below};
use crate::page::Pager;
use crate::{Error, Result};

/// A tree of one leaf becomes an inline set again when that takes no more bytes than this.
const SMALL: usize = INLINE / 2;

/// Trees with more values are not checked for that.
const FEW: u64 = 64;

/// Refuses pairs that no dup table takes.
pub(in crate::kv) fn check_pair(key: &[u8], value: &[u8]) -> Result<()> {
    check_limits(key, 0)?;
    if value.len() > MAX_DUP_VALUE {
        return Err(Error::ValueTooLong { len: value.len() as u64, limit: MAX_DUP_VALUE as u64 });
    }
    Ok(())
}

impl Edit<'_> {
    pub(in crate::kv) fn put_pair(&mut self, id: u32, key: &[u8], value: &[u8]) -> Result<Outcome> {
        let Some(mut record) = self.record(id, TableKind::Dup)? else { return Ok(Outcome::NoTable) };
        let pager = self.pager;
        // Borrows from pages must end before pages change: the new set is built here.
        let mut cell = Vec::new();
        let (mut fits, mut tree) = (false, None);
        let mut all: Vec<Vec<u8>> = Vec::new();
        match KeyValues::find(pager, &record.root, key)?.map(|held| held.0) {
            None => fits = inline_set::write(std::iter::once(value), &mut cell, INLINE),
            Some(Repr::Tree(root)) => {
                if Tree::get(pager, &root, value)?.is_some() {
                    return Ok(Outcome::Existed);
                }
                tree = Some(root);
            }
            Some(Repr::Inline(old)) => {
                whole(pager, &old)?;
                let place = match old.search(value).ok_or_else(|| damaged_set(pager))? {
                    Ok(_) => return Ok(Outcome::Existed),
                    Err(place) => place,
                };
                fits = inline_set::write(with(old, place, value), &mut cell, INLINE);
                if !fits {
                    all = old.iter().map(<[u8]>::to_vec).collect();
                }
            }
        }
        if fits {
            Tree::put(&mut self.sink(), &mut record.root, key, Value::inline(&cell))?;
        } else {
            record.large += u64::from(tree.is_none());
            let mut root = tree.unwrap_or(TreeRoot::EMPTY);
            for value in all.iter().map(Vec::as_slice).chain([value]) {
                Tree::put(&mut self.sink(), &mut root, value, Value::inline(&[]))?;
            }
            Tree::put(&mut self.sink(), &mut record.root, key, Value::pointer(&root.to_bytes()))?;
        }
        record.pairs += 1;
        self.put_record(id, record);
        Ok(Outcome::Absent)
    }

    pub(in crate::kv) fn delete_pair(&mut self, id: u32, key: &[u8], value: &[u8]) -> Result<Outcome> {
        let Some(mut record) = self.record(id, TableKind::Dup)? else { return Ok(Outcome::NoTable) };
        let pager = self.pager;
        let Some(held) = KeyValues::find(pager, &record.root, key)? else { return Ok(Outcome::Absent) };
        if !held.contains(pager, value)? {
            return Ok(Outcome::Absent);
        }
        if held.count() == 1 {
            return self.delete_values(id, record, key);
        }
        match held.0 {
            Repr::Inline(old) => {
                whole(pager, &old)?;
                let mut cell = Vec::new();
                inline_set::write(without(old, value), &mut cell, INLINE);
                Tree::put(&mut self.sink(), &mut record.root, key, Value::inline(&cell))?;
            }
            Repr::Tree(mut root) => {
                Tree::delete(&mut self.sink(), &mut root, value)?;
                let mut cell = Vec::new();
                if self.shrinks(&root, &mut cell)? {
                    Tree::clear(&mut self.sink(), &mut root)?;
                    Tree::put(&mut self.sink(), &mut record.root, key, Value::inline(&cell))?;
                    record.large = record.large.saturating_sub(1);
                } else {
                    Tree::put(&mut self.sink(), &mut record.root, key, Value::pointer(&root.to_bytes()))?;
                }
            }
        }
        record.pairs = record.pairs.saturating_sub(1);
        self.put_record(id, record);
        Ok(Outcome::Existed)
    }

    /// Whether a tree has become so small that it is to be a set, which is then in `cell`.
    fn shrinks(&self, root: &TreeRoot, cell: &mut Vec<u8>) -> Result<bool> {
        if root.depth != 1 || root.entries > FEW {
            return Ok(false);
        }
        let mut values = Vec::new();
        let mut cursor = Tree::cursor(self.pager, root);
        while cursor.next()? {
            values.extend(cursor.key()?.map(<[u8]>::to_vec));
        }
        Ok(inline_set::write(values.iter().map(Vec::as_slice), cell, SMALL))
    }

    /// Removes a key with all its values.
    pub(in crate::kv) fn delete_values(
        &mut self,
        id: u32,
        mut record: Record,
        key: &[u8],
    ) -> Result<Outcome> {
        let pager = self.pager;
        let Some(held) = KeyValues::find(pager, &record.root, key)? else { return Ok(Outcome::Absent) };
        let (count, tree) = (held.count(), held.tree());
        self.free_values(&mut record, count, tree)?;
        Tree::delete(&mut self.sink(), &mut record.root, key)?;
        self.put_record(id, record);
        Ok(Outcome::Existed)
    }

    /// Frees the trees of the keys within `bounds`, which are about to be removed, and counts their pairs off.
    pub(in crate::kv) fn free_values_in(&mut self, record: &mut Record, bounds: Bounds<'_>) -> Result<()> {
        let (pager, root) = (self.pager, record.root);
        if record.large == 0 && bounds == (Bound::Unbounded, Bound::Unbounded) {
            record.pairs = 0;
            return Ok(());
        }
        // The table's own pages do not change meanwhile, only those of the keys' trees.
        let mut cursor = Tree::cursor(pager, &root);
        let mut on = match bounds.0 {
            Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key)?,
            Bound::Unbounded => cursor.first()?,
        };
        while on {
            let Some((key, cell)) = cursor.entry()? else { break };
            if !is_below(key, bounds.1) {
                break;
            }
            if is_above(key, bounds.0) {
                let held = KeyValues::open(pager, cell)?;
                self.free_values(record, held.count(), held.tree())?;
            }
            on = cursor.next()?;
        }
        Ok(())
    }

    fn free_values(&mut self, record: &mut Record, count: u64, tree: Option<TreeRoot>) -> Result<()> {
        if let Some(mut tree) = tree {
            Tree::clear(&mut self.sink(), &mut tree)?;
            record.large = record.large.saturating_sub(1);
        }
        record.pairs = record.pairs.saturating_sub(count);
        Ok(())
    }
}

/// Refuses to write a set anew that has lost values.
fn whole(pager: &Pager, set: &InlineSet<'_>) -> Result<()> {
    if set.is_whole() { Ok(()) } else { Err(damaged_set(pager)) }
}

/// The values of a set, and one more at its place.
fn with<'v>(set: InlineSet<'v>, place: usize, value: &'v [u8]) -> impl Iterator<Item = &'v [u8]> + Clone {
    (0..=set.count()).filter_map(move |i| match i.cmp(&place) {
        std::cmp::Ordering::Less => set.get(i),
        std::cmp::Ordering::Equal => Some(value),
        std::cmp::Ordering::Greater => set.get(i - 1),
    })
}

/// The values of a set but one.
fn without<'v>(set: InlineSet<'v>, value: &[u8]) -> impl Iterator<Item = &'v [u8]> + Clone {
    (0..set.count()).filter_map(move |i| set.get(i)).filter(move |&other| other != value)
}
