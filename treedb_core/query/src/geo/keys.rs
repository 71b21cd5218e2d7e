//! The cells of a document in an index, and the ranges of cells that a query reads.
//!
//! A point has its smallest cell; lines and polygons have the few cells that cover them, of any size. A query reads the cells within
//! those that cover its region, and the cells around them, each of which may belong to a line or polygon.

use super::cell::{CellId, Grid};
use super::cover::cover;
use super::geojson::any_location;
use super::region::{Region, Relation, shape_relation};
use super::{Location, Near, Work};
use crate::doc::Value;
use crate::error::{ErrorCode, QueryError, Result};

/// Cells of a location that is not a point, at most.
const CELLS_OF_SHAPE: usize = 16;
/// Points of a location, each of which has a cell.
const MOST_POINTS: usize = 32;
/// Cells that cover the region of a query.
const CELLS_OF_REGION: usize = 48;
/// Cells that cover a ring around a point.
const CELLS_OF_RING: usize = 32;

/// Numbers of cells, both inclusive.
type CellRange = (u64, u64);

/// True for a value that counts as missing: null, `[]`, `{}`.
fn is_missing(value: Value<'_>) -> bool {
    match value {
        Value::Null | Value::Undefined => true,
        Value::Array(doc) | Value::Document(doc) => doc.is_empty(),
        _ => false,
    }
}

/// Adds the numbers of the cells of the value at an index's path to `cells`: a location, or an array of locations.
///
/// # Errors
/// `BadValue` for what is no location; MongoDB's codes for what an index of the plane cannot have.
pub fn cells_of(grid: &Grid, value: Value<'_>, cells: &mut Vec<u64>, work: &Work<'_>) -> Result<()> {
    if is_missing(value) {
        return Ok(());
    }
    let mut failed = None;
    any_location(value, &mut |location| {
        failed = work.step().and_then(|()| location_cells(grid, location, cells, work)).err();
        failed.is_some()
    });
    failed.map_or(Ok(()), Err)
}

fn location_cells(grid: &Grid, value: Value<'_>, cells: &mut Vec<u64>, work: &Work<'_>) -> Result<()> {
    if let Grid::Plane { min, max } = *grid {
        let pair = Location::parse(value, work).ok().filter(|location| !location.is_geojson);
        let Some(location) = pair else {
            return Err(QueryError::new(
                ErrorCode::Location13026,
                format!(
                    "geo values must be 'legacy coordinate pairs' for 2d indexes, found {}",
                    super::geojson::brief(value)
                ),
            ));
        };
        let Some(cell) = grid.leaf(&location) else {
            return Err(QueryError::new(
                ErrorCode::Location13027,
                format!("point not in interval of [ {min}, {max} ], found {}", super::geojson::brief(value)),
            ));
        };
        cells.push(cell.0);
        return Ok(());
    }
    if !matches!(value, Value::Array(_) | Value::Document(_)) {
        return Err(QueryError::bad_value(format!(
            "geo element must be an array or object: {}",
            super::geojson::brief(value)
        )));
    }
    let location = Location::stored(value, work)?;
    let Some(shape) = &location.shape else {
        let spot = location.spot.map_or((f64::NAN, f64::NAN), |spot| (spot.x, spot.y));
        return Err(QueryError::bad_value(format!(
            "longitude/latitude is out of bounds, lng: {} lat: {}",
            spot.0, spot.1
        )));
    };
    if shape.lines.is_empty() && shape.polygons.is_empty() && shape.points.len() <= MOST_POINTS {
        cells.extend(shape.points.iter().map(|point| Grid::cell_of(*point).0));
        return Ok(());
    }
    let relate = |ball: &super::cell::Ball| match ball.sphere {
        // A cell within a polygon need not be divided: it belongs to the document as a whole.
        Some(ball) => shape_relation(shape, ball, work),
        None => Ok(Relation::Apart),
    };
    cells.extend(cover(grid, &relate, CELLS_OF_SHAPE, work)?.into_iter().map(|cell| cell.0));
    Ok(())
}

/// The ranges of cells that may have locations that a region selects, ascending.
///
/// # Errors
/// Those of `work`.
pub fn cell_ranges(grid: &Grid, region: &Region, work: &Work<'_>) -> Result<Vec<CellRange>> {
    let cells = cover(grid, &|ball| region.relation(ball, work), CELLS_OF_REGION, work)?;
    Ok(with_those_around(grid, &cells))
}

/// The ranges of cells that may have locations at distances from `from` to `to`, ascending.
///
/// # Errors
/// Those of `work`.
pub fn ranges_between(
    grid: &Grid,
    near: &Near,
    from: f64,
    to: f64,
    work: &Work<'_>,
) -> Result<Vec<CellRange>> {
    let cells = cover(grid, &|ball| Ok(near.ring_relation(ball, from, to)), CELLS_OF_RING, work)?;
    Ok(with_those_around(grid, &cells))
}

/// The ranges of the cells around a point, the smallest first, with about the radius of each.
pub(crate) fn ranges_around(grid: &Grid, near: &Near) -> Vec<(CellRange, f64)> {
    let radius = |cell: CellId| {
        let ball = grid.ball(cell);
        match near.metric() {
            super::Metric::Sphere => ball.sphere.map_or(0.0, |(_, radius)| radius),
            super::Metric::Plane => ball.plane.map_or(0.0, |(_, radius)| radius),
        }
    };
    let cells = std::iter::successors(near.cell(grid), |cell| cell.parent());
    cells.map(|cell| (cell.range(), radius(cell))).collect()
}

/// The ranges of cells and, where not only points have cells, the numbers of those around them.
fn with_those_around(grid: &Grid, cells: &[CellId]) -> Vec<CellRange> {
    let mut ranges: Vec<CellRange> = cells.iter().map(|cell| cell.range()).collect();
    if *grid == Grid::Sphere {
        let mut around: Vec<u64> = Vec::new();
        for cell in cells {
            around.extend(std::iter::successors(cell.parent(), |cell| cell.parent()).map(|cell| cell.0));
        }
        around.sort_unstable();
        around.dedup();
        ranges.extend(around.into_iter().map(|number| (number, number)));
    }
    ranges.sort_unstable();
    let mut merged: Vec<CellRange> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match merged.last_mut() {
            // The numbers between two neighbours of the smallest cells are no cells.
            Some(last) if low <= last.1.saturating_add(2) => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}
