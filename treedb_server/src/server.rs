//! A server, from bound listeners to a clean stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::Config;
use crate::context::Context;
use crate::listener::Listener;
use crate::{admin, mongo, native};

pub use crate::drain::Stopper;

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
    /// Binds every listener of `config`.
    ///
    /// # Errors
    /// An address that is taken or may not be used; the message names it.
    pub async fn bind(config: Config) -> io::Result<Self> {
        let mongo = Listener::bind("mongo", config.mongo).await?;
        let native = match config.native {
            Some(address) => Some(Listener::bind("native", address).await?),
            None => None,
        };
        let admin = match config.admin {
            Some(address) => Some(Listener::bind("admin", address).await?),
            None => None,
        };
        let context = Arc::new(Context::new(config.limits));
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
    /// [`crate::config::Limits::drain`] says).
    ///
    /// # Errors
    /// None so far.
    pub async fn run(self) -> io::Result<()> {
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
        tokio::join!(mongo, native, admin);
        tracing::info!("stopped");
        Ok(())
    }
}
