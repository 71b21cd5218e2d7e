//! `treedb.aggregate`: pipelines over tables. [`Tables`] gives the engine's stages access to the session's collections.
//!
//! Stages name collections as `database.collection`. A name without a database gets [`HERE`] for one, and is resolved
//! along the search path, as in SQL. Any other database is a schema.

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::bson::{RawDocumentBuf, rawdoc};
use treedb_query::access::{Flow, IndexInfo, QueryContext, Source, TempFile};
use treedb_query::aggregate::{
    BoxedStream, Collections, Context, DEFAULT_MEMORY_LIMIT, DocumentStream, Pipeline, Target, VecStream,
    Visitor, WriteBody,
};
use treedb_query::doc::{Doc, Path as FieldPath, Value};
use treedb_query::geo::Grid;
use treedb_query::query::expr::{Globals, Names, Variables};
use treedb_query::query::{Execution, Hint, NearestQuery, Neighbor, Path, Plan, Query, Result, SearchWork};
use treedb_query::{ErrorCode, QueryError};

use super::options::Options;
use super::parallel_pipeline;
use super::reader::Reader;
use super::shown_plan::ShownPlan;
use super::spill;
use super::table::{Need, Table};
use super::vector_search;
use crate::shim::catalog::RelationName;
use crate::shim::datum::Bytes;
use crate::shim::error::accept;
use crate::shim::function::pg_function;
use crate::shim::rows::{Rows, Set};
use crate::shim::setting::Number;
use crate::shim::streamed::{ARGUMENTS, Argument};
use crate::shim::text;
use crate::shim::thread::ServerThread;
use crate::types::{bson, value};

/// The database of names without one: what no schema is called.
const HERE: &str = "$search_path";
/// Most documents fetched at a time.
const MOST: usize = 128;
/// How many more documents are fetched each time: a pipeline that ends early has not read many in vain.
const GROWTH: usize = 8;

