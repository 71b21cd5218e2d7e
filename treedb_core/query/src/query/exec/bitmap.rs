//! [`BitmapResult`]: the rows that several indexes lead to together.
//!
//! An intersection begins with the rows of its first index, which the planner expects to have fewest; the entries of the
//! others are only looked up among them. Rows are fetched when the set is complete.

use crate::access::{Direction, Flow, RowId, Source};
use crate::error::Result;
use crate::query::Counters;
use crate::query::plan::{BitmapScan, KeyMatch, SplitKey};

use super::row_set::{Finder, RowSet, RowSetBuilder};

/// The rows of a bitmap scan.
#[derive(Default)]
pub(super) struct BitmapResult {
    /// Rows whose documents have to be checked against the filter.
    pub(super) recheck: RowSet,
    /// Rows that match, by their keys, if the snapshot shows them.
    pub(super) exact: RowSet,
    /// Whether the snapshot shows all of those.
    pub(super) shown: bool,
}

/// What is done with the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wanted {
    /// They are fetched.
    Candidates,
    /// They are only counted, so it saves fetching them to ask whether the snapshot shows them while an entry is at hand.
    Shown,
}

impl BitmapResult {
    /// The rows that `set` leads to.
    ///
    /// # Errors
    /// Those of `source`.
    pub(super) fn of(
        source: &dyn Source,
        set: &BitmapScan,
        wanted: Wanted,
        counters: &mut Counters,
        split: &mut SplitKey,
    ) -> Result<BitmapResult> {
        match set {
            BitmapScan::Index { .. } => {
                let (mut recheck, mut exact) = (RowSetBuilder::default(), RowSetBuilder::default());
                entries(source, set, counters, split, &mut |rows, decided| {
                    if decided {
                        exact.extend(rows)
                    } else {
                        recheck.extend(rows)
                    };
                    Ok(())
                })?;
                Ok(BitmapResult { recheck: recheck.finish(), exact: exact.finish(), shown: false })
            }
            BitmapScan::Or(sets) => {
                let mut all = BitmapResult::default();
                for set in sets {
                    let more = Self::of(source, set, Wanted::Candidates, counters, split)?;
                    all.recheck = all.recheck.union(more.recheck);
                    all.exact = all.exact.union(more.exact);
                }
                Ok(all)
            }
            BitmapScan::And(sets) => Self::common(source, sets, wanted, counters, split),
        }
    }

    /// All rows of the result.
    pub(super) fn into_rows(self) -> RowSet {
        self.recheck.union(self.exact)
    }

    /// The rows that all of `sets` have.
    fn common(
        source: &dyn Source,
        sets: &[BitmapScan],
        wanted: Wanted,
        counters: &mut Counters,
        split: &mut SplitKey,
    ) -> Result<BitmapResult> {
        let Some((first, others)) = sets.split_first() else { return Ok(BitmapResult::default()) };
        let found = Self::of(source, first, Wanted::Candidates, counters, split)?;
        // The keys of all sets together decide.
        let mut decided = found.recheck.is_empty();
        let mut common = found.into_rows();
        let mut shown = false;
        for (at, set) in others.iter().enumerate() {
            if common.is_empty() {
                break;
            }
            // The answer may depend on the entries that are at hand while the last set is read.
            let ask = wanted == Wanted::Shown && decided && at + 1 == others.len();
            let (mut finder, mut hits) = (Finder::new(&common), RowSetBuilder::default());
            let mut all_decided = true;
            let mut look_up = |rows: &[RowId], by_key: bool| -> Result<()> {
                for row in rows.iter().copied().filter(|row| finder.has(*row)) {
                    all_decided &= by_key;
                    if !(ask && by_key) || source.shows(row)? {
                        hits.push(row);
                    }
                }
                Ok(())
            };
            match set {
                BitmapScan::Index { .. } => entries(source, set, counters, split, &mut look_up)?,
                set => {
                    let BitmapResult { recheck, exact, .. } =
                        Self::of(source, set, Wanted::Candidates, counters, split)?;
                    for row in recheck {
                        look_up(&[row], false)?;
                    }
                    for row in exact {
                        look_up(&[row], true)?;
                    }
                }
            }
            common = hits.finish();
            decided &= all_decided;
            shown = ask && all_decided;
        }
        Ok(if decided {
            BitmapResult { recheck: RowSet::default(), exact: common, shown }
        } else {
            BitmapResult { recheck: common, exact: RowSet::default(), shown: false }
        })
    }
}

/// Shows the rows of an index's entries, and whether the keys decide that they match.
fn entries(
    source: &dyn Source,
    set: &BitmapScan,
    counters: &mut Counters,
    split: &mut SplitKey,
    visit: &mut dyn FnMut(&[RowId], bool) -> Result<()>,
) -> Result<()> {
    let BitmapScan::Index { index, ranges, keys, .. } = set else { return Ok(()) };
    let decided = keys.complete && (source.entries_are_exact() || source.keys_decide(*index));
    for range in ranges {
        let Some(test) = &keys.test else {
            source.index_row_batches(*index, range, &mut |rows| {
                counters.keys_examined += rows.len() as u64;
                visit(rows, decided)?;
                Ok(Flow::Continue(()))
            })?;
            continue;
        };
        source.index_range(*index, range, Direction::Forward, None, &mut |row, key| {
            counters.keys_examined += 1;
            match test.check(key, split) {
                KeyMatch::No => {}
                found => visit(&[row], decided && found == KeyMatch::Yes)?,
            }
            Ok(Flow::Continue(()))
        })?;
    }
    Ok(())
}
