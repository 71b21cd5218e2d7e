//! SQL-callable functions: the definition macro, their arguments and their results.
//!
//! [`pg_function`] is the only place where a call of the server becomes a call of safe code. The types of arguments
//! and result that the code names are compared at compile time with the SQL script, see [`super::declared`].

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;

use pgrx::{PgMemoryContexts, pg_sys};

use super::datum::{Bytes, Datum, Layout};
use super::declared::Class;
use super::error::{SqlState, fail};
use super::memory::{CString, Memory, Varlena};
use super::rows::{RecordSet, Set};
use super::text;

/// Defines an SQL-callable function with the exported name `$name`, and the record by which the server knows its
/// calling convention. `$args` is [`Args`], with arguments of the [`Class`]es named; the body returns an [`Output`],
/// whose lifetime `'_` is that of the call.
///
/// `quick = function;` before it names a function of the bytes of two arguments of variable length that gives the result of
/// most calls without the frame that errors need: it calls nothing of the server. Where it panics, the body is what counts.
macro_rules! pg_function {
    ($(#[doc = $doc:literal])* $(quick = $quick:path;)? fn $name:ident($args:ident: [$($class:ident),*]) -> $result:ty $body:block) => {
        const _: () = {
            const CLASSES: &[$crate::shim::declared::Class] = &[$($crate::shim::declared::Class::$class),*];
            const fn agree<T: $crate::shim::function::Output>(_: fn(&'static $crate::shim::function::Args) -> T) {
                $crate::shim::declared::check(stringify!($name), CLASSES, T::CLASS, T::SET);
            }
            const _: () = agree(function);

            $(#[doc = $doc])*
            #[allow(unused_variables)]
            fn function($args: &$crate::shim::function::Args) -> $result $body

            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(info: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
                // SAFETY: called by the server, with arguments of the types that the SQL script declares, which
                // `check` has found to be those of `CLASSES`.
                unsafe {
                    $(
                        if let Some(result) = $crate::shim::function::quick(info, CLASSES, $quick) {
                            return result;
                        }
                    )?
                    $crate::shim::function::call(info, CLASSES, |args| {
                        $crate::shim::function::Output::into_datum(function(args), args)
                    })
                }
            }

            #[allow(unsafe_code)]
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C" fn finfo() -> &'static pgrx::pg_sys::Pg_finfo_record {
                const V1: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &V1
            }
        };
    };
}
pub(crate) use pg_function;

/// The call of a function: errors and panics of `work` become SQL errors.
///
/// # Safety
/// Called by the server as a function whose arguments have these classes.
pub(crate) unsafe fn call(
    info: pg_sys::FunctionCallInfo,
    classes: &'static [Class],
    work: impl FnOnce(&Args) -> Option<pg_sys::Datum>,
) -> pg_sys::Datum {
    // SAFETY: the outermost Rust frame below the server's, which is what the guard is for. `Args` is dropped before
    // the call returns.
    unsafe {
        super::error_frame::guarded(|| match work(&Args { info, classes }) {
            Some(datum) => datum,
            None => {
                (*info).isnull = true;
                pg_sys::Datum::from(0usize)
            }
        })
    }
}

/// The result of a function of the bytes of two arguments; `None` if one of them is NULL or not stored as it is, or if
/// `work` panics.
///
/// # Safety
/// As [`call`]; `work` calls nothing of the server.
pub(crate) unsafe fn quick<R: Output>(
    info: pg_sys::FunctionCallInfo,
    classes: &'static [Class],
    work: fn(&[u8], &[u8]) -> R,
) -> Option<pg_sys::Datum> {
    let args = Args { info, classes };
    let stored = |n| {
        let datum = args.get(n, Class::Varlena)?;
        // SAFETY: declared with such a type; arguments live as long as the call.
        unsafe { Datum::from_raw(datum, Layout::Varlena) }.plain_bytes()
    };
    let result = std::panic::catch_unwind(|| Some(work(stored(0)?, stored(1)?))).ok()??;
    result.into_datum(&args)
}

/// The arguments of one call. Only [`call`] makes one, and lends it for as long as the call lasts.
pub(crate) struct Args {
    info: pg_sys::FunctionCallInfo,
    classes: &'static [Class],
}

impl Args {
    /// The call itself.
    pub(super) fn raw(&self) -> pg_sys::FunctionCallInfo {
        self.info
    }

    /// Argument number `n`, from 0, which must be declared as `class`; `None` for NULL.
    #[inline]
    fn get(&self, n: usize, class: Class) -> Option<pg_sys::Datum> {
        if self.classes.get(n) != Some(&class) {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                format!("a function read argument {n} as {class:?}, which it does not declare"),
                "Report this as a bug of treedb.",
            );
        }
        // SAFETY: the server passes a valid structure with `nargs` arguments after it.
        unsafe {
            let info = &*self.info;
            if n >= info.nargs as usize {
                return None;
            }
            let arg = &*info.args.as_ptr().add(n);
            (!arg.isnull).then_some(arg.value)
        }
    }

    /// Argument number `n`, of a variable-length type; no bytes for NULL, which a strict function is not called with.
    #[inline]
    pub(crate) fn bytes(&self, n: usize) -> Bytes<'_> {
        match self.get(n, Class::Varlena) {
            // SAFETY: declared with such a type; arguments live as long as the call.
            Some(datum) => unsafe { Datum::from_raw(datum, Layout::Varlena) }.bytes(),
            None => Bytes::empty(),
        }
    }

    /// The elements of argument number `n`, an array; `None` for NULLs.
    pub(crate) fn elements(&self, n: usize) -> Vec<Option<Datum<'_>>> {
        match self.get(n, Class::Array) {
            // SAFETY: declared as an array; arguments, and copies of them, live as long as the call.
            Some(datum) => unsafe { Datum::from_raw(datum, Layout::Varlena).elements() },
            None => Vec::new(),
        }
    }

    /// Argument number `n`, a cstring, as UTF-8.
    pub(crate) fn cstring(&self, n: usize) -> Cow<'_, str> {
        let Some(datum) = self.get(n, Class::CString) else { return Cow::Borrowed("") };
        // SAFETY: declared as cstring; arguments live as long as the call.
        let datum = unsafe { Datum::from_raw(datum, Layout::CString) };
        text::to_utf8(datum.cstring().to_bytes())
    }

    /// Argument number `n`, a truth value.
    pub(crate) fn bool(&self, n: usize) -> bool {
        self.get(n, Class::Bool).is_some_and(|datum| datum.value() != 0)
    }

    /// Argument number `n`, an integer of 16 bits.
    pub(crate) fn int2(&self, n: usize) -> i16 {
        self.get(n, Class::Int2).map_or(0, |datum| datum.value() as i16)
    }

    /// Argument number `n`, an integer of 32 bits.
    pub(crate) fn int4(&self, n: usize) -> i32 {
        self.get(n, Class::Int4).map_or(0, |datum| datum.value() as i32)
    }

    /// Argument number `n`, an integer of 64 bits.
    pub(crate) fn int8(&self, n: usize) -> i64 {
        self.get(n, Class::Int8).map_or(0, |datum| datum.value() as i64)
    }

    /// Argument number `n`, the number of an object in the catalog.
    pub(crate) fn oid(&self, n: usize) -> pg_sys::Oid {
        pg_sys::Oid::from(self.get(n, Class::Oid).map_or(0, |datum| datum.value() as u32))
    }

    /// Argument number `n`, a pointer that only the server can pass.
    pub(super) fn internal(&self, n: usize) -> Option<pg_sys::Datum> {
        self.get(n, Class::Internal)
    }

    /// Argument number `n` of a receive function: all bytes that are left of a message.
    pub(crate) fn message(&self, n: usize) -> &[u8] {
        let Some(message) = self.internal(n) else { return &[] };
        // SAFETY: SQL cannot call a function with an argument of type internal; the server calls this one as the
        // receive function of a type, with a buffer whose cursor lies within its length and which outlives the call.
        unsafe {
            let buffer = message.cast_mut_ptr::<pg_sys::StringInfoData>();
            let left = (*buffer).len - (*buffer).cursor;
            let bytes = pg_sys::pq_getmsgbytes(buffer, left);
            std::slice::from_raw_parts(bytes.cast::<u8>(), usize::try_from(left).unwrap_or(0))
        }
    }

    /// Where results are allocated.
    #[inline]
    pub(crate) fn memory(&self) -> Memory<'_> {
        // SAFETY: the server calls functions in a context that lives until their result has been used.
        unsafe { Memory::current() }
    }

    /// Whether it is called by an expression, such as a cast, and not by what prints or copies rows.
    pub(crate) fn are_of_expression(&self) -> bool {
        // SAFETY: the server's description of the call.
        unsafe { (*self.info).flinfo.as_ref().is_some_and(|info| !info.fn_expr.is_null()) }
    }

    /// Calls `with` with what this call site keeps from one call to the next, made by `T::default` at the first. It is
    /// `Send`, so it holds no handle of the server's, which would not outlive the statement.
    pub(crate) fn with_kept<T: Default + Send + 'static, R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        if let Some(place) = self.place()
            && let Ok(mut kept) = place.try_borrow_mut()
        {
            if !kept.is::<T>() {
                *kept = Box::new(T::default());
            }
            if let Some(value) = kept.downcast_mut::<T>() {
                return with(value);
            }
        }
        // There is no place, or this call comes from within `with` of the same call site.
        with(&mut T::default())
    }

    /// Where the call site keeps a value; `None` where the server has no place for one.
    #[inline]
    fn place(&self) -> Option<&RefCell<Box<dyn Any + Send>>> {
        // SAFETY: the server sets `fn_extra` to null before the first call, and only this function sets it, always
        // to a place of this type; the context lives as long as the call site, and drops the value.
        unsafe {
            let info = (*self.info).flinfo.as_mut()?;
            if info.fn_extra.is_null() {
                let empty: RefCell<Box<dyn Any + Send>> = RefCell::new(Box::new(()));
                info.fn_extra = PgMemoryContexts::For(info.fn_mcxt).leak_and_drop_on_delete(empty).cast();
            }
            Some(&*info.fn_extra.cast())
        }
    }
}

