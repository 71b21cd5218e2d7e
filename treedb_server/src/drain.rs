//! How everything learns that the server stops.
//!
//! One [`Stopper`] (the signal handler has it) and any number of [`Drain`]s (every listener, every connection). After
//! `stop`, a connection finishes the command it is in, answers it and closes; an idle one closes at once.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

/// How long a peer may take, once the server stops, to send the rest of a message or to take an answer.
const GRACE: Duration = Duration::from_secs(2);

/// Tells every `Drain` to stop.
#[derive(Debug)]
pub struct Stopper {
    sender: watch::Sender<bool>,
}

impl Stopper {
    /// A stopper that has not stopped anything yet.
    pub(crate) fn new() -> Self {
        Stopper { sender: watch::Sender::new(false) }
    }

    /// A listener for the stop.
    pub(crate) fn drain(&self) -> Drain {
        Drain { receiver: self.sender.subscribe() }
    }

    /// Begins the drain. Calling it again changes nothing.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }
}

impl Clone for Stopper {
    fn clone(&self) -> Self {
        Stopper { sender: self.sender.clone() }
    }
}

/// Hears the stop.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    receiver: watch::Receiver<bool>,
}

impl Drain {
    /// True once the server is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        *self.receiver.borrow()
    }

    /// Returns when the server begins to stop. Cancel safe.
    pub(crate) async fn started(&mut self) {
        // An error means that the stopper is gone, which happens only when the server is.
        let _ = self.receiver.wait_for(|stopping| *stopping).await;
    }

    /// What `transfer` returns; `None` if the server stops and the transfer does not end soon after. A peer that
    /// has stalled must not hold up the stop.
    pub(crate) async fn bound<T>(&mut self, transfer: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = transfer => Some(done),
            () = async {
                self.started().await;
                tokio::time::sleep(GRACE).await;
            } => None,
        }
    }
}
