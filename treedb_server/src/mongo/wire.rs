//! Messages on the socket.
//!
//! A message is a header of four little-endian int32 (length including the header, request id, id of the answered
//! request, opcode) and a body. The length in a header does not allocate memory: the buffer grows as bytes arrive, and
//! beyond the first [`FREE_BYTES`] only within the server's byte budget.
//!
//! This is not a `tokio_util::codec::Decoder`: a decoder cannot wait for the budget between the header and the body, and
//! `Framed` yields complete frames only, so that the limit on stalls, which applies to every part of a message, would
//! become a limit on whole messages.

use std::sync::Arc;

use tokio::io::AsyncRead;

use super::compression;
use crate::config::{FREE_BYTES, MAX_MESSAGE_BYTES};
use crate::context::{Context, Reserved};
use crate::stall::{self, TransferError};

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 16;
/// The reply to [`OP_QUERY`].
pub(crate) const OP_REPLY: i32 = 1;
/// The legacy query, still used for the first message of a connection.
pub(crate) const OP_QUERY: i32 = 2004;
/// A compressed message, see [`super::compression`].
pub(crate) const OP_COMPRESSED: i32 = 2012;
/// The modern message.
pub(crate) const OP_MSG: i32 = 2013;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of the message, header included.
    pub(crate) length: usize,
    /// The sender's number for it.
    pub(crate) request_id: i32,
    /// What the body is.
    pub(crate) opcode: i32,
}

/// Why a message could not be read. The connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The connection broke or ended inside a message, or the peer stalled.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The length in the header is impossible.
    #[error("message length {0} is not between {HEADER_BYTES} and {MAX_MESSAGE_BYTES} bytes")]
    Length(i32),
    /// A browser, or another program that speaks HTTP.
    #[error("an HTTP request")]
    Http,
    /// A client that begins TLS.
    #[error("the beginning of TLS, without which this server was started: see --tls-certificate")]
    Tls,
    /// The message is longer than those of a client that has not authenticated may be.
    #[error("a message of {0} bytes before authentication: at most {FREE_BYTES} are read")]
    BeforeAuthentication(usize),
}

impl Header {
    /// Reads a header; the length is checked against the limits.
    pub(crate) fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let field = |at: usize| {
            let mut four = [0; 4];
            four.copy_from_slice(bytes.get(at..at + 4).unwrap_or(&[0; 4]));
            i32::from_le_bytes(four)
        };
        let length = field(0);
        if matches!(&bytes[..4], b"GET " | b"HEAD" | b"POST" | b"PUT " | b"DELE" | b"OPTI") {
            return Err(WireError::Http);
        }
        let opcode = field(12);
        // A record of TLS with a handshake. Taken for a length, its first bytes would be waited for; as a message it has no opcode.
        if matches!(bytes[..3], [0x16, 0x03, 0..=4]) && !matches!(opcode, OP_QUERY | OP_COMPRESSED | OP_MSG) {
            return Err(WireError::Tls);
        }
        match usize::try_from(length) {
            Ok(length) if (HEADER_BYTES..=MAX_MESSAGE_BYTES).contains(&length) => {
                Ok(Header { length, request_id: field(4), opcode })
            }
            _ => Err(WireError::Length(length)),
        }
    }

    /// A header's bytes.
    pub(crate) fn bytes(length: usize, request_id: i32, response_to: i32, opcode: i32) -> [u8; HEADER_BYTES] {
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        let mut bytes = [0; HEADER_BYTES];
        for (to, field) in bytes.chunks_exact_mut(4).zip([length, request_id, response_to, opcode]) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

/// A message as received, with its share of the budget.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its header.
    pub(crate) header: Header,
    /// All of its bytes, header included (a checksum covers it).
    pub(crate) bytes: Vec<u8>,
    /// Its share of the budget, held until the command is done.
    pub(crate) reserved: Option<Reserved>,
}

/// Reads one message, whose first byte has arrived. Of a client that is not `trusted`, only a short one.
pub(crate) async fn read(
    reader: &mut (impl AsyncRead + Unpin),
    context: &Arc<Context>,
    trusted: bool,
) -> Result<Message, WireError> {
    let stall = context.limits.stall;
    let mut header = [0; HEADER_BYTES];
    stall::read_exact(reader, &mut header, stall).await?;
    let parsed = Header::parse(header)?;
    if !trusted && parsed.length > FREE_BYTES {
        return Err(WireError::BeforeAuthentication(parsed.length));
    }
    let mut bytes = Vec::with_capacity(parsed.length.min(FREE_BYTES));
    bytes.extend_from_slice(&header);
    stall::fill(reader, &mut bytes, parsed.length.min(FREE_BYTES), stall).await?;
    let mut reserved = None;
    // Its share of the budget covers the inflated message too: waiting for a second share while holding the first could deadlock.
    let inflated = if parsed.opcode == OP_COMPRESSED { compression::announced(&bytes) } else { 0 };
    if !trusted && parsed.length + inflated > FREE_BYTES {
        return Err(WireError::BeforeAuthentication(parsed.length + inflated));
    }
    if parsed.length + inflated > FREE_BYTES {
        reserved = Some(context.reserve(parsed.length + inflated).await);
        stall::fill(reader, &mut bytes, parsed.length, stall).await?;
    }
    Ok(Message { header: parsed, bytes, reserved })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::time::timeout;

    use super::*;
    use crate::config::Limits;
    use crate::context::tests::context;

    fn header(length: i32) -> [u8; HEADER_BYTES] {
        let mut bytes = Header::bytes(0, 7, 0, OP_MSG);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn a_length_outside_the_limits_is_refused_before_anything_is_allocated() {
        for length in [i32::MIN, -1, 0, 15, 48_000_001, i32::MAX] {
            assert!(matches!(Header::parse(header(length)), Err(WireError::Length(l)) if l == length));
        }
        for length in [16, 48_000_000] {
            assert_eq!(Header::parse(header(length)).unwrap().length, length as usize);
        }
    }

    #[test]
    fn the_beginning_of_tls_is_not_taken_for_a_long_message() {
        // Version, length of the record, type and length of the handshake, its version, random bytes.
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5];
        assert!(matches!(Header::parse(hello), Err(WireError::Tls)));
        // A message may have such a length.
        let message = Header::bytes(0x0001_0316, 1, 0, OP_MSG);
        assert_eq!(message[..3], hello[..3]);
        assert_eq!(Header::parse(message).unwrap().length, 0x0001_0316);
    }

    #[tokio::test]
    async fn a_message_that_ends_early_is_an_error_and_not_a_wait() {
        let (context, _dir) = context(Limits::default());
        let bytes = header(100);
        let error = read(&mut &bytes[..], &context, true).await.unwrap_err();
        let WireError::Transfer(TransferError::Io(error)) = error else { panic!("{error}") };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_sender_that_stalls_holds_no_budget_and_is_dropped() {
        let (context, _dir) = context(Limits { stall: Duration::from_millis(100), ..Limits::default() });
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        client.write_all(&header(48_000_000)).await.unwrap();
        let reading = read(&mut server, &context, true);
        let mut reading = std::pin::pin!(reading);
        assert!(timeout(Duration::from_millis(20), reading.as_mut()).await.is_err());
        assert_eq!(context.metrics.inflight.get(), 0);
        assert!(matches!(reading.await, Err(WireError::Transfer(TransferError::Stalled))));
    }
}
