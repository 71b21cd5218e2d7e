//! [`NearWalk`]: the rows of a `$near`, the nearest first.
//!
//! Rings around the point are searched one after another. The cells that cover a ring lead to all rows whose distance is in it,
//! and to some that are nearer or farther. Each row is looked at once, and waits in a heap until its ring is done; so the order is
//! exact. The first ring is half as wide as a cell around the point with some entries in it, later ones are wider or
//! narrower by what was found; one in which too many are found is given up and begun again, half as wide.
//!
//! Memory is bounded: after [`MOST_SEEN`] rows it is forgotten which were looked at. From then on a ring keeps only the rows
//! whose distance is in it, and those beyond it are looked at again by the rings that follow.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};

use crate::access::{Direction, Flow, RowId, Source};
use crate::doc::Doc;
use crate::error::Result;
use crate::geo::{Work, ranges_around, ranges_between};
use crate::query::Counters;
use crate::query::filter::Filter;
use crate::query::interrupt::{self, InterruptTick};
use crate::query::plan::NearSearch;

/// A ring with fewer rows is followed by a wider one, one with more than the second by a narrower one. Who has read many rows may
/// read on, so that later rings have a share of all rows until then: each reads the cells around it again.
const FEW: usize = 32;
const MANY: usize = 512;

/// Rows that are remembered.
const MOST_SEEN: usize = 1 << 16;
/// Rows of a ring after which it is made narrower, if it can be.
const MOST_IN_RING: usize = 1 << 13;

/// A row and its distance; rows at equal distances are in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Found {
    distance: f64,
    row: RowId,
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.row.cmp(&other.row))
    }
}

/// The position of a search by distance.
#[derive(Debug, Default)]
pub(super) struct NearWalk {
    /// The ring that comes next: from this distance, so wide, while it begins before the end. `None` before the first.
    rings: Option<Rings>,
    /// Rows that have been looked at.
    seen: HashSet<RowId>,
    /// Those of them that match.
    found: BinaryHeap<Reverse<Found>>,
    /// [`MOST_SEEN`] was reached: each ring begins without memory.
    forgets: bool,
}

#[derive(Debug, Clone, Copy)]
struct Rings {
    from: f64,
    width: f64,
    end: f64,
    done: bool,
}

impl NearWalk {
    /// The next row that matches `filter`; `None` if there are no more.
    ///
    /// # Errors
    /// Those of `source` and of the filter.
    pub(super) fn next(
        &mut self,
        source: &dyn Source,
        search: &NearSearch,
        filter: &Filter,
        counters: &mut Counters,
    ) -> Result<Option<RowId>> {
        let mut rings = match self.rings {
            Some(rings) => rings,
            None => first(source, search)?,
        };
        loop {
            if let Some(Reverse(nearest)) = self.found.peek()
                && (rings.done || nearest.distance < rings.from)
            {
                let row = nearest.row;
                self.found.pop();
                self.rings = Some(rings);
                return Ok(Some(row));
            }
            if rings.done {
                self.rings = Some(rings);
                return Ok(None);
            }
            self.forgets |= self.seen.len() > MOST_SEEN;
            if self.forgets {
                // Whatever is found now is beyond the last ring.
                self.seen.clear();
                self.found.clear();
            }
            let before = self.found.len();
            let to = (rings.from + rings.width).max(rings.from * (1.0 + 1e-12)).min(rings.end);
            let narrower = rings.width / 2.0;
            let most = match narrower > rings.from * 1e-9 && narrower > 1e-9 {
                true => MOST_IN_RING.max(self.seen.len()),
                false => usize::MAX,
            };
            if !self.ring(source, search, filter, counters, (rings.from, to, to >= rings.end), most)? {
                rings.width = narrower;
                continue;
            }
            let seen = self.seen.len();
            // Each ring is read with much around it, so without memory there are to be few.
            let (too_few, many) = match self.forgets {
                false => (FEW.max(seen / 16), MANY.max(seen / 2)),
                true => (MOST_IN_RING / 4, MOST_IN_RING),
            };
            match self.found.len() - before {
                // The second ring is greater than the first anyway.
                few if few < too_few && rings.from >= rings.width => rings.width *= 2.0,
                found if found > many => rings.width /= 2.0,
                _ => {}
            }
            rings.from = to;
            rings.done = to >= rings.end;
        }
    }

    /// Looks at the rows of a ring (from a distance to another; the last one, with its end). False if it was given up after `most`
    /// that had not been looked at before.
    fn ring(
        &mut self,
        source: &dyn Source,
        search: &NearSearch,
        filter: &Filter,
        counters: &mut Counters,
        (from, to, is_last): (f64, f64, bool),
        most: usize,
    ) -> Result<bool> {
        let work = Work::new(&interrupt::check);
        interrupt::check()?;
        let cells = ranges_between(&search.grid, &search.near, from, to, &work)?;
        let (mut tick, NearWalk { seen, found, forgets, .. }) = (InterruptTick::default(), self);
        let (mut new, mut is_given_up) = (0, false);
        for range in search.ranges(&cells) {
            source.index_rows(search.index, &range, Direction::Forward, None, &mut |row| {
                tick.tick()?;
                counters.keys_examined += 1;
                if seen.contains(&row) {
                    return Ok(Flow::Continue(()));
                }
                if new >= most {
                    is_given_up = true;
                    return Ok(Flow::Break(()));
                }
                let before = found.len();
                source.fetch_row(row, &mut |document| {
                    counters.docs_examined += 1;
                    if filter.admits(document)?
                        && let Some((distance, _)) =
                            search.near.nearest(&search.path, Doc::from(document.document()?), &work)?
                        && (!*forgets || (from <= distance && (distance < to || is_last)))
                    {
                        found.push(Reverse(Found { distance, row }));
                    }
                    Ok(())
                })?;
                // Of what is forgotten anyway, only rows of the ring are remembered as long as it lasts.
                if !*forgets || found.len() > before {
                    seen.insert(row);
                    new += 1;
                }
                Ok(Flow::Continue(()))
            })?;
            if is_given_up {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The first ring.
fn first(source: &dyn Source, search: &NearSearch) -> Result<Rings> {
    let (from, end) = search.near.limits(&search.grid);
    let around = ranges_around(&search.grid, &search.near);
    // The smallest cell with some entries.
    let (mut low, mut high) = (0, around.len());
    while low < high {
        let middle = (low + high) / 2;
        let Some((cells, _)) = around.get(middle) else { break };
        match has_some(source, search, *cells)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    let width = around.get(low).map_or(end / 16.0, |(_, radius)| *radius / 2.0);
    Ok(Rings { from, width: width.max(1e-9), end, done: from > end })
}

/// Whether the index has some entries with these cells.
fn has_some(source: &dyn Source, search: &NearSearch, cells: (u64, u64)) -> Result<bool> {
    let mut count = 0;
    for range in search.ranges(&[cells]) {
        source.index_rows(search.index, &range, Direction::Forward, None, &mut |_| {
            count += 1;
            Ok(if count < FEW { Flow::Continue(()) } else { Flow::Break(()) })
        })?;
        if count >= FEW {
            return Ok(true);
        }
    }
    Ok(false)
}
