//! The entries of an index build: read from a snapshot, sorted, written.
//!
//! A build proceeds in slices of as many rows as have [`MEMORY`] bytes of entries. Blocks of rows become sorted runs, read by several threads in
//! parallel. The runs are merged, and the entries are written in key order, leaf by leaf, in short transactions. The last of these
//! stores the progress of the build. After a crash before that the slice is read again, and entries that exist are written again.
//!
//! An entry of the snapshot is correct as long as its row is unchanged. That holds for all rows while the root page of their tree is
//! the snapshot's, because a row cannot change without it. Otherwise each row is compared with the snapshot's, and the keys of a
//! changed row are computed again: the entry is written if the row still has its key. Keys that the row got since were written by
//! the transaction that changed it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::{Arc, Mutex};

use bson::RawDocumentBuf;

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::aggregate::run_in_parallel;
use treedb_query::doc::Fields;
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_query::query::interrupt::InterruptTick;
use treedb_storage::{ReadTxn, Reads, SharedReadTxn};

use super::Ordered;
use super::difference::check_key;
use super::entry::type_bits;
use super::long_key::{find_stored_key, is_long, stored};
use super::sorted::{Entries, EntryBatch};
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta};
use crate::index::{BuildSlice, Progress};
use crate::read::view::View;
use crate::write::edit::Edit;

/// Bytes of entries in a slice.
#[cfg(not(test))]
const MEMORY: usize = 200 << 20;
/// Bytes of unsorted entries after which a block ends.
#[cfg(not(test))]
const BLOCK_MEMORY: usize = 32 << 20;
/// Row ids in a block.
#[cfg(not(test))]
const BLOCK_ROWS: u64 = 1 << 17;
/// Entries written in one transaction.
#[cfg(not(test))]
const STEP_ENTRIES: usize = 16_384;
/// Rows per thread that make another thread worth its start.
#[cfg(not(test))]
const MIN_ROWS_PER_THREAD: u64 = 40_000;

/// In tests a build has several slices of several blocks, and each is written in several steps, so that a simulated power
/// loss can happen between any two of them.
#[cfg(test)]
const MEMORY: usize = 1200;
#[cfg(test)]
const BLOCK_MEMORY: usize = 800;
#[cfg(test)]
const BLOCK_ROWS: u64 = 13;
#[cfg(test)]
const STEP_ENTRIES: usize = 9;
#[cfg(test)]
const MIN_ROWS_PER_THREAD: u64 = 30;

/// The next entry of a run, and the rest of the run.
#[derive(Clone, Copy)]
struct RunEntry<'r> {
    /// The stored key.
    key: &'r [u8],
    row: RowId,
    type_bits: &'r [u8],
    rest: &'r [u8],
}

/// Entries in key order, one after the other: `row (8 bytes, little endian), length of the key (4 bytes), length of the type
/// bits (4 bytes), key, type bits`.
#[derive(Default)]
struct Run(Vec<u8>);

impl Run {
    fn of(entries: &Entries) -> Run {
        let mut run = Vec::with_capacity(entries.size());
        for entry in entries.sorted() {
            run.extend_from_slice(&entry.document.to_le_bytes());
            run.extend_from_slice(&(entry.key.len() as u32).to_le_bytes());
            run.extend_from_slice(&(entry.type_bits.len() as u32).to_le_bytes());
            run.extend_from_slice(entry.key);
            run.extend_from_slice(entry.type_bits);
        }
        run.shrink_to_fit();
        Run(run)
    }
}

impl<'r> RunEntry<'r> {
    /// The first entry of `run`; `None` at its end.
    fn of(run: &'r [u8]) -> Option<RunEntry<'r>> {
        let (row, run) = run.split_first_chunk()?;
        let (key, run) = run.split_first_chunk()?;
        let (type_bits, run) = run.split_first_chunk()?;
        let (key, run) = run.split_at_checked(u32::from_le_bytes(*key) as usize)?;
        let (type_bits, rest) = run.split_at_checked(u32::from_le_bytes(*type_bits) as usize)?;
        Some(RunEntry { key, row: RowId(u64::from_le_bytes(*row)), type_bits, rest })
    }
}

/// Reversed, because `BinaryHeap` pops the greatest first.
impl Ord for RunEntry<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(self.key).then_with(|| other.row.cmp(&self.row))
    }
}

impl PartialOrd for RunEntry<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunEntry<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RunEntry<'_> {}

/// The merge of several runs.
struct Merge<'r>(BinaryHeap<RunEntry<'r>>);

impl<'r> Merge<'r> {
    fn of(runs: &'r [Run]) -> Self {
        Merge(runs.iter().filter_map(|run| RunEntry::of(&run.0)).collect())
    }

    /// The next entry.
    fn peek(&self) -> Option<&RunEntry<'r>> {
        self.0.peek()
    }

    fn next(&mut self) -> Option<RunEntry<'r>> {
        let mut first = self.0.peek_mut()?;
        match RunEntry::of(first.rest) {
            Some(next) => Some(std::mem::replace(&mut *first, next)),
            None => Some(PeekMut::pop(first)),
        }
    }
}

