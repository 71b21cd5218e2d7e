//! The entries of an index that is built: read in a snapshot, put in order, written.
//!
//! A build goes by slices: as many rows as have [`MEMORY`] bytes of entries. A slice is read in a snapshot that was begun
//! when the catalog had the index already, so whoever changes a row from then on maintains the index. Blocks of rows make
//! sorted runs, several threads one each; the runs are merged, and the entries go into the tree in the order of their keys
//! and leaf by leaf, in short transactions. The last of these tells how far the build has come; if it is cut short before,
//! the slice is read again, and entries that are there already are put once more.
//!
//! An entry of the snapshot is right as long as its row is what it was. That is so for all while the root of the rows'
//! tree is the one of the snapshot: a row never changes without its root. Otherwise each row is compared with what it
//! was, and that of another content is asked for its keys again. The entry goes in if it has the key still; keys it has got
//! since were put by who gave them to it.

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
use treedb_storage::{Durability, ReadTxn, Reads, SharedReadTxn};

use crate::catalog::meta::{Facts, IndexMeta, Meta};
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::read::long_key::{is_long, key_of, stored};
use crate::read::view::View;
use crate::write::bulk::{Entries, Pairs};
use crate::write::change::{check_key, type_bits};
use crate::write::edit::{Edit, holder, holder_of};

/// Bytes of entries that a build holds.
#[cfg(not(test))]
const MEMORY: usize = 200 << 20;
/// Bytes of entries, as they are collected, after which a block of rows ends.
#[cfg(not(test))]
const BLOCK_MEMORY: usize = 32 << 20;
/// Row ids of a block.
#[cfg(not(test))]
const BLOCK: u64 = 1 << 17;
/// Entries that are written between two chances for other writers.
#[cfg(not(test))]
const STEP: usize = 16_384;
/// Rows that a thread must have to read to be worth its beginning.
#[cfg(not(test))]
const WORTH: u64 = 40_000;

/// In tests a build has several slices, a slice several blocks, and each is written in several steps, so that power can
/// go between any two of them.
#[cfg(test)]
const MEMORY: usize = 1200;
#[cfg(test)]
const BLOCK_MEMORY: usize = 800;
#[cfg(test)]
const BLOCK: u64 = 13;
#[cfg(test)]
const STEP: usize = 9;
#[cfg(test)]
const WORTH: u64 = 30;

/// How a build goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There are rows that it has not looked at.
    More,
    /// The index is ready.
    Ready,
    /// The index is no longer there.
    Gone,
}

/// The next entry of a run, and what is behind it.
#[derive(Clone, Copy)]
struct Front<'r> {
    /// As it is stored.
    key: &'r [u8],
    row: RowId,
    type_bits: &'r [u8],
    rest: &'r [u8],
}

/// Entries in the order of their keys, one behind the other: `row (8 bytes, little endian), length of the key (4 bytes),
/// length of the marks (4 bytes), key, marks`.
#[derive(Default)]
struct Run(Vec<u8>);

impl Run {
    fn of(entries: &Entries) -> Run {
        let mut run = Vec::with_capacity(entries.size());
        for entry in entries.in_order() {
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

impl<'r> Front<'r> {
    /// The first entry of these; `None` at the end.
    fn of(run: &'r [u8]) -> Option<Front<'r>> {
        let (row, run) = run.split_first_chunk()?;
        let (key, run) = run.split_first_chunk()?;
        let (type_bits, run) = run.split_first_chunk()?;
        let (key, run) = run.split_at_checked(u32::from_le_bytes(*key) as usize)?;
        let (type_bits, rest) = run.split_at_checked(u32::from_le_bytes(*type_bits) as usize)?;
        Some(Front { key, row: RowId(u64::from_le_bytes(*row)), type_bits, rest })
    }
}

/// The least is the greatest, as a heap wants it.
impl Ord for Front<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(self.key).then_with(|| other.row.cmp(&self.row))
    }
}

impl PartialOrd for Front<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Front<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Front<'_> {}

/// Several runs as one.
struct Merge<'r>(BinaryHeap<Front<'r>>);

impl<'r> Merge<'r> {
    fn of(runs: &'r [Run]) -> Self {
        Merge(runs.iter().filter_map(|run| Front::of(&run.0)).collect())
    }

    /// The entry that comes next.
    fn peek(&self) -> Option<&Front<'r>> {
        self.0.peek()
    }

    fn next(&mut self) -> Option<Front<'r>> {
        let mut first = self.0.peek_mut()?;
        match Front::of(first.rest) {
            Some(next) => Some(std::mem::replace(&mut *first, next)),
            None => Some(PeekMut::pop(first)),
        }
    }
}

/// What one thread reads at a time.
struct Block {
    run: Run,
    entries: usize,
    rows: u64,
    facts: Facts,
    /// Rows that are looked at one by one: their keys cannot be had.
    odd: Vec<RowId>,
    /// True if it ended for want of memory.
    full: bool,
    /// The first row behind it.
    next: Option<u64>,
}

