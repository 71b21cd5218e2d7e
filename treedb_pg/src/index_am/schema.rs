//! The columns of an index, and its entries.
//!
//! An entry's key is the encoded columns followed by the row's address, block (4 bytes) and offset (2), big-endian:
//! so no two entries are equal. Its value:
//!
//! | what | bytes |
//! |---|---|
//! | in an index with included columns: how many columns have the value -0 | 1 |
//! | their numbers, from 0 | 1 each |
//! | each included column: a marker as before a key column's value, then the value as in [`super::stored`] | |
//!
//! Entries are in the order of their bytes, unless a column has an order of its own (a collation's, or that of a
//! comparison function): then columns are compared one by one ([`Keys::Custom`]).
//!
//! An entry that would be too long has its long values compressed. Where the order is that of the bytes, such a key begins
//! with a byte 255, its columns are encoded with marker 3 where that is shorter, and it is ordered as the bytes that it
//! stands for ([`Schema::expanded`]): so an index has one order, whichever of its entries are compressed, and these give
//! their values back. Nodes that have a compressed key are searched by comparing keys instead of their bytes
//! ([`Keys::Custom`]); all others, of leaves and branches, are as in an index that has none. Nothing else was worth its
//! price: cut keys lose the order of those that begin alike and have to be looked up in the table, and comparing all
//! keys by a function costs every index its prefixes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use pgrx::pg_sys;
use treedb_formats::node::Keys;
use treedb_query::access::RowId;

use super::column::{self, Column, NULL_LAST, Order, VALUE};
use super::kind::Kind;
use super::meta::fact;
use super::stored::{self, Compression};
use crate::pages::page::Damage;
use crate::shim::datum::Layout;
use crate::shim::error::{SqlState, fail, fail_about, fail_with_detail};
use crate::shim::heap;
use crate::shim::index_build::IndexRow;
use crate::shim::index_scan::{ColumnValue, FixedColumn};
use crate::shim::relation::{Index, KeyColumn};
use crate::shim::server;
use crate::types::keyset;

/// Bytes of a row's address at the end of a key.
pub(super) const ADDRESS: usize = 6;
/// The longest entry, key and value together, address included: two fit a page beside a bound as long as they are. An
/// entry of one column of text or bytea, without included ones, fits if btree takes the value as it is or compressed. Of
/// several columns each may take a few bytes more than in btree, such as NULLs (1 instead of 0), float4 (9 instead of 4) and
/// short values (3 instead of 1 beside the bytes).
pub(super) const MAX_ENTRY: usize = 2702;

/// The first byte of a key that has compressed columns, in an index in the order of bytes. Markers are less.
const COMPRESSED_KEY: u8 = 255;

/// What of an entry is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compress {
    Nothing,
    /// What the entry has as the server passes it, see [`super::stored`].
    Stored,
    /// And key columns that are in the order of their bytes.
    All(Compression),
}

impl Compress {
    /// Whether values that are stored as the server passes them are compressed.
    fn of_stored(self) -> Compression {
        match self {
            Compress::Nothing => Compression::No,
            Compress::Stored => Compression::Pglz,
            Compress::All(compression) => compression,
        }
    }

    /// What is true of an index with such an entry.
    fn facts(self) -> u32 {
        match self {
            Compress::Nothing | Compress::Stored => 0,
            Compress::All(Compression::WithLz4 | Compression::WithServerLz4) => fact::COMPRESSED | fact::LZ4,
            Compress::All(_) => fact::COMPRESSED,
        }
    }
}

/// The columns of an index.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) columns: Vec<Column>,
    /// How the values of included columns are passed.
    included: Vec<Layout>,
    pub(super) keys: Keys,
    /// Keys in the order of bytes may be compressed.
    compresses: bool,
    /// The columns, if all are at fixed places of a key and there are no other ones.
    fixed: Option<Vec<FixedColumn>>,
}

/// An entry to be stored.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// What the value of an entry has: the numbers of the columns that are minus zero, and the bytes of the included ones, `None` for NULL.
type PlainColumns<'e> = (&'e [u8], Vec<Option<Cow<'e, [u8]>>>);

