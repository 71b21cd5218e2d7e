//! SQL-callable functions: the definition macro and access to their arguments.

use pgrx::{PgMemoryContexts, pg_sys};

use super::varlena::Bytes;

/// Defines an SQL-callable function with the exported name `$name`, and the record by which the server knows its
/// calling convention. The body gets [`Args`] and returns [`pg_sys::Datum`].
macro_rules! pg_function {
    ($(#[doc = $doc:literal])* fn $name:ident($args:ident) $body:block) => {
        $(#[doc = $doc])*
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(fcinfo: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
            #[allow(unused_variables)]
            let $args = $crate::shim::function::Args::new(fcinfo);
            $body
        }
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C" fn finfo() -> &'static pgrx::pg_sys::Pg_finfo_record {
                const V1: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &V1
            }
        };
    };
}
pub(crate) use pg_function;

/// The arguments of one call.
pub(crate) struct Args(pg_sys::FunctionCallInfo);

impl Args {
    /// Wraps what the server passed.
    pub(crate) fn new(fcinfo: pg_sys::FunctionCallInfo) -> Self {
        Args(fcinfo)
    }

    /// The call itself.
    pub(crate) fn raw(&self) -> pg_sys::FunctionCallInfo {
        self.0
    }

    /// Argument number `n`, from 0; `None` for NULL or an argument that was not passed.
    pub(crate) fn get(&self, n: usize) -> Option<pg_sys::Datum> {
        // SAFETY: the server passes a valid structure with `nargs` arguments behind it.
        unsafe {
            let info = &*self.0;
            if n >= info.nargs as usize {
                return None;
            }
            let arg = &*info.args.as_ptr().add(n);
            (!arg.isnull).then_some(arg.value)
        }
    }

    /// Argument number `n` of a strict function, where NULL cannot be.
    pub(crate) fn datum(&self, n: usize) -> pg_sys::Datum {
        self.get(n).unwrap_or(pg_sys::Datum::from(0usize))
    }

    /// Argument number `n` of a strict function, of a variable-length type.
    pub(crate) fn bytes(&self, n: usize) -> Bytes {
        match self.get(n) {
            Some(datum) => Bytes::of(datum),
            None => Bytes::empty(),
        }
    }

    /// What this call site keeps from one call to the next, made by `T::default` at the first; `None` where the
    /// server has no place for it.
    // The place is the server's and no part of `self`; a call site asks for it once in a call.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn kept<T: Default + 'static>(&self) -> Option<&mut T> {
        // SAFETY: the server sets `fn_extra` to null before the first call, and nobody but this call site, which
        // always asks for the same `T`, sets it; the context outlives the call site, and drops the value.
        unsafe {
            let info = (*self.0).flinfo.as_mut()?;
            if info.fn_extra.is_null() {
                let place = PgMemoryContexts::For(info.fn_mcxt).leak_and_drop_on_delete(T::default());
                info.fn_extra = place.cast();
            }
            info.fn_extra.cast::<T>().as_mut()
        }
    }

    /// Makes the call's result NULL.
    pub(crate) fn null(&self) -> pg_sys::Datum {
        // SAFETY: see `get`.
        unsafe { (*self.0).isnull = true };
        pg_sys::Datum::from(0usize)
    }

    /// The collation to compare with.
    #[allow(dead_code)]
    pub(crate) fn collation(&self) -> pg_sys::Oid {
        // SAFETY: see `get`.
        unsafe { (*self.0).fncollation }
    }
}
