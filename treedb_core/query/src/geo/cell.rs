//! Cells: squares that are divided into four, 30 times, each with a number.
//!
//! On the sphere the greatest cells are the six faces of a cube around it; in the plane there is one, between the bounds of the
//! index. Numbers follow a Hilbert curve, so that cells near each other mostly have near numbers, and the cells within a cell
//! have numbers around its own:
//!
//! ```text
//! face (3 bits), two bits for each division, a bit that is set, zeros
//! ```
//!
//! The number of a cell is greater than those of one half of the cells within, and less than those of the other half.

use super::flat::Spot;
use super::{Location, Vector};

/// Divisions of the greatest cells.
pub(super) const LEVELS: u32 = 30;
/// Bit of a cell's number after those of the face.
const FACE_SHIFT: u32 = 2 * LEVELS + 1;

/// Which quarter of a square (2 x + y) comes at which place of the curve, by its orientation: bit 0 exchanges x and y, bit 1
/// goes backwards.
const QUARTER_AT: [[u64; 4]; 4] = [[0, 1, 3, 2], [0, 2, 3, 1], [3, 2, 0, 1], [3, 1, 0, 2]];
/// How the orientation changes in the quarter at a place.
const TURN_AT: [usize; 4] = [1, 0, 0, 3];

/// What cells are cells of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// The sphere: `2dsphere`.
    Sphere,
    /// A square of the plane: `2d`.
    Plane {
        /// The least coordinate.
        min: f64,
        /// The coordinate above all others; it belongs to the square too.
        max: f64,
    },
}

/// The number of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellId(pub(super) u64);

/// A circle around a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ball {
    /// Center and radius on the sphere; `None` for a cell of the plane that has no longitudes and latitudes.
    pub(super) sphere: Option<(Vector, f64)>,
    /// Center and radius in the plane; `None` for a cell of the sphere.
    pub(super) plane: Option<(Spot, f64)>,
}

impl CellId {
    fn face(face: u64) -> CellId {
        CellId(face << FACE_SHIFT | 1 << (FACE_SHIFT - 1))
    }

    /// The cell of the last division with these coordinates, each below 2^30.
    fn leaf(face: u64, x: u64, y: u64) -> CellId {
        let (mut number, mut orientation) = (face, (face & 1) as usize);
        for level in (0..LEVELS).rev() {
            let quarter = (x >> level & 1) << 1 | y >> level & 1;
            let places = QUARTER_AT.get(orientation).copied().unwrap_or_default();
            let place = places.iter().position(|at| *at == quarter).unwrap_or_default();
            number = number << 2 | place as u64;
            orientation ^= TURN_AT.get(place).copied().unwrap_or_default();
        }
        CellId(number << 1 | 1)
    }

    /// The lowest bit: it tells the size.
    fn low_bit(self) -> u64 {
        self.0 & self.0.wrapping_neg()
    }

    /// The number of divisions.
    pub(super) fn level(self) -> u32 {
        LEVELS.saturating_sub(self.0.trailing_zeros() / 2)
    }

    /// The least and the greatest number of a cell within this one, itself included.
    pub(super) fn range(self) -> (u64, u64) {
        let below = self.low_bit() - 1;
        (self.0 - below, self.0 + below)
    }

    /// The cell that it is a quarter of.
    pub(super) fn parent(self) -> Option<CellId> {
        (self.level() > 0).then(|| {
            let low = self.low_bit() << 2;
            CellId(self.0 & low.wrapping_neg() | low)
        })
    }

    /// Its quarters, in the order of the curve; none of a cell of the last division.
    pub(super) fn children(self) -> impl Iterator<Item = CellId> {
        let low = self.low_bit();
        let quarter = low >> 2;
        let first = self.0 - low + quarter;
        (0..4).filter(move |_| quarter > 0).map(move |at| CellId(first + at * (quarter << 1)))
    }

    /// Face, level and coordinates at that level.
    fn place(self) -> (u64, u32, u64, u64) {
        let (face, level) = (self.0 >> FACE_SHIFT, self.level());
        let (mut x, mut y, mut orientation) = (0, 0, (face & 1) as usize);
        for step in 0..level {
            let place = (self.0 >> (FACE_SHIFT - 2 - 2 * step) & 3) as usize;
            let places = QUARTER_AT.get(orientation).copied().unwrap_or_default();
            let quarter = places.get(place).copied().unwrap_or_default();
            x = x << 1 | quarter >> 1;
            y = y << 1 | quarter & 1;
            orientation ^= TURN_AT.get(place).copied().unwrap_or_default();
        }
        (face, level, x, y)
    }
}