impl Schema {
    /// Reads the columns of an open index.
    pub(super) fn of(index: Index<'_>) -> Schema {
        let columns: Vec<Column> =
            index.key_columns().iter().enumerate().map(|(at, column)| column_of(index, at, column)).collect();
        let custom = columns.iter().any(|column| !matches!(column.order, Order::Bytes));
        let compresses = !custom && columns.iter().any(Column::compresses);
        let included = index.included_layouts();
        let mut at = 0;
        let fixed = columns.iter().map(|column| {
            let fixed = column.fixed(at)?;
            at = fixed.at + fixed.len;
            Some(fixed)
        });
        let fixed = fixed.collect::<Option<Vec<FixedColumn>>>().filter(|_| included.is_empty());
        Schema {
            columns,
            included,
            keys: if custom { Keys::Custom } else { Keys::Bytewise },
            compresses,
            fixed,
        }
    }

    /// That of every index of key sets, whose entries are compared by their bytes, whatever its options say.
    pub(super) fn of_key_sets() -> Rc<Schema> {
        thread_local! {
            static SCHEMA: Rc<Schema> = Rc::new(Schema {
                columns: vec![Column::new(Kind::Keys, Layout::Varlena, Order::Bytes, false, false)],
                included: Vec::new(),
                keys: Keys::Bytewise,
                compresses: false,
                fixed: None,
            });
        }
        SCHEMA.with(Rc::clone)
    }

    /// The columns, if entries have nothing but values at fixed places of a key.
    pub(super) fn fixed_columns(&self) -> Option<&[FixedColumn]> {
        self.fixed.as_deref()
    }

    /// Whether entries give back the value of a column; included columns come after the key columns.
    pub(super) fn returns(&self, column: usize) -> bool {
        match self.columns.get(column) {
            Some(column) => column.kind.decodes(),
            None => !self.is_multikey() && column - self.columns.len() < self.included.len(),
        }
    }

    /// Whether the index has several entries for a row.
    pub(super) fn is_multikey(&self) -> bool {
        self.columns.first().is_some_and(|column| column.kind == Kind::Keys)
    }

    /// The facts of an index without entries.
    pub(super) fn first_facts(&self) -> u32 {
        if self.is_multikey() { fact::TYPED } else { 0 }
    }

    /// Shows the entries of a row to `each`, one after the other in `entry`; returns the facts they are evidence of.
    pub(super) fn entries(
        &self,
        row: &IndexRow<'_>,
        entry: &mut Entry,
        mut each: impl FnMut(&mut Entry),
    ) -> u32 {
        if !self.is_multikey() {
            let facts = self.entry(row, entry);
            each(entry);
            return facts;
        }
        let Some(value) = row.value(0) else { return 0 };
        let keys = value.bytes();
        self.entries_of_keys(&keys, row.tid(), entry, each);
        facts_of_keys(&keys)
    }

    /// Shows the entries of a key set to `each`, one after the other in `entry`.
    pub(super) fn entries_of_keys(
        &self,
        keys: &[u8],
        row: pg_sys::ItemPointerData,
        entry: &mut Entry,
        mut each: impl FnMut(&mut Entry),
    ) {
        let mut last: Option<&[u8]> = None;
        for key in keyset::read(keys) {
            let kept = shortened(key);
            // Two long keys may be the same after shortening; keys come in rising order.
            if last.replace(kept) != Some(kept) {
                entry.clear();
                entry.key.extend_from_slice(kept);
                append_address(row, &mut entry.key);
                each(entry);
            }
        }
    }

    /// Makes `entry` that of a row, in an index with one for each; returns the facts it is evidence of.
    pub(super) fn entry(&self, row: &IndexRow<'_>, entry: &mut Entry) -> u32 {
        let all = [Compression::Pglz, Compression::WithLz4, Compression::WithServerLz4].map(Compress::All);
        for compress in [Compress::Nothing, Compress::Stored].into_iter().chain(all) {
            self.encode(row, compress, entry);
            if !entry.is_too_long() {
                return compress.facts();
            }
        }
        // What is told is the same in every server.
        self.encode(row, Compress::All(Compression::WithLz4), entry);
        let index = row.index();
        let (block, offset) = heap::tid_parts(row.tid());
        fail_about(
            &index.error_object(),
            SqlState::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!(
                "index row size {} exceeds treedb_btree maximum {MAX_ENTRY} for index \"{}\"",
                entry.len(),
                index.shown()
            ),
            format!("Index row references tuple ({block},{offset}) in relation \"{}\".", index.table_name()),
            "Values this long cannot be indexed. Index a part of the value, such as left(column, 400), or a hash of it.",
        )
    }

