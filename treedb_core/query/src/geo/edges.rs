//! [`Edges`]: a chain of arcs, open or closed, with a tree of boxes.
//!
//! Each box encloses up to [`FANOUT`] arcs that follow each other, each box of the level above as many boxes. Neighbours in
//! a chain are near each other, so that a search for the arcs near something looks into few boxes, whatever the number of
//! arcs.

use std::ops::ControlFlow;

use super::{TOUCHING, Vector, Work};
use crate::error::Result;

/// Arcs, or boxes, in a box.
const FANOUT: usize = 8;
/// By how much boxes are greater than what they enclose, for rounding.
const SLACK: f64 = 1e-14;

/// An arc shorter than half a great circle, between two points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arc {
    pub(super) from: Vector,
    pub(super) to: Vector,
}

impl Arc {
    /// The square of the chord from `point` to the nearest point of the arc.
    pub(super) fn chord2(&self, point: Vector) -> f64 {
        let normal = self.from.normal(self.to);
        if let Some(direction) = normal.direction()
            && direction.cross(self.from).dot(point) > 0.0
            && self.to.cross(direction).dot(point) > 0.0
        {
            let sine = point.dot(direction);
            let sine2 = (sine * sine).min(1.0);
            return 2.0 * sine2 / (1.0 + (1.0 - sine2).sqrt());
        }
        let (one, other) = (point - self.from, point - self.to);
        one.dot(one).min(other.dot(other))
    }

    /// True if the arcs cross at a point inside both; arcs that only touch do not.
    pub(super) fn crosses(&self, other: &Arc) -> bool {
        let (one, two) = (self.from.normal(self.to), other.from.normal(other.to));
        let (a, b) = (one.dot(other.from), one.dot(other.to));
        let (c, d) = (two.dot(self.from), two.dot(self.to));
        // Each arc's ends are on both sides of the other, and on the same half of the sphere.
        a * b < 0.0 && c * d < 0.0 && (a < 0.0) == (d < 0.0)
    }

    /// True if the arcs have a point in common, or come as near as touching.
    pub(super) fn meets(&self, other: &Arc) -> bool {
        let near = |arc: &Arc, point| arc.chord2(point) <= TOUCHING * TOUCHING;
        self.crosses(other)
            || near(self, other.from)
            || near(self, other.to)
            || near(other, self.from)
            || near(other, self.to)
    }

    /// The point of the arc that divides its chord in this proportion.
    pub(super) fn at(&self, part: f64) -> Vector {
        (self.from * (1.0 - part) + self.to * part).direction().unwrap_or(self.from)
    }

    /// The proportion in which the plane at right angles to `normal` divides the chord.
    pub(super) fn part_at(&self, normal: Vector) -> f64 {
        let (a, b) = (normal.dot(self.from), normal.dot(self.to));
        if a == b { 0.5 } else { (a / (a - b)).clamp(0.0, 1.0) }
    }

