//! Many documents at once: what an insert of several does as long as none is refused.
//!
//! The keys of all documents are put in order, index by index. So an index is asked once, in order, whether it has any of
//! them, and its entries go in leaf by leaf instead of one here and one there. Whether something is refused is known
//! before anything is written; then nothing is, and the caller inserts one by one, to find out what.

use std::sync::Arc;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_storage::{Reads, Table, WriteTxn};

use crate::catalog::meta::Facts;
use crate::catalog::validator::Validator;
use crate::read::long_key::{is_long, stored};
use crate::read::view::append_entry;
use crate::write::change::{check_document, type_bits};
use crate::write::edit::Edit;

/// Fewer documents than this are inserted one by one.
const LEAST: usize = 8;

/// Entries or rows that are put in one call.
const CHUNK: usize = 512;

/// Bytes that most keys have at most.
const USUAL_KEY: usize = 32;

/// An entry: where its key, as it is stored, and the marks behind it are, and the number of its document.
struct Place {
    at: usize,
    key: usize,
    type_bits: usize,
    document: u64,
}

/// The entries of one index, and the order they go in.
#[derive(Default)]
pub(crate) struct Entries {
    /// Keys and marks, entry by entry.
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Eight bytes of each key, which decide most comparisons, and its position in `places`.
    order: Vec<(u64, u32)>,
}

/// An entry as it is found in [`Entries`].
pub(crate) struct Entry<'e> {
    /// As it is stored.
    pub(crate) key: &'e [u8],
    pub(crate) type_bits: &'e [u8],
    /// The number that its document was added with.
    pub(crate) document: u64,
}

impl Entries {
    /// Adds the entries of the document with this number, which is above those before it, and tells what is true of them;
    /// `Err`, and nothing is added, if its keys cannot be had.
    pub(crate) fn add(&mut self, def: &IndexDef, number: u64, document: &RawDocument) -> Result<Facts, ()> {
        let at = self.bytes.len();
        if let Some(lengths) = def.single(document, &mut self.bytes) {
            let (mut key, mut facts) = (lengths.key, Facts::default());
            if let Some(long) = self.bytes.get(at..at + key).filter(|key| is_long(key)) {
                let short = stored(long).into_owned();
                self.bytes.splice(at..at + key, short.iter().copied());
                (key, facts.shortened) = (short.len(), true);
            }
            self.places.push(Place { at, key, type_bits: lengths.type_bits, document: number });
            return Ok(facts);
        }
        let keys = def.keys(document).map_err(drop)?;
        let type_bits = type_bits(def, &keys, document);
        let mut facts = Facts { multikey: keys.multikey, shortened: false };
        for key in &keys.keys {
            facts.shortened |= is_long(key);
            let key = stored(key);
            let at = self.bytes.len();
            self.bytes.extend_from_slice(&key);
            self.bytes.extend_from_slice(&type_bits);
            self.places.push(Place { at, key: key.len(), type_bits: type_bits.len(), document: number });
        }
        Ok(facts)
    }

    /// Bytes of memory that they take.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn entry(&self, number: u32) -> Option<Entry<'_>> {
        let place = self.places.get(number as usize)?;
        let (key, type_bits) =
            self.bytes.get(place.at..)?.get(..place.key + place.type_bits)?.split_at(place.key);
        Some(Entry { key, type_bits, document: place.document })
    }

    fn key(&self, number: u32) -> &[u8] {
        self.entry(number).map(|entry| entry.key).unwrap_or_default()
    }

    /// Puts the entries in the order of their keys, those of equal keys in that of their documents.
    pub(crate) fn arrange(&mut self) {
        let first = self.key(0);
        let mut shared = first.len();
        for number in 1..self.places.len() as u32 {
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
            (0..self.places.len() as u32).map(|number| (head(self.key(number)), number)).collect();
        // Stable, and so is what follows: documents stay in order.
        order.sort_by_key(|(head, _)| *head);
        for alike in order.chunk_by_mut(|a, b| a.0 == b.0) {
            if !alike.is_sorted_by(|a, b| self.key(a.1) <= self.key(b.1)) {
                alike.sort_by(|a, b| self.key(a.1).cmp(self.key(b.1)));
            }
        }
        self.order = order;
    }

    /// The entries, in the order that [`Entries::arrange`] has put them in.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = Entry<'_>> {
        self.order.iter().filter_map(|&(_, number)| self.entry(number))
    }
}

