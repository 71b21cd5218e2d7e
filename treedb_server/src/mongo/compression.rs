//! OP_COMPRESSED: messages as snappy, zlib or zstd, as agreed in `hello`.
//!
//! ```text
//! 16  i32  opcode of the message
//! 20  i32  bytes of the message without its header
//! 24  u8   compressor: 1 snappy, 2 zlib, 3 zstd
//! 25  the message without its header, compressed
//! ```
//!
//! The length that a message announces is bounded before anything is inflated, and its share of the budget is asked for together with that
//! of the compressed bytes ([`super::wire`]), so that nobody who waits for a share holds another. No more is inflated than was announced.

use std::io::Read;
use std::str::FromStr;

use bson::{RawArrayBuf, RawDocument};

use super::error::CommandError;
use super::op_msg::name_of;
use super::wire::{HEADER_BYTES, Header, Message, OP_COMPRESSED};
use crate::config::{FREE_BYTES, MAX_MESSAGE_BYTES};

/// Bytes before the compressed ones.
const PREFIX_BYTES: usize = HEADER_BYTES + 9;
/// Shorter replies are sent as they are: compressing them saves no packet.
const LEAST_BYTES: usize = 512;
/// A zstd frame may ask for a window of this size, or of what it announces if that is more: what the usual levels take.
const MAX_ZSTD_WINDOW: u64 = 8 << 20;
/// The level of zlib: its usual one.
const ZLIB_LEVEL: u8 = 6;

/// A way to compress messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Compressor {
    Snappy = 1,
    Zlib = 2,
    Zstd = 3,
}

impl Compressor {
    const ALL: [Compressor; 3] = [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

    fn name(self) -> &'static str {
        match self {
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    fn named(name: &str) -> Option<Compressor> {
        Self::ALL.into_iter().find(|compressor| compressor.name() == name)
    }
}

/// A set of compressors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressors(u8);

impl Compressors {
    /// None.
    pub const NONE: Compressors = Compressors(0);
    /// All that there are.
    pub const ALL: Compressors = Compressors(0b1110);

    /// Those of these bits.
    pub(crate) fn from_bits(bits: u8) -> Self {
        Compressors(bits & Self::ALL.0)
    }

    /// As bits.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    fn has(self, compressor: Compressor) -> bool {
        self.0 & 1 << compressor as u8 != 0
    }

    /// Their names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Compressor::ALL.into_iter().filter(move |compressor| self.has(*compressor)).map(Compressor::name)
    }

    /// What of these `hello` agrees to: the client's list, without those that are not offered.
    pub(crate) fn agreed(self, wanted: &bson::RawArray) -> (Compressors, RawArrayBuf) {
        let (mut agreed, mut names) = (Compressors::NONE, RawArrayBuf::new());
        for name in wanted.into_iter().flatten() {
            if let Some(compressor) = name.as_str().and_then(Compressor::named)
                && self.has(compressor)
                && !agreed.has(compressor)
            {
                agreed.0 |= 1 << compressor as u8;
                names.push(compressor.name());
            }
        }
        (agreed, names)
    }
}

impl FromStr for Compressors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Compressors::NONE;
        for name in text.split(',').filter(|name| *name != "none") {
            let compressor = Compressor::named(name)
                .ok_or_else(|| format!("{name}: expected snappy, zlib, zstd or none"))?;
            all.0 |= 1 << compressor as u8;
        }
        Ok(all)
    }
}

/// Bytes that a compressed message, of which the first [`PREFIX_BYTES`] have arrived, says it has without its header; 0 if it says
/// nothing possible, which [`inflate`] refuses.
pub(crate) fn announced(bytes: &[u8]) -> usize {
    let size =
        bytes.get(HEADER_BYTES + 4..).and_then(|bytes| bytes.first_chunk()).copied().map(i32::from_le_bytes);
    size.and_then(|size| usize::try_from(size).ok())
        .filter(|size| HEADER_BYTES + size <= MAX_MESSAGE_BYTES)
        .unwrap_or(0)
}

/// The message in a compressed one, and how it was compressed. It has the header that it would have had.
///
/// # Errors
/// `ProtocolError` for a compressor that was not agreed on, a message within a message, or bytes that are not what they say.
pub(crate) async fn inflate(
    message: Message,
    agreed: Compressors,
) -> Result<(Message, Compressor), CommandError> {
    if message.bytes.len() + announced(&message.bytes) <= FREE_BYTES {
        return inflate_now(message, agreed);
    }
    let task = tokio::task::spawn_blocking(move || inflate_now(message, agreed));
    task.await.unwrap_or_else(|_| Err(protocol("the message could not be inflated")))
}

