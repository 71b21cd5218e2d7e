//! One connection of the native protocol, with several concurrent requests.
//!
//! The reader reads one frame after the other. A quick request, and a short one that is alone on its connection, is executed by the
//! reader, which moves to a thread that may block ([`threads`]) and sends the answers itself, those of all requests that have arrived
//! together in one write. Such a request is read where it lies in the buffer, and its answer is written behind the answers before it.
//! Any other request is executed on a thread of its own while the reader continues, so that pipelined
//! writes share a flush; its answer goes through a queue to the writer, which sends all that are ready in one write.
//! A request that the reader executes and that turns out to take long, such as a get of a view's document, is given to a thread after all.
//! What is short is in part known from the request, and in part from how long the last one of its kind took ([`Session::is_short`]).
//!
//! Memory is bounded in three ways. A connection has at most [`MAX_REQUESTS`] requests in progress, counted from their
//! header until their answer is written; beyond that nothing is read. Request bodies, and answers of more than a few
//! kilobytes until they are written, count against the server's byte budget. A peer that stalls in the middle of a
//! frame, or does not read its answers, is disconnected ([`crate::stall`]).
//!
//! Frames are read here rather than with `tokio_util::codec` for the reasons given in [`crate::mongo::wire`].

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Sleep;
use treedb_collections::ErrorCode;
use treedb_protocol::call::{Hello, Request, Welcome};
use treedb_protocol::frame::{
    self, ANSWER, CLOSING, HEADER, Header, MAX_BODY, MAX_GREETING, VERSION, opcode,
};

use super::execute::{Session, encode_error};
use super::failure::Failure;
use super::prepared::Statement;
use super::pull;
use super::running::{Place, Waiting};
use crate::config::{FREE_BYTES, UNAUTHENTICATED_IDLE};
use crate::context::{Context, Reserved};
use crate::metrics::Door;
use crate::received::Received;
use crate::shutdown::Shutdown;
use crate::stall::{self, TransferError};
use crate::stream::{ReadHalf, Stream, WriteHalf};
use crate::threads;
use crate::write_lock::Writing;

/// Concurrent requests of one connection.
pub(crate) const MAX_REQUESTS: usize = 64;

/// Bytes after which queued answers are written.
const WRITE_BYTES: usize = 64 * 1024;

/// An answer longer than this counts against the budget until it is written.
const UNRESERVED_BYTES: usize = 4 * 1024;

/// Room for answers that a connection keeps while it is idle.
const KEPT_BYTES: usize = 4 * 1024;

const DOOR: &str = "native";

/// An answer on its way to the writer, with the permits it holds until it is written.
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) _request: Option<OwnedSemaphorePermit>,
    pub(super) _reserved: Option<Reserved>,
    /// The pull of which this is the last frame.
    pub(super) _pull: Option<pull::Unwritten>,
}

/// Answers of requests that the reader executed, to be written before anything is waited for.
#[derive(Default)]
struct Answers {
    bytes: Vec<u8>,
    count: usize,
    /// Places among the concurrent requests, and shares of the budget, of those that have them.
    held: Vec<(Option<OwnedSemaphorePermit>, Option<Reserved>)>,
    /// How long the last ones were together.
    last: usize,
}

impl Answers {
    /// Where the next answer goes.
    fn end(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(self.last.clamp(256, WRITE_BYTES));
        }
        &mut self.bytes
    }

    /// After they have been written.
    fn clear(&mut self) {
        self.last = self.bytes.len();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.count = 0;
        self.held.clear();
    }
}

/// Why a connection ends.
enum CloseReason {
    /// The peer closed it between two frames.
    Peer,
    /// The server stops.
    Shutdown,
    /// The socket failed, or the writer gave up.
    Broken(io::Error),
    /// The peer does not follow the protocol. It is sent the error.
    Protocol(Failure),
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        CloseReason::Broken(error)
    }
}

/// Of what is received.
impl From<TransferError> for CloseReason {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Io(error) => CloseReason::Broken(error),
            TransferError::Stalled => CloseReason::Protocol(Failure::new(
                ErrorCode::ProtocolError,
                "the frame did not arrive in time",
            )),
        }
    }
}

