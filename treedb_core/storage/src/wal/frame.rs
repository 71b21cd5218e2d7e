//! The bytes of a frame: encoding the header, and checking whether bytes are a valid frame.

use std::fmt;

/// Log sequence number of a frame: 1 for the first frame of a log, one more for each frame after it. The
/// log's own frames (opened, closed, sealed) have LSNs too, so the LSNs that a caller sees increase but may
/// skip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// No frame: less than the LSN of the first frame.
    pub const NONE: Lsn = Lsn(0);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A frame that was read: its LSN and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The LSN that `append` returned.
    pub lsn: Lsn,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

/// The maximum length of a frame's payload, in bytes.
pub const MAX_PAYLOAD: u64 = 0xffff_0000;

/// Length of the header, in bytes.
pub(super) const HEADER: usize = 24;
/// Frames start at multiples of this, so that a search for frames need not check every byte.
pub(super) const ALIGN: u64 = 8;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A caller's payload.
    Data = 1,
    /// The log was opened again, in a segment that ends in `Closed`.
    Opened = 2,
    /// The log was shut down cleanly: nothing was written after this frame.
    Closed = 3,
    /// The segment's last frame; the log continues in the next segment, which exists.
    Sealed = 4,
    /// A caller's payload, encrypted, followed by its seal.
    Encrypted = 5,
}

impl Kind {
    /// The kind with the highest number; all numbers from 1 up to it are kinds.
    pub(super) const LAST: Kind = Kind::Encrypted;
}

/// The associated data of an encrypted payload: the segment's generation and the frame's LSN.
pub(super) fn associated_data(generation: u64, lsn: Lsn) -> [u8; 16] {
    let mut data = [0; 16];
    data[..8].copy_from_slice(&generation.to_le_bytes());
    data[8..].copy_from_slice(&lsn.0.to_le_bytes());
    data
}

/// The number of bytes that a frame takes in its segment.
pub(super) fn size(payload: usize) -> u64 {
    ((HEADER + payload) as u64).next_multiple_of(ALIGN)
}

/// Encodes the header of a frame in a segment of this generation.
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

/// The checksum of a frame, seeded with the generation. Different seeds always give different checksums for
/// the same bytes, so a frame of another generation (modulo 2^32) always fails.
fn checksum(generation: u64, header: &[u8; HEADER], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(generation as u32, &header[4..]), payload)
}

/// The fields of a header, not yet checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    bytes: [u8; HEADER],
    pub(super) lsn: Lsn,
    pub(super) len: u32,
    lag: u32,
}

impl Header {
    /// Decodes the fields; `None` if there are too few bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let bytes: [u8; HEADER] = *bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let lsn = Lsn(u64::from(word(8)) | u64::from(word(12)) << 32);
        Some(Header { bytes, lsn, len: word(4), lag: word(16) })
    }

    /// The LSN up to which the log was durable when this frame was written; 0 if it was too far back to be
    /// stored.
    pub(super) fn claim(&self) -> Lsn {
        if self.lag == u32::MAX { Lsn::NONE } else { Lsn(self.lsn.0.saturating_sub(u64::from(self.lag))) }
    }

    /// The kind of the frame; `None` if the byte is not a kind or the reserved bytes are not zero.
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

    /// True if the frame fits into `remaining` bytes.
    pub(super) fn fits(&self, remaining: u64) -> bool {
        HEADER as u64 + u64::from(self.len) <= remaining
    }

    /// Checks the frame's checksum over header and payload.
    pub(super) fn verify(&self, generation: u64, payload: &[u8]) -> Result<(), BadFrame> {
        let stored = u32::from_le_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]);
        let computed = checksum(generation, &self.bytes, payload);
        if stored == computed { Ok(()) } else { Err(BadFrame::Checksum { stored, computed }) }
    }

    /// Checks the LSN, and that the frame fits into the `remaining` bytes of the segment; returns the kind.
    pub(super) fn check(&self, expected: Lsn, remaining: u64) -> Result<Kind, BadFrame> {
        if self.lsn != expected {
            return Err(if self.bytes == [0; HEADER] {
                BadFrame::Zeroes
            } else {
                BadFrame::OtherLsn(self.lsn)
            });
        }
        if !self.fits(remaining) {
            return Err(BadFrame::Length { len: self.len, remaining });
        }
        self.kind().ok_or(BadFrame::Kind(self.bytes[20]))
    }
}

/// Why bytes are not the expected frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFrame {
    /// The header is all zeroes.
    Zeroes,
    /// Fewer bytes are left in the segment than a header has.
    EndOfSegment,
    /// The LSN is another one.
    OtherLsn(Lsn),
    /// The payload is longer than the rest of the segment.
    Length { len: u32, remaining: u64 },
    /// The kind is unknown to this version.
    Kind(u8),
    /// The checksum is wrong.
    Checksum { stored: u32, computed: u32 },
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Zeroes => write!(f, "zeroes"),
            BadFrame::EndOfSegment => write!(f, "the end of the segment"),
            BadFrame::OtherLsn(lsn) => write!(f, "a frame with LSN {lsn}, or no frame"),
            BadFrame::Length { len, remaining } => {
                write!(f, "a payload of {len} bytes where {remaining} are left")
            }
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
    fn every_flipped_bit_of_a_frame_is_detected() {
        let payload = b"the payload of a frame";
        let mut bytes = header(1, Lsn(9), Lsn(2), Kind::Data, payload).to_vec();
        bytes.extend_from_slice(payload);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let h = Header::read(&bad).unwrap();
            let len = bad.len() as u64;
            let detected = match h.check(Lsn(9), len) {
                Err(_) => true,
                Ok(_) => h.verify(1, &bad[HEADER..HEADER + h.len as usize]).is_err(),
            };
            assert!(detected, "bit {bit}");
        }
    }

    #[test]
    fn a_lag_too_large_for_its_field_claims_nothing() {
        let h = Header::read(&header(1, Lsn(1 << 40), Lsn(5), Kind::Data, b"")).unwrap();
        assert_eq!(h.claim(), Lsn::NONE);
    }
}