/// The entries of the rows that one thread reads at a time.
struct Block {
    run: Run,
    entries: usize,
    rows: u64,
    flags: IndexFlags,
    /// Rows whose keys could not be computed in the snapshot; they are indexed one by one when the slice is written.
    deferred: Vec<RowId>,
    /// True if the block ended because of [`BLOCK_MEMORY`].
    full: bool,
    /// The first row after it.
    next: Option<u64>,
}

/// Reads blocks.
struct BlockReader<'s> {
    meta: &'s Meta,
    def: &'s IndexDef,
    /// The fields that the keys are made of; `None` for all.
    fields: Option<Fields>,
}

impl BlockReader<'_> {
    /// Reads the rows `from..end`.
    fn read(&self, reads: &impl Reads, from: u64, end: u64) -> Result<Block> {
        let (mut entries, mut deferred) = (Entries::default(), Vec::new());
        let (mut rows, mut flags, mut full, mut next) = (0, IndexFlags::default(), false, None);
        let view = View { reads, meta: self.meta };
        let mut interrupt = InterruptTick::default();
        view.scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
            interrupt.tick()?;
            full = entries.size() >= BLOCK_MEMORY;
            if id.0 >= end || full {
                next = Some(id.0);
                return Ok(Flow::Break(()));
            }
            rows += 1;
            let document = match &self.fields {
                Some(fields) => row.partial_document(fields)?,
                None => row.document()?,
            };
            match entries.add(self.def, id.0, document) {
                Ok(more) => flags = flags.union(more),
                Err(()) => deferred.push(id),
            }
            Ok(Flow::Continue(()))
        })?;
        entries.sort();
        Ok(Block { run: Run::of(&entries), entries: entries.len(), rows, flags, deferred, full, next })
    }
}

/// The entries of a range of rows in a snapshot.
struct Slice {
    reads: SharedReadTxn,
    meta: Arc<Meta>,
    runs: Vec<Run>,
    entries: usize,
    rows: u64,
    flags: IndexFlags,
    deferred: Vec<RowId>,
    /// The first row after it; `None` if there is none.
    next: Option<u64>,
}

