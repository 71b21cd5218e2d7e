//! `$geoWithin`, `$geoIntersects`, `$near`, `$nearSphere`: conditions on locations.
//!
//! `$near` is more than a condition: it puts the documents in the order of their distance, which an index has to find. So it
//! stands at the top of a filter, once, and only where documents are searched for. As a condition it says that the distance is
//! between the bounds.

use std::sync::{Arc, OnceLock};

use super::{Filter, Node, Test};
use crate::doc::{Doc, Element, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::geo::{Grid, Location, Near, Region, Work, any_location, cell_ranges};
use crate::query::interrupt;

/// The test of a location by a region.
#[derive(Debug, Clone)]
pub struct GeoTest {
    region: Region,
    /// True for `$geoIntersects`.
    intersects: bool,
    /// The cells of the sphere that it needs, once they were asked for: a query plans more than once.
    cells: OnceLock<Vec<(u64, u64)>>,
}

impl PartialEq for GeoTest {
    fn eq(&self, other: &Self) -> bool {
        self.region == other.region
    }
}

impl GeoTest {
    /// Parses a `$geoWithin` or `$geoIntersects`.
    fn parse(operator: &Element<'_>) -> Result<Self> {
        let intersects = operator.name == b"$geoIntersects";
        let work = Work::new(&interrupt::check);
        let region = match intersects {
            true => Region::intersecting(operator, &work)?,
            false => Region::within(operator, &work)?,
        };
        Ok(GeoTest { region, intersects, cells: OnceLock::new() })
    }

    /// Whether it selects a value.
    fn selects(&self, value: Value<'_>, work: &Work<'_>) -> Result<bool> {
        if !matches!(value, Value::Document(_) | Value::Array(_)) {
            return Ok(false);
        }
        match Location::parse(value, work) {
            Ok(location) => self.region.selects(&location, work),
            // What is no location is not selected; an operation that was told to stop goes no further.
            Err(_) => interrupt::check().map(|()| false),
        }
    }

    /// The ranges of cells of an index that find all locations that it selects; `None` if the index cannot.
    pub(in crate::query) fn cell_ranges(&self, grid: &Grid) -> Option<Vec<(u64, u64)>> {
        // Without an answer the documents are scanned, where an operation that was told to stop does.
        let find = || cell_ranges(grid, &self.region, &Work::new(&interrupt::check)).ok();
        match grid {
            Grid::Sphere if self.region.is_flat() => None,
            Grid::Sphere => match self.cells.get() {
                Some(cells) => Some(cells.clone()),
                None => {
                    let found = find()?;
                    Some(self.cells.get_or_init(|| found).clone())
                }
            },
            Grid::Plane { .. } if self.intersects || !self.region.is_for_plane() => None,
            Grid::Plane { .. } => find(),
        }
    }
}

/// The condition of a geospatial operator among the `conditions` on a field; `None` if it is none.
pub(super) fn parse(path: &Path, operator: &Element<'_>, conditions: Doc<'_>) -> Result<Option<Node>> {
    let test = match operator.name {
        b"$geoWithin" | b"$within" | b"$geoIntersects" => Test::Geo(Box::new(GeoTest::parse(operator)?)),
        b"$near" | b"$nearSphere" => {
            Test::Near(Arc::new(Near::parse(operator, conditions, &Work::new(&interrupt::check))?))
        }
        _ => return Ok(None),
    };
    Ok(Some(Node::Value { path: path.clone(), test }))
}

/// True for the distances of a `$near` that stands beside them.
pub(super) fn belongs_to_near(operator: &Element<'_>, conditions: Doc<'_>) -> bool {
    matches!(operator.name, b"$minDistance" | b"$maxDistance")
        && (conditions.find(b"$near").is_some() || conditions.find(b"$nearSphere").is_some())
}

/// Whether one of the values at `path` passes a geospatial test; `None` if it is another test.
pub(super) fn passes_at(path: &Path, test: &Test, doc: Doc<'_>) -> Result<Option<bool>> {
    let work = Work::new(&interrupt::check);
    match test {
        Test::Near(near) => Ok(Some(near.nearest(path, doc, &work)?.is_some())),
        Test::Geo(test) => {
            let mut failed = None;
            let mut look = |value: Value<'_>| {
                test.selects(value, &work).unwrap_or_else(|error| {
                    failed = Some(error);
                    true
                })
            };
            let found = path
                .visit(doc, false, &mut |found| found.is_some_and(|value| any_location(value, &mut look)));
            failed.map_or(Ok(Some(found)), Err)
        }
        _ => Ok(None),
    }
}

