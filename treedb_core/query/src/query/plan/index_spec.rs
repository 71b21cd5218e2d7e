//! Parses the specification of an index, including its `partialFilterExpression`.

use bson::RawDocument;

use crate::doc::Collation;
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
    use bson::rawdoc;

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
}
