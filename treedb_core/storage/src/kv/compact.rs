//! Making the files small: pages move to the front of the page file, and its end is cut off.
//!
//! Pages that lie behind where the live ones would end if they lay side by side are copied to free pages before that,
//! a few in each of many small transactions, so that readers and writers go on. Two checkpoints later the old ones are
//! free and the file ends in nothing but free pages: [`Pager::trim`](crate::page::Pager) forgets them, the next
//! checkpoint makes that durable, and only then is the file cut. A snapshot keeps the pages it can reach where they
//! are, and the file as long as that takes.

use std::ops::Bound;

use super::catalog::TableKind;
use super::dup::Held;
use super::edit::Edit;
use super::store::{Inner, Store};
use crate::Result;
use crate::btree::{Place, RowRoot, RowTree, Tree, TreeRoot, Value};
use crate::page::{PageId, Pager};

/// Pages moved by one transaction, at most.
const STEP: usize = 128;
/// Keys of a dup table looked at by one transaction, about.
const LOOK: usize = 10_000;
/// How often the trees are walked: the first walk moves nearly everything, the next ones what was written meanwhile.
const WALKS: usize = 3;
/// Pages that may lie between the live ones: of a path that is copied, and of the ledger.
const GAP: u32 = 8;
/// Never-used pages that a compacted file keeps.
const SLACK: u32 = 16;

/// How far a compaction is, and what it did in the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Bytes of all files before.
    pub before: u64,
    /// Bytes of all files now.
    pub after: u64,
    /// Pages that were moved.
    pub moved: u64,
}

impl Store {
    /// Makes the files as small as what is in them allows, while readers and writers go on: live pages are moved to the
    /// front of the page file, values out of value segments that are half dead, in small transactions; the log is cut,
    /// and the page file shortened. What a snapshot can reach stays until it ends: compact when no old one is left. Room
    /// for a copy of a few pages is needed. `progress` is called after each of the small transactions.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn compact(&self, mut progress: impl FnMut(Compacted)) -> Result<Compacted> {
        let inner = &*self.inner;
        inner.refuse_writes()?;
        let _one = inner.hold_checkpoints();
        let mut done = Compacted { before: inner.file_bytes(), ..Compacted::default() };
        // What the checkpoint before this one kept is free after it.
        inner.write_checkpoint(None)?;
        inner.reclaim()?;
        inner.write_checkpoint(None)?;
        for _ in 0..WALKS {
            let before = done.moved;
            inner.gather(&mut done, &mut progress)?;
            if done.moved == before {
                break;
            }
            inner.shorten()?;
        }
        inner.write_checkpoint(Some(SLACK))?;
        done.after = inner.file_bytes();
        progress(done);
        Ok(done)
    }
}

impl Inner {
    /// Bytes of the files.
    fn file_bytes(&self) -> u64 {
        self.pager.file_bytes() + self.values.stats().bytes + self.log.stats().bytes
    }

    /// True if three quarters of a page file of some size are free: then it is compacted without being asked.
    pub(super) fn mostly_free(&self) -> bool {
        let counts = self.pager.last_counts();
        counts.free / 3 > counts.used / 4 && counts.used > 4 * self.options.growth
    }

    /// Moves pages to the front of the file and cuts off its end. Call while checkpoints are held off.
    pub(super) fn gather_and_shorten(&self) -> Result<()> {
        self.gather(&mut Compacted::default(), &mut |_| {})?;
        self.shorten()
    }

    /// Two checkpoints: one to make the new places of pages durable, one to be without the old ones.
    fn shorten(&self) -> Result<()> {
        self.write_checkpoint(None)?;
        self.write_checkpoint(Some(SLACK))
    }

    /// Walks all trees once and moves what lies too far back.
    fn gather(&self, done: &mut Compacted, progress: &mut dyn FnMut(Compacted)) -> Result<()> {
        let mut tables = vec![None];
        let snapshot = super::snapshot::Snapshot::new(self)?;
        tables.extend(super::reads::Reads::tables(&snapshot)?.iter().map(|table| Some(table.id)));
        drop(snapshot);
        for table in tables {
            let mut place = Some(Place::new());
            while let Some(from) = place {
                place = self.move_some(done, progress, |edit| edit.move_far(table, &from))?;
            }
            let mut place = table.map(|table| (table, ValuePlace::default()));
            while let Some((table, from)) = place {
                let next = self.move_some(done, progress, |edit| edit.move_far_values(table, from))?;
                place = next.map(|next| (table, next));
            }
        }
        Ok(())
    }

