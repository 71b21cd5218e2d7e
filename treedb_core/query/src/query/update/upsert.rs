//! The fields that an upsert takes from its filter: those that must equal a value.

use bson::{Bson, Document};

use crate::error::{ErrorCode, QueryError, Result};
use crate::query::filter::Filter;

use super::path::Path;

/// The document of the filter's equalities: `{a: 1, "b.c": {$eq: 2}, $and: [{d: 3}], e: {$gt: 4}}` gives
/// `{a: 1, b: {c: 2}, d: 3}`.
pub(super) fn equalities(filter: &Filter) -> Result<Document> {
    let found = filter.equalities();
    let mut base = Document::new();
    for (at, (path, value)) in found.iter().enumerate() {
        if let Some((other, _)) = found.iter().take(at).find(|(other, _)| path.overlaps(other)) {
            let what = if other == path {
                format!("path '{path}' is matched twice")
            } else {
                format!("both paths '{other}' and '{path}' are matched")
            };
            return Err(QueryError::new(
                ErrorCode::NotSingleValueField,
                format!("cannot infer query fields to set, {what}"),
            ));
        }
        if let Some(value) = value.as_raw() {
            Path::parse(path.as_str())?.set(&mut base, Bson::try_from(value)?)?;
        }
    }
    Ok(base)
}