/// The rows of a block.
struct BlockReader<'s> {
    meta: &'s Meta,
    def: &'s IndexDef,
    /// The fields that the keys are made of; `None` for any.
    fields: Option<Fields>,
}

impl BlockReader<'_> {
    /// Reads the rows `from..end`.
    fn read(&self, reads: &impl Reads, from: u64, end: u64) -> Result<Block> {
        let (mut entries, mut odd) = (Entries::default(), Vec::new());
        let (mut rows, mut facts, mut full, mut next) = (0, Facts::default(), false, None);
        let view = View { reads, meta: self.meta };
        view.scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
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
                Ok(more) => facts = facts.and(more),
                Err(()) => odd.push(id),
            }
            Ok(Flow::Continue(()))
        })?;
        entries.arrange();
        Ok(Block { run: Run::of(&entries), entries: entries.len(), rows, facts, odd, full, next })
    }
}

/// The entries of some rows, as a snapshot has them.
struct Slice {
    reads: SharedReadTxn,
    meta: Arc<Meta>,
    runs: Vec<Run>,
    entries: usize,
    rows: u64,
    facts: Facts,
    odd: Vec<RowId>,
    /// The first row behind it; `None` if there is none.
    next: Option<u64>,
}

impl Slice {
    /// Reads the rows from `from` on that the memory is enough for.
    fn read(reads: Arc<Mutex<ReadTxn>>, meta: Arc<Meta>, index: usize, from: u64) -> Result<Slice> {
        let reads_of = || SharedReadTxn::new(&reads);
        let mut slice = Slice {
            reads: reads_of(),
            meta: Arc::clone(&meta),
            runs: Vec::new(),
            entries: 0,
            rows: 0,
            facts: Facts::default(),
            odd: Vec::new(),
            next: Some(from),
        };
        let Some(IndexMeta { def, .. }) = meta.indexes.get(index) else { return Ok(slice) };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let threads = cores.min(slice.reads.len(&meta.rows)? / WORTH).max(1);
        let reader = BlockReader { meta: &meta, def, fields: def.fields().map(Fields::new) };
        let mut held = 0;
        while let (Some(from), true) = (slice.next, held < MEMORY) {
            let blocks = run_in_parallel((0..threads).collect(), |number| {
                let from = from.saturating_add(number * BLOCK);
                reader.read(&reads_of(), from, from.saturating_add(BLOCK))
            });
            for block in blocks {
                let block = block?;
                held += block.run.0.len() + block.odd.len() * size_of::<RowId>();
                slice.runs.push(block.run);
                slice.entries += block.entries;
                slice.rows += block.rows;
                slice.facts = slice.facts.and(block.facts);
                slice.odd.extend(block.odd);
                slice.next = block.next;
                // Those behind a full one begin where it did not come to.
                if block.full || block.next.is_none() {
                    break;
                }
            }
        }
        Ok(slice)
    }
}

/// Takes the build of the index `id` a slice further, and calls `looked_at` with numbers of rows that are done.
///
/// # Errors
/// Those of its keys; `NamespaceNotFound`.
pub(crate) fn go_on(
    db: &Database,
    namespace: &Namespace,
    id: i64,
    mut looked_at: impl FnMut(u64),
) -> Result<Progress> {
    let reads = db.inner.store.begin_read()?;
    let missing = || Database::missing(namespace);
    let meta = db.inner.catalog.find(&reads, namespace)?.ok_or_else(missing)?;
    let building = |meta: &Meta| {
        let at = meta.indexes.iter().position(|index| index.id == id)?;
        Some((at, meta.indexes.get(at)?.building))
    };
    let from = match building(&meta) {
        None => return Ok(Progress::Gone),
        Some((_, None)) => return Ok(Progress::Ready),
        Some((at, Some(from))) => (at, from),
    };
    let slice = Slice::read(Arc::new(Mutex::new(reads)), meta, from.0, from.1)?;
    let mut entries = Merge::of(&slice.runs);
    let (mut odd, mut written, mut told) = (slice.odd.iter(), 0, 0);
    loop {
        let left = db.edit(namespace, false, Some(Durability::Relaxed), |edit| {
            let Some((at, Some(_))) = building(&edit.meta) else { return Ok(None) };
            written += edit.put_entries(at, &slice, &mut entries)?;
            let more = match entries.peek() {
                Some(_) => true,
                None => edit.put_odd(at, &mut odd)?,
            };
            if !more {
                edit.built_to(at, &slice)?;
            }
            Ok(Some(more))
        })?;
        match left.ok_or_else(missing)? {
            None => return Ok(Progress::Gone),
            Some(true) => {
                let done = slice.rows * written as u64 / (slice.entries as u64).max(1);
                looked_at(done - told);
                told = done;
            }
            Some(false) => {
                looked_at(slice.rows - told);
                return Ok(if slice.next.is_some() { Progress::More } else { Progress::Ready });
            }
        }
    }
}

