//! [`PlanSummary`]: where the rows of a plan come from, in a few words, as MongoDB's `planSummary` has it.

use std::fmt;
use std::sync::Arc;

use crate::access::{IndexInfo, KeyRange, Source};
use crate::doc::key_decode::encoded_length;
use crate::doc::{Value, shown};
use crate::geo::Grid;
use crate::index::Definition;
use crate::query::interrupt;

use super::{BitmapScan, KeyPredicate, NearSearch, OrderedIndex, Path, Plan, PointLookup};

/// Where the rows of a plan come from: `COLLSCAN`, `IDHACK`, `IXSCAN { a: 1 }`, or several scans of indexes. It is made for every
/// operation of a server and seldom read, so it is text only when it is shown.
#[derive(Debug, Clone)]
pub struct PlanSummary(Scans);

#[derive(Debug, Clone)]
enum Scans {
    One(Scan),
    Several(Vec<Scan>),
}

#[derive(Debug, Clone)]
struct Scan {
    stage: &'static str,
    index: Option<Arc<Definition>>,
}

impl Scan {
    fn of_index(stage: &'static str, info: &IndexInfo) -> Self {
        Scan { stage, index: Some(Arc::clone(&info.def)) }
    }
}

impl PlanSummary {
    /// There is nothing to find.
    pub const EOF: PlanSummary = Self::stage("EOF");
    /// All rows of the collection.
    pub const COLLECTION_SCAN: PlanSummary = Self::stage("COLLSCAN");
    /// The number of rows, which is known.
    pub const RECORD_COUNT: PlanSummary = Self::stage("RECORD_STORE_FAST_COUNT");

    const fn stage(stage: &'static str) -> Self {
        PlanSummary(Scans::One(Scan { stage, index: None }))
    }

    /// That of `plan` over `source`, whose rows are only counted if `counting`.
    pub fn of(plan: &Plan, source: &dyn Source, counting: bool) -> Self {
        let indexes = source.indexes();
        match &plan.path {
            Path::Empty => Self::EOF,
            Path::CollectionScan => Self::COLLECTION_SCAN,
            Path::Index { index, .. } => match indexes.get(*index) {
                None => Self::EOF,
                Some(info) => match index_stage(plan, source, counting) {
                    IDHACK => Self::stage(IDHACK),
                    stage => PlanSummary(Scans::One(Scan::of_index(stage, info))),
                },
            },
            Path::Near(search) => indexes
                .get(search.index)
                .map_or(Self::EOF, |info| PlanSummary(Scans::One(Scan::of_index(near_stage(search), info)))),
            Path::Bitmap(set) => {
                let mut scans = Vec::new();
                add(set, indexes, &mut scans);
                PlanSummary(Scans::Several(scans))
            }
        }
    }

    /// That of a look-up of one key.
    pub fn of_look_up(lookup: &PointLookup, indexes: &[IndexInfo]) -> Self {
        match indexes.get(lookup.index) {
            None => Self::EOF,
            Some(info) if info.def.is_id() => Self::stage(IDHACK),
            Some(info) => PlanSummary(Scans::One(Scan::of_index("IXSCAN", info))),
        }
    }

    /// That of walking from one value of an index to the next.
    pub fn of_distinct(info: &IndexInfo) -> Self {
        PlanSummary(Scans::One(Scan::of_index("DISTINCT_SCAN", info)))
    }
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scans = match &self.0 {
            Scans::One(scan) => std::slice::from_ref(scan),
            Scans::Several(scans) => scans,
        };
        for (at, Scan { stage, index }) in scans.iter().enumerate() {
            write!(f, "{}{stage}", if at == 0 { "" } else { ", " })?;
            if let Some(index) = index {
                write!(f, " {}", shown(Value::Document((&index.key_pattern()).into())))?;
            }
        }
        Ok(())
    }
}

/// The scans of a bitmap plan.
fn add(set: &BitmapScan, indexes: &[IndexInfo], scans: &mut Vec<Scan>) {
    match set {
        BitmapScan::Index { index, .. } => {
            scans.extend(indexes.get(*index).map(|info| Scan::of_index("IXSCAN", info)));
        }
        BitmapScan::Or(sets) | BitmapScan::And(sets) => sets.iter().for_each(|set| add(set, indexes, scans)),
    }
}

/// The stage that finds a document by its `_id`.
pub(in crate::query) const IDHACK: &str = "IDHACK";

/// What MongoDB calls the stage that reads the index of a plan with one.
pub(in crate::query) fn index_stage(plan: &Plan, source: &dyn Source, counting: bool) -> &'static str {
    let Path::Index { index, ranges, keys, .. } = &plan.path else { return "IXSCAN" };
    let info = source.indexes().get(*index).and_then(OrderedIndex::of);
    if !counting && plan.covered().is_none() && info.is_some_and(|info| is_id_look_up(&info, ranges)) {
        return IDHACK;
    }
    let counts = counting && keys.test.is_none() && keys_suffice(plan, source);
    if counts { "COUNT_SCAN" } else { "IXSCAN" }
}

/// Whether the keys of the index of a plan decide which rows match.
pub(in crate::query) fn keys_suffice(plan: &Plan, source: &dyn Source) -> bool {
    match &plan.path {
        Path::Index { index, keys, .. } => keys_decide(source, *index, keys),
        _ => false,
    }
}

fn keys_decide(source: &dyn Source, index: usize, keys: &KeyPredicate) -> bool {
    keys.complete && (source.entries_are_exact() || source.keys_decide(index))
}

/// Whether the keys of all indexes of a bitmap scan decide together which rows match.
fn sets_suffice(set: &BitmapScan, source: &dyn Source) -> bool {
    match set {
        BitmapScan::Index { index, keys, .. } => keys_decide(source, *index, keys),
        BitmapScan::Or(sets) | BitmapScan::And(sets) => sets.iter().all(|set| sets_suffice(set, source)),
    }
}

/// What MongoDB calls the search by distance.
pub(in crate::query) fn near_stage(search: &NearSearch) -> &'static str {
    if search.grid == Grid::Sphere { "GEO_NEAR_2DSPHERE" } else { "GEO_NEAR_2D" }
}

/// True if the ranges search for one `_id`.
fn is_id_look_up(info: &OrderedIndex<'_>, ranges: &[KeyRange]) -> bool {
    let [range] = ranges else { return false };
    info.def.is_id()
        && encoded_length(&range.low, false) == Some(range.low.len())
        && KeyRange::prefix(range.low.clone()) == *range
}

impl Plan {
    /// Whether the documents that it finds are counted by their keys: their rows are only asked for where the snapshot may not
    /// show them.
    pub fn counts_by_keys(&self, source: &dyn Source) -> bool {
        match &self.path {
            Path::Empty => true,
            Path::Index { .. } => keys_suffice(self, source),
            // Rows of a union are fetched.
            Path::Bitmap(set) => matches!(set, BitmapScan::And(_)) && sets_suffice(set, source),
            Path::CollectionScan | Path::Near(_) => false,
        }
    }

    /// Whether each entry that it reads is of another row that matches.
    pub(in crate::query) fn finds_only_matches(&self, source: &dyn Source) -> bool {
        let untested = matches!(&self.path, Path::Index { distinct: true, keys, .. } if keys.test.is_none());
        untested && keys_suffice(self, source)
    }

    /// Says that the operation of the calling thread finds its rows by this plan, and counts one more use of its indexes.
    pub(in crate::query) fn begin(&self, source: &dyn Source) {
        self.count_use(source);
        interrupt::note_plan(|| PlanSummary::of(self, source, false));
    }
}
