//! One record's bytes.

use crate::cipher::SEAL;

/// The longest value, in bytes: 2 GiB.
pub(crate) const MAX_VALUE: u64 = 1 << 31;
/// The longest owner's name, in bytes.
pub(crate) const MAX_OWNER: usize = 1 << 16;

/// Records start at multiples of this.
pub(super) const ALIGN: u64 = 8;
/// Bytes before the value.
pub(super) const HEADER: usize = 16;
/// The minimum size of a record. One bit per this many bytes stores which records have been verified.
pub(super) const MIN_RECORD: u64 = 512;
const PLAIN: u32 = 1;
const SECRET: u32 = 2;

/// Bytes a record takes in its segment.
pub(super) fn size(value: u64, owner: u64, secret: bool) -> u64 {
    let seal = if secret { SEAL as u64 } else { 0 };
    (HEADER as u64 + value + owner + seal).max(MIN_RECORD).next_multiple_of(ALIGN)
}

/// What a value counts for in its segment's live bytes. Without the owner's name, which a pointer does not know.
pub(super) fn live_bytes(value: u32) -> u64 {
    HEADER as u64 + u64::from(value)
}

/// A record's header, not yet believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) check: u32,
    pub(super) len: u32,
    pub(super) owner: u32,
    pub(super) kind: u32,
}

impl Header {
    /// The header of a record of segment `segment`. The caller has checked both lengths.
    pub(super) fn new(segment: u32, value: &[u8], owner: &[u8]) -> Header {
        let mut header = Header { check: 0, len: value.len() as u32, owner: owner.len() as u32, kind: PLAIN };
        header.check = header.checksum(segment, &[value, owner]);
        header
    }

    /// The header of an encrypted record of these lengths, but for its checksum.
    pub(super) fn secret(value: usize, owner: usize) -> Header {
        Header { check: 0, len: value as u32, owner: owner as u32, kind: SECRET }
    }

    /// Whether the record is encrypted.
    pub(super) fn is_secret(&self) -> bool {
        self.kind == SECRET
    }

    /// What an encrypted record is sealed for: its place and its lengths.
    pub(super) fn associated_data(&self, segment: u32, at: u64) -> [u8; 24] {
        let mut place = [0; 24];
        place[0..4].copy_from_slice(&segment.to_le_bytes());
        place[4..12].copy_from_slice(&at.to_le_bytes());
        place[12..24].copy_from_slice(&self.encode()[4..]);
        place
    }

    /// Bytes the record takes in its segment.
    pub(super) fn size(&self) -> u64 {
        size(u64::from(self.len), u64::from(self.owner), self.is_secret())
    }

    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        for (place, word) in bytes.chunks_exact_mut(4).zip([self.check, self.len, self.owner, self.kind]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads the fields; `None` if there are too few bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Header { check: word(0), len: word(4), owner: word(8), kind: word(12) })
    }

    /// True if the fields are ones this version writes.
    pub(super) fn plausible(&self) -> bool {
        matches!(self.kind, PLAIN | SECRET)
            && u64::from(self.len) <= MAX_VALUE
            && self.owner as usize <= MAX_OWNER
    }

    /// Bytes of value and owner's name.
    pub(super) fn text(&self) -> u64 {
        u64::from(self.len) + u64::from(self.owner)
    }

    /// Bytes after the header: the text, and its seal if it is encrypted.
    pub(super) fn body(&self) -> u64 {
        self.text() + if self.is_secret() { SEAL as u64 } else { 0 }
    }

    /// The checksum these bytes should have; the body may come in parts.
    pub(super) fn checksum(&self, segment: u32, body: &[&[u8]]) -> u32 {
        let crc = crc32c::crc32c_append(segment, &self.encode()[4..]);
        body.iter().fold(crc, |crc, part| crc32c::crc32c_append(crc, part))
    }
}