pg_function! {
    /// `treedb.aggregate(collection, pipeline, options)`: the documents that the pipeline gives.
    fn treedb_aggregate(args: [Varlena, Varlena, Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let (mut documents, _) = open(&args.bytes(0), &args.bytes(1), &args.bytes(2));
        while let Some(document) = accept(documents.next()) {
            pgrx::check_for_interrupts!();
            rows.put(document.as_bytes());
        }
        rows.finish()
    }
}

/// The documents of a call (name, stages, options), and how many workers have helped.
pub(super) fn open(name: &Bytes<'_>, stages: &[u8], options: &[u8]) -> (BoxedStream, usize) {
    let given = accept(Options::read(bson::document(options), OPTIONS));
    let Run { pipeline, hint, context } = accept(Run::of(value::decode(stages), given));
    if !pipeline.has_source() {
        // An SQL error if there is none, or if the caller may not read it.
        let table = Table::open(name, Need::Select);
        if has_none(options)
            && let Some(opened) = parallel_pipeline::open(&table, &pipeline, stages, &context)
        {
            return opened;
        }
    }
    (accept(pipeline.open_with_hint(&namespace(name), hint, &context)), 0)
}

/// The options of a pipeline.
const OPTIONS: &[&str] = &["hint", "collation", "let", "maxTimeMS", "allowDiskUse"];

/// A pipeline as its options want it to be run.
pub(super) struct Run {
    pub(super) pipeline: Pipeline,
    pub(super) hint: Option<Hint>,
    pub(super) context: Context,
}

impl Run {
    /// That of an array of stages, which may not write.
    pub(super) fn of(stages: Value<'_>, options: Options) -> Result<Run> {
        let collation = options.collation.unwrap_or_default();
        let variables = Variables::of(options.variables.as_deref(), &collation)?;
        let pipeline = Pipeline::parse(stages, &variables.names(&collation))?;
        if pipeline.writes() {
            return Err(writes());
        }
        let context = Context {
            globals: Arc::new(variables.globals()),
            allow_disk_use: options.allow_disk_use,
            deadline: options.max_time.and_then(|time| Instant::now().checked_add(time)),
            ..context()
        };
        Ok(Run { pipeline, hint: options.hint, context })
    }
}

/// Whether there are no options: workers know of none.
fn has_none(options: &[u8]) -> bool {
    Doc::from(bson::document(options)).is_empty()
}

/// What a stage may hold.
pub(crate) static STAGE_MEM: Number = Number::memory(
    c"treedb.stage_mem",
    c"Memory that each stage of a pipeline may hold; beyond it sorts and groups use temporary files, and other stages fail.",
    (DEFAULT_MEMORY_LIMIT / 1024) as i32,
);

/// What the stages of a pipeline get from the session.
pub(super) fn context() -> Context {
    Context {
        collections: Arc::new(Tables::default()),
        database: HERE.to_owned(),
        globals: Arc::new(Globals::now()),
        memory_limit: STAGE_MEM.get() * 1024,
        allow_disk_use: true,
        deadline: None,
        // What the server gives us it gives to this thread.
        threads: Some(1),
    }
}

/// The documents that a query finds.
pub(super) fn documents(reader: Reader, query: Query) -> Result<BoxedStream> {
    let execution = Execution::new(&reader, &spill::spilling(), query)?;
    let found = Found { reader, execution, ready: VecDeque::new(), batch: 1, more: true };
    Ok(Box::new(FoundHere(ServerThread::new(found))))
}

/// How many workers a call is likely to have; it raises no error.
pub(super) fn planned_workers(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<usize> {
    let [name, stages, options] = arguments.each_ref().map(Argument::constant);
    let pipeline = Pipeline::parse(value::decode(&stages?.bytes()), &Names::default()).ok()?;
    let plain = has_none(&options?.bytes()) && !pipeline.has_source();
    let table = plain.then(|| Table::open_quietly(&name?.bytes()))??;
    parallel_pipeline::planned(table, &pipeline, &context())
}

/// The search that a call begins with, if its arguments are constants and the caller may know; it raises no error. The stages may come to
/// another plan when they are executed, as any prepared statement may.
pub(super) fn planned_search(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<ShownPlan> {
    let [name, stages, options] = arguments.each_ref().map(Argument::constant);
    let (name, stages, options) = (name?.bytes(), stages?.bytes(), options?.bytes());
    let given = Options::read(bson::document(&options), OPTIONS).ok()?;
    let Run { pipeline, hint, context } = Run::of(value::decode(&stages), given).ok()?;
    let (query, _) = pipeline.explain(&namespace(&name), hint, &context).ok()?;
    let (query, table) = (query?, Table::open_quietly(&name)?);
    let reader = Reader::for_estimate(table);
    let plan = Plan::choose(&reader, &spill::spilling(), &query).ok()?;
    Some(ShownPlan::of(&reader, &query, &plan))
}

/// The name of a collection as stages name it.
pub(super) fn namespace(name: &[u8]) -> String {
    format!("{HERE}.{}", text::to_utf8(name))
}

fn writes() -> QueryError {
    QueryError::new(
        ErrorCode::NotImplemented,
        "$out and $merge cannot be used in treedb.aggregate(): use INSERT INTO .. SELECT treedb.aggregate(..)",
    )
}

/// What the first search for vectors of a pipeline has done, once it has been made.
pub(super) type Searched = Arc<OnceLock<SearchWork>>;

/// The same context, and what tells of the first search for vectors that is made in it.
pub(super) fn observed(context: Context) -> (Context, Searched) {
    let searched = Searched::default();
    let collections = Arc::new(Tables { searched: searched.clone() });
    (Context { collections, ..context }, searched)
}

/// The collections of the session's database, as the active snapshot shows them.
#[derive(Default)]
struct Tables {
    searched: Searched,
}

impl Tables {
    /// The table of a name; `None` if there is none.
    fn table(namespace: &str) -> Result<Option<Table>> {
        let local = namespace.strip_prefix(HERE).and_then(|rest| rest.strip_prefix('.'));
        let name = match local {
            Some(name) => name.to_owned(),
            // Two names, each as it is.
            None => {
                let (schema, table) = namespace.split_once('.').unwrap_or(("", namespace));
                format!("\"{}\".\"{}\"", schema.replace('"', "\"\""), table.replace('"', "\"\""))
            }
        };
        let name = CString::new(name)
            .map_err(|_| QueryError::new(ErrorCode::InvalidNamespace, "a name has no zero byte"))?;
        let name = RelationName::parse_string(&name);
        Ok(Table::open_if_exists(&name, Need::Select))
    }

    /// The collection of a name; `None` if there is none.
    fn reader(namespace: &str) -> Result<Option<Reader>> {
        Ok(Self::table(namespace)?.map(Reader::new))
    }

    fn plan(namespace: &str, query: &Query) -> Result<Option<Plan>> {
        Self::reader(namespace)?
            .map(|reader| Plan::choose(&reader, &QueryContext::default(), query))
            .transpose()
    }

    fn existing(namespace: &str) -> Result<Reader> {
        Self::reader(namespace)?.ok_or_else(|| {
            let name = namespace.strip_prefix(HERE).unwrap_or(namespace);
            QueryError::new(ErrorCode::NamespaceNotFound, format!("collection \"{name}\" does not exist"))
        })
    }
}

impl Collections for Tables {
    fn find(&self, namespace: &str, query: Query) -> Result<BoxedStream> {
        let Some(reader) = Self::reader(namespace)? else { return Ok(Box::new(VecStream::new(Vec::new()))) };
        documents(reader, query)
    }

    fn vector_search(&self, namespace: &str, search: &NearestQuery) -> Result<Vec<Neighbor>> {
        let Some(table) = Self::table(namespace)? else { return Ok(Vec::new()) };
        let answer = vector_search::search(table, search, None)?;
        // Those of other stages come later.
        let _ = self.searched.set(answer.work);
        Ok(answer.neighbors)
    }

    fn uses_index(&self, namespace: &str, query: &Query) -> Result<bool> {
        Ok(Self::plan(namespace, query)?.is_none_or(|plan| plan.path != Path::CollectionScan))
    }

    fn provides_order(&self, namespace: &str, query: &Query) -> Result<bool> {
        Ok(Self::plan(namespace, query)?.is_none_or(|plan| !plan.sort_in_memory))
    }

    fn write(&self, _: &str, _: Target<'_>, _: &mut WriteBody<'_>) -> Result<()> {
        Err(writes())
    }

    fn document_count(&self, namespace: &str) -> Result<u64> {
        Ok(Self::existing(namespace)?.estimated_rows())
    }

    fn storage_stats(&self, namespace: &str, _: f64) -> Result<RawDocumentBuf> {
        let reader = Self::existing(namespace)?;
        let count = i64::try_from(reader.estimated_rows()).unwrap_or(i64::MAX);
        let indexes = i32::try_from(reader.indexes().len()).unwrap_or(i32::MAX);
        Ok(rawdoc! { "count": count, "nindexes": indexes })
    }

    fn index_stats(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        let Some(reader) = Self::reader(namespace)? else { return Ok(Vec::new()) };
        let shown = reader.indexes().iter().map(|index| {
            rawdoc! { "name": index.def.name(), "key": index.def.key_pattern() }
        });
        Ok(shown.collect())
    }

    fn indexed_locations(&self, namespace: &str) -> Result<Option<Vec<(FieldPath, Grid)>>> {
        let locations = |reader: Reader| reader.indexes().iter().flat_map(IndexInfo::locations).collect();
        Ok(Self::reader(namespace)?.map(locations))
    }

    fn temp_file(&self) -> Result<Option<Box<dyn TempFile>>> {
        Ok(Some(spill::temp_file()))
    }
}

/// The answer of a find, batch by batch.
struct Found {
    reader: Reader,
    execution: Execution,
    ready: VecDeque<RawDocumentBuf>,
    /// How many documents are fetched next.
    batch: usize,
    more: bool,
}

/// [`Found`] as the engine wants it: a stream that could be sent to another thread. No stage begins one, as
/// `Context::threads` is 1.
struct FoundHere(ServerThread<Found>);

impl FoundHere {
    fn get(&mut self) -> Result<&mut Found> {
        let misplaced =
            || QueryError::new(ErrorCode::InternalError, "a table can only be read by the server's thread");
        self.0.get().ok_or_else(misplaced)
    }
}

impl DocumentStream for FoundHere {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.get()?.next()
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        self.get()?.for_each(visit)
    }
}

impl Found {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.ready.is_empty() && self.more {
            let Found { reader, execution, ready, batch, more } = self;
            let wanted = *batch;
            *batch = wanted.saturating_mul(GROWTH).min(MOST);
            // Nothing is returned after an error.
            *more = false;
            *more = execution.run(reader, &spill::spilling(), &mut |document| {
                ready.push_back(document);
                if ready.len() < wanted { Flow::Continue(()) } else { Flow::Break(()) }
            })?;
        }
        Ok(self.ready.pop_front())
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        while let Some(document) = self.ready.pop_front() {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        if self.more {
            self.more = false;
            self.execution.lend(&self.reader, &spill::spilling(), visit)?;
        }
        Ok(())
    }
}
