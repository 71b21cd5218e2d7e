//! Compression of values: the server's own, `pglz`, and `lz4`, which servers may be built without.

use std::ffi::{c_char, c_void};

use pgrx::pg_sys;

use super::error::{REINDEX, SqlState, fail_with_detail};
use super::memory::aligned_varlena;
use super::setting;

/// Bytes of the length before a compressed value.
const LENGTH: usize = 4;
/// The method is in the two upper bits of the length, as in the server's own headers: no value has as many bytes.
const METHOD_SHIFT: u32 = 30;
/// A byte of `lz4` output stands for no more bytes.
const MOST_BY_LZ4: usize = 256;

/// How a value is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Pglz,
    /// By the library that is part of the extension, in every server.
    Lz4,
    /// By the server's library, if it has one: what it makes can be some bytes shorter, and may be other bytes in another server.
    ServerLz4,
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    fn pglz_compress(source: *const c_char, len: i32, place: *mut c_char, strategy: *const c_void) -> i32;
    fn pglz_decompress(
        source: *const c_char,
        len: i32,
        place: *mut c_char,
        whole: i32,
        complete: bool,
    ) -> i32;
    fn lz4_compress_datum(value: *const pg_sys::varlena) -> *mut pg_sys::varlena;
}

unsafe extern "C" {
    /// The strategy that the server compresses long values with.
    #[link_name = "PGLZ_strategy_default"]
    static STRATEGY: *const c_void;
}

/// The length of `bytes` with the method (4 bytes, big-endian) and what the method makes of them, at most `most` bytes; `None` if
/// that is more, or hardly shorter than `bytes`.
pub(crate) fn compress(bytes: &[u8], method: Method, most: usize) -> Option<Vec<u8>> {
    let compressed = match method {
        Method::Pglz => by_pglz(bytes),
        Method::Lz4 => by_lz4(bytes, most),
        Method::ServerLz4 => by_server_lz4(bytes, most),
    };
    compressed.filter(|compressed| compressed.len() <= most)
}

/// The length of bytes with the method `lz4`; `None` if it cannot make at most `most` bytes of them.
fn lz4_length(bytes: &[u8], most: usize) -> Option<[u8; LENGTH]> {
    if bytes.len() > most.saturating_mul(MOST_BY_LZ4) {
        return None;
    }
    let len = u32::try_from(bytes.len()).ok().filter(|len| len >> METHOD_SHIFT == 0)?;
    Some((len | 1 << METHOD_SHIFT).to_be_bytes())
}

fn by_lz4(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let lz4_length = lz4_length(bytes, most)?;
    let mut place = vec![0_u8; LENGTH + lz4_flex::block::get_maximum_output_size(bytes.len())];
    let (length, rest) = place.split_first_chunk_mut::<LENGTH>()?;
    *length = lz4_length;
    let written = lz4_flex::block::compress_into(bytes, rest).ok()?;
    place.truncate(LENGTH + written);
    (place.len() < bytes.len()).then_some(place)
}

fn by_server_lz4(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let length = lz4_length(bytes, most)?;
    // Servers that are built without it do not have the value.
    if !setting::takes(c"default_toast_compression", c"lz4") {
        return None;
    }
    let value = aligned_varlena(bytes);
    // SAFETY: a value with a header of four bytes. What the server returns, unless it is NULL, begins with its size and the length
    // of the value, and is ours.
    unsafe {
        let made = lz4_compress_datum(value.as_ptr().cast());
        if made.is_null() {
            return None;
        }
        let header = pg_sys::VARHDRSZ + size_of::<u32>();
        let size = pgrx::varlena::varsize_4b(made).checked_sub(header)?;
        let compressed = std::slice::from_raw_parts(made.cast::<u8>().add(header), size);
        let place = [&length, compressed].concat();
        pg_sys::pfree(made.cast());
        (place.len() < bytes.len()).then_some(place)
    }
}

fn by_pglz(bytes: &[u8]) -> Option<Vec<u8>> {
    let len = i32::try_from(bytes.len()).ok()?;
    // The server writes up to four bytes beyond the length of its input.
    let mut place = vec![0_u8; bytes.len() + 4 + LENGTH];
    let (length, rest) = place.split_first_chunk_mut::<LENGTH>()?;
    *length = len.to_be_bytes();
    // SAFETY: the server reads `len` bytes and writes as many as the place has; a strategy of its own.
    let written = unsafe { pglz_compress(bytes.as_ptr().cast(), len, rest.as_mut_ptr().cast(), STRATEGY) };
    place.truncate(usize::try_from(written).ok()? + LENGTH);
    Some(place)
}

/// The first bytes of what [`compress`] was given, `most` of them if there are as many; an SQL error if they are damaged.
pub(crate) fn decompress(compressed: &[u8], most: usize) -> Vec<u8> {
    match decompress_quietly(compressed, most) {
        Some(bytes) => bytes,
        None => fail_with_detail(
            SqlState::ERRCODE_INDEX_CORRUPTED,
            "an entry of an index of treedb is damaged",
            "Expected a compressed value, found bytes that cannot be decompressed.",
            REINDEX,
        ),
    }
}

/// The same; `None` if they are damaged.
pub(crate) fn decompress_quietly(compressed: &[u8], most: usize) -> Option<Vec<u8>> {
    let (length, bytes) = compressed.split_first_chunk::<LENGTH>()?;
    let word = u32::from_be_bytes(*length);
    let whole = usize::try_from(word & ((1 << METHOD_SHIFT) - 1)).ok()?;
    match word >> METHOD_SHIFT {
        0 => {}
        // All of it is decompressed, but who wanted the beginning has no work with the rest.
        1 => {
            let mut plain = from_lz4(bytes, whole)?;
            plain.truncate(most);
            return Some(plain);
        }
        _ => return None,
    }
    // A byte of `pglz` output stands for less than 256 bytes, so a damaged length allocates no more than that.
    if whole > bytes.len().saturating_mul(256) {
        return None;
    }
    let len = whole.min(most);
    let mut place = vec![0_u8; len];
    let (from, to) = (bytes.as_ptr().cast(), place.as_mut_ptr().cast());
    // SAFETY: the server reads as many bytes as there are, and writes at most `len`.
    let written = unsafe { pglz_decompress(from, bytes.len() as i32, to, len as i32, len == whole) };
    (usize::try_from(written) == Ok(len)).then_some(place)
}

fn from_lz4(bytes: &[u8], whole: usize) -> Option<Vec<u8>> {
    if whole > bytes.len().saturating_mul(MOST_BY_LZ4) {
        return None;
    }
    let mut place = vec![0_u8; whole];
    let written = lz4_flex::block::decompress_into(bytes, &mut place).ok()?;
    (written == whole).then_some(place)
}
