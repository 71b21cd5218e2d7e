//! Settings that users can change, and what happens when the library is loaded.

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use pgrx::pg_sys;

use super::release::may_release;

/// A setting of the session, which the server knows once it is defined.
pub(crate) struct Setting<V> {
    about: About,
    value: V,
}

/// What the server wants to know of any setting.
pub(crate) struct About {
    name: &'static CStr,
    description: &'static CStr,
    /// Who may change it.
    context: pg_sys::GucContext::Type,
    /// The unit that it is shown and given in, and whether lists of settings have it.
    flags: u32,
}

impl About {
    /// One that any user may change.
    const fn of_users(name: &'static CStr, description: &'static CStr, flags: u32) -> About {
        About { name, description, context: pg_sys::GucContext::PGC_USERSET, flags }
    }

    /// What the functions of the server take first: a name, a short description, and a long one, of which there is none.
    fn texts(&self) -> (*const c_char, *const c_char, *const c_char) {
        (self.name.as_ptr(), self.description.as_ptr(), std::ptr::null())
    }
}

/// In no list of settings.
const HIDDEN: u32 = pg_sys::GUC_NO_SHOW_ALL | pg_sys::GUC_NOT_IN_SAMPLE;

/// The value of a setting, with its default.
pub(crate) trait Value {
    /// Calls the server's function that defines settings of this type.
    ///
    /// # Safety
    /// The value lives as long as the library, which is never unloaded.
    unsafe fn define(&'static self, about: &About);
}

impl<V: Value> Setting<V> {
    /// Makes it known to the server.
    pub(crate) fn define(&'static self) {
        // SAFETY: a static.
        unsafe { self.value.define(&self.about) }
    }
}

/// A setting that is on or off.
pub(crate) type Switch = Setting<OnOff>;

pub(crate) struct OnOff {
    default: bool,
    present: AtomicBool,
}

impl Value for OnOff {
    unsafe fn define(&'static self, about: &About) {
        let (name, description, none) = about.texts();
        // SAFETY: the strings and the value live as long as the library. The server writes the value from this thread alone, and an atomic
        // boolean is stored as a boolean.
        unsafe {
            let present = self.present.as_ptr();
            let default = self.default;
            pg_sys::DefineCustomBoolVariable(
                name,
                description,
                none,
                present,
                default,
                about.context,
                about.flags as i32,
                None,
                None,
                None,
            );
        }
    }
}

impl Switch {
    pub(crate) const fn new(name: &'static CStr, description: &'static CStr, default: bool) -> Switch {
        let value = OnOff { default, present: AtomicBool::new(default) };
        Setting { about: About::of_users(name, description, 0), value }
    }

    /// Whether it is on.
    pub(crate) fn is_on(&self) -> bool {
        self.value.present.load(Ordering::Relaxed)
    }
}

/// A setting that is a number.
pub(crate) type Number = Setting<Whole>;

pub(crate) struct Whole {
    default: i32,
    least: i32,
    greatest: i32,
    present: AtomicI32,
}

impl Value for Whole {
    unsafe fn define(&'static self, about: &About) {
        let (name, description, none) = about.texts();
        // SAFETY: as for a switch; an atomic number is stored as a number.
        unsafe {
            let Whole { default, least, greatest, present } = self;
            let present = present.as_ptr();
            pg_sys::DefineCustomIntVariable(
                name,
                description,
                none,
                present,
                *default,
                *least,
                *greatest,
                about.context,
                about.flags as i32,
                None,
                None,
                None,
            );
        }
    }
}

impl Number {
    /// A setting from 1 to `greatest`.
    pub(crate) const fn new(
        name: &'static CStr,
        description: &'static CStr,
        default: i32,
        greatest: i32,
    ) -> Number {
        let value = Whole { default, least: 1, greatest, present: AtomicI32::new(default) };
        Setting { about: About::of_users(name, description, 0), value }
    }