    /// The proportion at which the chord comes nearest to `point`.
    pub(super) fn part_near(&self, point: Vector) -> f64 {
        let chord = self.to - self.from;
        let length2 = chord.dot(chord);
        if length2 > 0.0 { ((point - self.from).dot(chord) / length2).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A box in space.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bounds {
    low: Vector,
    high: Vector,
}

impl Bounds {
    fn of(arc: &Arc) -> Bounds {
        let (a, b) = (arc.from, arc.to);
        let chord2 = (b - a).dot(b - a).min(4.0);
        // How far the arc is from its chord.
        let bulge = 1.0 - (1.0 - chord2 / 4.0).max(0.0).sqrt() + SLACK;
        let by = Vector { x: bulge, y: bulge, z: bulge };
        let low = Vector { x: a.x.min(b.x), y: a.y.min(b.y), z: a.z.min(b.z) } - by;
        let high = Vector { x: a.x.max(b.x), y: a.y.max(b.y), z: a.z.max(b.z) } + by;
        Bounds { low, high }
    }

    fn union(self, other: Bounds) -> Bounds {
        let (a, b) = (self.low, other.low);
        let low = Vector { x: a.x.min(b.x), y: a.y.min(b.y), z: a.z.min(b.z) };
        let (a, b) = (self.high, other.high);
        let high = Vector { x: a.x.max(b.x), y: a.y.max(b.y), z: a.z.max(b.z) };
        Bounds { low, high }
    }

    fn overlaps(&self, other: &Bounds, by: f64) -> bool {
        self.low.x <= other.high.x + by
            && other.low.x <= self.high.x + by
            && self.low.y <= other.high.y + by
            && other.low.y <= self.high.y + by
            && self.low.z <= other.high.z + by
            && other.low.z <= self.high.z + by
    }

    /// The square of the distance from `point` to the box.
    fn distance2(&self, point: Vector) -> f64 {
        let outside = |low: f64, high: f64, at: f64| (low - at).max(at - high).max(0.0);
        let x = outside(self.low.x, self.high.x, point.x);
        let y = outside(self.low.y, self.high.y, point.y);
        let z = outside(self.low.z, self.high.z, point.z);
        x * x + y * y + z * z
    }

    /// True if the plane through the origin at right angles to `normal` may go through the box.
    fn is_cut_by(&self, normal: Vector) -> bool {
        let (middle, half) = ((self.low + self.high) * 0.5, (self.high - self.low) * 0.5);
        let reach = half.x * normal.x.abs() + half.y * normal.y.abs() + half.z * normal.z.abs();
        middle.dot(normal).abs() <= reach + SLACK
    }
}

/// Called with two arcs and their numbers.
type VisitPair<'a> = dyn FnMut((usize, Arc), (usize, Arc)) -> Result<ControlFlow<()>> + 'a;

/// A chain of arcs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edges {
    points: Vec<Vector>,
    closed: bool,
    /// The boxes, level by level: the first level encloses arcs, the last one has a single box.
    levels: Vec<Vec<Bounds>>,
}

impl Edges {
    /// A chain through `points`; a closed one returns to the first. At least two points.
    pub(super) fn new(points: Vec<Vector>, closed: bool) -> Edges {
        let mut edges = Edges { points, closed, levels: Vec::new() };
        let group = |some: &[Bounds]| some.iter().copied().reduce(Bounds::union);
        let arcs: Vec<Bounds> = edges.arcs().map(|arc| Bounds::of(&arc)).collect();
        let mut level: Vec<Bounds> = arcs.chunks(FANOUT).filter_map(group).collect();
        while level.len() > 1 {
            let above = level.chunks(FANOUT).filter_map(group).collect();
            edges.levels.push(std::mem::replace(&mut level, above));
        }
        edges.levels.push(level);
        edges
    }

    pub(super) fn points(&self) -> &[Vector] {
        &self.points
    }

    /// The number of arcs.
    pub(super) fn len(&self) -> usize {
        if self.closed { self.points.len() } else { self.points.len().saturating_sub(1) }
    }

    /// Arc number `at`.
    pub(super) fn arc(&self, at: usize) -> Option<Arc> {
        let from = *self.points.get(at)?;
        let to = match self.points.get(at + 1) {
            Some(to) => *to,
            None if self.closed => *self.points.first()?,
            None => return None,
        };
        Some(Arc { from, to })
    }

    pub(super) fn arcs(&self) -> impl Iterator<Item = Arc> {
        (0..self.len()).filter_map(|at| self.arc(at))
    }

    /// The same chain in the other direction.
    pub(super) fn reversed(&self) -> Edges {
        let mut points = self.points.clone();
        points.reverse();
        Edges::new(points, self.closed)
    }

    /// Visits the arcs whose boxes `enter` lets in.
    fn search(
        &self,
        work: &Work<'_>,
        enter: &mut dyn FnMut(&Bounds) -> bool,
        visit: &mut dyn FnMut(usize, Arc) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let Some(top) = self.levels.len().checked_sub(1) else { return Ok(()) };
        let mut pending = vec![(top, 0)];
        while let Some((level, at)) = pending.pop() {
            work.step()?;
            let bounds = self.levels.get(level).and_then(|level| level.get(at));
            if !bounds.is_some_and(&mut *enter) {
                continue;
            }
            let below = at * FANOUT..(at + 1) * FANOUT;
            match level.checked_sub(1) {
                Some(level) => pending.extend(below.map(|at| (level, at))),
                None => {
                    for at in below {
                        let Some(arc) = self.arc(at) else { break };
                        if visit(at, arc)?.is_break() {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The square of the chord from `point` to the nearest point of the chain.
    pub(super) fn chord2(&self, point: Vector, work: &Work<'_>) -> Result<f64> {
        let least = std::cell::Cell::new(f64::INFINITY);
        self.search(work, &mut |bounds| bounds.distance2(point) < least.get(), &mut |_, arc| {
            work.step()?;
            least.set(least.get().min(arc.chord2(point)));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(least.get())
    }

    /// True if `point` is on the chain.
    pub(super) fn touches(&self, point: Vector, work: &Work<'_>) -> Result<bool> {
        let (mut found, most) = (false, TOUCHING * TOUCHING);
        self.search(work, &mut |bounds| bounds.distance2(point) <= most, &mut |_, arc| {
            work.step()?;
            found = arc.chord2(point) <= most;
            Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(found)
    }

    /// True if no arc but number `except` comes as near to `point` as `distance`.
    pub(super) fn is_clear(
        &self,
        point: Vector,
        except: usize,
        distance: f64,
        work: &Work<'_>,
    ) -> Result<bool> {
        let (mut clear, most) = (true, distance * distance);
        self.search(work, &mut |bounds| bounds.distance2(point) <= most, &mut |at, arc| {
            work.step()?;
            clear = at == except || arc.chord2(point) > most;
            Ok(if clear { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(clear)
    }

    /// Whether the arc from `from` to `to` crosses an odd number of arcs, without arc number `except`. A point of the chain
    /// exactly on the arc's great circle counts as beside it, on the same side for both of its arcs.
    pub(super) fn crossed_oddly(
        &self,
        from: Vector,
        to: Vector,
        except: Option<usize>,
        work: &Work<'_>,
    ) -> Result<bool> {
        let normal = from.normal(to);
        let (after, before) = (normal.cross(from), to.cross(normal));
        let mut odd = false;
        self.search(work, &mut |bounds| bounds.is_cut_by(normal), &mut |at, arc| {
            work.step()?;
            let (a, b) = (normal.dot(arc.from), normal.dot(arc.to));
            if (a < 0.0) != (b < 0.0) && except != Some(at) {
                // Where the chord meets the plane.
                let crossing = arc.from * b.abs() + arc.to * a.abs();
                odd ^= crossing.dot(after) > 0.0 && crossing.dot(before) > 0.0;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(odd)
    }

    /// Visits all pairs of arcs of two chains that may come as near as touching; of a chain and itself, each at least in one order.
    pub(super) fn pairs(&self, other: &Edges, work: &Work<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let (Some(top), Some(other_top)) =
            (self.levels.len().checked_sub(1), other.levels.len().checked_sub(1))
        else {
            return Ok(());
        };
        let mut pending = vec![((top, 0), (other_top, 0))];
        while let Some(((level, at), (other_level, other_at))) = pending.pop() {
            work.step()?;
            let (Some(one), Some(two)) = (
                self.levels.get(level).and_then(|level| level.get(at)),
                other.levels.get(other_level).and_then(|level| level.get(other_at)),
            ) else {
                continue;
            };
            // Of a chain and itself, each two boxes come in both orders.
            let twin = std::ptr::eq(self, other) && level == other_level && at > other_at;
            if twin || !one.overlaps(two, TOUCHING) {
                continue;
            }
            let below = |at: usize| at * FANOUT..(at + 1) * FANOUT;
            // The greater box is opened first.
            match (level.checked_sub(1), other_level.checked_sub(1)) {
                (Some(down), _) if level >= other_level => {
                    pending.extend(below(at).map(|at| ((down, at), (other_level, other_at))));
                }
                (_, Some(down)) => {
                    pending.extend(below(other_at).map(|other_at| ((level, at), (down, other_at))));
                }
                _ => {
                    for at in below(at) {
                        let Some(arc) = self.arc(at) else { break };
                        let bounds = Bounds::of(&arc);
                        if !bounds.overlaps(two, TOUCHING) {
                            continue;
                        }
                        for other_at in below(other_at) {
                            let Some(other_arc) = other.arc(other_at) else { break };
                            work.step()?;
                            if bounds.overlaps(&Bounds::of(&other_arc), TOUCHING)
                                && visit((at, arc), (other_at, other_arc))?.is_break()
                            {
                                return Ok(());
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// True if an arc of one chain crosses one of the other.
    pub(super) fn pairs_cross(&self, other: &Edges, work: &Work<'_>) -> Result<bool> {
        self.any_pair(other, work, &Arc::crosses)
    }

    fn any_pair(&self, other: &Edges, work: &Work<'_>, test: &dyn Fn(&Arc, &Arc) -> bool) -> Result<bool> {
        let mut found = false;
        self.pairs(other, work, &mut |(_, one), (_, two)| {
            found = test(&one, &two);
            Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(found)
    }

    /// True if the chains have a point in common.
    pub(super) fn meets(&self, other: &Edges, work: &Work<'_>) -> Result<bool> {
        self.any_pair(other, work, &Arc::meets)
    }
}

/// The angle of a chord whose square this is.
pub(super) fn angle_of(chord2: f64) -> f64 {
    2.0 * libm::asin((chord2.sqrt() / 2.0).min(1.0))
}
