//! Cursors whose batches are sent as long as the client has granted credit for them.
//!
//! A pull is a task: it takes one credit, fills one batch on a thread that may block, sends it, and so on until the cursor has nothing more,
//! is closed, or the connection ends. Between two batches its cursor is in its slot, so that one for which there is no credit is closed
//! like any other that is idle, which ends the pull. A pull holds none of the places for concurrent requests while it waits. So their number
//! is limited: only a cursor that is open is pulled, and no more pulls begin while the last frames of many have not been written.
//!
//! Only a pull whose cursor has nothing more, or has been closed by the client, ends with a batch. Any other ends with an error, and closes
//! its cursor.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Semaphore, mpsc};
use treedb_collections::ErrorCode;
use treedb_protocol::call::{BatchWriter, Pull};
use treedb_protocol::frame::{self, ANSWER, Header, MORE, opcode};

use super::connection::Outgoing;
use super::cursors::MAX_CURSORS;
use super::execute::{Session, encode_error};
use super::failure::Failure;
use crate::context::Context;
use crate::metrics::Counted;
use crate::shutdown::Shutdown;

/// Batches that a pull may have credit for.
const MAX_CREDIT: usize = 1 << 20;

/// Pulls of a connection whose last frame has not been written: those of all cursors that may be open, and as many that have ended.
const MAX_PULLS: usize = 2 * MAX_CURSORS;

/// Why a pull ends before its cursor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has closed the cursor: it wants no more.
    Closed,
    /// The cursor has been closed because nobody used it. The client is to know that it has not got everything.
    Expired,
    /// The connection ends. The same.
    Disconnected,
}

/// The credit of a pull.
#[derive(Debug)]
pub(super) struct Granted {
    /// Closed when the pull has to end.
    batches: Semaphore,
    /// Set before.
    end: OnceLock<End>,
}

impl Granted {
    fn end(&self, why: End) {
        self.end.get_or_init(|| why);
        self.batches.close();
    }

    /// The error of a pull that has been ended. The client does not get it if it has closed the cursor.
    fn ended(&self, cursor: u64) -> Failure {
        let why = match self.end.get() {
            Some(End::Expired) => "it had no credit for too long",
            _ => "its connection ends",
        };
        Failure::new(ErrorCode::CursorNotFound, format!("cursor id {cursor} has been closed: {why}"))
    }
}

/// The pulls of a connection.
#[derive(Debug)]
pub(super) struct Pulls {
    /// By their cursors.
    running: Mutex<HashMap<u64, Arc<Granted>>>,
    /// Those that run, and those that have ended but whose last frame has not been written. See [`Unwritten`].
    unwritten: AtomicUsize,
    /// How many all connections have.
    gauge: Gauge,
}

impl Pulls {
    /// None; `gauge` counts them.
    pub(super) fn new(gauge: Gauge) -> Self {
        Pulls { running: Mutex::default(), unwritten: AtomicUsize::new(0), gauge }
    }

    /// Whether there are any of which something has still to be written.
    pub(super) fn any(&self) -> bool {
        self.unwritten.load(Ordering::Acquire) > 0
    }