/// Serves one connection until the peer closes it, breaks the protocol, or the server drains.
pub(crate) async fn connection(stream: Stream, peer: SocketAddr, context: Arc<Context>, shutdown: Shutdown) {
    let (read, write, looked_at) = stream.split();
    let (outbox, queue) = mpsc::channel(MAX_REQUESTS + 1);
    let sent = context.metrics.sent.get_or_create_owned(&Door { door: DOOR });
    let writer = Writer {
        stream: Arc::new(Mutex::new(write)),
        sent,
        stall: context.limits.stall,
        shutdown: shutdown.clone(),
    };
    let queued = tokio::spawn(write_answers(writer.clone(), queue));
    let (database, access) = (context.database.clone(), Arc::clone(&context.access));
    let operations = Arc::clone(&context.operations);
    let (counts, number) = (context.metrics.native.clone(), context.next_connection());
    let session = Session::new(database, access, operations, counts, number, peer);
    let session = Arc::new(session.with_peer(looked_at));
    let listing = Arc::clone(&context.operations);
    let _listed = listing.list(&session);
    let mut reader = Reader {
        stream: Received::new(read),
        writer,
        outbox,
        answers: Answers::default(),
        slots: Arc::new(Semaphore::new(MAX_REQUESTS)),
        session: Arc::clone(&session),
        working: JoinSet::new(),
        sweep: Box::pin(tokio::time::sleep(between_sweeps(&context))),
        received: context.metrics.received.get_or_create_owned(&Door { door: DOOR }),
        context,
        shutdown,
    };
    let end = match reader.greet().await {
        Ok(()) => reader.serve().await,
        Err(end) => end,
    };
    let context = Arc::clone(&reader.context);
    let last_error = match end {
        CloseReason::Peer => None,
        CloseReason::Shutdown => Some(Failure::new(ErrorCode::ShutdownInProgress, "the server is stopping")),
        CloseReason::Broken(error) => {
            tracing::debug!(door = DOOR, %peer, %error, "broken");
            None
        }
        CloseReason::Protocol(error) => {
            context.metrics.protocol_errors.get_or_create(&Door { door: DOOR }).inc();
            tracing::debug!(door = DOOR, %peer, %error, "not the protocol: closed");
            Some(error)
        }
    };
    let writer = reader.writer.clone();
    reader.finish(last_error).await;
    // The writer ends when the last answer is written and every sender is gone.
    if queued.await.is_err() {
        tracing::error!(door = DOOR, %peer, "the writer panicked: this is a bug, please report it");
    }
    // Through TLS, tells the peer that this is the end.
    let _ = tokio::time::timeout(writer.stall, async { writer.stream.lock().await.shutdown().await }).await;
    tracing::debug!(door = DOOR, %peer, "closed");
}

struct Reader {
    stream: Received<ReadHalf>,
    writer: Writer,
    /// To the task that writes the answers of requests that were executed elsewhere.
    outbox: mpsc::Sender<Outgoing>,
    answers: Answers,
    slots: Arc<Semaphore>,
    session: Arc<Session>,
    working: JoinSet<()>,
    /// Until idle cursors are closed next.
    sweep: Pin<Box<Sleep>>,
    received: Counter,
    context: Arc<Context>,
    shutdown: Shutdown,
}

