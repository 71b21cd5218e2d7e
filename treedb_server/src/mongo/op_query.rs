//! OP_QUERY and its reply, which drivers still use for their first `isMaster`.
//!
//! ```text
//! 16 i32 flags · collection name NUL · i32 skip · i32 count · document · [document: fields]
//! reply: 16 i32 flags · i64 cursor (0) · i32 starting from (0) · i32 documents (1) · document
//! ```

use bson::RawDocument;
use treedb_query::doc::validate;
use treedb_query::query::ErrorCode;

use super::error::CommandError;
use super::wire::{HEADER_BYTES, Header, OP_REPLY};

/// The reply's flag for "this document is an error".
const QUERY_FAILURE: i32 = 2;

/// The database and command of a legacy query of `db.$cmd`.
pub(crate) fn parse(bytes: &[u8]) -> Result<(&str, &RawDocument), CommandError> {
    let protocol = CommandError::protocol;
    let rest = bytes.get(HEADER_BYTES + 4..).ok_or_else(|| protocol("OP_QUERY without flags"))?;
    let name_len =
        rest.iter().position(|&byte| byte == 0).ok_or_else(|| protocol("OP_QUERY without namespace"))?;
    let (name, rest) = rest.split_at(name_len);
    let name = std::str::from_utf8(name).map_err(|_| protocol("OP_QUERY namespace is not UTF-8"))?;
    let rest = rest.get(1 + 8..).ok_or_else(|| protocol("OP_QUERY ends early"))?;
    let length = rest.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    let document =
        rest.get(..length).ok_or_else(|| protocol("OP_QUERY document is longer than its message"))?;
    let command = validate(document)?;
    match name.strip_suffix(".$cmd") {
        Some(database) => Ok((database, command)),
        None => Err(unsupported("query")),
    }
}

/// The error for everything that is not the handshake.
pub(crate) fn unsupported(command: &str) -> CommandError {
    CommandError::new(
        ErrorCode::UnsupportedOpQueryCommand,
        format!("Unsupported OP_QUERY command: {command}. The client driver may require an upgrade."),
    )
}

/// The bytes of a reply with one document.
pub(crate) fn reply(request_id: i32, response_to: i32, document: &RawDocument, failed: bool) -> Vec<u8> {
    let length = HEADER_BYTES + 20 + document.as_bytes().len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&Header::bytes(length, request_id, response_to, OP_REPLY));
    let flags = if failed { QUERY_FAILURE } else { 0 };
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&[0; 12]);
    bytes.extend_from_slice(&1_i32.to_le_bytes());
    bytes.extend_from_slice(document.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::super::wire::OP_QUERY;
    use super::*;

    fn query(namespace: &str, document: &[u8]) -> Vec<u8> {
        let mut bytes = Header::bytes(0, 1, 0, OP_QUERY).to_vec();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(namespace.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(-1_i32).to_le_bytes());
        bytes.extend_from_slice(document);
        bytes
    }

    #[test]
    fn the_handshake_is_read() {
        let command = rawdoc! { "isMaster": 1 };
        let bytes = query("admin.$cmd", command.as_bytes());
        assert_eq!(parse(&bytes).unwrap(), ("admin", &*command));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = query("admin.$cmd", rawdoc! { "isMaster": 1 }.as_bytes());
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(parse(&query("a.b", rawdoc! {}.as_bytes())).unwrap_err().code, 352);
    }
}
