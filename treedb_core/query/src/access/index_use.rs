//! [`IndexUse`]: how often an index was used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// How many operations have used an index, and since when that is counted. It is not stored.
#[derive(Debug)]
pub struct IndexUse {
    operations: AtomicU64,
    since: SystemTime,
}

impl Default for IndexUse {
    fn default() -> Self {
        IndexUse { operations: AtomicU64::new(0), since: SystemTime::now() }
    }
}

impl IndexUse {
    /// One operation more.
    #[inline]
    pub fn add(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// When counting began.
    pub fn since(&self) -> SystemTime {
        self.since
    }
}

/// What an index is does not depend on how often it is used.
impl PartialEq for IndexUse {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
