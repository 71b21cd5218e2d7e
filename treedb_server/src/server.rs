//! A server, from bound listeners to a clean stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use treedb_collections::{ChangeLogOptions, Database, QueryError};
use treedb_storage::Options;

use crate::access::Access;
use crate::config::{Address, Changes, Config, Unprotected};
use crate::context::Context;
use crate::listener::Listener;
use crate::mongo::fail_points::FailPoints;
use crate::mongo::sessions::Which;
use crate::mongo::topology::Topology;
use crate::tls::{Tls, TlsError};
use crate::{admin, logs, mongo, native};

pub use crate::shutdown::ShutdownHandle;

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
        /// The listener: `mongo`, `native` or `admin`.
        door: &'static str,
        /// The address.
        address: Address,
        /// The system's error.
        source: std::io::Error,
    },
    /// Other machines could use a listener without authentication.
    #[error(
        "{door} on {address} could be used from other machines without authentication: {}",
        match allow {
            Unprotected::Clients =>
                "add --auth, or --allow-unauthenticated clients if only trusted machines can connect",
            Unprotected::Admin =>
                "bind it to 127.0.0.1, or add --allow-unauthenticated admin if everybody may see metrics",
        }
    )]
    Unprotected {
        /// The listener: `mongo`, `native` or `admin`.
        door: &'static str,
        /// The address.
        address: Address,
        /// What would have to be allowed.
        allow: Unprotected,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The engine panicked.
    #[error("the engine failed: {0}")]
    Engine(#[from] JoinError),
}

/// A server whose listeners are bound, and which does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    tls: Option<Tls>,
    mongo: Listener,
    native: Option<Listener>,
    admin: Option<Listener>,
}

/// An address that other machines can connect to.
fn beyond(address: Option<Address>) -> Option<Address> {
    address.filter(|address| !address.is_loopback())
}

/// Checks what can be without opening the database or listening: who may connect to what, and the certificate.
///
/// # Errors
/// As [`Server::bind`], before it does anything.
pub(crate) fn check(config: &Config) -> Result<Option<Tls>, ServeError> {
    if let Some((door, address, allow)) = config.unprotected() {
        return Err(ServeError::Unprotected { door, address, allow });
    }
    Ok(config.tls.clone().map(Tls::new).transpose()?)
}

impl Server {
    /// Opens the database, recovering it if it was not closed, and binds every listener.
    ///
    /// # Errors
    /// The directory is in use or damaged, an address is in use, or other machines could connect without authentication.
    /// The message names it.
    pub async fn bind(config: Config) -> Result<Self, ServeError> {
        let tls = check(&config)?;
        let web_page = config.web_page.unwrap_or(config.authentication);
        let page = config.admin.filter(|_| web_page);
        let open = [
            ("mongo", beyond(Some(config.mongo))),
            ("native", beyond(config.native)),
            ("admin", beyond(page)),
        ];
        let open: Vec<&str> = open.into_iter().filter_map(|(door, address)| address.map(|_| door)).collect();
        if tls.is_none() && !open.is_empty() {
            let doors = open.join(", ");
            tracing::warn!(doors, "connections of other machines are not encrypted: see --tls-certificate");
        }
        let mut options = Options::default();
        options.durability = config.durability;
        options.key = config.key;
        options.cache_bytes = config.cache_bytes;
        let dir = config.dir.clone();
        let (changes, authentication, first_user) =
            (config.changes, config.authentication, config.first_user);
        let (vector_memory, build_threads) = (config.vector_memory, config.vector_build_threads);
        let saves_images = config.save_vector_images;
        let open = move || {
            let database = Database::open_with(dir, options)?;
            vector_memory.into_iter().for_each(|bytes| database.set_vector_memory(bytes));
            build_threads.into_iter().for_each(|threads| database.set_vector_build_threads(threads));
            database.set_save_vector_images_at_close(saves_images);
            let wanted = match changes {
                Changes::Unspecified if database.change_log_is_configured()? => None,
                Changes::Unspecified => Some(Some(ChangeLogOptions::default())),
                Changes::Off => Some(None),
                Changes::On(options) => Some(Some(options)),
            };
            wanted.map(|wanted| database.record_changes(wanted)).transpose()?;
            let access = Access::new(database.clone(), authentication)?;
            if let Some((name, password)) = first_user {
                let created = access.create_first_user(&name, password.reveal())?;
                tracing::info!(user = name, created, "the user to begin with, if there is no other");
            } else if authentication && !access.store.has_user()? {
                tracing::warn!(
                    "there is no user yet: create one from this machine (the localhost exception), or use --root-user"
                );
            }
            Ok::<_, treedb_collections::QueryError>((database, access))
        };
        let (database, access) = tokio::task::spawn_blocking(open).await??;
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
        let advertised = config.advertised.unwrap_or_else(|| mongo.address.to_string());
        let topology = Topology::new(config.replica_set, advertised);
        let mut context =
            Context::new(database, config.dir, config.durability, config.limits, topology, access);
        context.compressors = config.compressors;
        context.web.enabled = web_page;
        context.web.open_to_all = config.allow_unprotected.contains(&Unprotected::Clients);
        context.fail_points = config.test_commands.then(FailPoints::default);
        let context = Arc::new(context);
        Ok(Server { context, tls, mongo, native, admin })
    }

