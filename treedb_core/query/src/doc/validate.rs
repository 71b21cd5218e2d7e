//! Validation of BSON: every document passes it before anything else reads it.
//!
//! Checked: lengths (each within its parent, each closed by its NUL), known types, UTF-8 in names and strings, booleans of
//! 0 or 1, nesting depth and total size. A valid document can be walked with [`super::Doc`] or the `bson` crate's raw
//! types.

use bson::RawDocument;

use super::value::{kind, length, name_end, value_len};
use crate::error::{ErrorCode, QueryError, Result};

/// Largest document that can be stored, in bytes: 16 MiB.
pub const MAX_DOCUMENT_SIZE: usize = 16 * 1024 * 1024;

/// Deepest nesting of a document: the document itself is level 1.
pub const MAX_DEPTH: usize = 100;

/// What a document may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest size, in bytes.
    pub size: usize,
    /// Deepest nesting.
    pub depth: usize,
}

/// A filter or an update may be as large as a message of the wire protocol, 48,000,000 bytes.
pub const MESSAGE: Limits = Limits { size: 48_000_000, depth: MAX_DEPTH };

impl Default for Limits {
    fn default() -> Self {
        Limits { size: MAX_DOCUMENT_SIZE, depth: MAX_DEPTH }
    }
}

/// Checks that `bytes` are one valid document of at most [`MAX_DOCUMENT_SIZE`] and [`MAX_DEPTH`].
///
/// Errors: `BSONObjectTooLarge`, `Overflow` (nesting), `InvalidBSON` with the offset of what is wrong.
pub fn validate(bytes: &[u8]) -> Result<&RawDocument> {
    validate_with(bytes, Limits::default())
}

/// [`validate`] with other limits: a command of the wire holds documents and is larger than one.
pub fn validate_with(bytes: &[u8], limits: Limits) -> Result<&RawDocument> {
    check(bytes, limits)?;
    RawDocument::from_bytes(bytes).map_err(Into::into)
}

/// [`validate`], which also tells whether there is a timestamp anywhere in the document.
pub(super) fn contains_timestamp(bytes: &[u8]) -> Result<bool> {
    check(bytes, Limits::default())
}

/// True if there is a timestamp somewhere.
fn check(bytes: &[u8], limits: Limits) -> Result<bool> {
    if bytes.len() > limits.size {
        return Err(QueryError::new(
            ErrorCode::BSONObjectTooLarge,
            format!("object to insert too large. size in bytes: {}, max size: {}", bytes.len(), limits.size),
        ));
    }
    let mut walk = Walk { max_depth: limits.depth, timestamp: false };
    walk.document(bytes, 0, 1)?;
    Ok(walk.timestamp)
}

fn wrong(offset: usize, what: &str) -> QueryError {
    QueryError::invalid_bson(format!("not valid BSON: {what} at byte {offset}"))
}

/// One look at everything in a document.
struct Walk {
    max_depth: usize,
    /// There is a timestamp.
    timestamp: bool,
}

impl Walk {
    /// Checks the document that is all of `bytes`; `at` is its offset in the outermost one.
    fn document(&mut self, bytes: &[u8], at: usize, depth: usize) -> Result<()> {
        let max_depth = self.max_depth;
        if depth > max_depth {
            return Err(QueryError::new(
                ErrorCode::Overflow,
                format!("document has exceeded maximum nested object limit: {max_depth} levels"),
            ));
        }
        if bytes.len() < 5 || length(bytes) != Some(bytes.len()) {
            return Err(wrong(at, "length of a document does not match its bytes"));
        }
        let end = bytes.len() - 1;
        let mut pos = 4;
        while let Some(&kind) = bytes.get(pos) {
            if kind == 0 {
                return if pos == end { Ok(()) } else { Err(wrong(at + pos, "document ends early")) };
            }
            pos += 1;
            let rest = bytes.get(pos..end).unwrap_or_default();
            let Some((name_len, is_ascii)) = name_end(rest) else {
                return Err(wrong(at + pos, "field name without end"));
            };
            if !is_ascii {
                let name = rest.get(..name_len).unwrap_or_default();
                utf8(name, at + pos, "field name is not UTF-8")?;
            }
            pos += name_len + 1;
            let rest = bytes.get(pos..end).unwrap_or_default();
            let len = value_len(kind, rest).ok_or_else(|| {
                wrong(at + pos, &format!("value of type 0x{kind:02x} does not fit its document"))
            })?;
            self.value(kind, rest.get(..len).unwrap_or_default(), at + pos, depth)?;
            pos += len;
        }
        Err(wrong(at + pos, "document without end"))
    }

