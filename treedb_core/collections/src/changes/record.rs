//! A record of the change log: its bytes, and the changes in it. The format is described in the header of [`super`].

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::vector::VectorDef;

/// Version of the record's bytes.
const VERSION: u8 = 1;
/// Version of a record with a rename, which earlier programs do not know.
const VERSION_RENAME: u8 = 2;
/// Version of a record with a change of a definition.
const VERSION_DEFINITION: u8 = 3;

const INSERT: u8 = 0;
const UPDATE: u8 = 1;
const REPLACE: u8 = 2;
const DELETE: u8 = 3;
const DROP: u8 = 4;
const DROP_DATABASE: u8 = 5;
const RENAME: u8 = 6;
const CREATE: u8 = 7;
const CREATE_INDEXES: u8 = 8;
const DROP_INDEXES: u8 = 9;
const MODIFY: u8 = 10;

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Sequence number of its first change.
    pub(crate) first: u64,
    /// Changes in it, at least one.
    pub(crate) count: u64,
    /// Time of the commit: milliseconds since 1970, not before that of the previous record.
    pub(crate) time: i64,
    /// Bytes of all records up to this one, including the row history.
    pub(crate) total: u64,
    /// The collection's id; 0 for a database.
    pub(crate) collection: i64,
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change<'a> {
    pub(crate) seq: u64,
    /// The row; 0 where there is none.
    pub(crate) row: u64,
    pub(crate) operation: Operation<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operation<'a> {
    /// The row was inserted.
    Insert,
    /// It was updated.
    Update(EarlierVersion<'a>),
    /// It was replaced by a new document.
    Replace(EarlierVersion<'a>),
    /// It was deleted; this was its document.
    Delete(&'a [u8]),
    /// The collection was dropped.
    Drop(&'a str),
    /// The database was dropped, after its collections.
    DropDatabase(&'a str),
    /// The collection was renamed.
    Rename { from: &'a str, to: &'a str },
    /// Its definition has changed: how, and a document that describes it.
    Defined(Defined, &'a [u8]),
}

/// A change of a collection's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defined {
    /// The collection was created.
    Create,
    /// Indexes were created.
    CreateIndexes,
    /// Indexes were dropped.
    DropIndexes,
    /// Its options, or those of an index, were changed.
    Modify,
}

impl Defined {
    const ALL: [(Defined, u8, &'static str); 4] = [
        (Defined::Create, CREATE, "create"),
        (Defined::CreateIndexes, CREATE_INDEXES, "createIndexes"),
        (Defined::DropIndexes, DROP_INDEXES, "dropIndexes"),
        (Defined::Modify, MODIFY, "modify"),
    ];

    fn of(code: u8) -> Option<Defined> {
        Self::ALL.iter().find(|(_, own, _)| *own == code).map(|(defined, ..)| *defined)
    }

    fn code(self) -> u8 {
        Self::ALL.iter().find(|(defined, ..)| *defined == self).map_or(0, |(_, code, _)| *code)
    }

    /// What the event of a change stream is called.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(defined, ..)| *defined == self).map_or("", |(.., name)| name)
    }
}

impl Operation<'_> {
    /// The definition of the search index that was created or dropped. An index that was changed was dropped and created.
    pub(crate) fn search_index(&self) -> Option<&RawDocument> {
        let Operation::Defined(Defined::CreateIndexes | Defined::DropIndexes, description) = self else {
            return None;
        };
        let indexes = RawDocument::from_bytes(description).ok()?.get_array("indexes").ok()?;
        let first = indexes.into_iter().next()?.ok()?.as_document()?;
        VectorDef::is_specified_by(first).then_some(first)
    }

    /// True if the change is in the row history.
    pub(crate) fn is_in_row_history(&self) -> bool {
        matches!(self, Operation::Update(_) | Operation::Replace(_) | Operation::Delete(_))
    }

    /// True if a row was changed, and not the collection.
    pub(crate) fn is_of_a_row(&self) -> bool {
        *self == Operation::Insert || self.is_in_row_history()
    }
}

/// The version of a document before a change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EarlierVersion<'a> {
    Whole(&'a [u8]),
    /// `prefix` bytes of the later version from byte 4 on, `middle`, and the last `suffix` bytes of the later version; before
    /// them four bytes of length.
    Patch {
        prefix: usize,
        suffix: usize,
        middle: &'a [u8],
    },
}

impl EarlierVersion<'_> {
    /// The earlier version of the document, given the later one.
    pub(crate) fn restore(&self, after: Option<&RawDocument>) -> Result<RawDocumentBuf> {
        let (prefix, suffix, middle) = match self {
            EarlierVersion::Whole(bytes) => return document(bytes),
            EarlierVersion::Patch { prefix, suffix, middle } => (*prefix, *suffix, *middle),
        };
        let after =
            after.map(RawDocument::as_bytes).ok_or_else(|| damaged("a change of a missing document"))?;
        let wrong = || damaged("a difference to another document");
        let front = prefix.checked_add(4).and_then(|end| after.get(4..end)).ok_or_else(wrong)?;
        let back = after.len().checked_sub(suffix).and_then(|start| after.get(start..)).ok_or_else(wrong)?;
        let len = 4 + front.len() + middle.len() + back.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&u32::try_from(len).map_err(|_| wrong())?.to_le_bytes());
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(middle);
        bytes.extend_from_slice(back);
        RawDocumentBuf::from_bytes(bytes).map_err(|_| wrong())
    }
}

/// A document in a record.
pub(crate) fn document(bytes: &[u8]) -> Result<RawDocumentBuf> {
    RawDocumentBuf::from_bytes(bytes.to_vec()).map_err(|_| damaged("an earlier version is not a document"))
}

/// The error of a damaged change log.
pub(crate) fn damaged(what: &str) -> QueryError {
    QueryError::new(
        ErrorCode::InternalError,
        format!(
            "the change log is damaged ({what}): switch it off and on again, or restore the database from a backup"
        ),
    )
}

/// A record in the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) head: Head,
    body: &'a [u8],
}