    /// Name and bound address of each listener: `mongo`, `native`, `admin`.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        [Some(&self.mongo), self.native.as_ref(), self.admin.as_ref()]
            .into_iter()
            .flatten()
            .map(|listener| (listener.door, listener.address))
    }

    /// The handle that makes [`Self::run`] shut down and return.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.context.shutdown.clone()
    }

    /// Serves until [`ShutdownHandle::stop`] is called, or a client sends the command `shutdown`; then lets running commands finish for at most
    /// [`crate::config::Limits::shutdown_grace`], makes a checkpoint and closes the database.
    ///
    /// # Errors
    /// The checkpoint failed. Acknowledged writes are in the log, and the next start recovers them.
    pub async fn run(self) -> Result<(), ServeError> {
        let Server { context, tls, mongo, native, admin } = self;
        let shutdown = context.shutdown.clone();
        logs::has_started();
        for listener in [Some(&mongo), native.as_ref(), admin.as_ref()].into_iter().flatten() {
            tracing::info!(door = listener.door, address = %listener.address, "listening");
        }
        let mongo = mongo.run(Arc::clone(&context), shutdown.subscribe(), tls.clone(), mongo::connection);
        let native = async {
            if let Some(listener) = native {
                let tls = tls.clone();
                listener.run(Arc::clone(&context), shutdown.subscribe(), tls, native::connection).await;
            }
        };
        let admin = async {
            if let Some(listener) = admin {
                listener
                    .run(Arc::clone(&context), shutdown.subscribe(), tls.clone(), admin::connection)
                    .await;
            }
        };
        let background = [
            tokio::spawn(reap(Arc::clone(&context))),
            tokio::spawn(reap_sessions(Arc::clone(&context))),
            tokio::spawn(log_index_builds(Arc::clone(&context))),
        ];
        let reload = tls.clone().map(|tls| tokio::spawn(tls.reload()));
        // Writes that are locked out are executed before the server stops: their clients wait for an answer.
        let unlock = async {
            shutdown.subscribe().requested().await;
            context.write_lock.stop();
        };
        tokio::join!(mongo, native, admin, unlock);
        background.iter().chain(&reload).for_each(tokio::task::JoinHandle::abort);
        tokio::task::spawn_blocking(move || {
            // Cursors hold snapshots of the database that is about to be closed.
            context.cursors.clear();
            context.sessions.end(&Which::all(), &context.cursors);
            match Arc::try_unwrap(context) {
                Ok(Context { database, access, .. }) => {
                    // It has a handle of the database too.
                    drop(access);
                    database.close()
                }
                // A command has outlived the grace period. It may continue to read; what it writes is in the log.
                Err(context) => context.database.checkpoint(),
            }
        })
        .await??;
        tracing::info!("checkpoint made, database closed");
        Ok(())
    }
}

/// Time between two log lines about a running index build.
const BUILD_LOG_INTERVAL: Duration = Duration::from_secs(3);

/// Seconds between two removals of unused sessions.
const FORGET_INTERVAL_SECS: u64 = 300;

/// Closes idle cursors.
async fn reap(context: Arc<Context>) {
    loop {
        let idle = context.parameters.cursor_idle();
        tokio::time::sleep((idle / 4).min(Duration::from_secs(60))).await;
        let context = Arc::clone(&context);
        // Closing a cursor ends a snapshot, which may have pages to free.
        let reaped = tokio::task::spawn_blocking(move || {
            // Commits trim the change log too; without commits, old changes must still be removed.
            let writing = context.write_lock.try_enter(false);
            if writing.is_some()
                && let Err(error) = context.database.trim_changes()
            {
                tracing::warn!(%error, "old changes could not be removed");
            }
            context.cursors.reap(idle)
        })
        .await;
        if let Ok(count @ 1..) = reaped {
            tracing::info!(cursors = count, "closed idle cursors");
        }
    }
}

/// Aborts transactions that have exceeded their time limit, and removes unused sessions.
async fn reap_sessions(context: Arc<Context>) {
    let mut rounds = 0_u64;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        rounds += 1;
        let context = Arc::clone(&context);
        let forget_sessions = rounds.is_multiple_of(FORGET_INTERVAL_SECS);
        if context.sessions.open() == 0 && !forget_sessions {
            continue;
        }
        // Ending a transaction ends a snapshot, which may have pages to free.
        let reaped = tokio::task::spawn_blocking(move || {
            let writing = if forget_sessions { context.write_lock.try_enter(false) } else { None };
            if writing.is_some()
                && let Err(error) = context.sessions.forget(&context.database)
            {
                tracing::warn!(error = error.message, "old records of sessions could not be deleted");
            }
            context.sessions.expire(context.parameters.transaction_life(), &context.cursors)
        })
        .await;
        if let Ok(count @ 1..) = reaped {
            tracing::info!(transactions = count, "aborted transactions that exceeded the time limit");
        }
    }
}

/// Logs the progress of index builds that take longer than a moment.
async fn log_index_builds(context: Arc<Context>) {
    loop {
        tokio::time::sleep(BUILD_LOG_INTERVAL).await;
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