    /// A setting that is an amount of memory, in kilobytes, from 64 to what the server allows its own ones: more where a word
    /// has 64 bits.
    pub(crate) const fn memory(name: &'static CStr, description: &'static CStr, default: i32) -> Number {
        let greatest = if usize::BITS > 32 { i32::MAX } else { i32::MAX / 1024 };
        let value = Whole { default, least: 64, greatest, present: AtomicI32::new(default) };
        Setting { about: About::of_users(name, description, pg_sys::GUC_UNIT_KB), value }
    }

    /// Its value.
    pub(crate) fn get(&self) -> usize {
        usize::try_from(self.value.present.load(Ordering::Relaxed)).unwrap_or(1)
    }
}

/// A setting that is a string.
pub(crate) type Text = Setting<Characters>;

pub(crate) struct Characters {
    default: &'static CStr,
    present: AtomicPtr<c_char>,
}

impl Value for Characters {
    unsafe fn define(&'static self, about: &About) {
        let (name, description, none) = about.texts();
        // SAFETY: as for a switch; an atomic pointer is stored as a pointer.
        unsafe {
            let (present, default) = (self.present.as_ptr(), self.default.as_ptr());
            pg_sys::DefineCustomStringVariable(
                name,
                description,
                none,
                present,
                default,
                about.context,
                about.flags as i32,
                None,
                None,
                None,
            );
        }
    }
}

impl Text {
    pub(crate) const fn new(name: &'static CStr, description: &'static CStr, default: &'static CStr) -> Text {
        let value = Characters { default, present: AtomicPtr::new(std::ptr::null_mut()) };
        Setting { about: About::of_users(name, description, 0), value }
    }

    /// One that is empty at first and in no list of settings.
    pub(super) const fn hidden(name: &'static CStr, description: &'static CStr) -> Text {
        let value = Characters { default: c"", present: AtomicPtr::new(std::ptr::null_mut()) };
        Setting { about: About::of_users(name, description, HIDDEN), value }
    }

    /// The same, which only superusers may change, and whom they let.
    pub(super) const fn of_superusers(name: &'static CStr, description: &'static CStr) -> Text {
        let hidden = Text::hidden(name, description);
        Setting {
            about: About { context: pg_sys::GucContext::PGC_SUSET, ..hidden.about },
            value: hidden.value,
        }
    }

    /// Whether it has this value.
    pub(super) fn is(&self, wanted: &str) -> bool {
        let value = self.value.present.load(Ordering::Relaxed);
        // SAFETY: null, or a string of the server's, which stays until the setting is changed.
        unsafe { !value.is_null() && CStr::from_ptr(value).to_bytes() == wanted.as_bytes() }
    }

    /// Its value.
    pub(crate) fn get(&self) -> CString {
        let value = self.value.present.load(Ordering::Relaxed);
        // SAFETY: null, or a string of the server's, which stays until the setting is changed.
        unsafe {
            let default = || self.value.default.to_owned();
            value.as_ref().map_or_else(default, |value| CStr::from_ptr(value).to_owned())
        }
    }
}

/// A number of things that this backend has done, for tests of how much it does: a setting that nobody can set, in no list. Development
/// builds only.
pub(crate) struct Counter(Number);

impl Counter {
    pub(crate) const fn new(name: &'static CStr, description: &'static CStr) -> Counter {
        let value = Whole { default: 0, least: 0, greatest: i32::MAX, present: AtomicI32::new(0) };
        let context = pg_sys::GucContext::PGC_INTERNAL;
        Counter(Setting { about: About { name, description, context, flags: HIDDEN }, value })
    }

    /// Makes it known to the server.
    pub(crate) fn define(&'static self) {
        if cfg!(debug_assertions) {
            self.0.define();
        }
    }

    /// Counts one more.
    pub(crate) fn add(&self) {
        if cfg!(debug_assertions) {
            let present = &self.0.value.present;
            let next = present.load(Ordering::Relaxed).checked_add(1).unwrap_or(0);
            present.store(next, Ordering::Relaxed);
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
