//! One column of an index: what type it has, and its values as bytes of an entry's key.
//!
//! An encoded column is a marker, then the value:
//!
//! | marker | what |
//! |---|---|
//! | 0 | NULL, where NULLs come first |
//! | 1 | a value |
//! | 2 | NULL, where NULLs come last |
//! | 3 | a long value of text in the order of its bytes, of bytea or of treedb.bson_value (the bytes of its key): as a value with a length header in [`super::stored`] |
//!
//! | kind | value |
//! |---|---|
//! | int2, int4, int8 (and what is stored as one: date, timestamp, ..) | its 2, 4 or 8 bytes big-endian, sign bit inverted |
//! | float4, float8 | 8 bytes: the double's bits, transformed so that they order; NaN greatest; -0 as 0 |
//! | bool, "char" | the byte |
//! | oid; pg_lsn, xid8 | 4 or 8 bytes big-endian |
//! | tid | block (4 bytes) and offset (2), big-endian |
//! | uuid, macaddr, macaddr8 | its 16, 6 or 8 bytes |
//! | text, name, in the order of their bytes | the bytes, then 0 (text has no 0 byte) |
//! | bytea | each 0 byte as 0 255, then 0 0 |
//! | treedb.bson_value | its key of [`treedb_query::doc::key`], escaped in the same way |
//! | treedb.keyset | one of its keys as it is; always the only column |
//! | text, name, with a collation of its own order; generic | as in [`super::stored`] |
//!
//! All but the last row of that table order by their bytes ([`Order::Bytes`]); of a descending column all bits of such a
//! value are inverted. Every encoding is self-delimiting, so columns can be concatenated, and the bytes of one are
//! never a prefix of the bytes of another.
//!
//! A column with marker 3 does not order by its bytes: it stands for the encoding with marker 1 ([`Column::expanded`]).

use std::borrow::Cow;
use std::cmp::Ordering;

use pgrx::pg_sys;

use super::kind::Kind;
use super::stored::{self, Compression, Stored};
use crate::shim::comparison::Comparison;
use crate::shim::datum::{Bytes, Datum, Layout, TextBytes};
use crate::shim::index_scan::{ColumnValue, FixedColumn};
use crate::shim::server;
use crate::types::value;

/// Marker of a NULL that comes before all values.
const NULL_FIRST: u8 = 0;
/// Marker of a value.
pub(super) const VALUE: u8 = FixedColumn::VALUE;
/// Marker of a NULL that comes after all values.
pub(super) const NULL_LAST: u8 = 2;
/// Marker of a value that is compressed.
const COMPRESSED: u8 = 3;
/// Bytes of a `name`.
const NAME: usize = 64;

/// How encoded values of a column are compared.
#[derive(Debug)]
pub(super) enum Order {
    /// By their bytes.
    Bytes,
    /// As text with this collation.
    Collation(pg_sys::Oid),
    /// By support function 1 of the operator class.
    Function(Comparison),
}

/// How the end of a value is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// By its length.
    Fixed(usize),
    /// By a 0 byte.
    Terminated,
    /// By two 0 bytes.
    Escaped,
    /// By the length in front of it.
    Prefixed,
    /// It is all of the key.
    Whole,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) kind: Kind,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
    pub(super) order: Order,
    form: Form,
    /// How the server passes values.
    layout: Layout,
}

impl Column {
    /// A column whose values are passed as `layout` says.
    pub(super) fn new(
        kind: Kind,
        layout: Layout,
        order: Order,
        descending: bool,
        nulls_first: bool,
    ) -> Column {
        let form = match (kind, &order) {
            (Kind::Int2, _) => Form::Fixed(2),
            (Kind::Int4, _) => Form::Fixed(4),
            (Kind::Int8 | Kind::Float4 | Kind::Float8, _) => Form::Fixed(8),
            (Kind::Byte, _) => Form::Fixed(1),
            (Kind::Unsigned4, _) => Form::Fixed(4),
            (Kind::Unsigned8 | Kind::Macaddr8, _) => Form::Fixed(8),
            (Kind::Tid | Kind::Macaddr, _) => Form::Fixed(6),
            (Kind::Uuid, _) => Form::Fixed(16),
            (Kind::Text | Kind::TextPattern | Kind::Name, Order::Bytes) => Form::Terminated,
            (Kind::Bytea | Kind::Value, _) => Form::Escaped,
            (Kind::Keys, _) => Form::Whole,
            (Kind::Generic, _) => stored::size(layout).map_or(Form::Prefixed, Form::Fixed),
            (Kind::Text | Kind::TextPattern | Kind::Name, _) => Form::Prefixed,
        };
        Column { kind, descending, nulls_first, order, form, layout }
    }

