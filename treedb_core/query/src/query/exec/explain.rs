//! The output of `explain` for a plan, in MongoDB's form.
//!
//! A plan is a tree of stages, the last one outermost: `PROJECTION_COVERED` over `SORT` over `FETCH` over `IXSCAN`.
//! In addition to what MongoDB shows, each plan has its estimate: `keys` examined, `rows` fetched, and `cost` in row
//! fetches.

use std::time::{Duration, Instant};

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::access::{Direction, Flow, KeyRange, QueryContext, Source};
use crate::doc::{Doc, Value, shown};
use crate::error::Result;
use crate::index::ordered::{SortOrder, pattern_of};

use crate::query::plan::{
    Alternative, BitmapScan, IDHACK, NearSearch, OrderedIndex, Path, Plan, bounds_of, index_stage,
    keys_suffice, near_stage,
};
use crate::query::update::Update;
use crate::query::{Counters, Query};

use super::distinct::{index_of_values, walk};
use super::write::collated;
use super::{Execution, counted};

/// What the documents that a plan finds are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// They are returned.
    Documents,
    /// They are counted.
    Count,
    /// They are updated.
    Update,
    /// They are deleted.
    Delete,
}

/// A change whose plan is shown.
#[derive(Debug, Clone, Copy)]
pub enum Write<'u> {
    /// An update; with `upsert` it inserts a document if none matches.
    Update {
        /// What becomes of a document.
        update: &'u Update,
        /// Whether a document is inserted if none matches.
        upsert: bool,
    },
    /// A deletion.
    Delete,
}

impl Write<'_> {
    /// Adds what it would do to its stage.
    fn append_counts(&self, stage: &mut RawDocumentBuf, matched: u64, changed: u64) {
        match self {
            Write::Update { upsert, .. } => {
                stage.append(cstr!("nMatched"), number(matched));
                stage.append(cstr!("nWouldModify"), number(changed));
                stage.append(cstr!("nWouldUpsert"), number(u64::from(*upsert && matched == 0)));
            }
            Write::Delete => stage.append(cstr!("nWouldDelete"), number(matched)),
        }
    }
}

/// What `explain` shows of a find, or of a count: the plan that was chosen and the others and, with `execute`, what
/// carrying it out took.
///
/// # Errors
/// Those of the query.
pub fn explain_query(
    source: &dyn Source,
    context: &QueryContext<'_>,
    namespace: &str,
    query: &Query,
    wanted: Wanted,
    execute: bool,
) -> Result<RawDocumentBuf> {
    let started = Instant::now();
    let mut query = query.clone();
    if wanted == Wanted::Count {
        (query.sort, query.projection) = (None, None);
    }
    let plan = Plan::choose(source, context, &query)?;
    let planner = query_planner(source, namespace, &query, &plan, wanted);
    let mut shown = rawdoc! { "explainVersion": "1", "queryPlanner": planner };
    if execute {
        let counters = match wanted {
            Wanted::Count => counted(source, context, &query)?.1,
            _ => {
                let mut execution = Execution::new(source, context, query.clone())?;
                execution.run(source, context, &mut |_| Flow::Continue(()))?;
                execution.counters()
            }
        };
        let stages = stages(source, &query, &plan, wanted);
        shown.append(cstr!("executionStats"), execution_stats(counters, started.elapsed(), stages));
    }
    Ok(shown)
}

