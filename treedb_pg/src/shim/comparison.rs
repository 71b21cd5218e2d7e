//! Comparison functions of operator classes, called for values that lie in the entries of an index.

use std::cell::{RefCell, UnsafeCell};
use std::cmp::Ordering;

use pgrx::pg_sys;

use super::datum::{Datum, Layout};

/// A comparison function with what it keeps from one call to the next.
pub(crate) struct Comparison {
    /// Boxed, since what the function keeps may point to it.
    function: Box<UnsafeCell<pg_sys::FmgrInfo>>,
    collation: pg_sys::Oid,
    layout: Layout,
    /// Holds what the function keeps.
    context: pg_sys::MemoryContext,
    /// Where the two values are while they are compared.
    places: RefCell<[Place; 2]>,
}

// SAFETY: the memory context belongs to no transaction and is used by nobody else, so a comparison is valid wherever it is
// kept; and Postgres has one thread, which is the one that drops it.
unsafe impl Send for Comparison {}

impl std::fmt::Debug for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparison")
            .field("collation", &self.collation)
            .field("layout", &self.layout)
            .finish()
    }
}

/// A value in the server's form, aligned for any type.
#[derive(Default)]
struct Place(Vec<u64>);

impl Place {
    /// The value with these bytes, without a header; valid until the place is changed.
    fn put(&mut self, bytes: &[u8], layout: Layout) -> pg_sys::Datum {
        let header = match layout {
            Layout::Word => {
                let word = bytes.first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes));
                return pg_sys::Datum::from(word as usize);
            }
            Layout::Varlena => pg_sys::VARHDRSZ,
            Layout::Fixed(_) | Layout::CString => 0,
        };
        // One byte more: a string is closed by a zero.
        let (size, least) = (header + bytes.len(), if let Layout::Fixed(len) = layout { len } else { 0 });
        self.0.clear();
        self.0.resize((size + 1).max(least).div_ceil(8), 0);
        let place = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: as many bytes were allocated, with the alignment of the header.
        unsafe {
            if header > 0 {
                pgrx::varlena::set_varsize_4b(place.cast(), size as i32);
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.add(header), bytes.len());
        }
        pg_sys::Datum::from(place)
    }
}

impl Comparison {
    /// The comparison by `function` of values that are passed as `layout` says.
    ///
    /// # Safety
    /// The function takes two such values and returns a 32-bit integer.
    pub(super) unsafe fn new(function: pg_sys::Oid, collation: pg_sys::Oid, layout: Layout) -> Comparison {
        // SAFETY: the server fills the structure; the context lives until it is deleted in `drop`.
        unsafe {
            let context = pg_sys::AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"treedb_btree comparison".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            );
            let comparison = Comparison {
                function: Box::default(),
                collation,
                layout,
                context,
                places: RefCell::default(),
            };
            pg_sys::fmgr_info_cxt(function, comparison.function.get(), context);
            comparison
        }
    }

    /// The order of two values, given as their bytes without a header.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let mut own = Default::default();
        let mut kept = self.places.try_borrow_mut();
        // The function itself may lead here again.
        let [a_place, b_place]: &mut [Place; 2] = match &mut kept {
            Ok(places) => &mut *places,
            Err(_) => &mut own,
        };
        let (a, b) = (a_place.put(a, self.layout), b_place.put(b, self.layout));
        // SAFETY: a function of two such values, as the caller of `new` says; they stay in their places meanwhile.
        let order = unsafe { pg_sys::FunctionCall2Coll(self.function.get(), self.collation, a, b) };
        (order.value() as i32).cmp(&0)
    }
}

impl Drop for Comparison {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and used by nobody else. Deleting a context raises no error.
        unsafe { pg_sys::MemoryContextDelete(self.context) }
    }
}

/// A type that values of an index's column are compared with and that is not the column's own.
#[derive(Clone, Copy)]
pub(crate) struct OtherType {
    /// The type of the column's operator class.
    pub(crate) own: pg_sys::Oid,
    pub(crate) other: pg_sys::Oid,
    /// Compares a value of the first with one of the second type, if the operator family has such a function.
    function: Option<pg_sys::Oid>,
    collation: pg_sys::Oid,
    /// How values of the two types are passed.
    layouts: (Layout, Layout),
}

impl OtherType {
    /// # Safety
    /// `function` takes a value of type `own` and one of type `other` and returns a 32-bit integer.
    pub(super) unsafe fn new(
        own: pg_sys::Oid,
        other: pg_sys::Oid,
        function: Option<pg_sys::Oid>,
        collation: pg_sys::Oid,
    ) -> OtherType {
        OtherType { own, other, function, collation, layouts: (Layout::of_type(own), Layout::of_type(other)) }
    }

    /// How values of the other type are passed.
    pub(super) fn layout(self) -> Layout {
        self.layouts.1
    }

    /// Whether the operator family has a comparison function for the two types.
    pub(crate) fn is_comparable(self) -> bool {
        self.function.is_some()
    }

    /// The order of a value of the column's type, which is passed in the word, and one of the other type; `None` if
    /// there is no function for that, or if the type is passed otherwise.
    pub(crate) fn compare(self, own: usize, argument: Datum<'_>) -> Option<Ordering> {
        if self.layouts != (Layout::Word, argument.layout()) {
            return None;
        }
        // SAFETY: the function's types, as the caller of `new` says.
        let order = unsafe {
            pg_sys::OidFunctionCall2Coll(
                self.function?,
                self.collation,
                pg_sys::Datum::from(own),
                argument.raw(),
            )
        };
        Some((order.value() as i32).cmp(&0))
    }
}