    /// The same, values compressed if asked to.
    fn encode(&self, row: &IndexRow<'_>, compress: Compress, entry: &mut Entry) {
        entry.clear();
        let Entry { key, value } = entry;
        let stored = compress.of_stored();
        if !self.included.is_empty() {
            value.push(0);
        }
        if matches!(compress, Compress::All(_)) && self.compresses {
            key.push(COMPRESSED_KEY);
        }
        for (number, column) in self.columns.iter().enumerate() {
            let Some(datum) = row.value(number) else {
                column.encode_null(key);
                continue;
            };
            let exact = match compress {
                Compress::All(compression) => column.encode_compressed(datum, compression, key),
                _ => column.encode(datum, stored, key),
            };
            if !exact {
                value.push(number as u8);
            }
        }
        if let (Some(count), false) = (value.len().checked_sub(1), self.included.is_empty())
            && let Some(place) = value.first_mut()
        {
            *place = count as u8;
        }
        for at in self.columns.len()..self.columns.len() + self.included.len() {
            match row.value(at) {
                None => value.push(NULL_LAST),
                Some(datum) => {
                    value.push(VALUE);
                    stored::append(datum, stored, value);
                }
            }
        }
        append_address(row.tid(), key);
    }

    /// The values of an entry's columns, included ones last; `None` for NULL, or where the entry is damaged.
    pub(super) fn values<'e>(
        &'e self,
        key: &'e [u8],
        value: &'e [u8],
    ) -> impl Iterator<Item = Option<ColumnValue<'e>>> {
        let (zeros, mut rest) = match value.split_first() {
            Some((count, rest)) if !self.included.is_empty() => {
                rest.split_at_checked(usize::from(*count)).unwrap_or((rest, &[]))
            }
            _ => (value, &[][..]),
        };
        let mut at = Some(self.columns_begin(key));
        let of_columns = self.columns.iter().enumerate().map(move |(number, column)| {
            let from = at.take()?;
            let end = column.end(key, from)?;
            at = Some(end);
            match column.negative_zero().filter(|_| zeros.contains(&(number as u8))) {
                Some(zero) => Some(zero),
                None => column.decode(key.get(from..end)?),
            }
        });
        of_columns.chain(self.included.iter().map(move |layout| {
            let (marker, after) = rest.split_first()?;
            rest = after;
            if *marker != VALUE {
                return None;
            }
            let len = stored::size(*layout).or_else(|| stored::prefixed_len(after))?;
            let (value, after) = after.split_at_checked(len)?;
            rest = after;
            stored::decode(value, *layout)
        }))
    }

    /// Whether two values of entries with the same key give back the same columns, whatever they are compressed by: not if one is damaged.
    pub(super) fn same_columns(&self, a: &[u8], b: &[u8]) -> bool {
        a == b || self.plain_columns(a).is_some_and(|columns| self.plain_columns(b) == Some(columns))
    }

    /// What the value of an entry has, decompressed; `None` if it is damaged.
    fn plain_columns<'e>(&self, value: &'e [u8]) -> Option<PlainColumns<'e>> {
        if self.included.is_empty() {
            return Some((value, Vec::new()));
        }
        let (count, rest) = value.split_first()?;
        let (zeros, mut rest) = rest.split_at_checked(usize::from(*count))?;
        let mut included = Vec::with_capacity(self.included.len());
        for layout in &self.included {
            let (marker, after) = rest.split_first()?;
            rest = after;
            included.push(match *marker {
                VALUE => {
                    let (value, after) = after
                        .split_at_checked(stored::size(*layout).or_else(|| stored::prefixed_len(after))?)?;
                    rest = after;
                    Some(stored::plain_quietly(value, *layout)?)
                }
                NULL_LAST => None,
                _ => return None,
            });
        }
        rest.is_empty().then_some((zeros, included))
    }

    /// Whether a key of an index in the order of bytes has compressed columns.
    #[inline]
    pub(super) fn is_compressed(&self, key: &[u8]) -> bool {
        self.compresses && key.first() == Some(&COMPRESSED_KEY)
    }

    /// Where the columns of a key begin.
    fn columns_begin(&self, key: &[u8]) -> usize {
        usize::from(self.is_compressed(key))
    }

    /// The bytes by which a key, or the bound of a page, is ordered in an index in the order of bytes: itself, unless it
    /// is compressed.
    pub(super) fn expanded<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        self.expanded_up_to(key, usize::MAX)
    }

    /// The first `most` of these bytes, or all if there are fewer.
    pub(super) fn expanded_up_to<'k>(&self, key: &'k [u8], most: usize) -> Cow<'k, [u8]> {
        if !self.is_compressed(key) {
            return key.get(..most).unwrap_or(key).into();
        }
        let mut out = Vec::with_capacity(most.min(4 * key.len()));
        let mut at = self.columns_begin(key);
        for (part, column) in self.split(key).zip(&self.columns) {
            out.extend_from_slice(&column.expanded(part, most - out.len()));
            at += part.len();
            if out.len() == most {
                return out.into();
            }
        }
        let rest = key.get(at..).unwrap_or(&[]);
        out.extend_from_slice(rest.get(..most - out.len()).unwrap_or(rest));
        out.into()
    }

    /// Whether all that is compressed in a key can be decompressed.
    pub(super) fn is_intact(&self, key: &[u8]) -> bool {
        self.split(key).zip(&self.columns).all(|(part, column)| column.is_intact(part))
    }

    /// The order of two keys in the order of bytes, of which one is compressed: most differ long before their ends.
    fn compare_expanded(&self, a: &[u8], b: &[u8]) -> Ordering {
        /// Bytes that are compared at first, and how many times more each time.
        const FIRST: usize = 512;
        const GROWTH: usize = 16;
        let mut most = FIRST;
        loop {
            let (a, b) = (self.expanded_up_to(a, most), self.expanded_up_to(b, most));
            let order = a.cmp(&b);
            if order != Ordering::Equal || a.len() < most {
                return order;
            }
            most = most.saturating_mul(GROWTH);
        }
    }

    /// The order of two keys.
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.keys {
            Keys::Bytewise if self.is_compressed(a) || self.is_compressed(b) => self.compare_expanded(a, b),
            Keys::Bytewise => a.cmp(b),
            Keys::Custom => {
                self.compare_columns(a, b, self.columns.len()).then_with(|| address(a).cmp(address(b)))
            }
        }
    }

    /// The order of the first `count` columns of two keys. Bytes that are no columns come first.
    pub(super) fn compare_columns(&self, a: &[u8], b: &[u8], count: usize) -> Ordering {
        let (mut a_at, mut b_at) = (0, 0);
        for column in self.columns.iter().take(count) {
            let (a_end, b_end) = (column.end(a, a_at), column.end(b, b_at));
            let (Some(a_end), Some(b_end)) = (a_end, b_end) else {
                // A marker alone stands for all values (see `Ends` of the scan's ranges); anything else is damage.
                return column::compare_markers(a.get(a_at), b.get(b_at));
            };
            let order = match (a.get(a_at..a_end), b.get(b_at..b_end)) {
                // Many values of an index may be alike, and a comparison is a call of the server's.
                (Some(a), Some(b)) if a == b => Ordering::Equal,
                (Some(a), Some(b)) => column.compare(a, b),
                (a, b) => a.cmp(&b),
            };
            if order != Ordering::Equal {
                return order;
            }
            (a_at, b_at) = (a_end, b_end);
        }
        Ordering::Equal
    }

    /// The encoded columns of a key, one after the other; fewer if the key is damaged.
    pub(super) fn split<'k>(&self, key: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
        let mut at = self.columns_begin(key);
        self.columns.iter().map_while(move |column| {
            let end = column.end(key, at)?;
            let part = key.get(at..end)?;
            at = end;
            Some(part)
        })
    }
}