/// What `explain` shows of the distinct values at `path` in the documents that `query` finds: where an index has them all, the
/// walk from one of its values to the next ([`distinct_by_index`](super::distinct_by_index)), otherwise the find.
///
/// # Errors
/// Those of the query.
pub fn explain_distinct(
    source: &dyn Source,
    context: &QueryContext<'_>,
    namespace: &str,
    path: &str,
    query: &Query,
    execute: bool,
) -> Result<RawDocumentBuf> {
    let started = Instant::now();
    let index = index_of_values(source, path).filter(|_| query.is_unconditional());
    let info = index.and_then(|index| OrderedIndex::of(source.indexes().get(index)?));
    let (Some(index), Some(info)) = (index, info) else {
        return explain_query(source, context, namespace, query, Wanted::Documents, execute);
    };
    let scan = index_scan("DISTINCT_SCAN", &info, query, &[KeyRange::ALL], Direction::Forward, false);
    let stages = over(rawdoc! { "stage": "PROJECTION_COVERED" }, scan);
    let planner = planner(namespace, query, stages.clone(), RawArrayBuf::new());
    let mut shown = rawdoc! { "explainVersion": "1", "queryPlanner": planner };
    if execute {
        let (_, counters) = walk(source, index, path)?;
        shown.append(cstr!("executionStats"), execution_stats(counters, started.elapsed(), stages));
    }
    Ok(shown)
}

