//! Settings that users can change, and what happens when the library is loaded.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys;

/// A setting that is on or off.
pub(crate) struct Switch {
    name: &'static CStr,
    description: &'static CStr,
    default: bool,
    value: AtomicBool,
}

impl Switch {
    /// A setting of that name, which is known to the server once it is defined.
    pub(crate) const fn new(name: &'static CStr, description: &'static CStr, default: bool) -> Switch {
        Switch { name, description, default, value: AtomicBool::new(default) }
    }

    /// Makes it known to the server, as a setting of the session that any user may change.
    pub(crate) fn define(&'static self) {
        // SAFETY: the strings and the value live as long as the library, which is never unloaded. The server writes
        // the value from this thread alone, and an atomic boolean is stored as a boolean.
        unsafe {
            pg_sys::DefineCustomBoolVariable(
                self.name.as_ptr(),
                self.description.as_ptr(),
                std::ptr::null(),
                self.value.as_ptr(),
                self.default,
                pg_sys::GucContext::PGC_USERSET,
                0,
                None,
                None,
                None,
            )
        }
    }

    /// Whether it is on.
    pub(crate) fn is_on(&self) -> bool {
        self.value.load(Ordering::Relaxed)
    }
}

/// Defines what the server calls when it loads the library into a backend.
macro_rules! on_load {
    ($function:path) => {
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn _PG_init() {
            // SAFETY: the outermost Rust frame below the server's, which is what the guard is for.
            unsafe { pgrx::pg_sys::panic::pgrx_extern_c_guard(|| $function()) }
        }
    };
}
pub(crate) use on_load;