    /// Begins to pull a cursor, which `check` finds to be open.
    fn begin(
        &self,
        pull: &Pull,
        check: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Arc<Granted>, Failure> {
        let credit = Arc::new(Granted { batches: Semaphore::new(0), end: OnceLock::new() });
        add(&credit.batches, pull.credit)?;
        self.unless_pulled(pull.cursor, |running| {
            check()?;
            // Only the reader of the connection begins pulls: there are no more when the next line is executed.
            if self.unwritten.load(Ordering::Acquire) >= MAX_PULLS {
                let message = "this connection does not read what it pulls: read the last batch of each pull";
                return Err(Failure::new(ErrorCode::ExceededMemoryLimit, message));
            }
            self.unwritten.fetch_add(1, Ordering::AcqRel);
            running.insert(pull.cursor, Arc::clone(&credit));
            Ok(credit)
        })
    }

    /// Does something with a cursor that must not be pulled meanwhile.
    ///
    /// # Errors
    /// `IllegalOperation` if it is being pulled; those of `act`.
    pub(super) fn unless_pulled<T>(
        &self,
        cursor: u64,
        act: impl FnOnce(&mut HashMap<u64, Arc<Granted>>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut running = self.lock();
        if running.contains_key(&cursor) {
            let message = format!("cursor id {cursor} is being pulled already");
            return Err(Failure::new(ErrorCode::IllegalOperation, message));
        }
        act(&mut running)
    }

    /// Grants more batches; false if the cursor is not being pulled.
    pub(super) fn credit(&self, cursor: u64, batches: u32) -> Result<bool, Failure> {
        match self.lock().get(&cursor) {
            Some(credit) => add(&credit.batches, batches).map(|()| true),
            None => Ok(false),
        }
    }

    /// Ends the pull of a cursor that the client closes. Before that is closed, so that the pull knows why it cannot be read any more.
    pub(super) fn close(&self, cursor: u64) {
        self.end(cursor, End::Closed);
    }

    /// Ends the pull of a cursor that has been closed because it was idle.
    pub(super) fn expire(&self, cursor: u64) {
        self.end(cursor, End::Expired);
    }

    /// Ends all of them, with their connection.
    pub(super) fn disconnect(&self) {
        self.lock().values().for_each(|credit| credit.end(End::Disconnected));
    }

    fn end(&self, cursor: u64, why: End) {
        if let Some(credit) = self.lock().get(&cursor) {
            credit.end(why);
        }
    }

    fn remove(&self, cursor: u64) {
        self.lock().remove(&cursor);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Granted>>> {
        // Nothing here panics between two changes.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(credit: &Semaphore, batches: u32) -> Result<(), Failure> {
    let batches = batches as usize;
    if credit.available_permits().saturating_add(batches) > MAX_CREDIT {
        let message = format!("credit: a pull may have at most {MAX_CREDIT} batches of it");
        return Err(Failure::new(ErrorCode::BadValue, message));
    }
    credit.add_permits(batches);
    Ok(())
}

/// Ends a pull also when its task is dropped.
struct Running {
    session: Arc<Session>,
    cursor: u64,
    _counted: Counted,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.pulls.remove(self.cursor);
    }
}

/// A pull whose last frame has not been written, which has it.
pub(super) struct Unwritten(Arc<Session>);

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.0.pulls.unwritten.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A pull that has begun.
pub(super) struct Begun {
    credit: Arc<Granted>,
    running: Running,
    unwritten: Unwritten,
}

/// What a pull needs of its connection.
pub(super) struct Way {
    pub(super) session: Arc<Session>,
    pub(super) context: Arc<Context>,
    pub(super) outbox: mpsc::Sender<Outgoing>,
    pub(super) shutdown: Shutdown,
}

/// Begins a pull: from now on it has its credit, and [`run`] sends its batches.
///
/// # Errors
/// Somebody may not read, the cursor does not exist or is being read or pulled, or the credit is too much.
pub(super) fn begin(way: &Way, header: &Header, pull: &Pull) -> Result<Begun, Failure> {
    let session = &way.session;
    session.may_pull(header, pull)?;
    let credit = session.pulls.begin(pull, || session.cursors().check(pull.cursor))?;
    let _counted = Counted::by(&session.pulls.gauge);
    let running = Running { session: Arc::clone(session), cursor: pull.cursor, _counted };
    Ok(Begun { credit, running, unwritten: Unwritten(Arc::clone(session)) })
}

/// Sends the batches of a pull that has begun.
pub(super) async fn run(mut way: Way, header: Header, pull: Pull, begun: Begun) {
    let Begun { credit, running, unwritten } = begun;
    loop {
        let granted = tokio::select! {
            biased;
            () = way.shutdown.requested() => {
                Err(Failure::new(ErrorCode::ShutdownInProgress, "the server is stopping"))
            }
            granted = credit.batches.acquire() => {
                granted.map(|permit| permit.forget()).map_err(|_| credit.ended(pull.cursor))
            }
        };
        let filled = match granted {
            Ok(()) => {
                let session = Arc::clone(&way.session);
                let filled = tokio::task::spawn_blocking(move || next(&session, &header, &pull)).await;
                // A panic has been logged with its place.
                filled.unwrap_or_else(|_| Err(Failure::bug()))
            }
            Err(error) => Err(error),
        };
        let (bytes, more) = match filled {
            Ok(filled) => filled,
            // Whatever has failed, above all to find the cursor: this is what the client has asked for.
            Err(_) if credit.end.get() == Some(&End::Closed) => (nothing(&header), false),
            Err(error) => {
                // A client whose pull has failed does not close the cursor.
                way.session.cursors().close(pull.cursor);
                (error_bytes(&error, &header), false)
            }
        };
        let reserved = way.context.reserve(bytes.len()).await;
        let mut outgoing = Outgoing { bytes, _request: None, _reserved: Some(reserved), _pull: None };
        if !more {
            // It has ended before the client can know.
            drop(running);
            outgoing._pull = Some(unwritten);
            // Without a writer the connection is closed.
            let _ = way.outbox.send(outgoing).await;
            return;
        }
        if way.outbox.send(outgoing).await.is_err() {
            return;
        }
    }
}

/// The frame with the next batch, and whether there is another.
///
/// # Errors
/// The client may no longer read; those of [`Session::pulled_batch`].
fn next(session: &Session, header: &Header, pull: &Pull) -> Result<(Vec<u8>, bool), Failure> {
    // As for each NEXT: a user may have been dropped since the last batch.
    session.may_pull(header, pull)?;
    let (mut bytes, mut more) = (Vec::new(), false);
    frame::put(&mut bytes, opcode::PULL | ANSWER, 0, header.request, |out| {
        more = session.pulled_batch(header, pull, out)?;
        Ok::<(), Failure>(())
    })?;
    if more && let Some(flags) = bytes.get_mut(6..8) {
        flags.copy_from_slice(&MORE.to_le_bytes());
    }
    Ok((bytes, more))
}

/// The last frame of a pull whose cursor the client has closed.
fn nothing(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing it does not fail: it has twelve bytes.
    let _ = frame::put(&mut bytes, opcode::PULL | ANSWER, 0, header.request, |out| {
        BatchWriter::new(out).finish(0, out);
        Ok::<(), Failure>(())
    });
    bytes
}

fn error_bytes(error: &Failure, header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_error(error, 0, header.request, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulls_whose_last_frames_are_not_written_are_limited() {
        let pulls = Pulls::new(Gauge::default());
        let begin = |cursor| pulls.begin(&Pull { cursor, batch: 0, credit: 0 }, || Ok(()));
        for cursor in 0..MAX_PULLS as u64 {
            begin(cursor).unwrap();
            pulls.remove(cursor);
        }
        assert_eq!(begin(1_000).unwrap_err().0.name, "ExceededMemoryLimit");
        pulls.unwritten.fetch_sub(1, Ordering::AcqRel);
        begin(1_000).unwrap();
    }
}