    /// The collation of a column of type text whose order is not that of its bytes.
    pub(super) fn text_collation(&self) -> Option<pg_sys::Oid> {
        match self.order {
            Order::Collation(collation) if self.kind == Kind::Text => Some(collation),
            _ => None,
        }
    }

    /// Appends NULL.
    pub(super) fn encode_null(&self, out: &mut Vec<u8>) {
        out.push(if self.nulls_first { NULL_FIRST } else { NULL_LAST });
    }

    /// The marker that values begin with: everything from it on to the next marker is a value.
    pub(super) fn values_from(&self) -> u8 {
        VALUE
    }

    /// Whether values whose encoding orders by its bytes may be compressed instead.
    pub(super) fn compresses(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::TextPattern | Kind::Bytea | Kind::Value)
            && matches!(self.form, Form::Terminated | Form::Escaped)
    }

    /// Appends a value of the column's type, as short as possible; false if the entry will not give back exactly this
    /// value.
    pub(super) fn encode_compressed(
        &self,
        datum: Datum<'_>,
        compression: Compression,
        out: &mut Vec<u8>,
    ) -> bool {
        let from = out.len();
        let exact = self.encode(datum, compression, out);
        if self.compresses() {
            let mut compressed = vec![COMPRESSED];
            stored::append_prefixed(&plain_bytes(self.kind, datum), compression, &mut compressed);
            if compressed.len() < out.len() - from {
                out.truncate(from);
                out.append(&mut compressed);
            }
        }
        exact
    }

    /// The encoding by whose bytes a column is ordered, its first `most` bytes if it is longer: itself, unless it is
    /// compressed.
    pub(super) fn expanded<'k>(&self, encoded: &'k [u8], most: usize) -> Cow<'k, [u8]> {
        let compressed = encoded.strip_prefix(&[COMPRESSED]).and_then(stored::read_prefixed);
        let Some(stored) = compressed else { return encoded.get(..most).unwrap_or(encoded).into() };
        // As many bytes of the value make more of the encoding, with the marker.
        let plain = stored.plain_up_to(most);
        let mut out = Vec::with_capacity(plain.len() + 3);
        out.push(VALUE);
        self.append_plain(&plain, &mut out);
        self.turn_from(1, &mut out);
        out.truncate(most);
        out.into()
    }

    /// Whether what is compressed in an encoded column can be decompressed.
    pub(super) fn is_intact(&self, encoded: &[u8]) -> bool {
        let stored = match encoded.split_first() {
            Some((&COMPRESSED, value)) => stored::read_prefixed(value),
            Some((&VALUE, value)) if self.form == Form::Prefixed => stored::read_prefixed(value),
            _ => return true,
        };
        stored.is_some_and(|stored| stored.is_intact())
    }

    /// Appends a value of the column's type, long ones compressed if that keeps the order and if asked to; false if the
    /// entry will not give back exactly this value.
    pub(super) fn encode(&self, datum: Datum<'_>, compress: Compression, out: &mut Vec<u8>) -> bool {
        self.encode_as(self.kind, datum, compress, out)
    }

    /// Appends a value of another kind whose encoding has the same order.
    pub(super) fn encode_as(
        &self,
        kind: Kind,
        datum: Datum<'_>,
        compress: Compression,
        out: &mut Vec<u8>,
    ) -> bool {
        out.push(VALUE);
        let from = out.len();
        let mut exact = true;
        match kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => put_int(kind, datum.word() as i64, out),
            Kind::Float4 => exact = put_float(f64::from(f32::from_bits(datum.word() as u32)), out),
            Kind::Float8 => exact = put_float(f64::from_bits(datum.word() as u64), out),
            Kind::Byte => out.push(datum.word() as u8),
            Kind::Unsigned4 => out.extend_from_slice(&(datum.word() as u32).to_be_bytes()),
            Kind::Unsigned8 => out.extend_from_slice(&(datum.word() as u64).to_be_bytes()),
            Kind::Text | Kind::TextPattern | Kind::Name if self.form == Form::Prefixed => {
                stored::append_prefixed(&datum.text_bytes(), compress, out);
            }
            Kind::Text | Kind::TextPattern | Kind::Name | Kind::Bytea | Kind::Value => {
                self.append_plain(&plain_bytes(kind, datum), out);
            }
            Kind::Uuid => out.extend_from_slice(datum.fixed::<16>()),
            Kind::Macaddr => out.extend_from_slice(datum.fixed::<6>()),
            Kind::Macaddr8 => out.extend_from_slice(datum.fixed::<8>()),
            Kind::Tid => out.extend_from_slice(&tid_to_bytes(*datum.fixed::<6>())),
            Kind::Generic => stored::append(datum, compress, out),
            // The caller takes a key set apart and passes each key as it is: see `Schema::entries`.
            Kind::Keys => {}
        }
        self.turn_from(from, out);
        exact
    }

    /// Appends bytes so that their end is found.
    fn append_plain(&self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.form {
            Form::Escaped => append_escaped(bytes, out),
            _ => {
                out.extend_from_slice(bytes);
                out.push(0);
            }
        }
    }

    /// Inverts the bits of a value, which begins at `from`, if the column's are.
    fn turn_from(&self, from: usize, out: &mut [u8]) {
        if self.is_inverted() {
            out.iter_mut().skip(from).for_each(|byte| *byte = !*byte);
        }
    }

    /// Appends a value of a column of integers, which is one that the column's type has.
    pub(super) fn encode_int(&self, value: i64, out: &mut Vec<u8>) {
        out.push(VALUE);
        let from = out.len();
        put_int(self.kind, value, out);
        self.turn_from(from, out);
    }

    /// Whether the bits of values are inverted.
    fn is_inverted(&self) -> bool {
        self.descending && matches!(self.order, Order::Bytes)
    }

    /// What the bytes of values are combined with.
    fn turn(&self) -> u8 {
        if self.is_inverted() { 255 } else { 0 }
    }

    /// Where the column that begins at `at` ends; `None` if the bytes are damaged.
    pub(super) fn end(&self, key: &[u8], at: usize) -> Option<usize> {
        let marker = *key.get(at)?;
        if marker != VALUE && marker != COMPRESSED {
            return Some(at + 1);
        }
        let from = at + 1;
        let rest = key.get(from..)?;
        let turn = self.turn();
        let len = match self.form {
            _ if marker == COMPRESSED => stored::prefixed_len(rest)?,
            Form::Fixed(len) => len,
            Form::Terminated => rest.iter().position(|byte| byte ^ turn == 0)? + 1,
            Form::Escaped => {
                let mut i = 0;
                loop {
                    if *rest.get(i)? ^ turn != 0 {
                        i += 1;
                    } else if *rest.get(i + 1)? ^ turn == 0 {
                        break i + 2;
                    } else {
                        i += 2;
                    }
                }
            }
            Form::Prefixed => stored::prefixed_len(rest)?,
            Form::Whole => return None,
        };
        (len <= rest.len()).then_some(from + len)
    }

    /// The order of two encoded columns.
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a.first() == Some(&COMPRESSED) || b.first() == Some(&COMPRESSED) {
            return self.expanded(a, usize::MAX).cmp(&self.expanded(b, usize::MAX));
        }
        let (Some((&VALUE, a_value)), Some((&VALUE, b_value))) = (a.split_first(), b.split_first()) else {
            return a.cmp(b);
        };
        let order = match &self.order {
            Order::Bytes => return a.cmp(b),
            // A marker alone stands before or after all values (see `Ends` of the scan's ranges).
            _ if a_value.is_empty() || b_value.is_empty() => return a.cmp(b),
            Order::Collation(collation) => match (self.stored(a_value), self.stored(b_value)) {
                (Some(a), Some(b)) => server::compare_text(&a.plain(), &b.plain(), *collation),
                _ => return a.cmp(b),
            },
            Order::Function(function) => match (self.stored(a_value), self.stored(b_value)) {
                (Some(a), Some(b)) => function.compare(&a.plain(), &b.plain()),
                _ => return a.cmp(b),
            },
        };
        if self.descending { order.reverse() } else { order }
    }

    /// The bytes of a value that is stored as the server has it.
    fn stored<'a>(&self, value: &'a [u8]) -> Option<Stored<'a>> {
        match self.form {
            Form::Prefixed => stored::read_prefixed(value),
            Form::Fixed(len) => value.get(..len).map(Stored::Plain),
            _ => None,
        }
    }

    /// The value of an encoded column, `None` for NULL.
    pub(super) fn decode<'k>(&self, bytes: &'k [u8]) -> Option<ColumnValue<'k>> {
        let (marker, value) = bytes.split_first()?;
        if *marker == COMPRESSED && self.kind.decodes() {
            return stored::into_value(value.into());
        }
        if *marker != VALUE {
            return None;
        }
        let value: Cow<'k, [u8]> = match self.turn() {
            0 => value.into(),
            turn => value.iter().map(|byte| byte ^ turn).collect::<Vec<u8>>().into(),
        };
        let word = |value: &[u8]| value.first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes));
        let half = |value: &[u8]| value.first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_be_bytes(*bytes));
        Some(match self.kind {
            Kind::Int2 => {
                let bits = value.first_chunk().map_or(0, |bytes: &[u8; 2]| u16::from_be_bytes(*bytes));
                ColumnValue::Word((bits ^ 1 << 15) as i16 as usize)
            }
            Kind::Int4 => ColumnValue::Word((half(&value) ^ 1 << 31) as i32 as usize),
            Kind::Int8 => ColumnValue::Word((word(&value) ^ 1 << 63) as usize),
            Kind::Float4 => ColumnValue::Word((get_float(word(&value)) as f32).to_bits() as usize),
            Kind::Float8 => ColumnValue::Word(get_float(word(&value)).to_bits() as usize),
            Kind::Byte => ColumnValue::Word(usize::from(value.first().copied().unwrap_or(0))),
            Kind::Unsigned4 => ColumnValue::Word(half(&value) as usize),
            Kind::Unsigned8 => ColumnValue::Word(word(&value) as usize),
            Kind::Uuid | Kind::Macaddr | Kind::Macaddr8 => ColumnValue::Fixed(value),
            Kind::Tid => {
                let bytes = value.first_chunk().map_or([0; 6], |bytes: &[u8; 6]| tid_from_bytes(*bytes));
                ColumnValue::Fixed(bytes.to_vec().into())
            }
            Kind::Bytea => ColumnValue::Varlena(unescaped(&value).into()),
            Kind::Text | Kind::TextPattern | Kind::Name => {
                let text = match self.form {
                    Form::Prefixed => stored::into_value(value)?,
                    _ => ColumnValue::Varlena(without_last(value)),
                };
                match (self.kind, text) {
                    (Kind::Name, ColumnValue::Varlena(name)) => {
                        let mut name = name.into_owned();
                        name.resize(NAME, 0);
                        ColumnValue::Fixed(name.into())
                    }
                    (_, text) => text,
                }
            }
            Kind::Generic => match self.form {
                Form::Prefixed => stored::into_value(value)?,
                _ => stored::fixed_value(value, self.layout),
            },
            Kind::Value | Kind::Keys => return None,
        })
    }

    /// How to read values that have one length from a key where the column begins at `at`; `None` if it is not as simple
    /// as that.
    pub(super) fn fixed(&self, at: usize) -> Option<FixedColumn> {
        let (Form::Fixed(len), Order::Bytes) = (self.form, &self.order) else { return None };
        let (sign, all) = (1_u64 << (8 * len.clamp(1, 8) - 1), u64::MAX >> (64 - 8 * len.clamp(1, 8)));
        let turned = if self.is_inverted() { all } else { 0 };
        let number = match self.kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Some(sign ^ turned),
            Kind::Byte | Kind::Unsigned4 | Kind::Unsigned8 => Some(turned),
            Kind::Uuid | Kind::Macaddr | Kind::Macaddr8 if !self.is_inverted() => None,
            _ => return None,
        };
        Some(FixedColumn { at: at + 1, len, number })
    }

    /// The value -0, of a column whose entry says 0. No other columns than those of floats have it, whatever a damaged
    /// entry says.
    pub(super) fn negative_zero(&self) -> Option<ColumnValue<'static>> {
        match self.kind {
            Kind::Float4 => Some(ColumnValue::Word((-0.0_f32).to_bits() as usize)),
            Kind::Float8 => Some(ColumnValue::Word((-0.0_f64).to_bits() as usize)),
            _ => None,
        }
    }
}

