//! [`Shape`]: what a location in a document is, on the sphere: points, lines and polygons.

use std::f64::consts::PI;

use super::cover::MARGIN;
use super::edges::Edges;
use super::ring::{Place, Ring};
use super::{Vector, Work};
use crate::error::Result;

/// A polygon with holes.
#[derive(Debug, Clone, PartialEq)]
pub struct Polygon {
    pub(super) outer: Ring,
    pub(super) holes: Vec<Ring>,
    /// Center and radius of a circle around it.
    bounds: (Vector, f64),
}

impl Polygon {
    /// The inside of `outer` without that of `holes`.
    pub(super) fn new(outer: Ring, holes: Vec<Ring>) -> Polygon {
        let points = outer.edges().points();
        let sum = points.iter().fold(Vector { x: 0.0, y: 0.0, z: 0.0 }, |sum, point| sum + *point);
        let middle = sum.direction().unwrap_or(Vector { x: 1.0, y: 0.0, z: 0.0 });
        let radius = points.iter().map(|point| middle.angle(*point)).fold(0.0, f64::max);
        // In a circle smaller than half of the sphere there are, with the points, the arcs between them, and the smaller side of
        // the ring. One with strict winding may be the other side.
        let around = radius < 1.5 && !outer.is_as_written();
        let bounds = (middle, if around { radius } else { PI });
        Polygon { outer, holes, bounds }
    }

    /// True if no point of the polygon is so near.
    pub(super) fn is_beyond(&self, point: Vector, distance: f64) -> bool {
        let (center, radius) = self.bounds;
        radius < PI && center.angle(point) > radius + distance + MARGIN
    }

    pub(super) fn rings(&self) -> impl Iterator<Item = &Ring> {
        std::iter::once(&self.outer).chain(&self.holes)
    }

    /// Whether it contains a point; its boundary belongs to it.
    pub(super) fn contains(&self, point: Vector, work: &Work<'_>) -> Result<bool> {
        Ok(self.place(point, work)? != Place::Outside)
    }

    /// Where a point is.
    pub(super) fn place(&self, point: Vector, work: &Work<'_>) -> Result<Place> {
        work.step()?;
        if self.is_beyond(point, 0.0) {
            return Ok(Place::Outside);
        }
        let at = self.outer.place(point, work)?;
        if at != Place::Inside {
            return Ok(at);
        }
        for hole in &self.holes {
            match hole.place(point, work)? {
                Place::Inside => return Ok(Place::Outside),
                Place::On => return Ok(Place::On),
                Place::Outside => {}
            }
        }
        Ok(Place::Inside)
    }

    /// The square of the chord from `point` to the nearest point of the boundary.
    pub(super) fn boundary_chord2(&self, point: Vector, work: &Work<'_>) -> Result<f64> {
        let mut least = f64::INFINITY;
        for ring in self.rings() {
            least = least.min(ring.edges().chord2(point, work)?);
        }
        Ok(least)
    }
}

/// A set of points on the sphere: GeoJSON of any type, taken apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shape {
    pub(super) points: Vec<Vector>,
    pub(super) lines: Vec<Edges>,
    pub(super) polygons: Vec<Polygon>,
}

impl Shape {
    /// A single point.
    pub fn point(point: Vector) -> Shape {
        Shape { points: vec![point], ..Shape::default() }
    }

    /// Adds all that another shape has.
    pub(super) fn extend(&mut self, other: Shape) {
        self.points.extend(other.points);
        self.lines.extend(other.lines);
        self.polygons.extend(other.polygons);
    }
}
