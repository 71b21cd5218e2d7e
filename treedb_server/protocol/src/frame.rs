//! The frame: a header of 16 bytes, then the body.
//!
//! ```text
//! 0   u32  length of the body, in bytes
//! 4   u16  opcode
//! 6   u16  flags
//! 8   u64  request id
//! 16  ...  body
//! ```
//!
//! An answer has its request's opcode with the top bit set, and its request's id. An error frame has the opcode
//! `0xFFFF`; with the id of a request it answers that one, with [`CLOSING`] set it is the connection's last frame.

use crate::bytes::Malformed;

/// Bytes of a header.
pub const HEADER: usize = 16;

/// The longest frame, either way, in bytes: as long as MongoDB's longest message.
pub const MAX_FRAME: usize = 48_000_000;

/// The longest body of a frame, in bytes.
pub const MAX_BODY: u32 = (MAX_FRAME - HEADER) as u32;

/// The longest body of a greeting, in bytes: the first bytes of other protocols read as a greater length.
pub const MAX_GREETING: u32 = 64;

/// The most documents of one insert, or operations of one batch: MongoDB's write batch size.
pub const MAX_ITEMS: usize = 100_000;

/// First bytes of a greeting and of its answer.
pub const MAGIC: [u8; 8] = *b"TREEDB\r\n";

/// The version of the protocol that this code speaks.
pub const VERSION: u16 = 1;

/// Set in the opcode of an answer.
pub const ANSWER: u16 = 0x8000;

/// The opcode of an error frame.
pub const ERROR: u16 = 0xFFFF;

/// Flag of an error frame: the sender closes the connection after it.
pub const CLOSING: u16 = 1;

/// Flag of a frame of a pull's answer: another follows.
pub const MORE: u16 = 1;

/// Opcodes of requests.
pub mod opcode {
    /// Greeting: the first frame of a connection, and only that.
    pub const HELLO: u16 = 0x01;
    /// Sends the body back.
    pub const PING: u16 = 0x02;
    /// Begins to authenticate.
    pub const AUTHENTICATE: u16 = 0x03;
    /// Proves that the client knows a password.
    pub const PROVE: u16 = 0x04;
    /// Prepares a statement.
    pub const PREPARE: u16 = 0x05;
    /// Executes a statement.
    pub const EXECUTE: u16 = 0x06;
    /// Forgets a statement.
    pub const FORGET: u16 = 0x07;
    /// Inserts documents.
    pub const INSERT: u16 = 0x10;
    /// One document by its `_id`.
    pub const GET: u16 = 0x11;
    /// Documents by a filter: the first batch, and a cursor for the rest.
    pub const FIND: u16 = 0x12;
    /// The next batch of a cursor.
    pub const NEXT: u16 = 0x13;
    /// Closes a cursor.
    pub const CLOSE: u16 = 0x14;
    /// Changes documents.
    pub const UPDATE: u16 = 0x15;
    /// Deletes documents.
    pub const DELETE: u16 = 0x16;
    /// Counts documents.
    pub const COUNT: u16 = 0x17;
    /// The documents with the nearest vectors.
    pub const VECTOR_SEARCH: u16 = 0x18;
    /// Creates an index.
    pub const CREATE_INDEX: u16 = 0x19;
    /// The indexes of a collection.
    pub const LIST_INDEXES: u16 = 0x1A;
    /// Drops an index.
    pub const DROP_INDEX: u16 = 0x1B;
    /// Gives a search index another definition.
    pub const UPDATE_SEARCH_INDEX: u16 = 0x1C;
    /// The batches of a cursor, as long as there is credit.
    pub const PULL: u16 = 0x1D;
    /// Grants a pull more batches.
    pub const CREDIT: u16 = 0x1E;
    /// The value of a key.
    pub const KV_GET: u16 = 0x20;
    /// Sets the value of a key.
    pub const KV_PUT: u16 = 0x21;
    /// Deletes a key.
    pub const KV_DELETE: u16 = 0x22;
    /// Keys and values between two bounds.
    pub const KV_RANGE: u16 = 0x23;
    /// Puts and deletes that happen all or not at all.
    pub const KV_BATCH: u16 = 0x24;