/// The key of the record that begins with change `seq`.
pub(crate) fn key(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

impl<'a> Record<'a> {
    /// Reads an entry of the table.
    pub(crate) fn parse(key: &[u8], value: &'a [u8]) -> Result<Record<'a>> {
        Self::read(key, value).ok_or_else(|| damaged("the header of a record"))
    }

    fn read(key: &[u8], value: &'a [u8]) -> Option<Record<'a>> {
        let first = u64::from_be_bytes(key.try_into().ok()?);
        let (&version, mut rest) = value.split_first()?;
        if !matches!(version, VERSION | VERSION_RENAME | VERSION_DEFINITION) {
            return None;
        }
        let count = take_number(&mut rest)?;
        let time = i64::try_from(take_number(&mut rest)?).ok()?;
        let total = take_number(&mut rest)?;
        let collection = i64::try_from(take_number(&mut rest)?).ok()?;
        first.checked_add(count)?;
        (count > 0).then_some(Record { head: Head { first, count, time, total, collection }, body: rest })
    }

    /// The changes, in order.
    pub(crate) fn changes(&self) -> Changes<'a> {
        let Head { first, count, .. } = self.head;
        Changes { rest: self.body, seq: first, end: first + count, row: 0, left: 0 }
    }

    /// The changes from number `seq` on. Spans of inserts before it are skipped.
    pub(crate) fn changes_from(&self, seq: u64) -> Changes<'a> {
        let mut changes = self.changes();
        while changes.seq < seq {
            if changes.left > 0 {
                let pass = changes.left.min(seq - changes.seq);
                changes.seq += pass;
                changes.row += pass;
                changes.left -= pass;
            } else if !matches!(changes.next(), Some(Ok(_))) {
                break;
            }
        }
        changes
    }
}

/// Iterator over the changes of a record.
#[derive(Debug, Clone)]
pub(crate) struct Changes<'a> {
    rest: &'a [u8],
    seq: u64,
    end: u64,
    /// The next row of a span of inserts, and the number of rows left in it.
    row: u64,
    left: u64,
}

