//! Cursors whose batches are sent as long as the client has granted credit for them.
//!
//! A pull is a task: it takes one credit, fills one batch on a thread that may block, sends it, and so on until the cursor has nothing more,
//! is closed, or the connection ends. Between two batches its cursor is in its slot, so that one for which there is no credit is closed
//! like any other that is idle. A pull holds none of the places for concurrent requests while it waits; there cannot be more of them than
//! cursors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, mpsc};
use treedb_collections::ErrorCode;

use super::call::{BatchWriter, Next, Pull};
use super::connection::Outgoing;
use super::error_frame::ErrorFrame;
use super::execute::{Session, encode_error};
use super::frame::{self, ANSWER, Header, MORE, opcode};
use crate::context::Context;
use crate::shutdown::Shutdown;

/// Batches that a pull may have credit for.
const MAX_CREDIT: usize = 1 << 20;

/// The pulls of a connection, by their cursors: their credit. Closed, the pull ends.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    running: Mutex<HashMap<u64, Arc<Semaphore>>>,
}

impl Pulls {
    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Begins to pull a cursor.
    fn begin(&self, pull: &Pull) -> Result<Arc<Semaphore>, ErrorFrame> {
        let credit = Arc::new(Semaphore::new(0));
        add(&credit, pull.credit)?;
        let mut running = self.lock();
        if running.contains_key(&pull.cursor) {
            let message = format!("cursor id {} is being pulled already", pull.cursor);
            return Err(ErrorFrame::new(ErrorCode::IllegalOperation, message));
        }
        running.insert(pull.cursor, Arc::clone(&credit));
        Ok(credit)
    }

    /// Grants more batches; false if the cursor is not being pulled.
    pub(super) fn credit(&self, cursor: u64, batches: u32) -> Result<bool, ErrorFrame> {
        match self.lock().get(&cursor) {
            Some(credit) => add(credit, batches).map(|()| true),
            None => Ok(false),
        }
    }

    /// Ends the pull of a cursor that has been closed.
    pub(super) fn close(&self, cursor: u64) {
        if let Some(credit) = self.lock().get(&cursor) {
            credit.close();
        }
    }

    /// Ends all of them.
    pub(super) fn close_all(&self) {
        self.lock().values().for_each(|credit| credit.close());
    }

    fn end(&self, cursor: u64) {
        self.lock().remove(&cursor);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Semaphore>>> {
        // Nothing here panics between two changes.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(credit: &Semaphore, batches: u32) -> Result<(), ErrorFrame> {
    let batches = batches as usize;
    if credit.available_permits().saturating_add(batches) > MAX_CREDIT {
        let message = format!("credit: a pull may have at most {MAX_CREDIT} batches of it");
        return Err(ErrorFrame::new(ErrorCode::BadValue, message));
    }
    credit.add_permits(batches);
    Ok(())
}

/// Ends a pull also when its task is dropped.
struct Running {
    session: Arc<Session>,
    cursor: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.pulls.end(self.cursor);
    }
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
/// Somebody may not read, the cursor is pulled already, or the credit is too much.
pub(super) fn begin(way: &Way, header: &Header, pull: &Pull) -> Result<Arc<Semaphore>, ErrorFrame> {
    way.session.may_pull(header, pull)?;
    way.session.pulls.begin(pull)
}

/// Sends the batches of a pull that has begun.
pub(super) async fn run(mut way: Way, header: Header, pull: Pull, credit: Arc<Semaphore>) {
    let _running = Running { session: Arc::clone(&way.session), cursor: pull.cursor };
    loop {
        let granted = tokio::select! {
            biased;
            () = way.shutdown.requested() => Err(Some(ErrorFrame::new(ErrorCode::ShutdownInProgress, "the server is stopping"))),
            granted = credit.acquire() => granted.map(|permit| permit.forget()).map_err(|_| None),
        };
        let (bytes, more) = match granted {
            Err(Some(error)) => (error_bytes(&error, &header), false),
            // Closed by the client.
            Err(None) => (
                batch(&header, |out| {
                    BatchWriter::new(out).finish(0, out);
                    Ok(false)
                }),
                false,
            ),
            Ok(()) => {
                let session = Arc::clone(&way.session);
                let filled = tokio::task::spawn_blocking(move || next(&session, &header, &pull)).await;
                // A panic has been logged with its place.
                filled.unwrap_or_else(|_| {
                    let message =
                        "the request failed in a way that is a bug in the server; its log says where";
                    (error_bytes(&ErrorFrame::new(ErrorCode::InternalError, message), &header), false)
                })
            }
        };
        let reserved = way.context.reserve(bytes.len()).await;
        let sent = way.outbox.send(Outgoing { bytes, _request: None, _reserved: Some(reserved) }).await;
        if sent.is_err() || !more {
            return;
        }
    }
}

/// The frame with the next batch, and whether there is another.
fn next(session: &Session, header: &Header, pull: &Pull) -> (Vec<u8>, bool) {
    let mut more = false;
    let bytes = batch(header, |out| {
        more = session.next_batch(Next { cursor: pull.cursor, batch: pull.batch }, out)?;
        Ok(more)
    });
    (bytes, more)
}

/// The frame with a batch, or with the error of filling it.
fn batch(header: &Header, fill: impl FnOnce(&mut Vec<u8>) -> Result<bool, ErrorFrame>) -> Vec<u8> {
    let (mut bytes, mut more) = (Vec::new(), false);
    let put = frame::put(&mut bytes, opcode::PULL | ANSWER, 0, header.request, |out| {
        more = fill(out)?;
        Ok::<(), ErrorFrame>(())
    });
    match put {
        Ok(()) => {
            if more && let Some(flags) = bytes.get_mut(6..8) {
                flags.copy_from_slice(&MORE.to_le_bytes());
            }
            bytes
        }
        Err(error) => error_bytes(&error, header),
    }
}

fn error_bytes(error: &ErrorFrame, header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_error(error, 0, header.request, &mut bytes);
    bytes
}
