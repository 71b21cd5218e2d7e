//! Pipelines that begin with a scan of the collection and a `$group`, by several processes: each groups the rows that fall to it,
//! and this one puts the groups together ([`DividedPipeline`]).
//!
//! That is done only where the answer does not depend on the order of the documents, where the plan is a scan of the table,
//! and where the table is so large that the server's planner would give workers to a scan of it. Everything else, and what
//! does not fit in the memory of one process, is done by this process alone.
//!
//! The job of a worker: `$$NOW` (i64), the number of the column of documents (i16), the stages as they were written.

use treedb_query::aggregate::{BoxedStream, Context, DividedPipeline, Pipeline, PipelinePart, VecStream};
use treedb_query::doc::Doc;
use treedb_query::query::expr::{Globals, Names};
use treedb_query::query::{Path, Plan, Query, Result};

use super::aggregate;
use super::reader::Reader;
use super::spill::spilling;
use super::table::Table;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::scan_team::{self, Outcome, Part, SharedScan, Team, scan_worker};
use crate::shim::server;
use crate::shim::snapshot::Registered;
use crate::types::{bson, value};

/// Operators that working on a document costs as much as.
const OPERATORS: f64 = 10.0;

/// Counts the documents that match a filter by several processes: the plan, their number and how many workers have helped;
/// `None` if this process should do that alone. `query` is that of `filter` and `options`, and `reader` has the indexes that it
/// may use.
pub(super) fn count(
    reader: &Reader,
    query: &Query,
    filter: &[u8],
    options: &[u8],
) -> Option<(Plan, u64, usize)> {
    if workers_to_count(reader, options) == 0 {
        return None;
    }
    let plan = scan(reader, query)?;
    let stages = counting_stages(filter)?;
    let context = aggregate::context();
    let pipeline = accept(Pipeline::parse(value::decode(&stages), &Names::default()));
    let divided = accept(pipeline.divided(&context))?;
    let (mut groups, workers) = run(&reader.table, &divided, &stages, &context)?;
    let counted = accept(groups.next());
    let n = counted.as_ref().and_then(|group| Doc::from(&**group).get("n"));
    // Without documents there is no group.
    let number = n.and_then(|n| n.as_integer()).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    Some((plan, number, workers))
}

/// How many workers [`count`] would ask for, if documents are counted by `plan`.
pub(super) fn planned_to_count(reader: &Reader, plan: &Plan, options: &[u8]) -> usize {
    if plan.path == Path::CollectionScan { workers_to_count(reader, options) } else { 0 }
}

/// How many workers a scan that counts documents should have.
fn workers_to_count(reader: &Reader, options: &[u8]) -> usize {
    if Doc::from(bson::document(options)).is_empty() { planned_workers(&reader.table) } else { 0 }
}

/// The pipeline that counts the documents that match a filter.
fn counting_stages(filter: &[u8]) -> Option<Vec<u8>> {
    let pipeline = ::bson::rawdoc! { "": [
        { "$match": bson::document(filter).to_owned() }, { "$group": { "_id": null, "n": { "$sum": 1_i64 } } },
    ] };
    Doc::from(&*pipeline).elements().next().map(|stages| value::stored(&stages))
}

/// The documents of a pipeline whose front several processes run, and how many workers that has had; `None` if this process
/// should do everything alone.
/// `table` is what the pipeline begins with, `stages` the pipeline as it was written.
pub(super) fn open(
    table: &Table,
    pipeline: &Pipeline,
    stages: &[u8],
    context: &Context,
) -> Option<(BoxedStream, usize)> {
    if planned_workers(table) == 0 {
        return None;
    }
    let divided = accept(pipeline.divided(context))?;
    let reader = Reader::for_query(table.clone(), Registered::active(), divided.query());
    scan(&reader, divided.query())?;
    run(table, &divided, stages, context)
}

