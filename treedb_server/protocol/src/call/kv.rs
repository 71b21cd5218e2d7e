//! Requests on tables of keys and values.
//!
//! ```text
//! KV_GET     text table, bytes key                -> u8 found, bytes value if found
//! KV_PUT     text table, bytes key, bytes value   -> nothing
//! KV_DELETE  text table, bytes key                -> u8 existed
//! KV_RANGE   text table, bound low, bound high, u32 entries, u32 bytes
//!                                                 -> u8 more, u32 n, n x (bytes key, bytes value)
//! KV_BATCH   text table, u32 n, n x operation     -> nothing
//! bound      u8 kind (0 none, 1 included, 2 excluded), bytes key unless the kind is 0
//! operation  u8 kind (0 delete, 1 put), bytes key, bytes value of a put
//! ```
//!
//! A put or batch creates its table. Each request sees one snapshot; a range that says `more` is continued by
//! another one after the last key, which reads a snapshot of its own.

use super::{Ack, Call, DESCENDING};
use crate::bytes::{Malformed, Reader, length, put_bytes, put_text};
use crate::frame::{MAX_ITEMS, opcode};

/// The value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvGet<'a> {
    /// The table.
    pub table: &'a str,
    /// The key.
    pub key: &'a [u8],
}

impl<'a> KvGet<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(KvGet { table: body.text("table")?, key: body.bytes("key")? })
    }

    /// Appends the answer's body.
    pub fn answer(value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.push(u8::from(value.is_some()));
        value.map_or(Ok(()), |value| put_bytes(out, "value", value))
    }
}

impl Call for KvGet<'_> {
    const OPCODE: u16 = opcode::KV_GET;
    type Answer = Option<Vec<u8>>;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "table", self.table)?;
        put_bytes(out, "key", self.key)
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
        if body.bool("found")? { Ok(Some(body.bytes("value")?.to_vec())) } else { Ok(None) }
    }
}

/// Sets the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvPut<'a> {
    /// The table.
    pub table: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// Its value from now on.
    pub value: &'a [u8],
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> KvPut<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(KvPut {
            table: body.text("table")?,
            key: body.bytes("key")?,
            value: body.bytes("value")?,
            ack: Ack::of(flags),
        })
    }
}

impl Call for KvPut<'_> {
    const OPCODE: u16 = opcode::KV_PUT;
    type Answer = ();

    fn flags(&self) -> u16 {
        self.ack as u16
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "table", self.table)?;
        put_bytes(out, "key", self.key)?;
        put_bytes(out, "value", self.value)
    }

    fn read_answer(_: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Deletes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvDelete<'a> {
    /// The table.
    pub table: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> KvDelete<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(KvDelete { table: body.text("table")?, key: body.bytes("key")?, ack: Ack::of(flags) })
    }
}

impl Call for KvDelete<'_> {
    const OPCODE: u16 = opcode::KV_DELETE;
    /// True if the key was there.
    type Answer = bool;

    fn flags(&self) -> u16 {
        self.ack as u16
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "table", self.table)?;
        put_bytes(out, "key", self.key)
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<bool, Malformed> {
        body.bool("existed")
    }
}

/// One end of a range.
pub type Bound<'a> = std::ops::Bound<&'a [u8]>;

fn put_bound(out: &mut Vec<u8>, field: &'static str, bound: Bound<'_>) -> Result<(), Malformed> {
    match bound {
        Bound::Unbounded => {
            out.push(0);
            Ok(())
        }
        Bound::Included(key) => {
            out.push(1);
            put_bytes(out, field, key)
        }
        Bound::Excluded(key) => {
            out.push(2);
            put_bytes(out, field, key)
        }
    }
}

fn bound<'a>(body: &mut Reader<'a>, field: &'static str) -> Result<Bound<'a>, Malformed> {
    let start = body.clone();
    match body.u8(field)? {
        0 => Ok(Bound::Unbounded),
        1 => Ok(Bound::Included(body.bytes(field)?)),
        2 => Ok(Bound::Excluded(body.bytes(field)?)),
        other => Err(start.wrong(field, format!("kind must be 0, 1 or 2, is {other}"))),
    }
}

