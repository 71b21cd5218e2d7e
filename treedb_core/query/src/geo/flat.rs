//! Boxes, polygons and circles in the plane: what `$box`, `$polygon` and `$center` select.

use super::Work;
use crate::error::Result;

/// A point in the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Spot {
    pub(super) fn distance(self, other: Spot) -> f64 {
        libm::hypot(self.x - other.x, self.y - other.y)
    }
}

/// An area of the plane.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FlatArea {
    /// Between two corners, with its border.
    Box { low: Spot, high: Spot },
    /// Within the lines through its points, of which each pair that follows each other, and the last with the first, is one.
    Polygon(Vec<Spot>),
    /// Points no farther than this from the center.
    Circle { center: Spot, radius: f64 },
}

impl FlatArea {
    pub(super) fn contains(&self, spot: Spot, work: &Work<'_>) -> Result<bool> {
        Ok(match self {
            FlatArea::Box { low, high } => {
                low.x <= spot.x && spot.x <= high.x && low.y <= spot.y && spot.y <= high.y
            }
            FlatArea::Polygon(points) => polygon_contains(points, spot, work)?,
            FlatArea::Circle { center, radius } => spot.distance(*center) <= *radius,
        })
    }

    /// The distance from `spot` to the area; 0 inside.
    pub(super) fn distance(&self, spot: Spot, work: &Work<'_>) -> Result<f64> {
        Ok(match self {
            FlatArea::Box { low, high } => {
                let x = (low.x - spot.x).max(spot.x - high.x).max(0.0);
                x.hypot((low.y - spot.y).max(spot.y - high.y).max(0.0))
            }
            FlatArea::Polygon(points) if polygon_contains(points, spot, work)? => 0.0,
            FlatArea::Polygon(points) => border_distance(points, spot, work)?,
            FlatArea::Circle { center, radius } => difference(spot.distance(*center), *radius),
        })
    }

    /// How far all points around `spot` are in the area; 0 if none is.
    pub(super) fn depth(&self, spot: Spot, work: &Work<'_>) -> Result<f64> {
        Ok(match self {
            FlatArea::Box { low, high } => {
                let x = (spot.x - low.x).min(high.x - spot.x);
                x.min(spot.y - low.y).min(high.y - spot.y).max(0.0)
            }
            FlatArea::Polygon(points) if !polygon_contains(points, spot, work)? => 0.0,
            FlatArea::Polygon(points) => border_distance(points, spot, work)?,
            FlatArea::Circle { center, radius } => difference(*radius, spot.distance(*center)),
        })
    }
}

/// What a coordinate is wrong by after some operations, relative to the greatest of them.
const ROUNDING: f64 = 1e-14;

/// How much greater `a` is than `b`, at least.
fn difference(a: f64, b: f64) -> f64 {
    (a - b - (a + b) * ROUNDING).max(0.0)
}

fn sides(points: &[Spot]) -> impl Iterator<Item = (Spot, Spot)> {
    points.iter().copied().zip(points.iter().copied().cycle().skip(1))
}

/// Whether a ray from `spot` meets the sides an odd number of times. Of the border, the left, right and upper sides belong to
/// the polygon, as in MongoDB.
fn polygon_contains(points: &[Spot], spot: Spot, work: &Work<'_>) -> Result<bool> {
    let mut odd = false;
    for (from, to) in sides(points) {
        work.step()?;
        if spot.y <= from.y.min(to.y) || spot.y > from.y.max(to.y) || spot.x > from.x.max(to.x) {
            continue;
        }
        if from.x == to.x && spot.x == from.x {
            return Ok(true);
        }
        odd ^= from.x == to.x || spot.x <= (spot.y - from.y) * (to.x - from.x) / (to.y - from.y) + from.x;
    }
    Ok(odd)
}

/// The distance to the nearest side, or less where the coordinates are too great to tell.
fn border_distance(points: &[Spot], spot: Spot, work: &Work<'_>) -> Result<f64> {
    let (mut least, mut greatest) = (f64::INFINITY, 0.0_f64);
    for (from, to) in sides(points) {
        work.step()?;
        let (x, y) = (to.x - from.x, to.y - from.y);
        let length2 = x * x + y * y;
        if !length2.is_finite() {
            return Ok(0.0);
        }
        greatest = [from.x, from.y, spot.x, spot.y].iter().fold(greatest, |most, c| most.max(c.abs()));
        let part =
            if length2 > 0.0 { ((spot.x - from.x) * x + (spot.y - from.y) * y) / length2 } else { 0.0 };
        let part = part.clamp(0.0, 1.0);
        least = least.min(spot.distance(Spot { x: from.x + part * x, y: from.y + part * y }));
    }
    Ok((least - greatest * ROUNDING).max(0.0))
}
