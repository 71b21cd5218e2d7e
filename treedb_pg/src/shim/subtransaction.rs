//! Subtransactions: what can fail and be undone while the transaction goes on, as in a block of PL/pgSQL with EXCEPTION.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::{PgTryBuilder, pg_sys};
use treedb_query::QueryError;

use super::error::{SqlState, engine_error};

/// How work in a subtransaction failed.
enum Failure<E> {
    /// An error that was returned.
    Returned(E),
    /// An SQL error.
    Raised(Box<CaughtError>),
}

/// Runs `work` in a subtransaction. If it fails, everything that it did to the database is undone.
fn contained<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Failure<E>> {
    // SAFETY: globals of this backend; the server opens a subtransaction, which is closed below whatever happens in it.
    let (memory, owner) = unsafe {
        let saved = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(saved.0);
        saved
    };
    let result = PgTryBuilder::new(AssertUnwindSafe(|| work().map_err(Failure::Returned)))
        .catch_others(|error| Err(Failure::Raised(Box::new(error))))
        .execute();
    // SAFETY: the subtransaction begun above; memory and owner were current before it.
    unsafe {
        match &result {
            Ok(_) => pg_sys::ReleaseCurrentSubTransaction(),
            Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(memory);
        pg_sys::CurrentResourceOwner = owner;
    }
    result
}

/// Runs `work` in a subtransaction, which is undone if it returns an error. SQL errors go on.
pub(crate) fn undone_if_refused<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    contained(work).map_err(|failure| match failure {
        Failure::Returned(error) => error,
        Failure::Raised(error) => error.rethrow(),
    })
}

/// Runs `work` in a subtransaction. If it fails, everything that it did to the database is undone, and the error is
/// returned, an SQL error as the engine's that says the same. Errors after which a statement should not go on are raised
/// again: a cancelled statement, a read-only transaction, a lack of resources, a transaction that must be repeated, damage, a bug.
pub(crate) fn attempt<T>(work: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    contained(work).map_err(|failure| {
        let error = match failure {
            Failure::Returned(error) => return error,
            Failure::Raised(error) => error,
        };
        let known = match &*error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => Some(report),
            CaughtError::RustPanic { .. } => None,
        };
        let known = known
            .filter(|report| is_tolerable(report))
            .map(|report| engine_error(report.sql_error_code(), report.message(), report.detail()));
        known.unwrap_or_else(|| error.rethrow())
    })
}

/// Whether a statement may go on after an error, once its effects are undone.
fn is_tolerable(report: &ErrorReportWithLevel) -> bool {
    let state = report.sql_error_code() as i32;
    // Each character takes six bits, the first the lowest.
    let class = [0, 6].map(|shift| (state >> shift & 0x3f) as u8 + b'0');
    let repeat = report.sql_error_code() == SqlState::ERRCODE_LOCK_NOT_AVAILABLE;
    !repeat && !matches!(&class, b"25" | b"40" | b"53" | b"57" | b"58" | b"72" | b"F0" | b"XX")
}