/// How many workers [`open`] would ask for.
pub(super) fn planned(table: Table, pipeline: &Pipeline, context: &Context) -> Option<usize> {
    let workers = planned_workers(&table);
    let divided = pipeline.divided(context).ok().flatten().filter(|_| workers > 0)?;
    let reader = Reader::for_query(table, Registered::active(), divided.query());
    scan(&reader, divided.query()).map(|_| workers)
}

/// How many workers a scan of a table should have.
fn planned_workers(table: &Table) -> usize {
    let costs = server::costs();
    let each = costs.tuple + OPERATORS * costs.operator;
    scan_team::planned_workers(table.relation.get(), table.estimated_rows() as f64, each)
}

/// The plan of a query whose documents are found by a scan of the table; `None` if they are not.
fn scan(reader: &Reader, query: &Query) -> Option<Plan> {
    Plan::choose(reader, &spilling(), query).ok().filter(|plan| plan.path == Path::CollectionScan)
}

/// Runs the front of a pipeline with the workers that there are; `None` if there are none, or if that does not fit in
/// memory.
fn run(
    table: &Table,
    divided: &DividedPipeline<'_>,
    stages: &[u8],
    context: &Context,
) -> Option<(BoxedStream, usize)> {
    let job = [&context.globals.now.to_le_bytes(), &table.doc.to_le_bytes()[..], stages].concat();
    let workers = planned_workers(table);
    let snapshot = Registered::active();
    let mut team = Team::launch(&table.relation, snapshot.get(), workers, c"treedb_pipeline_part", &job)?;
    let documents = if scan_team::leader_takes_part() {
        accept(part_of(table.clone(), team.scan(), divided.query()))
    } else {
        Box::new(VecStream::new(Vec::new()))
    };
    let launched = team.launched();
    let groups = accept(divided.part(documents, context)).and_then(|part| received(&mut team, part));
    team.end();
    groups.map(|groups| (accept(divided.finish(groups, context)), launched))
}

/// `part`, with what the workers have made; `None` if that does not fit in memory.
fn received(team: &mut Team, mut part: PipelinePart) -> Option<PipelinePart> {
    let mut fits = Ok(true);
    let complete = team.receive(&mut |message| {
        fits = part.receive(message);
        matches!(fits, Ok(true))
    });
    (accept(fits) && complete).then_some(part)
}

/// The documents of this process's part of a scan.
fn part_of(table: Table, scan: SharedScan, query: &Query) -> Result<BoxedStream> {
    aggregate::documents(Reader::of_part(table, Registered::active(), scan), query.clone())
}

scan_worker!(treedb_pipeline_part, make_part);

/// What a worker does.
fn make_part(part: &Part) -> Outcome {
    let Some((now, doc, stages)) = read_job(part.job()) else {
        fail(
            SqlState::ERRCODE_INTERNAL_ERROR,
            "the job of a worker cannot be read",
            "Report this as a bug of treedb.",
        )
    };
    let globals = std::sync::Arc::new(Globals { now, ..Globals::now() });
    let context = Context { globals, ..aggregate::context() };
    let pipeline = accept(Pipeline::parse(value::decode(stages), &Names::default()));
    let Some(divided) = accept(pipeline.divided(&context)) else { return Outcome::TooLarge };
    let table = Table { relation: part.table().clone(), doc };
    let documents = accept(part_of(table, part.scan(), divided.query()));
    let Some(made) = accept(divided.part(documents, &context)) else { return Outcome::TooLarge };
    let mut wanted = true;
    accept(made.send(&mut |message| {
        wanted = wanted && part.send(message);
        Ok(())
    }));
    Outcome::Complete
}

/// `$$NOW`, the column of documents and the stages of a job.
fn read_job(job: &[u8]) -> Option<(i64, i16, &[u8])> {
    let (now, rest) = job.split_first_chunk::<8>()?;
    let (doc, stages) = rest.split_first_chunk::<2>()?;
    Some((i64::from_le_bytes(*now), i16::from_le_bytes(*doc), stages))
}
