//! Faults on demand, so that tests can end a change in the middle. Development builds only.
//!
//! `SET treedb.fault = 'leaf_split'` raises an error at the point of that name. `SET treedb.crash = 'leaf_split'` kills the
//! backend there, with what it has logged on disk: the server then ends all sessions and recovers, which only superusers may ask for. `SET treedb.pause = 'hnsw_check'` waits at the
//! point of that name, which is none of the others, as long as a session holds `pg_advisory_lock(0)`. Most points lie
//! behind a change that has been logged, so that recovery stops between that change and the next; `marked_removed` and
//! `versions_removed` lie between the choice of the dead entries of a full leaf and the record that removes them, and before
//! it there is only the record for standbys that their rows are gone. A point that work comes to again and again, at each of its pieces, is
//! that of the first one; `SET treedb.crash = 'hnsw_node_recoded 75'` waits for the piece that ends 75 of a hundred parts of the work. With `library_sort_keys` no error is raised: sort keys of
//! the C library are taken for wrong ones.

use pgrx::{IntoDatum, direct_function_call, pg_sys};

use super::error::{SqlState, fail};
use super::setting::Text;

static FAULT: Text =
    Text::hidden(c"treedb.fault", c"Raises an error at a point of the library's code, for tests of it.");

static CRASH: Text = Text::of_superusers(
    c"treedb.crash",
    c"Kills the backend at a point of the library's code, for tests of it.",
);

static PAUSE: Text =
    Text::hidden(c"treedb.pause", c"Waits at a point of the library's code for a lock, for tests of it.");

/// Makes the settings known to the server.
pub(crate) fn define() {
    if cfg!(debug_assertions) {
        FAULT.define();
        CRASH.define();
        PAUSE.define();
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

/// The same behind one of the pieces of some work, of which so many are `done`: the setting names every piece, or one, by how much of a
/// hundred parts is done then (`NAME 100` is the last).
pub(crate) fn piece(name: &str, done: usize, of: usize) {
    if !cfg!(debug_assertions) {
        return;
    }
    point(name);
    for setting in [&CRASH, &FAULT] {
        let asked_for = setting.get();
        let percent = asked_for.to_str().ok().and_then(|asked| asked.strip_prefix(name)?.trim().parse().ok());
        if percent.is_some_and(|percent: usize| (of * percent).div_ceil(100) == done) {
            point(asked_for.to_str().unwrap_or_default());
        }
    }
}

/// Waits, if the setting `treedb.pause` names this point, until no other session holds the advisory lock 0. No page may be latched.
pub(crate) fn pause(name: &str) {
    if !cfg!(debug_assertions) || !PAUSE.is(name) {
        return;
    }
    let lock = [0_i64.into_datum()];
    // SAFETY: both functions take a number and raise no error but that of a statement that is cancelled.
    unsafe {
        direct_function_call::<()>(pg_sys::pg_advisory_lock_shared_int8, &lock);
        direct_function_call::<bool>(pg_sys::pg_advisory_unlock_shared_int8, &lock);
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
