//! Values of variable length: reading them wherever they are stored, making new ones.

use pgrx::pg_sys;

/// The bytes of a variable-length value, fetched and decompressed if need be.
pub(crate) struct Bytes {
    value: *mut pg_sys::varlena,
    copied: bool,
}

impl Bytes {
    /// Reads a value that is not NULL.
    pub(crate) fn of(datum: pg_sys::Datum) -> Bytes {
        let stored = datum.cast_mut_ptr::<pg_sys::varlena>();
        // SAFETY: the caller's datum is of a variable-length type and not NULL.
        let value = unsafe { pg_sys::pg_detoast_datum_packed(stored) };
        Bytes { value, copied: !std::ptr::eq(value, stored) }
    }
}

/// A value of variable length with no bytes: a header that says 4.
#[repr(C, align(4))]
struct Empty(u32);

/// `SET_VARSIZE(4)` of a value with a header of four bytes, in either byte order.
static EMPTY: Empty = Empty(if cfg!(target_endian = "big") { 4 } else { 4 << 2 });

impl Bytes {
    /// The value as the server's text.
    pub(crate) fn as_text(&self) -> *mut pg_sys::text {
        self.value.cast()
    }

    /// No bytes.
    pub(crate) fn empty() -> Bytes {
        Bytes { value: (&raw const EMPTY).cast_mut().cast(), copied: false }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: a plain value with a header of one or four bytes that says its length; it lives as long as the
        // datum it was read from or, copied, as long as `self`.
        unsafe {
            let len = pgrx::varlena::varsize_any_exhdr(self.value);
            std::slice::from_raw_parts(pgrx::varlena::vardata_any(self.value).cast::<u8>(), len)
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.copied && !std::thread::panicking() {
            // SAFETY: allocated by the detoasting call.
            unsafe { pg_sys::pfree(self.value.cast()) }
        }
    }
}

/// A new value in the current memory context.
pub(crate) fn new(bytes: &[u8]) -> pg_sys::Datum {
    // SAFETY: palloc returns that many bytes or raises an error; the header of four bytes says the whole length.
    unsafe {
        let size = bytes.len() + pg_sys::VARHDRSZ;
        let value = pg_sys::palloc(size).cast::<pg_sys::varlena>();
        pgrx::varlena::set_varsize_4b(value, size as i32);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>().add(pg_sys::VARHDRSZ), bytes.len());
        pg_sys::Datum::from(value)
    }
}