impl Reader {
    /// The first frame, which must be a greeting in a version this server speaks.
    async fn greet(&mut self) -> Result<(), CloseReason> {
        let stall = self.context.limits.stall;
        let header = match tokio::time::timeout(stall, self.header()).await {
            Ok(header) => header?,
            Err(_) => {
                return Err(CloseReason::Protocol(Failure::new(ErrorCode::ProtocolError, "no greeting")));
            }
        };
        if header.opcode != opcode::HELLO || header.length > MAX_GREETING || header.flags != 0 {
            let message = "the first frame is not a greeting: see docs/native-protocol.md, or use the port for \
                           MongoDB drivers";
            return Err(CloseReason::Protocol(Failure::new(ErrorCode::ProtocolError, message)));
        }
        let mut body = Vec::new();
        self.fill(&mut body, header.length as usize).await?;
        let hello = Hello::read(&body).map_err(|malformed| CloseReason::Protocol(malformed.into()))?;
        if !(hello.oldest..=hello.newest).contains(&VERSION) {
            let message = format!(
                "this server speaks version {VERSION}, the client versions {} to {}: update the older of the two",
                hello.oldest, hello.newest
            );
            return Err(CloseReason::Protocol(Failure::new(ErrorCode::ProtocolError, message)));
        }
        let welcome = Welcome {
            version: VERSION,
            max_body: MAX_BODY,
            max_requests: MAX_REQUESTS as u32,
            server: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let out = self.answers.end();
        let done = frame::put(out, opcode::HELLO | ANSWER, 0, header.request, |out| welcome.answer(out));
        done.map_err(|malformed| CloseReason::Protocol(malformed.into()))?;
        self.flush().await
    }

    /// Every further frame.
    async fn serve(&mut self) -> CloseReason {
        loop {
            if let Err(end) = self.one().await {
                return end;
            }
        }
    }

    async fn one(&mut self) -> Result<(), CloseReason> {
        self.arrival().await?;
        let mut elsewhere = false;
        if let Some((header, statement)) = self.runs_here() {
            threads::may_block().await;
            if self.run_here(header, statement).await? {
                return Ok(());
            }
            elsewhere = true;
        }
        let header = self.header().await?;
        self.check(&header)?;
        if self.slots.available_permits() == 0 {
            self.flush().await?;
        }
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
            return Err(CloseReason::Broken(io::ErrorKind::BrokenPipe.into()));
        };
        // Those before it may have waited, and been given up.
        if self.session.client_hung_up() {
            return Err(CloseReason::Peer);
        }
        let length = header.length as usize;
        let mut body = Vec::new();
        if header.opcode == opcode::PULL {
            self.fill(&mut body, length.min(MAX_GREETING as usize)).await?;
            if body.len() == length {
                return self.pull(header, &body).await;
            }
        }
        self.fill(&mut body, length.min(FREE_BYTES)).await?;
        let reserved = self.context.reserve(length + self.session.builds(&header, &body)).await;
        self.fill(&mut body, length).await?;
        self.received.inc_by((HEADER + length) as u64);
        let alone = self.slots.available_permits() == MAX_REQUESTS - 1 && self.stream.unread().is_empty();
        let session = &self.session;
        let statement = session.statement(&header, &body);
        let here = !elsewhere
            && (session.is_quick(&header, statement.as_deref())
                || alone && session.is_short(&header, &body, statement.as_deref()));
        let mut work =
            PendingRequest { header, body, statement, slot, reserved, session: Arc::clone(session) };
        if here {
            threads::may_block().await;
            work = match work.run(&self.context, Place::Reader) {
                Ok(done) => {
                    let done = done.reserve(&self.context).await;
                    let long = done.bytes.len() > UNRESERVED_BYTES;
                    self.answers.end().extend_from_slice(&done.bytes);
                    self.answers.held.push((done._request, done._reserved));
                    return self.answered(long).await;
                }
                Err(work) => work,
            };
        }
        // Completed tasks are removed, so that the set does not grow.
        while self.working.try_join_next().is_some() {}
        let (context, outbox) = (Arc::clone(&self.context), self.outbox.clone());
        self.working.spawn(async move {
            let began = Instant::now();
            let (writing, waited) = match work.admit(&context).await {
                Ok(admitted) => admitted,
                Err(error) => {
                    let name = opcode::name(work.header.opcode);
                    context.metrics.observe(DOOR, name, began.elapsed(), true);
                    let _ = outbox.send(work.refuse(&error).reserve(&context).await).await;
                    return;
                }
            };
            let run = {
                let context = Arc::clone(&context);
                tokio::task::spawn_blocking(move || {
                    let done = work.run(&context, Place::Own(waited.as_ref()));
                    // Its answer may have to wait for the client.
                    drop((writing, waited));
                    done
                })
            };
            if let Ok(Ok(done)) = run.await {
                // Without a writer the connection is closed, and the answer is dropped.
                let _ = outbox.send(done.reserve(&context).await).await;
            }
        });
        if self.next_frame().is_some() { Ok(()) } else { self.flush().await }
    }

    /// Begins to send the batches of a cursor.
    async fn pull(&mut self, header: Header, body: &[u8]) -> Result<(), CloseReason> {
        self.received.inc_by((HEADER + body.len()) as u64);
        let way = pull::Way {
            session: Arc::clone(&self.session),
            context: Arc::clone(&self.context),
            outbox: self.outbox.clone(),
            shutdown: self.shutdown.clone(),
        };
        let begun = match Request::read(&header, body) {
            Ok(Some(Request::Pull(request))) => {
                pull::begin(&way, &header, &request).map(|begun| (request, begun))
            }
            Ok(_) => Err(Failure::new(ErrorCode::InternalError, "no pull")),
            Err(malformed) => Err(malformed.into()),
        };
        while self.working.try_join_next().is_some() {}
        match begun {
            Ok((request, begun)) => {
                self.working.spawn(pull::run(way, header, request, begun));
                if self.next_frame().is_some() { Ok(()) } else { self.flush().await }
            }
            Err(error) => {
                encode_error(&error, 0, header.request, self.answers.end());
                self.answered(false).await
            }
        }
    }

