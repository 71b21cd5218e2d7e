//! What kind of column an operator class is for: which of the encodings of [`super::column`] its values have.
//!
//! Support function 11 of an operator class takes no argument and returns the number of its kind. A kind is not a type:
//! timestamps are 8-byte integers, and [`Kind::Generic`] is any type that has a comparison function.

use std::ops::RangeInclusive;

use crate::shim::datum::Layout;
use crate::shim::function::pg_function;

/// The kinds. Their numbers, from 1 on in this order, are what the support functions return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Int2,
    /// `int4` and `date`.
    Int4,
    /// `int8`, `money`, `time`, `timestamp` and `timestamptz`.
    Int8,
    Float4,
    Float8,
    /// `text`, in the order of the column's collation.
    Text,
    Uuid,
    /// `treedb.bson_value`.
    Value,
    /// `treedb.keyset`: several entries for a row.
    Keys,
    /// `text` in the order of its bytes, whatever the collation.
    TextPattern,
    Name,
    Bytea,
    /// `bool` and `"char"`: one byte, not negative.
    Byte,
    /// `oid`.
    Unsigned4,
    /// `pg_lsn` and `xid8`.
    Unsigned8,
    Tid,
    Macaddr,
    Macaddr8,
    /// Any type: its own bytes, in the order of support function 1.
    Generic,
}

impl Kind {
    /// From the number that support function 11 returns.
    pub(super) fn from_number(number: i32) -> Option<Kind> {
        const KINDS: [Kind; 19] = [
            Kind::Int2,
            Kind::Int4,
            Kind::Int8,
            Kind::Float4,
            Kind::Float8,
            Kind::Text,
            Kind::Uuid,
            Kind::Value,
            Kind::Keys,
            Kind::TextPattern,
            Kind::Name,
            Kind::Bytea,
            Kind::Byte,
            Kind::Unsigned4,
            Kind::Unsigned8,
            Kind::Tid,
            Kind::Macaddr,
            Kind::Macaddr8,
            Kind::Generic,
        ];
        KINDS.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// What support function 11 returns.
    const fn number(self) -> i32 {
        self as i32 + 1
    }

    /// Whether an entry gives the value back.
    pub(super) fn decodes(self) -> bool {
        !matches!(self, Kind::Value | Kind::Keys)
    }

    /// The values of a kind of integers.
    pub(super) fn integers(self) -> Option<RangeInclusive<i64>> {
        Some(match self {
            Kind::Int2 => i64::from(i16::MIN)..=i64::from(i16::MAX),
            Kind::Int4 => i64::from(i32::MIN)..=i64::from(i32::MAX),
            Kind::Int8 => i64::MIN..=i64::MAX,
            _ => return None,
        })
    }

    /// Whether values are text, and compare with values of the other types that are.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::TextPattern | Kind::Name)
    }

    /// Whether a column whose values are passed like this may be of this kind.
    pub(super) fn is_passed(self, layout: Layout) -> bool {
        match layout {
            Layout::Word => [1, 2, 4, 8].iter().any(|len| self.fits(*len, true)),
            Layout::Fixed(len) => i16::try_from(len).is_ok_and(|len| self.fits(len, false)),
            Layout::Varlena => self.fits(-1, false),
            Layout::CString => false,
        }
    }

    /// Whether a type with this `typlen` and `typbyval` may be of this kind.
    pub(super) fn fits(self, len: i16, by_value: bool) -> bool {
        let stored = match self {
            Kind::Byte => (1, true),
            Kind::Int2 => (2, true),
            Kind::Int4 | Kind::Float4 | Kind::Unsigned4 => (4, true),
            // Where a word has 4 bytes, the server passes these by reference.
            Kind::Int8 | Kind::Float8 | Kind::Unsigned8 => (8, size_of::<usize>() == 8),
            Kind::Uuid => (16, false),
            Kind::Name => (64, false),
            Kind::Tid | Kind::Macaddr => (6, false),
            Kind::Macaddr8 => (8, false),
            Kind::Text | Kind::TextPattern | Kind::Bytea | Kind::Value | Kind::Keys => (-1, false),
            Kind::Generic => return len >= -1,
        };
        stored == (len, by_value)
    }
}

/// Support function 11 of an operator class.
macro_rules! kind_function {
    ($($name:ident = $kind:ident),* $(,)?) => {
        $(pg_function! {
            /// The number of a kind of column; see [`Kind`].
            fn $name(args: []) -> i32 {
                Kind::$kind.number()
            }
        })*
    };
}

kind_function!(
    treedb_kind_int2 = Int2,
    treedb_kind_int4 = Int4,
    treedb_kind_int8 = Int8,
    treedb_kind_float4 = Float4,
    treedb_kind_float8 = Float8,
    treedb_kind_text = Text,
    treedb_kind_uuid = Uuid,
    treedb_kind_value = Value,
    treedb_kind_keyset = Keys,
    treedb_kind_text_pattern = TextPattern,
    treedb_kind_name = Name,
    treedb_kind_bytea = Bytea,
    treedb_kind_byte = Byte,
    treedb_kind_oid = Unsigned4,
    treedb_kind_uint8 = Unsigned8,
    treedb_kind_tid = Tid,
    treedb_kind_macaddr = Macaddr,
    treedb_kind_macaddr8 = Macaddr8,
    treedb_kind_generic = Generic,
);