/// Entries that go into the table of their index with one call.
#[derive(Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    /// Where the value of each begins, and where it ends.
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    /// Adds the entry of `row` under `key`, which is as it is stored.
    pub(crate) fn push(&mut self, unique: bool, key: &[u8], row: RowId, type_bits: &[u8]) {
        let value = append_entry(unique, key, row, type_bits, &mut self.bytes);
        self.ends.push((value, self.bytes.len()));
    }

    /// Whether they are as many as one call takes.
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= CHUNK
    }

    /// Puts them into `table`; none are left.
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

/// Inserts `documents`, each valid, with an `_id` first. False, and nothing changed, if one of them would be refused, or
/// if they are few.
///
/// # Errors
/// Those of the storage engine.
pub(crate) fn insert_all(edit: &mut Edit<'_>, documents: &[&RawDocument]) -> Result<bool> {
    let validator = edit.meta.validator.as_ref();
    // What is only warned of would be looked at, and logged, once more if another document is refused.
    if documents.len() < LEAST
        || validator.is_some_and(Validator::warns)
        || documents.iter().any(|document| check_document(validator, None, document).is_err())
    {
        return Ok(false);
    }
    let Some((indexes, news)) = keys_in_order(edit, documents)? else { return Ok(false) };
    let mut rows = Vec::with_capacity(documents.len());
    for some in documents.chunks(CHUNK) {
        rows.extend(edit.append_all(some)?.map(RowId));
    }
    for (index, entries) in indexes.iter().enumerate() {
        let Some(index) = edit.meta.indexes.get(index) else { continue };
        let mut pairs = Pairs::default();
        for entry in entries.in_order() {
            let Some(row) = rows.get(entry.document as usize) else { continue };
            pairs.push(index.def.unique, entry.key, *row, entry.type_bits);
            if pairs.is_full() {
                pairs.put(edit.txn, &index.table)?;
            }
        }
        pairs.put(edit.txn, &index.table)?;
    }
    edit.note(&news)?;
    Ok(true)
}

/// What indexes, by their numbers, have to note.
type News = Vec<(usize, Facts)>;

/// The entries that each index gets, in order, and what is to be noted of them. `None` if a key cannot be had, or is
/// there already.
fn keys_in_order(edit: &Edit<'_>, documents: &[&RawDocument]) -> Result<Option<(Vec<Entries>, News)>> {
    let (mut indexes, mut news) = (Vec::with_capacity(edit.meta.indexes.len()), Vec::new());
    for (number, index) in edit.meta.indexes.iter().enumerate() {
        let mut entries = Entries::default();
        entries.places.reserve(documents.len());
        entries.bytes.reserve(documents.len() * USUAL_KEY);
        let mut facts = Facts::default();
        for (position, document) in documents.iter().enumerate() {
            match entries.add(&index.def, position as u64, document) {
                Ok(more) => facts = facts.and(more),
                Err(()) => return Ok(None),
            }
        }
        entries.arrange();
        if index.def.unique {
            let keys: Vec<&[u8]> = entries.in_order().map(|entry| entry.key).collect();
            let twice = keys.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
            if twice || edit.txn.get_many(&index.table, &keys)?.iter().any(Option::is_some) {
                return Ok(None);
            }
        }
        news.extend(index.facts.news(facts).map(|facts| (number, facts)));
        indexes.push(entries);
    }
    Ok(Some((indexes, news)))
}

impl Edit<'_> {
    /// Notes what has become true of indexes, by their numbers.
    pub(crate) fn note(&mut self, news: &[(usize, Facts)]) -> Result<()> {
        if news.is_empty() {
            return Ok(());
        }
        let meta = Arc::make_mut(&mut self.meta);
        for (number, facts) in news {
            if let Some(index) = meta.indexes.get_mut(*number) {
                index.facts = *facts;
            }
        }
        meta.arrange();
        self.catalog.write(self.txn, meta)
    }
}
