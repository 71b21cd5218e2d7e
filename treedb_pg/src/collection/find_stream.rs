//! `treedb.find` in FROM: documents are read as they are asked for.
//!
//! The engine's execution stops after any document and continues from there, which costs about one descent of an index.
//! So documents are read in batches: the first one is as large as the number of documents that the planner expects to
//! be asked for, or one; later ones grow.

use std::ffi::CStr;

use ::bson::RawDocument;
use treedb_query::access::Flow;
use treedb_query::doc::{Doc, json};
use treedb_query::query::{Counters, Execution, Path, Plan, Query};

use super::estimate;
use super::find::parse_find;
use super::point_scan::{PointFilter, PointScan};
use super::reader::Reader;
use super::shown_plan::ShownPlan;
use super::spill::{spilling, work_mem};
use super::table::{Need, Table};
use crate::shim::datum::Datum;
use crate::shim::error::accept;
use crate::shim::relation::OpenTable;
use crate::shim::scan_team::{Division, Examined, SharedScan};
use crate::shim::snapshot::Registered;
use crate::shim::streamed::{
    ARGUMENTS, Argument, Batch, Call, Divided, Estimate, Explanation, StreamedFunction,
};
use crate::shim::text;
use crate::types::bson;

/// Most documents of a batch.
const MOST: usize = 256;
/// Most bytes of a batch, if it has a document.
const MOST_BYTES: usize = 256 * 1024;
/// How much larger each batch is than the one before it.
const GROWTH: usize = 16;

/// A call of `treedb.find` that is being executed.
pub(crate) struct FindStream {
    /// The first argument.
    name: Vec<u8>,
    reader: Reader,
    search: Search,
    /// The scan that this is a part of.
    part: Option<SharedScan>,
    /// How many documents the next batch has.
    batch: usize,
    /// The work of earlier calls; of a part, what it has told the others.
    before: Counters,
}

/// How documents are found.
enum Search {
    /// By one key of an index.
    Point(PointScan),
    /// As the planner says.
    Plan(Box<Execution>),
}

/// A call of `find`, as it was read.
enum Request<'f> {
    /// The documents with a value in a field, and nothing beside.
    Point(PointFilter<'f>),
    Query(Box<Query>),
}

impl<'f> Request<'f> {
    /// Reads a filter and options.
    fn read(filter: &'f [u8], options: &[u8]) -> Request<'f> {
        let plain = Doc::from(bson::document(options)).is_empty();
        match plain.then(|| PointFilter::of(bson::document(filter))).flatten() {
            Some(point) => Request::Point(point),
            None => Request::Query(Box::new(accept(parse_find(filter, options)))),
        }
    }
}

impl Search {
    /// Begins a search of the collection that `reader` reads.
    fn begin(reader: &mut Reader, request: Request<'_>) -> Search {
        let query = match request {
            Request::Point(point) => match point.scan(reader) {
                Some(scan) => return Search::Point(scan),
                None => accept(point.query()),
            },
            Request::Query(query) => *query,
        };
        reader.open_for(&query);
        let execution = accept(Execution::new(reader, &spilling(), query)).with_sort_memory(work_mem());
        reader.read_for(execution.plan());
        Search::Plan(Box::new(execution))
    }

    /// How many documents the first batch has, if `wanted` are likely to be asked for.
    fn first_batch(&self, wanted: usize) -> usize {
        let (at_once, limit) = match self {
            Search::Point(scan) => (scan.at_most_one(), 0),
            Search::Plan(execution) => {
                let plan = execution.plan();
                (plan.unique || plan.sort_in_memory, execution.query().limit)
            }
        };
        // Nothing is read in vain where the plan leads to one row only, or where all that is found is wanted.
        if at_once || wanted == 0 {
            return MOST;
        }
        match usize::try_from(limit).unwrap_or(usize::MAX) {
            0 => wanted.min(MOST),
            limit => wanted.min(limit).min(MOST),
        }
    }