/// The order of two markers, of which one stands for all values.
pub(super) fn compare_markers(a: Option<&u8>, b: Option<&u8>) -> Ordering {
    let value =
        |marker: Option<&u8>| marker.map(|marker| if *marker == COMPRESSED { VALUE } else { *marker });
    value(a).cmp(&value(b))
}

/// The bytes that the encoding of a text, a bytea or a value of documents consists of.
fn plain_bytes(kind: Kind, datum: Datum<'_>) -> PlainBytes<'_> {
    match kind {
        Kind::Bytea => PlainBytes::Bytes(datum.bytes()),
        Kind::Value => {
            let mut key = Vec::new();
            value::encode_key(&datum.bytes(), &mut key);
            PlainBytes::Key(key)
        }
        _ => PlainBytes::Text(datum.text_bytes()),
    }
}

/// See [`plain_bytes`].
enum PlainBytes<'d> {
    Text(TextBytes<'d>),
    Bytes(Bytes<'d>),
    Key(Vec<u8>),
}

impl std::ops::Deref for PlainBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            PlainBytes::Text(text) => text,
            PlainBytes::Bytes(bytes) => bytes,
            PlainBytes::Key(key) => key,
        }
    }
}

/// Without the 0 byte at the end.
fn without_last(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match value {
        Cow::Borrowed(bytes) => bytes.split_last().map_or(bytes, |(_, bytes)| bytes).into(),
        Cow::Owned(mut bytes) => {
            bytes.pop();
            bytes.into()
        }
    }
}

