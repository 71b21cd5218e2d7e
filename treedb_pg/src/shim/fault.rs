//! Faults on demand, so that tests can end a change in the middle. Development builds only.
//!
//! `SET treedb.fault = 'leaf_split'` raises an error at the point of that name. `SET treedb.crash = 'leaf_split'` kills the
//! backend there, with what it has logged on disk: the server then ends all sessions and recovers. Most points lie
//! behind a change that has been logged, so that recovery stops between that change and the next; `marked_removed` and
//! `versions_removed` lie between the choice of the dead entries of a full leaf and the record that removes them, and before
//! it there is only the record for standbys that their rows are gone. With `library_sort_keys` no error is raised: sort keys of
//! the C library are taken for wrong ones.

use pgrx::pg_sys;

use super::error::{SqlState, fail};
use super::setting::Text;

static FAULT: Text =
    Text::hidden(c"treedb.fault", c"Raises an error at a point of the library's code, for tests of it.");

static CRASH: Text =
    Text::hidden(c"treedb.crash", c"Kills the backend at a point of the library's code, for tests of it.");

/// Makes the settings known to the server.
pub(crate) fn define() {
    if cfg!(debug_assertions) {
        FAULT.define();
        CRASH.define();
    }
}

/// Raises an error if the setting `treedb.fault` names this point; dies if `treedb.crash` does.
pub(crate) fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    if CRASH.is(name) {
        die();
    }
    if is_asked_for(name) {
        fail(SqlState::ERRCODE_INTERNAL_ERROR, format!("fault asked for at {name}"), "RESET treedb.fault.");
    }
}

/// Whether the setting `treedb.fault` names this fault.
pub(super) fn is_asked_for(name: &str) -> bool {
    cfg!(debug_assertions) && FAULT.is(name)
}

/// Ends the process as `kill -9` does. What a backend has logged since the last flush is in memory that ends with it.
fn die() {
    // SAFETY: the end of the last record that this backend has written, or zero; a signal to this process.
    unsafe {
        pg_sys::XLogFlush(pg_sys::XactLastRecEnd);
        libc::kill(libc::getpid(), libc::SIGKILL);
    }
}