/// A coordinate on a face, from -1 to 1, of a place between 0 and 1: cells of a level are more equal in size than they would be
/// without.
fn bent(at: f64) -> f64 {
    if at >= 0.5 { (4.0 * at * at - 1.0) / 3.0 } else { (1.0 - 4.0 * (1.0 - at) * (1.0 - at)) / 3.0 }
}

/// The place of a coordinate.
fn unbent(coordinate: f64) -> f64 {
    if coordinate >= 0.0 {
        0.5 * (1.0 + 3.0 * coordinate).sqrt()
    } else {
        1.0 - 0.5 * (1.0 - 3.0 * coordinate).sqrt()
    }
}

/// The direction of a point of a face.
fn on_face(face: u64, u: f64, v: f64) -> Vector {
    let at = match face {
        0 => Vector { x: 1.0, y: u, z: v },
        1 => Vector { x: -u, y: 1.0, z: v },
        2 => Vector { x: -u, y: -v, z: 1.0 },
        3 => Vector { x: -1.0, y: -v, z: -u },
        4 => Vector { x: v, y: -1.0, z: -u },
        _ => Vector { x: v, y: u, z: -1.0 },
    };
    at.direction().unwrap_or(at)
}

/// The face of a point, and its coordinates there.
fn face_of(point: Vector) -> (u64, f64, f64) {
    let Vector { x, y, z } = point;
    if x.abs() >= y.abs() && x.abs() >= z.abs() {
        if x >= 0.0 { (0, y / x, z / x) } else { (3, z / x, y / x) }
    } else if y.abs() >= z.abs() {
        if y >= 0.0 { (1, -x / y, z / y) } else { (4, z / y, -x / y) }
    } else if z >= 0.0 {
        (2, -x / z, -y / z)
    } else {
        (5, -y / z, -x / z)
    }
}

/// The number of a place between 0 and 1 among 2^30 of equal size.
fn step_of(place: f64) -> u64 {
    let count = 1_u64 << LEVELS;
    // `as` saturates.
    ((place * count as f64) as u64).min(count - 1)
}

impl Grid {
    /// The smallest cell of a point on the sphere.
    pub(super) fn cell_of(point: Vector) -> CellId {
        let (face, u, v) = face_of(point);
        CellId::leaf(face, step_of(unbent(u)), step_of(unbent(v)))
    }

    /// The smallest cell of a location that is a point; `None` if it is not, or outside of the plane.
    pub(super) fn leaf(&self, location: &Location) -> Option<CellId> {
        match self {
            Grid::Sphere => {
                let [point] = location.shape.as_ref()?.points.as_slice() else { return None };
                Some(Self::cell_of(*point))
            }
            Grid::Plane { .. } => self.cell_at(location.spot?),
        }
    }

    /// The smallest cell of a point of the plane.
    pub(super) fn cell_at(&self, spot: Spot) -> Option<CellId> {
        let Grid::Plane { min, max } = *self else { return None };
        let inside = |at: f64| (min..=max).contains(&at);
        let place = |at: f64| (at - min) / (max - min);
        (inside(spot.x) && inside(spot.y))
            .then(|| CellId::leaf(0, step_of(place(spot.x)), step_of(place(spot.y))))
    }

    /// The greatest cells.
    pub(super) fn roots(&self) -> impl Iterator<Item = CellId> {
        let faces = if *self == Grid::Sphere { 6 } else { 1 };
        (0..faces).map(CellId::face)
    }