/// What a function may return.
pub(crate) trait Output {
    /// How the SQL script declares it.
    const CLASS: Class;
    /// Whether it is a set.
    const SET: bool = false;

    /// The result of the call; `None` for NULL.
    fn into_datum(self, args: &Args) -> Option<pg_sys::Datum>;
}

/// Results that are passed as they are.
macro_rules! output {
    ($($type:ty = $class:ident, $value:ident => $datum:expr;)*) => {
        $(impl Output for $type {
            const CLASS: Class = Class::$class;

            fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
                let $value = self;
                Some($datum)
            }
        })*
    };
}

output! {
    bool = Bool, value => pg_sys::Datum::from(value);
    i32 = Int4, value => pg_sys::Datum::from(value);
    i64 = Int8, value => pg_sys::Datum::from(value);
    f64 = Float8, value => pg_sys::Datum::from(value.to_bits());
    pg_sys::Oid = Oid, value => pg_sys::Datum::from(value);
    () = Void, _value => pg_sys::Datum::from(0usize);
    Varlena<'_> = Varlena, value => value.raw();
    CString<'_> = CString, value => value.raw();
}

impl Output for Set {
    const CLASS: Class = Class::Varlena;
    const SET: bool = true;

    fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
        None
    }
}

impl Output for RecordSet {
    const CLASS: Class = Class::Record;
    const SET: bool = true;

    fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
        None
    }
}

impl<T: Output> Output for Option<T> {
    const CLASS: Class = T::CLASS;

    fn into_datum(self, args: &Args) -> Option<pg_sys::Datum> {
        self.and_then(|value| value.into_datum(args))
    }
}
