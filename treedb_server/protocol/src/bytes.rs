//! Fields of a body: integers, strings, byte strings and documents, all little-endian.
//!
//! | field | bytes |
//! |---|---|
//! | `u8`, `u16`, `u32`, `u64`, `i32` | 1, 2, 4, 8, 4 |
//! | text | `u16` length, then that many bytes of UTF-8 |
//! | bytes | `u32` length, then that many bytes |
//! | document | BSON, which begins with its own `i32` length |
//!
//! Nothing is copied on the way in: what [`Reader`] returns borrows from the body.

use bson::RawDocument;

/// The longest text: its length is a `u16`.
pub const MAX_TEXT: usize = u16::MAX as usize;

/// A body that does not hold what its opcode promises (or a value that no body can hold).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the body, {field}: {what}")]
pub struct Malformed {
    /// The field, as `docs/native-protocol.md` names it.
    pub field: &'static str,
    /// Where the field begins, in bytes from the start of the body.
    pub offset: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Takes fields off the front of a body.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `body` from its first byte.
    pub fn new(body: &'a [u8]) -> Self {
        Reader { body, at: 0 }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.body.len().saturating_sub(self.at)
    }

    /// An error about `field` at the current position.
    pub fn wrong(&self, field: &'static str, what: impl Into<String>) -> Malformed {
        Malformed { field, offset: self.at, what: what.into() }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.body.len());
        match end.and_then(|end| self.body.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.wrong(field, format!("needs {len} bytes, {} are left", self.remaining()))),
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(field, N)?);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    /// Two bytes.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    /// Four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// Eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// Four bytes, signed.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, Malformed> {
        Ok(i32::from_le_bytes(self.array(field)?))
    }

    /// A byte that is 0 or 1.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.clone().u8(field)? {
            byte @ (0 | 1) => {
                self.at += 1;
                Ok(byte == 1)
            }
            other => Err(self.wrong(field, format!("must be 0 or 1, is {other}"))),
        }
    }

    /// A text.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, Malformed> {
        let start = self.clone();
        let len = self.u16(field)?;
        let bytes = self.take(field, usize::from(len))?;
        std::str::from_utf8(bytes).map_err(|error| start.wrong(field, format!("not UTF-8: {error}")))
    }

    /// A byte string.
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.u32(field)?;
        self.take(field, len as usize)
    }

    /// A document whose length fits and which ends with NUL. Its content is checked where it is used.
    pub fn document(&mut self, field: &'static str) -> Result<&'a RawDocument, Malformed> {
        let start = self.clone();
        let len = self.clone().i32(field)?;
        let len = usize::try_from(len)
            .ok()
            .filter(|&len| len >= 5)
            .ok_or_else(|| start.wrong(field, format!("a document cannot be {len} bytes long")))?;
        let bytes = self.take(field, len)?;
        RawDocument::from_bytes(bytes).map_err(|error| start.wrong(field, format!("not a document: {error}")))
    }

    /// How many items follow, refused where not even `least` bytes for each are left.
    pub fn count(&mut self, field: &'static str, least: usize) -> Result<usize, Malformed> {
        let start = self.clone();
        let count = self.u32(field)? as usize;
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.remaining() => Ok(count),
            _ => Err(start.wrong(
                field,
                format!("{count} cannot fit into the {} bytes that are left", self.remaining()),
            )),
        }
    }

    /// Ends the reading: every byte must have been used.
    pub fn finish(self) -> Result<(), Malformed> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(self.wrong("end", format!("{remaining} bytes too many"))),
        }
    }
}

/// Appends a text.
///
/// Errors: longer than [`MAX_TEXT`].
pub fn put_text(out: &mut Vec<u8>, field: &'static str, text: &str) -> Result<(), Malformed> {
    let len = u16::try_from(text.len()).map_err(|_| Malformed {
        field,
        offset: out.len(),
        what: format!("{} bytes are over the limit of {MAX_TEXT}", text.len()),
    })?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Appends a byte string.
///
/// Errors: longer than a `u32` can express.
pub fn put_bytes(out: &mut Vec<u8>, field: &'static str, bytes: &[u8]) -> Result<(), Malformed> {
    out.extend_from_slice(&length(out.len(), field, bytes.len())?.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// `len` as the `u32` it is on the wire.
pub fn length(offset: usize, field: &'static str, len: usize) -> Result<u32, Malformed> {
    u32::try_from(len).map_err(|_| Malformed { field, offset, what: format!("{len} is too many") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_put() {
        let mut body = vec![7, 1];
        put_text(&mut body, "name", "smør").unwrap();
        put_bytes(&mut body, "key", &[1, 2, 3]).unwrap();
        body.extend_from_slice(bson::rawdoc! { "a": 1 }.as_bytes());
        let mut reader = Reader::new(&body);
        assert_eq!(reader.u8("n").unwrap(), 7);
        assert!(reader.bool("b").unwrap());
        assert_eq!(reader.text("name").unwrap(), "smør");
        assert_eq!(reader.bytes("key").unwrap(), [1, 2, 3]);
        assert_eq!(reader.document("doc").unwrap().get_i32("a").unwrap(), 1);
        reader.finish().unwrap();
    }

    #[test]
    fn a_length_beyond_the_body_is_refused_without_allocating() {
        let error = Reader::new(&[255, 255, 255, 255, 1]).bytes("key").unwrap_err();
        assert_eq!(error.to_string(), "byte 4 of the body, key: needs 4294967295 bytes, 1 are left");
        let error = Reader::new(&[255, 255, 255, 255, 1]).count("documents", 5).unwrap_err();
        assert_eq!(error.offset, 0);
        assert!(Reader::new(&[9, 0, b'x']).text("name").is_err());
    }

    #[test]
    fn documents_that_lie_about_their_length_are_refused() {
        for bytes in [
            &[0, 0, 0, 0, 0][..],
            &[4, 0, 0, 0],
            &[255, 255, 255, 255, 0],
            &[6, 0, 0, 0, 0],
            &[5, 0, 0, 0, 1],
            &[5, 0],
        ] {
            assert!(Reader::new(bytes).document("filter").is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn text_must_be_utf8_and_booleans_zero_or_one() {
        assert!(Reader::new(&[1, 0, 0xff]).text("name").unwrap_err().what.starts_with("not UTF-8"));
        assert_eq!(Reader::new(&[2]).bool("multi").unwrap_err().what, "must be 0 or 1, is 2");
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_refused() {
        let mut reader = Reader::new(&[1, 2]);
        reader.u8("n").unwrap();
        assert_eq!(reader.finish().unwrap_err().to_string(), "byte 1 of the body, end: 1 bytes too many");
    }
}
