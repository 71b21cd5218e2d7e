//! One connection: reads a message, runs its command and sends the reply, until either side closes it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use super::commands;
use super::compression::{self, Compressor, Compressors};
use super::op_msg::{self, OpMsg};
use super::op_query;
use super::streaming;
use super::wire::{self, Message, OP_COMPRESSED, OP_MSG, OP_QUERY, WireError};
use crate::access::identity::Identity;
use crate::config::{FREE_BYTES, UNAUTHENTICATED_IDLE};
use crate::context::{Context, Reserved};
use crate::metrics::Door;
use crate::operations::{self, Connection, Slots};
use crate::received::Received;
use crate::shutdown::Shutdown;
use crate::stall;
use crate::stream::Stream;
use crate::threads;

/// Bytes of what a client may say of itself, as in MongoDB.
const CLIENT_BYTES: usize = 512;

/// The connection that a command came from.
#[derive(Debug)]
pub(crate) struct Session {
    /// Number of the connection since the server started.
    pub(crate) id: i32,
    /// Who the client is.
    pub(crate) identity: Identity,
    /// What it runs.
    pub(crate) operation: Slots,
    /// What the client says of itself in its first `hello`.
    client: OnceLock<RawDocumentBuf>,
    /// The compressors that `hello` has agreed to, as bits.
    compressors: AtomicU8,
    /// A failpoint has closed it.
    hangs_up: AtomicBool,
    /// The client has closed its side.
    client_hung_up: AtomicBool,
    replies: AtomicI32,
}

impl Session {
    /// That of nobody, whose certificate has this subject.
    pub(crate) fn new(id: i32, peer: SocketAddr, subject: Option<String>) -> Self {
        Self::of(id, Identity::new(peer).certified(subject))
    }

    /// That of somebody who is known already.
    pub(crate) fn of(id: i32, identity: Identity) -> Self {
        Session {
            id,
            identity,
            operation: Slots::default(),
            client: OnceLock::new(),
            compressors: AtomicU8::new(0),
            hangs_up: AtomicBool::new(false),
            client_hung_up: AtomicBool::new(false),
            replies: AtomicI32::new(1),
        }
    }

    /// Keeps what the client says of itself; only the first time, as MongoDB does.
    pub(crate) fn introduce(&self, client: &RawDocument) {
        if client.as_bytes().len() <= CLIENT_BYTES {
            let _ = self.client.set(client.to_owned());
        }
    }

    /// The name of the program that the client is, if it has given one.
    pub(crate) fn app_name(&self) -> Option<&str> {
        operations::app_name(self)
    }

    /// Tells whatever it runs to stop.
    pub(crate) fn kill_running(&self) {
        self.operation.kill_all();
    }

    /// The compressors that `hello` has agreed to.
    fn compressors(&self) -> Compressors {
        Compressors::from_bits(self.compressors.load(Ordering::Relaxed))
    }

    /// Sets them.
    pub(crate) fn set_compressors(&self, compressors: Compressors) {
        self.compressors.store(compressors.bits(), Ordering::Relaxed);
    }

    /// Closes the connection instead of answering its command.
    pub(crate) fn hang_up(&self) {
        self.hangs_up.store(true, Ordering::Relaxed);
    }

    fn hangs_up(&self) -> bool {
        self.hangs_up.load(Ordering::Relaxed)
    }

    /// Whether the client has closed its side, as far as a command knows that has waited.
    pub(crate) fn client_hung_up(&self) -> bool {
        self.client_hung_up.load(Ordering::Relaxed)
    }

    fn next_reply(&self) -> i32 {
        self.replies.fetch_add(1, Ordering::Relaxed)
    }
}

