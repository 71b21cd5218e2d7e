//! Applying a difference as MongoDB's oplog has it (`document_diff` has the parts of one) to a document.
//!
//! Replaying entries a second time must end where the first time did. So a field that is updated and not there is added, one that is
//! inserted and there moves to the end, and a difference within a field that is no longer a document or array is left out: an entry
//! that comes later has made it something else.

use std::collections::{BTreeMap, HashMap};

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::{Change, Sink};
use treedb_query::doc::write::Writer;
use treedb_query::doc::{Doc, Element, FieldsByName, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::{Filter, Query, find_rows};

use crate::collection::Collection;

/// An array may get so many nulls at most before an element that was not there: MongoDB's limit.
const MAX_PADDING: usize = 1_500_000;

impl Collection {
    /// Applies the difference of an update entry of an oplog to the document that `filter` finds first. False if there is none.
    ///
    /// # Errors
    /// `FailedToParse` for what is no difference; those of an update.
    pub fn apply_difference(&self, filter: &RawDocument, difference: &RawDocument) -> Result<bool> {
        let filter = Filter::parse(filter)?;
        let difference = Doc::from(difference);
        let found = self.edit(false, |edit| {
            let (query, own) = (Query::new(filter.clone()), &edit.meta.collation);
            let query = if own.is_simple() { query } else { query.collated(own)? };
            let mut rows = Vec::new();
            edit.read(&mut |source, context| {
                rows = find_rows(source, context, &query, 1)?;
                Ok(())
            })?;
            let Some(row) = rows.first() else { return Ok(false) };
            edit.modify(*row, &mut |old| {
                let new = applied(Doc::from(old), difference)?;
                let id = |document| Doc::find(document, b"_id").map(|id| (id.kind, id.bytes));
                if id(Doc::from(old)) != id(Doc::from(&new)) {
                    return Err(QueryError::new(
                        ErrorCode::ImmutableField,
                        "Performing an update on the path '_id' would modify the immutable field '_id'",
                    ));
                }
                Ok(if new.as_bytes() == old.as_bytes() { Change::Keep } else { Change::Update(new) })
            })
        })?;
        Ok(found.unwrap_or(false))
    }
}

fn malformed(part: &Element<'_>) -> QueryError {
    QueryError::new(
        ErrorCode::FailedToParse,
        format!(
            "Expected a difference as an oplog has it ({{ d, u, i, sName }}), but found the field '{}'",
            part.name_str()
        ),
    )
}

/// What the difference makes of a document.
fn applied(old: Doc<'_>, difference: Doc<'_>) -> Result<RawDocumentBuf> {
    let (mut removed, mut updated, mut inserted) = (Doc::EMPTY, Doc::EMPTY, Doc::EMPTY);
    let mut parts: HashMap<&[u8], Doc<'_>> = HashMap::new();
    for part in difference.elements() {
        match (part.name, part.value()) {
            (b"d", Value::Document(fields)) => removed = fields,
            (b"u", Value::Document(fields)) => updated = fields,
            (b"i", Value::Document(fields)) => inserted = fields,
            ([b's', name @ ..], Value::Document(within)) => drop(parts.entry(name).or_insert(within)),
            _ => return Err(malformed(&part)),
        }
    }
    let (mut is_removed, mut is_inserted) = (FieldsByName::new(removed), FieldsByName::new(inserted));
    let (mut new, mut before) = (FieldsByName::new(updated), FieldsByName::new(old));
    let mut out = Writer::new(old.as_bytes().len() + 64);
    for field in old.elements() {
        if is_removed.find(field.name).is_some() || is_inserted.find(field.name).is_some() {
            continue;
        }
        if let Some(new) = new.find(field.name) {
            out.copy(&new);
            continue;
        }
        match parts.get(field.name) {
            Some(within) => change_within(field.name, &field, *within, &mut out)?,
            None => out.copy(&field),
        }
    }
    updated.elements().filter(|field| before.find(field.name).is_none()).for_each(|field| out.copy(&field));
    inserted.elements().for_each(|field| out.copy(&field));
    Ok(out.finish())
}

/// Writes a value under a name, changed by a difference of its own kind.
fn change_within(name: &[u8], value: &Element<'_>, difference: Doc<'_>, out: &mut Writer) -> Result<()> {
    let of_array = difference.elements().next().is_some_and(|first| first.name == b"a");
    match value.value() {
        Value::Document(old) if !of_array => {
            out.value(name, Value::Document(Doc::from(&applied(old, difference)?)));
        }
        Value::Array(old) if of_array => {
            out.value(name, Value::Array(Doc::from(&applied_to_array(old, difference)?)));
        }
        _ => out.put(name, value),
    }
    Ok(())
}

/// What the difference makes of an array.
fn applied_to_array(old: Doc<'_>, difference: Doc<'_>) -> Result<RawDocumentBuf> {
    let elements: Vec<_> = old.elements().collect();
    let mut length = elements.len();
    let mut changes: BTreeMap<usize, (bool, Element<'_>)> = BTreeMap::new();
    for part in difference.elements() {
        match (part.name, part.value()) {
            (b"a", Value::Bool(true)) => {}
            (b"l", new) => {
                let new = new.as_integer().and_then(|new| usize::try_from(new).ok());
                length = new.ok_or_else(|| malformed(&part))?;
            }
            ([kind @ (b'u' | b's'), at @ ..], _) => {
                let at = std::str::from_utf8(at).ok().and_then(|at| at.parse().ok());
                changes.insert(at.ok_or_else(|| malformed(&part))?, (*kind == b'u', part));
            }
            _ => return Err(malformed(&part)),
        }
    }
    let last_set =
        changes.iter().rev().find(|(_, (sets, _))| *sets).map_or(0, |(at, _)| at.saturating_add(1));
    length = length.max(last_set);
    if length > elements.len().saturating_add(MAX_PADDING) {
        return Err(QueryError::bad_value(format!(
            "a difference would add more than {MAX_PADDING} elements to an array of {}",
            elements.len()
        )));
    }
    let mut out = Writer::new(old.as_bytes().len() + 64);
    for at in 0..length {
        let name = at.to_string();
        match (changes.get(&at), elements.get(at)) {
            (Some((true, new)), _) => out.put(name.as_bytes(), new),
            (Some((false, part)), Some(element)) => {
                let Value::Document(within) = part.value() else { return Err(malformed(part)) };
                change_within(name.as_bytes(), element, within, &mut out)?;
            }
            (None, Some(element)) => out.put(name.as_bytes(), element),
            (_, None) => out.value(name.as_bytes(), Value::Null),
        }
    }
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::changes::document_diff::document_diff;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn apply(old: &Document, difference: &Document) -> Result<Document> {
        let new = applied(Doc::from(&raw(old)), Doc::from(&raw(difference)))?;
        Ok(Document::try_from(&*new).unwrap())
    }

    #[test]
    fn a_difference_of_two_versions_makes_the_new_one_of_the_old_once_or_twice() {
        let (mut dice, mut differences) = (Rng::new(11), 0);
        for _ in 0..3000 {
            let old = Document::try_from(&*random_document(&mut dice, 4)).unwrap();
            let mut new = old.clone();
            new.extend(Document::try_from(&*random_document(&mut dice, 4)).unwrap());
            let names: Vec<_> = new.keys().cloned().collect();
            names.iter().filter(|_| dice.chance(20)).for_each(|name| drop(new.remove(name)));
            let (old, new) = (raw(&old), raw(&new));
            let Some(difference) = document_diff(Doc::from(&old), Doc::from(&new)) else { continue };
            let once = applied(Doc::from(&old), Doc::from(&difference)).unwrap();
            assert_eq!(once.as_bytes(), new.as_bytes(), "{old:?}, {difference:?}");
            let twice = applied(Doc::from(&once), Doc::from(&difference)).unwrap();
            assert_eq!(twice.as_bytes(), new.as_bytes(), "{old:?}, {difference:?}");
            differences += 1;
        }
        assert!(differences > 1000);
    }

    #[test]
    fn a_difference_of_another_server_is_applied_where_the_document_is_another_too() {
        for (old, difference, new) in [
            (doc! { "a": 1 }, doc! { "u": { "b": 2 } }, doc! { "a": 1, "b": 2 }),
            (doc! { "a": 1, "b": 2 }, doc! { "i": { "a": 3 } }, doc! { "b": 2, "a": 3 }),
            (doc! { "a": 1 }, doc! { "d": { "none": false }, "snone": { "u": { "x": 1 } } }, doc! { "a": 1 }),
            (doc! { "a": 1 }, doc! { "sa": { "u": { "x": 1 } } }, doc! { "a": 1 }),
            (doc! { "a": [1] }, doc! { "sa": { "u": { "x": 1 } } }, doc! { "a": [1] }),
            (doc! { "a": { "b": 1 } }, doc! { "sa": { "a": true, "u0": 1 } }, doc! { "a": { "b": 1 } }),
            (doc! { "a": [1, 2, 3] }, doc! { "sa": { "a": true, "l": 1 } }, doc! { "a": [1] }),
            (doc! { "a": [1] }, doc! { "sa": { "a": true, "l": 3_i64 } }, doc! { "a": [1, null, null] }),
            (
                doc! { "a": [1] },
                doc! { "sa": { "a": true, "u2": 5, "s7": { "u": { "x": 1 } } } },
                doc! { "a": [1, null, 5] },
            ),
            (
                doc! { "a": [{ "b": [1, 2] }, 3] },
                doc! { "sa": { "a": true, "s0": { "sb": { "a": true, "u1": "two" }, "u": { "c": 1 } } } },
                doc! { "a": [{ "b": [1, "two"], "c": 1 }, 3] },
            ),
        ] {
            assert_eq!(apply(&old, &difference).unwrap(), new, "{old}, {difference}");
        }
    }

    #[test]
    fn what_is_no_difference_is_refused() {
        for difference in [
            doc! { "x": 1 },
            doc! { "u": 1 },
            doc! { "sa": 1 },
            doc! { "sa": { "a": true, "l": -1 } },
            doc! { "sa": { "a": true, "u": 1 } },
            doc! { "sa": { "a": true, "ux": 1 } },
            doc! { "sa": { "a": true, "s0": 1 } },
            doc! { "sa": { "a": true, "d": { "b": false } } },
        ] {
            let error = apply(&doc! { "a": [{ "b": 1 }] }, &difference).unwrap_err();
            assert_eq!(error.code, ErrorCode::FailedToParse, "{difference}");
        }
        for difference in
            [doc! { "sa": { "a": true, "u2000000": 1 } }, doc! { "sa": { "a": true, "l": i64::MAX } }]
        {
            let error = apply(&doc! { "a": [1] }, &difference).unwrap_err();
            assert_eq!(error.code, ErrorCode::BadValue, "{difference}");
        }
    }
}
