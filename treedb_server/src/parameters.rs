//! Limits that can be changed while the server runs, by `setParameter`. They begin as the configuration says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::Limits;

/// The limits, in milliseconds.
#[derive(Debug)]
pub(crate) struct Parameters {
    cursor_idle: AtomicU64,
    transaction_life: AtomicU64,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Parameters {
    /// As `limits` say.
    pub(crate) fn new(limits: &Limits) -> Self {
        Parameters {
            cursor_idle: AtomicU64::new(millis(limits.cursor_idle)),
            transaction_life: AtomicU64::new(millis(limits.transaction_life)),
        }
    }

    /// How long a cursor may be idle.
    pub(crate) fn cursor_idle(&self) -> Duration {
        Duration::from_millis(self.cursor_idle.load(Ordering::Relaxed))
    }

    /// Sets that.
    pub(crate) fn set_cursor_idle(&self, idle: Duration) {
        self.cursor_idle.store(millis(idle), Ordering::Relaxed);
    }

    /// How long a transaction may take.
    pub(crate) fn transaction_life(&self) -> Duration {
        Duration::from_millis(self.transaction_life.load(Ordering::Relaxed))
    }

    /// Sets that.
    pub(crate) fn set_transaction_life(&self, life: Duration) {
        self.transaction_life.store(millis(life), Ordering::Relaxed);
    }
}
