//! The shutdown signal.
//!
//! There is one [`ShutdownHandle`], held by the signal handler, and any number of [`Shutdown`]s, one for each listener and
//! connection. After `stop`, a connection finishes its current command, answers it and closes; an idle one closes at once.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

/// After the shutdown request: the time that a peer has to send the rest of a message or to read an answer.
const GRACE: Duration = Duration::from_secs(2);

/// Requests the shutdown.
#[derive(Debug)]
pub struct ShutdownHandle {
    sender: watch::Sender<bool>,
}

impl ShutdownHandle {
    /// A handle of a running server.
    pub(crate) fn new() -> Self {
        ShutdownHandle { sender: watch::Sender::new(false) }
    }

    /// A receiver of the request.
    pub(crate) fn subscribe(&self) -> Shutdown {
        Shutdown { receiver: self.sender.subscribe() }
    }

    /// Requests the shutdown. Further calls have no effect.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }
}

impl Clone for ShutdownHandle {
    fn clone(&self) -> Self {
        ShutdownHandle { sender: self.sender.clone() }
    }
}

/// Receives the shutdown request.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown {
    receiver: watch::Receiver<bool>,
}

impl Shutdown {
    /// True once the shutdown has been requested.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.receiver.borrow()
    }

    /// Returns when the shutdown is requested. Cancel safe.
    pub(crate) async fn requested(&mut self) {
        // An error means that the handle is gone, and with it the server.
        let _ = self.receiver.wait_for(|stopping| *stopping).await;
    }

    /// The result of `transfer`; `None` if it does not complete within [`GRACE`] after the shutdown request: a stalled
    /// peer must not delay the shutdown.
    pub(crate) async fn within_grace<T>(&mut self, transfer: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = transfer => Some(done),
            () = async {
                self.requested().await;
                tokio::time::sleep(GRACE).await;
            } => None,
        }
    }
}