    /// The request's name, for people and metrics; `unknown` for an opcode that does not exist.
    pub fn name(opcode: u16) -> &'static str {
        match opcode {
            HELLO => "hello",
            PING => "ping",
            AUTHENTICATE => "authenticate",
            PROVE => "prove",
            PREPARE => "prepare",
            EXECUTE => "execute",
            FORGET => "forget",
            INSERT => "insert",
            GET => "get",
            FIND => "find",
            NEXT => "next",
            CLOSE => "close",
            UPDATE => "update",
            DELETE => "delete",
            COUNT => "count",
            VECTOR_SEARCH => "vector_search",
            CREATE_INDEX => "create_index",
            LIST_INDEXES => "list_indexes",
            DROP_INDEX => "drop_index",
            UPDATE_SEARCH_INDEX => "update_search_index",
            PULL => "pull",
            CREDIT => "credit",
            KV_GET => "kv_get",
            KV_PUT => "kv_put",
            KV_DELETE => "kv_delete",
            KV_RANGE => "kv_range",
            KV_BATCH => "kv_batch",
            _ => "unknown",
        }
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body.
    pub length: u32,
    /// What the frame is.
    pub opcode: u16,
    /// Depends on the opcode.
    pub flags: u16,
    /// Chosen by the client for a request, repeated in its answer.
    pub request: u64,
}

impl Header {
    /// The header as it is sent.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let (length, rest) = bytes.split_at_mut(4);
        let (opcode, rest) = rest.split_at_mut(2);
        let (flags, request) = rest.split_at_mut(2);
        length.copy_from_slice(&self.length.to_le_bytes());
        opcode.copy_from_slice(&self.opcode.to_le_bytes());
        flags.copy_from_slice(&self.flags.to_le_bytes());
        request.copy_from_slice(&self.request.to_le_bytes());
        bytes
    }

    /// The header in `bytes`. Every bit pattern is one; whether it makes sense is for [`Header::within`] and the
    /// opcode's owner to say.
    pub fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Header {
            length: u32::from_le_bytes([a, b, c, d]),
            opcode: u16::from_le_bytes([e, f]),
            flags: u16::from_le_bytes([g, h]),
            request: u64::from_le_bytes([i, j, k, l, m, n, o, p]),
        }
    }

    /// Refuses a body longer than `limit` bytes.
    pub fn within(&self, limit: u32) -> Result<(), Malformed> {
        if self.length <= limit {
            return Ok(());
        }
        Err(Malformed {
            field: "length",
            offset: 0,
            what: format!("a body of {} bytes is over the limit of {limit}", self.length),
        })
    }
}

/// Appends a whole frame to `out`; `body` appends the body.
///
/// Errors: what `body` returned, or a body over [`MAX_BODY`]; `out` is then as it was.
pub fn put<E: From<Malformed>>(
    out: &mut Vec<u8>,
    opcode: u16,
    flags: u16,
    request: u64,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let done = body(out).and_then(|()| {
        let length = u32::try_from(out.len() - start - HEADER).unwrap_or(u32::MAX);
        let header = Header { length, opcode, flags, request };
        header.within(MAX_BODY)?;
        if let Some(place) = out.get_mut(start..start + HEADER) {
            place.copy_from_slice(&header.to_bytes());
        }
        Ok(())
    });
    if done.is_err() {
        out.truncate(start);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was_sent() {
        let header =
            Header { length: 0x0102_0304, opcode: 0x8011, flags: 0x0506, request: 0x1122_3344_5566_7788 };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [4, 3, 2, 1, 0x11, 0x80, 6, 5, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(Header::from_bytes(&bytes), header);
    }

    #[test]
    fn a_frame_that_cannot_be_written_leaves_nothing_behind() {
        let mut out = vec![1, 2, 3];
        let too_long = put(&mut out, opcode::PING, 0, 1, |out| {
            out.resize(out.len() + MAX_BODY as usize + 1, 0);
            Ok::<(), Malformed>(())
        });
        assert_eq!(too_long.unwrap_err().what, "a body of 47999985 bytes is over the limit of 47999984");
        assert_eq!(out, [1, 2, 3]);
        put(&mut out, opcode::PING, 0, 9, |out| {
            out.push(5);
            Ok::<(), Malformed>(())
        })
        .unwrap();
        assert_eq!(out.len(), 3 + HEADER + 1);
    }

    #[test]
    fn the_first_bytes_of_other_protocols_are_over_the_greetings_limit() {
        for first in
            ["GET / HTTP/1.1\r\n", "\x16\x03\x01\x02\0\x01\0\x01\u{7c}\x03\x03abcdef", "SSH-2.0-OpenSSH_9.2"]
        {
            let bytes: [u8; HEADER] = first.as_bytes()[..HEADER].try_into().unwrap();
            assert!(Header::from_bytes(&bytes).within(MAX_GREETING).is_err(), "{first:?}");
        }
    }
}