impl<'a> Changes<'a> {
    fn step(&mut self) -> Option<Change<'a>> {
        if self.left == 0 {
            let (&kind, rest) = self.rest.split_first()?;
            self.rest = rest;
            let (row, operation) = match kind {
                INSERT => {
                    self.row = take_number(&mut self.rest)?;
                    self.left = take_number(&mut self.rest)?;
                    self.row.checked_add(self.left)?;
                    if self.left == 0 || self.left > self.end - self.seq {
                        return None;
                    }
                    (self.row, Operation::Insert)
                }
                UPDATE => (take_number(&mut self.rest)?, Operation::Update(self.earlier()?)),
                REPLACE => (take_number(&mut self.rest)?, Operation::Replace(self.earlier()?)),
                DELETE => (take_number(&mut self.rest)?, Operation::Delete(take_bytes(&mut self.rest)?)),
                DROP => (0, Operation::Drop(self.name()?)),
                DROP_DATABASE => (0, Operation::DropDatabase(self.name()?)),
                RENAME => (0, Operation::Rename { from: self.name()?, to: self.name()? }),
                code => (0, Operation::Defined(Defined::of(code)?, take_bytes(&mut self.rest)?)),
            };
            if kind != INSERT {
                let seq = self.seq;
                self.seq += 1;
                return Some(Change { seq, row, operation });
            }
        }
        let change = Change { seq: self.seq, row: self.row, operation: Operation::Insert };
        self.left -= 1;
        self.row += 1;
        self.seq += 1;
        Some(change)
    }

    fn name(&mut self) -> Option<&'a str> {
        std::str::from_utf8(take_bytes(&mut self.rest)?).ok()
    }

    fn earlier(&mut self) -> Option<EarlierVersion<'a>> {
        let head = take_number(&mut self.rest)?;
        let len = usize::try_from(head >> 1).ok()?;
        let number = |rest: &mut &'a [u8]| usize::try_from(take_number(rest)?).ok();
        let (prefix, suffix) = match head & 1 {
            1 => (0, 0),
            _ => (number(&mut self.rest)?, number(&mut self.rest)?),
        };
        let (middle, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(if head & 1 == 1 {
            EarlierVersion::Whole(middle)
        } else {
            EarlierVersion::Patch { prefix, suffix, middle }
        })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.seq >= self.end {
            return None;
        }
        let change = self.step();
        if change.is_none() {
            self.end = self.seq;
        }
        Some(change.ok_or_else(|| damaged("a change of a record")))
    }
}

/// Builds a record.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    bytes: Vec<u8>,
    count: u64,
    /// Inserts that are not in `bytes` yet: first row and number of rows.
    span: Option<(u64, u64)>,
    /// The version that it needs, if not the first.
    version: u8,
}

