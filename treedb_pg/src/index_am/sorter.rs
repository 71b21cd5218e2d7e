//! Sorting the entries of a build: in memory up to a budget, in temporary files beyond it.
//!
//! Entries are stored one after the other in an arena: length of the key (2 bytes), length of the value (2), key,
//! value. When the arena is full its entries are sorted and written to a temporary file as a run; at the end the runs are
//! merged. Temporary files count against `temp_file_limit` and go away with the transaction.

use std::cmp::Ordering;

use pgrx::check_for_interrupts;
use treedb_formats::node::Keys;

use super::column::Column;
use super::schema::{Entry, Schema};
use crate::shim::index_build::IndexRow;
use crate::shim::sort_support::TextAbbreviation;
use crate::shim::temp_file::TempFile;

/// Bytes before an entry's key.
const PREFIX: usize = 4;
/// Bytes that are read from a run at a time.
const READ: usize = 64 * 1024;

/// An entry in the arena: a number that orders most entries (the first bytes of the key in byte order, an abbreviated
/// key in another), and where it is.
#[derive(Clone, Copy)]
struct Slot {
    head: u64,
    at: u64,
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
    pub(super) fn of(&mut self, row: &IndexRow<'_>) -> Option<u64> {
        const VALUE: u64 = 1 << 63;
        let abbreviation = self.abbreviation.as_mut()?;
        let Some(value) = row.value(0) else { return Some(if self.nulls_first { 0 } else { u64::MAX }) };
        let key = abbreviation.key(value)?;
        let key = if self.descending { !key } else { key };
        // One bit less of the key, so that NULLs are before or after all values.
        Some(key >> 1 | if self.nulls_first { VALUE } else { 0 })
    }
}

/// Collects entries and gives them back in order.
pub(super) struct Sorter<'s> {
    schema: &'s Schema,
    budget: usize,
    arena: Vec<u8>,
    slots: Vec<Slot>,
    runs: Vec<TempFile>,
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
            runs: Vec::new(),
        }
    }

    /// Adds an entry. `head`, in an index that is not in byte order, is a number that is less only for an entry that is;
    /// either all entries have one or none.
    pub(super) fn add(&mut self, new: &Entry, head: Option<u64>) {
        let size = PREFIX + new.key.len() + new.value.len();
        let used = self.arena.len() + self.slots.len() * size_of::<Slot>();
        if used + size > self.budget && !self.slots.is_empty() {
            self.spill();
        }
        let at = self.arena.len();
        self.arena.extend_from_slice(&(new.key.len() as u16).to_le_bytes());
        self.arena.extend_from_slice(&(new.value.len() as u16).to_le_bytes());
        self.arena.extend_from_slice(&new.key);
        self.arena.extend_from_slice(&new.value);
        let head = match self.schema.keys {
            Keys::Bytewise => head_of(&new.key),
            Keys::Custom => head.unwrap_or(0),
        };
        self.slots.push(Slot { head, at: at as u64 });
    }

    fn sort(&mut self) {
        let (arena, schema) = (&self.arena, self.schema);
        let key = |slot: &Slot| entry(arena, slot.at as usize).0;
        match schema.keys {
            Keys::Bytewise => {
                self.slots.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))))
            }
            // Comparing by a collation is slow enough to need to be interruptible.
            Keys::Custom => self.slots.sort_unstable_by(|a, b| {
                a.head.cmp(&b.head).then_with(|| {
                    check_for_interrupts!();
                    schema.compare(key(a), key(b))
                })
            }),
        }
    }

    /// Sorts what is in memory and writes it to a file.
    fn spill(&mut self) {
        check_for_interrupts!();
        self.sort();
        let mut file = TempFile::create();
        for slot in &self.slots {
            let at = slot.at as usize;
            let (key, value) = entry(&self.arena, at);
            let len = PREFIX + key.len() + value.len();
            file.write(self.arena.get(at..at + len).unwrap_or(&[]));
        }
        file.rewind();
        self.runs.push(file);
        self.slots.clear();
        self.arena.clear();
    }

    /// Hands out every entry in order.
    pub(super) fn drain(mut self, mut each: impl FnMut(&[u8], &[u8])) {
        if self.runs.is_empty() {
            self.sort();
            for (number, slot) in self.slots.iter().enumerate() {
                if number % 4096 == 0 {
                    check_for_interrupts!();
                }
                let (key, value) = entry(&self.arena, slot.at as usize);
                each(key, value);
            }
            return;
        }
        if !self.slots.is_empty() {
            self.spill();
        }
        let mut runs: Vec<Run> = self.runs.drain(..).map(Run::new).collect();
        let mut heap: Vec<usize> = Vec::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            if run.advance() {
                heap.push(number);
            }
        }
        // A binary heap of run numbers, the least entry first.
        let schema = self.schema;
        let before = |runs: &[Run], a: usize, b: usize| match (runs.get(a), runs.get(b)) {
            (Some(a), Some(b)) => schema.compare(a.key(), b.key()) == Ordering::Less,
            _ => false,
        };
        for at in (0..heap.len() / 2).rev() {
            sift(&mut heap, at, |a, b| before(&runs, a, b));
        }
        let mut number = 0_u64;
        while let Some(&top) = heap.first() {
            number += 1;
            if number.is_multiple_of(4096) {
                check_for_interrupts!();
            }
            let Some(run) = runs.get_mut(top) else { break };
            let (key, value) = run.entry();
            each(key, value);
            if !run.advance() {
                heap.swap_remove(0);
            }
            sift(&mut heap, 0, |a, b| before(&runs, a, b));
        }
        for run in runs {
            run.file.close();
        }
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

/// A sorted run being read.
struct Run {
    file: TempFile,
    buffer: Vec<u8>,
    at: usize,
    len: usize,
}

impl Run {
    fn new(file: TempFile) -> Run {
        Run { file, buffer: Vec::new(), at: 0, len: 0 }
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        entry(&self.buffer, self.at)
    }

    fn key(&self) -> &[u8] {
        self.entry().0
    }

    /// Goes to the next entry; false at the end.
    fn advance(&mut self) -> bool {
        self.at += self.len;
        if !self.have(PREFIX) {
            return false;
        }
        let lengths = self.buffer.get(self.at..).and_then(|b| b.first_chunk::<PREFIX>()).copied();
        let Some((key, value)) = lengths.map(lengths_of) else { return false };
        self.len = PREFIX + key + value;
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
        self.buffer.resize(old + READ, 0);
        let room = self.buffer.get_mut(old..).unwrap_or(&mut []);
        let read = self.file.read(room);
        self.buffer.truncate(old + read);
        self.buffer.len() >= len
    }
}