    /// The header of the frame that begins the buffer, if all of it is there, and it is to be executed here.
    fn runs_here(&self) -> Option<(Header, Option<Arc<Statement>>)> {
        let (header, body) = self.next_frame()?;
        self.check(&header).ok()?;
        let free = self.slots.available_permits();
        let alone = || free == MAX_REQUESTS && self.stream.unread().len() == HEADER + body.len();
        let statement = self.session.statement(&header, body);
        let here = free > 0
            && (self.session.is_quick(&header, statement.as_deref())
                || alone() && self.session.is_short(&header, body, statement.as_deref()));
        here.then_some((header, statement))
    }

    /// Executes the frame that begins the buffer, which [`Self::runs_here`] has found. False if it is still there, to be executed on a thread
    /// of its own.
    async fn run_here(
        &mut self,
        header: Header,
        statement: Option<Arc<Statement>>,
    ) -> Result<bool, CloseReason> {
        let length = HEADER + header.length as usize;
        let body = self.stream.unread().get(HEADER..length).unwrap_or_default();
        let out = self.answers.end();
        let before = out.len();
        let place = Place::Reader;
        if !answer(&self.session, &self.context, &header, body, statement.as_deref(), place, out) {
            return Ok(false);
        }
        let added = self.answers.bytes.len() - before;
        self.stream.consume(length);
        self.received.inc_by(length as u64);
        let long = added > UNRESERVED_BYTES;
        if long {
            self.answers.held.push((None, Some(self.context.reserve(added).await)));
        }
        self.answered(long).await.map(|()| true)
    }

    /// One more answer: sends those there are if it is `long`, there are many, or nothing more has arrived.
    async fn answered(&mut self, long: bool) -> Result<(), CloseReason> {
        self.answers.count += 1;
        if long || self.answers.count >= MAX_REQUESTS / 2 || self.next_frame().is_none() {
            return self.flush().await;
        }
        Ok(())
    }

    /// Refuses a frame that ends the connection.
    fn check(&self, header: &Header) -> Result<(), CloseReason> {
        let longest = if self.session.is_trusted() { MAX_BODY } else { FREE_BYTES as u32 };
        header.within(longest).map_err(|malformed| CloseReason::Protocol(malformed.into()))?;
        if header.request == 0 {
            let message = "request id 0 means the connection itself: a request cannot have it";
            return Err(CloseReason::Protocol(Failure::new(ErrorCode::ProtocolError, message)));
        }
        Ok(())
    }

    /// Before a read: does not wait on a thread while other requests than this one are in progress (with fewer than `free` slots), because
    /// their answers are written meanwhile, and the two directions share a lock.
    fn share(&self, free: usize) {
        if self.slots.available_permits() < free || self.session.pulls.any() {
            threads::stop_lingering();
        }
    }

    /// The next frame, if it has arrived in full.
    fn next_frame(&self) -> Option<(Header, &[u8])> {
        let (header, rest) = self.stream.unread().split_first_chunk::<HEADER>()?;
        let header = Header::from_bytes(header);
        Some((header, rest.get(..header.length as usize)?))
    }

    /// Sends the answers of the requests that were executed here.
    async fn flush(&mut self) -> Result<(), CloseReason> {
        if self.answers.bytes.is_empty() {
            return Ok(());
        }
        self.writer.write(&self.answers.bytes).await?;
        self.answers.clear();
        Ok(())
    }

    /// Closes cursors that have been idle for too long, if it is time to look for them.
    fn close_idle(&mut self) {
        let now = tokio::time::Instant::now();
        if now < self.sweep.deadline() {
            return;
        }
        self.sweep.as_mut().reset(now + between_sweeps(&self.context));
        let closed = self.session.close_idle(self.context.limits.cursor_idle);
        if closed > 0 {
            tracing::debug!(door = DOOR, closed, "closed idle cursors");
        }
    }