/// What `explain` shows of a change of the documents that `query` finds, of which `limit` at most are changed (0: all).
/// With `execute` they are read, but nothing is changed.
///
/// # Errors
/// Those of the query and of the update.
pub fn explain_write(
    source: &dyn Source,
    context: &QueryContext<'_>,
    namespace: &str,
    query: &Query,
    limit: u64,
    write: Write<'_>,
    execute: bool,
) -> Result<RawDocumentBuf> {
    let started = Instant::now();
    let wanted = match write {
        Write::Update { .. } => Wanted::Update,
        Write::Delete => Wanted::Delete,
    };
    let query = Query { projection: None, ..query.clone() };
    let plan = Plan::choose(source, context, &query)?;
    let planner = query_planner(source, namespace, &query, &plan, wanted);
    let mut shown = rawdoc! { "explainVersion": "1", "queryPlanner": planner };
    if execute {
        let (mut matched, mut changed, mut failed) = (0, 0, None);
        let update = match write {
            Write::Update { update, .. } => Some(collated(update, &query.collation)?),
            Write::Delete => None,
        };
        let mut execution = Execution::new(source, context, query.clone())?;
        execution.run(source, context, &mut |document| {
            matched += 1;
            if let Some(update) = &update {
                match update.apply(&document, &query.filter) {
                    Ok(new) => changed += u64::from(new.is_some()),
                    Err(error) => failed = Some(error),
                }
            }
            let enough = limit > 0 && matched >= limit;
            if enough || failed.is_some() { Flow::Break(()) } else { Flow::Continue(()) }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut stages = stages(source, &query, &plan, wanted);
        write.append_counts(&mut stages, matched, changed);
        let counters = Counters { returned: 0, ..execution.counters() };
        shown.append(cstr!("executionStats"), execution_stats(counters, started.elapsed(), stages));
    }
    Ok(shown)
}

/// The same if the collection does not exist.
pub fn explain_write_of_nothing(
    namespace: &str,
    query: &Query,
    write: Write<'_>,
    execute: bool,
) -> RawDocumentBuf {
    let name = match write {
        Write::Update { .. } => "UPDATE",
        Write::Delete => "DELETE",
    };
    let stages = || over(rawdoc! { "stage": name }, rawdoc! { "stage": "EOF" });
    let planner = planner(namespace, query, stages(), RawArrayBuf::new());
    let mut shown = rawdoc! { "explainVersion": "1", "queryPlanner": planner };
    if execute {
        let mut stages = stages();
        write.append_counts(&mut stages, 0, 0);
        shown.append(cstr!("executionStats"), execution_stats(Counters::default(), Duration::ZERO, stages));
    }
    shown
}

/// The `queryPlanner` of a query: the plan that was chosen and the others.
pub fn query_planner(
    source: &dyn Source,
    namespace: &str,
    query: &Query,
    plan: &Plan,
    wanted: Wanted,
) -> RawDocumentBuf {
    let alternatives = Plan::alternatives(source, query);
    let estimate = |of: &Plan| alternatives.iter().find(|one| one.plan.path == of.path);
    let mut rejected = RawArrayBuf::new();
    for other in alternatives.iter().filter(|other| other.plan.path != plan.path) {
        rejected.push(estimated(stages(source, query, &other.plan, wanted), Some(other)));
    }
    let winning = estimated(stages(source, query, plan, wanted), estimate(plan));
    planner(namespace, query, winning, rejected)
}

fn planner(namespace: &str, query: &Query, winning: RawDocumentBuf, rejected: RawArrayBuf) -> RawDocumentBuf {
    rawdoc! {
        "namespace": namespace,
        "parsedQuery": query.filter.source().to_owned(),
        "indexFilterSet": false,
        "winningPlan": winning,
        "rejectedPlans": rejected,
    }
}

/// The `queryPlanner` if the collection does not exist.
pub fn planner_of_nothing(namespace: &str, query: &Query) -> RawDocumentBuf {
    planner(namespace, query, rawdoc! { "stage": "EOF" }, RawArrayBuf::new())
}

/// The output of `explain` if the collection does not exist.
pub fn of_nothing(namespace: &str, query: &Query, execute: bool) -> RawDocumentBuf {
    let planner = planner_of_nothing(namespace, query);
    let mut output = rawdoc! { "explainVersion": "1", "queryPlanner": planner };
    if execute {
        let stats = execution_stats(Counters::default(), Duration::ZERO, rawdoc! { "stage": "EOF" });
        output.append(cstr!("executionStats"), stats);
    }
    output
}

/// The `executionStats`: the work that a query needed, and its stages.
pub fn execution_stats(counters: Counters, took: Duration, stages: RawDocumentBuf) -> RawDocumentBuf {
    let mut stats = rawdoc! { "executionSuccess": true };
    for (name, count) in [
        (cstr!("nReturned"), counters.returned),
        (cstr!("executionTimeMillis"), u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        (cstr!("totalKeysExamined"), counters.keys_examined),
        (cstr!("totalDocsExamined"), counters.docs_examined),
    ] {
        stats.append(name, number(count));
    }
    stats.append(cstr!("executionStages"), stages);
    stats
}

/// A number as MongoDB sends it: an int32 if it fits.
pub(super) fn number(count: u64) -> bson::RawBson {
    match i32::try_from(count) {
        Ok(count) => bson::RawBson::Int32(count),
        Err(_) => bson::RawBson::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}

fn estimated(mut stages: RawDocumentBuf, estimate: Option<&Alternative>) -> RawDocumentBuf {
    if let Some(Alternative { keys, rows, cost, .. }) = estimate {
        let estimate =
            rawdoc! { "keys": keys.round(), "rows": rows.round(), "cost": (cost * 10.0).round() / 10.0 };
        stages.append(cstr!("estimate"), estimate);
    }
    stages
}

/// A stage with its input stage.
fn over(mut stage: RawDocumentBuf, input: RawDocumentBuf) -> RawDocumentBuf {
    stage.append(cstr!("inputStage"), input);
    stage
}

/// The stages of the plan: see the module header.
pub fn stages(source: &dyn Source, query: &Query, plan: &Plan, wanted: Wanted) -> RawDocumentBuf {
    let counting = wanted == Wanted::Count;
    let filter = query.filter.source();
    let is_known = || matches!(source.known_rows(), Ok(Some(_)));
    let mut found = match &plan.path {
        Path::Empty => return rawdoc! { "stage": "EOF" },
        Path::CollectionScan if counting && query.filter.is_all() && query.hint.is_none() && is_known() => {
            return rawdoc! { "stage": "RECORD_STORE_FAST_COUNT" };
        }
        Path::CollectionScan => {
            let mut scan = rawdoc! { "stage": "COLLSCAN" };
            if !query.filter.is_all() {
                scan.append(cstr!("filter"), filter.to_owned());
            }
            scan.append(cstr!("direction"), if plan.backward { "backward" } else { "forward" });
            scan
        }
        Path::Index { index, ranges, direction, keys, .. } => {
            let Some(info) = source.indexes().get(*index).and_then(OrderedIndex::of) else {
                return rawdoc! { "stage": "EOF" };
            };
            let complete = keys_suffice(plan, source);
            let name = index_stage(plan, source, counting);
            if name == IDHACK {
                rawdoc! { "stage": name }
            } else {
                let scan = index_scan(name, &info, query, ranges, *direction, keys.test.is_some());
                if counting && complete || plan.covered().is_some() {
                    scan
                } else {
                    let mut fetch = rawdoc! { "stage": "FETCH" };
                    if !complete {
                        fetch.append(cstr!("filter"), filter.to_owned());
                    }
                    over(fetch, scan)
                }
            }
        }
        Path::Near(search) => near_scan(source, query, search),
        Path::Bitmap(set) if counting && plan.counts_by_keys(source) => sets(source, query, set),
        Path::Bitmap(set) => {
            over(rawdoc! { "stage": "FETCH", "filter": filter.to_owned() }, sets(source, query, set))
        }
    };
    if plan.sort_in_memory
        && let Some(sort) = &query.sort
    {
        let mut stage = rawdoc! { "stage": "SORT", "sortPattern": pattern_of(&sort.keys) };
        if query.limit > 0 {
            stage.append(cstr!("limitAmount"), number(query.skip.saturating_add(query.limit)));
        }
        found = over(stage, found);
    }
    match wanted {
        Wanted::Documents => {}
        Wanted::Count => return over(rawdoc! { "stage": "COUNT" }, found),
        Wanted::Update => return over(rawdoc! { "stage": "UPDATE" }, found),
        Wanted::Delete => return over(rawdoc! { "stage": "DELETE" }, found),
    }
    if query.projection.is_some() {
        let stage = if plan.covered().is_some() { "PROJECTION_COVERED" } else { "PROJECTION_DEFAULT" };
        found = over(rawdoc! { "stage": stage }, found);
    }
    if query.skip > 0 {
        found = over(rawdoc! { "stage": "SKIP", "skipAmount": number(query.skip) }, found);
    }
    if query.limit > 0 && !plan.sort_in_memory {
        found = over(rawdoc! { "stage": "LIMIT", "limitAmount": number(query.limit) }, found);
    }
    found
}

/// The names of a plan's stages on one line, the last stage first: `SORT <- FETCH <- IXSCAN { year: 1 }`. A stage with
/// several inputs has them in parentheses.
pub fn one_line(stages: &RawDocument) -> String {
    let mut line = String::new();
    write_stages(Doc::from(stages), &mut line);
    line
}

fn write_stages(stage: Doc<'_>, line: &mut String) {
    if let Some(Value::String(name)) = stage.get("stage") {
        line.push_str(&String::from_utf8_lossy(name));
    }
    if let Some(Value::Document(keys)) = stage.get("keyPattern") {
        let keys = keys.elements().map(|key| format!("{}: {}", key.name_str(), shown(key.value())));
        line.push_str(&format!(" {{ {} }}", keys.collect::<Vec<_>>().join(", ")));
    }
    if let Some(Value::String(name)) = stage.get("direction")
        && name == b"backward"
    {
        line.push_str(" backward");
    }
    if let Some(Value::Document(input)) = stage.get("inputStage") {
        line.push_str(" <- ");
        write_stages(input, line);
    }
    if let Some(Value::Array(inputs)) = stage.get("inputStages") {
        line.push_str(" (");
        for (number, input) in inputs.elements().enumerate() {
            if number > 0 {
                line.push_str(", ");
            }
            if let Value::Document(input) = input.value() {
                write_stages(input, line);
            }
        }
        line.push(')');
    }
}

/// The search by distance, with the conditions on the documents that it finds.
fn near_scan(source: &dyn Source, query: &Query, search: &NearSearch) -> RawDocumentBuf {
    let mut scan = rawdoc! { "stage": near_stage(search) };
    if let Some(info) = source.indexes().get(search.index) {
        scan.append(cstr!("keyPattern"), info.def.key_pattern());
    }
    scan.append(cstr!("indexName"), search.name.as_str());
    scan.append(cstr!("indexVersion"), 2);
    scan.append(cstr!("filter"), query.filter.source().to_owned());
    scan
}

fn index_scan(
    stage: &str,
    info: &OrderedIndex<'_>,
    query: &Query,
    ranges: &[KeyRange],
    direction: Direction,
    tested: bool,
) -> RawDocumentBuf {
    let mut scan = rawdoc! {
        "stage": stage,
        "keyPattern": info.def.key_pattern(),
        "indexName": info.def.name.as_str(),
        "isMultiKey": info.multikey,
        "isUnique": info.def.unique,
        "isSparse": info.def.options.sparse,
        "isPartial": info.def.options.partial.is_some(),
        "indexVersion": 2,
        "direction": if direction == Direction::Forward { "forward" } else { "backward" },
        "indexBounds": index_bounds(info, query, direction),
        "ranges": i32::try_from(ranges.len()).unwrap_or(i32::MAX),
    };
    if tested {
        // Part of the filter is tested on the keys.
        scan.append(cstr!("keysTested"), true);
    }
    scan
}

/// The intervals of values that are scanned, for each field.
fn index_bounds(info: &OrderedIndex<'_>, query: &Query, direction: Direction) -> RawDocumentBuf {
    let conditions = query.filter.conjuncts();
    let mut bounds = RawDocumentBuf::new();
    for (part, mut intervals) in info.def.keys.iter().zip(bounds_of(info, &conditions)) {
        // In the order in which they are scanned.
        if (part.direction == SortOrder::Descending) != (direction == Direction::Backward) {
            intervals.reverse();
        }
        let mut list = RawArrayBuf::new();
        intervals.iter().for_each(|interval| list.push(interval.as_str()));
        if let Ok(name) = bson::raw::CString::try_from(part.path.as_str()) {
            bounds.append(name, list);
        }
    }
    bounds
}

fn sets(source: &dyn Source, query: &Query, set: &BitmapScan) -> RawDocumentBuf {
    let several = |stage: &str, sets: &[BitmapScan]| {
        let mut inputs = RawArrayBuf::new();
        sets.iter().for_each(|set| inputs.push(self::sets(source, query, set)));
        rawdoc! { "stage": stage, "inputStages": inputs }
    };
    match set {
        BitmapScan::Index { index, ranges, keys, .. } => {
            match source.indexes().get(*index).and_then(OrderedIndex::of) {
                Some(info) => {
                    index_scan("IXSCAN", &info, query, ranges, Direction::Forward, keys.test.is_some())
                }
                None => rawdoc! { "stage": "EOF" },
            }
        }
        BitmapScan::Or(sets) => several("OR", sets),
        BitmapScan::And(sets) => several("AND_SORTED", sets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_last_stage_first_and_several_inputs_in_parentheses() {
        let scan = |field: &str, direction: &str| {
            let mut pattern = RawDocumentBuf::new();
            pattern.append(bson::raw::CString::try_from(field).unwrap(), 1);
            rawdoc! { "stage": "IXSCAN", "keyPattern": pattern, "direction": direction }
        };
        let one =
            over(rawdoc! { "stage": "SORT" }, over(rawdoc! { "stage": "FETCH" }, scan("a", "backward")));
        assert_eq!(one_line(&one), "SORT <- FETCH <- IXSCAN { a: 1 } backward");
        let mut inputs = RawArrayBuf::new();
        inputs.push(scan("a", "forward"));
        inputs.push(scan("b", "forward"));
        let several = over(rawdoc! { "stage": "FETCH" }, rawdoc! { "stage": "OR", "inputStages": inputs });
        assert_eq!(one_line(&several), "FETCH <- OR (IXSCAN { a: 1 }, IXSCAN { b: 1 })");
    }
}
