//! A position in the log that a client keeps: MongoDB's resume token, `{ _data: hexadecimal }`.
//!
//! ```text
//! u8   version, 1
//! u64  time of the change's commit, milliseconds since 1970, BE
//! u64  sequence number of the change, BE: the client has seen everything up to it
//! u8   0: after the change; 1: after the invalidation that the change caused
//! u16  only within an event that was split: the fragments of it that the client has seen, BE
//! ```
//!
//! Both number and time are needed, because a power loss that loses commits loses their numbers, and other changes get them.

use bson::raw::RawBsonRef;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::error::{ErrorCode, QueryError, Result};

const VERSION: u8 = 1;
const BYTES: usize = 18;

/// A position after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResumeToken {
    pub(super) seq: u64,
    pub(super) time: i64,
    pub(super) invalidated: bool,
    /// Fragments of the change's event that the client has seen, if not all.
    pub(super) fragment: Option<u16>,
}

impl ResumeToken {
    pub(super) fn encode(self) -> RawDocumentBuf {
        let mut bytes = [0_u8; BYTES];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.time.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.seq.to_be_bytes());
        bytes[17] = u8::from(self.invalidated);
        let fragment = self.fragment.map(u16::to_be_bytes);
        let mut text = String::with_capacity(2 * BYTES + 4);
        for byte in bytes.into_iter().chain(fragment.into_iter().flatten()) {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(half), 16).unwrap_or('0').to_ascii_uppercase());
            }
        }
        rawdoc! { "_data": text }
    }

    /// Decodes a token from a client.
    ///
    /// # Errors
    /// `FailedToParse` if it is not a resume token.
    pub(super) fn decode(token: &RawDocument) -> Result<ResumeToken> {
        let wrong = || {
            QueryError::new(
                ErrorCode::FailedToParse,
                "Bad resume token: expected the _id of an event of this server's change streams",
            )
        };
        let Some(RawBsonRef::String(text)) = token.get("_data")? else { return Err(wrong()) };
        let mut bytes = [0_u8; BYTES + 2];
        if text.len() != 2 * BYTES && text.len() != 2 * bytes.len() {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            for &digit in pair {
                let half = char::from(digit).to_digit(16).ok_or_else(wrong)?;
                *byte = *byte << 4 | u8::try_from(half).map_err(|_| wrong())?;
            }
        }
        let word = |from: usize| bytes.get(from..from + 8).and_then(|part| part.try_into().ok());
        match (bytes[0], word(1), word(9)) {
            (VERSION, Some(time), Some(seq)) => Ok(ResumeToken {
                seq: u64::from_be_bytes(seq),
                time: i64::from_be_bytes(time),
                invalidated: bytes[17] == 1,
                fragment: (text.len() > 2 * BYTES).then_some(u16::from_be_bytes([bytes[18], bytes[19]])),
            }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_decoded_and_other_documents_are_refused() {
        for fragment in [None, Some(3)] {
            let token = ResumeToken { seq: 77, time: 1_700_000_000_123, invalidated: true, fragment };
            assert_eq!(ResumeToken::decode(&token.encode()).unwrap(), token);
        }
        for wrong in [
            rawdoc! {},
            rawdoc! { "_data": 5 },
            rawdoc! { "_data": "0102" },
            rawdoc! { "_data": "é".repeat(18) },
        ] {
            assert_eq!(ResumeToken::decode(&wrong).unwrap_err().code, ErrorCode::FailedToParse);
        }
    }
}
