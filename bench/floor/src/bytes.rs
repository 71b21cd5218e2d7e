//! The bytes of requests and replies, written by hand: a client that takes no time for them.

use crate::Result;

/// How the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// MongoDB's.
    Mongo,
    /// TreeDB's.
    Native,
}

/// A BSON document of fields that have been written already.
fn document(fields: &[Vec<u8>]) -> Vec<u8> {
    let fields = fields.concat();
    let length = fields.len() as u32 + 5;
    [&length.to_le_bytes()[..], &fields, &[0]].concat()
}

/// A field: its type, its name, its bytes.
fn field(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let length = value.len() as u32 + 1;
    field(2, name, &[&length.to_le_bytes()[..], value.as_bytes(), &[0]].concat())
}

fn key(n: u64) -> String {
    format!("user{n:020}")
}

/// An OP_MSG.
fn message(command: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(21 + command.len());
    for number in [21 + command.len() as u32, 1, 0, 2013, 0] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(command);
    bytes
}

/// A frame of the native protocol.
fn frame(opcode: u16, body: &[u8]) -> Vec<u8> {
    let header =
        [&(body.len() as u32).to_le_bytes()[..], &opcode.to_le_bytes(), &[0, 0], &1_u64.to_le_bytes()];
    [&header.concat(), body].concat()
}

/// The length of the message that begins with these bytes, if it is there.
pub(crate) fn length_of(protocol: Protocol, bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    Some(if protocol == Protocol::Native { 16 + length } else { length })
}

/// Inserts records `0..count`, of ten fields of 100 bytes.
pub(crate) fn insert(count: u64) -> Vec<u8> {
    let value = "x".repeat(100);
    let records: Vec<Vec<u8>> = (0..count)
        .map(|n| {
            let values = (0..10).map(|at| text(&format!("field{at}"), &value));
            let record: Vec<Vec<u8>> = std::iter::once(text("_id", &key(n))).chain(values).collect();
            field(3, &n.to_string(), &document(&record))
        })
        .collect();
    let records = field(4, "documents", &document(&records));
    message(&document(&[text("insert", "usertable"), records, text("$db", "ycsb")]))
}

impl Protocol {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Mongo => "MongoDB",
            Protocol::Native => "native",
        }
    }

    /// The messages that begin a connection.
    pub(crate) fn greetings(self) -> Vec<Vec<u8>> {
        match self {
            Protocol::Mongo => {
                vec![message(&document(&[field(16, "hello", &[1, 0, 0, 0]), text("$db", "admin")]))]
            }
            Protocol::Native => {
                let parameter = document(&[field(16, "$param", &[0; 4])]);
                let shape = document(&[field(3, "_id", &parameter)]);
                let namespace = "ycsb.usertable";
                let length = namespace.len() as u16;
                let get = [&[0x11, 0], &length.to_le_bytes()[..], namespace.as_bytes(), &shape].concat();
                vec![frame(1, b"TREEDB\r\n\x01\0\x01\0"), frame(5, &get)]
            }
        }
    }

    /// Finds record `n`; `statement` is what the last greeting was answered with.
    pub(crate) fn find(self, statement: u32, n: u64) -> Vec<u8> {
        match self {
            Protocol::Mongo => message(&document(&[
                text("find", "usertable"),
                field(3, "filter", &document(&[text("_id", &key(n))])),
                field(16, "limit", &[1, 0, 0, 0]),
                field(8, "singleBatch", &[1]),
                text("$db", "ycsb"),
            ])),
            Protocol::Native => {
                frame(6, &[&statement.to_le_bytes()[..], &document(&[text("0", &key(n))])].concat())
            }
        }
    }

    /// A reply of so many bytes.
    pub(crate) fn reply_of(self, length: usize) -> Result<Vec<u8>> {
        match self {
            Protocol::Mongo => Ok(message(&vec![0; length.checked_sub(21).ok_or("a short reply")?])),
            Protocol::Native => Ok(frame(0x8006, &vec![0; length.checked_sub(16).ok_or("a short reply")?])),
        }
    }
}
