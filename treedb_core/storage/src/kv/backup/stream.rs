//! A copy as a byte stream.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::super::command::{Command, Commands, FORMAT};
use super::super::dup::check_pair;
use super::super::edit::{check_limits, check_row};
use super::super::write::WriteTxn;
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"TreeDBbk";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const CHUNK_HEADER: usize = 16;
/// A chunk is closed when it has as many bytes.
const CHUNK: usize = 256 * 1024;
/// The most bytes a chunk can have: one command with the longest value.
const LONGEST: u64 = super::super::MAX_VALUE + (1 << 20);
/// The name of a stream in messages.
const NAME: &str = "backup stream";

fn failed(op: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { op, path: PathBuf::from(NAME), source }
}

fn chunk_header(number: u64, payload: &[u8]) -> [u8; CHUNK_HEADER] {
    let mut h = [0; CHUNK_HEADER];
    h[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    h[8..16].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&h[4..]), payload);
    h[0..4].copy_from_slice(&crc.to_le_bytes());
    h
}

/// Writes a stream.
pub(super) struct Writer<'w, W> {
    out: &'w mut W,
    number: u64,
    chunk: Vec<u8>,
}

impl<'w, W: Write> Writer<'w, W> {
    /// Begins a stream of `entries` entries.
    pub(super) fn begin(out: &'w mut W, entries: u64) -> Result<Writer<'w, W>> {
        let mut h = [0u8; HEADER];
        h[0..8].copy_from_slice(&MAGIC);
        h[8..12].copy_from_slice(&VERSION.to_le_bytes());
        h[16..24].copy_from_slice(&entries.to_le_bytes());
        let crc = crc32c::crc32c(&h[..28]);
        h[28..32].copy_from_slice(&crc.to_le_bytes());
        out.write_all(&h).map_err(failed("write"))?;
        Ok(Writer { out, number: 1, chunk: vec![FORMAT] })
    }

    pub(super) fn push(&mut self, command: &Command<'_>) -> Result<()> {
        command.encode(&mut self.chunk);
        if self.chunk.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        let header = chunk_header(self.number, &self.chunk);
        self.out
            .write_all(&header)
            .and_then(|()| self.out.write_all(&self.chunk))
            .map_err(failed("write"))?;
        self.number += 1;
        self.chunk.truncate(1);
        self.chunk.shrink_to(CHUNK * 2);
        Ok(())
    }

    /// Writes what is left, and the end.
    pub(super) fn end(mut self) -> Result<()> {
        if self.chunk.len() > 1 {
            self.flush()?;
        }
        let end = chunk_header(self.number, &[]);
        self.out.write_all(&end).and_then(|()| self.out.flush()).map_err(failed("write"))
    }
}

/// Reads a stream.
pub(super) struct Reader<'r, R> {
    input: &'r mut R,
    /// Offset of the next byte, for messages.
    at: u64,
    number: u64,
    entries: u64,
    chunk: Vec<u8>,
}

fn damaged(at: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::damaged(Path::new(NAME), at, expected, found)
}

impl<'r, R: Read> Reader<'r, R> {
    /// Reads the header.
    pub(super) fn begin(input: &'r mut R) -> Result<Reader<'r, R>> {
        let mut reader = Reader { input, at: 0, number: 1, entries: 0, chunk: Vec::new() };
        let h: [u8; HEADER] = reader.array("the header of a backup")?;
        let word = |at: usize| u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        if h[0..8] != MAGIC {
            let what = "not a TreeDB backup (no magic at its start): name what `treedb backup` wrote".into();
            return Err(Error::Format { path: NAME.into(), what });
        }
        let crc = crc32c::crc32c(&h[..28]);
        if word(28) != crc {
            return Err(damaged(28, format!("checksum {crc:08x}"), format!("{:08x}", word(28))));
        }
        if word(8) != VERSION {
            let what = format!(
                "backup of format {}, this TreeDB reads format {VERSION}: use the TreeDB that wrote it or a newer one",
                word(8)
            );
            return Err(Error::Format { path: NAME.into(), what });
        }
        reader.entries = u64::from(word(16)) | u64::from(word(20)) << 32;
        Ok(reader)
    }

    /// Entries the header promises.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn check_entries(&self, found: u64) -> Result<()> {
        if found == self.entries {
            return Ok(());
        }
        Err(damaged(16, format!("{} entries", self.entries), format!("{found} of them")))
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged(self.at, what, "the stream's end"),
            _ => failed("read")(error),
        })?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// The commands of the next chunk, in the form of a frame; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        let start = self.at;
        let h: [u8; CHUNK_HEADER] = self.array("a chunk, or the chunk that ends a whole stream")?;
        let word = |at: usize| u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let len = u64::from(word(4));
        if len > LONGEST {
            return Err(damaged(start + 4, format!("a chunk of at most {LONGEST} bytes"), len.to_string()));
        }
        self.chunk.clear();
        // Memory grows with the bytes read: the length has not been verified yet.
        let read = self.input.by_ref().take(len).read_to_end(&mut self.chunk).map_err(failed("read"))?;
        self.at += read as u64;
        if (read as u64) < len {
            return Err(damaged(self.at, format!("a chunk of {len} bytes"), "the stream's end"));
        }
        let good = chunk_header(self.number, &self.chunk);
        if good != h {
            let expected = format!(
                "chunk {} with checksum {:08x}",
                self.number,
                u32::from_le_bytes([good[0], good[1], good[2], good[3]])
            );
            return Err(damaged(start, expected, format!("one with checksum {:08x}", word(0))));
        }
        self.number += 1;
        Ok((len > 0).then_some(&*self.chunk))
    }
}

/// Applies the commands of a chunk. Returns by how many the number of entries has grown.
pub(super) fn apply(txn: &mut WriteTxn, frame: &[u8]) -> Result<i64> {
    let bad = |bad: super::super::command::BadCommand| {
        damaged(bad.at as u64, bad.expected, "other bytes in a chunk")
    };
    let mut commands = Commands::of_frame(frame).map_err(bad)?;
    let mut entries = 0;
    while let Some(command) = commands.next().map_err(bad)? {
        match command {
            Command::Put { key, value, .. } => {
                check_limits(key, value.len())?;
                entries += 1;
            }
            Command::PutRow { row, value, .. } => {
                check_row(row, value.len())?;
                entries += 1;
            }
            Command::PutPair { key, value, .. } => {
                check_pair(key, value)?;
                entries += 1;
            }
            Command::DeleteRow { .. } => entries -= 1,
            _ => {}
        }
        txn.apply(&command)?;
    }
    Ok(entries)
}
