//! Predicates and distances of shapes on the sphere.
//!
//! Boundaries belong to their polygons, and points as near as touching are one. A line is within a polygon if all of its
//! pieces are: it is divided where it touches the boundary, and of each piece the middle is tested.

use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::ops::ControlFlow;

use super::edges::{Arc, Edges, angle_of};
use super::ring::Place;
use super::shape::{Polygon, Shape};
use super::{TOUCHING, Vector, Work};
use crate::error::Result;

/// A circle on the sphere with its inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cap {
    pub(super) center: Vector,
    /// In radians; `PI` or more is the whole sphere.
    pub(super) radius: f64,
}

impl Cap {
    pub(super) fn contains(&self, point: Vector) -> bool {
        self.radius >= PI || self.center.angle(point) <= self.radius + 1e-15
    }

    /// Whether all of a shape is in the cap.
    pub(super) fn contains_shape(&self, shape: &Shape, work: &Work<'_>) -> Result<bool> {
        if self.radius >= PI {
            return Ok(true);
        }
        for point in &shape.points {
            work.step()?;
            if !self.contains(*point) {
                return Ok(false);
            }
        }
        // What is outside is a cap too, around the opposite point: nothing may come nearer to that than its radius.
        let (opposite, least) = (-self.center, PI - self.radius);
        let far =
            |edges: &Edges| -> Result<bool> { Ok(angle_of(edges.chord2(opposite, work)?) >= least - 1e-12) };
        for line in &shape.lines {
            if !far(line)? {
                return Ok(false);
            }
        }
        for polygon in &shape.polygons {
            for ring in polygon.rings() {
                if !far(ring.edges())? {
                    return Ok(false);
                }
            }
            if polygon.place(opposite, work)? == Place::Inside {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The angle from `point` to the nearest point of a shape; `None` if the shape is empty.
pub(super) fn distance(shape: &Shape, point: Vector, work: &Work<'_>) -> Result<Option<f64>> {
    let mut least = f64::INFINITY;
    for polygon in &shape.polygons {
        if polygon.contains(point, work)? {
            return Ok(Some(0.0));
        }
        least = least.min(angle_of(polygon.boundary_chord2(point, work)?));
    }
    for line in &shape.lines {
        least = least.min(angle_of(line.chord2(point, work)?));
    }
    for other in &shape.points {
        work.step()?;
        least = least.min(point.angle(*other));
    }
    Ok(least.is_finite().then_some(least))
}

/// Whether each part of `shape` is within one of `polygons`.
pub(super) fn is_within(shape: &Shape, polygons: &[Polygon], work: &Work<'_>) -> Result<bool> {
    let any = |inside: &dyn Fn(&Polygon) -> Result<bool>| -> Result<bool> {
        for polygon in polygons {
            if inside(polygon)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    for point in &shape.points {
        if !any(&|polygon| polygon.contains(*point, work))? {
            return Ok(false);
        }
    }
    for line in &shape.lines {
        if !any(&|polygon| line_is_within(line, polygon, work))? {
            return Ok(false);
        }
    }
    for inner in &shape.polygons {
        if !any(&|polygon| polygon_is_within(inner, polygon, work))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether all of a chain is in a polygon.
fn line_is_within(line: &Edges, polygon: &Polygon, work: &Work<'_>) -> Result<bool> {
    let Some(first) = line.points().first() else { return Ok(true) };
    if !polygon.contains(*first, work)? {
        return Ok(false);
    }
    // Where each arc touches the boundary, as parts of its chord.
    let mut touched: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for ring in polygon.rings() {
        line.pairs(ring.edges(), work, &mut |(at, arc), (_, edge)| {
            let parts = touching_parts(&arc, &edge);
            if !parts.is_empty() {
                touched.entry(at).or_default().extend(parts);
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    for (at, mut parts) in touched {
        let Some(arc) = line.arc(at) else { continue };
        parts.extend([0.0, 1.0]);
        parts.sort_by(f64::total_cmp);
        for piece in parts.windows(2) {
            let [from, to] = piece else { continue };
            if to - from > 1e-12 && !polygon.contains(arc.at((from + to) / 2.0), work)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Where an arc crosses or touches another one.
fn touching_parts(arc: &Arc, edge: &Arc) -> Vec<f64> {
    let mut parts = Vec::new();
    if arc.crosses(edge) {
        parts.push(arc.part_at(edge.from.normal(edge.to)));
    }
    for end in [edge.from, edge.to] {
        if arc.chord2(end) <= TOUCHING * TOUCHING {
            parts.push(arc.part_near(end));
        }
    }
    for (end, part) in [(arc.from, 0.0), (arc.to, 1.0)] {
        if edge.chord2(end) <= TOUCHING * TOUCHING {
            parts.push(part);
        }
    }
    parts
}

/// Whether all of a polygon is in another one.
fn polygon_is_within(inner: &Polygon, outer: &Polygon, work: &Work<'_>) -> Result<bool> {
    for ring in inner.rings() {
        if !line_is_within(ring.edges(), outer, work)? {
            return Ok(false);
        }
    }
    // The boundary enters no hole of the outer one, nor what is around it: each of these is in the inner one as a whole, or
    // not at all.
    let outside = outer.holes.iter().map(|hole| (hole, true)).chain([(&outer.outer, false)]);
    for (ring, inside) in outside {
        if let Some(point) = ring.sample(inside, work)?
            && inner.place(point, work)? == Place::Inside
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two shapes have a point in common.
pub(super) fn intersect(one: &Shape, two: &Shape, work: &Work<'_>) -> Result<bool> {
    if points_meet(one, two, work)? || points_meet(two, one, work)? {
        return Ok(true);
    }
    for line in &one.lines {
        if line_meets(line, two, work)? {
            return Ok(true);
        }
    }
    for polygon in &one.polygons {
        for line in &two.lines {
            if line_meets_polygon(line, polygon, work)? {
                return Ok(true);
            }
        }
        for other in &two.polygons {
            if polygons_meet(polygon, other, work)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a point of `one` is on or in something of `two`.
fn points_meet(one: &Shape, two: &Shape, work: &Work<'_>) -> Result<bool> {
    for point in &one.points {
        for other in &two.points {
            work.step()?;
            let apart = *point - *other;
            if apart.dot(apart) <= TOUCHING * TOUCHING {
                return Ok(true);
            }
        }
        for line in &two.lines {
            if line.touches(*point, work)? {
                return Ok(true);
            }
        }
        for polygon in &two.polygons {
            if polygon.contains(*point, work)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a chain meets a line or polygon of `shape`.
fn line_meets(line: &Edges, shape: &Shape, work: &Work<'_>) -> Result<bool> {
    for other in &shape.lines {
        if line.meets(other, work)? {
            return Ok(true);
        }
    }
    for polygon in &shape.polygons {
        if line_meets_polygon(line, polygon, work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn line_meets_polygon(line: &Edges, polygon: &Polygon, work: &Work<'_>) -> Result<bool> {
    if let Some(first) = line.points().first()
        && polygon.contains(*first, work)?
    {
        return Ok(true);
    }
    for ring in polygon.rings() {
        if line.meets(ring.edges(), work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn polygons_meet(one: &Polygon, two: &Polygon, work: &Work<'_>) -> Result<bool> {
    for (a, b) in [(one, two), (two, one)] {
        if let Some(first) = a.outer.edges().points().first()
            && b.contains(*first, work)?
        {
            return Ok(true);
        }
    }
    for a in one.rings() {
        for b in two.rings() {
            if a.edges().meets(b.edges(), work)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
