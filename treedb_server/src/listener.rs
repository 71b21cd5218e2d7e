//! Accepting connections: one loop for every protocol.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpListener;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use crate::config::Address;
use crate::context::Context;
use crate::metrics::Door;
use crate::server::ServeError;
use crate::shutdown::Shutdown;
use crate::stream::{Socket, Stream};
use crate::threads;
use crate::tls::Tls;
use crate::web;

/// A bound listener and the name of its protocol.
#[derive(Debug)]
pub(crate) struct Listener {
    /// `mongo`, `native` or `admin`.
    pub(crate) door: &'static str,
    socket: TcpListener,
    /// The bound address, with the actual port if the system was to choose one.
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Binds `address`. The error names it.
    pub(crate) async fn bind(door: &'static str, address: Address) -> Result<Self, ServeError> {
        let listen = |source| ServeError::Listen { door, address, source };
        let socket = TcpListener::bind(address.socket()).await.map_err(listen)?;
        let bound = socket.local_addr().map_err(listen)?;
        Ok(Listener { door, socket, address: bound })
    }

    /// Accepts connections until shutdown and runs `serve` for each in a task of its own, which
    /// [`threads`] moves to threads that may block: a panic ends only that
    /// connection. Then waits for the connections, at most [`crate::config::Limits::shutdown_grace`].
    pub(crate) async fn run<F>(
        self,
        context: Arc<Context>,
        mut shutdown: Shutdown,
        tls: Option<Tls>,
        serve: impl Fn(Stream, SocketAddr, Arc<Context>, Shutdown) -> F + Copy + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let door = Door { door: self.door };
        let mut tasks = JoinSet::new();
        loop {
            let (stream, peer) = tokio::select! {
                biased;
                () = shutdown.requested() => break,
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    report(self.door, ended);
                    continue;
                }
                accepted = self.socket.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Most likely there are no file descriptors left: an immediate retry would only spin.
                        tracing::warn!(door = self.door, %error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            // Health checks must get through when all connections are in use: the admin port has a limit of its own.
            let counted = self.door != "admin";
            let (permit, limit) = if counted {
                (context.try_connection_permit(), context.limits.connections)
            } else {
                (context.web.try_connection_permit(), web::MOST_CONNECTIONS)
            };
            if permit.is_none() {
                context.metrics.refused.get_or_create(&door).inc();
                tracing::warn!(door = self.door, %peer, limit, "too many connections");
                continue;
            }
            let stranger = if counted && context.access.is_required() {
                let most = context.limits.connections_of_strangers();
                let admitted = context.access.strangers.admit(peer, most);
                if admitted.is_none() {
                    context.metrics.refused.get_or_create(&door).inc();
                    tracing::warn!(door = self.door, %peer, most, "too many connections without authentication");
                    continue;
                }
                admitted
            } else if !counted {
                // Without a log-in: who asks for the health of the server has none.
                let admitted = context.web.admit(peer);
                if admitted.is_none() {
                    context.metrics.refused.get_or_create(&door).inc();
                    let most = web::MOST_OF_ADDRESS;
                    tracing::warn!(door = self.door, %peer, most, "too many connections of one address");
                    continue;
                }
                admitted
            } else {
                None
            };
            let stream = match Socket::new(stream) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(door = self.door, %peer, %error, "connection is gone already");
                    continue;
                }
            };
            context.metrics.accepted.get_or_create(&door).inc();
            let open = OpenConnection::new(context.metrics.connections.get_or_create_owned(&door), permit);
            let (context, mut shutdown, tls) = (Arc::clone(&context), shutdown.clone(), tls.clone());
            let (name, threads) = (self.door, Arc::clone(&context.threads));
            let connection = async move {
                let (_open, _stranger) = (open, stranger);
                let stream = match tls {
                    None => Ok(Stream::Plain(stream)),
                    Some(tls) => {
                        let accepted = tls.accept(stream, name == "mongo");
                        let accepted = tokio::time::timeout(context.limits.stall, accepted);
                        match shutdown.within_grace(accepted).await {
                            Some(Ok(accepted)) => accepted,
                            Some(Err(_)) => Err(std::io::ErrorKind::TimedOut.into()),
                            None => return,
                        }
                    }
                };
                match stream {
                    Ok(stream) => serve(stream, peer, context, shutdown).await,
                    Err(error) => {
                        context.metrics.protocol_errors.get_or_create(&Door { door: name }).inc();
                        tracing::debug!(door = name, %peer, %error, "closing: no TLS");
                    }
                }
            };
            tasks.spawn(threads::run(connection, threads));
        }
        drop(self.socket);
        let ended = tokio::time::timeout(context.limits.shutdown_grace, async {
            while let Some(ended) = tasks.join_next().await {
                report(self.door, ended);
            }
        });
        if ended.await.is_err() {
            tracing::warn!(door = self.door, connections = tasks.len(), "did not finish in time: closed");
        }
    }
}

fn report(door: &'static str, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(door, %error, "a connection ended in a panic: this is a bug, please report it");
    }
}

/// One open connection, counted until it is dropped: also when a panic unwinds.
struct OpenConnection {
    gauge: Gauge,
    _permit: Option<OwnedSemaphorePermit>,
}

impl OpenConnection {
    fn new(gauge: Gauge, permit: Option<OwnedSemaphorePermit>) -> Self {
        gauge.inc();
        OpenConnection { gauge, _permit: permit }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