impl Connection for Session {
    fn number(&self) -> i32 {
        self.id
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn metadata(&self) -> Option<&RawDocument> {
        self.client.get().map(|client| &**client)
    }

    fn slots(&self) -> &Slots {
        &self.operation
    }
}

/// What to do after a message.
struct Answer {
    bytes: Option<Vec<u8>>,
    keep_open: bool,
    /// A command to run again: the client takes more replies.
    again: Option<Command>,
}

/// A command to run.
struct Command {
    request: OpMsg,
    /// The message that it answers.
    to: i32,
    /// How it was compressed.
    compressor: Option<Compressor>,
}

/// What a browser is told.
const HTTP_REPLY: &[u8] =
    b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 85\r\n\r\n\
It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n";

/// Serves one connection until the peer closes it, violates the protocol, or the server shuts down.
pub(crate) async fn connection(
    stream: Stream,
    peer: SocketAddr,
    context: Arc<Context>,
    mut shutdown: Shutdown,
) {
    let session = Arc::new(Session::new(context.next_connection(), peer, stream.peer_subject()));
    let _listed = context.operations.list(&session);
    let door = Door { door: "mongo" };
    let received: Counter = context.metrics.received.get_or_create_owned(&door);
    let sent: Counter = context.metrics.sent.get_or_create_owned(&door);
    tracing::debug!(connection = session.id, %peer, "mongo connection opened");
    let mut stream = Received::new(stream);
    'messages: loop {
        let trusted = context.access.trusts(&session.identity);
        // On a thread that waits for the peer there is only the socket to look at.
        let lingers = trusted && threads::lingers() && !shutdown.is_shutting_down();
        let first = if lingers { stall::at_once(stream.fill_buf()).await } else { None };
        let first = first.map(|arrived| arrived.map(|bytes| !bytes.is_empty()));
        let arrived = match first {
            Some(arrived) => arrived,
            None => tokio::select! {
                biased;
                () = shutdown.requested() => break,
                arrived = stream.fill_buf() => arrived.map(|bytes| !bytes.is_empty()),
                () = tokio::time::sleep(UNAUTHENTICATED_IDLE), if !trusted => {
                    tracing::debug!(connection = session.id, %peer, "closing: idle without authentication");
                    break;
                }
            },
        };
        match arrived {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                tracing::debug!(connection = session.id, %error, "connection broke");
                break;
            }
        }
        threads::message_begins();
        let message = shutdown.within_grace(wire::read(&mut stream, &context, trusted)).await;
        threads::message_ends();
        let message = match message {
            Some(Ok(message)) => message,
            None => break,
            Some(Err(error)) => {
                context.metrics.protocol_errors.get_or_create(&door).inc();
                tracing::debug!(connection = session.id, %peer, %error, "closing: no message");
                if matches!(error, WireError::Http) {
                    let _ = stall::write(stream.stream(), HTTP_REPLY, context.limits.stall).await;
                }
                break;
            }
        };
        received.inc_by(message.bytes.len() as u64);
        let answered = answer(message, &context, &session, &mut shutdown);
        let mut next = while_watched(answered, stream.peek(), &session).await;
        let keep_open = loop {
            let Answer { bytes, keep_open, again } = next;
            if let Some(bytes) = bytes {
                sent.inc_by(bytes.len() as u64);
                // Long answers count against the byte budget until they are written.
                let _reserved =
                    if bytes.len() > FREE_BYTES { Some(context.reserve(bytes.len()).await) } else { None };
                let written =
                    shutdown.within_grace(stall::write(stream.stream(), &bytes, context.limits.stall)).await;
                if let Some(Err(error)) = &written {
                    tracing::debug!(connection = session.id, %error, "closing: the answer was not read");
                }
                if !matches!(written, Some(Ok(()))) {
                    break 'messages;
                }
            }
            match again.filter(|_| !shutdown.is_shutting_down()) {
                Some(again) => next = respond(again, None, &context, &session, &mut shutdown).await,
                None => break keep_open,
            }
        };
        if !keep_open {
            if !session.hangs_up() {
                context.metrics.protocol_errors.get_or_create(&door).inc();
            }
            break;
        }
    }
    // Through TLS, tells the peer that this is the end.
    let _ = tokio::time::timeout(context.limits.stall, stream.stream().shutdown()).await;
    tracing::debug!(connection = session.id, "mongo connection closed");
}

