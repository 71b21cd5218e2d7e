//! OP_MSG: flags, then sections.
//!
//! ```text
//! 16  u32      flags: bit 0 a checksum follows, bit 1 more to come (no reply wanted), bit 16 exhaust allowed;
//!              other bits below 16 are an error, above are ignored
//! 20  sections, each a kind byte and
//!       kind 0  one document: the command. Exactly one such section.
//!       kind 1  i32 size (this field included), name NUL, documents: an argument of the command that is an array
//! -4  u32      CRC-32C of all bytes before it, header included; if flagged
//! ```

use std::ops::Range;

use bson::RawDocument;
use treedb_query::doc::{self, validate_with};

use super::error::CommandError;
use super::protocol_code::ProtocolCode;
use super::wire::{HEADER_BYTES, Header, OP_MSG};
use crate::config::FREE_BYTES;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// Bits that a receiver must know.
const REQUIRED_BITS: u32 = 0xffff;

/// Deepest nesting of a command: documents are nested in it up to three levels deep (`updates: [{u: ..}]`).
const COMMAND_DEPTH: usize = doc::MAX_DEPTH + 4;
/// Largest command document. What is larger than a document comes in sections of kind 1.
const COMMAND_BYTES: usize = doc::MAX_DOCUMENT_SIZE + 16 * 1024;

/// A parsed message. It owns its bytes; documents are borrowed from it.
#[derive(Debug, Clone)]
pub(crate) struct OpMsg {
    bytes: Vec<u8>,
    body: Range<usize>,
    sequences: Vec<Sequence>,
    /// The sender wants no reply.
    pub(crate) more_to_come: bool,
    /// The sender takes more than one reply.
    pub(crate) exhaust_allowed: bool,
}

impl OpMsg {
    /// Bytes of the budget for messages that this one has.
    pub(crate) fn reserved(&self) -> usize {
        if self.bytes.len() > FREE_BYTES { self.bytes.len() } else { 0 }
    }
}

#[derive(Debug, Clone)]
struct Sequence {
    name: String,
    documents: Vec<Range<usize>>,
}

/// Why a message is not an OP_MSG.
#[derive(Debug)]
pub(crate) struct Malformed {
    /// What to answer.
    pub(crate) error: CommandError,
    /// The frame is valid, and the connection remains open.
    pub(crate) keep_open: bool,
    /// The sender wants no reply.
    pub(crate) more_to_come: bool,
}

impl OpMsg {
    /// Parses the bytes of a whole message.
    ///
    /// The command document is checked all through: lengths, types, UTF-8, nesting. Documents of kind 1 sections
    /// have their lengths checked here, and their content where they are stored or read.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let flags = u32_at(&bytes, HEADER_BYTES).unwrap_or(0);
        let more_to_come = flags & MORE_TO_COME != 0;
        let (body, sequences) =
            sections(&bytes, flags).map_err(|error| Malformed { error, keep_open: false, more_to_come })?;
        let limits = doc::Limits { size: COMMAND_BYTES, depth: COMMAND_DEPTH };
        let command = bytes.get(body.clone()).unwrap_or_default();
        validate_with(command, limits).map_err(|error| Malformed {
            error: error.into(),
            keep_open: true,
            more_to_come,
        })?;
        Ok(OpMsg { bytes, body, sequences, more_to_come, exhaust_allowed: flags & EXHAUST_ALLOWED != 0 })
    }

    /// A message of nothing but a command that has been checked.
    pub(crate) fn of(command: &RawDocument) -> Self {
        let bytes = command.as_bytes().to_vec();
        OpMsg {
            body: 0..bytes.len(),
            bytes,
            sequences: Vec::new(),
            more_to_come: false,
            exhaust_allowed: false,
        }
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The command.
    pub(crate) fn body(&self) -> &RawDocument {
        self.document(&self.body)
    }

    /// The documents of the kind 1 section called `name`.
    pub(crate) fn sequence(&self, name: &str) -> Option<impl ExactSizeIterator<Item = &RawDocument>> {
        let sequence = self.sequences.iter().find(|sequence| sequence.name == name)?;
        Some(sequence.documents.iter().map(|range| self.document(range)))
    }

    /// The names of the kind 1 sections.
    pub(crate) fn sequence_names(&self) -> impl Iterator<Item = &str> {
        self.sequences.iter().map(|sequence| sequence.name.as_str())
    }

    fn document(&self, range: &Range<usize>) -> &RawDocument {
        let bytes = self.bytes.get(range.clone()).unwrap_or_default();
        // `parse` has checked length and end of every range it keeps.
        RawDocument::from_bytes(bytes).unwrap_or_else(|_| empty())
    }
}

/// The name of a command, which is that of its first field; empty if there is none. Its value is not looked at.
pub(crate) fn name_of(command: &RawDocument) -> &str {
    // After the length of the document and the type of the field.
    let name = command.as_bytes().get(5..).unwrap_or_default().split(|byte| *byte == 0).next();
    name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
}