    /// Work done so far.
    fn counters(&self) -> Counters {
        match self {
            Search::Point(scan) => scan.counters(),
            Search::Plan(execution) => execution.counters(),
        }
    }

    /// Its plan.
    fn shown(&self, reader: &Reader) -> ShownPlan {
        match self {
            Search::Point(scan) => ShownPlan::of_point(reader, scan),
            Search::Plan(execution) => ShownPlan::of(reader, execution.query(), execution.plan()),
        }
    }
}

impl StreamedFunction for FindStream {
    const FUNCTION: &'static CStr = c"find";
    const NODE: &'static CStr = c"TreeDB Find";
    const LABELS: [&'static CStr; ARGUMENTS] = [c"Collection", c"Document Filter", c"Options"];
    const KEEPS_MEMORY: bool = false;

    fn estimate(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
        estimate::find(arguments)
    }

    fn open(call: &Call<'_>, snapshot: Registered) -> FindStream {
        let [name, filter, options] = call.arguments.map(Datum::bytes);
        let request = Request::read(&filter, &options);
        let table = Table::open(&name, Need::Select);
        let mut reader = Reader::without_indexes(table, snapshot);
        let search = Search::begin(&mut reader, request);
        let batch = search.first_batch(call.wanted);
        FindStream { name: name.to_vec(), reader, search, part: None, batch, before: Counters::default() }
    }

    fn divided(arguments: &[Argument<'_>; ARGUMENTS], estimate: &Estimate) -> Option<Divided> {
        estimate::divided_find(arguments, estimate)
    }

    fn shared(call: &Call<'_>) -> Option<(OpenTable, Division)> {
        let [name, filter, options] = call.arguments.map(Datum::bytes);
        let table = Table::open(&name, Need::Select);
        // Pages of a temporary table are in memory of this process.
        if table.relation.get().is_temporary() {
            return None;
        }
        let query = accept(parse_find(&filter, &options));
        let reader = Reader::for_query(table, Registered::active(), &query);
        let plan = accept(Plan::choose(&reader, &spilling(), &query));
        let division = match plan.path {
            Path::CollectionScan => Division::Scan,
            _ => Division::by_claims(&reader.table.relation),
        };
        Some((reader.table.relation.clone(), division))
    }

    /// The scan begins with the first batch, whose memory is kept, and goes on with the others. Where rows are shared by claims,
    /// each process plans for itself: it does not matter how it finds them.
    fn open_part(call: &Call<'_>, snapshot: Registered, part: SharedScan) -> FindStream {
        let [name, filter, options] = call.arguments.map(Datum::bytes);
        let table = Table::of_part(&part);
        let (reader, search) = match part.claims() {
            Some(claims) => {
                let mut reader = Reader::without_indexes(table, snapshot).claiming(claims);
                let search = Search::begin(&mut reader, Request::read(&filter, &options));
                (reader, search)
            }
            None => {
                let query = accept(parse_find(&filter, &options));
                let reader = Reader::of_part(table, snapshot, part.clone());
                let execution = accept(Execution::new(&reader, &spilling(), query));
                (reader, Search::Plan(Box::new(execution)))
            }
        };
        let batch = search.first_batch(call.wanted);
        FindStream {
            name: name.to_vec(),
            reader,
            search,
            part: Some(part),
            batch,
            before: Counters::default(),
        }
    }

    fn reopen(&mut self, call: &Call<'_>) -> bool {
        let before = self.counters();
        let [name, filter, options] = call.arguments.map(Datum::bytes);
        if *name != *self.name {
            return false;
        }
        self.search = Search::begin(&mut self.reader, Request::read(&filter, &options));
        self.batch = self.search.first_batch(call.wanted);
        self.before = before;
        true
    }

    fn fill(&mut self, batch: &mut Batch) -> bool {
        let most = self.batch;
        self.batch = most.saturating_mul(GROWTH).min(MOST);
        let mut take = |document: &RawDocument| {
            batch.put(document.as_bytes());
            let full = batch.rows() >= most || batch.bytes() >= MOST_BYTES;
            Ok(if full { Flow::Break(()) } else { Flow::Continue(()) })
        };
        let more = accept(match &mut self.search {
            Search::Point(scan) => scan.documents(&self.reader, &mut take),
            Search::Plan(execution) => execution.lend(&self.reader, &spilling(), &mut take),
        });
        if let Some(part) = &self.part {
            let now = self.search.counters();
            part.add_examined(Examined {
                keys: now.keys_examined - self.before.keys_examined,
                documents: now.docs_examined - self.before.docs_examined,
            });
            self.before = now;
        }
        more
    }

    fn explain(
        running: Option<&Self>,
        arguments: &[Argument<'_>; ARGUMENTS],
        examined: Option<Examined>,
        shown: &mut Explanation<'_>,
    ) {
        let [name, filter, options] = arguments;
        show_name(name, shown, Self::LABELS[0]);
        show_document(filter, shown, Self::LABELS[1]);
        show_document(options, shown, Self::LABELS[2]);
        let plan = match running {
            Some(stream) => Some(stream.search.shown(&stream.reader)),
            None => planned(arguments),
        };
        if let Some(plan) = plan {
            plan.show(shown);
        }
        if shown.is_analyze() {
            let counters = running.map(FindStream::counters).unwrap_or_default();
            let Counters { keys_examined: keys, docs_examined: documents, .. } = counters;
            let examined = examined.unwrap_or(Examined { keys, documents });
            shown.number(c"Keys Examined", examined.keys);
            shown.number(c"Documents Examined", examined.documents);
        }
    }
}

impl FindStream {
    /// The work of this call and the earlier ones.
    fn counters(&self) -> Counters {
        let (now, before) = (self.search.counters(), self.before);
        Counters {
            keys_examined: before.keys_examined + now.keys_examined,
            docs_examined: before.docs_examined + now.docs_examined,
            returned: before.returned + now.returned,
        }
    }
}

/// The plan of a call that has not been executed, if its arguments are constants and the caller may know.
fn planned(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<ShownPlan> {
    let (reader, query) = estimate::find_query(arguments)?;
    let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
    Some(ShownPlan::of(&reader, &query, &plan))
}

/// Shows the name of a collection: with VERBOSE that of its schema too, as the server does for tables.
pub(super) fn show_name(argument: &Argument<'_>, shown: &mut Explanation<'_>, label: &CStr) {
    match argument {
        Argument::Constant(name) => {
            let table = shown.is_verbose().then(|| Table::open_quietly(&name.bytes())).flatten();
            let name = || text::owned_cstring(&text::to_utf8(&name.bytes()));
            shown.text(label, &table.map_or_else(name, |table| table.relation.get().quoted()));
        }
        other => show_expression(other, shown, label),
    }
}

/// Shows a document, unless it is empty.
pub(super) fn show_document(argument: &Argument<'_>, shown: &mut Explanation<'_>, label: &CStr) {
    match argument {
        Argument::Constant(document) => {
            let bytes = document.bytes();
            let document = bson::document(&bytes);
            if Doc::from(document).elements().next().is_some() {
                let json = json::to_json(document);
                shown.text(label, &text::owned_cstring(&json));
            }
        }
        other => show_expression(other, shown, label),
    }
}

/// Shows an argument that is no constant.
pub(super) fn show_expression(argument: &Argument<'_>, shown: &mut Explanation<'_>, label: &CStr) {
    match argument {
        Argument::Null => shown.text(label, c"NULL"),
        Argument::Expression(Some(sql)) => shown.text(label, sql),
        Argument::Constant(_) | Argument::Expression(None) => {}
    }
}
