//! [`Ring`]: a closed chain of arcs, and the side of it that is its inside: the left one.
//!
//! Whether a point is inside is told by the number of arcs between it and a point of which it is known. For that there are
//! two, far from the chain and not opposite each other, so that one of them is in general position to any point. Points as
//! near to the chain as touching are on it, so that rounding decides nothing.

use std::f64::consts::PI;
use std::ops::ControlFlow;

use super::edges::{Arc, Edges};
use super::{TOUCHING, Vector, Work};
use crate::error::{QueryError, Result};

/// Where a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Inside,
    On,
    Outside,
}

/// A closed chain of at least three arcs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ring {
    edges: Edges,
    /// Its inside is what is on the left, however great that is.
    as_written: bool,
    /// Points of which it is known whether they are inside.
    known: [(Vector, bool); 2],
}

/// How far the other arcs are from a point of an arc on whose sides those of the ring are: far beyond rounding, and less than
/// what touches.
const CLEAR: f64 = TOUCHING / 64.0;

/// Directions without a special relation to each other or to the axes.
const DIRECTIONS: [Vector; 8] = [
    Vector { x: 0.267_261, y: 0.534_522, z: 0.801_784 },
    Vector { x: -0.639_602, y: 0.426_401, z: 0.639_602 },
    Vector { x: 0.371_391, y: -0.742_781, z: 0.557_086 },
    Vector { x: 0.485_071, y: 0.727_607, z: -0.485_071 },
    Vector { x: -0.301_511, y: -0.301_511, z: 0.904_534 },
    Vector { x: -0.811_107, y: 0.324_443, z: -0.486_664 },
    Vector { x: 0.842_701, y: -0.240_772, z: -0.481_543 },
    Vector { x: -0.365_148, y: -0.182_574, z: -0.912_871 },
];

impl Ring {
    /// The ring through `points`, of which two that follow each other are neither equal nor opposite, and whose inside is
    /// the smaller side, or the left one if it is `as_written`.
    ///
    /// # Errors
    /// `BadValue` if there is no inside; those of `work`.
    pub(super) fn new(points: Vec<Vector>, as_written: bool, work: &Work<'_>) -> Result<Ring> {
        let mut edges = Edges::new(points, true);
        if !as_written && left_is_greater(&edges, work)? {
            edges = edges.reversed();
        }
        let mut ring = Ring { edges, as_written, known: [(DIRECTIONS[0], false), (DIRECTIONS[1], false)] };
        ring.learn(work)?;
        Ok(ring)
    }

    /// Chooses the known points, and finds out whether they are inside.
    fn learn(&mut self, work: &Work<'_>) -> Result<()> {
        let Some((at, spot)) = self.clean_spot(work)? else {
            return Err(QueryError::bad_value(
                "Loop is not valid: it has no inside, as each of its edges is on or next to another one",
            ));
        };
        let Some(arc) = self.edges.arc(at) else { return Ok(()) };
        // The way to the spot comes from the left if it begins on the left.
        let left = arc.from.normal(arc.to).direction().unwrap_or(arc.from);
        let mut best: Vec<(f64, Vector)> = Vec::new();
        for direction in DIRECTIONS {
            let direction = direction.direction().unwrap_or(direction);
            let clear = self.edges.chord2(direction, work)?.sqrt();
            // Neither on the arc's great circle, nor at or opposite the spot.
            best.push((clear.min(direction.dot(left).abs()).min(direction.cross(spot).length()), direction));
        }
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some((_, first)) = best.first().copied() else { return Ok(()) };
        let apart = |point: &Vector| point.cross(first).length() > 0.4;
        let second = best.iter().map(|(_, point)| *point).find(apart).unwrap_or(first);
        let known = |point: Vector| -> Result<(Vector, bool)> {
            let odd = self.edges.crossed_oddly(point, spot, Some(at), work)?;
            Ok((point, (point.dot(left) > 0.0) != odd))
        };
        self.known = [known(first)?, known(second)?];
        Ok(())
    }

