//! State shared by all connections: the database, cursors, the budget for request bytes, limits, metrics.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use bson::oid::ObjectId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use treedb_collections::{Database, QueryError};
use treedb_storage::Durability;

use crate::access::Access;
use crate::backups::Backups;
use crate::config::Limits;
use crate::metrics::{Door, Metrics};
use crate::mongo::compression::Compressors;
use crate::mongo::cursors::Cursors;
use crate::mongo::fail_points::FailPoints;
use crate::mongo::sessions::Sessions;
use crate::mongo::topology::Topology;
use crate::operations::Operations;
use crate::parameters::Parameters;
use crate::shutdown::ShutdownHandle;
use crate::threads::Threads;
use crate::web::Web;
use crate::write_lock::WriteLock;

/// Shared by every connection of a server.
pub(crate) struct Context {
    /// The database. Its calls may wait for the disk: not from a task of the runtime, but after
    /// [`crate::threads::may_block`] or from `spawn_blocking`.
    pub(crate) database: Database,
    /// Where its files are.
    pub(crate) dir: PathBuf,
    /// The durability of writes that do not specify one.
    pub(crate) durability: Durability,
    /// Limits.
    pub(crate) limits: Limits,
    /// Counters.
    pub(crate) metrics: Metrics,
    /// Cursors of the Mongo protocol.
    pub(crate) cursors: Cursors,
    /// Sessions of the Mongo protocol.
    pub(crate) sessions: Sessions,
    /// How the server presents itself to drivers.
    pub(crate) topology: Topology,
    /// Who may do what.
    pub(crate) access: Arc<Access>,
    /// What runs and has run.
    pub(crate) operations: Arc<Operations>,
    /// The compressors that are offered.
    pub(crate) compressors: Compressors,
    /// Failures on request; `None` if test commands are not enabled.
    pub(crate) fail_points: Option<FailPoints>,
    /// Random, for this run of the server.
    pub(crate) process: ObjectId,
    /// What `setParameter` sets.
    pub(crate) parameters: Parameters,
    /// Connections on threads that may block.
    pub(crate) threads: Arc<Threads>,
    /// Running backups.
    pub(crate) backups: Backups,
    /// Locks writes out.
    pub(crate) write_lock: Arc<WriteLock>,
    /// Stops the server.
    pub(crate) shutdown: ShutdownHandle,
    /// When the server began.
    pub(crate) started: Instant,
    /// The web page on the admin port.
    pub(crate) web: Web,
    budget: Arc<Semaphore>,
    connection_permits: Arc<Semaphore>,
    connections: AtomicI32,
}

impl Context {
    pub(crate) fn new(
        database: Database,
        dir: PathBuf,
        durability: Durability,
        limits: Limits,
        topology: Topology,
        access: Access,
    ) -> Self {
        let metrics = Metrics::new();
        // Longer than any transaction: a write fails only if it meets one after another.
        database.set_write_wait(limits.transaction_life * 2, limits.waiting_writes());
        database.set_write_wait_bytes(limits.inflight_bytes / 2);
        Context {
            database,
            dir,
            durability,
            cursors: Cursors::new(
                limits.cursors,
                limits.blocking_threads / 2,
                metrics.cursors.get_or_create_owned(&Door { door: "mongo" }),
            ),
            sessions: Sessions::new(limits.sessions),
            topology,
            access: Arc::new(access),
            metrics,
            threads: Arc::new(Threads::new(limits.lingering_connections())),
            backups: Backups::default(),
            write_lock: Arc::default(),
            shutdown: ShutdownHandle::new(),
            operations: Arc::new(Operations::new(limits.slow)),
            compressors: Compressors::ALL,
            fail_points: None,
            process: ObjectId::new(),
            parameters: Parameters::new(&limits),
            started: Instant::now(),
            web: Web::default(),
            budget: Arc::new(Semaphore::new(limits.inflight_bytes.min(Semaphore::MAX_PERMITS))),
            connection_permits: Arc::new(Semaphore::new(limits.connections)),
            connections: AtomicI32::new(0),
            limits,
        }
    }

    /// Whether the database answers a read.
    pub(crate) fn ready(&self) -> Result<(), QueryError> {
        match self.database.store().poisoned() {
            Some(reason) => Err(treedb_collections::Error::Poisoned { reason }.into()),
            None => self.database.list_databases().map(drop),
        }
    }

    /// A permit for one more connection, returned when dropped; `None` if there are too many connections.
    pub(crate) fn try_connection_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connection_permits).try_acquire_owned().ok()
    }

    /// The number of a new connection.
    pub(crate) fn next_connection(&self) -> i32 {
        self.connections.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Connections accepted so far.
    pub(crate) fn connections_so_far(&self) -> i32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Waits until the budget has room for a request of `bytes`; the share is returned when the result is dropped. Reserve
    /// before reading more than the first few kilobytes, so that a slow or malicious sender holds no memory.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: usize) -> Reserved {
        let permits = u32::try_from(bytes.min(self.limits.inflight_bytes)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let permit = Arc::clone(&self.budget).acquire_many_owned(permits).await.ok();
        self.metrics.inflight.inc_by(i64::from(permits));
        Reserved { context: Arc::clone(self), permits, _permit: permit }
    }

    /// Whether half of the budget is in use, so that requests that need next to nothing of it wait for it too.
    pub(crate) fn is_budget_scarce(&self) -> bool {
        self.budget.available_permits() < self.limits.inflight_bytes / 2
    }

    /// Bytes of the budget that writes may hold while they are locked out: others need some meanwhile.
    pub(crate) fn locked_out_bytes(&self) -> usize {
        self.limits.inflight_bytes / 4
    }

    /// Waits until everything that has been written is on disk.
    pub(crate) fn flush(&self) -> Result<(), QueryError> {
        Ok(self.database.store().flush()?)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("dir", &self.dir)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A share of the budget for request bytes.
#[derive(Debug)]
pub(crate) struct Reserved {
    context: Arc<Context>,
    permits: u32,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Reserved {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.permits as usize
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.context.metrics.inflight.dec_by(i64::from(self.permits));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A context over a new database in a directory that goes with the returned guard.
    pub(crate) fn context(limits: Limits) -> (Arc<Context>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let access = Access::new(database.clone(), false).unwrap();
        let path = dir.path().to_owned();
        let context = Context::new(database, path, Durability::Durable, limits, Topology::Standalone, access);
        (Arc::new(context), dir)
    }

    #[tokio::test]
    async fn a_request_waits_for_the_budget() {
        let (context, _dir) = context(Limits { inflight_bytes: 100, ..Limits::default() });
        let first = context.reserve(60).await;
        let second = context.reserve(50);
        let mut second = std::pin::pin!(second);
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), second.as_mut()).await;
        assert!(waits.is_err());
        drop(first);
        let _second = second.await;
        assert_eq!(context.metrics.inflight.get(), 50);
    }
}
