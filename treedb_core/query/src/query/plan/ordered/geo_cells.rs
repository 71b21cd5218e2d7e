//! Ranges of cells in `2dsphere` and `2d` indexes, and the search by distance.

use std::sync::Arc;

use super::cost::entries;
use super::eligible_indexes::holds_all;
use super::field_bounds::field_bounds;
use super::interval::{Interval, MAX_RANGES};
use super::{Kind, OrderedIndex};
use crate::access::{KeyRange, Source, after_prefix};
use crate::doc::Path;
use crate::error::{ErrorCode, QueryError, Result};
use crate::geo::{Grid, Near, Work, ranges_between};
use crate::index::ordered::{GeoFields, KeyPart};
use crate::query::filter::{Node, Test};
use crate::query::{Query, interrupt};

/// Ranges of cells after the values of the fields before them, at most: with more values the ranges are those of the values alone.
/// Each value has as many as the region has cells, so that there may be more than [`MAX_RANGES`].
pub(super) const MOST_RANGES: usize = 8 * MAX_RANGES;

/// A search for the documents nearest to a point.
#[derive(Debug, Clone, PartialEq)]
pub struct NearSearch {
    /// The index's position in [`Source::indexes`].
    pub index: usize,
    /// Its name.
    pub name: String,
    /// What its cells are cells of.
    pub grid: Grid,
    /// The path of the locations.
    pub path: Path,
    /// The point and the distances.
    pub near: Arc<Near>,
    /// What comes before the cells in the keys that are wanted.
    pub(in crate::query) prefixes: Vec<Vec<u8>>,
}

impl NearSearch {
    /// The ranges of keys with these cells.
    pub(in crate::query) fn ranges(&self, cells: &[(u64, u64)]) -> Vec<KeyRange> {
        let of = |prefix: &Vec<u8>| cells.iter().map(|cells| range_of_cells(prefix, *cells)).collect();
        self.prefixes.iter().flat_map(|prefix| -> Vec<KeyRange> { of(prefix) }).collect()
    }
}

/// The keys with a cell from the first to the second of these, after `prefix`.
pub(super) fn range_of_cells(prefix: &[u8], (low, high): (u64, u64)) -> KeyRange {
    let key = |number: u64| [prefix, &number.to_be_bytes()].concat();
    KeyRange { low: key(low), high: after_prefix(&key(high)) }
}

/// The cells of a field of an index that find all documents that a condition selects.
pub(super) fn cells_of(geo: &GeoFields, part: &KeyPart, conditions: &[&Node]) -> Option<Vec<(u64, u64)>> {
    conditions.iter().find_map(|node| match node {
        Node::Value { path, test: Test::Geo(test) } if *path == part.path => test.cell_ranges(geo.grid()),
        _ => None,
    })
}

/// About how many entries an index that begins with the locations has in the cells of the region, or of the distances, that a condition
/// is about; `None` if no index tells, or it is no such condition.
pub(in crate::query::plan) fn entries_in_region(source: &dyn Source, condition: &Node) -> Option<f64> {
    let Node::Value { path, test } = condition else { return None };
    source.indexes().iter().enumerate().filter(|_| test.is_geo()).find_map(|(number, info)| {
        let def = info.def.as_ordered().filter(|def| def.options.partial.is_none())?;
        let Kind::Geo(geo) = &def.options.kind else { return None };
        let part = def.keys.first().filter(|part| geo.has(0) && part.path == *path)?;
        let cells = match test {
            Test::Near(near) => cells_in_reach(geo.grid(), near)?,
            _ => cells_of(geo, part, &[condition])?,
        };
        let ranges: Vec<KeyRange> = cells.iter().map(|cells| range_of_cells(&[], *cells)).collect();
        entries(source, number, &ranges)
    })
}

/// The cells of all locations at the distances that are wanted; `None` if these cells are not measured so.
fn cells_in_reach(grid: &Grid, near: &Near) -> Option<Vec<(u64, u64)>> {
    let (from, to) = near.limits(grid);
    near.is_for(grid).then(|| ranges_between(grid, near, from, to, &Work::new(&interrupt::check)).ok())?
}

/// The search for the documents in the order of their distance, by the index that the query allows.
///
/// # Errors
/// `NoQueryExecutionPlans` if there is none.
pub(in crate::query) fn near_search(
    source: &dyn Source,
    query: &Query,
    conditions: &[&Node],
    path: &Path,
    near: &Arc<Near>,
) -> Result<NearSearch> {
    for (index, info) in source.indexes().iter().enumerate() {
        let Some(ordered) = OrderedIndex::of(info) else { continue };
        let def = &ordered.def;
        let Kind::Geo(geo) = &def.options.kind else { continue };
        let hinted = { query.hint.as_ref() }.is_none_or(|hint| hint.names(&def.name, || def.key_pattern()));
        let at = { def.keys.iter().enumerate() }
            .position(|(at, part)| geo.has(at) && part.path == *path && near.is_for(geo.grid()));
        if let Some(at) = at
            && hinted
            && !def.options.hidden
            && holds_all(def, query, conditions)
            && let Some(prefixes) = prefixes(&ordered, at, query, conditions)
        {
            let (name, grid) = (def.name.clone(), *geo.grid());
            return Ok(NearSearch {
                index,
                name,
                grid,
                path: path.clone(),
                near: Arc::clone(near),
                prefixes,
            });
        }
    }
    Err(QueryError::new(
        ErrorCode::NoQueryExecutionPlans,
        format!(
            "error processing query: planner returned error :: caused by :: unable to find index for $geoNear query \
             (field '{path}')"
        ),
    ))
}

/// What comes before the field at this position in the keys that meet the conditions; `None` if the fields before it may have any
/// values, or one is a location.
fn prefixes(
    index: &OrderedIndex<'_>,
    at: usize,
    query: &Query,
    conditions: &[&Node],
) -> Option<Vec<Vec<u8>>> {
    let before: Vec<&KeyPart> = index.def.keys.iter().take(at).collect();
    // Keys have cells of a location, not its value, so that no condition on it bounds them.
    if matches!(&index.def.options.kind, Kind::Geo(geo) if (0..at).any(|earlier| geo.has(earlier))) {
        return None;
    }
    let simple = index.def.options.collation == query.collation;
    let shares = |(number, part): (usize, &&KeyPart)| {
        before.iter().take(number).any(|earlier| earlier.path.first() == part.path.first())
    };
    if !before.is_empty() && (!simple || index.multikey && before.iter().enumerate().any(shares)) {
        return None;
    }
    let mut prefixes = vec![Vec::new()];
    for part in before {
        let bounds = field_bounds(part, conditions, index)?;
        let directed = bounds.intervals.iter().map(|interval| interval.directed(part.direction));
        let directed: Vec<Interval> = directed.collect();
        let points = directed.iter().map(Interval::single).collect::<Option<Vec<_>>>()?;
        if prefixes.len() * points.len() > MAX_RANGES {
            return None;
        }
        prefixes = prefixes
            .iter()
            .flat_map(|prefix: &Vec<u8>| points.iter().map(move |point| [prefix, *point].concat()))
            .collect();
    }
    Some(prefixes)
}
