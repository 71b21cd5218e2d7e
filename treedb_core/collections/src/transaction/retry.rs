//! Retrying transactions after conflicts.

use crate::database::Database;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::backoff;

use super::Transaction;

impl Database {
    /// Runs `work` in a transaction and commits it. After a `WriteConflict` it is retried on a newer snapshot, up to `attempts`
    /// times in all, with pauses that grow to some milliseconds, and not before the other transaction has ended (or a second has passed). Side effects of `work` outside of the transaction must be safe
    /// to repeat.
    ///
    /// # Errors
    /// The last `WriteConflict` if there are no attempts left; any other error of `work` or of the commit immediately;
    /// `BadValue` if `attempts` is 0.
    pub fn transact<T>(
        &self,
        attempts: u32,
        mut work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut last = QueryError::bad_value("a transaction needs at least one attempt");
        for attempt in 0..attempts {
            if attempt > 0 {
                backoff(attempt - 1);
            }
            let mut txn = self.begin()?;
            let done = work(&mut txn).inspect_err(|_| txn.wait_for_other());
            match done.and_then(|done| txn.commit().map(|()| done)) {
                Err(error) if error.code == ErrorCode::WriteConflict => last = error,
                other => return other,
            }
        }
        Err(last)
    }
}