fn protocol(message: &str) -> CommandError {
    CommandError::protocol(message)
}

fn inflate_now(message: Message, agreed: Compressors) -> Result<(Message, Compressor), CommandError> {
    let Message { header, bytes, reserved } = message;
    let early = || protocol("OP_COMPRESSED ends early");
    let prefix = bytes.get(HEADER_BYTES..PREFIX_BYTES).ok_or_else(early)?;
    let compressed = bytes.get(PREFIX_BYTES..).ok_or_else(early)?;
    let word = |at: usize| {
        prefix.get(at..).and_then(|bytes| bytes.first_chunk()).copied().map_or(0, i32::from_le_bytes)
    };
    let (opcode, size) = (word(0), word(4));
    let compressor =
        prefix.last().and_then(|&id| Compressor::ALL.into_iter().find(|known| *known as u8 == id));
    let compressor = compressor
        .filter(|compressor| agreed.has(*compressor))
        .ok_or_else(|| protocol("OP_COMPRESSED with a compressor that hello did not agree on"))?;
    if opcode == OP_COMPRESSED {
        return Err(protocol("OP_COMPRESSED within OP_COMPRESSED"));
    }
    let size = usize::try_from(size).ok().filter(|size| HEADER_BYTES + size <= MAX_MESSAGE_BYTES);
    let size = size.ok_or_else(|| protocol("OP_COMPRESSED announces an impossible size"))?;
    let length = HEADER_BYTES + size;
    let mut plain = Vec::with_capacity(length + 1);
    // The answered request of a request means nothing.
    plain.extend_from_slice(&Header::bytes(length, header.request_id, 0, opcode));
    expand(compressor, compressed, size, &mut plain)
        .filter(|()| plain.len() == length)
        .ok_or_else(|| protocol("OP_COMPRESSED does not hold what it announces"))?;
    let header = Header { length, opcode, ..header };
    Ok((Message { header, bytes: plain, reserved }, compressor))
}

/// Appends what `compressed` holds, if that is not longer than `size`; `None` if it is, or is damaged.
fn expand(compressor: Compressor, compressed: &[u8], size: usize, to: &mut Vec<u8>) -> Option<()> {
    match compressor {
        Compressor::Snappy => {
            // The length is in the first bytes; the decoder checks it against its own output.
            if snap::raw::decompress_len(compressed).ok()? != size {
                return None;
            }
            let from = to.len();
            to.resize(from + size, 0);
            snap::raw::Decoder::new().decompress(compressed, to.get_mut(from..)?).ok()?;
        }
        Compressor::Zlib => {
            let from = to.len();
            to.resize(from + size, 0);
            let source = std::iter::once(compressed);
            let found = miniz_oxide::inflate::decompress_slice_iter_to_slice(
                to.get_mut(from..)?,
                source,
                true,
                false,
            );
            to.truncate(from + found.ok()?);
        }
        Compressor::Zstd => {
            if zstd_window(compressed)? > MAX_ZSTD_WINDOW.max(size as u64) {
                return None;
            }
            let source = compressed;
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(source).ok()?;
            // One more than there may be, so that more is noticed.
            (&mut decoder).take(size as u64 + 1).read_to_end(to).ok()?;
        }
    }
    Some(())
}

/// Bytes of the window that a zstd frame asks for, which the decoder allocates at once.
fn zstd_window(frame: &[u8]) -> Option<u64> {
    let field = |at: usize, bytes: usize| -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..bytes)?.copy_from_slice(frame.get(at..at + bytes)?);
        Some(u64::from_le_bytes(word))
    };
    let descriptor = *frame.get(4)?;
    if descriptor & 0x20 == 0 {
        let window = *frame.get(5)?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // All of the content is the window: after the number of a dictionary, its length.
    let at = 5 + [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    match descriptor >> 6 {
        0 => field(at, 1),
        1 => field(at, 2).map(|length| length + 256),
        2 => field(at, 4),
        _ => field(at, 8),
    }
}

/// A reply as it is sent to a client that has compressed its command: compressed too, if that makes it shorter.
pub(crate) fn deflate(reply: Vec<u8>, compressor: Compressor) -> Vec<u8> {
    let (Some(header), Some(plain)) = (reply.first_chunk::<HEADER_BYTES>(), reply.get(HEADER_BYTES..)) else {
        return reply;
    };
    if reply.len() < LEAST_BYTES {
        return reply;
    }
    let compressed = match compressor {
        Compressor::Snappy => snap::raw::Encoder::new().compress_vec(plain).ok(),
        Compressor::Zlib => Some(miniz_oxide::deflate::compress_to_vec_zlib(plain, ZLIB_LEVEL)),
        Compressor::Zstd => {
            Some(ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest))
        }
    };
    let Some(compressed) = compressed.filter(|compressed| compressed.len() + 9 < plain.len()) else {
        return reply;
    };
    let word = |at: usize| {
        header.get(at..).and_then(|bytes| bytes.first_chunk()).copied().map_or(0, i32::from_le_bytes)
    };
    let length = PREFIX_BYTES + compressed.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&Header::bytes(length, word(4), word(8), OP_COMPRESSED));
    bytes.extend_from_slice(&word(12).to_le_bytes());
    bytes.extend_from_slice(&i32::try_from(plain.len()).unwrap_or(i32::MAX).to_le_bytes());
    bytes.push(compressor as u8);
    bytes.extend_from_slice(&compressed);
    bytes
}

