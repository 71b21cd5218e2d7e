//! Compaction: pages move to the front of the page file, and its end is cut off.
//!
//! Pages after the position where the live pages would end if they were contiguous are copied to free pages before it, a
//! few in each of many small transactions, so that readers and writers are not blocked. Two checkpoints later the old
//! pages are free and the file ends in free pages only: [`Pager::trim`](crate::page::Pager) forgets them, the next
//! checkpoint makes that durable, and only then is the file shortened. A snapshot keeps the pages it can reach where they
//! are, and the file as long as that requires.

use super::catalog::TableKind;
use super::dup::ValueTreePosition;
use super::edit::Edit;
use super::store::{Inner, Store};
use crate::Result;
use crate::btree::{Position, RowRoot, RowTree, Tree};
use crate::page::PageId;

/// Pages moved by one transaction, at most.
pub(super) const STEP: usize = 128;
/// How often the trees are walked: the first walk moves nearly everything, the next ones what was written meanwhile.
const WALKS: usize = 3;
/// Pages that may be between the live ones: of a path that is copied, and of the free list.
pub(super) const GAP: u32 = 8;
/// Never-used pages that a compacted file keeps.
const SLACK: u32 = 16;

/// How far a compaction is, and what it did in the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of all files before.
    pub before: u64,
    /// Bytes of all files now.
    pub after: u64,
    /// Pages that were moved.
    pub moved: u64,
}

impl Store {
    /// Makes the files as small as their content allows, without blocking readers and writers: moves live pages to the
    /// front of the page file and live values out of value segments that are half dead, in small transactions, truncates
    /// the log and shortens the page file. What a snapshot can reach is kept until it ends: compact when no old one is
    /// open. Room for a copy of a few pages is needed. `progress` is called after each of the small transactions.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn compact(&self, mut progress: impl FnMut(CompactProgress)) -> Result<CompactProgress> {
        let inner = &*self.inner;
        inner.refuse_writes()?;
        let _one = inner.lock_checkpoints();
        let mut done = CompactProgress { before: inner.file_bytes(), ..CompactProgress::default() };
        // What the checkpoint before this one kept is free after it.
        inner.write_checkpoint(None)?;
        inner.reclaim()?;
        inner.write_checkpoint(None)?;
        for _ in 0..WALKS {
            let before = done.moved;
            inner.relocate_pages(&mut done, &mut progress)?;
            if done.moved == before {
                break;
            }
            inner.truncate_file()?;
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
    pub(super) fn relocate_and_truncate(&self) -> Result<()> {
        self.relocate_pages(&mut CompactProgress::default(), &mut |_| {})?;
        self.truncate_file()
    }

    /// Two checkpoints: one to make the new places of pages durable, one to be without the old ones.
    fn truncate_file(&self) -> Result<()> {
        self.write_checkpoint(None)?;
        self.write_checkpoint(Some(SLACK))
    }

    /// Walks all trees once and moves the pages that are too far back.
    fn relocate_pages(
        &self,
        done: &mut CompactProgress,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<()> {
        let mut tables = vec![None];
        let snapshot = super::snapshot::Snapshot::new(self)?;
        tables.extend(super::reads::Reads::tables(&snapshot)?.iter().map(|table| Some(table.id)));
        drop(snapshot);
        for table in tables {
            let mut position = Some(Position::new());
            while let Some(from) = position {
                position = self.relocate_step(done, progress, |edit| edit.relocate(table, &from))?;
            }
            let mut position = table.map(|table| (table, ValueTreePosition::default()));
            while let Some((table, from)) = position {
                let next =
                    self.relocate_step(done, progress, |edit| edit.relocate_value_trees(table, from))?;
                position = next.map(|next| (table, next));
            }
        }
        Ok(())
    }

    /// One small transaction of a compaction: how many pages `work` moved is added to `done`. Returns where to continue.
    fn relocate_step<T>(
        &self,
        done: &mut CompactProgress,
        progress: &mut dyn FnMut(CompactProgress),
        work: impl FnOnce(&mut Edit<'_>) -> Result<(u64, Option<T>)>,
    ) -> Result<Option<T>> {
        let (moved, next) = self.run_maintenance(|edit| {
            let epoch = edit.pager.enter_epoch();
            let moved = work(edit);
            drop(epoch);
            edit.pager.evict_for_writer();
            moved
        })?;
        done.moved += moved;
        done.after = self.file_bytes();
        progress(*done);
        Ok(next)
    }
}

impl Edit<'_> {
    /// Moves some pages of a table, or of the catalog. Returns how many, and where to continue.
    fn relocate(&mut self, table: Option<u32>, from: &[usize]) -> Result<(u64, Option<Position>)> {
        let pager = self.pager;
        let end = pager.sort_free_pages(&mut self.writer.alloc) + GAP;
        // Copies of branches take room before `end` too.
        let room = self.writer.alloc.free_before(end, 2 * STEP).div_ceil(2);
        if room == 0 {
            return Ok((0, None));
        }
        let must_move = |id: PageId| id.0 >= end;
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
            None => Tree::relocate(&mut sink, &mut self.writer.catalog, from, room, &must_move)?,
            Some((id, mut record)) => {
                let next = match record.kind {
                    TableKind::Ordered | TableKind::Dup => {
                        Tree::relocate(&mut sink, &mut record.root, from, room, &must_move)?
                    }
                    TableKind::Rows => {
                        let mut root = RowRoot { tree: record.root, next: record.next_row };
                        let next = RowTree::relocate(&mut sink, &mut root, from, room, &must_move)?;
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
}
