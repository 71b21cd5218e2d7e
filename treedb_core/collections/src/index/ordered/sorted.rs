//! Many entries of an ordered index: computed from documents, sorted, written leaf by leaf instead of at random.

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_storage::{Reads, Table, WriteTxn};

use super::Ordered;
use super::entry::{append_entry, type_bits};
use super::long_key::{is_long, stored};
use crate::catalog::meta::{IndexFlags, IndexMeta, Meta};
use crate::index::Prepared;

/// Entries that are written in one call.
const CHUNK: usize = 512;

/// Bytes to reserve for a key.
const TYPICAL_KEY_LEN: usize = 32;

/// An entry: where its stored key and the type bits after it are, and the number of its document.
struct EntrySpan {
    at: usize,
    key: usize,
    type_bits: usize,
    document: u64,
}

/// The entries of one index, and their order.
#[derive(Default)]
pub(crate) struct Entries {
    /// Stored keys and type bits, entry by entry.
    bytes: Vec<u8>,
    spans: Vec<EntrySpan>,
    /// Eight bytes of each key, which decide most comparisons, and its position in `spans`.
    order: Vec<(u64, u32)>,
}

/// An entry in [`Entries`].
pub(crate) struct Entry<'e> {
    /// The stored key.
    pub(crate) key: &'e [u8],
    pub(crate) type_bits: &'e [u8],
    /// The number of its document.
    pub(crate) document: u64,
}

impl Entries {
    /// Adds the entries of the document `number`, which is greater than those before it, and returns their flags. `Err`, and
    /// nothing is added, if the document cannot be indexed.
    pub(crate) fn add(
        &mut self,
        def: &IndexDef,
        number: u64,
        document: &RawDocument,
    ) -> Result<IndexFlags, ()> {
        let at = self.bytes.len();
        if let Some(lengths) = def.single(document, &mut self.bytes) {
            let (mut key, mut flags) = (lengths.key, IndexFlags::default());
            if let Some(long) = self.bytes.get(at..at + key).filter(|key| is_long(key)) {
                let short = stored(long).into_owned();
                self.bytes.splice(at..at + key, short.iter().copied());
                (key, flags.shortened) = (short.len(), true);
            }
            self.spans.push(EntrySpan { at, key, type_bits: lengths.type_bits, document: number });
            return Ok(flags);
        }
        let keys = def.all_keys(document).map_err(drop)?;
        let type_bits = type_bits(def, &keys, document);
        let mut flags = IndexFlags { multikey: keys.multikey, ..IndexFlags::default() };
        for key in &keys.keys {
            flags.shortened |= is_long(key);
            let key = stored(key);
            let at = self.bytes.len();
            self.bytes.extend_from_slice(&key);
            self.bytes.extend_from_slice(&type_bits);
            self.spans.push(EntrySpan { at, key: key.len(), type_bits: type_bits.len(), document: number });
        }
        Ok(flags)
    }

    /// Bytes of memory in use.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<EntrySpan>()
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    fn entry(&self, number: u32) -> Option<Entry<'_>> {
        let span = self.spans.get(number as usize)?;
        let (key, type_bits) =
            self.bytes.get(span.at..)?.get(..span.key + span.type_bits)?.split_at(span.key);
        Some(Entry { key, type_bits, document: span.document })
    }

    fn key(&self, number: u32) -> &[u8] {
        self.entry(number).map(|entry| entry.key).unwrap_or_default()
    }

    /// Sorts the entries by key and then by document.
    pub(crate) fn sort(&mut self) {
        let first = self.key(0);
        let mut shared = first.len();
        for number in 1..self.spans.len() as u32 {
            let key = self.key(number);
            if !key.starts_with(first.get(..shared).unwrap_or_default()) {
                shared = first.iter().zip(key).take_while(|(a, b)| a == b).count().min(shared);
            }
        }
        let head = |key: &[u8]| {
            let mut head = [0; 8];
            match key.get(shared..).and_then(|rest| rest.first_chunk()) {
                Some(whole) => head = *whole,
                None => head.iter_mut().zip(key.iter().skip(shared)).for_each(|(to, from)| *to = *from),
            }
            u64::from_be_bytes(head)
        };
        let mut order: Vec<_> =
            (0..self.spans.len() as u32).map(|number| (head(self.key(number)), number)).collect();
        // Both sorts are stable, so that documents stay in order.
        order.sort_by_key(|(head, _)| *head);
        for equal_heads in order.chunk_by_mut(|a, b| a.0 == b.0) {
            if !equal_heads.is_sorted_by(|a, b| self.key(a.1) <= self.key(b.1)) {
                equal_heads.sort_by(|a, b| self.key(a.1).cmp(self.key(b.1)));
            }
        }
        self.order = order;
    }

    /// The entries in the order of [`Entries::sort`].
    pub(crate) fn sorted(&self) -> impl Iterator<Item = Entry<'_>> {
        self.order.iter().filter_map(|&(_, number)| self.entry(number))
    }
}

