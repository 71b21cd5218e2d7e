//! Sorting the entries of a build: in memory up to a budget, in temporary files beyond it.
//!
//! Entries are stored one after the other in an arena: length of the key (2 bytes), length of the value (2), key,
//! value. When the arena is full its entries are sorted and written to a temporary file as a run; at the end the runs,
//! and what is left in the arena, are merged. Temporary files count against `temp_file_limit` and go away with the
//! transaction. A worker of a parallel build writes all its runs to files that the leader then merges with its own.
//!
//! A run has the entries as they are in the arena; in an index that is not in byte order, the head (8 bytes, in the
//! machine's byte order) is in front of each, since it is not part of the key.
//!
//! Behind an entry with a compressed key lie, in the arena only, the first bytes of what the key stands for (their length, 4
//! bytes, before them): so a key is decompressed once, and not for every comparison, unless keys begin alike for more bytes
//! than these.
//!
//! What is in the arena is sorted by heads, which lie beside each other. The arena is looked at only where heads are equal: such
//! entries are compared with their neighbours, and sorted where one is out of place. Entries of one value seldom are, as a scan
//! comes to rows in the order of their addresses. Heads that are not certain ([`TextAbbreviation::are_certain`]) only suggest an
//! order: all neighbours are compared then, and everything is sorted without heads if one pair disagrees. They are not used to
//! merge runs.

use std::cmp::Ordering;

use pgrx::check_for_interrupts;
use treedb_formats::node::Keys;

use super::column::Column;
use super::schema::{Entry, Schema};
use crate::shim::index_build::IndexRow;
use crate::shim::sort_support::TextAbbreviation;
use crate::shim::temp_file::{SharedFiles, TempFile};

/// Bytes before an entry's key.
const PREFIX: usize = 4;
/// Bytes of a run's entry before its lengths, where heads are not part of the keys.
const HEAD: usize = 8;
/// Bytes that are written to a run, or read from one, at a time: at most, and at least.
const MOST_AT_ONCE: usize = 256 * 1024;
const LEAST_AT_ONCE: usize = 16 * 1024;

/// Most bytes that are kept of what a compressed key stands for.
const MOST_EXPANDED: usize = 16 * 1024;
/// Bytes of the length before them.
const EXPANDED: usize = 4;

/// An entry in the arena: a number that orders most entries (the first bytes of the key in byte order, an abbreviated
/// key in another), and where it is.
#[derive(Clone, Copy)]
struct Slot {
    head: u64,
    at: u64,
}

/// The head of an entry in an index that is not in byte order.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Less only for an entry that is, or is expected to be if that is not certain.
    number: u64,
    certain: bool,
}

/// Makes the heads of entries in an index whose first column is a text under a collation.
pub(super) struct Heads {
    abbreviation: Option<TextAbbreviation>,
    descending: bool,
    nulls_first: bool,
}

impl Heads {
    pub(super) fn new(schema: &Schema) -> Heads {
        let first = schema.columns.first();
        Heads {
            abbreviation: first.and_then(Column::text_collation).and_then(TextAbbreviation::new),
            descending: first.is_some_and(|column| column.descending),
            nulls_first: first.is_some_and(|column| column.nulls_first),
        }
    }

    /// The head of a row's entry; see [`Sorter::add`].
    pub(super) fn of(&mut self, row: &IndexRow<'_>) -> Option<Head> {
        const VALUE: u64 = 1 << 63;
        let abbreviation = self.abbreviation.as_mut()?;
        let number = match row.value(0) {
            None if self.nulls_first => 0,
            None => u64::MAX,
            Some(value) => {
                let key = abbreviation.key(value)?;
                let key = if self.descending { !key } else { key };
                // One bit less of the key, so that NULLs are before or after all values.
                key >> 1 | if self.nulls_first { VALUE } else { 0 }
            }
        };
        Some(Head { number, certain: abbreviation.are_certain() })
    }
}

/// Collects entries and gives them back in order.
pub(super) struct Sorter<'s> {
    schema: &'s Schema,
    budget: usize,
    arena: Vec<u8>,
    slots: Vec<Slot>,
    /// Nothing has come since the slots were sorted.
    sorted: bool,
    /// Some heads are not certain.
    uncertain: bool,
    runs: Vec<TempFile>,
    /// Where runs are written for another process, and how many there are.
    handed_over: Option<(SharedFiles<'s>, u32)>,
}

