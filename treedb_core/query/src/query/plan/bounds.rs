//! Plans of the bounds `min` and `max` of an index's keys. The keys are compared as the index has them, so that the bounds select
//! documents that no filter could: they are the range that is scanned, and the filter is evaluated on what it finds.

use bson::RawDocument;

use crate::access::{Direction, IndexInfo, KeyRange};
use crate::doc::Doc;
use crate::doc::key::invert;
use crate::error::{ErrorCode, QueryError, Result};
use crate::index::ordered::{IndexDef, SortOrder};

use super::{KeyBounds, KeyPredicate, Path, Plan, Query};

/// Refuses bounds without an index.
pub(super) fn refuse(bounds: &KeyBounds) -> Result<()> {
    if bounds.is_none() {
        return Ok(());
    }
    Err(QueryError::new(
        ErrorCode::Location51173,
        "When using min()/max() a hint of which index to use must be provided",
    ))
}

/// Refuses bounds of a search by distance, which reads an index in no order of keys.
pub(super) fn refuse_near(query: &Query) -> Result<()> {
    match query.hint {
        Some(_) if !query.bounds.is_none() => Err(QueryError::new(
            ErrorCode::Location51174,
            "The index chosen is not compatible with min/max: $near reads it in the order of distances",
        )),
        _ => refuse(&query.bounds),
    }
}

/// The scan of the range between the query's bounds in `index`, which is number `number`.
pub(super) fn plan(index: &IndexInfo, number: usize, query: &Query) -> Result<Plan> {
    let unfit = |why: &str| {
        QueryError::new(
            ErrorCode::Location51174,
            format!("The index chosen is not compatible with min/max: {why}"),
        )
    };
    let Some(def) = index.def.as_ordered().filter(|def| def.options.kind.is_values()) else {
        return Err(unfit("its keys are not in the order of the values"));
    };
    let KeyBounds { min, max } = &query.bounds;
    let names = |bound: &RawDocument| {
        Doc::from(bound).elements().map(|field| field.name_str().to_owned()).collect::<Vec<_>>()
    };
    if let (Some(min), Some(max)) = (min, max)
        && names(min) != names(max)
    {
        return Err(QueryError::new(ErrorCode::Location51176, "min and max must have the same field names"));
    }
    let encode = |bound: &RawDocument| -> Result<Vec<u8>> {
        if !names(bound).iter().map(String::as_str).eq(def.keys.iter().map(|part| part.path.as_str())) {
            return Err(unfit("they must have its fields, in its order"));
        }
        Ok(key(def, bound))
    };
    let low = min.as_deref().map(encode).transpose()?.unwrap_or_default();
    let high = max.as_deref().map(encode).transpose()?;
    if min.is_some() && high.as_ref().is_some_and(|high| *high <= low) {
        return Err(QueryError::new(ErrorCode::Location51175, "max() must be greater than min()"));
    }
    let path = Path::Index {
        index: number,
        name: def.name.clone(),
        ranges: vec![KeyRange { low, high }],
        direction: Direction::Forward,
        distinct: !index.multikey,
        keys: KeyPredicate::default(),
    };
    Ok(Plan::new(path, query.sort.is_some()))
}

/// The key of the values in `bound`.
fn key(def: &IndexDef, bound: &RawDocument) -> Vec<u8> {
    let mut key = Vec::new();
    for (part, field) in def.keys.iter().zip(Doc::from(bound).elements()) {
        let start = key.len();
        def.options.collation.encode(field.value(), &mut key);
        if part.direction == SortOrder::Descending {
            key.get_mut(start..).map(invert);
        }
    }
    key
}
