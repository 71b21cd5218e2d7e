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
    /// filter is wrong, which asks afterwards ([`Places::in_elements`]).
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

/// Where in a tree the tests of locations are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    /// `$near`s at the top.
    pub(super) top: usize,
    /// Other `$near`s.
    nested: usize,
    /// There are tests within conditions on the elements of arrays.
    pub(super) in_elements: bool,
}

impl Places {
    pub(super) fn of(root: &Node) -> Places {
        let mut places = Places::default();
        places.count(root, true, false);
        places
    }

    fn count(&mut self, node: &Node, top: bool, in_element: bool) {
        match node {
            Node::Value { test, .. } if test.is_geo() => {
                self.in_elements |= in_element;
                match test {
                    Test::Near(_) if top => self.top += 1,
                    Test::Near(_) => self.nested += 1,
                    _ => {}
                }
            }
            Node::And(nodes) => nodes.iter().for_each(|node| self.count(node, top, in_element)),
            Node::Or(nodes) => nodes.iter().for_each(|node| self.count(node, false, in_element)),
            Node::Not(node) => self.count(node, false, in_element),
            Node::Element { condition: node, .. } | Node::Member { filter: node, .. } => {
                self.count(node, false, true);
            }
            _ => {}
        }
    }

    /// Refuses a `$near` where it cannot be; anywhere, unless the filter is one that documents are searched for by.
    pub(super) fn check(self, searching: bool) -> Result<()> {
        match (self.nested, self.top) {
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
        let root = Node::And(vec![node, self.root]);
        let places = Places::of(&root);
        Filter::of(root, source, places)
    }
}