fn empty() -> &'static RawDocument {
    static EMPTY: std::sync::LazyLock<bson::RawDocumentBuf> =
        std::sync::LazyLock::new(bson::RawDocumentBuf::default);
    &EMPTY
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn protocol(message: impl Into<String>) -> CommandError {
    CommandError::protocol(message)
}

fn sections(bytes: &[u8], flags: u32) -> Result<(Range<usize>, Vec<Sequence>), CommandError> {
    if bytes.len() < HEADER_BYTES + 4 {
        return Err(protocol("OP_MSG without flags"));
    }
    let unknown = flags & REQUIRED_BITS & !(CHECKSUM_PRESENT | MORE_TO_COME);
    if unknown != 0 {
        return Err(protocol(format!("OP_MSG with unknown required flags 0x{unknown:x}")));
    }
    let mut end = bytes.len();
    if flags & CHECKSUM_PRESENT != 0 {
        end = end
            .checked_sub(4)
            .filter(|&end| end >= HEADER_BYTES + 4)
            .ok_or_else(|| protocol("no checksum"))?;
        let found = u32_at(bytes, end).unwrap_or(0);
        let expected = crc32c::crc32c(bytes.get(..end).unwrap_or_default());
        if found != expected {
            return Err(CommandError::new(
                ProtocolCode::Location48614,
                format!(
                    "OP_MSG checksum does not match contents: expected {expected:08x}, found {found:08x}"
                ),
            ));
        }
    }
    let mut body = None;
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut at = HEADER_BYTES + 4;
    while at < end {
        let kind = bytes.get(at).copied().unwrap_or_default();
        at += 1;
        match kind {
            0 => {
                let range = document_at(bytes, at, end)?;
                at = range.end;
                if body.replace(range).is_some() {
                    return Err(CommandError::new(
                        ProtocolCode::Location40430,
                        "Multiple body sections in message",
                    ));
                }
            }
            1 => {
                let size = u32_at(bytes, at).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                let section_end = at.checked_add(size).filter(|&to| size > 4 && to <= end);
                let section_end =
                    section_end.ok_or_else(|| protocol("section size is beyond its message"))?;
                let name = bytes.get(at + 4..section_end).unwrap_or_default();
                let name_len = name.iter().position(|&byte| byte == 0);
                let name_len = name_len.ok_or_else(|| protocol("section name without end"))?;
                let name = std::str::from_utf8(name.get(..name_len).unwrap_or_default())
                    .map_err(|_| protocol("section name is not UTF-8"))?;
                if sequences.iter().any(|sequence| sequence.name == name) {
                    return Err(CommandError::new(
                        ProtocolCode::Location40431,
                        format!("Duplicate document sequence: {name}"),
                    ));
                }
                let mut documents = Vec::new();
                at += 4 + name_len + 1;
                while at < section_end {
                    let range = document_at(bytes, at, section_end)?;
                    at = range.end;
                    documents.push(range);
                }
                sequences.push(Sequence { name: name.to_owned(), documents });
            }
            other => {
                return Err(CommandError::new(
                    ProtocolCode::Location40432,
                    format!("Unknown section kind {other}"),
                ));
            }
        }
    }
    let body = body
        .ok_or_else(|| CommandError::new(ProtocolCode::Location40587, "OP_MSG messages must have a body"))?;
    Ok((body, sequences))
}

/// The range of the document at `at`, whose length is within `end` and whose last byte is NUL.
fn document_at(bytes: &[u8], at: usize, end: usize) -> Result<Range<usize>, CommandError> {
    let length = u32_at(bytes, at).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    match at.checked_add(length) {
        Some(to) if length >= 5 && to <= end && bytes.get(to - 1) == Some(&0) => Ok(at..to),
        _ => Err(protocol("document length does not fit its section")),
    }
}

/// The bytes of a message with one document.
pub(crate) fn message(request_id: i32, response_to: i32, document: &RawDocument) -> Vec<u8> {
    reply(request_id, response_to, false, document)
}

