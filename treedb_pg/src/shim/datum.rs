//! Values of SQL: what a `Datum` holds, and for how long its memory may be read.
//!
//! The server's `Datum` is a bare word that may be a number or a pointer. A [`Datum`] here also knows its
//! [`Layout`], taken from the catalog or from the SQL declaration of the function it is an argument of, and the
//! lifetime of its memory. Reading it with another layout is an SQL error, never an invalid access.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use pgrx::pg_sys;

use super::error::{SqlState, fail};
use super::release::may_release;

/// How a type is passed: `typlen` and `typbyval` of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// In the word itself.
    Word,
    /// A pointer to a value with a length header, possibly compressed or stored elsewhere.
    Varlena,
    /// A pointer to this many bytes.
    Fixed(usize),
    /// A pointer to a string closed by a zero byte.
    CString,
}

impl Layout {
    /// The layout of a type with this `typlen` and `typbyval`.
    #[inline]
    pub(super) fn new(len: i16, by_value: bool) -> Layout {
        match usize::try_from(len) {
            Ok(_) if by_value => Layout::Word,
            Ok(len) => Layout::Fixed(len),
            Err(_) if len == -1 => Layout::Varlena,
            Err(_) => Layout::CString,
        }
    }

    /// The layout of a type, looked up in the catalog unless it is one of the common ones.
    pub(super) fn of_type(oid: pg_sys::Oid) -> Layout {
        match oid {
            pg_sys::INT2OID
            | pg_sys::INT4OID
            | pg_sys::INT8OID
            | pg_sys::FLOAT4OID
            | pg_sys::FLOAT8OID
            | pg_sys::DATEOID
            | pg_sys::TIMESTAMPOID
            | pg_sys::TIMESTAMPTZOID => Layout::Word,
            pg_sys::TEXTOID | pg_sys::BYTEAOID => Layout::Varlena,
            _ => {
                let (mut len, mut by_value) = (0, false);
                // SAFETY: fills both out parameters, or raises an error where there is no such type.
                unsafe { pg_sys::get_typlenbyval(oid, &raw mut len, &raw mut by_value) };
                Layout::new(len, by_value)
            }
        }
    }

    /// The layout of an attribute of a row or index entry.
    #[inline]
    pub(super) fn of_attribute(attribute: &pg_sys::FormData_pg_attribute) -> Layout {
        Layout::new(attribute.attlen, attribute.attbyval)
    }
}

/// A value that is not NULL, whose memory may be read for as long as `'m`.
#[derive(Clone, Copy)]
pub(crate) struct Datum<'m> {
    raw: pg_sys::Datum,
    layout: Layout,
    memory: PhantomData<&'m [u8]>,
}