/// The lengths of key and value that an entry begins with.
fn lengths_of([k0, k1, v0, v1]: [u8; PREFIX]) -> (usize, usize) {
    (usize::from(u16::from_le_bytes([k0, k1])), usize::from(u16::from_le_bytes([v0, v1])))
}

/// Key and value of the entry at `at`.
fn entry(arena: &[u8], at: usize) -> (&[u8], &[u8]) {
    let Some(lengths) = arena.get(at..).and_then(|b| b.first_chunk::<PREFIX>()) else {
        return (&[], &[]);
    };
    let (key, value) = lengths_of(*lengths);
    let from = at + PREFIX;
    (arena.get(from..from + key).unwrap_or(&[]), arena.get(from + key..from + key + value).unwrap_or(&[]))
}

/// A key, and the first bytes of what it stands for if it is compressed.
#[derive(Clone, Copy)]
struct SortKey<'k> {
    key: &'k [u8],
    expanded: Option<&'k [u8]>,
}

impl<'k> SortKey<'k> {
    /// That of the entry at `at`.
    fn in_arena(schema: &Schema, arena: &'k [u8], at: usize) -> SortKey<'k> {
        let (key, value) = entry(arena, at);
        let expanded = schema.is_compressed(key).then(|| {
            let rest = arena.get(at + PREFIX + key.len() + value.len()..).unwrap_or(&[]);
            let (len, rest) = rest.split_first_chunk::<EXPANDED>().unwrap_or((&[0; EXPANDED], &[]));
            rest.get(..u32::from_le_bytes(*len) as usize).unwrap_or(rest)
        });
        SortKey { key, expanded }
    }

    /// The order of two keys.
    fn compare(self, schema: &Schema, other: SortKey<'_>) -> Ordering {
        if schema.keys == Keys::Bytewise && self.expanded.is_none() && other.expanded.is_none() {
            return self.key.cmp(other.key);
        }
        // Comparing by a collation, or long keys, is slow enough to need to be interruptible.
        check_for_interrupts!();
        if schema.keys == Keys::Custom {
            return schema.compare(self.key, other.key);
        }
        let (a, b) = (self.expanded.unwrap_or(self.key), other.expanded.unwrap_or(other.key));
        a.cmp(b).then_with(|| match a.len() < MOST_EXPANDED {
            true => Ordering::Equal,
            false => schema.compare(self.key, other.key),
        })
    }
}

/// How many entries are brought into the processor's cache at a time.
const AT_ONCE: usize = 16;
/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Touches the entries of a few sorted slots, which lie all over the arena: the processor waits for memory once for all of
/// them.
fn touch(arena: &[u8], slots: &[Slot]) {
    let touched = slots.iter().fold(0, |sum: u8, slot| {
        let at = slot.at as usize;
        [at, at + LINE].iter().filter_map(|at| arena.get(*at)).fold(sum, |sum, byte| sum ^ byte)
    });
    std::hint::black_box(touched);
}

/// Calls `each` with the slots in order.
fn in_order(arena: &[u8], slots: &[Slot], mut each: impl FnMut(&Slot)) {
    for some in slots.chunks(AT_ONCE) {
        touch(arena, some);
        some.iter().for_each(&mut each);
    }
}

/// Sorts slots by their heads, and by their keys where heads are equal.
fn sort_slots(schema: &Schema, arena: &[u8], slots: &mut [Slot]) {
    let compare = |a: &Slot, b: &Slot| {
        let key = |slot: &Slot| SortKey::in_arena(schema, arena, slot.at as usize);
        key(a).compare(schema, key(b))
    };
    // One number, so that a comparison does not branch.
    slots.sort_unstable_by_key(|slot| u128::from(slot.head) << 64 | u128::from(slot.at));
    for alike in slots.chunk_by_mut(|a, b| a.head == b.head) {
        if !alike.is_sorted_by(|a, b| compare(a, b).is_le()) {
            alike.sort_unstable_by(compare);
        }
    }
}

/// Whether slots that were sorted by heads are in the order of their keys.
fn is_sorted(schema: &Schema, arena: &[u8], slots: &[Slot]) -> bool {
    let key = |slot: &Slot| SortKey::in_arena(schema, arena, slot.at as usize);
    let (mut before, mut sorted): (Option<Slot>, bool) = (None, true);
    in_order(arena, slots, |slot| {
        // Those with equal heads have been compared.
        if let Some(before) = before.replace(*slot).filter(|before| sorted && before.head != slot.head) {
            sorted = key(&before).compare(schema, key(slot)).is_le();
        }
    });
    sorted
}

/// The first bytes of a key in byte order, or of what it stands for.
fn head_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (place, byte) in bytes.iter_mut().zip(key) {
        *place = *byte;
    }
    u64::from_be_bytes(bytes)
}