/// What comes of `answered`. Whenever it goes on after it has waited, it is noted before if the client has closed its side.
async fn while_watched(answered: impl Future<Output = Answer>, stream: &Stream, session: &Session) -> Answer {
    let mut answered = pin!(answered);
    // Most commands never wait, and nobody looks.
    if let Some(answer) = stall::at_once(answered.as_mut()).await {
        return answer;
    }
    poll_fn(|context| {
        if stream.is_closed_by_peer() {
            session.client_hung_up.store(true, Ordering::Relaxed);
        }
        answered.as_mut().poll(context)
    })
    .await
}

async fn answer(
    message: Message,
    context: &Arc<Context>,
    session: &Arc<Session>,
    shutdown: &mut Shutdown,
) -> Answer {
    let to = message.header.request_id;
    let msg = |reply: &RawDocumentBuf| op_msg::message(session.next_reply(), to, reply);
    let (message, compressor) = if message.header.opcode == OP_COMPRESSED {
        match compression::inflate(message, session.compressors()).await {
            Ok((message, compressor)) => (message, Some(compressor)),
            Err(error) => {
                tracing::debug!(
                    connection = session.id,
                    error = error.message,
                    "closing: not to be inflated"
                );
                return Answer { bytes: Some(msg(&error.reply())), keep_open: false, again: None };
            }
        }
    } else {
        (message, None)
    };
    let Message { header, bytes, reserved } = message;
    match header.opcode {
        OP_MSG => match OpMsg::parse(bytes) {
            Ok(request) => {
                respond(Command { request, to, compressor }, reserved, context, session, shutdown).await
            }
            Err(malformed) => {
                tracing::debug!(
                    connection = session.id,
                    code = malformed.error.code,
                    error = malformed.error.message,
                    "malformed message"
                );
                let bytes = (!malformed.more_to_come).then(|| msg(&malformed.error.reply()));
                Answer { bytes, keep_open: malformed.keep_open, again: None }
            }
        },
        OP_QUERY => {
            let reply = match op_query::parse(&bytes) {
                Ok((database, command)) => commands::handshake(database, command, context, session),
                Err(error) => Err(error),
            };
            let (reply, failed) = match reply {
                Ok(reply) => (reply, false),
                Err(error) => (error.reply(), true),
            };
            let bytes = op_query::reply(session.next_reply(), to, &reply, failed);
            Answer { bytes: Some(bytes), keep_open: !failed, again: None }
        }
        other => {
            tracing::debug!(connection = session.id, opcode = other, "closing: unknown opcode");
            Answer { bytes: None, keep_open: false, again: None }
        }
    }
}

/// Runs a command, after the time that it asks to wait.
async fn respond(
    command: Command,
    reserved: Option<Reserved>,
    context: &Arc<Context>,
    session: &Arc<Session>,
    shutdown: &mut Shutdown,
) -> Answer {
    let Command { request, to, compressor } = command;
    let silent = request.more_to_come;
    let wait = streaming::wait_of_hello(&request, context);
    let again = streaming::may_be_repeated(&request, wait).then(|| request.clone());
    let began = Instant::now();
    if let Some(wait) = wait {
        tokio::select! {
            () = shutdown.requested() => return Answer { bytes: None, keep_open: true, again: None },
            () = tokio::time::sleep(wait) => {}
        }
    }
    let compressor = compressor.filter(|_| compression::may_compress(request.body()));
    let reply = commands::run(request, context, session, reserved).await;
    if session.hangs_up() {
        return Answer { bytes: None, keep_open: false, again: None };
    }
    if silent {
        return Answer { bytes: None, keep_open: true, again: None };
    }
    let id = session.next_reply();
    let again = again.filter(|request| streaming::is_repeated(request, &reply, began.elapsed()));
    let bytes = op_msg::reply(id, to, again.is_some(), &reply);
    let bytes = match compressor {
        Some(compressor) => compression::deflate(bytes, compressor),
        None => bytes,
    };
    // Each reply answers the one before it.
    let again = again.map(|request| Command { request, to: id, compressor });
    Answer { bytes: Some(bytes), keep_open: true, again }
}