    /// A circle around a cell.
    pub(super) fn ball(&self, cell: CellId) -> Ball {
        let (face, level, x, y) = cell.place();
        let size = 1.0 / (1_u64 << level) as f64;
        let (x, y) = (x as f64 * size, y as f64 * size);
        match *self {
            Grid::Sphere => {
                let at = |right: f64, up: f64| on_face(face, bent(x + right * size), bent(y + up * size));
                let center = at(0.5, 0.5);
                let corners = [at(0.0, 0.0), at(0.0, 1.0), at(1.0, 0.0), at(1.0, 1.0)];
                let radius = corners.iter().map(|corner| center.angle(*corner)).fold(0.0, f64::max);
                Ball { sphere: Some((center, radius + 1e-14)), plane: None }
            }
            Grid::Plane { min, max } => {
                let whole = max - min;
                let (low_x, low_y, size) = (min + x * whole, min + y * whole, size * whole);
                let center = Spot { x: low_x + size / 2.0, y: low_y + size / 2.0 };
                // What is rounded is small beside the coordinates.
                let slack = (min.abs().max(max.abs())) * 1e-14;
                let plane = Some((center, size * std::f64::consts::FRAC_1_SQRT_2 + slack));
                Ball { sphere: on_sphere((low_x, low_x + size), (low_y, low_y + size)), plane }
            }
        }
    }
}

/// A circle around the longitudes and latitudes of a cell of the plane.
fn on_sphere(x: (f64, f64), y: (f64, f64)) -> Option<(Vector, f64)> {
    let (west, east) = (x.0.max(-180.0), x.1.min(180.0));
    let (south, north) = (y.0.max(-90.0), y.1.min(90.0));
    if west > east || south > north {
        return None;
    }
    let center = Vector::of_degrees((west + east) / 2.0, (south + north) / 2.0);
    // First along the meridian of the center, then along a parallel, the longest of which is nearest to the equator.
    let widest = if south <= 0.0 && north >= 0.0 { 0.0 } else { south.abs().min(north.abs()) };
    let along = (east - west) / 2.0 * libm::cos(widest.to_radians());
    Some((center, ((north - south) / 2.0 + along).to_radians() + 1e-12))
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    fn random_point(rng: &mut Rng) -> Vector {
        let mut part = || rng.below(2_000_001) as f64 / 1e6 - 1.0;
        loop {
            let point = Vector { x: part(), y: part(), z: part() };
            if let Some(direction) = point.direction().filter(|_| point.length() <= 1.0) {
                return direction;
            }
        }
    }

    #[test]
    fn a_point_is_in_the_circle_of_each_cell_around_it() {
        let mut rng = Rng::new(3);
        let plane = Grid::Plane { min: -180.0, max: 180.0 };
        for _ in 0..2000 {
            let point = random_point(&mut rng);
            let spot = Spot {
                x: rng.below(36_001) as f64 / 100.0 - 180.0,
                y: rng.below(18_001) as f64 / 100.0 - 90.0,
            };
            let on_plane = Vector::of_degrees(spot.x, spot.y);
            let mut cells = vec![
                (Grid::Sphere, Grid::cell_of(point), point),
                (plane, plane.cell_at(spot).unwrap(), on_plane),
            ];
            for level in (0..=LEVELS).rev() {
                for (grid, cell, point) in &mut cells {
                    let ball = grid.ball(*cell);
                    let (center, radius) = ball.sphere.unwrap();
                    assert!(center.angle(*point) <= radius, "{cell:?} {level}");
                    if let Some((center, radius)) = ball.plane {
                        assert!(center.distance(spot) <= radius, "{cell:?} {level}");
                    }
                    assert_eq!(cell.level(), level);
                    if let Some(parent) = cell.parent() {
                        assert!(parent.children().any(|child| child == *cell));
                        let ((low, high), (from, to)) = (cell.range(), parent.range());
                        assert!(from <= low && high <= to);
                        *cell = parent;
                    }
                }
            }
            assert!(cells.iter().all(|(grid, cell, _)| grid.roots().any(|root| root == *cell)));
        }
    }

    #[test]
    fn cells_that_follow_each_other_are_neighbours() {
        // On a face, each cell of a level has a side in common with the next.
        for face in 0..6 {
            let mut level = vec![CellId::face(face)];
            for _ in 0..5 {
                level = level.into_iter().flat_map(CellId::children).collect();
            }
            assert!(level.is_sorted());
            for pair in level.windows(2) {
                let ((_, _, x, y), (_, _, to_x, to_y)) = (pair[0].place(), pair[1].place());
                assert_eq!(x.abs_diff(to_x) + y.abs_diff(to_y), 1);
            }
        }
    }
}