impl RecordBuilder {
    /// The number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, row: u64) {
        self.count += 1;
        match &mut self.span {
            Some((first, count)) if *first + *count == row => *count += 1,
            _ => {
                self.end_span();
                self.span = Some((row, 1));
            }
        }
    }

    /// A change from `old` to `new`; with `whole` the whole earlier version is kept, even if little has changed.
    pub(crate) fn update(&mut self, row: u64, old: &[u8], new: &[u8], replaced: bool, whole: bool) {
        self.begin(if replaced { REPLACE } else { UPDATE });
        put_number(&mut self.bytes, row);
        let difference = if whole { None } else { difference(old, new) };
        match difference {
            Some((prefix, suffix)) => {
                let middle = old.get(4 + prefix..old.len() - suffix).unwrap_or_default();
                put_number(&mut self.bytes, (middle.len() as u64) << 1);
                put_number(&mut self.bytes, prefix as u64);
                put_number(&mut self.bytes, suffix as u64);
                self.bytes.extend_from_slice(middle);
            }
            None => {
                put_number(&mut self.bytes, (old.len() as u64) << 1 | 1);
                self.bytes.extend_from_slice(old);
            }
        }
    }

    pub(crate) fn delete(&mut self, row: u64, old: &[u8]) {
        self.begin(DELETE);
        put_number(&mut self.bytes, row);
        put_number(&mut self.bytes, old.len() as u64);
        self.bytes.extend_from_slice(old);
    }

    /// The drop of the collection, or of the whole database, called `name`.
    pub(crate) fn drop(&mut self, name: &str, database: bool) {
        self.begin(if database { DROP_DATABASE } else { DROP });
        self.put_name(name);
    }

    /// The rename of the collection.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        self.begin(RENAME);
        self.put_name(from);
        self.put_name(to);
        self.version = self.version.max(VERSION_RENAME);
    }

    /// A change of the collection's definition.
    pub(crate) fn define(&mut self, defined: Defined, description: &[u8]) {
        self.begin(defined.code());
        put_number(&mut self.bytes, description.len() as u64);
        self.bytes.extend_from_slice(description);
        self.version = VERSION_DEFINITION;
    }

    fn put_name(&mut self, name: &str) {
        put_number(&mut self.bytes, name.len() as u64);
        self.bytes.extend_from_slice(name.as_bytes());
    }

    fn begin(&mut self, kind: u8) {
        self.end_span();
        self.count += 1;
        self.bytes.push(kind);
    }

    fn end_span(&mut self) {
        if let Some((row, count)) = self.span.take() {
            self.bytes.push(INSERT);
            put_number(&mut self.bytes, row);
            put_number(&mut self.bytes, count);
        }
    }

    /// Returns the value of the record, and starts a new one. `before` is the number of bytes before this record, `more` the
    /// bytes that it takes in the row history.
    pub(crate) fn finish(&mut self, time: i64, collection: i64, before: u64, more: u64) -> Vec<u8> {
        self.end_span();
        let mut value = Vec::with_capacity(self.bytes.len() + 32);
        value.push(std::mem::take(&mut self.version).max(VERSION));
        put_number(&mut value, self.count);
        put_number(&mut value, u64::try_from(time).unwrap_or(0));
        // The length of the header is estimated: it depends on this number.
        put_number(&mut value, before.saturating_add(self.bytes.len() as u64 + 24).saturating_add(more));
        put_number(&mut value, u64::try_from(collection).unwrap_or(0));
        value.extend_from_slice(&self.bytes);
        self.bytes.clear();
        self.count = 0;
        value
    }
}

/// How many bytes after the length `old` and `new` have in common, and how many at their ends; `None` if that saves nothing.
fn difference(old: &[u8], new: &[u8]) -> Option<(usize, usize)> {
    let (old, new) = (old.get(4..)?, new.get(4..)?);
    let prefix = common(old.as_chunks::<8>().0, new.as_chunks::<8>().0) * 8;
    let prefix = prefix
        + old.get(prefix..)?.iter().zip(new.get(prefix..)?).take_while(|(old, new)| old == new).count();
    let (old, new) = (old.get(prefix..)?, new.get(prefix..)?);
    let suffix = common_back(old.as_rchunks::<8>().1, new.as_rchunks::<8>().1) * 8;
    let ends = |bytes: &'_ [u8]| bytes.len() - suffix;
    let suffix = suffix
        + old
            .get(..ends(old))?
            .iter()
            .rev()
            .zip(new.get(..ends(new))?.iter().rev())
            .take_while(|(old, new)| old == new)
            .count();
    (prefix + suffix > 8).then_some((prefix, suffix))
}