/// Whether the reply to a command may be compressed: not where secrets are exchanged, whose length would say something about them, nor
/// where it is agreed how to compress.
pub(crate) fn may_compress(command: &RawDocument) -> bool {
    !matches!(
        name_of(command),
        "hello"
            | "isMaster"
            | "ismaster"
            | "saslStart"
            | "saslContinue"
            | "getnonce"
            | "authenticate"
            | "createUser"
            | "updateUser"
            | "copydbSaslStart"
            | "copydbgetnonce"
            | "copydb"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mongo::wire::OP_MSG;

    fn message(bytes: Vec<u8>) -> Message {
        let header = Header { length: bytes.len(), request_id: 7, opcode: OP_COMPRESSED };
        Message { header, bytes, reserved: None }
    }

    fn plain(body: &[u8]) -> Vec<u8> {
        [&Header::bytes(HEADER_BYTES + body.len(), 7, 0, OP_MSG)[..], body].concat()
    }

    #[tokio::test]
    async fn what_is_deflated_comes_back_and_nothing_else_does() {
        let noise: Vec<u8> = (0..3_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for body in [vec![b'x'; 100_000], [noise.clone(), noise].concat()] {
            for compressor in Compressor::ALL {
                let reply = deflate(plain(&body), compressor);
                assert!(reply.len() < body.len(), "{compressor:?}");
                let (found, by) = inflate(message(reply.clone()), Compressors::ALL).await.unwrap();
                assert_eq!((found.bytes, by), (plain(&body), compressor));
                // Not agreed on.
                assert!(inflate(message(reply.clone()), Compressors::NONE).await.is_err());
                // More, or less, than was announced; and damage.
                for size in [0, 1, body.len() - 1, body.len() + 1, 40_000_000, i32::MAX as usize] {
                    let mut lie = reply.clone();
                    lie[20..24].copy_from_slice(&(size as i32).to_le_bytes());
                    assert!(inflate(message(lie), Compressors::ALL).await.is_err(), "{compressor:?} {size}");
                }
                for cut in [17, 24, 25, 26, reply.len() / 2] {
                    assert!(
                        inflate(message(reply[..cut].to_vec()), Compressors::ALL).await.is_err(),
                        "{cut}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn a_message_in_a_message_in_a_message_is_refused() {
        let mut nested = deflate(plain(&[b'x'; 10_000]), Compressor::Zlib);
        nested[16..20].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
        let error = inflate(message(nested), Compressors::ALL).await.unwrap_err();
        assert!(error.message.contains("within"));
    }

    #[test]
    fn a_window_is_read_as_the_format_says() {
        for (frame, window) in [
            (&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00][..], Some(1 << 10)),
            (&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x59], Some((2 << 20) + (2 << 20) / 8)),
            (&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x07], Some(7)),
            (&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x01, 0x00], Some(257)),
            (&[0x28, 0xb5, 0x2f, 0xfd, 0xa1, 0x09, 0xff, 0xff, 0xff, 0xff], Some(0xffff_ffff)),
            (&[0x28, 0xb5, 0x2f, 0xfd, 0xe0, 1, 2], None),
            (&[0x28, 0xb5], None),
        ] {
            assert_eq!(zstd_window(frame), window, "{frame:x?}");
        }
    }

    #[test]
    fn short_and_incompressible_replies_are_sent_as_they_are() {
        let noise: Vec<u8> =
            (0..2_000_u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 23) as u8).collect();
        for body in [vec![b'x'; 100], noise] {
            assert_eq!(deflate(plain(&body), Compressor::Snappy), plain(&body));
        }
    }

    #[test]
    fn names_are_read() {
        assert_eq!("none".parse(), Ok(Compressors::NONE));
        assert_eq!("snappy,zlib,zstd".parse(), Ok(Compressors::ALL));
        assert!("lz4".parse::<Compressors>().is_err());
    }
}
