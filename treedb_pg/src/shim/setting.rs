//! Settings that users can change, and what happens when the library is loaded.

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use pgrx::pg_sys;

use super::release::may_release;

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

/// A setting that is a number.
pub(crate) struct Number {
    name: &'static CStr,
    description: &'static CStr,
    default: i32,
    least: i32,
    greatest: i32,
    /// The server's flag of the unit that it is shown and given in.
    unit: u32,
    value: AtomicI32,
}

impl Number {
    /// A setting of that name from 1 to `greatest`, which is known to the server once it is defined.
    pub(crate) const fn new(
        name: &'static CStr,
        description: &'static CStr,
        default: i32,
        greatest: i32,
    ) -> Number {
        Number { name, description, default, least: 1, greatest, unit: 0, value: AtomicI32::new(default) }
    }

    /// A setting that is an amount of memory, in kilobytes, from 64 to what the server allows its own ones: more where a word
    /// has 64 bits.
    pub(crate) const fn memory(name: &'static CStr, description: &'static CStr, default: i32) -> Number {
        Number {
            name,
            description,
            default,
            least: 64,
            greatest: if usize::BITS > 32 { i32::MAX } else { i32::MAX / 1024 },
            unit: pg_sys::GUC_UNIT_KB,
            value: AtomicI32::new(default),
        }
    }

    /// Makes it known to the server, as a setting of the session that any user may change.
    pub(crate) fn define(&'static self) {
        // SAFETY: as for a switch; an atomic number is stored as a number.
        unsafe {
            pg_sys::DefineCustomIntVariable(
                self.name.as_ptr(),
                self.description.as_ptr(),
                std::ptr::null(),
                self.value.as_ptr(),
                self.default,
                self.least,
                self.greatest,
                pg_sys::GucContext::PGC_USERSET,
                self.unit as i32,
                None,
                None,
                None,
            )
        }
    }

    /// Its value.
    pub(crate) fn get(&self) -> usize {
        usize::try_from(self.value.load(Ordering::Relaxed)).unwrap_or(1)
    }
}

/// A setting that is a string.
pub(crate) struct Text {
    name: &'static CStr,
    description: &'static CStr,
    default: &'static CStr,
    /// Flags of the server's.
    flags: u32,
    value: AtomicPtr<c_char>,
}

impl Text {
    /// A setting of that name, which is known to the server once it is defined.
    pub(crate) const fn new(name: &'static CStr, description: &'static CStr, default: &'static CStr) -> Text {
        Text { name, description, default, flags: 0, value: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The same of one that is empty at first and in no list of settings.
    pub(super) const fn hidden(name: &'static CStr, description: &'static CStr) -> Text {
        Text {
            flags: pg_sys::GUC_NO_SHOW_ALL | pg_sys::GUC_NOT_IN_SAMPLE,
            ..Text::new(name, description, c"")
        }
    }

    /// Makes it known to the server, as a setting of the session that any user may change.
    pub(crate) fn define(&'static self) {
        // SAFETY: as for a switch; an atomic pointer is stored as a pointer.
        unsafe {
            pg_sys::DefineCustomStringVariable(
                self.name.as_ptr(),
                self.description.as_ptr(),
                std::ptr::null(),
                self.value.as_ptr(),
                self.default.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                self.flags as i32,
                None,
                None,
                None,
            )
        }
    }

    /// Whether it has this value.
    pub(super) fn is(&self, wanted: &str) -> bool {
        let value = self.value.load(Ordering::Relaxed);
        // SAFETY: null, or a string of the server's, which stays until the setting is changed.
        unsafe { !value.is_null() && CStr::from_ptr(value).to_bytes() == wanted.as_bytes() }
    }

    /// Its value.
    pub(crate) fn get(&self) -> CString {
        let value = self.value.load(Ordering::Relaxed);
        // SAFETY: null, or a string of the server's, which stays until the setting is changed.
        unsafe {
            value.as_ref().map_or_else(|| self.default.to_owned(), |value| CStr::from_ptr(value).to_owned())
        }
    }
}

/// A number of things that this backend has done, for tests of how much it does: a setting that nobody can set. Development builds only.
pub(crate) struct Counter {
    name: &'static CStr,
    description: &'static CStr,
    value: AtomicI32,
}

impl Counter {
    /// A counter of that name, which is known to the server once it is defined.
    pub(crate) const fn new(name: &'static CStr, description: &'static CStr) -> Counter {
        Counter { name, description, value: AtomicI32::new(0) }
    }

    /// Makes it known to the server, in no list of settings.
    pub(crate) fn define(&'static self) {
        if !cfg!(debug_assertions) {
            return;
        }
        // SAFETY: as for a number; the server never writes it.
        unsafe {
            pg_sys::DefineCustomIntVariable(
                self.name.as_ptr(),
                self.description.as_ptr(),
                std::ptr::null(),
                self.value.as_ptr(),
                0,
                0,
                i32::MAX,
                pg_sys::GucContext::PGC_INTERNAL,
                (pg_sys::GUC_NO_SHOW_ALL | pg_sys::GUC_NOT_IN_SAMPLE) as i32,
                None,
                None,
                None,
            )
        }
    }

    /// Counts one more.
    pub(crate) fn add(&self) {
        if cfg!(debug_assertions) {
            let next = self.value.load(Ordering::Relaxed).checked_add(1).unwrap_or(0);
            self.value.store(next, Ordering::Relaxed);
        }
    }
}

/// Refuses all settings called `treedb.*` but those that have been defined, and forgets those that were given before.
pub(crate) fn refuse_others() {
    // SAFETY: the server copies the name.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"treedb".as_ptr()) }
}

/// Whether a setting of the server may have a value.
pub(super) fn takes(name: &CStr, value: &CStr) -> bool {
    // SAFETY: a question, of which the answer is 0 if it may not: nothing is set, and what is wrong is told to nobody.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SET,
            false,
            pg_sys::DEBUG5 as i32,
            false,
        ) != 0
    }
}

/// Settings that have other values for as long as this lives, as those of a function with a clause SET.
pub(crate) struct LocalSettings {
    level: i32,
}

impl LocalSettings {
    /// Sets them: names and values.
    pub(crate) fn set(settings: &[(&CStr, &CStr)]) -> LocalSettings {
        // SAFETY: the server copies the strings. After an error the transaction that is rolled back ends the level.
        unsafe {
            let level = pg_sys::NewGUCNestLevel();
            for (name, value) in settings {
                pg_sys::set_config_option(
                    name.as_ptr(),
                    value.as_ptr(),
                    pg_sys::GucContext::PGC_USERSET,
                    pg_sys::GucSource::PGC_S_SESSION,
                    pg_sys::GucAction::GUC_ACTION_SAVE,
                    true,
                    0,
                    false,
                );
            }
            LocalSettings { level }
        }
    }
}

impl Drop for LocalSettings {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: the level that was begun here, and that of every later one has ended.
            unsafe { pg_sys::AtEOXact_GUC(true, self.level) }
        }
    }
}

/// Defines what the server calls when it loads the library into a backend.
macro_rules! on_load {
    ($function:path) => {
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn _PG_init() {
            // SAFETY: the outermost Rust frame below the server's, which is what the guard is for.
            unsafe {
                $crate::shim::error_frame::guarded(|| {
                    $crate::shim::allocator::keep_blocks();
                    $function();
                })
            }
        }
    };
}
pub(crate) use on_load;
