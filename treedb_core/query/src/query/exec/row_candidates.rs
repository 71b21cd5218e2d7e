//! [`RowCandidates`]: the rows that an index leads to, for an owner that reads them and checks the filter itself.
//!
//! Only keys of an index are looked at here, by their bytes. So nothing of a document that the owner may not show
//! decides anything but whether its row is a candidate.

use std::collections::HashSet;
use std::fmt;

use crate::access::{Direction, Flow, QueryContext, RowId, Source};
use crate::error::Result;
use crate::query::plan::{BitmapScan, KeyMatch, KeyPredicate, Path, Plan, SplitKey};
use crate::query::{Counters, Query};

use super::bitmap::{BitmapResult, Wanted};
use super::near::NearWalk;
use super::row_set::RowIter;

/// A plan's rows, batch by batch. Every row that matches the filter is among them; others may be too.
pub struct RowCandidates {
    query: Query,
    plan: Plan,
    /// Position of the current range.
    range: usize,
    /// The last entry visited in it.
    last: Option<(Vec<u8>, RowId)>,
    /// Rows already visited, if a row can be found twice.
    seen: HashSet<RowId>,
    split: SplitKey,
    /// What is left of a bitmap plan.
    bitmap: Option<RowIter>,
    /// The position of a search by distance.
    near: NearWalk,
    keys_examined: u64,
}

impl fmt::Debug for RowCandidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCandidates").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl RowCandidates {
    /// Plans `query`, of which only the filter counts, over `source`.
    ///
    /// # Errors
    /// As [`Plan::choose`].
    pub fn new(source: &dyn Source, context: &QueryContext<'_>, query: Query) -> Result<Self> {
        let plan = Plan::choose(source, context, &query)?;
        Ok(Self::of(query, plan))
    }

    /// The rows of a plan that was chosen for `query`. Where the plan does not have to sort, they come in the query's order.
    pub fn of(query: Query, plan: Plan) -> Self {
        RowCandidates {
            query,
            plan,
            range: 0,
            last: None,
            seen: HashSet::new(),
            split: SplitKey::default(),
            bitmap: None,
            near: NearWalk::default(),
            keys_examined: 0,
        }
    }

    /// Begins again with the first row.
    pub fn rewind(&mut self) {
        (self.range, self.last, self.bitmap) = (0, None, None);
        self.near = NearWalk::default();
        self.seen.clear();
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The chosen plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether every row found matches the filter, if the snapshot of `source` shows it: keys of the index decide.
    pub fn are_matches(&self, source: &dyn Source) -> bool {
        match &self.plan.path {
            Path::Empty => true,
            Path::Index { index, keys, .. } => keys_match(source, *index, keys),
            Path::Bitmap(set) => set_matches(source, set),
            Path::Near(_) => true,
            Path::CollectionScan => false,
        }
    }

    /// Entries of indexes visited so far, since it was made.
    pub fn keys_examined(&self) -> u64 {
        self.keys_examined
    }

    /// Appends the next rows to `found`: `most`, or all that are left if there are fewer. True if there may be more.
    ///
    /// # Errors
    /// Those of `source`.
    pub fn next(&mut self, source: &dyn Source, most: usize, found: &mut Vec<RowId>) -> Result<bool> {
        let RowCandidates { query, plan, range: number, last, seen, split, bitmap, near, keys_examined } =
            self;
        let most = found.len() + most.max(1);
        match &plan.path {
            Path::Empty => Ok(false),
            Path::CollectionScan => {
                let after = last.as_ref().map(|(_, row)| *row);
                let direction = if plan.backward { Direction::Backward } else { Direction::Forward };
                source.scan_rows(direction, after, &mut |row, _| {
                    found.push(row);
                    Ok(if found.len() < most { Flow::Continue(()) } else { Flow::Break(()) })
                })?;
                *last = found.last().map(|row| (Vec::new(), *row));
                Ok(found.len() >= most)
            }
            Path::Bitmap(set) => {
                let rows = match bitmap {
                    Some(rows) => rows,
                    None => {
                        let mut counters = Counters::default();
                        let all = BitmapResult::of(source, set, Wanted::Candidates, &mut counters, split)?;
                        *keys_examined += counters.keys_examined;
                        bitmap.insert(all.into_rows().into_iter())
                    }
                };
                found.extend(rows.by_ref().take(most - found.len()));
                Ok(found.len() >= most)
            }
            Path::Near(search) => {
                let mut counters = Counters::default();
                while found.len() < most {
                    match near.next(source, search, &query.filter, &mut counters)? {
                        Some(row) => found.push(row),
                        None => break,
                    }
                }
                *keys_examined += counters.keys_examined;
                Ok(found.len() >= most)
            }
            Path::Index { index, ranges, direction, distinct, keys, .. } => {
                while let Some(range) = ranges.get(*number) {
                    let from = last.take();
                    let after = from.as_ref().map(|(key, row)| (key.as_slice(), *row));
                    let mut take = |row| {
                        if *distinct || seen.insert(row) {
                            found.push(row);
                        }
                        if found.len() < most { Flow::Continue(()) } else { Flow::Break(()) }
                    };
                    if let Some(test) = &keys.test {
                        source.index_range(*index, range, *direction, after, &mut |row, key| {
                            *keys_examined += 1;
                            if test.check(key, split) == KeyMatch::No || take(row).is_continue() {
                                return Ok(Flow::Continue(()));
                            }
                            *last = Some((key.to_vec(), row));
                            Ok(Flow::Break(()))
                        })?;
                    } else {
                        let mut end = None;
                        let key = source.index_rows(*index, range, *direction, after, &mut |row| {
                            *keys_examined += 1;
                            end = Some(row);
                            Ok(take(row))
                        })?;
                        *last = key.zip(end);
                    }
                    if last.is_some() {
                        return Ok(true);
                    }
                    *number += 1;
                }
                Ok(false)
            }
        }
    }
}

/// Whether entries in the ranges of an index match, without a look at their keys.
fn keys_match(source: &dyn Source, index: usize, keys: &KeyPredicate) -> bool {
    keys.complete && keys.test.is_none() && (source.entries_are_exact() || source.keys_decide(index))
}

/// Whether all rows of a bitmap match.
fn set_matches(source: &dyn Source, set: &BitmapScan) -> bool {
    match set {
        BitmapScan::Index { index, keys, .. } => keys_match(source, *index, keys),
        BitmapScan::Or(sets) | BitmapScan::And(sets) => sets.iter().all(|set| set_matches(source, set)),
    }
}
