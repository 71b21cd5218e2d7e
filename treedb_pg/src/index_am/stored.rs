//! Values that an entry holds as the server has them: those of generic and collated key columns, and of included columns.
//!
//! | how the server passes it | bytes |
//! |---|---|
//! | in the word | the word, 8 bytes big-endian |
//! | by a pointer to a fixed number of bytes | these |
//! | with a length header | length (15 bits; bit 15: compressed), big-endian; the bytes without their header |
//!
//! A length of 32767 stands for one that follows in four bytes (only arguments of a scan are that long). A compressed
//! value is its length (4 bytes, the method in the two upper bits: 0 for the server's `pglz`, 1 for `lz4`) and what the method made
//! of it. Values are compressed only in entries that are too long otherwise, by `pglz`, and where that is not enough by the method
//! that makes them shorter: so a row has the same entry whenever it is computed, but where the `lz4` of the extension makes an entry
//! a few bytes too long and the server's, which may be another one tomorrow, does not. Entries are compared by their values then.

use std::borrow::Cow;

use crate::shim::compression::{self, Method};
use crate::shim::datum::{Datum, Layout};
use crate::shim::index_scan::ColumnValue;

/// The flag of a compressed value in its length.
const COMPRESSED: u16 = 1 << 15;
/// A length that is not the length.
const LONG: u16 = COMPRESSED - 1;
/// Values shorter than this are never compressed.
const WORTH_COMPRESSING: usize = 64;

/// Whether long values are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    No,
    Pglz,
    /// By `pglz` or the `lz4` of the extension: the one that makes a value shorter.
    WithLz4,
    /// The same, or by the server's `lz4`.
    WithServerLz4,
}

impl Compression {
    fn methods(self) -> &'static [Method] {
        match self {
            Compression::No => &[],
            Compression::Pglz => &[Method::Pglz],
            Compression::WithLz4 => &[Method::Pglz, Method::Lz4],
            Compression::WithServerLz4 => &[Method::Pglz, Method::Lz4, Method::ServerLz4],
        }
    }
}

/// A value with a length header, as it is in an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored<'a> {
    Plain(&'a [u8]),
    Compressed(&'a [u8]),
}

impl<'a> Stored<'a> {
    /// The bytes, decompressed.
    pub(super) fn plain(&self) -> Cow<'a, [u8]> {
        self.plain_up_to(usize::MAX)
    }

    /// The first of these bytes, at least `most` of them if there are as many.
    pub(super) fn plain_up_to(&self, most: usize) -> Cow<'a, [u8]> {
        match self {
            Stored::Plain(bytes) => Cow::Borrowed(bytes),
            Stored::Compressed(bytes) => compression::decompress(bytes, most).into(),
        }
    }

    /// The bytes, decompressed; `None` if they cannot be.
    fn plain_quietly(&self) -> Option<Cow<'a, [u8]>> {
        match self {
            Stored::Plain(bytes) => Some(Cow::Borrowed(bytes)),
            Stored::Compressed(bytes) => compression::decompress_quietly(bytes, usize::MAX).map(Cow::Owned),
        }
    }

    /// Whether it can be decompressed.
    pub(super) fn is_intact(&self) -> bool {
        self.plain_quietly().is_some()
    }
}

/// How many bytes a value that is passed like this takes; `None` if it has a length of its own.
pub(super) fn size(layout: Layout) -> Option<usize> {
    match layout {
        Layout::Word => Some(8),
        Layout::Fixed(len) => Some(len),
        Layout::Varlena | Layout::CString => None,
    }
}

/// Appends a value.
pub(super) fn append(datum: Datum<'_>, compress: Compression, out: &mut Vec<u8>) {
    match datum.layout() {
        Layout::Word => out.extend_from_slice(&(datum.word() as u64).to_be_bytes()),
        Layout::Fixed(_) => out.extend_from_slice(datum.fixed_bytes()),
        Layout::Varlena => append_prefixed(&datum.bytes(), compress, out),
        Layout::CString => append_prefixed(&datum.text_bytes(), compress, out),
    }
}

/// Appends bytes with their length.
pub(super) fn append_prefixed(bytes: &[u8], compress: Compression, out: &mut Vec<u8>) {
    let methods = if bytes.len() >= WORTH_COMPRESSING { compress.methods() } else { &[] };
    let most = usize::from(LONG - 1);
    let compressed = methods.iter().filter_map(|method| compression::compress(bytes, *method, most));
    if let Some(compressed) = compressed.min_by_key(Vec::len) {
        out.extend_from_slice(&(COMPRESSED | compressed.len() as u16).to_be_bytes());
        out.extend_from_slice(&compressed);
        return;
    }
    if bytes.len() < usize::from(LONG) {
        out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    } else {
        out.extend_from_slice(&LONG.to_be_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Where the bytes of a value with a length lie, and whether they are compressed; `None` if the length is damaged.
fn parts(value: &[u8]) -> Option<(usize, usize, bool)> {
    let word = u16::from_be_bytes(*value.first_chunk()?);
    match word & LONG {
        LONG if word == LONG => {
            let len = u32::from_be_bytes(*value.get(2..)?.first_chunk()?);
            Some((6, usize::try_from(len).ok()?, false))
        }
        len => Some((2, usize::from(len), word & COMPRESSED != 0)),
    }
}

/// How many bytes the value at the beginning of `rest` takes, its length included; `None` if that is damaged.
pub(super) fn prefixed_len(rest: &[u8]) -> Option<usize> {
    parts(rest).and_then(|(from, len, _)| from.checked_add(len))
}

/// Reads a value with a length.
pub(super) fn read_prefixed(value: &[u8]) -> Option<Stored<'_>> {
    let (from, len, compressed) = parts(value)?;
    let bytes = value.get(from..)?.get(..len)?;
    Some(if compressed { Stored::Compressed(bytes) } else { Stored::Plain(bytes) })
}

/// The bytes of the value of a column that is passed like this, decompressed; `None` if they are damaged.
pub(super) fn plain_quietly(value: &[u8], layout: Layout) -> Option<Cow<'_, [u8]>> {
    match size(layout) {
        Some(_) => Some(value.into()),
        None => read_prefixed(value)?.plain_quietly(),
    }
}

/// A value with a length, to be returned.
pub(super) fn into_value(value: Cow<'_, [u8]>) -> Option<ColumnValue<'_>> {
    let (from, len, compressed) = parts(&value)?;
    let bytes: Cow<'_, [u8]> = match value {
        Cow::Borrowed(value) => value.get(from..)?.get(..len)?.into(),
        Cow::Owned(value) => value.get(from..)?.get(..len)?.to_vec().into(),
    };
    Some(match compressed {
        // Not as it is, although the server could decompress it: what it says of damaged bytes names no index.
        true => ColumnValue::Varlena(compression::decompress(&bytes, usize::MAX).into()),
        false => ColumnValue::Varlena(bytes),
    })
}

/// A value of fixed length, to be returned.
pub(super) fn fixed_value(value: Cow<'_, [u8]>, layout: Layout) -> ColumnValue<'_> {
    match layout {
        Layout::Word => {
            let word = value.first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes));
            ColumnValue::Word(word as usize)
        }
        _ => ColumnValue::Fixed(value),
    }
}

/// The value of an encoded column that is passed like this.
pub(super) fn decode(value: &[u8], layout: Layout) -> Option<ColumnValue<'_>> {
    match size(layout) {
        Some(_) => Some(fixed_value(value.into(), layout)),
        None => into_value(value.into()),
    }
}