    /// An arc and a point on it that no other arc comes near, so that its two sides are those of the ring; of the longest arc
    /// that has one.
    fn clean_spot(&self, work: &Work<'_>) -> Result<Option<(usize, Vector)>> {
        let chord2 = |arc: Arc| (arc.to - arc.from).dot(arc.to - arc.from);
        let mut longest: Vec<(f64, usize)> =
            self.edges.arcs().enumerate().map(|(at, arc)| (chord2(arc), at)).collect();
        longest.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, at) in longest {
            let Some(arc) = self.edges.arc(at) else { continue };
            for part in [0.5, 0.31, 0.73] {
                let spot = arc.at(part);
                if self.edges.is_clear(spot, at, CLEAR, work)? {
                    return Ok(Some((at, spot)));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn is_as_written(&self) -> bool {
        self.as_written
    }

    pub(super) fn edges(&self) -> &Edges {
        &self.edges
    }

    /// Where a point is.
    pub(super) fn place(&self, point: Vector, work: &Work<'_>) -> Result<Place> {
        if self.edges.touches(point, work)? {
            return Ok(Place::On);
        }
        Ok(if self.has_inside(point, work)? { Place::Inside } else { Place::Outside })
    }

    /// Whether a point that is not on the ring is inside.
    pub(super) fn has_inside(&self, point: Vector, work: &Work<'_>) -> Result<bool> {
        let [first, second] = self.known;
        let clear = |known: Vector| known.cross(point).length();
        let (known, inside) = if clear(first.0) >= clear(second.0) { first } else { second };
        Ok(self.edges.crossed_oddly(known, point, None, work)? != inside)
    }

    /// A point that is inside (or outside, if `inside` is false), not on the ring.
    pub(super) fn sample(&self, inside: bool, work: &Work<'_>) -> Result<Option<Vector>> {
        for (point, known) in self.known {
            if known == inside {
                return Ok(Some(point));
            }
        }
        // From the middle of an arc towards that side, ever less far.
        for arc in self.edges.arcs().take(64) {
            let Some(left) = arc.from.normal(arc.to).direction() else { continue };
            let (middle, mut far) = (arc.at(0.5), 1.0);
            while far > 4.0 * TOUCHING {
                let towards = left * if inside { far } else { -far };
                if let Some(point) = (middle + towards).direction()
                    && self.place(point, work)? == if inside { Place::Inside } else { Place::Outside }
                {
                    return Ok(Some(point));
                }
                far /= 2.0;
            }
        }
        Ok(None)
    }

    /// Two arcs that cross each other, if the ring is not simple.
    pub(super) fn crossing(&self, work: &Work<'_>) -> Result<Option<(usize, usize)>> {
        let mut found = None;
        self.edges.pairs(&self.edges, work, &mut |(at, one), (other, two)| {
            let (at, other) = (at.min(other), at.max(other));
            if at < other && one.crosses(&two) {
                let count = self.edges.len();
                // Neighbours have a point in common, which rounding may take for a crossing.
                if other - at > 1 && !(at == 0 && other + 1 == count) {
                    found = Some((at, other));
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }
}

/// True if the side on the left of a closed chain is not the smaller one.
fn left_is_greater(edges: &Edges, work: &Work<'_>) -> Result<bool> {
    Ok(left_area(edges, work)? > 2.0 * PI)
}

/// The area on the left of a closed chain: the sum of those of the triangles that its arcs make with one point, where triangles
/// on the right count as negative. An arc that passes behind that point, opposite to it, changes the sum by the whole sphere.
fn left_area(edges: &Edges, work: &Work<'_>) -> Result<f64> {
    let from = seen_from(edges, work)?;
    let mut area = 0.0;
    for arc in edges.arcs() {
        work.step()?;
        let (a, b) = (arc.from, arc.to);
        let turn = 1.0 + from.dot(a) + a.dot(b) + b.dot(from);
        area += 2.0 * libm::atan2(from.dot(a.normal(b)), turn);
    }
    Ok(area.rem_euclid(4.0 * PI))
}

/// A point whose opposite is far from a chain.
fn seen_from(edges: &Edges, work: &Work<'_>) -> Result<Vector> {
    let sum = edges.points().iter().fold(Vector { x: 0.0, y: 0.0, z: 0.0 }, |sum, point| sum + *point);
    if let Some(middle) = sum.direction()
        && edges.points().iter().all(|point| point.dot(middle) > 0.5)
    {
        return Ok(middle);
    }
    let mut best = (-1.0, DIRECTIONS[0]);
    for direction in DIRECTIONS {
        let direction = direction.direction().unwrap_or(direction);
        let clear = edges.chord2(-direction, work)?;
        if clear > best.0 {
            best = (clear, direction);
        }
    }
    Ok(best.1)
}
