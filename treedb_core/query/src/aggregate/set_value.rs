//! Documents with a value put at a path.

use bson::RawDocumentBuf;

use crate::doc::path::Part;
use crate::doc::write::Writer;
use crate::doc::{Doc, Path, Value};
use crate::error::Result;
use crate::query::finish_document;

/// `document` with `value` at `path`, or without a field there (`None`). What is not a document on the way to it is replaced by
/// one.
pub(crate) fn with_value(document: Doc<'_>, path: &Path, value: Option<Value<'_>>) -> Result<RawDocumentBuf> {
    let mut out = Writer::new(document.as_bytes().len() + 32);
    set_value(document, path.parts(), value, &mut out);
    finish_document(out)
}

/// [`with_value`], written to `out`.
pub(crate) fn set_value(document: Doc<'_>, parts: &[Part], value: Option<Value<'_>>, out: &mut Writer) {
    let Some((part, rest)) = parts.split_first() else { return };
    let name = part.name.as_bytes();
    let inner = |below: Doc<'_>, out: &mut Writer| match value {
        Some(value) if rest.is_empty() => out.value(name, value),
        None if rest.is_empty() => {}
        _ => {
            let open = out.open_document(name);
            set_value(below, rest, value, out);
            out.close(open);
        }
    };
    let mut there = false;
    for element in document.elements() {
        if element.name != name || there {
            out.copy(&element);
            continue;
        }
        there = true;
        match element.value() {
            Value::Document(below) => inner(below, out),
            _ if rest.is_empty() || value.is_some() => inner(Doc::EMPTY, out),
            _ => out.copy(&element),
        }
    }
    if !there && value.is_some() {
        inner(Doc::EMPTY, out);
    }
}