    fn value(&mut self, kind: u8, bytes: &[u8], at: usize, depth: usize) -> Result<()> {
        match kind {
            kind::STRING | kind::CODE | kind::SYMBOL => string(bytes, at),
            kind::DOCUMENT | kind::ARRAY => self.document(bytes, at, depth + 1),
            kind::TIMESTAMP => {
                self.timestamp = true;
                Ok(())
            }
            kind::BOOL if bytes.first().is_none_or(|&byte| byte > 1) => {
                Err(wrong(at, "boolean is neither 0 nor 1"))
            }
            kind::BINARY if bytes.get(4) == Some(&2) => {
                let inner = bytes.get(5..).and_then(length);
                if inner.is_some_and(|inner| inner + 9 == bytes.len()) {
                    Ok(())
                } else {
                    Err(wrong(at, "inner length of old binary data does not match"))
                }
            }
            kind::REGEX => utf8(bytes, at, "regular expression is not UTF-8"),
            kind::DB_POINTER => string(bytes.get(..bytes.len() - 12).unwrap_or_default(), at),
            kind::CODE_SCOPE => {
                let rest = bytes.get(4..).unwrap_or_default();
                let code = length(rest)
                    .and_then(|len| len.checked_add(4))
                    .and_then(|len| rest.split_at_checked(len))
                    .ok_or_else(|| wrong(at, "code with scope does not fit its document"))?;
                string(code.0, at + 4)?;
                self.document(code.1, at + 4 + code.0.len(), depth + 1)
            }
            _ => Ok(()),
        }
    }
}

/// `bytes` are exactly one string: length, text, NUL.
fn string(bytes: &[u8], at: usize) -> Result<()> {
    match bytes.get(4..) {
        Some([text @ .., 0]) if length(bytes) == Some(text.len() + 1) => {
            utf8(text, at + 4, "string is not UTF-8")
        }
        _ => Err(wrong(at, "string without its length or end")),
    }
}

fn utf8(bytes: &[u8], at: usize, what: &str) -> Result<()> {
    // Short strings are mostly ASCII: this checks them without a function call.
    if bytes.len() <= 32 && bytes.iter().fold(0, |high, byte| high | byte).is_ascii() {
        return Ok(());
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(wrong(at + error.valid_up_to(), what)),
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::{Doc, Value};

    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = vec![5, 0, 0, 0, 0];
        for _ in 1..levels {
            let mut outer = Vec::new();
            outer.extend_from_slice(&((bytes.len() + 8) as i32).to_le_bytes());
            outer.extend_from_slice(&[kind::DOCUMENT, b'a', 0]);
            outer.extend_from_slice(&bytes);
            outer.push(0);
            bytes = outer;
        }
        bytes
    }

    #[test]
    fn nesting_of_one_hundred_passes_and_one_more_is_refused() {
        assert!(validate(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(validate(&nested(MAX_DEPTH + 1)).unwrap_err().code, ErrorCode::Overflow);
        assert_eq!(validate(&nested(200)).unwrap_err().code, ErrorCode::Overflow);
    }

    #[test]
    fn a_document_over_sixteen_mebibytes_is_refused() {
        let error = validate(&vec![0; MAX_DOCUMENT_SIZE + 1]).unwrap_err();
        assert_eq!(error.code, ErrorCode::BSONObjectTooLarge);
    }

    #[test]
    fn invalid_utf8_is_refused_with_its_offset() {
        let bytes = b"\x0e\0\0\0\x02a\0\x02\0\0\0\xff\0\0";
        let error = validate(bytes).unwrap_err();
        assert_eq!(
            (error.code, error.message.contains("byte 11")),
            (ErrorCode::InvalidBSON, true),
            "{error}"
        );
    }

    #[test]
    fn every_random_document_passes_and_survives_the_bson_crate() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let doc = random_document(&mut rng, 4);
            let raw = validate(doc.as_bytes()).unwrap();
            assert!(bson::Document::try_from(raw).is_ok());
        }
    }

    /// Walks everything, as a query would.
    fn walk(doc: Doc<'_>) -> usize {
        doc.elements()
            .map(|element| match element.value() {
                Value::Document(inner) | Value::Array(inner) => 1 + walk(inner),
                _ => 1,
            })
            .sum()
    }

    #[test]
    fn no_damaged_document_panics_and_what_passes_is_readable() {
        let mut rng = Rng::new(2);
        let mut passed = 0;
        for _ in 0..300 {
            let doc = random_document(&mut rng, 3).into_bytes();
            for _ in 0..60 {
                let mut damaged = doc.clone();
                for _ in 0..1 + rng.below(3) {
                    let at = rng.below(damaged.len());
                    damaged[at] = if rng.below(2) == 0 {
                        rng.next_u64() as u8
                    } else {
                        [0, 1, 0xff, 0x80][rng.below(4)]
                    };
                }
                if rng.below(4) == 0 {
                    damaged.truncate(rng.below(damaged.len() + 1));
                }
                walk(Doc::new(&damaged));
                if let Ok(raw) = validate(&damaged) {
                    passed += 1;
                    walk(raw.into());
                    for element in raw.iter_elements() {
                        assert!(element.unwrap().value().is_ok());
                    }
                }
            }
        }
        assert!(passed > 0);
    }
}
