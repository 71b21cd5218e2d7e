//! The first documents of an order, for a pipeline. If all rows have to be examined, several threads do it, each of which
//! keeps the first of its own rows.

use std::sync::{Arc, Mutex};

use bson::RawDocumentBuf;

use treedb_query::access::{Direction, Flow};
use treedb_query::aggregate::run_in_parallel;
use treedb_query::error::Result;
use treedb_query::query::{
    Counters, Deadline, Execution, Hint, Path, Plan, PlanSummary, Query, TopK, interrupt,
};
use treedb_storage::{ReadTxn, SharedReadTxn};

use crate::read::examined::{Examined, Limits};
use crate::read::parallel_scan::{ParallelScan, Partition};
use crate::read::view::View;
use crate::transaction::CollectionSnapshot;

/// The documents that `query` finds, which has a sort and a limit; `None` if they take more memory than the limit, or there
/// is a faster way to find them.
pub(crate) fn top_k(
    reads: &Arc<Mutex<ReadTxn>>,
    seen: &CollectionSnapshot,
    query: Query,
    limits: &Limits,
    examined: &Arc<Examined>,
) -> Result<Option<Vec<RawDocumentBuf>>> {
    let beside = SharedReadTxn::new(reads);
    let source = seen.through(&beside);
    let deadline = || Deadline::new(limits.deadline);
    let partitions = match seen.unchanged() {
        Some(meta)
            if limits.threads != Some(1)
                && !matches!(query.hint, Some(Hint::Natural(Direction::Backward)))
                && Plan::choose(&source, &source.context(), &query)?.path == Path::CollectionScan =>
        {
            let view = View { reads: &beside, meta };
            ParallelScan::new(&view, limits.threads, true)?.map(|scan| scan.partitions(reads, meta, examined))
        }
        _ => None,
    };
    let found = match partitions {
        Some(partitions) => {
            interrupt::note_plan(|| PlanSummary::COLLECTION_SCAN);
            let memory_limit = limits.memory / partitions.len().max(1);
            let top_of = |mut partition: Partition| {
                let Some(mut top) = TopK::new(&query, memory_limit) else { return Ok(None) };
                let (mut deadline, mut fits) = (deadline(), true);
                partition.for_each(&mut |id, row| {
                    deadline.tick()?;
                    fits = top.offer(id, id.0, row)?;
                    Ok(if fits { Flow::Continue(()) } else { Flow::Break(()) })
                })?;
                Ok(fits.then_some(top))
            };
            let mut all: Option<TopK<'_>> = None;
            for top in run_in_parallel(partitions, top_of) {
                let Some(top) = top? else { return Ok(None) };
                match &mut all {
                    Some(all) => all.merge(top),
                    None => all = Some(top),
                }
            }
            all.map_or(Ok(None), |all| all.documents(&source, limits.memory))?
        }
        None => {
            let mut execution =
                Execution::new(&source, &source.context(), query)?.with_sort_memory(limits.memory);
            let deadline = deadline();
            let found = execution.first(&source, &source.context(), &mut || deadline.check())?;
            examined.add(execution.counters(), &mut Counters::default());
            found
        }
    };
    Ok(found.map(|found| found.into_iter().map(|(_, document)| document).collect()))
}