    /// Waits without limit for the first byte of a frame.
    async fn arrival(&mut self) -> Result<(), CloseReason> {
        if self.session.client_hung_up() {
            return Err(CloseReason::Peer);
        }
        // Also of a connection on which requests arrive all the time.
        self.close_idle();
        // With a full pipeline the next header has been read already.
        if self.stream.unread().is_empty() {
            self.share(MAX_REQUESTS);
        }
        // On a thread that waits for the peer nothing else is in progress: there is only the socket to look at.
        if threads::lingers() && self.session.is_trusted() && !self.shutdown.is_shutting_down() {
            match stall::at_once(self.stream.fill_buf()).await {
                Some(Ok([])) => return Err(CloseReason::Peer),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(_)) | None => {}
            }
        }
        let mut idle_since = None;
        while self.stream.unread().is_empty() {
            let trusted = self.session.is_trusted();
            let give_up = async {
                let since = *idle_since.get_or_insert_with(tokio::time::Instant::now);
                tokio::time::sleep_until(since + UNAUTHENTICATED_IDLE).await;
            };
            tokio::select! {
                biased;
                () = self.shutdown.requested() => return Err(CloseReason::Shutdown),
                () = self.outbox.closed() => return Err(CloseReason::Broken(io::ErrorKind::BrokenPipe.into())),
                read = self.stream.fill_buf() => match read? {
                    [] => return Err(CloseReason::Peer),
                    _ => break,
                },
                () = give_up, if !trusted => {
                    let error = Failure::new(ErrorCode::Unauthorized, "idle without authentication");
                    return Err(CloseReason::Protocol(error));
                }
                () = self.sweep.as_mut() => self.close_idle(),
            }
        }
        if self.shutdown.is_shutting_down() {
            return Err(CloseReason::Shutdown);
        }
        Ok(())
    }

    /// Reads a frame's header: waits as [`Self::arrival`] for its first byte, and at most the stall limit for the rest.
    async fn header(&mut self) -> Result<Header, CloseReason> {
        self.arrival().await?;
        // Its first bytes may have arrived with the frame before it.
        self.share(MAX_REQUESTS);
        let stall = self.context.limits.stall;
        let mut bytes = [0; HEADER];
        let read = stall::read_exact(&mut self.stream, &mut bytes, stall);
        self.shutdown.within_grace(read).await.ok_or(CloseReason::Shutdown)??;
        Ok(Header::from_bytes(&bytes))
    }

    /// Reads until `body` has `length` bytes.
    async fn fill(&mut self, body: &mut Vec<u8>, length: usize) -> Result<(), CloseReason> {
        let stall = self.context.limits.stall;
        self.share(MAX_REQUESTS - 1);
        threads::message_begins();
        let filled = stall::fill(&mut self.stream, body, length, stall);
        self.shutdown.within_grace(filled).await.ok_or(CloseReason::Shutdown)??;
        threads::message_ends();
        Ok(())
    }

    /// Lets the requests in progress finish, and sends the last error.
    async fn finish(mut self, last_error: Option<Failure>) {
        // As with the last error: if they cannot be sent, nobody is there to read them.
        let _ = self.flush().await;
        self.session.pulls.disconnect();
        while self.working.join_next().await.is_some() {}
        if let Some(error) = last_error {
            let mut bytes = Vec::new();
            encode_error(&error, CLOSING, 0, &mut bytes);
            // The writer may be gone already; then the error cannot be sent.
            let _ = self.outbox.send(Outgoing { bytes, _request: None, _reserved: None, _pull: None }).await;
        }
    }
}

/// How often to look for idle cursors.
fn between_sweeps(context: &Context) -> Duration {
    (context.limits.cursor_idle / 4).max(Duration::from_millis(10))
}

/// A request to be executed, with its slot among the concurrent ones.
struct PendingRequest {
    header: Header,
    body: Vec<u8>,
    statement: Option<Arc<Statement>>,
    slot: OwnedSemaphorePermit,
    reserved: Reserved,
    session: Arc<Session>,
}

/// An executed request.
struct CompletedRequest {
    bytes: Vec<u8>,
    slot: OwnedSemaphorePermit,
}