/// The bytes of a reply with one document, after which more follow without being asked for, if `more_to_come`.
pub(crate) fn reply(
    request_id: i32,
    response_to: i32,
    more_to_come: bool,
    document: &RawDocument,
) -> Vec<u8> {
    let length = HEADER_BYTES + 4 + 1 + document.as_bytes().len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&Header::bytes(length, request_id, response_to, OP_MSG));
    let flags = if more_to_come { MORE_TO_COME } else { 0 };
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.push(0);
    bytes.extend_from_slice(document.as_bytes());
    bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    /// A message of `flags` and `sections`, with the checksum if flagged.
    pub(crate) fn message(flags: u32, sections: &[u8]) -> Vec<u8> {
        let tail = if flags & CHECKSUM_PRESENT == 0 { 0 } else { 4 };
        let mut bytes = Header::bytes(HEADER_BYTES + 4 + sections.len() + tail, 1, 0, OP_MSG).to_vec();
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(sections);
        if tail > 0 {
            bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        }
        bytes
    }

    pub(crate) fn body(document: &RawDocument) -> Vec<u8> {
        [&[0], document.as_bytes()].concat()
    }

    fn sequence(name: &str, documents: &[RawDocumentBuf]) -> Vec<u8> {
        let payload: Vec<u8> = documents.iter().flat_map(|document| document.as_bytes().to_vec()).collect();
        let size = 4 + name.len() + 1 + payload.len();
        [&[1], &(size as u32).to_le_bytes()[..], name.as_bytes(), &[0], &payload].concat()
    }

    fn code(bytes: Vec<u8>) -> i32 {
        OpMsg::parse(bytes).unwrap_err().error.code
    }

    #[test]
    fn body_and_sequences_come_back_in_any_order() {
        let (ping, a, b) = (rawdoc! { "ping": 1 }, rawdoc! { "a": 1 }, rawdoc! { "b": 2 });
        let docs = sequence("documents", &[a.clone(), b.clone()]);
        for sections in [[body(&ping), docs.clone()].concat(), [docs, body(&ping)].concat()] {
            for flags in [0, CHECKSUM_PRESENT, MORE_TO_COME, 1 << 16] {
                let parsed = OpMsg::parse(message(flags, &sections)).unwrap();
                assert_eq!(parsed.body(), &*ping);
                let found: Vec<_> = parsed.sequence("documents").unwrap().collect();
                assert_eq!(found, [&*a, &*b]);
                assert_eq!(parsed.more_to_come, flags == MORE_TO_COME);
                assert!(parsed.sequence("updates").is_none());
            }
        }
    }

    #[test]
    fn a_wrong_checksum_is_refused() {
        let good = message(CHECKSUM_PRESENT, &body(&rawdoc! { "ping": 1 }));
        for at in 20..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(code(bad), 48_614, "byte {at}");
        }
    }

    #[test]
    fn sections_that_lie_are_refused() {
        let ping = body(&rawdoc! { "ping": 1 });
        assert_eq!(code(message(0, &[])), 40_587);
        assert_eq!(code(message(0, &[ping.clone(), ping.clone()].concat())), 40_430);
        assert_eq!(code(message(0, &[2, 0, 0, 0, 0])), 40_432);
        let docs = sequence("documents", &[rawdoc! { "a": 1 }]);
        assert_eq!(code(message(0, &[ping.clone(), docs.clone(), docs.clone()].concat())), 40_431);
        assert_eq!(code(message(1 << 5, &ping)), 17);
        for lie in [0_u32, 3, 4, 6, 1000, u32::MAX] {
            let mut bad = docs.clone();
            bad[1..5].copy_from_slice(&lie.to_le_bytes());
            assert!(OpMsg::parse(message(0, &[bad, ping.clone()].concat())).is_err(), "section size {lie}");
            let mut bad = ping.clone();
            bad[1..5].copy_from_slice(&lie.to_le_bytes());
            assert!(OpMsg::parse(message(0, &bad)).is_err(), "document length {lie}");
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_an_error_or_a_message_but_never_a_panic() {
        let command = body(&rawdoc! { "insert": "c", "x": [1, "é"] });
        let good = message(0, &[command.clone(), sequence("documents", &[rawdoc! {}])].concat());
        for end in 0..good.len() {
            // Between two sections a message may end.
            let whole = end == HEADER_BYTES + 4 + command.len();
            assert_eq!(OpMsg::parse(good[..end].to_vec()).is_ok(), whole, "cut at {end}");
        }
        for at in 16..good.len() {
            for flip in [1, 2, 0x10, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                if let Ok(parsed) = OpMsg::parse(bad) {
                    assert!(parsed.body().iter().all(|element| element.is_ok()));
                }
            }
        }
    }

    #[test]
    fn a_command_has_the_name_of_its_first_field() {
        assert_eq!(name_of(&rawdoc! { "find": "c", "filter": {} }), "find");
        assert_eq!(name_of(&rawdoc! { "": 1 }), "");
        assert_eq!(name_of(&rawdoc! {}), "");
    }

    #[test]
    fn a_command_nested_200_deep_or_not_utf8_is_answered_and_the_connection_keep_open() {
        let mut deep = rawdoc! {};
        for _ in 0..200 {
            deep = rawdoc! { "a": deep };
        }
        let malformed =
            OpMsg::parse(message(0, &body(&rawdoc! { "find": "c", "filter": deep }))).unwrap_err();
        assert_eq!((malformed.error.code, malformed.keep_open), (15, true));
        let mut bytes = message(0, &body(&rawdoc! { "find": "cccc" }));
        let at = bytes.windows(4).position(|w| w == b"cccc").unwrap();
        bytes[at] = 0xff;
        let malformed = OpMsg::parse(bytes).unwrap_err();
        assert_eq!((malformed.error.code, malformed.keep_open), (22, true));
    }
}
