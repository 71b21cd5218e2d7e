//! Filters that every document matches of which an operator of `jsonb` is true, so that indexes narrow the search for it:
//! `doc @> '{"a": {"b": 1}}'` implies `{"a.b": 1}`.
//!
//! A filter may be wider than its operator, never narrower; the operator is evaluated on each row that is found. It is
//! narrowed by values at dotted paths and by fields that are there. What has no such form is left out: a path whose names
//! have dots or dollars in them or look like positions, an array as the element of an array, and values of types that
//! filters treat in ways of their own. An element of an array is found as `find` finds it, by the array's path.

use treedb_query::doc::write::Writer;
use treedb_query::doc::{Doc, Value};
use treedb_query::query::Filter;

use super::value_range::list_filter;
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::text;

/// Most conditions of a filter; there is no use in more.
const MOST_CONDITIONS: usize = 32;

/// What a condition asks of the value at a path.
#[derive(Clone, Copy, PartialEq)]
enum Wanted<'v> {
    /// It is there.
    Any,
    /// It is this one, or an array with it.
    Value(Value<'v>),
}

/// Conditions on paths that must all be true.
#[derive(Default)]
struct Conditions<'v>(Vec<(String, Wanted<'v>)>);

/// Whether a name stands for itself in a path, whatever the document is.
pub(super) fn is_plain(name: &str) -> bool {
    // The empty name too.
    let position = name.bytes().all(|byte| byte.is_ascii_digit());
    !position && !name.starts_with('$') && !name.contains(['.', '\0'])
}

/// Whether a value of this type equals those that a filter takes for equal, and no other.
pub(super) fn is_comparable(value: Value<'_>) -> bool {
    value.is_number()
        || matches!(
            value,
            Value::String(_) | Value::Bool(_) | Value::Null | Value::ObjectId(_) | Value::Date(_)
        )
}

impl<'v> Conditions<'v> {
    fn add(&mut self, path: &str, wanted: Wanted<'v>) {
        let known = self.0.iter().any(|(known, of)| known == path && *of == wanted);
        if !path.is_empty() && !known && self.0.len() < MOST_CONDITIONS {
            self.0.push((path.to_owned(), wanted));
        }
    }

    /// The document at `path`, or the whole one at the empty path, contains `part`.
    fn document(&mut self, path: &str, part: Doc<'v>) {
        if part.is_empty() {
            self.add(path, Wanted::Any);
        }
        for element in part.elements() {
            let name = element.name_str();
            if !is_plain(name) {
                self.add(path, Wanted::Any);
                continue;
            }
            let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            match element.value() {
                Value::Document(part) => self.document(&inner, part),
                Value::Array(part) => self.array(&inner, part),
                value => self.value(&inner, value),
            }
        }
    }

    /// The array at `path` contains the elements of `part`.
    fn array(&mut self, path: &str, part: Doc<'v>) {
        if part.is_empty() {
            self.add(path, Wanted::Any);
        }
        for element in part.elements() {
            match element.value() {
                Value::Document(part) => self.document(path, part),
                Value::Array(_) => self.add(path, Wanted::Any),
                value => self.value(path, value),
            }
        }
    }

    fn value(&mut self, path: &str, value: Value<'v>) {
        self.add(path, if is_comparable(value) { Wanted::Value(value) } else { Wanted::Any });
    }

    /// The filter that asks for all conditions; `any`: for one of them.
    fn filter(&self, any: bool) -> Vec<u8> {
        let conditions: Vec<Vec<u8>> = self.0.iter().map(|(path, wanted)| condition(path, *wanted)).collect();
        let filter = match conditions.as_slice() {
            [] => every_document(),
            [only] => only.clone(),
            several => list_filter(if any { b"$or" } else { b"$and" }, several.iter().map(Vec::as_slice)),
        };
        // Too long a path, for example.
        if Filter::parse(super::bson::document(&filter)).is_ok() { filter } else { every_document() }
    }
}

/// The filter that asks for one condition.
fn condition(path: &str, wanted: Wanted<'_>) -> Vec<u8> {
    let mut filter = Writer::new(64);
    match wanted {
        Wanted::Value(value) => filter.value(path.as_bytes(), value),
        Wanted::Any => {
            let exists = filter.open_document(path.as_bytes());
            filter.value(b"$exists", Value::Bool(true));
            filter.close(exists);
        }
    }
    filter.finish().into_bytes()
}

/// The filter for documents with a value at a path.
pub(crate) fn presence(path: &str) -> Vec<u8> {
    condition(path, Wanted::Any)
}

/// The filter that says nothing.
pub(super) fn every_document() -> Vec<u8> {
    Writer::new(0).finish().into_bytes()
}

pg_function! {
    /// `treedb.contains_filter(part)`: the filter of `document @> part`.
    fn treedb_contains_filter(args: [Varlena]) -> Varlena<'_> {
        let part = args.bytes(0);
        let mut conditions = Conditions::default();
        conditions.document("", Doc::new(&part));
        args.memory().varlena(&conditions.filter(false))
    }
}

pg_function! {
    /// `treedb.has_field_filter(name)`: the filter of `document ? name`.
    fn treedb_has_field_filter(args: [Varlena]) -> Varlena<'_> {
        let name = args.bytes(0);
        args.memory().varlena(&fields_filter([&*name].into_iter(), false))
    }
}

/// The filter of the names in argument 0, of which NULLs do not count.
fn names_filter(args: &Args, any: bool) -> Vec<u8> {
    let names: Vec<_> = args.elements(0).into_iter().flatten().map(|name| name.bytes()).collect();
    fields_filter(names.iter().map(|name| &**name), any)
}

/// The filter for documents with fields of these names, which are in the database's encoding; `any`: with one of them.
fn fields_filter<'n>(names: impl Iterator<Item = &'n [u8]>, any: bool) -> Vec<u8> {
    let mut conditions = Conditions::default();
    for name in names {
        let name = text::to_utf8(name);
        let condition = is_plain(&name);
        // One of several, of which one says nothing, says nothing.
        if any && (!condition || conditions.0.len() == MOST_CONDITIONS) {
            return every_document();
        }
        if condition {
            conditions.add(&name, Wanted::Any);
        }
    }
    conditions.filter(any)
}

pg_function! {
    /// `treedb.has_any_field_filter(names)`: the filter of `document ?| names`.
    fn treedb_has_any_field_filter(args: [Array]) -> Varlena<'_> {
        args.memory().varlena(&names_filter(args, true))
    }
}

pg_function! {
    /// `treedb.has_all_fields_filter(names)`: the filter of `document ?& names`.
    fn treedb_has_all_fields_filter(args: [Array]) -> Varlena<'_> {
        args.memory().varlena(&names_filter(args, false))
    }
}
