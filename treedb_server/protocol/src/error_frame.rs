//! The body of an error frame: a code, its name, and a message.
//!
//! ```text
//! i32    code: MongoDB's number
//! text   the code's name: `DuplicateKey`
//! bytes  the message, UTF-8
//! ```
//!
//! A failed document of an insert carries the same three fields.

use crate::bytes::{Malformed, Reader, put_bytes, put_text};

/// Messages are cut to this many bytes: a message may quote what the client sent.
const MAX_MESSAGE: usize = 16 * 1024;

/// An error as sent over the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({name}, code {code})")]
pub struct ErrorFrame {
    /// MongoDB's number for it: 11000 is a duplicate key.
    pub code: i32,
    /// The code's name.
    pub name: String,
    /// The message.
    pub message: String,
}

impl ErrorFrame {
    /// Appends the three fields.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.code.to_le_bytes());
        put_text(out, "code name", &self.name)?;
        let cut = self.message.floor_char_boundary(MAX_MESSAGE);
        put_bytes(out, "message", self.message.get(..cut).unwrap_or_default().as_bytes())
    }

    /// Reads the three fields. A message that is not UTF-8 is decoded lossily, so that the original error is
    /// not lost.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(ErrorFrame {
            code: body.i32("code")?,
            name: body.text("code name")?.to_owned(),
            message: String::from_utf8_lossy(body.bytes("message")?).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_round_trips_and_a_long_message_is_cut_between_characters() {
        let (code, name) = (11000, "DuplicateKey".to_owned());
        let mut error = ErrorFrame { code, name, message: String::new() };
        for message in ["E11000 duplicate key".to_owned(), format!("x{}", "ø".repeat(20_000))] {
            error.message = message;
            let mut out = Vec::new();
            error.write(&mut out).unwrap();
            let mut reader = Reader::new(&out);
            let back = ErrorFrame::read(&mut reader).unwrap();
            reader.finish().unwrap();
            assert_eq!((back.code, back.name.as_str()), (11000, "DuplicateKey"));
            assert!(error.message.starts_with(&back.message) && back.message.len() <= MAX_MESSAGE);
        }
    }
}
