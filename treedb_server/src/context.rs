//! What connections share: the budget for bytes in work, limits, metrics.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;
use crate::metrics::Metrics;

/// Shared by every connection of a server.
#[derive(Debug)]
pub(crate) struct Context {
    /// How much is accepted.
    pub(crate) limits: Limits,
    /// What is counted.
    pub(crate) metrics: Metrics,
    budget: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Context {
    pub(crate) fn new(limits: Limits) -> Self {
        Context {
            metrics: Metrics::new(),
            budget: Arc::new(Semaphore::new(limits.inflight_bytes.min(Semaphore::MAX_PERMITS))),
            connections: Arc::new(Semaphore::new(limits.connections)),
            limits,
        }
    }

    /// Room for one more connection, until the permit is dropped; `None` if there are too many.
    pub(crate) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// Waits until a request of `bytes` may be taken into work; it is in work until the permit is dropped. Take it
    /// before reading more than the first few kilobytes, so that a slow or lying sender holds no memory.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: usize) -> Reserved {
        let permits = u32::try_from(bytes.min(self.limits.inflight_bytes)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let permit = Arc::clone(&self.budget).acquire_many_owned(permits).await.ok();
        self.metrics.inflight.inc_by(i64::from(permits));
        Reserved { context: Arc::clone(self), permits, _permit: permit }
    }
}

/// Part of the budget for bytes in work.
#[derive(Debug)]
pub(crate) struct Reserved {
    context: Arc<Context>,
    permits: u32,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.context.metrics.inflight.dec_by(i64::from(self.permits));
    }
}
