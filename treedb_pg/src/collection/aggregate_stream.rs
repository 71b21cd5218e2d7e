//! `treedb.aggregate` in FROM: the pipeline is pulled document by document.

use std::ffi::CStr;

use treedb_query::aggregate::BoxedStream;

use super::aggregate;
use super::estimate;
use super::find_stream::{show_document, show_expression, show_name};
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::scan_team::{Examined, SharedScan};
use crate::shim::snapshot::Registered;
use crate::shim::streamed::{ARGUMENTS, Argument, Batch, Call, Estimate, Explanation, StreamedFunction};
use crate::shim::text;
use crate::types::value;

/// A call of `treedb.aggregate` that is being executed.
pub(crate) struct AggregateStream {
    documents: BoxedStream,
    /// How many workers have helped.
    workers: usize,
}

impl StreamedFunction for AggregateStream {
    const FUNCTION: &'static CStr = c"aggregate";
    const NODE: &'static CStr = c"TreeDB Aggregate";
    const LABELS: [&'static CStr; ARGUMENTS] = [c"Collection", c"Pipeline", c"Options"];
    /// Stages open other collections while they run.
    const KEEPS_MEMORY: bool = true;

    fn estimate(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
        estimate::aggregate(arguments)
    }

    fn open_part(_: &Call<'_>, _: Registered, _: SharedScan) -> AggregateStream {
        fail(
            SqlState::ERRCODE_INTERNAL_ERROR,
            "a call of treedb.aggregate was divided by the server's plan",
            "Report this as a bug of treedb.",
        )
    }

    fn open(call: &Call<'_>, _: Registered) -> AggregateStream {
        let [name, stages, options] = &call.arguments;
        let (documents, workers) = aggregate::open(&name.bytes(), &stages.bytes(), &options.bytes());
        AggregateStream { documents, workers }
    }

    fn reopen(&mut self, _: &Call<'_>) -> bool {
        false
    }

    fn fill(&mut self, batch: &mut Batch) -> bool {
        pgrx::check_for_interrupts!();
        match accept(self.documents.next()) {
            Some(document) => {
                batch.put(document.as_bytes());
                true
            }
            None => false,
        }
    }

    fn explain(
        running: Option<&Self>,
        arguments: &[Argument<'_>; ARGUMENTS],
        _: Option<Examined>,
        shown: &mut Explanation<'_>,
    ) {
        let [name, stages, options] = arguments;
        show_name(name, shown, Self::LABELS[0]);
        match stages {
            Argument::Constant(stages) => {
                let bytes = stages.bytes();
                let stages = treedb_query::doc::shown(value::decode(&bytes));
                shown.text(Self::LABELS[1], &text::owned_cstring(&stages));
            }
            other => show_expression(other, shown, Self::LABELS[1]),
        }
        show_document(options, shown, Self::LABELS[2]);
        if let Some(plan) = aggregate::planned_search(arguments) {
            plan.show(shown);
        }
        if let Some(workers) = aggregate::planned_workers(arguments) {
            shown.number(c"Workers Planned", workers as u64);
            if shown.is_analyze() {
                let launched = running.map_or(0, |stream| stream.workers);
                shown.number(c"Workers Launched", launched as u64);
            }
        }
    }
}
