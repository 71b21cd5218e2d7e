//! Running an optimistic transaction again until it does not conflict.

use super::{Isolation, OptimisticTxn};
use crate::kv::backoff::backoff;
use crate::kv::store::Store;
use crate::{Error, Result};

impl Store {
    /// Runs `work` in an optimistic transaction and commits that with the store's default durability; after a conflict
    /// again, on a newer snapshot, up to `attempts` times in all, with pauses that grow up to some milliseconds.
    /// `work` must do nothing outside that may not be done twice.
    ///
    /// # Errors
    /// The last `Conflict` when there are no attempts left; any other error of `work` or of the commit at once;
    /// `Invalid` for no attempts at all.
    pub fn transact<T>(
        &self,
        isolation: Isolation,
        attempts: u32,
        mut work: impl FnMut(&mut OptimisticTxn) -> Result<T>,
    ) -> Result<T> {
        let mut last = Error::Invalid("a transaction needs at least one attempt".into());
        for attempt in 0..attempts {
            if attempt > 0 {
                backoff(attempt - 1);
            }
            let mut txn = self.begin_optimistic_with(isolation)?;
            match work(&mut txn).and_then(|done| txn.commit().map(|()| done)) {
                Err(conflict @ Error::Conflict { .. }) => last = conflict,
                other => return other,
            }
        }
        Err(last)
    }
}
