//! Retries an optimistic transaction until it does not conflict.

use super::{Isolation, OptimisticTxn};
use crate::kv::backoff::backoff;
use crate::kv::store::Store;
use crate::{Error, Result};

impl Store {
    /// Runs `work` in an optimistic transaction and commits it with the store's default durability. After a
    /// conflict it is retried on a newer snapshot, up to `attempts` attempts in total, with pauses that grow
    /// to a few milliseconds. `work` must not have side effects that must not happen twice.
    ///
    /// # Errors
    /// The last `Conflict` if there are no attempts left; any other error of `work` or of the commit is
    /// returned immediately; `Invalid` if `attempts` is 0.
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
            match work(&mut txn).and_then(|result| txn.commit().map(|()| result)) {
                Err(conflict @ Error::Conflict { .. }) => last = conflict,
                other => return other,
            }
        }
        Err(last)
    }
}