impl Slice {
    /// Reads rows from `from` on, as many as [`MEMORY`] allows.
    fn read(reads: &Arc<Mutex<ReadTxn>>, meta: Arc<Meta>, def: &IndexDef, from: u64) -> Result<Slice> {
        let reads_of = || SharedReadTxn::new(reads);
        let mut slice = Slice {
            reads: reads_of(),
            meta: Arc::clone(&meta),
            runs: Vec::new(),
            entries: 0,
            rows: 0,
            flags: IndexFlags::default(),
            deferred: Vec::new(),
            next: Some(from),
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let threads = cores.min(slice.reads.len(&meta.rows)? / MIN_ROWS_PER_THREAD).max(1);
        let reader = BlockReader { meta: &meta, def, fields: def.fields().map(Fields::new) };
        let mut memory_used = 0;
        while let (Some(from), true) = (slice.next, memory_used < MEMORY) {
            let blocks = run_in_parallel((0..threads).collect(), |number| {
                let from = from.saturating_add(number * BLOCK_ROWS);
                reader.read(&reads_of(), from, from.saturating_add(BLOCK_ROWS))
            });
            for block in blocks {
                let block = block?;
                memory_used += block.run.0.len() + block.deferred.len() * size_of::<RowId>();
                slice.runs.push(block.run);
                slice.entries += block.entries;
                slice.rows += block.rows;
                slice.flags = slice.flags.union(block.flags);
                slice.deferred.extend(block.deferred);
                slice.next = block.next;
                // Blocks after a full one begin too late: its remaining rows come first.
                if block.full || block.next.is_none() {
                    break;
                }
            }
        }
        Ok(slice)
    }
}

/// Builds the next slice and calls `on_progress` with the number of rows done in each step.
///
/// # Errors
/// Those of its keys; `NamespaceNotFound`.
pub(super) fn build(
    def: &IndexDef,
    at: &BuildSlice<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Progress> {
    let slice = Slice::read(&at.reads, Arc::clone(&at.meta), def, at.from)?;
    let mut entries = Merge::of(&slice.runs);
    let (mut deferred, mut written, mut reported) = (slice.deferred.iter(), 0, 0);
    loop {
        let left = at.edit(|edit, index| {
            written += edit.put_entries(index, &slice, &mut entries)?;
            let more = match entries.peek() {
                Some(_) => true,
                None => edit.put_deferred(index, &mut deferred)?,
            };
            if !more {
                edit.finish_slice(index, slice.flags, slice.next)?;
            }
            Ok(more)
        })?;
        match left {
            None => return Ok(Progress::Dropped),
            Some(true) => {
                let done = slice.rows * written as u64 / (slice.entries as u64).max(1);
                on_progress(done - reported);
                reported = done;
            }
            Some(false) => {
                on_progress(slice.rows - reported);
                return Ok(if slice.next.is_some() { Progress::More } else { Progress::Ready });
            }
        }
    }
}

impl Edit<'_> {
    /// Writes at most [`STEP_ENTRIES`] entries of `slice` to the index at position `at`; returns how many it took from
    /// `entries`.
    fn put_entries(&mut self, at: usize, slice: &Slice, entries: &mut Merge<'_>) -> Result<usize> {
        let Some(target) = self.meta.indexes.get(at).and_then(IndexMeta::ordered) else { return Ok(0) };
        let unique = target.def.unique;
        let same_rows = self.txn.find(&self.meta.rows)?.is_same(&slice.reads.find(&slice.meta.rows)?);
        // Keys above all those in the index need no duplicate check, except against the previous entry.
        let all_above = match (self.txn.last(target.table)?, entries.peek()) {
            (Some((last, _)), Some(first)) => *last < *first.key,
            _ => true,
        };
        let (mut batch, mut last, mut old, mut count) = (EntryBatch::default(), None, Vec::new(), 0);
        while count < STEP_ENTRIES
            && let Some(entry) = entries.next()
        {
            count += 1;
            let now = match same_rows || self.is_unchanged(slice, entry.row, &mut old)? {
                true => None,
                false => match self.current_type_bits(target, &entry)? {
                    None => continue,
                    type_bits => type_bits,
                },
            };
            let repeated = unique && last == Some(entry.key);
            if repeated || batch.is_full() {
                batch.put(self.txn, target.table)?;
            }
            if repeated || unique && !all_above {
                self.check_unique(target, &entry)?;
            }
            batch.push(unique, entry.key, entry.row, now.as_deref().unwrap_or(entry.type_bits));
            last = Some(entry.key);
        }
        batch.put(self.txn, target.table)?;
        Ok(count)
    }

    /// Refuses an entry of a unique index whose key another row has.
    fn check_unique(&self, index: Ordered<'_>, entry: &RunEntry<'_>) -> Result<()> {
        match index.holder_of(self.txn, entry.key)? {
            Some(other) if other != entry.row => {
                let document = self.view().document(entry.row)?;
                let document = document.unwrap_or_else(|| Cow::Owned(RawDocumentBuf::new()));
                let key = find_stored_key(index.def.keys(&document)?.keys, entry.key).unwrap_or_default();
                Err(index.def.duplicate(self.meta.namespace.as_str(), &key, &document))
            }
            _ => Ok(()),
        }
    }

    /// Whether a row is the same as in the snapshot of `slice`; `scratch` is a buffer for the latter.
    fn is_unchanged(&self, slice: &Slice, row: RowId, scratch: &mut Vec<u8>) -> Result<bool> {
        scratch.clear();
        let was =
            slice.reads.visit_row(&slice.meta.rows, row.0, &mut |row| scratch.extend_from_slice(row))?;
        let mut same = false;
        self.txn.visit_row(&self.meta.rows, row.0, &mut |row| same = was && *row == **scratch)?;
        Ok(same)
    }

    /// The type bits of an entry if its row still has the key; `None` if it does not.
    fn current_type_bits(&self, index: Ordered<'_>, entry: &RunEntry<'_>) -> Result<Option<Vec<u8>>> {
        let Some(document) = self.view().document(entry.row)? else { return Ok(None) };
        let keys = index.def.keys(&document)?;
        let type_bits = type_bits(index.def, &keys, &document);
        Ok(find_stored_key(keys.keys, entry.key).map(|_| type_bits))
    }

    /// Writes the entries of deferred rows, and returns whether any rows are left.
    fn put_deferred(&mut self, at: usize, rows: &mut std::slice::Iter<'_, RowId>) -> Result<bool> {
        let (mut batch, mut flags) = (EntryBatch::default(), IndexFlags::default());
        for row in rows.by_ref().take(STEP_ENTRIES) {
            let Some(target) = self.meta.indexes.get(at).and_then(IndexMeta::ordered) else {
                return Ok(false);
            };
            let Some(document) = self.view().document(*row)?.map(Cow::into_owned) else { continue };
            let keys = target.def.keys(&document)?;
            let type_bits = type_bits(target.def, &keys, &document);
            flags.multikey |= keys.multikey;
            for key in &keys.keys {
                check_key(&self.meta.namespace, target.def, key, Some(*row), &document, &|key| {
                    target.holder_of(self.txn, &stored(key))
                })?;
                flags.shortened |= is_long(key);
                batch.push(target.def.unique, &stored(key), *row, &type_bits);
            }
            batch.put(self.txn, target.table)?;
        }
        let known = self.meta.indexes.get(at).map(|target| target.flags);
        if let Some(new_flags) = known.and_then(|known| known.added_by(flags)) {
            self.set_flags(&[(at, new_flags)])?;
        }
        Ok(!rows.as_slice().is_empty())
    }
}
