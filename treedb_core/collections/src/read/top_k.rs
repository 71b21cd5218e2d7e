//! The first documents of an order, for a pipeline. Where all rows have to be looked at, several threads do, each of which
//! keeps the first of its own.

use std::sync::{Arc, Mutex};

use bson::RawDocumentBuf;

use treedb_query::access::Flow;
use treedb_query::aggregate::{Clock, Context, spread};
use treedb_query::error::Result;
use treedb_query::query::{Counters, Execution, Path, Plan, Query, Top};
use treedb_storage::kv::{Beside, ReadTxn};

use crate::read::aggregate::Work;
use crate::read::parallel_scan::{Cuts, Span};
use crate::read::view::View;
use crate::transaction::CollectionSnapshot;

/// The documents that `query`, which has an order and a limit, finds; `None` if they take more than a stage may hold, or
/// there is a better way to them.
pub(crate) fn first(
    reads: &Arc<Mutex<ReadTxn>>,
    seen: &CollectionSnapshot,
    query: Query,
    context: &Context,
    work: &Arc<Work>,
) -> Result<Option<Vec<RawDocumentBuf>>> {
    let beside = Beside::new(reads);
    let source = seen.through(&beside);
    let clock = || Clock::new(context.until);
    let spans = match seen.unchanged() {
        Some(meta) if context.threads != Some(1) && Plan::choose(&source, &query)?.path == Path::Rows => {
            let view = View { reads: &beside, meta };
            Cuts::of(&view, context.threads, true)?.map(|cuts| cuts.spans(reads, meta, work))
        }
        _ => None,
    };
    let found = match spans {
        Some(spans) => {
            let room = context.memory / spans.len().max(1);
            let of = |mut span: Span| {
                let Some(mut top) = Top::new(&query, room) else { return Ok(None) };
                let (mut clock, mut fits) = (clock(), true);
                span.walk(&mut |id, row| {
                    clock.tick()?;
                    fits = top.see(id, id.0, row)?;
                    Ok(if fits { Flow::Continue(()) } else { Flow::Break(()) })
                })?;
                Ok(fits.then_some(top))
            };
            let mut all: Option<Top<'_>> = None;
            for top in spread(spans, of) {
                let Some(top) = top? else { return Ok(None) };
                match &mut all {
                    Some(all) => all.merge(top),
                    None => all = Some(top),
                }
            }
            all.map_or(Ok(None), |all| all.documents(&source, context.memory))?
        }
        None => {
            let mut execution = Execution::new(&source, query)?.with_sort_memory(context.memory);
            let clock = clock();
            let found = execution.first(&source, &mut || clock.look())?;
            work.add(execution.counters(), &mut Counters::default());
            found
        }
    };
    Ok(found.map(|found| found.into_iter().map(|(_, document)| document).collect()))
}
