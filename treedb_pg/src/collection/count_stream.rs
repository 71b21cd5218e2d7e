//! `treedb.count` in FROM: how the documents are counted is shown, as the plan of `treedb.find` is.
//!
//! What is executed is what the function executes. In a SELECT list a call stays a function, whose cost alone is known. It could
//! be made a sub-select of this node while the planner simplifies it, but not where there is no FROM, as in most calls: PL/pgSQL
//! expects the plan of such an expression to be nothing but an expression, which it evaluates without the executor, and the planner
//! does not tell who asks. Nodes of a sub-select also cost each execution more than the call of a function. So the rule is that
//! of `find`: what stands in FROM is shown.

use std::ffi::CStr;

use treedb_query::query::{Counters, Plan, Query};

use super::estimate;
use super::find::{Counted, parse_count};
use super::find_stream::{show_document, show_name};
use super::parallel_pipeline;
use super::reader::Reader;
use super::shown_plan::ShownPlan;
use super::spill::spilling;
use super::table::{Need, Table};
use crate::shim::datum::Datum;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::scan_team::{Examined, SharedScan};
use crate::shim::snapshot::Registered;
use crate::shim::streamed::{
    ARGUMENTS, Argument, Batch, Call, Estimate, Explanation, Returned, StreamedFunction,
};

/// A call of `treedb.count` that is being executed.
pub(crate) struct CountStream {
    /// The arguments.
    name: Vec<u8>,
    filter: Vec<u8>,
    options: Vec<u8>,
    query: Query,
    reader: Reader,
    /// What was counted last.
    counted: Option<Counted>,
    /// The work of all calls.
    work: Counters,
}

impl CountStream {
    /// The plan, once documents have been counted by it.
    fn shown(&self) -> Option<ShownPlan> {
        let counted = self.counted.as_ref()?;
        Some(ShownPlan::of_count(&self.reader, &self.query, &counted.plan))
    }
}

impl StreamedFunction for CountStream {
    const FUNCTION: &'static CStr = c"count";
    const NODE: &'static CStr = c"TreeDB Count";
    const LABELS: [&'static CStr; ARGUMENTS] = [c"Collection", c"Document Filter", c"Options"];
    const RETURNED: Returned = Returned::Number;
    const KEEPS_MEMORY: bool = false;

    fn estimate(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
        estimate::count(arguments)
    }

    fn open_part(_: &Call<'_>, _: Registered, _: SharedScan) -> CountStream {
        fail(
            SqlState::ERRCODE_INTERNAL_ERROR,
            "a call of treedb.count was divided by the server's plan",
            "Report this as a bug of treedb.",
        )
    }

    fn open(call: &Call<'_>, snapshot: Registered) -> CountStream {
        let [name, filter, options] = call.arguments.map(|argument| argument.bytes().to_vec());
        let query = accept(parse_count(&filter, &options));
        let table = Table::open(&call.arguments[0].bytes(), Need::Select);
        let reader = Reader::for_query(table, snapshot, &query);
        CountStream { name, filter, options, query, reader, counted: None, work: Counters::default() }
    }

    fn reopen(&mut self, call: &Call<'_>) -> bool {
        let [name, filter, options] = call.arguments.map(Datum::bytes);
        if *name != *self.name {
            return false;
        }
        self.query = accept(parse_count(&filter, &options));
        (self.filter, self.options) = (filter.to_vec(), options.to_vec());
        self.reader.open_for(&self.query);
        true
    }

    fn fill(&mut self, batch: &mut Batch) -> bool {
        let counted = Counted::of(&mut self.reader, &self.query, &self.filter, &self.options);
        batch.put_number(counted.number());
        self.work.keys_examined += counted.counters.keys_examined;
        self.work.docs_examined += counted.counters.docs_examined;
        self.counted = Some(counted);
        false
    }

    fn explain(
        running: Option<&Self>,
        arguments: &[Argument<'_>; ARGUMENTS],
        _: Option<Examined>,
        shown: &mut Explanation<'_>,
    ) {
        let [name, filter, options] = arguments;
        show_name(name, shown, Self::LABELS[0]);
        show_document(filter, shown, Self::LABELS[1]);
        show_document(options, shown, Self::LABELS[2]);
        let planned = planned(arguments);
        let workers = planned.as_ref().map_or(0, |(_, workers)| *workers);
        let plan = running.and_then(CountStream::shown).or_else(|| planned.map(|(plan, _)| plan));
        if let Some(plan) = plan {
            plan.show(shown);
        }
        let counted = running.and_then(|stream| stream.counted.as_ref());
        let launched = counted.map_or(0, |counted| counted.workers);
        if workers > 0 {
            shown.number(c"Workers Planned", workers as u64);
        }
        if shown.is_analyze() {
            let work = running.map(|stream| stream.work).unwrap_or_default();
            if workers > 0 || launched > 0 {
                shown.number(c"Workers Launched", launched as u64);
            }
            // Workers do not tell how many documents they have looked at: all of them.
            if launched == 0 {
                shown.number(c"Keys Examined", work.keys_examined);
                shown.number(c"Documents Examined", work.docs_examined);
            }
        }
    }
}

/// The plan of a call that has not been executed, and its workers, if its arguments are constants and the caller may know.
fn planned(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<(ShownPlan, usize)> {
    let (reader, query) = estimate::count_query(arguments)?;
    let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
    let options = arguments[2].constant()?.bytes();
    let workers = parallel_pipeline::planned_to_count(&reader, &plan, &options);
    Some((ShownPlan::of_count(&reader, &query, &plan), workers))
}