impl Entry {
    fn clear(&mut self) {
        self.key.clear();
        self.value.clear();
    }

    fn len(&self) -> usize {
        self.key.len() + self.value.len()
    }

    fn is_too_long(&self) -> bool {
        self.len() > MAX_ENTRY
    }
}

/// Key column `at` of an index.
fn column_of(index: Index<'_>, at: usize, column: &KeyColumn) -> Column {
    let Some(kind) = column.kind.and_then(Kind::from_number) else {
        fail_with_detail(
            SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
            format!("operator class of column {} does not say of which kind the column is", at + 1),
            match column.kind {
                None => "It has no support function 11.".to_owned(),
                Some(number) => format!("Its support function 11 returns {number}, the number of no kind."),
            },
            "Use the operator classes of the extension, or add FUNCTION 11 treedb.kind_generic() to your own.",
        )
    };
    if !kind.is_passed(column.layout) {
        fail_with_detail(
            SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
            format!("operator class of column {} is of kind {kind:?}, but the column's type is not", at + 1),
            format!("The server stores values of the column as {:?}.", column.layout),
            "Make the function of the operator class with number 11 that of the type, or treedb.kind_generic().",
        )
    }
    let order = match kind {
        Kind::Text | Kind::Name if !server::orders_by_bytes(column.collation) => {
            Order::Collation(column.collation)
        }
        Kind::Generic => Order::Function(index.comparison(at, column.layout, column.collation)),
        Kind::TextPattern if !server::is_deterministic(column.collation) => fail(
            SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
            "nondeterministic collations are not supported for operator class \"text_pattern_ops\"",
            "Use operator class text_ops, or another collation.",
        ),
        _ => Order::Bytes,
    };
    Column::new(kind, column.layout, order, column.descending, column.nulls_first)
}

