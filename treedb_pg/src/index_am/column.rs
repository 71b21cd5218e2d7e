//! One column of an index: what type it has, and its values as bytes whose order is the type's.
//!
//! An encoded column is a marker, then the value:
//!
//! | marker | what |
//! |---|---|
//! | 0 | NULL, where NULLs come first |
//! | 1 | a value |
//! | 2 | NULL, where NULLs come last |
//!
//! | type | value |
//! |---|---|
//! | int2, int4, int8, timestamptz | 8 bytes big-endian, sign bit inverted |
//! | float4, float8 | 8 bytes: the double's bits, transformed so that they order; NaN greatest; -0 as 0 |
//! | uuid | its 16 bytes |
//! | text | its bytes, then 0 (text has no 0 byte) |
//! | treedb.bson_value | its key of [`treedb_query::doc::key`], each 0 as 0 255, then 0 0 |
//! | treedb.keyset | one of its keys as it is; always the only column |
//!
//! A descending column's value has all bits inverted. Every encoding is self-delimiting, so columns can be
//! concatenated, and the bytes of one are never a prefix of the bytes of another.

use std::cmp::Ordering;

use pgrx::pg_sys;

use crate::shim::datum::Datum;
use crate::shim::index_scan::ColumnValue;
use crate::shim::server;
use crate::types::value;

/// Marker of a NULL that comes before all values.
const NULL_FIRST: u8 = 0;
/// Marker of a value.
const VALUE: u8 = 1;
/// Marker of a NULL that comes after all values.
const NULL_LAST: u8 = 2;

/// The type that an operator class is for: the result of its support function 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Text,
    Uuid,
    /// `treedb.bson_value`.
    Value,
    /// `treedb.keyset`: several entries for a row.
    Keys,
}

impl Kind {
    /// From the number that support function 1 returns.
    pub(super) fn from_number(number: i32) -> Option<Kind> {
        const KINDS: [Kind; 9] = [
            Kind::Int2,
            Kind::Int4,
            Kind::Int8,
            Kind::Float4,
            Kind::Float8,
            Kind::Text,
            Kind::Uuid,
            Kind::Value,
            Kind::Keys,
        ];
        KINDS.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// Whether an entry gives the value back.
    pub(super) fn decodes(self) -> bool {
        !matches!(self, Kind::Value | Kind::Keys)
    }
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) kind: Kind,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
    /// The collation of a text column whose order is not that of its bytes.
    pub(super) collation: Option<pg_sys::Oid>,
}

/// What a scan key compares with: the argument's type, where it is not the column's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ArgumentType(pub(super) pg_sys::Oid);

impl Column {
    /// Appends NULL.
    pub(super) fn encode_null(&self, out: &mut Vec<u8>) {
        out.push(if self.nulls_first { NULL_FIRST } else { NULL_LAST });
    }

    /// The marker that values begin with: everything from it on to the next marker is a value.
    pub(super) fn values_from(&self) -> u8 {
        VALUE
    }

    /// Appends a value of the column's type; false if the entry will not give back exactly this value.
    pub(super) fn encode(&self, datum: Datum<'_>, out: &mut Vec<u8>) -> bool {
        self.encode_as(datum, None, out)
    }

