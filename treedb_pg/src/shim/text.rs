//! Text between the server, which has an encoding per database, and the engine, which has UTF-8.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};

use pgrx::pg_sys;

use super::error::{SqlState, fail};
use super::unguarded;

const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;

/// A direction of the server's conversion: `pg_server_to_any` or `pg_any_to_server`.
type Convert = unsafe fn(*const c_char, i32, i32) -> *mut c_char;

/// Bytes in the other encoding; the same ones if it is the same encoding, or if they are ASCII.
///
/// # Safety
/// `convert` reads `len` bytes and returns the same pointer, or a new string closed by a zero.
unsafe fn converted(bytes: &[u8], convert: Convert) -> Cow<'_, [u8]> {
    // Nothing to convert, and nothing to check: ours is UTF-8, and so is what the server has let in.
    if unguarded::GetDatabaseEncoding() == UTF8 {
        return Cow::Borrowed(bytes);
    }
    let from = bytes.as_ptr().cast::<c_char>();
    let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: the caller's promise; a new string is the server's allocation, used by nobody else.
    unsafe {
        let to = convert(from, len, UTF8);
        if std::ptr::eq(to, from) {
            return Cow::Borrowed(bytes);
        }
        let copy = CStr::from_ptr(to).to_bytes().to_vec();
        pg_sys::pfree(to.cast());
        Cow::Owned(copy)
    }
}

/// Bytes of the database's encoding as UTF-8.
pub(crate) fn to_utf8(bytes: &[u8]) -> Cow<'_, str> {
    // SAFETY: the server's function keeps the promise.
    let text = match unsafe { converted(bytes, pg_sys::pg_server_to_any) } {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|error| error.utf8_error()),
    };
    match text {
        Ok(text) => text,
        // A database of encoding SQL_ASCII may hold any bytes.
        Err(error) => fail(
            SqlState::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\" at byte {}", error.valid_up_to()),
            "Documents hold UTF-8: set client_encoding to what is sent, or use a database of encoding UTF8.",
        ),
    }
}

/// UTF-8 in the database's encoding.
pub(super) fn from_utf8(text: &str) -> Cow<'_, [u8]> {
    if text.as_bytes().contains(&0) {
        fail(
            SqlState::ERRCODE_UNTRANSLATABLE_CHARACTER,
            "a string with a NUL character cannot be a text",
            "Text of the server has no NUL: take the value with -> instead of ->>.",
        );
    }
    // SAFETY: the server's function keeps the promise.
    unsafe { converted(text.as_bytes(), pg_sys::pg_any_to_server) }
}

/// UTF-8 as a string of the database's encoding.
pub(crate) fn owned_cstring(text: &str) -> CString {
    // `from_utf8` has refused a NUL.
    CString::new(from_utf8(text).into_owned()).unwrap_or_default()
}

/// A name of the server's, for messages.
pub(crate) fn lossy(name: &CStr) -> String {
    String::from_utf8_lossy(name.to_bytes()).into_owned()
}