impl Edit<'_> {
    /// Writes entries of `slice` to the index number `at`, [`STEP`] at most, and returns how many were looked at.
    fn put_entries(&mut self, at: usize, slice: &Slice, entries: &mut Merge<'_>) -> Result<usize> {
        let Some(target) = self.meta.indexes.get(at) else { return Ok(0) };
        let unique = target.def.unique;
        let same_rows = self.txn.find(&self.meta.rows)?.is_same(&slice.reads.find(&slice.meta.rows)?);
        // Above all that the index has, keys need not be looked for one by one; only the last of them may come again.
        let above = match (self.txn.last(&target.table)?, entries.peek()) {
            (Some((last, _)), Some(first)) => *last < *first.key,
            _ => true,
        };
        let (mut pairs, mut last, mut old, mut count) = (Pairs::default(), None, Vec::new(), 0);
        while count < STEP
            && let Some(entry) = entries.next()
        {
            count += 1;
            let now = match same_rows || self.is_as_it_was(slice, entry.row, &mut old)? {
                true => None,
                false => match self.marks_now(target, &entry)? {
                    None => continue,
                    type_bits => type_bits,
                },
            };
            let again = unique && last == Some(entry.key);
            if again || pairs.is_full() {
                pairs.put(self.txn, &target.table)?;
            }
            if again || unique && !above {
                self.refuse_other(target, &entry)?;
            }
            pairs.push(unique, entry.key, entry.row, now.as_deref().unwrap_or(entry.type_bits));
            last = Some(entry.key);
        }
        pairs.put(self.txn, &target.table)?;
        Ok(count)
    }

    /// Refuses an entry of a unique index whose key another row has.
    fn refuse_other(&self, index: &IndexMeta, entry: &Front<'_>) -> Result<()> {
        match holder_of(self.txn, index, entry.key)? {
            Some(other) if other != entry.row => {
                let document = self.view().document(entry.row)?;
                let document = document.unwrap_or_else(|| Cow::Owned(RawDocumentBuf::new()));
                let key = key_of(index.def.keys(&document)?.keys, entry.key).unwrap_or_default();
                Err(index.def.duplicate(self.meta.namespace.as_str(), &key, &document))
            }
            _ => Ok(()),
        }
    }

    /// Whether a row is what it was in the snapshot of `slice`; `scratch` is for what it was.
    fn is_as_it_was(&self, slice: &Slice, row: RowId, scratch: &mut Vec<u8>) -> Result<bool> {
        scratch.clear();
        let was =
            slice.reads.visit_row(&slice.meta.rows, row.0, &mut |row| scratch.extend_from_slice(row))?;
        let mut same = false;
        self.txn.visit_row(&self.meta.rows, row.0, &mut |row| same = was && *row == **scratch)?;
        Ok(same)
    }

    /// The marks of an entry if its row has the key now; `None` if it has not.
    fn marks_now(&self, index: &IndexMeta, entry: &Front<'_>) -> Result<Option<Vec<u8>>> {
        let Some(document) = self.view().document(entry.row)? else { return Ok(None) };
        let keys = index.def.keys(&document)?;
        let type_bits = type_bits(&index.def, &keys, &document);
        Ok(key_of(keys.keys, entry.key).map(|_| type_bits))
    }

    /// Writes the entries of odd rows, and returns whether some are left.
    fn put_odd(&mut self, at: usize, rows: &mut std::slice::Iter<'_, RowId>) -> Result<bool> {
        let (mut pairs, mut facts) = (Pairs::default(), Facts::default());
        for row in rows.by_ref().take(STEP) {
            let Some(target) = self.meta.indexes.get(at) else { return Ok(false) };
            let Some(document) = self.view().document(*row)?.map(Cow::into_owned) else { continue };
            let keys = target.def.keys(&document)?;
            let type_bits = type_bits(&target.def, &keys, &document);
            facts.multikey |= keys.multikey;
            for key in &keys.keys {
                check_key(&self.meta.namespace, &target.def, key, Some(*row), &document, &|key| {
                    holder(self.txn, target, key)
                })?;
                facts.shortened |= is_long(key);
                pairs.push(target.def.unique, &stored(key), *row, &type_bits);
            }
            pairs.put(self.txn, &target.table)?;
        }
        let known = self.meta.indexes.get(at).map(|target| target.facts);
        if let Some(news) = known.and_then(|known| known.news(facts)) {
            self.note(&[(at, news)])?;
        }
        Ok(!rows.as_slice().is_empty())
    }

    /// Notes that the index number `at` has the entries of `slice`.
    fn built_to(&mut self, at: usize, slice: &Slice) -> Result<()> {
        let meta = Arc::make_mut(&mut self.meta);
        if let Some(target) = meta.indexes.get_mut(at) {
            target.facts = target.facts.and(slice.facts);
            target.building = slice.next;
        }
        meta.arrange();
        self.catalog.write(self.txn, meta)
    }
}