fn append_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(255);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The bytes of an escaped value that ends with two 0 bytes.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        if *byte == 0 && rest.next() != Some(&255) {
            break;
        }
        bytes.push(*byte);
    }
    bytes
}

/// A row's address as the server has it: three numbers of 16 bits, the high half of the block first.
fn tid_to_bytes(tid: [u8; 6]) -> [u8; 6] {
    swapped(tid, |half| u16::from_ne_bytes(half).to_be_bytes())
}

fn tid_from_bytes(bytes: [u8; 6]) -> [u8; 6] {
    swapped(bytes, |half| u16::from_be_bytes(half).to_ne_bytes())
}

fn swapped([a, b, c, d, e, f]: [u8; 6], swap: impl Fn([u8; 2]) -> [u8; 2]) -> [u8; 6] {
    let ([a, b], [c, d], [e, f]) = (swap([a, b]), swap([c, d]), swap([e, f]));
    [a, b, c, d, e, f]
}

/// Appends the low bytes of a value of a kind of integers.
fn put_int(kind: Kind, value: i64, out: &mut Vec<u8>) {
    match kind {
        Kind::Int2 => out.extend_from_slice(&(value as u16 ^ 1 << 15).to_be_bytes()),
        Kind::Int4 => out.extend_from_slice(&(value as u32 ^ 1 << 31).to_be_bytes()),
        _ => out.extend_from_slice(&(value as u64 ^ 1 << 63).to_be_bytes()),
    }
}

/// False for -0, which is stored as 0.
fn put_float(value: f64, out: &mut Vec<u8>) -> bool {
    // Of NaNs there is one, and it is the greatest value.
    let canonical = if value.is_nan() {
        f64::from_bits(0x7ff8 << 48)
    } else if value == 0.0 {
        0.0
    } else {
        value
    };
    let bits = canonical.to_bits();
    let ordered = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
    !(value == 0.0 && value.is_sign_negative())
}

fn get_float(word: u64) -> f64 {
    f64::from_bits(if word >> 63 == 0 { !word } else { word & !(1 << 63) })
}
