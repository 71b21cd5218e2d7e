//! The server's own compression of values, `pglz`.

use std::ffi::{c_char, c_void};

use super::error::{REINDEX, SqlState, fail_with_detail};

/// Bytes of the length before a compressed value.
pub(super) const LENGTH: usize = 4;

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
}

unsafe extern "C" {
    /// The strategy that the server compresses long values with.
    #[link_name = "PGLZ_strategy_default"]
    static STRATEGY: *const c_void;
}

/// The length of `bytes` (4 bytes, big-endian) and what `pglz` makes of them; `None` if that is hardly shorter.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
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

/// The first bytes of what [`compress`] was given, at most `most`; an SQL error if they are damaged.
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
    let whole = usize::try_from(i32::from_be_bytes(*length)).ok()?;
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