fn common(a: &[[u8; 8]], b: &[[u8; 8]]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn common_back(a: &[[u8; 8]], b: &[[u8; 8]]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Appends a number, seven bits per byte, the lowest first; all bytes but the last have the highest bit set.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_number(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn numbers_of_any_size_are_read_back() {
        for number in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!((take_number(&mut rest), rest.len()), (Some(number), 0));
        }
        assert_eq!(take_number(&mut [0xff_u8; 11].as_slice()), None);
    }

    #[test]
    fn a_record_gives_back_its_changes() {
        let (a, b) = (rawdoc! { "_id": 1, "n": 5, "t": "xyz" }, rawdoc! { "_id": 1, "n": 6, "t": "xyz" });
        let mut body = RecordBuilder::default();
        (7..12).chain([20, 21]).for_each(|row| body.insert(row));
        body.update(8, a.as_bytes(), b.as_bytes(), false, false);
        body.update(8, b.as_bytes(), a.as_bytes(), true, true);
        body.delete(9, a.as_bytes());
        body.drop("x.y", false);
        assert_eq!(body.count(), 11);
        let value = body.finish(1234, 5, 1000, 0);
        let record = Record::parse(&key(100), &value).unwrap();
        assert_eq!((record.head.first, record.head.count, record.head.time), (100, 11, 1234));
        let changes: Vec<_> = record.changes().map(Result::unwrap).collect();
        assert_eq!(changes.len(), 11);
        assert_eq!(changes[6], Change { seq: 106, row: 21, operation: Operation::Insert });
        let Operation::Update(earlier @ EarlierVersion::Patch { .. }) = &changes[7].operation else {
            panic!("{changes:?}")
        };
        assert_eq!(earlier.restore(Some(&b)).unwrap(), a);
        let Operation::Replace(earlier @ EarlierVersion::Whole(_)) = &changes[8].operation else {
            panic!("{changes:?}")
        };
        assert_eq!(earlier.restore(None).unwrap(), b);
        assert_eq!(changes[9].operation, Operation::Delete(a.as_bytes()));
        assert_eq!(changes[10].operation, Operation::Drop("x.y"));
        body.rename("x.y", "x.z");
        let value = body.finish(1234, 5, 1000, 0);
        let renamed = Record::parse(&key(111), &value).unwrap().changes().next().unwrap().unwrap();
        assert_eq!(renamed.operation, Operation::Rename { from: "x.y", to: "x.z" });
        for from in 98..113 {
            let rest: Vec<_> = record.changes_from(from).map(Result::unwrap).collect();
            assert_eq!(rest, changes[(from.clamp(100, 111) - 100) as usize..], "{from}");
        }
    }

    #[test]
    fn any_two_documents_have_a_difference_that_restores_the_first() {
        let mut rng = Rng::new(5);
        for _ in 0..2000 {
            let mut document = || {
                let mut doc = rawdoc! { "_id": 1 };
                for name in ["a", "b", "c"] {
                    if rng.below(3) > 0 {
                        let name = bson::raw::CString::try_from(name.to_owned()).unwrap();
                        doc.append(name, "x".repeat(rng.below(40)));
                    }
                }
                doc
            };
            let (old, new) = (document(), document());
            let mut body = RecordBuilder::default();
            body.update(1, old.as_bytes(), new.as_bytes(), false, false);
            let value = body.finish(0, 1, 0, 0);
            let record = Record::parse(&key(1), &value).unwrap();
            let change = record.changes().next().unwrap().unwrap();
            let Operation::Update(earlier) = change.operation else { panic!() };
            assert_eq!(earlier.restore(Some(&new)).unwrap(), old);
        }
    }

    #[test]
    fn damaged_records_are_errors_and_do_not_panic() {
        let a = rawdoc! { "_id": 1, "n": 5, "t": "xyz" };
        let b = rawdoc! { "_id": 1, "n": 5, "t": "xyzzy" };
        let mut body = RecordBuilder::default();
        (7..900).for_each(|row| body.insert(row));
        body.update(8, a.as_bytes(), b.as_bytes(), false, false);
        body.delete(9, b.as_bytes());
        let value = body.finish(1234, 5, 1000, 0);
        let mut rng = Rng::new(3);
        for _ in 0..20_000 {
            let mut bytes = value.clone();
            let at = rng.below(bytes.len());
            bytes[at] = rng.below(256) as u8;
            bytes.truncate(bytes.len() - rng.below(3));
            let Ok(record) = Record::parse(&key(1), &bytes) else { continue };
            for change in record.changes_from(rng.below(1000) as u64).take(2000) {
                if let Ok(Change { operation: Operation::Update(earlier), .. }) = change {
                    let _ = earlier.restore(Some(&b));
                }
            }
        }
    }
}