impl<'m> Datum<'m> {
    /// # Safety
    /// `raw` is a value of a type with this layout; what it points to is not written and stays allocated for `'m`.
    #[inline]
    pub(super) unsafe fn from_raw(raw: pg_sys::Datum, layout: Layout) -> Datum<'m> {
        Datum { raw, layout, memory: PhantomData }
    }

    #[inline]
    fn expect(self, layout: Layout) {
        if self.layout != layout {
            self.mismatch(layout);
        }
    }

    #[cold]
    fn mismatch(self, layout: Layout) -> ! {
        fail(
            SqlState::ERRCODE_DATATYPE_MISMATCH,
            format!("expected a value stored as {layout:?}, found one stored as {:?}", self.layout),
            "Drop functions and operator classes that declare treedb's functions with other types.",
        )
    }

    /// The server's form.
    pub(super) fn raw(self) -> pg_sys::Datum {
        self.raw
    }

    /// How the value is passed.
    pub(crate) fn layout(self) -> Layout {
        self.layout
    }

    /// The bits of a value passed in the word itself.
    #[inline]
    pub(crate) fn word(self) -> usize {
        self.expect(Layout::Word);
        self.raw.value()
    }

    /// The bytes of a value of variable length.
    #[inline]
    pub(crate) fn bytes(self) -> Bytes<'m> {
        self.expect(Layout::Varlena);
        let stored = self.raw.cast_mut_ptr::<pg_sys::varlena>();
        // SAFETY: the layout says that this points to such a value. Most are neither compressed nor stored elsewhere: the
        // server would return them as they are.
        let value = unsafe {
            if pgrx::varlena::varatt_is_4b_u(stored)
                || pgrx::varlena::varatt_is_1b(stored) && !pgrx::varlena::varatt_is_1b_e(stored)
            {
                stored
            } else {
                pg_sys::pg_detoast_datum_packed(stored)
            }
        };
        Bytes { value, copied: !std::ptr::eq(value, stored), memory: PhantomData }
    }

    /// The bytes of a value of variable length that is neither compressed nor stored elsewhere; `None` if it is.
    #[inline]
    pub(super) fn plain_bytes(self) -> Option<&'m [u8]> {
        let stored = self.raw.cast_mut_ptr::<pg_sys::varlena>();
        // SAFETY: the layout says that this points to such a value, which is not written for as long as `'m`.
        unsafe {
            let plain = pgrx::varlena::varatt_is_4b_u(stored)
                || pgrx::varlena::varatt_is_1b(stored) && !pgrx::varlena::varatt_is_1b_e(stored);
            (self.layout == Layout::Varlena && plain).then(|| pgrx::varlena::varlena_to_byte_slice(stored))
        }
    }

    /// The bytes of a value of exactly `N` bytes.
    pub(crate) fn fixed<const N: usize>(self) -> &'m [u8; N] {
        self.expect(Layout::Fixed(N));
        // SAFETY: the layout says that this points to as many bytes, which have no alignment.
        unsafe { &*self.raw.cast_mut_ptr::<[u8; N]>() }
    }

    /// The bytes of a value of any fixed number of them.
    pub(crate) fn fixed_bytes(self) -> &'m [u8] {
        let Layout::Fixed(len) = self.layout else { self.mismatch(Layout::Fixed(0)) };
        // SAFETY: the layout says that this points to as many bytes, which have no alignment.
        unsafe { std::slice::from_raw_parts(self.raw.cast_mut_ptr::<u8>(), len) }
    }

    /// The bytes of a text, a name or a cstring, without the zero bytes that close the latter two.
    pub(crate) fn text_bytes(self) -> TextBytes<'m> {
        match self.layout {
            Layout::Fixed(_) => {
                let name = self.fixed_bytes();
                let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                TextBytes::Plain(name.get(..len).unwrap_or(&[]))
            }
            Layout::CString => TextBytes::Plain(self.cstring().to_bytes()),
            _ => TextBytes::Varlena(self.bytes()),
        }
    }

    /// A string closed by a zero byte.
    pub(super) fn cstring(self) -> &'m CStr {
        self.expect(Layout::CString);
        // SAFETY: the layout says that this points to one.
        unsafe { CStr::from_ptr(self.raw.cast_mut_ptr::<c_char>()) }
    }

    /// The elements of an array, `None` for NULLs.
    ///
    /// # Safety
    /// The value is an array: `typlen` does not tell one from other values of variable length. A compressed one is
    /// copied into the current memory context, which must live as long as `'m`.
    pub(super) unsafe fn elements(self) -> Vec<Option<Datum<'m>>> {
        self.expect(Layout::Varlena);
        // SAFETY: an array, as the caller says; the server fills the out parameters, and its arrays of values and
        // flags have `count` elements, which point into the array.
        unsafe {
            let array = pg_sys::pg_detoast_datum(self.raw.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let element = (*array).elemtype;
            let (mut len, mut by_value, mut align) = (0, false, 0);
            pg_sys::get_typlenbyvalalign(element, &raw mut len, &raw mut by_value, &raw mut align);
            let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            pg_sys::deconstruct_array(
                array,
                element,
                i32::from(len),
                by_value,
                align,
                &raw mut values,
                &raw mut nulls,
                &raw mut count,
            );
            let layout = Layout::new(len, by_value);
            (0..usize::try_from(count).unwrap_or(0))
                .map(|i| (!*nulls.add(i)).then(|| Datum::from_raw(*values.add(i), layout)))
                .collect()
        }
    }
}

/// The bytes of a text of whatever type.
pub(crate) enum TextBytes<'m> {
    Varlena(Bytes<'m>),
    Plain(&'m [u8]),
}

impl std::ops::Deref for TextBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TextBytes::Varlena(bytes) => bytes,
            TextBytes::Plain(bytes) => bytes,
        }
    }
}

/// The bytes of a variable-length value, fetched and decompressed if need be.
pub(crate) struct Bytes<'m> {
    value: *mut pg_sys::varlena,
    copied: bool,
    memory: PhantomData<&'m [u8]>,
}

/// A value of variable length with no bytes: a header that says 4.
#[repr(C, align(4))]
struct Empty(u32);

/// `SET_VARSIZE(4)` of a value with a header of four bytes, in either byte order.
static EMPTY: Empty = Empty(if cfg!(target_endian = "big") { 4 } else { 4 << 2 });

impl Bytes<'_> {
    /// The value as the server's text.
    pub(super) fn as_text(&self) -> *mut pg_sys::text {
        self.value.cast()
    }

    /// No bytes.
    pub(super) fn empty() -> Bytes<'static> {
        Bytes { value: (&raw const EMPTY).cast_mut().cast(), copied: false, memory: PhantomData }
    }
}

impl std::ops::Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: a plain value with a header of one or four bytes that says its length; it lives as long as the
        // datum it was read from or, copied, as long as `self`.
        unsafe {
            let len = pgrx::varlena::varsize_any_exhdr(self.value);
            std::slice::from_raw_parts(pgrx::varlena::vardata_any(self.value).cast::<u8>(), len)
        }
    }
}

impl Drop for Bytes<'_> {
    fn drop(&mut self) {
        if self.copied && may_release() {
            // SAFETY: allocated by the detoasting call.
            unsafe { pg_sys::pfree(self.value.cast()) }
        }
    }
}
