//! The cells that cover an area: together they contain it, and they are few.
//!
//! The greatest cells that the area meets are divided again and again, those that it does not meet left out, as long as there
//! are not too many. What the circle around a cell tells may be too much, never too little.

use std::collections::VecDeque;

use super::cell::{Ball, CellId, Grid, LEVELS};
use super::region::Relation;
use super::{TOUCHING, Work};
use crate::error::Result;

/// How an area lies to a circle.
pub(super) type Relate<'a> = dyn Fn(&Ball) -> Result<Relation> + 'a;

/// By how much areas are greater for their covering than they are: what touches them counts as within, and distances by chords
/// have half of the digits at the opposite side of the sphere.
pub(super) const MARGIN: f64 = 1e-7 + 2.0 * TOUCHING;

/// Cells that contain the area together, at most about `most`, none within another one, in ascending order.
pub(super) fn cover(grid: &Grid, relate: &Relate<'_>, most: usize, work: &Work<'_>) -> Result<Vec<CellId>> {
    let (mut found, mut open) = (Vec::new(), VecDeque::new());
    let place = |cell: CellId, found: &mut Vec<CellId>, open: &mut Vec<CellId>| -> Result<()> {
        work.step()?;
        match relate(&grid.ball(cell))? {
            Relation::Apart => {}
            Relation::Crossing if cell.level() < LEVELS => open.push(cell),
            Relation::Crossing | Relation::Within => found.push(cell),
        }
        Ok(())
    };
    let mut next = Vec::new();
    for root in grid.roots() {
        place(root, &mut found, &mut next)?;
    }
    open.extend(next.drain(..));
    while let Some(cell) = open.pop_front() {
        let mut within = Vec::new();
        for child in cell.children() {
            place(child, &mut within, &mut next)?;
        }
        if found.len() + open.len() + within.len() + next.len() > most.max(1) {
            // As many as there may be: the cell stays whole.
            found.push(cell);
            next.clear();
        } else {
            found.append(&mut within);
            open.extend(next.drain(..));
        }
    }
    found.sort_unstable();
    Ok(found)
}