impl<'s> Sorter<'s> {
    /// A sorter that uses up to about `budget` bytes of memory.
    pub(super) fn new(schema: &'s Schema, budget: usize) -> Self {
        Sorter {
            schema,
            budget: budget.max(64 * 1024),
            arena: Vec::new(),
            slots: Vec::new(),
            sorted: false,
            uncertain: false,
            runs: Vec::new(),
            handed_over: None,
        }
    }

    /// A sorter of a worker, whose runs go to `files`.
    pub(super) fn of_worker(schema: &'s Schema, budget: usize, files: SharedFiles<'s>) -> Self {
        Sorter { handed_over: Some((files, 0)), ..Sorter::new(schema, budget) }
    }

    /// Hands over what a worker has collected; returns how many runs that are.
    pub(super) fn hand_over(mut self) -> u32 {
        if !self.slots.is_empty() {
            self.spill();
        }
        self.handed_over.map_or(0, |(_, runs)| runs)
    }

    /// Takes over the runs of the workers, which have ended: from now on this sorter uses up to `budget` bytes.
    pub(super) fn take_over(&mut self, runs: Vec<TempFile>, budget: usize) {
        self.runs.extend(runs);
        self.budget = budget;
    }

    /// Bytes in use for entries.
    fn used(&self) -> usize {
        self.arena.len() + self.slots.len() * size_of::<Slot>()
    }

    /// Adds an entry. `head` is for an index that is not in byte order; either all entries have one or none.
    pub(super) fn add(&mut self, new: &Entry, head: Option<Head>) {
        let compressed = self.schema.is_compressed(&new.key);
        let expanded = compressed.then(|| self.schema.expanded_up_to(&new.key, MOST_EXPANDED));
        let more = expanded.as_ref().map_or(0, |expanded| EXPANDED + expanded.len());
        let size = PREFIX + new.key.len() + new.value.len() + more;
        if self.used() + size > self.budget && !self.slots.is_empty() {
            self.spill();
        }
        let at = self.arena.len();
        self.arena.extend_from_slice(&(new.key.len() as u16).to_le_bytes());
        self.arena.extend_from_slice(&(new.value.len() as u16).to_le_bytes());
        self.arena.extend_from_slice(&new.key);
        self.arena.extend_from_slice(&new.value);
        if let Some(expanded) = &expanded {
            self.arena.extend_from_slice(&(expanded.len() as u32).to_le_bytes());
            self.arena.extend_from_slice(expanded);
        }
        let head_is_uncertain = head.is_some_and(|head| !head.certain);
        let head = match self.schema.keys {
            Keys::Bytewise => head_of(expanded.as_deref().unwrap_or(&new.key)),
            Keys::Custom => head.map_or(0, |head| head.number),
        };
        self.slots.push(Slot { head, at: at as u64 });
        self.sorted = false;
        self.uncertain |= head_is_uncertain;
    }

    /// Sorts what is in memory, unless it is sorted.
    pub(super) fn sort(&mut self) {
        if std::mem::replace(&mut self.sorted, true) {
            return;
        }
        sort_slots(self.schema, &self.arena, &mut self.slots);
        if self.uncertain {
            let agrees = is_sorted(self.schema, &self.arena, &self.slots);
            // Of no use any more: a merge compares entries.
            self.slots.iter_mut().for_each(|slot| slot.head = 0);
            if !agrees {
                sort_slots(self.schema, &self.arena, &mut self.slots);
            }
        }
    }