/// Entries to write to the table of their index in one call.
#[derive(Default)]
pub(crate) struct EntryBatch {
    bytes: Vec<u8>,
    /// Where the value of each begins and ends.
    ends: Vec<(usize, usize)>,
}

impl EntryBatch {
    /// Adds the entry of `row` under the stored `key`.
    pub(crate) fn push(&mut self, unique: bool, key: &[u8], row: RowId, type_bits: &[u8]) {
        let value = append_entry(unique, key, row, type_bits, &mut self.bytes);
        self.ends.push((value, self.bytes.len()));
    }

    /// True if it is time to call [`Self::put`].
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= CHUNK
    }

    /// Writes the entries to `table` and removes them from the batch.
    pub(crate) fn put(&mut self, txn: &mut WriteTxn, table: &Table) -> Result<()> {
        let mut from = 0;
        let all: Vec<(&[u8], &[u8])> = self
            .ends
            .iter()
            .filter_map(|&(value, end)| {
                let key = std::mem::replace(&mut from, end);
                Some((self.bytes.get(key..value)?, self.bytes.get(value..end)?))
            })
            .collect();
        txn.put_all(table, &all)?;
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}

/// The sorted entries of documents that are to be inserted.
pub(super) struct PreparedEntries {
    unique: bool,
    entries: Entries,
    flags: IndexFlags,
}

impl PreparedEntries {
    /// The entries of `documents`; `None` if one of them cannot be indexed or a key exists already.
    pub(super) fn of(
        index: Ordered<'_>,
        txn: &WriteTxn,
        documents: &[&RawDocument],
    ) -> Result<Option<PreparedEntries>> {
        let Ordered { def, table } = index;
        let mut entries = Entries::default();
        entries.spans.reserve(documents.len());
        entries.bytes.reserve(documents.len() * TYPICAL_KEY_LEN);
        let mut flags = IndexFlags::default();
        for (position, document) in documents.iter().enumerate() {
            match entries.add(def, position as u64, document) {
                Ok(more) => flags = flags.union(more),
                Err(()) => return Ok(None),
            }
        }
        entries.sort();
        if def.unique {
            let keys: Vec<&[u8]> = entries.sorted().map(|entry| entry.key).collect();
            let has_duplicates = keys.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
            if has_duplicates || txn.get_many(table, &keys)?.iter().any(Option::is_some) {
                return Ok(None);
            }
        }
        Ok(Some(PreparedEntries { unique: def.unique, entries, flags }))
    }
}

impl Prepared for PreparedEntries {
    fn write(&self, txn: &mut WriteTxn, _: &Meta, index: &IndexMeta, rows: &[RowId]) -> Result<IndexFlags> {
        let table = &index.table;
        let mut batch = EntryBatch::default();
        for entry in self.entries.sorted() {
            let Some(row) = rows.get(entry.document as usize) else { continue };
            batch.push(self.unique, entry.key, *row, entry.type_bits);
            if batch.is_full() {
                batch.put(txn, table)?;
            }
        }
        batch.put(txn, table)?;
        Ok(self.flags)
    }
}
