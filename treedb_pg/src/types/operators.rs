//! `@> <@ ? ?| ?& #> #>>` of documents: what they mean for `jsonb`.
//!
//! A document contains another if it has all its fields: of a document in it again what is contained, of an array every
//! element somewhere, of any other value an equal one. Numbers of different types are equal if they are worth the same.
//! Paths are lists of names of fields and positions in arrays, negative ones from the end.

use treedb_query::doc::{Doc, Element, Value, compare};

use super::value;
use crate::shim::datum::Datum;
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::text;

/// Whether a document has all that another has.
fn contains(outer: Doc<'_>, inner: Doc<'_>) -> bool {
    inner.elements().all(|wanted| {
        outer.find(wanted.name).is_some_and(|found| value_contains(found.value(), wanted.value()))
    })
}

/// Whether an array has an element for each of another.
fn array_contains(outer: Doc<'_>, inner: Doc<'_>) -> bool {
    inner.elements().all(|wanted| outer.elements().any(|found| value_contains(found.value(), wanted.value())))
}

fn value_contains(outer: Value<'_>, inner: Value<'_>) -> bool {
    match (outer, inner) {
        (Value::Document(outer), Value::Document(inner)) => contains(outer, inner),
        (Value::Array(outer), Value::Array(inner)) => array_contains(outer, inner),
        (Value::Document(_) | Value::Array(_), _) | (_, Value::Document(_) | Value::Array(_)) => false,
        (outer, inner) => compare::compare(outer, inner).is_eq(),
    }
}

pg_function! {
    /// `document @> document`.
    fn treedb_bson_contains(args: [Varlena, Varlena]) -> bool {
        contains(Doc::new(&args.bytes(0)), Doc::new(&args.bytes(1)))
    }
}

pg_function! {
    /// `document <@ document`.
    fn treedb_bson_contained(args: [Varlena, Varlena]) -> bool {
        contains(Doc::new(&args.bytes(1)), Doc::new(&args.bytes(0)))
    }
}

/// Whether a document has a field of this name, which is in the database's encoding.
fn has_field(document: Doc<'_>, name: &[u8]) -> bool {
    document.find(text::to_utf8(name).as_bytes()).is_some()
}

/// The names in argument 1, without NULLs, each tested for a field of document 0.
fn fields_there(args: &Args) -> Vec<bool> {
    let bytes = args.bytes(0);
    let document = Doc::new(&bytes);
    args.elements(1).into_iter().flatten().map(|name| has_field(document, &name.bytes())).collect()
}

pg_function! {
    /// `document ? name`.
    fn treedb_bson_exists(args: [Varlena, Varlena]) -> bool {
        has_field(Doc::new(&args.bytes(0)), &args.bytes(1))
    }
}

pg_function! {
    /// `document ?| names`.
    fn treedb_bson_exists_any(args: [Varlena, Array]) -> bool {
        fields_there(args).contains(&true)
    }
}

pg_function! {
    /// `document ?& names`.
    fn treedb_bson_exists_all(args: [Varlena, Array]) -> bool {
        !fields_there(args).contains(&false)
    }
}

/// The element of an array at a position, which a name gives; negative ones count from the end.
fn at_position<'a>(array: Doc<'a>, position: &str) -> Option<Element<'a>> {
    let position: i32 = position.trim_start().parse().ok()?;
    match usize::try_from(position) {
        Ok(position) => array.at(position),
        Err(_) => {
            let back = usize::try_from(position.unsigned_abs()).ok()?;
            array.at(array.elements().count().checked_sub(back)?)
        }
    }
}

/// The element at the end of a path through `document`, itself at the end of an empty one; `None` if there is none.
fn at_path<'a>(document: &'a [u8], path: &[Option<Datum<'_>>]) -> Option<Element<'a>> {
    const DOCUMENT: u8 = 0x03;
    let mut found = Element { name: &[], kind: DOCUMENT, bytes: document };
    for name in path {
        // A path with a NULL leads nowhere.
        let name = (*name)?.bytes();
        let name = text::to_utf8(&name);
        found = match found.value() {
            Value::Document(inner) => inner.find(name.as_bytes())?,
            Value::Array(array) => at_position(array, &name)?,
            _ => return None,
        };
    }
    Some(found)
}

pg_function! {
    /// `document #> path`: the value at a path, or NULL.
    fn treedb_bson_get_path(args: [Varlena, Array]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(0);
        at_path(&bytes, &args.elements(1)).map(|element| value::varlena(args.memory(), &element))
    }
}

pg_function! {
    /// `document #>> path`: the same as text, or NULL.
    fn treedb_bson_get_path_text(args: [Varlena, Array]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(0);
        let found = at_path(&bytes, &args.elements(1));
        found.and_then(|element| value::as_text(&element)).map(|text| args.memory().text(&text))
    }
}
