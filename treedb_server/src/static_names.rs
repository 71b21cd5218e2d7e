//! Names of hosts in an executable that is linked statically with glibc (`scripts/static.sh`).
//!
//! The library would look names up by the modules that `/etc/nsswitch.conf` names, which are shared libraries: loading them needs those of
//! the very version that the executable was linked with, and brings others into the process. So names are looked up by what is part of the
//! library: `/etc/hosts`, then DNS.

use std::ffi::{c_char, c_int};

unsafe extern "C" {
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Looks names up without shared libraries. To be called before there are threads.
pub(crate) fn look_up_without_modules() {
    // SAFETY: both arguments are strings that end with a NUL and live as long as the process; nothing else runs yet.
    let refused = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    // Names are then looked up as the system says, which works where its libraries fit.
    debug_assert_eq!(refused, 0);
}
