//! Tables: their names, kinds and roots, in the catalog tree whose root the meta page holds.
//!
//! Keys and values of the catalog tree, integers little-endian but for the table number in a key:
//!
//! ```text
//! 00 | number u32 BE   ->  kind u8 | 7 zero | count u64 | large u64 | root, 16 bytes   (40 bytes)
//! 01 | name            ->  number u32
//! 02                   ->  highest number assigned u32
//! ```
//!
//! The kind is 0 (ordered), 1 (rows) or 2 (dup). The count is the number of the next row, or in a dup table the number
//! of pairs. Large is the number of values in the value log, or in a dup table of keys with a value tree.
//!
//! Numbers are never reused, so a handle to a dropped table can never refer to another one.

use std::sync::Arc;

use crate::btree::{Finger, Tree, TreeRoot, Value};
use crate::page::{PageSink, PageSource};
use crate::{Error, Result};

/// The longest name of a table, in bytes.
pub const MAX_NAME: usize = 512;

/// What the names of *local* tables begin with: what is in them is of this directory, not of its contents, so it is in no backup.
pub const LOCAL_TABLES: &str = "treedb.local/";

/// What a table maps to values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Keys, in byte order, to one value each.
    Ordered,
    /// Row numbers, which the table assigns.
    Rows,
    /// Keys, in byte order, to any number of values each, which are in byte order too.
    Dup,
}

impl TableKind {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            TableKind::Ordered => 0,
            TableKind::Rows => 1,
            TableKind::Dup => 2,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<TableKind> {
        match byte {
            0 => Some(TableKind::Ordered),
            1 => Some(TableKind::Rows),
            2 => Some(TableKind::Dup),
            _ => None,
        }
    }
}

/// A handle to a table: cheap to copy around, valid in every transaction in which the table exists.
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    pub(crate) kind: TableKind,
}

impl Table {
    /// Its number, unique in its store and never reused.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is one of the [local tables](LOCAL_TABLES).
    pub(super) fn is_local(&self) -> bool {
        self.name.starts_with(LOCAL_TABLES)
    }

    /// What it maps.
    pub fn kind(&self) -> TableKind {
        self.kind
    }

    /// `TableMismatch` unless the table is of this kind.
    #[inline]
    pub(crate) fn expect(&self, kind: TableKind) -> Result<()> {
        if self.kind == kind { Ok(()) } else { Err(self.of_the_other_kind()) }
    }

    #[cold]
    fn of_the_other_kind(&self) -> Error {
        let what = match self.kind {
            TableKind::Ordered => "maps keys to one value each: it has no rows, and no pairs",
            TableKind::Rows => "holds rows: it has no keys",
            TableKind::Dup => "maps keys to many values each: ask for its pairs and values",
        };
        Error::TableMismatch { name: self.name.to_string(), what: what.into() }
    }

    /// `TableMismatch` unless the table maps keys, to one value each or to many.
    pub(crate) fn expect_keys(&self) -> Result<()> {
        if self.kind == TableKind::Dup { Ok(()) } else { self.expect(TableKind::Ordered) }
    }

    pub(crate) fn gone(&self) -> Error {
        Error::NoSuchTable { name: self.name.to_string() }
    }
}

/// A table's record in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: TableKind,
    /// The number the next appended row gets.
    pub(crate) next_row: u64,
    /// How many pairs a dup table has.
    pub(crate) pairs: u64,
    /// Number of values in the value log; in a dup table, number of keys with a value tree.
    pub(crate) large: u64,
    pub(crate) root: TreeRoot,
}

const RECORD: usize = 40;

impl Record {
    pub(crate) fn new(kind: TableKind) -> Record {
        Record { kind, next_row: 1, pairs: 0, large: 0, root: TreeRoot::EMPTY }
    }

    /// Number of entries: keys, rows or pairs.
    pub(crate) fn entries(&self) -> u64 {
        if self.kind == TableKind::Dup { self.pairs } else { self.root.entries }
    }

    fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[0] = self.kind.to_byte();
        let count = if self.kind == TableKind::Dup { self.pairs } else { self.next_row };
        bytes[8..16].copy_from_slice(&count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.large.to_le_bytes());
        bytes[24..].copy_from_slice(&self.root.to_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Record> {
        let bytes: &[u8; RECORD] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (kind, count) = (TableKind::from_byte(bytes[0])?, word(8)?);
        let (next_row, pairs) = if kind == TableKind::Dup { (1, count) } else { (count, 0) };
        Some(Record {
            kind,
            next_row,
            pairs,
            large: word(16)?,
            root: TreeRoot::from_bytes(bytes[24..].try_into().ok()?)?,
        })
    }
}

const BY_NUMBER: u8 = 0;
const BY_NAME: u8 = 1;
const HIGHEST: [u8; 1] = [2];

fn number_key(id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [BY_NUMBER, a, b, c, d]
}

fn name_key(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(BY_NAME);
    key.extend_from_slice(name.as_bytes());
    key
}

fn strange<S: PageSource>(src: &S, catalog: &TreeRoot, expected: &str, found: &[u8]) -> Error {
    src.damaged(catalog.root, 0, expected, &format!("{:02x?}", &found[..found.len().min(64)]))
}

fn number_in<S: PageSource>(src: &S, catalog: &TreeRoot, value: &[u8]) -> Result<u32> {
    let bytes = value.try_into().map_err(|_| strange(src, catalog, "a table's number of 4 bytes", value))?;
    Ok(u32::from_le_bytes(bytes))
}

/// The record of table `id`.
pub(crate) fn record<S: PageSource>(src: &S, catalog: &TreeRoot, id: u32) -> Result<Option<Record>> {
    let Some(value) = Tree::get(src, catalog, &number_key(id))? else { return Ok(None) };
    let record = Record::decode(value.bytes);
    record.map(Some).ok_or_else(|| strange(src, catalog, "a table's record", value.bytes))
}

/// The table named `name`.
pub(crate) fn by_name<S: PageSource>(src: &S, catalog: &TreeRoot, name: &str) -> Result<Option<Table>> {
    if name.len() > MAX_NAME {
        return Ok(None);
    }
    let Some(value) = Tree::get(src, catalog, &name_key(name))? else { return Ok(None) };
    let id = number_in(src, catalog, value.bytes)?;
    let record = record(src, catalog, id)?
        .ok_or_else(|| strange(src, catalog, "a record for every name", name.as_bytes()))?;
    Ok(Some(Table { id, name: name.into(), kind: record.kind }))
}

/// All tables, by name.
pub(crate) fn all<S: PageSource>(src: &S, catalog: &TreeRoot) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    let mut cursor = Tree::cursor(src, catalog);
    let mut more = cursor.seek(&[BY_NAME])?;
    while more {
        let Some((key, value)) = cursor.entry()? else { break };
        let Some((&BY_NAME, name)) = key.split_first() else { break };
        let name = std::str::from_utf8(name)
            .map_err(|_| strange(src, catalog, "a table's name in UTF-8", name))?
            .to_owned();
        let id = number_in(src, catalog, value.bytes)?;
        let record = record(src, catalog, id)?
            .ok_or_else(|| strange(src, catalog, "a record for every name", name.as_bytes()))?;
        tables.push(Table { id, name: name.into(), kind: record.kind });
        more = cursor.next()?;
    }
    Ok(tables)
}

/// The number the next table gets.
pub(crate) fn next_number<S: PageSource>(src: &S, catalog: &TreeRoot) -> Result<u32> {
    let highest = match Tree::get(src, catalog, &HIGHEST)? {
        Some(value) => number_in(src, catalog, value.bytes)?,
        None => 0,
    };
    highest.checked_add(1).ok_or_else(|| Error::Invalid("no table numbers left in this store".into()))
}

/// Adds a table.
pub(crate) fn create<S: PageSink>(
    sink: &mut S,
    catalog: &mut TreeRoot,
    id: u32,
    kind: TableKind,
    name: &str,
) -> Result<()> {
    let number = id.to_le_bytes();
    let highest = next_number(sink, catalog)? - 1;
    Tree::put(sink, catalog, &name_key(name), Value::inline(&number))?;
    store(sink, catalog, &mut Finger::new(), id, &Record::new(kind))?;
    if id > highest {
        Tree::put(sink, catalog, &HIGHEST, Value::inline(&number))?;
    }
    Ok(())
}

/// Stores what changed about a table. `finger` is where the table before is in the catalog, if several are stored.
pub(crate) fn store<S: PageSink>(
    sink: &mut S,
    catalog: &mut TreeRoot,
    finger: &mut Finger,
    id: u32,
    record: &Record,
) -> Result<()> {
    Tree::put_at(sink, catalog, finger, &number_key(id), Value::inline(&record.encode()))?;
    Ok(())
}

/// Removes a table, whose tree has been cleared.
pub(crate) fn remove<S: PageSink>(sink: &mut S, catalog: &mut TreeRoot, id: u32, name: &str) -> Result<()> {
    Tree::delete(sink, catalog, &number_key(id))?;
    Tree::delete(sink, catalog, &name_key(name))?;
    Ok(())
}

/// Gives a table another name, which no table has.
pub(crate) fn rename<S: PageSink>(
    sink: &mut S,
    catalog: &mut TreeRoot,
    id: u32,
    old: &str,
    new: &str,
) -> Result<()> {
    Tree::delete(sink, catalog, &name_key(old))?;
    Tree::put(sink, catalog, &name_key(new), Value::inline(&id.to_le_bytes()))?;
    Ok(())
}

/// How many records there are: as many as names, if the catalog is sound.
pub(crate) fn records<S: PageSource>(src: &S, catalog: &TreeRoot) -> Result<usize> {
    let mut cursor = Tree::cursor(src, catalog);
    let mut more = cursor.seek(&[BY_NUMBER])?;
    let mut count = 0;
    while more && cursor.key()?.is_some_and(|key| key.first() == Some(&BY_NUMBER)) {
        count += 1;
        more = cursor.next()?;
    }
    Ok(count)
}