    /// One small transaction of a compaction: how many pages `work` moved is added to `done`. Returns where to go on.
    fn move_some<T>(
        &self,
        done: &mut Compacted,
        progress: &mut dyn FnMut(Compacted),
        work: impl FnOnce(&mut Edit<'_>) -> Result<(u64, Option<T>)>,
    ) -> Result<Option<T>> {
        let (moved, next) = self.housekeep(|edit| {
            let stay = edit.pager.stay();
            let moved = work(edit);
            drop(stay);
            edit.pager.relieve();
            moved
        })?;
        done.moved += moved;
        done.after = self.file_bytes();
        progress(*done);
        Ok(next)
    }
}

/// How far the trees of values of a dup table have been walked.
struct ValuePlace {
    /// From which key on there is something to do.
    key: Bound<Vec<u8>>,
    /// Where in its tree.
    place: Place,
}

impl Default for ValuePlace {
    fn default() -> Self {
        ValuePlace { key: Bound::Unbounded, place: Place::new() }
    }
}

impl Edit<'_> {
    /// Moves some pages of a table, or of the catalog: how many, and where to go on.
    fn move_far(&mut self, table: Option<u32>, from: &[usize]) -> Result<(u64, Option<Place>)> {
        let pager = self.pager;
        let end = pager.settle_low(&mut self.writer.alloc) + GAP;
        // Copies of branches take room before `end` too.
        let room = self.writer.alloc.free_before(end, 2 * STEP).div_ceil(2);
        if room == 0 {
            return Ok((0, None));
        }
        let far = |id: PageId| id.0 >= end;
        let before = self.writer.alloc.taken();
        let record = match table {
            None => None,
            Some(id) => match self.writer.record(pager, id)? {
                Some(record) => Some((id, record)),
                // Dropped meanwhile.
                None => return Ok((0, None)),
            },
        };
        let mut sink = pager.writer(&mut self.writer.alloc);
        let next = match record {
            None => Tree::move_far(&mut sink, &mut self.writer.catalog, from, room, &far)?,
            Some((id, mut record)) => {
                let next = match record.kind {
                    TableKind::Ordered | TableKind::Dup => {
                        Tree::move_far(&mut sink, &mut record.root, from, room, &far)?
                    }
                    TableKind::Rows => {
                        let mut root = RowRoot { tree: record.root, next: record.next_row };
                        let next = RowTree::move_far(&mut sink, &mut root, from, room, &far)?;
                        record.root = root.tree;
                        next
                    }
                };
                if self.writer.alloc.taken() > before {
                    self.put_record(id, record);
                }
                next
            }
        };
        Ok(((self.writer.alloc.taken() - before) as u64, next))
    }

    /// Moves some pages of the trees of values of a dup table: how many, and where to go on.
    fn move_far_values(&mut self, id: u32, from: ValuePlace) -> Result<(u64, Option<ValuePlace>)> {
        let pager = self.pager;
        let Some(mut record) = self.record(id, TableKind::Dup)?.filter(|record| record.large > 0) else {
            return Ok((0, None));
        };
        let end = pager.settle_low(&mut self.writer.alloc) + GAP;
        let far = |id: PageId| id.0 >= end;
        let before = self.writer.alloc.taken();
        let mut from = Some(from);
        let mut looked = 0;
        while let Some(ValuePlace { key, place }) = from.take() {
            let moved = self.writer.alloc.taken() - before;
            let room = self.writer.alloc.free_before(end, 2 * STEP).div_ceil(2);
            if moved >= STEP || looked > LOOK {
                from = Some(ValuePlace { key, place });
                break;
            }
            let Some((found, root)) = next_value_tree(pager, &record.root, &key, &mut looked)? else { break };
            if room == 0 {
                break;
            }
            let mut tree = root;
            let rest = Tree::move_far(&mut self.sink(), &mut tree, &place, room.min(STEP), &far)?;
            if tree != root {
                let cell = tree.to_bytes();
                Tree::put(&mut self.sink(), &mut record.root, &found, Value::pointer(&cell))?;
            }
            from = Some(match rest {
                Some(place) => ValuePlace { key: Bound::Included(found), place },
                None => ValuePlace { key: Bound::Excluded(found), place: Place::new() },
            });
        }
        let moved = self.writer.alloc.taken() - before;
        if moved > 0 {
            self.put_record(id, record);
        }
        Ok((moved as u64, from))
    }
}

/// The next key that has a tree of values, and that tree's root. Counts the keys looked at.
fn next_value_tree(
    pager: &Pager,
    root: &TreeRoot,
    from: &Bound<Vec<u8>>,
    looked: &mut usize,
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
        *looked += 1;
        if let Some(cell) = cursor.value().filter(|cell| cell.pointer) {
            let tree = Held::open(pager, cell)?.tree();
            let key = cursor.key()?.map(<[u8]>::to_vec);
            return Ok(key.zip(tree));
        }
        on = cursor.next()?;
    }
    Ok(None)
}
