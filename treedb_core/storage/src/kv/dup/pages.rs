//! The pages of dup tables: counted for statistics, checked, and moved by compaction.

use std::ops::Bound;

use super::key_values::KeyValues;
use crate::Result;
use crate::btree::{Position, Tree, TreeRoot, Value};
use crate::kv::catalog::{Record, Table, TableKind};
use crate::kv::compact::{GAP, STEP};
use crate::kv::edit::Edit;
use crate::kv::reads::Reads;
use crate::page::{PageId, Pager};

/// Keys of a dup table that one transaction of a compaction visits, about.
const MAX_VISITED: usize = 10_000;

/// Branch pages and leaf pages of a dup table, those of its value trees included.
pub(in crate::kv) fn count_pages(pager: &Pager, record: &Record) -> Result<(u64, u64)> {
    let (mut branches, mut leaves) = Tree::count_pages(pager, &record.root)?;
    let mut left = record.large;
    let mut cursor = Tree::cursor(pager, &record.root);
    while left > 0 && cursor.next()? {
        let Some(cell) = cursor.value().filter(|cell| cell.pointer) else { continue };
        if let Some(tree) = KeyValues::open(pager, cell)?.tree() {
            let (more_branches, more_leaves) = Tree::count_pages(pager, &tree)?;
            (branches, leaves, left) = (branches + more_branches, leaves + more_leaves, left - 1);
        }
    }
    Ok((branches, leaves))
}

/// Checks the cell of a key. Returns how many values it has, and the root of their tree if they have one, which is not read.
pub(in crate::kv) fn check_cell(pager: &Pager, cell: Value<'_>) -> Result<(u64, Option<TreeRoot>)> {
    let held = KeyValues::open(pager, cell)?;
    held.check_inline(pager)?;
    Ok((held.count(), held.tree()))
}

/// How far the value trees of a dup table have been walked.
pub(in crate::kv) struct ValueTreePosition {
    /// The key to continue at.
    key: Bound<Vec<u8>>,
    /// The position in its tree.
    position: Position,
}

impl Default for ValueTreePosition {
    fn default() -> Self {
        ValueTreePosition { key: Bound::Unbounded, position: Position::new() }
    }
}

/// Calls `visit` with every pair of a dup table, in order.
pub(in crate::kv) fn for_each_pair(
    read: &impl Reads,
    table: &Table,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor = read.dup_cursor(table)?;
    while cursor.next()? {
        let Some((key, value)) = cursor.pair()? else { break };
        visit(key, value)?;
    }
    Ok(())
}

impl Edit<'_> {
    /// Moves some pages of the value trees of a dup table. Returns how many, and where to continue.
    pub(in crate::kv) fn relocate_value_trees(
        &mut self,
        id: u32,
        from: ValueTreePosition,
    ) -> Result<(u64, Option<ValueTreePosition>)> {
        let pager = self.pager;
        let Some(mut record) = self.record(id, TableKind::Dup)?.filter(|record| record.large > 0) else {
            return Ok((0, None));
        };
        let end = pager.sort_free_pages(&mut self.writer.alloc) + GAP;
        let must_move = |id: PageId| id.0 >= end;
        let before = self.writer.alloc.taken();
        let mut from = Some(from);
        let mut visited = 0;
        while let Some(ValueTreePosition { key, position }) = from.take() {
            let moved = self.writer.alloc.taken() - before;
            let room = self.writer.alloc.free_before(end, 2 * STEP).div_ceil(2);
            if moved >= STEP || visited > MAX_VISITED {
                from = Some(ValueTreePosition { key, position });
                break;
            }
            let Some((found, root)) = next_value_tree(pager, &record.root, &key, &mut visited)? else {
                break;
            };
            if room == 0 {
                break;
            }
            let mut tree = root;
            let rest = Tree::relocate(&mut self.sink(), &mut tree, &position, room.min(STEP), &must_move)?;
            if tree != root {
                let cell = tree.to_bytes();
                Tree::put(&mut self.sink(), &mut record.root, &found, Value::pointer(&cell))?;
            }
            from = Some(match rest {
                Some(position) => ValueTreePosition { key: Bound::Included(found), position },
                None => ValueTreePosition { key: Bound::Excluded(found), position: Position::new() },
            });
        }
        let moved = self.writer.alloc.taken() - before;
        if moved > 0 {
            self.put_record(id, record);
        }
        Ok((moved as u64, from))
    }
}

/// The next key that has a tree of values, and that tree's root. Counts the keys visited at.
fn next_value_tree(
    pager: &Pager,
    root: &TreeRoot,
    from: &Bound<Vec<u8>>,
    visited: &mut usize,
) -> Result<Option<(Vec<u8>, TreeRoot)>> {
    let mut cursor = Tree::cursor(pager, root);
    let mut on = match from {
        Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key)?,
        Bound::Unbounded => cursor.first()?,
    };
    if let Bound::Excluded(key) = from
        && on
        && cursor.key()? == Some(key)
    {
        on = cursor.next()?;
    }
    while on {
        *visited += 1;
        if let Some(cell) = cursor.value().filter(|cell| cell.pointer) {
            let tree = KeyValues::open(pager, cell)?.tree();
            let key = cursor.key()?.map(<[u8]>::to_vec);
            return Ok(key.zip(tree));
        }
        on = cursor.next()?;
    }
    Ok(None)
}
