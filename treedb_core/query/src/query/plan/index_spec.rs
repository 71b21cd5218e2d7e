//! Parses the specification of an index, including its `partialFilterExpression`.

use std::cmp::Ordering;

use bson::RawDocument;

use crate::doc::compare::compare;
use crate::doc::{Collation, Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::index::Definition;
use crate::index::ordered::{Covers, IndexDef, Partial};

use crate::query::filter::{Filter, Node, Test};

impl Covers for Filter {
    fn covers(&self, doc: &RawDocument) -> Result<bool> {
        self.matches(doc)
    }

    fn source(&self) -> &RawDocument {
        Filter::source(self)
    }
}

/// Parses the specification of an index of any kind, as in `createIndexes` or `listIndexes`.
///
/// # Errors
/// Those of [`Definition::from_spec`]; for an ordered index, of [`index_of`].
pub fn definition_of(spec: &RawDocument) -> Result<Definition> {
    Definition::from_spec(spec, &|filter, collation| partial(filter, collation))
}

/// What the specification of the index on `_id` may have.
const FIELDS_OF_ID_INDEX: [&str; 5] = ["key", "name", "v", "ns", "collation"];

/// Refuses a specification of the index on `_id` with options, which that index does not have, also if they are false.
///
/// # Errors
/// `InvalidIndexSpecificationOption`, which names the option.
pub fn check_id_index_fields(spec: &RawDocument) -> Result<()> {
    let mut fields = Doc::from(spec).elements();
    match fields.find(|field| !FIELDS_OF_ID_INDEX.contains(&field.name_str())) {
        None => Ok(()),
        Some(other) => Err(QueryError::new(
            ErrorCode::InvalidIndexSpecificationOption,
            format!(
                "The field '{}' is not valid for an _id index specification. Specification: {}",
                other.name_str(),
                crate::doc::shown(Value::Document(spec.into()))
            ),
        )),
    }
}

/// Parses the specification of an index that is to be created: as many as a search index has fields of vectors, otherwise one. An index on `_id` alone is the one that every collection has,
/// by whatever name it is asked for, and no other index may have the name of that one.
///
/// # Errors
/// Those of [`definition_of`] and [`check_id_index_fields`]; `BadValue` for a descending index on `_id` alone, and for the
/// name `_id_` of an index on other fields.
pub fn new_definitions_of(spec: &RawDocument) -> Result<Vec<Definition>> {
    let is_id = is_id_index(spec)?;
    let mut definitions = Definition::all_from_spec(spec, &|filter, collation| partial(filter, collation))?;
    for def in definitions.iter_mut().filter_map(Definition::as_ordered_mut) {
        if is_id {
            let IndexDef { name, unique, .. } = IndexDef::id();
            (def.name, def.unique) = (name, unique);
        } else if def.is_id() {
            return Err(QueryError::bad_value(format!(
                "The index name '{}' is reserved for the _id index, which must have key pattern {{_id: 1}}, found key: {}",
                def.name,
                crate::doc::shown(Value::Document((&def.key_pattern()).into()))
            )));
        }
    }
    Ok(definitions)
}

/// True if `spec` is that of the index on `_id`, which is checked.
fn is_id_index(spec: &RawDocument) -> Result<bool> {
    let Some(Value::Document(key)) = Doc::from(spec).get("key") else { return Ok(false) };
    let mut fields = key.elements();
    let direction = match (fields.next(), fields.next()) {
        (Some(only), None) if only.name == b"_id" && only.value().is_number() => only.value(),
        _ => return Ok(false),
    };
    match compare(direction, Value::Int32(0)) {
        // No direction: not a key of any index.
        Ordering::Equal => Ok(false),
        Ordering::Greater => check_id_index_fields(spec).map(|()| true),
        Ordering::Less => {
            check_id_index_fields(spec)?;
            Err(QueryError::bad_value(format!(
                "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
                crate::doc::shown(Value::Document(key))
            )))
        }
    }
}

/// Parses the specification of an ordered index, as in `createIndexes` or `listIndexes`.
///
/// # Errors
/// The errors of [`IndexDef::from_spec`]; `CannotCreateIndex` for a `partialFilterExpression` with other
/// operators than `$eq $in $gt $gte $lt $lte $type $exists: true $and $or`.
pub fn index_of(spec: &RawDocument) -> Result<IndexDef> {
    IndexDef::from_spec(spec, &|filter, collation| partial(filter, collation))
}

fn partial(filter: &RawDocument, collation: &Collation) -> Result<Partial> {
    let filter = Filter::parse(filter)?.collated(collation)?;
    if !allowed(filter.root()) {
        return Err(QueryError::new(
            ErrorCode::CannotCreateIndex,
            format!(
                "Expression not supported in partial index: {} (possible are $eq, $in, $gt, $gte, $lt, $lte, $type, \
                 $exists: true, $and, $or)",
                crate::doc::shown(crate::doc::Value::Document(Filter::source(&filter).into()))
            ),
        ));
    }
    Ok(Partial::new(filter))
}

fn allowed(node: &Node) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().all(allowed),
        Node::Compare { .. } | Node::In { .. } | Node::Folded(_) | Node::Exists { .. } => true,
        Node::Value { test, .. } => matches!(test, Test::Type(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::raw::cstr;
    use bson::{RawBson, rawdoc};

    #[test]
    fn a_partial_index_covers_what_its_filter_matches_and_shows_it() {
        let filter =
            rawdoc! { "n": { "$gt": 5 }, "s": { "$exists": true }, "$or": [{ "a": 1 }, { "a": "X" }] };
        let spec = rawdoc! {
            "key": { "n": 1 }, "partialFilterExpression": filter.clone(),
            "collation": { "locale": "en", "strength": 2 },
        };
        let def = index_of(&spec).unwrap();
        assert_eq!(index_of(&def.spec()).unwrap(), def);
        assert_eq!(def.spec().get_document("partialFilterExpression").unwrap(), &*filter);
        for (doc, entries) in [
            (rawdoc! { "n": 6, "s": null, "a": "x" }, 1),
            (rawdoc! { "n": [1, 6], "s": 0, "a": 1 }, 2),
            (rawdoc! { "n": 5, "s": 0, "a": 1 }, 0),
            (rawdoc! { "n": 6, "a": 1 }, 0),
        ] {
            assert_eq!(def.keys(&doc).unwrap().keys.len(), entries, "{doc:?}");
        }
    }

    #[test]
    fn other_operators_are_refused_in_a_partial_index() {
        for filter in [
            rawdoc! { "a": { "$exists": false } },
            rawdoc! { "a": { "$ne": 1 } },
            rawdoc! { "a": { "$regex": "x" } },
            rawdoc! { "a": { "$size": 1 } },
            rawdoc! { "$expr": { "$eq": ["$a", 1] } },
        ] {
            let spec = rawdoc! { "key": { "a": 1 }, "partialFilterExpression": filter };
            assert_eq!(index_of(&spec).unwrap_err().code, ErrorCode::CannotCreateIndex);
        }
        let both = rawdoc! { "key": { "a": 1 }, "sparse": true, "partialFilterExpression": { "a": 1 } };
        assert_eq!(index_of(&both).unwrap_err().code, ErrorCode::CannotCreateIndex);
    }

    #[test]
    fn an_index_on_id_alone_is_the_one_that_every_collection_has() {
        let id = Definition::id();
        for spec in [
            rawdoc! { "key": { "_id": 1 } },
            rawdoc! { "v": 2, "key": { "_id": 1.0 }, "name": "byId", "ns": "shop.films" },
        ] {
            assert_eq!(new_definitions_of(&spec).unwrap(), std::slice::from_ref(&id));
        }
        for spec in [rawdoc! { "key": { "_id": "hashed" } }, rawdoc! { "key": { "_id": 1, "n": 1 } }] {
            assert!(!new_definitions_of(&spec).unwrap()[0].is_id(), "{spec:?}");
        }
    }

    #[test]
    fn the_index_on_id_has_no_options_and_its_name_is_that_of_no_other() {
        for (name, value) in [
            (cstr!("unique"), RawBson::Boolean(true)),
            (cstr!("unique"), RawBson::Boolean(false)),
            (cstr!("sparse"), RawBson::Boolean(false)),
            (cstr!("hidden"), RawBson::Boolean(true)),
            (cstr!("background"), RawBson::Boolean(true)),
            (cstr!("expireAfterSeconds"), RawBson::Int32(1)),
            (cstr!("partialFilterExpression"), RawBson::Document(rawdoc! { "a": 1 })),
            (cstr!("dropDups"), RawBson::Boolean(true)),
        ] {
            for direction in [1, -1] {
                let mut spec = rawdoc! { "key": { "_id": direction }, "name": "_id_" };
                spec.append(name, value.clone());
                let error = new_definitions_of(&spec).unwrap_err();
                assert_eq!(error.code, ErrorCode::InvalidIndexSpecificationOption, "{spec:?}");
                let quoted = format!("'{}'", name.as_str());
                assert!(error.message.contains(&quoted), "{}", error.message);
            }
        }
        for spec in [
            rawdoc! { "key": { "_id": -1 }, "name": "_id_-1" },
            rawdoc! { "key": { "a": 1 }, "name": "_id_" },
            rawdoc! { "key": { "_id": 1, "a": 1 }, "name": "_id_" },
        ] {
            assert_eq!(new_definitions_of(&spec).unwrap_err().code, ErrorCode::BadValue, "{spec:?}");
        }
        assert_eq!(
            new_definitions_of(&rawdoc! { "key": { "_id": 0 } }).unwrap_err().code,
            ErrorCode::CannotCreateIndex
        );
    }
}
