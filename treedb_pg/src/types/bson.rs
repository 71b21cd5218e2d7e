//! `treedb.bson`: a BSON document.
//!
//! Stored as its bytes. Every way in (text, binary, casts) goes through the engine's validation, so that what is
//! stored is one valid document of at most 16 MiB. Text is relaxed extended JSON. The order is MongoDB's.

use std::cell::Cell;

use bson::RawDocument;
use treedb_query::doc::{Doc, Path, Value, json, validate};
use treedb_query::{ErrorCode, QueryError};

use super::order::ordered;
use super::value;
use crate::shim::error::{SqlState, fail, fail_with_detail, refuse, refuse_as};
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::{CString, Varlena};
use crate::shim::setting::Switch;
use crate::shim::text;

/// A stored document. Its bytes were validated on their way in; what a damaged page made of them is found out here
/// as far as it matters.
pub(crate) fn document(bytes: &[u8]) -> &RawDocument {
    match RawDocument::from_bytes(bytes) {
        Ok(document) => document,
        Err(error) => fail_with_detail(
            SqlState::ERRCODE_DATA_CORRUPTED,
            "a stored document is damaged",
            error.to_string(),
            "Restore the row from a backup; other rows are readable.",
        ),
    }
}

/// An error about text that should be JSON.
#[track_caller]
pub(crate) fn refuse_text(error: QueryError) -> ! {
    match error.code {
        ErrorCode::FailedToParse | ErrorCode::InvalidBSON => {
            refuse_as(SqlState::ERRCODE_INVALID_TEXT_REPRESENTATION, error)
        }
        ErrorCode::Overflow => refuse_as(SqlState::ERRCODE_PROGRAM_LIMIT_EXCEEDED, error),
        _ => refuse(error),
    }
}

/// The document that these bytes from outside are.
pub(crate) fn from_outside(bytes: &[u8]) -> &RawDocument {
    match validate(bytes) {
        Ok(document) => document,
        Err(error) if error.code == ErrorCode::Overflow => {
            refuse_as(SqlState::ERRCODE_PROGRAM_LIMIT_EXCEEDED, error)
        }
        Err(error) => refuse(error),
    }
}

pg_function! {
    /// Text to document.
    fn treedb_bson_in(args: [CString]) -> Varlena<'_> {
        match json::from_json(&args.cstring(0)) {
            Ok(document) => args.memory().varlena(document.as_bytes()),
            Err(error) => refuse_text(error),
        }
    }
}

/// Whether the text of documents and values reads as the very same ones: plain numbers do not tell an `int` from a small `long`.
pub(crate) static EXACT_TEXT: Switch = Switch::new(
    c"treedb.exact_text",
    c"Writes documents and values as text that reads as the very same ones, with the types of their numbers: for pg_dump.",
    false,
);

/// Most bytes that are kept for the text of the next document.
const KEPT: usize = 64 * 1024;

thread_local! {
    /// Memory for the text of a document.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

pg_function! {
    /// Document to text.
    fn treedb_bson_out(args: [Varlena]) -> CString<'_> {
        let bytes = args.bytes(0);
        let document = document(&bytes);
        // Casts are immutable, and may be what an index is on.
        if EXACT_TEXT.is_on() && !args.are_of_expression() && let Some(text) = json::to_exact_json(document) {
            return args.memory().cstring(&text);
        }
        let mut text = TEXT.take();
        text.clear();
        json::append_json(document, &mut text);
        let string = args.memory().cstring(std::str::from_utf8(&text).unwrap_or_default());
        if text.capacity() <= KEPT {
            TEXT.set(text);
        }
        string
    }
}

pg_function! {
    /// Bytes of a message to document.
    fn treedb_bson_recv(args: [Internal]) -> Varlena<'_> {
        args.memory().varlena(from_outside(args.message(0)).as_bytes())
    }
}

pg_function! {
    /// Document to bytes of a message, and to bytea: both are the document's bytes.
    fn treedb_bson_bytes(args: [Varlena]) -> Varlena<'_> {
        args.memory().varlena(&args.bytes(0))
    }
}

pg_function! {
    /// Bytea to document.
    fn treedb_bson_from_bytea(args: [Varlena]) -> Varlena<'_> {
        args.memory().varlena(from_outside(&args.bytes(0)).as_bytes())
    }
}

fn value_of(bytes: &[u8]) -> Value<'_> {
    Value::Document(Doc::new(bytes))
}

ordered!(
    value_of,
    treedb_bson_lt,
    treedb_bson_le,
    treedb_bson_eq,
    treedb_bson_ne,
    treedb_bson_ge,
    treedb_bson_gt,
    treedb_bson_cmp,
    treedb_bson_hash,
    treedb_bson_hash_extended
);

/// The path that a call site was last called with, parsed.
#[derive(Default)]
struct LastPath(Option<Path>);

/// Calls `with` with argument 1 as a path.
pub(super) fn with_path<T>(args: &Args, with: impl FnOnce(&Path) -> T) -> T {
    let bytes = args.bytes(1);
    let path = text::to_utf8(&bytes);
    args.with_kept(|LastPath(kept)| {
        if kept.as_ref().is_none_or(|kept| kept.as_str() != path) {
            *kept = None;
        }
        with(kept.get_or_insert_with(|| Path::new(&path)))
    })
}

pg_function! {
    /// The value at a path, or NULL.
    fn treedb_bson_get(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(0);
        let found = with_path(args, |path| path.select(Doc::new(&bytes)));
        found.map(|element| value::varlena(args.memory(), &element))
    }
}

pg_function! {
    /// The value at a path as text, or NULL.
    fn treedb_bson_get_text(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(0);
        let found = with_path(args, |path| path.select(Doc::new(&bytes)));
        found.and_then(|element| value::as_text(&element)).map(|text| args.memory().text(&text))
    }
}

pg_function! {
    /// The document without a change of form: what a value that is a document is as `treedb.bson`.
    fn treedb_bson_from_value(args: [Varlena]) -> Varlena<'_> {
        let bytes = args.bytes(0);
        match value::decode(&bytes) {
            Value::Document(inner) => args.memory().varlena(document(inner.as_bytes()).as_bytes()),
            other => fail(
                SqlState::ERRCODE_DATATYPE_MISMATCH,
                format!("a value of type {} is not a document", other.type_name()),
                "Only values of type object can be a treedb.bson; take others as text with ->>.",
            ),
        }
    }
}