    /// Appends a value of another type of the same family.
    pub(super) fn encode_as(&self, datum: Datum<'_>, other: Option<ArgumentType>, out: &mut Vec<u8>) -> bool {
        out.push(VALUE);
        let from = out.len();
        let kind = other.map_or(self.kind, |other| match other.0 {
            pg_sys::INT2OID => Kind::Int2,
            pg_sys::INT4OID => Kind::Int4,
            pg_sys::INT8OID | pg_sys::TIMESTAMPTZOID => Kind::Int8,
            pg_sys::FLOAT4OID => Kind::Float4,
            pg_sys::FLOAT8OID => Kind::Float8,
            _ => self.kind,
        });
        let mut exact = true;
        match kind {
            Kind::Int2 => put_int(i64::from(datum.word() as i16), out),
            Kind::Int4 => put_int(i64::from(datum.word() as i32), out),
            Kind::Int8 => put_int(datum.word() as i64, out),
            Kind::Float4 => exact = put_float(f64::from(f32::from_bits(datum.word() as u32)), out),
            Kind::Float8 => exact = put_float(f64::from_bits(datum.word() as u64), out),
            Kind::Text => {
                out.extend_from_slice(&datum.bytes());
                out.push(0);
            }
            Kind::Uuid => {
                out.extend_from_slice(datum.fixed::<16>());
            }
            Kind::Value => {
                let mut key = Vec::new();
                value::encode_key(&datum.bytes(), &mut key);
                for byte in key {
                    out.push(byte);
                    if byte == 0 {
                        out.push(255);
                    }
                }
                out.extend_from_slice(&[0, 0]);
            }
            // The caller takes a key set apart and passes each key as it is: see `Schema::entries`.
            Kind::Keys => {}
        }
        if self.descending {
            out.iter_mut().skip(from).for_each(|byte| *byte = !*byte);
        }
        exact
    }

    /// Where the column that begins at `at` ends; `None` if the bytes are damaged.
    pub(super) fn end(&self, key: &[u8], at: usize) -> Option<usize> {
        if *key.get(at)? != VALUE {
            return Some(at + 1);
        }
        let from = at + 1;
        let rest = key.get(from..)?;
        let turn = if self.descending { 255 } else { 0 };
        let len = match self.kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 => 8,
            Kind::Uuid => 16,
            Kind::Text => rest.iter().position(|byte| byte ^ turn == 0)? + 1,
            Kind::Value => {
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
            Kind::Keys => return None,
        };
        (len <= rest.len()).then_some(from + len)
    }

    /// The order of two encoded columns.
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Some(collation) = self.collation else { return a.cmp(b) };
        match (a.split_first(), b.split_first()) {
            (Some((&VALUE, a)), Some((&VALUE, b))) => {
                let order = server::compare_text(self.text(a).as_ref(), self.text(b).as_ref(), collation);
                if self.descending { order.reverse() } else { order }
            }
            _ => a.cmp(b),
        }
    }

    /// The text of an encoded value without its marker.
    fn text<'a>(&self, value: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        let bytes = value.split_last().map_or(value, |(_, bytes)| bytes);
        if self.descending { bytes.iter().map(|byte| !byte).collect::<Vec<_>>().into() } else { bytes.into() }
    }

    /// The value of an encoded column, `None` for NULL.
    pub(super) fn decode<'k>(&self, bytes: &'k [u8]) -> Option<ColumnValue<'k>> {
        let (marker, value) = bytes.split_first()?;
        if *marker != VALUE {
            return None;
        }
        let turn = if self.descending { 255 } else { 0 };
        let word = || -> u64 {
            value.first_chunk().map_or(0, |b: &[u8; 8]| u64::from_be_bytes(b.map(|byte| byte ^ turn)))
        };
        Some(match self.kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => ColumnValue::Word(get_int(word()) as usize),
            Kind::Float4 => ColumnValue::Word((get_float(word()) as f32).to_bits() as usize),
            Kind::Float8 => ColumnValue::Word(get_float(word()).to_bits() as usize),
            Kind::Text => ColumnValue::Varlena(self.text(value)),
            Kind::Uuid => {
                let mut bytes = [0; 16];
                // A damaged entry may have fewer bytes.
                for (place, byte) in bytes.iter_mut().zip(value) {
                    *place = byte ^ turn;
                }
                ColumnValue::Fixed(bytes)
            }
            Kind::Value | Kind::Keys => return None,
        })
    }

    /// The value -0, of a column whose entry says 0.
    pub(super) fn negative_zero(&self) -> ColumnValue<'static> {
        ColumnValue::Word(match self.kind {
            Kind::Float4 => (-0.0_f32).to_bits() as usize,
            _ => (-0.0_f64).to_bits() as usize,
        })
    }
}

fn put_int(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&((value as u64) ^ (1 << 63)).to_be_bytes());
}

fn get_int(word: u64) -> i64 {
    (word ^ (1 << 63)) as i64
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