/// Keys between two bounds, with their values, in the keys' bytewise order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvRange<'a> {
    /// The table.
    pub table: &'a str,
    /// The lower end.
    pub low: Bound<'a>,
    /// The upper end.
    pub high: Bound<'a>,
    /// Entries at most; 0 leaves it to the server.
    pub entries: u32,
    /// Bytes of keys and values after which no further entry is added; 0 leaves it to the server.
    pub bytes: u32,
    /// From the upper end down.
    pub descending: bool,
}

/// Some entries of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// True if there may be more entries after the last one.
    pub more: bool,
    /// Keys and values.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> KvRange<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(KvRange {
            table: body.text("table")?,
            low: bound(body, "low")?,
            high: bound(body, "high")?,
            entries: body.u32("entries")?,
            bytes: body.u32("bytes")?,
            descending: flags & DESCENDING != 0,
        })
    }
}

impl Call for KvRange<'_> {
    const OPCODE: u16 = opcode::KV_RANGE;
    type Answer = Entries;

    fn flags(&self) -> u16 {
        if self.descending { DESCENDING } else { 0 }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "table", self.table)?;
        put_bound(out, "low", self.low)?;
        put_bound(out, "high", self.high)?;
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Entries, Malformed> {
        let more = body.bool("more")?;
        let count = body.count("entries", 8)?;
        let entries = (0..count)
            .map(|_| Ok((body.bytes("key")?.to_vec(), body.bytes("value")?.to_vec())))
            .collect::<Result<_, Malformed>>()?;
        Ok(Entries { more, entries })
    }
}

/// Writes the answer to a range while it is being walked.
#[derive(Debug)]
pub struct EntriesWriter {
    start: usize,
    count: u32,
}

impl EntriesWriter {
    /// Begins an answer at the end of `out`.
    pub fn new(out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 5]);
        EntriesWriter { start, count: 0 }
    }

    /// Entries so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes so far.
    pub fn bytes(&self, out: &[u8]) -> usize {
        out.len().saturating_sub(self.start)
    }

    /// Adds an entry.
    pub fn push(&mut self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_bytes(out, "key", key)?;
        put_bytes(out, "value", value)?;
        self.count += 1;
        Ok(())
    }

    /// Ends the answer.
    pub fn finish(self, more: bool, out: &mut [u8]) {
        if let Some((first, count)) =
            out.get_mut(self.start..self.start + 5).and_then(<[u8]>::split_first_mut)
        {
            *first = u8::from(more);
            count.copy_from_slice(&self.count.to_le_bytes());
        }
    }
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets the value of a key.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a key; no matter whether it is there.
    Delete(&'a [u8]),
}

/// Puts and deletes that happen all or not at all, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvBatch<'a> {
    /// The table.
    pub table: &'a str,
    /// What to do.
    pub ops: Vec<Op<'a>>,
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> KvBatch<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let table = body.text("table")?;
        let start = body.clone();
        let count = body.count("operations", 5)?;
        if count > MAX_ITEMS {
            return Err(start.wrong("operations", format!("must be at most {MAX_ITEMS}, are {count}")));
        }
        let ops = (0..count)
            .map(|_| {
                let start = body.clone();
                match body.u8("operation")? {
                    0 => Ok(Op::Delete(body.bytes("key")?)),
                    1 => Ok(Op::Put(body.bytes("key")?, body.bytes("value")?)),
                    other => Err(start.wrong("operation", format!("kind must be 0 or 1, is {other}"))),
                }
            })
            .collect::<Result<_, Malformed>>()?;
        Ok(KvBatch { table, ops, ack: Ack::of(flags) })
    }
}

impl Call for KvBatch<'_> {
    const OPCODE: u16 = opcode::KV_BATCH;
    type Answer = ();

    fn flags(&self) -> u16 {
        self.ack as u16
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "table", self.table)?;
        out.extend_from_slice(&length(out.len(), "operations", self.ops.len())?.to_le_bytes());
        for op in &self.ops {
            match op {
                Op::Delete(key) => {
                    out.push(0);
                    put_bytes(out, "key", key)?;
                }
                Op::Put(key, value) => {
                    out.push(1);
                    put_bytes(out, "key", key)?;
                    put_bytes(out, "value", value)?;
                }
            }
        }
        Ok(())
    }

    fn read_answer(_: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}
