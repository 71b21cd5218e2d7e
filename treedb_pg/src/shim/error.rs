//! SQL errors: a SQLSTATE, a message that names the thing, a hint that says what to do.

pub(crate) use pgrx::PgSqlErrorCode as SqlState;
use pgrx::pg_sys::panic::ErrorReport;

/// Aborts the statement. Unwinds, so destructors on the way run.
#[track_caller]
pub(crate) fn fail(state: SqlState, message: impl Into<String>, hint: impl Into<String>) -> ! {
    let hint = hint.into();
    let mut report = ErrorReport::new(state, message.into(), "treedb");
    if !hint.is_empty() {
        report = report.set_hint(hint);
    }
    report.report(pgrx::PgLogLevel::ERROR);
    unreachable!("an error report at level ERROR does not return")
}

/// Bytes of a relation are not what was written there.
#[track_caller]
pub(crate) fn corrupted(relation: &str, block: u32, what: impl std::fmt::Display) -> ! {
    fail(
        SqlState::ERRCODE_INDEX_CORRUPTED,
        format!("index \"{relation}\" is damaged at block {block}: {what}"),
        "REINDEX the index; if it was restored from a backup or the disk is failing, check the table too.",
    )
}
