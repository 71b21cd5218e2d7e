//! Memory contexts: where values that are returned to the server are allocated.

use std::ffi::CStr;
use std::marker::PhantomData;

use pgrx::pg_sys;

use super::release::may_release;
use super::{text, unguarded};

/// A memory context that is neither reset nor deleted for as long as `'m`.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'m> {
    context: pg_sys::MemoryContext,
    lifetime: PhantomData<&'m ()>,
}

impl<'m> Memory<'m> {
    /// The context that is current now.
    ///
    /// # Safety
    /// It is neither reset nor deleted for as long as `'m`: the server keeps the context that it calls a function
    /// in until the call has returned and its result has been used.
    pub(super) unsafe fn current() -> Memory<'m> {
        // SAFETY: a global of this backend, which has one thread.
        Memory { context: unsafe { pg_sys::CurrentMemoryContext }, lifetime: PhantomData }
    }

    /// A context of the server's.
    ///
    /// # Safety
    /// It is neither reset nor deleted for as long as `'m`.
    pub(super) unsafe fn of(context: pg_sys::MemoryContext) -> Memory<'m> {
        Memory { context, lifetime: PhantomData }
    }

    /// Allocates `size` bytes, aligned for anything.
    fn allocate(self, size: usize) -> *mut u8 {
        // SAFETY: a live context; the server returns that many bytes or raises an error.
        unsafe { unguarded::guard(|| unguarded::MemoryContextAlloc(self.context, size)).cast() }
    }

    /// A new value of variable length.
    pub(crate) fn varlena(self, bytes: &[u8]) -> Varlena<'m> {
        let size = bytes.len() + pg_sys::VARHDRSZ;
        let value = self.allocate(size);
        // SAFETY: as many bytes were allocated; the header of four bytes says the whole length, which is below the
        // server's limit of one gigabyte for an allocation.
        unsafe {
            pgrx::varlena::set_varsize_4b(value.cast(), size as i32);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.add(pg_sys::VARHDRSZ), bytes.len());
        }
        Varlena { value, memory: PhantomData }
    }

    /// A new text, in the encoding of the database.
    pub(crate) fn text(self, text: &str) -> Varlena<'m> {
        self.varlena(&text::from_utf8(text))
    }

    /// A new string closed by a zero byte, in the encoding of the database.
    pub(crate) fn cstring(self, text: &str) -> CString<'m> {
        let bytes = text::from_utf8(text);
        let value = self.allocate(bytes.len() + 1);
        // SAFETY: as many bytes were allocated.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value, bytes.len());
            *value.add(bytes.len()) = 0;
        }
        CString { value, memory: PhantomData }
    }
}

/// A value of variable length in a [`Memory`].
pub(crate) struct Varlena<'m> {
    value: *mut u8,
    memory: PhantomData<&'m [u8]>,
}

impl Varlena<'_> {
    /// The server's form.
    pub(super) fn raw(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.value)
    }

    /// Frees the value before its memory goes away.
    pub(super) fn free(self) {
        // SAFETY: allocated by `Memory`, and `self` was the only handle.
        unsafe { pg_sys::pfree(self.value.cast()) }
    }
}

/// A value of variable length in memory of our own, aligned as its header of four bytes is.
pub(super) fn aligned_varlena(bytes: &[u8]) -> Vec<u32> {
    let size = bytes.len() + pg_sys::VARHDRSZ;
    let mut value = vec![0_u32; size.div_ceil(4)];
    // SAFETY: the vector has at least as many bytes, and the alignment of the header.
    unsafe {
        pgrx::varlena::set_varsize_4b(value.as_mut_ptr().cast(), size as i32);
        let place = value.as_mut_ptr().cast::<u8>().add(pg_sys::VARHDRSZ);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
    }
    value
}

/// A string closed by a zero byte in a [`Memory`].
pub(crate) struct CString<'m> {
    value: *mut u8,
    memory: PhantomData<&'m [u8]>,
}

impl CString<'_> {
    /// The server's form.
    pub(super) fn raw(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.value)
    }
}

/// The bytes of words: memory that is aligned as the server's structures are.
pub(super) fn bytes_of_words(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory, which `words` lends for as long; every bit pattern is valid for both.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words)) }
}

/// A memory context of our own, a child of the server's.
pub(super) struct Context(pg_sys::MemoryContext);

impl Context {
    /// A new context.
    pub(super) fn new(name: &'static CStr) -> Context {
        // SAFETY: a global of this backend, alive.
        unsafe { Context::within(name, pg_sys::CurrentMemoryContext) }
    }

    /// The context in `place`, with nothing in it: a new one beside `other` if there is none yet.
    ///
    /// # Safety
    /// As [`Context::reset`].
    pub(super) unsafe fn emptied<'c>(
        place: &'c mut Option<Context>,
        name: &'static CStr,
        other: &Context,
    ) -> &'c Context {
        let context = place.get_or_insert_with(|| Context::beside(name, other));
        // SAFETY: the caller's.
        unsafe { context.reset() };
        context
    }

    /// A new context, a child of the one that `other` is a child of.
    fn beside(name: &'static CStr, other: &Context) -> Context {
        // SAFETY: a context is alive as long as its children.
        unsafe { Context::within(name, (*other.0).parent) }
    }

    /// # Safety
    /// `parent` is alive.
    unsafe fn within(name: &'static CStr, parent: pg_sys::MemoryContext) -> Context {
        // SAFETY: the caller's; the name is kept for as long as the program runs.
        Context(unsafe {
            unguarded::guard(|| {
                unguarded::AllocSetContextCreateInternal(
                    parent,
                    name.as_ptr(),
                    pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                )
            })
        })
    }

    /// Frees everything in it.
    ///
    /// # Safety
    /// Nothing that was allocated in it is used any more.
    pub(super) unsafe fn reset(&self) {
        // SAFETY: alive as long as its parent, and the caller's promise. Where nothing has been allocated since it was made
        // or reset, the server would do nothing either.
        unsafe {
            if !(*self.0).isReset || !(*self.0).firstchild.is_null() {
                pg_sys::MemoryContextReset(self.0);
            }
        }
    }

    /// Calls `work` with this as the current context.
    pub(super) fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Makes the context current that was so before, after an error too.
        struct Back(pg_sys::MemoryContext);
        impl Drop for Back {
            fn drop(&mut self) {
                // SAFETY: a global of this backend, which has one thread; the caller's context outlives the call.
                unsafe { pg_sys::CurrentMemoryContext = self.0 }
            }
        }
        // SAFETY: as above; the context is alive.
        let _back = unsafe {
            let back = Back(pg_sys::CurrentMemoryContext);
            pg_sys::CurrentMemoryContext = self.0;
            back
        };
        work()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: made by us; what is in it is used as long as its owner, which is being dropped.
            unsafe { unguarded::MemoryContextDelete(self.0) }
        }
    }
}
