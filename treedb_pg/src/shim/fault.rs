//! Faults on demand, so that tests can end a change in the middle. Development builds only.
//!
//! `SET treedb.fault = 'leaf_split'` raises an error at the point of that name. `SET treedb.crash = 'leaf_split'` kills the
//! backend there, with what it has logged on disk: the server then ends all sessions and recovers. Every point lies
//! behind a change that has been logged, so that recovery stops between that change and the next.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::error::{SqlState, fail};

/// Raises an error if the setting `treedb.fault` names this point; dies if `treedb.crash` does.
pub(crate) fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    if is_wanted(c"treedb.crash", name) {
        die();
    }
    if is_wanted(c"treedb.fault", name) {
        fail(SqlState::ERRCODE_INTERNAL_ERROR, format!("fault asked for at {name}"), "RESET treedb.fault.");
    }
}

/// Whether a setting, which nobody declares, names this point.
fn is_wanted(setting: &CStr, name: &str) -> bool {
    // SAFETY: a null-terminated name; the server returns a string of its own, or null where nobody set it.
    let wanted = unsafe {
        let value = pg_sys::GetConfigOption(setting.as_ptr(), true, false);
        value.as_ref().map(|text| CStr::from_ptr(text))
    };
    wanted.is_some_and(|wanted| wanted.to_bytes() == name.as_bytes())
}

/// Ends the process as `kill -9` does. What a backend has logged since the last flush is in memory that ends with it.
fn die() {
    // SAFETY: the end of the last record that this backend has written, or zero; a signal to this process.
    unsafe {
        pg_sys::XLogFlush(pg_sys::XactLastRecEnd);
        libc::kill(libc::getpid(), libc::SIGKILL);
    }
}