    /// Sorts what is in memory and writes it to a file.
    fn spill(&mut self) {
        check_for_interrupts!();
        self.sort();
        let mut file = match &self.handed_over {
            Some((files, runs)) => files.create(*runs),
            None => TempFile::create(),
        };
        let with_heads = self.schema.keys == Keys::Custom;
        let mut block = Vec::with_capacity(MOST_AT_ONCE + 2 * usize::from(u16::MAX));
        in_order(&self.arena, &self.slots, |slot| {
            let at = slot.at as usize;
            let (key, value) = entry(&self.arena, at);
            let len = PREFIX + key.len() + value.len();
            if with_heads {
                block.extend_from_slice(&slot.head.to_ne_bytes());
            }
            block.extend_from_slice(self.arena.get(at..at + len).unwrap_or(&[]));
            if block.len() >= MOST_AT_ONCE {
                check_for_interrupts!();
                file.write(&block);
                block.clear();
            }
        });
        file.write(&block);
        match &mut self.handed_over {
            Some((_, runs)) => {
                file.hand_over();
                *runs += 1;
            }
            None => {
                file.rewind();
                self.runs.push(file);
            }
        }
        self.slots.clear();
        self.arena.clear();
    }

    /// Hands out every entry in order.
    pub(super) fn drain(mut self, mut each: impl FnMut(&[u8], &[u8])) {
        let (schema, mut number) = (self.schema, 0_u64);
        let mut each = |key: &[u8], value: &[u8]| {
            number += 1;
            if number.is_multiple_of(4096) || schema.is_compressed(key) {
                check_for_interrupts!();
            }
            each(key, value);
        };
        // The runs' buffers have to do with what the entries in memory leave of the budget.
        let share = |sorter: &Self| sorter.budget.saturating_sub(sorter.used()) / sorter.runs.len().max(1);
        if !self.runs.is_empty() && !self.slots.is_empty() && share(&self) < LEAST_AT_ONCE {
            self.spill();
            self.arena = Vec::new();
            self.slots = Vec::new();
        }
        self.sort();
        if self.runs.is_empty() {
            in_order(&self.arena, &self.slots, |slot| {
                let (key, value) = entry(&self.arena, slot.at as usize);
                each(key, value);
            });
            return;
        }
        let at_once = share(&self).clamp(LEAST_AT_ONCE, MOST_AT_ONCE);
        let head = if self.schema.keys == Keys::Custom { HEAD } else { 0 };
        let runs = self.runs.drain(..).map(|file| Source::File(Run::new(file, head, at_once)));
        let memory = Source::Memory { arena: &self.arena, slots: &self.slots, next: 0 };
        merge(self.schema, runs.chain([memory]).collect(), each);
    }
}

/// Hands out the entries of all sources in order.
fn merge(schema: &Schema, mut sources: Vec<Source<'_>>, mut each: impl FnMut(&[u8], &[u8])) {
    let mut heads = vec![0; sources.len()];
    let mut heap: Vec<usize> = Vec::with_capacity(sources.len());
    for (number, (source, head)) in sources.iter_mut().zip(&mut heads).enumerate() {
        if source.advance(schema) {
            *head = source.head();
            heap.push(number);
        }
    }
    // A binary heap of the sources' numbers, the one with the least entry first.
    let before = |sources: &[Source<'_>], heads: &[u64], a: usize, b: usize| {
        let order = heads.get(a).cmp(&heads.get(b)).then_with(|| match (sources.get(a), sources.get(b)) {
            (Some(a), Some(b)) => a.sort_key(schema).compare(schema, b.sort_key(schema)),
            _ => Ordering::Equal,
        });
        order == Ordering::Less
    };
    for at in (0..heap.len() / 2).rev() {
        sift(&mut heap, at, |a, b| before(&sources, &heads, a, b));
    }
    while let Some(&top) = heap.first() {
        let (Some(source), Some(head)) = (sources.get_mut(top), heads.get_mut(top)) else { break };
        let (key, value) = source.entry();
        each(key, value);
        if source.advance(schema) {
            *head = source.head();
        } else {
            heap.swap_remove(0);
        }
        sift(&mut heap, 0, |a, b| before(&sources, &heads, a, b));
    }
    for source in sources {
        source.close();
    }
}

