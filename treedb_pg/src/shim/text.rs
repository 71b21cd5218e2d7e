//! Text between the server, which has an encoding per database, and the engine, which has UTF-8.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};

use pgrx::pg_sys;

use super::error::{SqlState, fail};
use super::varlena::{self, Bytes};

const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;

/// Bytes of the database's encoding as UTF-8.
fn to_utf8(bytes: &[u8]) -> Cow<'_, str> {
    // SAFETY: the server reads `len` bytes, and returns the same pointer or a new string closed by a zero.
    let converted = unsafe {
        let from = bytes.as_ptr().cast::<c_char>();
        let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        let to = pg_sys::pg_server_to_any(from, len, UTF8);
        if std::ptr::eq(to, from) { bytes } else { CStr::from_ptr(to).to_bytes() }
    };
    // A database of encoding SQL_ASCII holds anything.
    match std::str::from_utf8(converted) {
        Ok(text) => Cow::Borrowed(text),
        Err(error) => fail(
            SqlState::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\" at byte {}", error.valid_up_to()),
            "Documents hold UTF-8: set client_encoding to what is sent, or use a database of encoding UTF8.",
        ),
    }
}

/// A cstring argument, as UTF-8.
pub(crate) fn of_cstring(datum: pg_sys::Datum) -> Cow<'static, str> {
    // SAFETY: the caller's datum is a cstring, which lives as long as the call.
    to_utf8(unsafe { CStr::from_ptr(datum.cast_mut_ptr::<c_char>()) }.to_bytes())
}

/// A text argument, as UTF-8.
pub(crate) fn of_text(bytes: &Bytes) -> Cow<'_, str> {
    to_utf8(bytes)
}

/// A name of the server's, for messages.
pub(crate) fn lossy(name: &CStr) -> String {
    String::from_utf8_lossy(name.to_bytes()).into_owned()
}

/// UTF-8 as a string of the database's encoding.
pub(crate) fn owned_cstring(text: &str) -> CString {
    // `from_utf8` has refused a NUL.
    CString::new(from_utf8(text).into_owned()).unwrap_or_default()
}

/// UTF-8 in the database's encoding.
fn from_utf8(text: &str) -> Cow<'_, [u8]> {
    if text.as_bytes().contains(&0) {
        fail(
            SqlState::ERRCODE_UNTRANSLATABLE_CHARACTER,
            "a string with a NUL character cannot be a text",
            "Text of the server has no NUL: take the value with -> instead of ->>.",
        );
    }
    // SAFETY: as `to_utf8`.
    unsafe {
        let from = text.as_ptr().cast::<c_char>();
        let to = pg_sys::pg_any_to_server(from, i32::try_from(text.len()).unwrap_or(i32::MAX), UTF8);
        if std::ptr::eq(to, from) {
            return Cow::Borrowed(text.as_bytes());
        }
        Cow::Borrowed(CStr::from_ptr(to).to_bytes())
    }
}

/// A new cstring.
pub(crate) fn cstring(text: &str) -> pg_sys::Datum {
    let bytes = from_utf8(text);
    // SAFETY: palloc returns that many bytes or raises an error.
    unsafe {
        let place = pg_sys::palloc(bytes.len() + 1).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        *place.add(bytes.len()) = 0;
        pg_sys::Datum::from(place)
    }
}

/// A new text.
pub(crate) fn text(text: &str) -> pg_sys::Datum {
    varlena::new(&from_utf8(text))
}