/// The facts that the entries of a key set are evidence of.
pub(super) fn facts_of_keys(keys: &[u8]) -> u32 {
    let mut set = keyset::read(keys);
    let others = u32::from(set.types.bits()) << fact::OTHER_TYPES_SHIFT;
    let multikey = if set.multikey { fact::MULTIKEY } else { others };
    match set.any(|key| shortened(key).len() < key.len()) {
        true => multikey | fact::SHORTENED,
        false => multikey,
    }
}

/// The part of a document's key that an entry keeps.
pub(super) fn shortened(key: &[u8]) -> &[u8] {
    key.get(..MAX_ENTRY - ADDRESS).unwrap_or(key)
}

/// Appends a row's address.
pub(super) fn append_address(row: pg_sys::ItemPointerData, key: &mut Vec<u8>) {
    let (block, offset) = heap::tid_parts(row);
    key.extend_from_slice(&block.to_be_bytes());
    key.extend_from_slice(&offset.to_be_bytes());
}

/// The address bytes of a key.
pub(super) fn address(key: &[u8]) -> &[u8] {
    key.len().checked_sub(ADDRESS).and_then(|at| key.get(at..)).unwrap_or(&[])
}

/// The row a key is of.
#[inline]
pub(super) fn row_of(key: &[u8]) -> Result<pg_sys::ItemPointerData, Damage> {
    match key.last_chunk() {
        Some(address) => row_of_address(*address),
        None => Err(Damage::new("an entry with a row's address", "a shorter one")),
    }
}

/// The row whose address is this number, see [`row_id`]; of none if the lower half is 0, which the caller checks.
#[inline]
pub(super) fn row_numbered(address: u64) -> pg_sys::ItemPointerData {
    heap::tid((address >> 16) as u32, address as u16)
}

/// An address is of no row.
#[cold]
pub(super) fn no_row() -> Damage {
    Damage::new("the address of a row", "offset 0")
}

/// The row at an address as queries number it: the address bytes of a key, as a big-endian number.
pub(crate) fn row_id(row: pg_sys::ItemPointerData) -> RowId {
    let (block, offset) = heap::tid_parts(row);
    RowId(u64::from(block) << 16 | u64::from(offset))
}

/// The row that has this id.
#[inline]
pub(crate) fn row_of_id(id: RowId) -> pg_sys::ItemPointerData {
    heap::tid((id.0 >> 16) as u32, id.0 as u16)
}

/// The row whose address this is. No row has offset 0, and the server counts on not being given one.
#[inline]
pub(super) fn row_of_address([a, b, c, d, e, f]: [u8; ADDRESS]) -> Result<pg_sys::ItemPointerData, Damage> {
    match u16::from_be_bytes([e, f]) {
        0 => Err(no_row()),
        offset => Ok(heap::tid(u32::from_be_bytes([a, b, c, d]), offset)),
    }
}
