//! Locations: GeoJSON and coordinate pairs, predicates on the sphere and in the plane, cells of an index.
//!
//! On the sphere a point is a unit vector, an edge the shorter arc of the great circle through its ends, and a polygon
//! the side of its ring that is the smaller one. Angles are in radians; metres are angles times [`EARTH_RADIUS`]. In the
//! plane a point is a pair of coordinates and an edge is straight.
//!
//! | file | what it holds |
//! |---|---|
//! | `vector` | [`Vector`]: a point on the sphere |
//! | `edges` | a chain of arcs, and the tree of boxes by which arcs near something are found |
//! | `ring` | a closed chain: which side a point is on, whether it is valid |
//! | `shape` | [`Shape`], [`Polygon`]: what a location in a document is |
//! | `geojson` | parsing locations |
//! | `sphere` | predicates and distances of shapes on the sphere |
//! | `flat` | boxes, polygons and circles in the plane |
//! | `region` | [`Region`]: the operands of `$geoWithin` and `$geoIntersects` |
//! | `near` | [`Near`]: the operand of `$near`, and rings around its point |
//! | `cell` | cells: numbered squares, which contain each other |
//! | `cover` | the cells that cover an area |
//! | `keys` | the cells of a document in an index, the ranges of cells of a query |

mod cell;
mod cover;
mod edges;
mod flat;
mod geojson;
mod keys;
mod near;
mod region;
mod ring;
mod shape;
mod sphere;
#[cfg(test)]
mod tests;
mod vector;

use std::cell::Cell;

use crate::error::{QueryError, Result};

pub use cell::Grid;
pub use geojson::Location;
pub(crate) use geojson::{any_location, brief, number};
pub(crate) use keys::ranges_around;
pub use keys::{cell_ranges, cells_of, ranges_between};
pub use near::{Metric, Near};
pub use region::{Region, Relation};
pub use shape::{Polygon, Shape};
pub use vector::Vector;

/// The radius of the earth in metres, as MongoDB has it.
pub const EARTH_RADIUS: f64 = 6_378_100.0;

/// The angle within which a point is on an edge, or two points are one: about 6 mm on the earth.
pub(crate) const TOUCHING: f64 = 1e-9;

/// Steps of a loop for each question whether it may go on.
const STEPS_PER_CHECK: u32 = 1 << 14;

/// Steps of parsing a location, at most, and of finding the cells of a document: some tenths of a second. Rings of any number of
/// vertices that are near few others need far fewer; to find out whether one is simple whose edges are all near each other may
/// take the square of their number.
const MOST_STEPS: u64 = 1 << 25;

#[cold]
fn too_intricate() -> QueryError {
    QueryError::bad_value(
        "the geometry is too intricate: too many of its edges are near each other; divide it into smaller ones",
    )
}

/// The work of one predicate: long loops ask now and then whether the operation was told to stop.
pub struct Work<'c> {
    steps: Cell<u32>,
    /// Steps until it is too much; `u64::MAX` if it cannot be.
    left: Cell<u64>,
    check: &'c dyn Fn() -> Result<()>,
}

impl<'c> Work<'c> {
    /// Work that goes on as long as `check` succeeds.
    pub fn new(check: &'c dyn Fn() -> Result<()>) -> Self {
        Work { steps: Cell::new(0), left: Cell::new(u64::MAX), check }
    }

    /// Work that nobody stops.
    pub const fn unchecked() -> Work<'static> {
        Work { steps: Cell::new(0), left: Cell::new(u64::MAX), check: &|| Ok(()) }
    }

    /// Does what may take `MOST_STEPS`, together with what it is a part of.
    ///
    /// # Errors
    /// Those of `task`; `BadValue` if it takes more.
    pub fn bounded<T>(&self, task: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.left.get() != u64::MAX {
            return task();
        }
        self.left.set(MOST_STEPS);
        let done = task();
        self.left.set(u64::MAX);
        done
    }

    /// Asks whether the work may go on.
    ///
    /// # Errors
    /// Those of the check.
    fn ask(&self) -> Result<()> {
        (self.check)()
    }

    /// A few instructions of a loop.
    ///
    /// # Errors
    /// Those of the check; `BadValue` if there were too many.
    #[inline]
    fn step(&self) -> Result<()> {
        match self.left.get() {
            u64::MAX => {}
            0 => return Err(too_intricate()),
            left => self.left.set(left - 1),
        }
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_PER_CHECK) { (self.check)() } else { Ok(()) }
    }
}
