//! One frame's bytes: making the header, and deciding whether bytes are a frame.

use std::fmt;

/// Number of a frame: 1 for a log's first, one more for each after it. Frames the log writes for itself (opened,
/// closed, sealed) take numbers too, so the numbers a caller sees rise but may skip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first frame.
    pub const NONE: Lsn = Lsn(0);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A frame read back: its number and what was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number, as `append` returned it.
    pub lsn: Lsn,
    /// The bytes given to `append`.
    pub payload: &'a [u8],
}

/// The longest payload of one frame, in bytes.
pub const MAX_PAYLOAD: u64 = 0xffff_0000;

/// Bytes before the payload.
pub(super) const HEADER: usize = 24;
/// Frames start at multiples of this, so that a search for later frames need not try every byte.
pub(super) const ALIGN: u64 = 8;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A caller's payload.
    Data = 1,
    /// The log was opened again in a segment that ends in `Closed`.
    Opened = 2,
    /// The log was closed in order: nothing was written after this frame.
    Closed = 3,
    /// The segment's last frame; the log goes on in the next segment, which exists.
    Sealed = 4,
    /// A caller's payload, encrypted, and its seal.
    Encrypted = 5,
}

impl Kind {
    /// The kind with the highest number; all numbers from 1 on are kinds.
    pub(super) const LAST: Kind = Kind::Encrypted;
}

/// What an encrypted payload is sealed for: its frame, in its segment.
pub(super) fn associated_data(generation: u64, lsn: Lsn) -> [u8; 16] {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&generation.to_le_bytes());
    place[8..].copy_from_slice(&lsn.0.to_le_bytes());
    place
}

/// Bytes a frame takes in its segment.
pub(super) fn size(payload: usize) -> u64 {
    ((HEADER + payload) as u64).next_multiple_of(ALIGN)
}

/// The header of a frame in a segment of this generation.
pub(super) fn header(generation: u64, lsn: Lsn, durable: Lsn, kind: Kind, payload: &[u8]) -> [u8; HEADER] {
    let lag = u32::try_from(lsn.0.saturating_sub(durable.0)).unwrap_or(u32::MAX);
    let mut h = [0u8; HEADER];
    h[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    h[8..16].copy_from_slice(&lsn.0.to_le_bytes());
    h[16..20].copy_from_slice(&lag.to_le_bytes());
    h[20] = kind as u8;
    let crc = checksum(generation, &h, payload);
    h[0..4].copy_from_slice(&crc.to_le_bytes());
    h
}

/// Seeding shifts every checksum by a value that differs for different seeds, so a frame of another generation
/// (modulo 2^32) always fails.
fn checksum(generation: u64, header: &[u8; HEADER], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(generation as u32, &header[4..]), payload)
}

/// A header's fields, not yet believed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    bytes: [u8; HEADER],
    pub(super) lsn: Lsn,
    pub(super) len: u32,
    lag: u32,
}

impl Header {
    /// Reads the fields; `None` if there are too few bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let bytes: [u8; HEADER] = *bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let lsn = Lsn(u64::from(word(8)) | u64::from(word(12)) << 32);
        Some(Header { bytes, lsn, len: word(4), lag: word(16) })
    }

    /// The LSN up to which the log was durable when this frame was written; 0 if that was too far back to say.
    pub(super) fn claim(&self) -> Lsn {
        if self.lag == u32::MAX { Lsn::NONE } else { Lsn(self.lsn.0.saturating_sub(u64::from(self.lag))) }
    }

    /// What the frame is for; `None` if the byte is not a kind or the reserved bytes are not zero.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self.bytes[20..24] {
            [1, 0, 0, 0] => Some(Kind::Data),
            [2, 0, 0, 0] => Some(Kind::Opened),
            [3, 0, 0, 0] => Some(Kind::Closed),
            [4, 0, 0, 0] => Some(Kind::Sealed),
            [5, 0, 0, 0] => Some(Kind::Encrypted),
            _ => None,
        }
    }

    /// True if the frame fits into `room` bytes.
    pub(super) fn fits(&self, room: u64) -> bool {
        HEADER as u64 + u64::from(self.len) <= room
    }

    /// Checks the frame's checksum over header and payload.
    pub(super) fn verify(&self, generation: u64, payload: &[u8]) -> Result<(), BadFrame> {
        let stored = u32::from_le_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]);
        let computed = checksum(generation, &self.bytes, payload);
        if stored == computed { Ok(()) } else { Err(BadFrame::Checksum { stored, computed }) }
    }

    /// Kind and length, given that the number is the one looked for and `room` bytes are left in the segment.
    pub(super) fn check(&self, want: Lsn, room: u64) -> Result<Kind, BadFrame> {
        if self.lsn != want {
            return Err(if self.bytes == [0; HEADER] {
                BadFrame::Nothing
            } else {
                BadFrame::Number(self.lsn)
            });
        }
        if !self.fits(room) {
            return Err(BadFrame::Length { len: self.len, room });
        }
        self.kind().ok_or(BadFrame::Kind(self.bytes[20]))
    }
}

/// Why bytes are not the frame looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFrame {
    /// Zeroes.
    Nothing,
    /// Fewer bytes left than a header has.
    End,
    /// Another number.
    Number(Lsn),
    /// Longer than the rest of the segment.
    Length { len: u32, room: u64 },
    /// Not a kind of this version.
    Kind(u8),
    /// Checksums differ.
    Checksum { stored: u32, computed: u32 },
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Nothing => write!(f, "zeroes"),
            BadFrame::End => write!(f, "the end of the segment"),
            BadFrame::Number(lsn) => write!(f, "a frame numbered {lsn}, or none"),
            BadFrame::Length { len, room } => write!(f, "a payload of {len} bytes where {room} are left"),
            BadFrame::Kind(kind) => write!(f, "a frame of unknown kind {kind}"),
            BadFrame::Checksum { stored, computed } => {
                write!(f, "checksum {stored:08x} over bytes whose checksum is {computed:08x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_another_generation_never_passes() {
        for payload in [&b""[..], b"x", &[0u8; 100]] {
            let h = Header::read(&header(7, Lsn(3), Lsn(1), Kind::Data, payload)).unwrap();
            assert_eq!(h.verify(7, payload), Ok(()));
            assert_eq!(h.claim(), Lsn(1));
            for generation in (0..1000).filter(|g| *g != 7) {
                assert!(h.verify(generation, payload).is_err());
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_frame_is_seen() {
        let payload = b"the payload of a frame";
        let mut bytes = header(1, Lsn(9), Lsn(2), Kind::Data, payload).to_vec();
        bytes.extend_from_slice(payload);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let h = Header::read(&bad).unwrap();
            let room = bad.len() as u64;
            let seen = match h.check(Lsn(9), room) {
                Err(_) => true,
                Ok(_) => h.verify(1, &bad[HEADER..HEADER + h.len as usize]).is_err(),
            };
            assert!(seen, "bit {bit}");
        }
    }

    #[test]
    fn a_lag_too_large_for_its_field_claims_nothing() {
        let h = Header::read(&header(1, Lsn(1 << 40), Lsn(5), Kind::Data, b"")).unwrap();
        assert_eq!(h.claim(), Lsn::NONE);
    }
}
