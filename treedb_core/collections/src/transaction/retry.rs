//! Until it does not conflict.

use crate::database::Database;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::backoff;

use super::Transaction;

impl Database {
    /// Runs `work` in a transaction and commits it; after a `WriteConflict` again, on a newer snapshot, up to `attempts`
    /// times in all, with pauses that grow up to some milliseconds. `work` must do nothing outside that may not be
    /// done twice.
    ///
    /// # Errors
    /// The last `WriteConflict` when there are no attempts left; any other error of `work` or of the commit at once;
    /// `BadValue` for no attempts at all.
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
            match work(&mut txn).and_then(|done| txn.commit().map(|()| done)) {
                Err(error) if error.code == ErrorCode::WriteConflict => last = error,
                other => return other,
            }
        }
        Err(last)
    }
}