impl Test {
    /// True for a test of a location.
    pub(in crate::query) fn is_geo(&self) -> bool {
        matches!(self, Test::Geo(_) | Test::Near(_))
    }

    /// Whether a value passes a geospatial test, where nobody can be told that the operation was stopped: then it does not, and the
    /// filter is wrong, which asks afterwards ([`is_in_elements`]).
    pub(super) fn passes_as_location(&self, value: Value<'_>) -> bool {
        let work = Work::new(&interrupt::check);
        match self {
            Test::Geo(test) => test.selects(value, &work).unwrap_or(false),
            Test::Near(near) => {
                let distance =
                    Location::parse(value, &work).and_then(|location| near.distance(&location, &work));
                distance.ok().flatten().is_some_and(|distance| near.wants(distance))
            }
            _ => false,
        }
    }
}

/// The `$near`s of a tree that are not at its top, and those that are.
fn count_nears(node: &Node, top: bool, counts: &mut (usize, usize)) {
    match node {
        Node::Value { test: Test::Near(_), .. } if top => counts.1 += 1,
        Node::Value { test: Test::Near(_), .. } => counts.0 += 1,
        Node::And(nodes) => nodes.iter().for_each(|node| count_nears(node, top, counts)),
        Node::Or(nodes) => nodes.iter().for_each(|node| count_nears(node, false, counts)),
        Node::Not(node) | Node::Element { condition: node, .. } | Node::Member { filter: node, .. } => {
            count_nears(node, false, counts);
        }
        _ => {}
    }
}

/// True if a tree has tests of locations within conditions on the elements of arrays.
pub(super) fn is_in_elements(node: &Node, within: bool) -> bool {
    match node {
        Node::Value { test, .. } => within && test.is_geo(),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(|node| is_in_elements(node, within)),
        Node::Not(node) => is_in_elements(node, within),
        Node::Element { condition: node, .. } | Node::Member { filter: node, .. } => {
            is_in_elements(node, true)
        }
        _ => false,
    }
}

/// True if there is a `$near` at the top of a tree.
pub(super) fn has_near(root: &Node) -> bool {
    let mut counts = (0, 0);
    count_nears(root, true, &mut counts);
    counts.1 > 0
}

/// Refuses a `$near` where it cannot be; anywhere, unless the filter is one that documents are searched for by.
pub(super) fn check_nears(root: &Node, searching: bool) -> Result<()> {
    let mut counts = (0, 0);
    count_nears(root, true, &mut counts);
    match counts {
        (0, 0) => Ok(()),
        _ if !searching => Err(QueryError::new(
            ErrorCode::Location5626500,
            "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require sorting \
             geospatial data. If you do not need sort, consider using $geoWithin instead",
        )),
        (1.., _) => Err(QueryError::bad_value("geo $near must be top-level expr")),
        (0, 1) => Ok(()),
        _ => Err(QueryError::bad_value("Too many geoNear expressions")),
    }
}

impl Filter {
    /// The `$near` by which the documents are found in order, and the path of its field.
    pub(in crate::query) fn near(&self) -> Option<(&Path, &Arc<Near>)> {
        if !self.by_distance {
            return None;
        }
        self.conjuncts().into_iter().find_map(|node| match node {
            Node::Value { path, test: Test::Near(near) } => Some((path, near)),
            _ => None,
        })
    }

    /// A filter for the documents that this one matches, in the order of the distance of their locations at `path`.
    pub(crate) fn nearest(self, path: Path, near: Near, source: bson::RawDocumentBuf) -> Filter {
        let node = Node::Value { path, test: Test::Near(Arc::new(near)) };
        Filter::of(Node::And(vec![node, self.root]), source)
    }
}
