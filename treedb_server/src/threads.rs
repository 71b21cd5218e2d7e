//! Where a connection runs: in a task of the runtime while it waits for its peer, on a thread that may block while it
//! executes commands.
//!
//! A command may wait for the disk or compute for long, which a task of the runtime must not. Handing each command to
//! another thread and its reply back costs several wake-ups, which is more than most commands cost. So the *connection*
//! moves: it is one future, polled by the runtime until it has to block ([`may_block`]), and then by a thread. There it
//! executes the command, sends the reply, and waits for the next message in a blocking `recv` ([`lingers`]): a client
//! that asks again soon is served by one thread without any wake-up but that of the system call. If nothing arrives for
//! [`LINGER`], or the peer does not read its replies, or anything else has to be waited for, the future goes back to the
//! runtime, and the thread is free.
//!
//! At most [`Threads::new`]'s number of connections may wait on threads; others give their thread back after each message,
//! so that idle clients cannot occupy the threads that commands need.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How long a connection waits for its next message on a thread. Clients that ask less often than that notice no
/// difference: moving takes some ten microseconds.
pub(crate) const LINGER: Duration = Duration::from_millis(50);

/// What is polling the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A task of the runtime, which must not block.
    Runtime,
    /// The same, and the connection has asked for a thread.
    Moving,
    /// A thread that may block to execute a command, but not to wait for the peer.
    Thread,
    /// A thread that may also wait for the peer.
    Lingering,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Runtime) };
    /// When the message that the thread receives began to arrive.
    static MESSAGE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How many connections wait for messages on threads.
#[derive(Debug)]
pub(crate) struct Threads {
    lingering: AtomicUsize,
    most: usize,
}

impl Threads {
    /// At most so many connections may wait for messages on threads.
    pub(crate) fn new(most: usize) -> Self {
        Threads { lingering: AtomicUsize::new(0), most }
    }

    /// Polls `connection` on this thread until it is done (`None`) or has to wait.
    fn poll(&self, mut connection: Connection) -> Option<Connection> {
        let before = self.lingering.fetch_add(1, Ordering::Relaxed);
        let occupied = Occupied(&self.lingering);
        PLACE.set(if before < self.most { Place::Lingering } else { Place::Thread });
        // Nobody has to be woken: the runtime polls it again at once.
        let polled = connection.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(occupied);
        polled.is_pending().then_some(connection)
    }
}

/// A thread that polls a connection, also if that panics.
struct Occupied<'a>(&'a AtomicUsize);

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        PLACE.set(Place::Runtime);
        MESSAGE.set(None);
    }
}

type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a connection to its end, in the runtime and on threads.
pub(crate) fn run(
    connection: impl Future<Output = ()> + Send + 'static,
    threads: Arc<Threads>,
) -> impl Future<Output = ()> + Send {
    // At once: the future that runs it would have room for it beside the box otherwise.
    run_boxed(Box::pin(connection), threads)
}

async fn run_boxed(mut connection: Connection, threads: Arc<Threads>) {
    loop {
        let moves = poll_fn(|context| {
            PLACE.set(Place::Runtime);
            let polled = connection.as_mut().poll(context);
            match (polled, PLACE.replace(Place::Runtime)) {
                (Poll::Ready(()), _) => Poll::Ready(false),
                (Poll::Pending, Place::Moving) => Poll::Ready(true),
                (Poll::Pending, _) => Poll::Pending,
            }
        });
        if !moves.await {
            return;
        }
        let threads = Arc::clone(&threads);
        match tokio::task::spawn_blocking(move || threads.poll(connection)).await {
            Ok(Some(waiting)) => connection = waiting,
            Ok(None) => return,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => return,
            },
        }
    }
}

/// Returns on a thread that may block. Only for connections that [`run`] runs.
pub(crate) async fn may_block() {
    poll_fn(|_| match PLACE.get() {
        Place::Thread | Place::Lingering => Poll::Ready(()),
        Place::Runtime | Place::Moving => {
            PLACE.set(Place::Moving);
            Poll::Pending
        }
    })
    .await;
}

/// Whether the connection that this thread polls may wait for its peer without returning `Pending`.
pub(crate) fn lingers() -> bool {
    if PLACE.get() == Place::Lingering && MESSAGE.get().is_some_and(|began| began.elapsed() > LINGER) {
        stop_lingering();
    }
    PLACE.get() == Place::Lingering
}

/// A message has begun to arrive. What has not arrived [`LINGER`] later is waited for in the runtime, so that a peer that sends a
/// byte now and then holds no thread, and the limits of time that are kept there apply.
pub(crate) fn message_begins() {
    if PLACE.get() == Place::Lingering {
        MESSAGE.set(Some(Instant::now()));
    }
}

/// The message has arrived.
pub(crate) fn message_ends() {
    MESSAGE.set(None);
}

/// Nothing has arrived: the connection shall go back to the runtime.
pub(crate) fn stop_lingering() {
    if PLACE.get() == Place::Lingering {
        PLACE.set(Place::Thread);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn a_message_that_takes_too_long_to_arrive_is_waited_for_in_the_runtime() {
        PLACE.set(Place::Lingering);
        message_begins();
        assert!(lingers());
        MESSAGE.set(Instant::now().checked_sub(LINGER * 2));
        assert!(!lingers());
        assert_eq!(PLACE.get(), Place::Thread);
        message_ends();
    }

    #[test]
    fn a_connection_moves_to_a_thread_to_block_and_back_to_wait() {
        runtime().block_on(async {
            let (sender, seen) = std::sync::mpsc::channel();
            let connection = async move {
                let here = || (thread::current().id(), lingers());
                let first = here();
                may_block().await;
                let second = here();
                may_block().await;
                let third = here();
                tokio::time::sleep(Duration::from_millis(1)).await;
                let last = here();
                sender.send([first, second, third, last]).unwrap();
            };
            tokio::spawn(run(connection, Arc::new(Threads::new(1)))).await.unwrap();
            let [first, second, third, last] = seen.recv().unwrap();
            assert_eq!(first, last);
            assert_eq!(second, third);
            assert_ne!(first.0, second.0);
            assert_eq!([first.1, second.1], [false, true]);
        });
    }

    #[test]
    fn only_so_many_connections_wait_on_threads_and_a_panic_frees_its_place() {
        runtime().block_on(async {
            let threads = Arc::new(Threads::new(1));
            let panicking = async {
                may_block().await;
                panic!("as a bug would");
            };
            assert!(tokio::spawn(run(panicking, Arc::clone(&threads))).await.unwrap_err().is_panic());
            let (sender, seen) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let first = {
                let sender = sender.clone();
                async move {
                    may_block().await;
                    sender.send(lingers()).unwrap();
                    let _ = ended.recv();
                }
            };
            let first = tokio::spawn(run(first, Arc::clone(&threads)));
            assert!(seen.recv().unwrap());
            let second = async move {
                may_block().await;
                sender.send(lingers()).unwrap();
            };
            tokio::spawn(run(second, threads)).await.unwrap();
            assert!(!seen.recv().unwrap());
            drop(end);
            first.await.unwrap();
        });
    }
}
