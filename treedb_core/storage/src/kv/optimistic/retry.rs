//! Until it does not conflict.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::{Isolation, OptimisticTxn};
use crate::kv::store::Store;
use crate::{Error, Result};

/// The first pause, and how often it doubles.
const PAUSE: Duration = Duration::from_micros(50);
const DOUBLINGS: u32 = 7;

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
                pause(attempt - 1);
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

/// Waits from a half up to all of the pause, so that two that met do not meet again.
pub fn pause(doublings: u32) {
    let longest = PAUSE * 2u32.pow(doublings.min(DOUBLINGS));
    let part = RandomState::new().hash_one(doublings) % 1000;
    std::thread::sleep(longest / 2 + longest.mul_f64(part as f64 / 2000.0));
}
