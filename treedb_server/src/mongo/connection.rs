//! One connection: reads a message, runs its command and sends the reply, until either side closes it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bson::RawDocumentBuf;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::commands;
use super::error::CommandError;
use super::op_msg::{self, OpMsg};
use super::op_query;
use super::wire::{self, Message, OP_COMPRESSED, OP_MSG, OP_QUERY};
use crate::access::identity::Identity;
use crate::config::{FREE_BYTES, UNAUTHENTICATED_IDLE};
use crate::context::Context;
use crate::metrics::Door;
use crate::shutdown::Shutdown;
use crate::stream::Stream;

/// Large enough for most requests, so that a small one takes one read.
const READ_BUFFER: usize = 16 * 1024;

/// The connection that a command came from.
#[derive(Debug)]
pub(crate) struct Session {
    /// Number of the connection since the server started.
    pub(crate) id: i32,
    /// Who the client is.
    pub(crate) identity: Identity,
    replies: AtomicI32,
}

impl Session {
    pub(crate) fn new(id: i32, peer: SocketAddr) -> Self {
        Session { id, identity: Identity::new(peer), replies: AtomicI32::new(1) }
    }

    fn next_reply(&self) -> i32 {
        self.replies.fetch_add(1, Ordering::Relaxed)
    }
}

/// What to do after a message.
struct Answer {
    bytes: Option<Vec<u8>>,
    keep_open: bool,
}

/// Serves one connection until the peer closes it, violates the protocol, or the server shuts down.
pub(crate) async fn connection(
    stream: Stream,
    peer: SocketAddr,
    context: Arc<Context>,
    mut shutdown: Shutdown,
) {
    let session = Arc::new(Session::new(context.next_connection(), peer));
    let door = Door { door: "mongo" };
    let received: Counter = context.metrics.received.get_or_create_owned(&door);
    let sent: Counter = context.metrics.sent.get_or_create_owned(&door);
    tracing::debug!(connection = session.id, %peer, "mongo connection opened");
    let mut stream = BufReader::with_capacity(READ_BUFFER, stream);
    loop {
        let trusted = context.access.trusts(&session.identity);
        let arrived = tokio::select! {
            biased;
            () = shutdown.requested() => break,
            arrived = stream.fill_buf() => arrived.map(|bytes| !bytes.is_empty()),
            () = tokio::time::sleep(UNAUTHENTICATED_IDLE), if !trusted => {
                tracing::debug!(connection = session.id, %peer, "closing: idle without authentication");
                break;
            }
        };
        match arrived {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                tracing::debug!(connection = session.id, %error, "connection broke");
                break;
            }
        }
        let message = match shutdown.within_grace(wire::read(&mut stream, &context, trusted)).await {
            Some(Ok(message)) => message,
            None => break,
            Some(Err(error)) => {
                context.metrics.protocol_errors.get_or_create(&door).inc();
                tracing::debug!(connection = session.id, %peer, %error, "closing: no message");
                break;
            }
        };
        received.inc_by(message.bytes.len() as u64);
        let Answer { bytes, keep_open } = answer(message, &context, &session).await;
        if let Some(bytes) = bytes {
            sent.inc_by(bytes.len() as u64);
            // Long answers count against the byte budget until they are written.
            let _reserved =
                if bytes.len() > FREE_BYTES { Some(context.reserve(bytes.len()).await) } else { None };
            let written =
                shutdown.within_grace(wire::write(stream.get_mut(), &bytes, context.limits.stall)).await;
            if let Some(Err(error)) = &written {
                tracing::debug!(connection = session.id, %error, "closing: the answer was not read");
            }
            if !matches!(written, Some(Ok(()))) {
                break;
            }
        }
        if !keep_open {
            context.metrics.protocol_errors.get_or_create(&door).inc();
            break;
        }
    }
    // Through TLS, tells the peer that this is the end.
    let _ = tokio::time::timeout(context.limits.stall, stream.get_mut().shutdown()).await;
    tracing::debug!(connection = session.id, "mongo connection closed");
}

async fn answer(message: Message, context: &Arc<Context>, session: &Arc<Session>) -> Answer {
    let Message { header, bytes, reserved } = message;
    let to = header.request_id;
    let msg = |reply: &RawDocumentBuf| op_msg::message(session.next_reply(), to, reply);
    match header.opcode {
        OP_MSG => match OpMsg::parse(bytes) {
            Ok(request) => {
                let silent = request.more_to_come;
                let reply = commands::run(request, context, session, reserved).await;
                Answer { bytes: (!silent).then(|| msg(&reply)), keep_open: true }
            }
            Err(malformed) => {
                tracing::debug!(
                    connection = session.id,
                    code = malformed.error.code,
                    error = malformed.error.message,
                    "malformed message"
                );
                let bytes = (!malformed.more_to_come).then(|| msg(&malformed.error.reply()));
                Answer { bytes, keep_open: malformed.keep_open }
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
            Answer { bytes: Some(bytes), keep_open: !failed }
        }
        OP_COMPRESSED => {
            let error = CommandError::protocol("OP_COMPRESSED was not negotiated: no compressor is offered");
            Answer { bytes: Some(msg(&error.reply())), keep_open: false }
        }
        other => {
            tracing::debug!(connection = session.id, opcode = other, "closing: unknown opcode");
            Answer { bytes: None, keep_open: false }
        }
    }
}
