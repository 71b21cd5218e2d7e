//! The changes of a transaction as bytes: the content of a log frame and of a batch.
//!
//! A frame's payload is a byte 1 (the format) and the commands of one transaction in order. A command:
//!
//! ```text
//! 1 put         table, key, value
//! 2 delete      table, key
//! 3 put row     table, row, value
//! 4 delete row  table, row
//! 5 create      table, kind (0 ordered, 1 rows, 2 dup), name
//! 6 drop        table, name
//! 7 clear       table
//! 8 delete from one key to another   table, bound, bound
//! 9 put pair     table, key, value
//! 10 delete pair table, key, value
//! 11 delete rows from one number up to another   table, row, row (not included)
//! 12 rename      table, old name, new name
//! ```
//!
//! Its number is a byte, tables and rows are LEB128 integers, keys, values and names a LEB128 length and that many
//! bytes. A bound is a byte 0 (none), or 1 (included) or 2 (excluded) and a key. Commands are
//! idempotent: they state the result, not a difference.
//! In a dup table, commands 2 and 8 remove keys with all their values.

use std::ops::Bound;

use super::catalog::TableKind;
use super::edit::Outcome;
use super::reads::Bounds;

/// The format of a frame's payload.
pub(crate) const FORMAT: u8 = 1;

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    Put { table: u32, key: &'a [u8], value: &'a [u8] },
    Delete { table: u32, key: &'a [u8] },
    PutRow { table: u32, row: u64, value: &'a [u8] },
    DeleteRow { table: u32, row: u64 },
    Create { table: u32, kind: TableKind, name: &'a str },
    Drop { table: u32, name: &'a str },
    Clear { table: u32 },
    DeleteRange { table: u32, bounds: Bounds<'a> },
    PutPair { table: u32, key: &'a [u8], value: &'a [u8] },
    DeletePair { table: u32, key: &'a [u8], value: &'a [u8] },
    DeleteRows { table: u32, from: u64, to: u64 },
    Rename { table: u32, old: &'a str, new: &'a str },
}

fn put_int(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_bound(out: &mut Vec<u8>, bound: Bound<&[u8]>) {
    match bound {
        Bound::Unbounded => out.push(0),
        Bound::Included(key) => {
            out.push(1);
            put_bytes(out, key);
        }
        Bound::Excluded(key) => {
            out.push(2);
            put_bytes(out, key);
        }
    }
}

impl Command<'_> {
    /// The table it is about.
    pub(crate) fn table(&self) -> u32 {
        match *self {
            Command::Put { table, .. }
            | Command::Delete { table, .. }
            | Command::PutRow { table, .. }
            | Command::DeleteRow { table, .. }
            | Command::Create { table, .. }
            | Command::Drop { table, .. }
            | Command::Clear { table }
            | Command::DeleteRange { table, .. }
            | Command::PutPair { table, .. }
            | Command::DeletePair { table, .. }
            | Command::DeleteRows { table, .. }
            | Command::Rename { table, .. } => table,
        }
    }

    /// True if, given this outcome, it changed nothing and so is not logged: removing what does not exist, adding a pair
    /// that does.
    pub(crate) fn is_noop(&self, outcome: Outcome) -> bool {
        match self {
            Command::Delete { .. }
            | Command::DeleteRow { .. }
            | Command::Clear { .. }
            | Command::DeleteRange { .. }
            | Command::DeletePair { .. }
            | Command::DeleteRows { .. } => outcome == Outcome::Absent,
            Command::PutPair { .. } | Command::Create { .. } => outcome == Outcome::Existed,
            Command::Put { .. } | Command::PutRow { .. } | Command::Drop { .. } | Command::Rename { .. } => {
                false
            }
        }
    }

    /// Appends the command's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Command::Put { table, key, value } => {
                out.push(1);
                put_int(out, table.into());
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Command::Delete { table, key } => {
                out.push(2);
                put_int(out, table.into());
                put_bytes(out, key);
            }
            Command::PutRow { table, row, value } => {
                out.push(3);
                put_int(out, table.into());
                put_int(out, row);
                put_bytes(out, value);
            }
            Command::DeleteRow { table, row } => {
                out.push(4);
                put_int(out, table.into());
                put_int(out, row);
            }
            Command::Create { table, kind, name } => {
                out.push(5);
                put_int(out, table.into());
                out.push(kind.to_byte());
                put_bytes(out, name.as_bytes());
            }
            Command::Drop { table, name } => {
                out.push(6);
                put_int(out, table.into());
                put_bytes(out, name.as_bytes());
            }
            Command::Clear { table } => {
                out.push(7);
                put_int(out, table.into());
            }
            Command::DeleteRange { table, bounds: (from, to) } => {
                out.push(8);
                put_int(out, table.into());
                put_bound(out, from);
                put_bound(out, to);
            }
            Command::PutPair { table, key, value } => {
                out.push(9);
                put_int(out, table.into());
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Command::DeletePair { table, key, value } => {
                out.push(10);
                put_int(out, table.into());
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Command::DeleteRows { table, from, to } => {
                out.push(11);
                put_int(out, table.into());
                put_int(out, from);
                put_int(out, to);
            }
            Command::Rename { table, old, new } => {
                out.push(12);
                put_int(out, table.into());
                put_bytes(out, old.as_bytes());
                put_bytes(out, new.as_bytes());
            }
        }
    }
}

/// Why bytes are not commands: the offset, and what was expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadCommand {
    pub(crate) at: usize,
    pub(crate) expected: &'static str,
}

/// Reads commands in order.
#[derive(Debug)]
pub(crate) struct Commands<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Commands<'a> {
    /// The commands of `bytes`, which have no format byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Commands<'a> {
        Commands { bytes, at: 0 }
    }

    /// The commands of a frame's payload.
    pub(crate) fn of_frame(payload: &'a [u8]) -> Result<Commands<'a>, BadCommand> {
        match payload.first() {
            Some(&FORMAT) => Ok(Commands { bytes: payload, at: 1 }),
            _ => Err(BadCommand { at: 0, expected: "commands of format 1" }),
        }
    }

    fn bad<T>(&self, expected: &'static str) -> Result<T, BadCommand> {
        Err(BadCommand { at: self.at, expected })
    }

    fn byte(&mut self) -> Result<u8, BadCommand> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => self.bad("a whole command"),
        }
    }

    fn int(&mut self) -> Result<u64, BadCommand> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        self.bad("an integer of 64 bits")
    }

    fn table(&mut self) -> Result<u32, BadCommand> {
        match u32::try_from(self.int()?) {
            Ok(table) => Ok(table),
            Err(_) => self.bad("a table number of 32 bits"),
        }
    }

    fn take(&mut self) -> Result<&'a [u8], BadCommand> {
        let len = usize::try_from(self.int()?).unwrap_or(usize::MAX);
        let end = self.at.checked_add(len);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => self.bad("as many bytes as the length field states"),
        }
    }

    fn name(&mut self) -> Result<&'a str, BadCommand> {
        match std::str::from_utf8(self.take()?) {
            Ok(name) => Ok(name),
            Err(_) => self.bad("a name in UTF-8"),
        }
    }

    fn bound(&mut self) -> Result<Bound<&'a [u8]>, BadCommand> {
        match self.byte()? {
            0 => Ok(Bound::Unbounded),
            1 => Ok(Bound::Included(self.take()?)),
            2 => Ok(Bound::Excluded(self.take()?)),
            _ => self.bad("a bound's kind, 0 to 2"),
        }
    }

    /// The next command; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Command<'a>>, BadCommand> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let command = match self.byte()? {
            1 => Command::Put { table: self.table()?, key: self.take()?, value: self.take()? },
            2 => Command::Delete { table: self.table()?, key: self.take()? },
            3 => Command::PutRow { table: self.table()?, row: self.int()?, value: self.take()? },
            4 => Command::DeleteRow { table: self.table()?, row: self.int()? },
            5 => {
                let table = self.table()?;
                let Some(kind) = TableKind::from_byte(self.byte()?) else {
                    return self.bad("a table's kind, 0 to 2");
                };
                Command::Create { table, kind, name: self.name()? }
            }
            6 => Command::Drop { table: self.table()?, name: self.name()? },
            7 => Command::Clear { table: self.table()? },
            8 => Command::DeleteRange { table: self.table()?, bounds: (self.bound()?, self.bound()?) },
            9 => Command::PutPair { table: self.table()?, key: self.take()?, value: self.take()? },
            10 => Command::DeletePair { table: self.table()?, key: self.take()?, value: self.take()? },
            11 => Command::DeleteRows { table: self.table()?, from: self.int()?, to: self.int()? },
            12 => Command::Rename { table: self.table()?, old: self.name()?, new: self.name()? },
            _ => return self.bad("a command's number, 1 to 12"),
        };
        Ok(Some(command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Command<'static>> {
        vec![
            Command::Create { table: 1, kind: TableKind::Ordered, name: "a" },
            Command::Put { table: 1, key: b"", value: b"v" },
            Command::Put { table: u32::MAX, key: &[7; 300], value: &[] },
            Command::Delete { table: 128, key: b"key" },
            Command::Create { table: 2, kind: TableKind::Rows, name: "\u{e4}" },
            Command::PutRow { table: 2, row: u64::MAX, value: &[1; 200] },
            Command::DeleteRow { table: 2, row: 127 },
            Command::DeleteRange { table: 1, bounds: (Bound::Included(b"a"), Bound::Excluded(&[8; 200])) },
            Command::DeleteRange { table: 1, bounds: (Bound::Unbounded, Bound::Unbounded) },
            Command::Create { table: 3, kind: TableKind::Dup, name: "dup" },
            Command::PutPair { table: 3, key: b"k", value: b"v" },
            Command::DeletePair { table: 3, key: &[5; 130], value: b"" },
            Command::DeleteRows { table: 2, from: 0, to: u64::MAX },
            Command::Rename { table: 3, old: "dup", new: "pairs" },
            Command::Clear { table: 300 },
            Command::Drop { table: 2, name: "\u{e4}" },
        ]
    }

    fn read(payload: &[u8]) -> Result<Vec<Command<'_>>, BadCommand> {
        let mut commands = Commands::of_frame(payload)?;
        let mut out = Vec::new();
        while let Some(command) = commands.next()? {
            out.push(command);
        }
        Ok(out)
    }

    #[test]
    fn encoded_commands_decode_to_the_same_commands() {
        let mut frame = vec![FORMAT];
        all().iter().for_each(|c| c.encode(&mut frame));
        assert_eq!(read(&frame).unwrap(), all());
    }

    #[test]
    fn cut_or_flipped_commands_are_an_error_or_other_commands_never_a_panic() {
        let mut frame = vec![FORMAT];
        all().iter().for_each(|c| c.encode(&mut frame));
        for len in 0..frame.len() {
            let _ = read(&frame[..len]);
        }
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut bytes = frame.clone();
                bytes[at] ^= 1 << bit;
                let _ = read(&bytes);
            }
        }
        assert!(read(&[FORMAT, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]).is_err());
        assert!(read(&[FORMAT, 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    }
}
