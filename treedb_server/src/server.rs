//! A server, from bound listeners to a clean stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use treedb_collections::{ChangeLogOptions, Database, QueryError};
use treedb_storage::Options;

use crate::config::{Address, Changes, Config};
use crate::context::Context;
use crate::listener::Listener;
use crate::mongo::identity::Identity;
use crate::{admin, mongo, native};

pub use crate::drain::Stopper;

/// Why a server does not start, or does not stop cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The database cannot be opened or closed.
    #[error(transparent)]
    Database(#[from] QueryError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Whose it was to be: `mongo`, `native` or `admin`.
        door: &'static str,
        /// The address.
        address: Address,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The engine panicked.
    #[error("the engine failed: {0}")]
    Engine(#[from] JoinError),
}

/// A server whose listeners are bound and which has not begun to accept.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    stopper: Stopper,
    mongo: Listener,
    native: Option<Listener>,
    admin: Option<Listener>,
}

impl Server {
    /// Opens the database, recovering it if it was not closed, and binds every listener.
    ///
    /// # Errors
    /// A directory that is in use or damaged; an address that is taken. The message names it.
    pub async fn bind(config: Config) -> Result<Self, ServeError> {
        let mut options = Options::default();
        options.durability = config.durability;
        options.key = config.key;
        options.cache_bytes = config.cache_bytes;
        let dir = config.dir.clone();
        let changes = config.changes;
        let open = move || {
            let database = Database::open_with(dir, options)?;
            let wanted = match changes {
                Changes::Unsaid if database.change_log_is_configured()? => None,
                Changes::Unsaid => Some(Some(ChangeLogOptions::default())),
                Changes::Off => Some(None),
                Changes::On(options) => Some(Some(options)),
            };
            wanted.map(|wanted| database.record_changes(wanted)).transpose()?;
            Ok::<_, treedb_collections::QueryError>(database)
        };
        let database = tokio::task::spawn_blocking(open).await??;
        tracing::info!(dir = %config.dir.display(), "database open");
        let mongo = Listener::bind("mongo", config.mongo).await?;
        let native = match config.native {
            Some(address) => Some(Listener::bind("native", address).await?),
            None => None,
        };
        let admin = match config.admin {
            Some(address) => Some(Listener::bind("admin", address).await?),
            None => None,
        };
        let identity = Identity::new(config.replica_set, mongo.address);
        let context =
            Arc::new(Context::new(database, config.dir, config.durability, config.limits, identity));
        Ok(Server { context, stopper: Stopper::new(), mongo, native, admin })
    }

    /// Name and bound address of each listener: `mongo`, `native`, `admin`.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        [Some(&self.mongo), self.native.as_ref(), self.admin.as_ref()]
            .into_iter()
            .flatten()
            .map(|listener| (listener.door, listener.address))
    }

    /// What makes [`Self::run`] drain and return.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until the stopper is told to stop; then lets running commands finish (as long as
    /// [`crate::config::Limits::drain`] says), makes a checkpoint and closes the database.
    ///
    /// # Errors
    /// The checkpoint failed. What was acknowledged is in the log, and the next start recovers it.
    pub async fn run(self) -> Result<(), ServeError> {
        let Server { context, stopper, mongo, native, admin } = self;
        for listener in [Some(&mongo), native.as_ref(), admin.as_ref()].into_iter().flatten() {
            tracing::info!(door = listener.door, address = %listener.address, "listening");
        }
        let mongo = mongo.run(Arc::clone(&context), stopper.drain(), mongo::connection);
        let native = async {
            if let Some(listener) = native {
                listener.run(Arc::clone(&context), stopper.drain(), native::connection).await;
            }
        };
        let admin = async {
            if let Some(listener) = admin {
                listener.run(Arc::clone(&context), stopper.drain(), admin::connection).await;
            }
        };
        let reapers = [
            tokio::spawn(reap(Arc::clone(&context))),
            tokio::spawn(reap_sessions(Arc::clone(&context))),
            tokio::spawn(tell_of_builds(Arc::clone(&context))),
        ];
        tokio::join!(mongo, native, admin);
        reapers.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::task::spawn_blocking(move || {
            // Cursors hold snapshots of what is about to be closed.
            context.cursors.clear();
            context.sessions.end(None, &context.cursors);
            match Arc::try_unwrap(context) {
                Ok(context) => context.database.close(),
                // A command outlived the drain. It may read on; what it writes is in the log.
                Err(context) => context.database.checkpoint(),
            }
        })
        .await??;
        tracing::info!("checkpoint made, database closed");
        Ok(())
    }
}

/// Time between two lines about an index that is being built.
const BUILD_LINES: Duration = Duration::from_secs(3);

/// Seconds between two looks for sessions that nobody uses any more.
const FORGET_ROUNDS: u64 = 300;

/// Closes cursors that nobody asks for any more.
async fn reap(context: Arc<Context>) {
    let idle = context.limits.cursor_idle;
    loop {
        tokio::time::sleep((idle / 4).min(Duration::from_secs(60))).await;
        let context = Arc::clone(&context);
        // Closing a cursor ends a snapshot, which may have pages to free.
        let reaped = tokio::task::spawn_blocking(move || {
            // Commits cut off old changes too; without any they must not lie there for ever.
            if let Err(error) = context.database.trim_changes() {
                tracing::warn!(%error, "old changes could not be cut off");
            }
            context.cursors.reap(idle)
        })
        .await;
        if let Ok(count @ 1..) = reaped {
            tracing::info!(cursors = count, "closed idle cursors");
        }
    }
}

/// Undoes transactions whose time is over, and forgets sessions.
async fn reap_sessions(context: Arc<Context>) {
    let mut rounds = 0_u64;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        rounds += 1;
        let context = Arc::clone(&context);
        let forgetful = rounds.is_multiple_of(FORGET_ROUNDS);
        if context.sessions.open() == 0 && !forgetful {
            continue;
        }
        // The end of a transaction is the end of a snapshot, which may have pages to free.
        let reaped = tokio::task::spawn_blocking(move || {
            if forgetful && let Err(error) = context.sessions.forget(&context.database) {
                tracing::warn!(error = error.message, "old records of sessions could not be deleted");
            }
            context.sessions.expire(context.limits.transaction_life, &context.cursors)
        })
        .await;
        if let Ok(count @ 1..) = reaped {
            tracing::info!(transactions = count, "undid transactions whose time was over");
        }
    }
}

/// Tells how far the indexes are that are being built: those that take more than a moment.
async fn tell_of_builds(context: Arc<Context>) {
    loop {
        tokio::time::sleep(BUILD_LINES).await;
        for build in context.database.index_builds() {
            tracing::info!(
                namespace = %build.namespace,
                index = build.name,
                documents = build.done,
                of = build.total,
                "building an index"
            );
        }
    }
}