/// Executes a request and appends the frame of its answer. May wait for the disk. False if it is to be executed on a thread of its own, which
/// happens only to those that are executed by the reader.
fn answer(
    session: &Session,
    context: &Context,
    header: &Header,
    body: &[u8],
    statement: Option<&Statement>,
    place: Place<'_>,
    out: &mut Vec<u8>,
) -> bool {
    let _writing = match session.is_write(header, statement) && place.is_reader() {
        true => match context.write_lock.try_enter(false) {
            // It waits elsewhere until writes are no longer locked out.
            None => return false,
            writing => writing,
        },
        false => None,
    };
    let (started, before) = (Instant::now(), out.len());
    let done = catch_unwind(AssertUnwindSafe(|| session.answer(header, body, statement, place, out)));
    let done = done.unwrap_or_else(|_| {
        out.truncate(before);
        encode_error(&Failure::bug(), 0, header.request, out);
        Some(true)
    });
    let Some(failed) = done else { return false };
    let took = started.elapsed();
    session.note(header, statement, took);
    context.metrics.observe(DOOR, opcode::name(header.opcode), took, failed);
    true
}

impl PendingRequest {
    /// Lets it begin if it writes, unless writes are locked out: then it waits, as others can see, as long as nobody tells it to stop and its client
    /// is there.
    ///
    /// # Errors
    /// `Interrupted`, `ClientDisconnect`, `ExceededMemoryLimit` if what waits holds too much memory; those of what the client may do, which is
    /// known before it waits.
    async fn admit(&self, context: &Arc<Context>) -> Result<(Option<Writing>, Option<Waiting>), Failure> {
        let statement = self.statement.as_deref();
        // A stranger's is refused, and must not wait before that.
        if !(self.session.is_trusted() && self.session.is_write(&self.header, statement)) {
            return Ok((None, None));
        }
        if let Some(writing) = context.write_lock.try_enter(false) {
            return Ok((Some(writing), None));
        }
        let waits = || self.session.waits(&self.header, &self.body, statement);
        let waiting = catch_unwind(AssertUnwindSafe(waits)).unwrap_or_else(|_| Err(Failure::bug()))?;
        let held = (self.reserved.bytes(), context.locked_out_bytes());
        let writing = context.write_lock.enter_while(false, held, || waiting.check()).await?;
        Ok((Some(writing), Some(waiting)))
    }

    /// Executes it. May wait for the disk. Gives it back if it is to be executed on a thread of its own.
    fn run(self, context: &Context, place: Place<'_>) -> Result<CompletedRequest, PendingRequest> {
        let mut bytes = Vec::new();
        let statement = self.statement.as_deref();
        if !answer(&self.session, context, &self.header, &self.body, statement, place, &mut bytes) {
            return Err(self);
        }
        let PendingRequest { body, slot, reserved, .. } = self;
        // The request's share of the budget is returned before one is reserved for the answer: holding one while waiting for
        // the other could deadlock.
        drop((body, reserved));
        Ok(CompletedRequest { bytes, slot })
    }

    /// Answers it with an error.
    fn refuse(self, error: &Failure) -> CompletedRequest {
        let mut bytes = Vec::new();
        encode_error(error, 0, self.header.request, &mut bytes);
        CompletedRequest { bytes, slot: self.slot }
    }
}

impl CompletedRequest {
    async fn reserve(self, context: &Arc<Context>) -> Outgoing {
        let bytes = self.bytes;
        let reserved =
            if bytes.len() > UNRESERVED_BYTES { Some(context.reserve(bytes.len()).await) } else { None };
        Outgoing { bytes, _request: Some(self.slot), _reserved: reserved, _pull: None }
    }
}

/// Writes answers until every sender is gone, or the peer does not read them.
async fn write_answers(mut writer: Writer, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(first) = queue.recv().await {
        let mut length = first.bytes.len();
        let mut ready = vec![first];
        while length < WRITE_BYTES
            && let Ok(next) = queue.try_recv()
        {
            length += next.bytes.len();
            ready.push(next);
        }
        let written = match ready.as_slice() {
            [one] => writer.write(&one.bytes).await,
            several => {
                let joined =
                    several.iter().map(|answer| answer.bytes.as_slice()).collect::<Vec<_>>().concat();
                writer.write(&joined).await
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// Sends answers: those of requests that the reader executed, and those in the queue.
#[derive(Clone)]
struct Writer {
    stream: Arc<Mutex<WriteHalf>>,
    sent: Counter,
    stall: Duration,
    shutdown: Shutdown,
}

impl Writer {
    /// Sends answers.
    ///
    /// # Errors
    /// The connection is broken, or the peer does not read.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.stream.lock().await;
        let written = self.shutdown.within_grace(stall::write(&mut *stream, bytes, self.stall)).await;
        written.unwrap_or(Err(TransferError::Stalled))?;
        self.sent.inc_by(bytes.len() as u64);
        Ok(())
    }
}