/// Moves the element at `at` down a binary heap to its place.
fn sift(heap: &mut [usize], mut at: usize, before: impl Fn(usize, usize) -> bool) {
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if let (Some(c), Some(l)) = (heap.get(child), heap.get(least))
                && before(*c, *l)
            {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}

/// Where a merge takes entries from, one after the other.
enum Source<'a> {
    File(Run),
    /// Sorted entries of an arena; `next` is the one after the current one.
    Memory {
        arena: &'a [u8],
        slots: &'a [Slot],
        next: usize,
    },
}

impl Source<'_> {
    /// Goes to the next entry; false at the end.
    fn advance(&mut self, schema: &Schema) -> bool {
        match self {
            Source::File(run) => run.advance(schema),
            Source::Memory { arena, slots, next } => {
                if next.is_multiple_of(AT_ONCE) {
                    let rest = slots.get(*next..).unwrap_or(&[]);
                    touch(arena, rest.get(..AT_ONCE).unwrap_or(rest));
                }
                *next += 1;
                *next <= slots.len()
            }
        }
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        match self {
            Source::File(run) => run.entry(),
            Source::Memory { arena, slots, next } => {
                slots.get(next - 1).map_or((&[], &[]), |slot| entry(arena, slot.at as usize))
            }
        }
    }

    fn sort_key(&self, schema: &Schema) -> SortKey<'_> {
        match self {
            Source::File(run) => run.sort_key(),
            Source::Memory { arena, slots, next } => {
                let at = slots.get(next - 1).map_or(arena.len(), |slot| slot.at as usize);
                SortKey::in_arena(schema, arena, at)
            }
        }
    }

    fn head(&self) -> u64 {
        match self {
            Source::File(run) => run.head(),
            Source::Memory { slots, next, .. } => slots.get(next - 1).map_or(0, |slot| slot.head),
        }
    }

    fn close(self) {
        if let Source::File(run) = self {
            run.file.close();
        }
    }
}

/// A sorted run being read.
struct Run {
    file: TempFile,
    /// Bytes of a stored head.
    head: usize,
    /// Bytes to read at a time.
    at_once: usize,
    buffer: Vec<u8>,
    /// Where the entry is, with its head, and its length.
    at: usize,
    len: usize,
    /// The first bytes of what its key stands for, if it is compressed.
    expanded: Option<Vec<u8>>,
}

impl Run {
    fn new(file: TempFile, head: usize, at_once: usize) -> Run {
        Run { file, head, at_once, buffer: Vec::new(), at: 0, len: 0, expanded: None }
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        entry(&self.buffer, self.at + self.head)
    }

    fn sort_key(&self) -> SortKey<'_> {
        SortKey { key: self.entry().0, expanded: self.expanded.as_deref() }
    }

    fn head(&self) -> u64 {
        match self.head {
            0 => head_of(self.expanded.as_deref().unwrap_or(self.entry().0)),
            _ => {
                self.buffer.get(self.at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
            }
        }
    }

    /// Goes to the next entry; false at the end.
    fn advance(&mut self, schema: &Schema) -> bool {
        if !self.go_on() {
            return false;
        }
        let key = self.entry().0;
        let compressed = schema.is_compressed(key);
        self.expanded = compressed.then(|| schema.expanded_up_to(key, MOST_EXPANDED).into_owned());
        true
    }

    fn go_on(&mut self) -> bool {
        self.at += self.len;
        let before = self.head + PREFIX;
        if !self.have(before) {
            return false;
        }
        let lengths = self.buffer.get(self.at + self.head..).and_then(|b| b.first_chunk::<PREFIX>()).copied();
        let Some((key, value)) = lengths.map(lengths_of) else { return false };
        self.len = before + key + value;
        self.have(self.len)
    }

    /// Reads on until `len` bytes from the current place are in the buffer; false if the file ends before.
    fn have(&mut self, len: usize) -> bool {
        if self.buffer.len() - self.at >= len {
            return true;
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + self.at_once.max(len), 0);
        let room = self.buffer.get_mut(old..).unwrap_or(&mut []);
        let read = self.file.read(room);
        self.buffer.truncate(old + read);
        self.buffer.len() >= len
    }
}
