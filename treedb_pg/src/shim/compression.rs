//! The server's own compression of values, `pglz`.

use std::ffi::{c_char, c_void};

use super::error::{SqlState, fail};

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

/// What [`compress`] was given.
pub(crate) fn decompress(compressed: &[u8]) -> Vec<u8> {
    let parts = compressed.split_first_chunk::<LENGTH>();
    let Some((whole, bytes)) = parts.map(|(length, bytes)| (i32::from_be_bytes(*length), bytes)) else {
        damaged()
    };
    // A byte of `pglz` output stands for less than 256 bytes, so a damaged length allocates no more than that.
    let most = bytes.len().saturating_mul(256);
    let Some(len) = usize::try_from(whole).ok().filter(|len| *len <= most) else { damaged() };
    let mut place = vec![0_u8; len];
    // SAFETY: the server reads as many bytes as there are, and writes at most `whole`.
    let written = unsafe {
        pglz_decompress(bytes.as_ptr().cast(), bytes.len() as i32, place.as_mut_ptr().cast(), whole, true)
    };
    if written != whole {
        damaged()
    }
    place
}

fn damaged() -> ! {
    fail(
        SqlState::ERRCODE_INDEX_CORRUPTED,
        "a compressed value in an index entry is damaged",
        "REINDEX the index; if it was restored from a backup or the disk is failing, check the table too.",
    )
}
