//! Aggregation over the collections of a database: the native [`World`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::access::{Flow, Source};
use treedb_query::aggregate::{Context, Docs, Equal, List, MEMORY, Pipeline, Scratch, Stream, Visit, World};
use treedb_query::doc::{Collation, Doc, Fields, OwnedValue, Path, Value, validate_with};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::IndexDef;
use treedb_query::query::explain::{self, Wanted};
use treedb_query::query::expr::{Arena, Expr, Globals, Names, Scope};
use treedb_query::query::{Counters, Execution, Plan, Query};
use treedb_storage::kv::{Beside, Durability, ReadTxn};

use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::read::batch::Batch;
use crate::read::by_key::Sought;
use crate::read::parallel_scan::Cuts;
use crate::read::top_k::first;
use crate::read::view::View;
use crate::transaction::{CollectionSnapshot, Overlay, collection_snapshot};

/// A pipeline to be run.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// The stages.
    pub pipeline: RawArrayBuf,
    /// Variables that its expressions may use as `$$name`: a document of expressions.
    pub variables: Option<RawDocumentBuf>,
    /// Name of the index to find the documents by; `None` lets the planner choose.
    pub hint: Option<String>,
    /// Whether `$sort` and `$group` may use scratch files in the database's directory beyond `memory`.
    pub allow_disk_use: bool,
    /// Bytes a stage may hold.
    pub memory: usize,
    /// When to give up, with `MaxTimeMSExpired`.
    pub until: Option<Instant>,
    /// Threads that read a collection together for a `$group`; `None` for as many as pay.
    pub threads: Option<usize>,
    /// How writes of `$out` and `$merge` are acknowledged; `None` as the database does.
    pub durability: Option<Durability>,
    /// How texts compare in all stages: `{ locale: "en", strength: 2 }`; `None` as the collection says.
    pub collation: Option<RawDocumentBuf>,
}

impl AggregateRequest {
    /// The pipeline of these stages.
    pub fn new(stages: impl IntoIterator<Item = RawDocumentBuf>) -> Self {
        let mut pipeline = RawArrayBuf::new();
        stages.into_iter().for_each(|stage| pipeline.push(stage));
        Self::of(pipeline)
    }

    /// The pipeline of an array of stages.
    pub fn of(pipeline: RawArrayBuf) -> Self {
        AggregateRequest {
            pipeline,
            variables: None,
            hint: None,
            allow_disk_use: true,
            memory: MEMORY,
            until: None,
            threads: None,
            durability: None,
            collation: None,
        }
    }
}

/// The documents a pipeline gives, from one snapshot of all collections it reads.
pub struct Aggregation {
    docs: Docs,
    done: bool,
    plan: Option<Plan>,
    work: Arc<Work>,
}

impl Aggregation {
    /// How the documents of the collection are found; `None` if there is none.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Entries and documents looked at so far, in other collections too.
    pub fn counters(&self) -> Counters {
        Counters {
            keys_examined: self.work.keys.load(Ordering::Relaxed),
            docs_examined: self.work.documents.load(Ordering::Relaxed),
            ..Counters::default()
        }
    }
}

impl std::fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aggregation").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Iterator for Aggregation {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.docs.next().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The collections of one snapshot, or as a transaction has them.
struct Native {
    db: Database,
    reads: Arc<Mutex<ReadTxn>>,
    /// What a transaction has changed; `None` outside of one.
    changed: Option<Overlays>,
    durability: Option<Durability>,
    work: Arc<Work>,
}

/// The collections that a transaction has changed.
pub(crate) type Overlays = BTreeMap<Namespace, Arc<Overlay>>;

fn locked(reads: &Mutex<ReadTxn>) -> MutexGuard<'_, ReadTxn> {
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Native {
    /// The collection, if there is one.
    fn seen(&self, namespace: &str) -> Result<Option<CollectionSnapshot>> {
        let (nothing, namespace) = (Overlays::new(), Namespace::parse(namespace)?);
        let changed = self.changed.as_ref().unwrap_or(&nothing);
        let seen = collection_snapshot(&self.db, &*locked(&self.reads), changed, &namespace)?;
        Ok((!seen.is_nothing()).then_some(seen))
    }

    fn plan(&self, namespace: &Namespace, query: Option<Query>) -> Result<Option<Plan>> {
        match (self.seen(namespace.as_str())?, query) {
            (Some(seen), Some(query)) => Plan::choose(&seen.through(&*locked(&self.reads)), &query).map(Some),
            _ => Ok(None),
        }
    }

    /// How a search is carried out, as `explain` shows it.
    fn query_planner(&self, namespace: &Namespace, query: &Query) -> Result<RawDocumentBuf> {
        let Some(seen) = self.seen(namespace.as_str())? else {
            return Ok(explain::planner_of_nothing(namespace.as_str(), query));
        };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        let plan = Plan::choose(&layer, query)?;
        Ok(explain::query_planner(&layer, namespace.as_str(), query, &plan, Wanted::Documents))
    }

    /// Refuses a stage that has no place in a transaction.
    fn outside(&self, stage: &str) -> Result<()> {
        match &self.changed {
            None => Ok(()),
            Some(_) => Err(refused_inside(stage)),
        }
    }
}

/// The error of a stage that has no place in a transaction.
fn refused_inside(stage: &str) -> QueryError {
    QueryError::new(
        ErrorCode::OperationNotSupportedInTransaction,
        format!("Stage not supported inside of a multi-document transaction: {stage}"),
    )
}

/// The answer of a find, batch by batch, in a snapshot that other streams read too.
struct Rows {
    reads: Arc<Mutex<ReadTxn>>,
    seen: CollectionSnapshot,
    execution: Execution,
    batch: Batch,
    work: Arc<Work>,
    /// What of the execution's work was told.
    told: Counters,
}

impl Stream for Rows {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.batch.needs_fetch() {
            let Rows { reads, seen, execution, batch, work, told } = self;
            let reads = locked(reads);
            batch.fetch(execution, &seen.through(&*reads))?;
            work.add(execution.counters(), told);
        }
        Ok(self.batch.ready.pop_front())
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        while let Some(document) = self.batch.ready.pop_front() {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        if self.batch.more {
            self.batch.more = false;
            // Others of the snapshot's readers go on meanwhile, those that `visit` asks among them.
            let reads = Beside::new(&self.reads);
            self.execution.lend(&self.seen.through(&reads), visit)?;
            self.work.add(self.execution.counters(), &mut self.told);
        }
        Ok(())
    }
}

/// Documents of a collection by a value, in a snapshot that streams read too.
struct ByValue {
    reads: Beside,
    meta: Arc<Meta>,
    index: usize,
    name: Box<str>,
    work: Arc<Work>,
}

impl Equal for ByValue {
    fn find(
        &mut self,
        value: Value<'_>,
        fields: Option<&Fields>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<bool> {
        let Some(sought) = Sought::new(self.name.as_bytes(), value) else { return Ok(false) };
        let entries = sought.each(self.index, &self.reads, &self.meta, fields, visit)?;
        let looked = entries.unwrap_or_default();
        let counters = Counters { keys_examined: looked, docs_examined: looked, ..Counters::default() };
        self.work.add(counters, &mut Counters::default());
        Ok(entries.is_some())
    }
}

impl World for Native {
    fn find(&self, namespace: &str, query: Query) -> Result<Docs> {
        let Some(seen) = self.seen(namespace)? else { return Ok(Box::new(List::new(Vec::new()))) };
        let execution = Execution::new(&seen.through(&*locked(&self.reads)), query)?;
        let (reads, work) = (Arc::clone(&self.reads), Arc::clone(&self.work));
        let told = Counters::default();
        Ok(Box::new(Rows { reads, seen, execution, batch: Batch::new(), work, told }))
    }

    fn parts(
        &self,
        namespace: &str,
        query: Query,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Vec<Docs>> {
        let whole = query.sort.is_none() && query.skip == 0 && query.limit == 0 && query.projection.is_none();
        let seen = if whole && threads != Some(1) { self.seen(namespace)? } else { None };
        // What only a transaction sees is read by its own thread.
        if let Some(meta) = seen.as_ref().and_then(CollectionSnapshot::unchanged) {
            let reads = locked(&self.reads);
            let view = View { reads: &*reads, meta };
            if Plan::choose(&view, &query)?.path == treedb_query::query::Path::Rows {
                let cuts = Cuts::of(&view, threads, in_order)?;
                drop(reads);
                if let Some(cuts) = cuts {
                    let query = Arc::new(query);
                    return Ok(cuts.parts(&self.reads, meta, &query, &self.work));
                }
            }
        }
        Ok(vec![self.find(namespace, query)?])
    }

    fn first(
        &self,
        namespace: &str,
        query: &Query,
        context: &Context,
    ) -> Result<Option<Vec<RawDocumentBuf>>> {
        match self.seen(namespace)? {
            Some(seen) => first(&self.reads, &seen, query.clone(), context, &self.work),
            None => Ok(Some(Vec::new())),
        }
    }

    fn count(&self, namespace: &str, query: Query) -> Result<u64> {
        let Some(seen) = self.seen(namespace)? else { return Ok(0) };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        if let (true, None, Some(rows)) = (query.filter.is_all(), &query.hint, layer.known_rows()?) {
            let found = rows.saturating_sub(query.skip);
            return Ok(if query.limit == 0 { found } else { found.min(query.limit) });
        }
        treedb_query::query::count(&layer, &query)
    }

    fn equal(&self, namespace: &str, path: &Path) -> Result<Option<Box<dyn Equal>>> {
        let seen = self.seen(namespace)?;
        // What a transaction has changed is searched for.
        let Some(meta) = seen.as_ref().and_then(CollectionSnapshot::unchanged).map(Arc::clone) else {
            return Ok(None);
        };
        let Some(index) = Sought::index_on(path.as_str().as_bytes(), &meta) else { return Ok(None) };
        let (name, reads, work) = (path.as_str().into(), Beside::new(&self.reads), Arc::clone(&self.work));
        Ok(Some(Box::new(ByValue { reads, meta, index, name, work })))
    }

    fn searches(&self, namespace: &str, query: &Query) -> Result<bool> {
        let Some(seen) = self.seen(namespace)? else { return Ok(true) };
        let plan = Plan::choose(&seen.through(&*locked(&self.reads)), query)?;
        Ok(plan.path != treedb_query::query::Path::Rows)
    }

    fn gives_order(&self, namespace: &str, query: &Query) -> Result<bool> {
        let Some(seen) = self.seen(namespace)? else { return Ok(true) };
        Ok(!Plan::choose(&seen.through(&*locked(&self.reads)), query)?.sort_in_memory)
    }

    fn change(&self, namespace: &str, work: &mut treedb_query::aggregate::Work<'_>) -> Result<()> {
        let namespace = Namespace::parse(namespace)?;
        self.db.edit(&namespace, true, self.durability, |edit| work(edit)).map(drop)
    }

    fn collection_stats(&self, namespace: &str) -> Result<RawDocumentBuf> {
        self.outside("$collStats")?;
        let Some(seen) = self.seen(namespace)? else {
            return Err(Database::namespace_not_found(&Namespace::parse(namespace)?));
        };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        let count = i64::try_from(layer.estimated_rows()).unwrap_or(i64::MAX);
        let indexes = seen.unchanged().map_or(0, |meta| meta.indexes.len());
        Ok(rawdoc! {
            "ns": namespace,
            "localTime": bson::DateTime::now(),
            "count": count,
            "storageStats": {
                "count": count, "nindexes": i32::try_from(indexes).unwrap_or(i32::MAX), "capped": false
            },
        })
    }

    fn index_stats(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        self.outside("$indexStats")?;
        let seen = self.seen(namespace)?;
        let Some(meta) = seen.as_ref().and_then(CollectionSnapshot::unchanged) else { return Ok(Vec::new()) };
        let shown = |def: &IndexDef, building: bool| {
            let mut stats =
                rawdoc! { "name": def.name.as_str(), "key": def.key_pattern(), "spec": def.spec() };
            if building {
                stats.append(bson::raw::cstr!("building"), true);
            }
            stats
        };
        Ok(meta.indexes.iter().map(|index| shown(&index.def, index.building.is_some())).collect())
    }

    fn scratch(&self) -> Result<Option<Box<dyn Scratch>>> {
        Ok(self.db.inner.store.scratch()?.map(|file| Box::new(file) as Box<dyn Scratch>))
    }
}

impl Database {
    /// Runs a pipeline over the collection `namespace` (`database.collection`). Documents are made as they are asked
    /// for; `$out` and `$merge` write when the first is.
    ///
    /// # Errors
    /// MongoDB's code for what is wrong with a stage, and a message that names it.
    pub fn aggregate(&self, namespace: &str, request: &AggregateRequest) -> Result<Aggregation> {
        let reads = Arc::new(Mutex::new(self.inner.store.begin_read()?));
        self.aggregate_in(reads, None, namespace, request)
    }

    /// [`Self::aggregate`], in this snapshot and with what a transaction has `changed`.
    pub(crate) fn aggregate_in(
        &self,
        reads: Arc<Mutex<ReadTxn>>,
        changed: Option<Overlays>,
        namespace: &str,
        request: &AggregateRequest,
    ) -> Result<Aggregation> {
        let inside = changed.is_some();
        let Prepared { namespace, pipeline, world, context } =
            self.prepare(reads, changed, namespace, request)?;
        if inside && pipeline.writes() {
            return Err(refused_inside("$out or $merge"));
        }
        let hint = request.hint.clone();
        let plan = world.plan(&namespace, pipeline.explain(namespace.as_str(), hint.clone(), &context)?.0)?;
        let docs = pipeline.open_with_hint(namespace.as_str(), hint, &context)?;
        Ok(Aggregation { docs, done: false, plan, work: Arc::clone(&world.work) })
    }

    /// How [`Self::aggregate`] would carry a pipeline out.
    ///
    /// # Errors
    /// As there.
    pub fn explain_aggregate(&self, namespace: &str, request: &AggregateRequest) -> Result<Explanation> {
        let reads = Arc::new(Mutex::new(self.inner.store.begin_read()?));
        let Prepared { namespace, pipeline, world, context } =
            self.prepare(reads, None, namespace, request)?;
        let (query, stages) = pipeline.explain(namespace.as_str(), request.hint.clone(), &context)?;
        let planner = query.map(|query| world.query_planner(&namespace, &query)).transpose()?;
        Ok(Explanation { planner, stages })
    }

    fn prepare(
        &self,
        reads: Arc<Mutex<ReadTxn>>,
        changed: Option<Overlays>,
        namespace: &str,
        request: &AggregateRequest,
    ) -> Result<Prepared> {
        let namespace = Namespace::parse(namespace)?;
        let work = Arc::default();
        let world =
            Arc::new(Native { db: self.clone(), reads, changed, durability: request.durability, work });
        let collation = match (request.collation.as_deref(), world.seen(namespace.as_str())?) {
            (Some(named), _) => Collation::parse(named)?,
            (None, Some(seen)) => seen.through(&*locked(&world.reads)).collation().clone(),
            (None, None) => Collation::Simple,
        };
        let (names, globals) = variables(request, collation)?;
        let stages = RawDocument::from_bytes(request.pipeline.as_bytes())?;
        validate_with(stages.as_bytes(), treedb_query::doc::MESSAGE)?;
        let pipeline = Pipeline::parse(Value::Array(Doc::from(stages)), &names)?;
        let context = Context {
            world: Arc::clone(&world) as Arc<dyn World>,
            database: namespace.database().to_owned(),
            globals: Arc::new(globals),
            memory: request.memory,
            spill: request.allow_disk_use,
            until: request.until,
            threads: request.threads,
        };
        Ok(Prepared { namespace, pipeline, world, context })
    }
}

/// A pipeline that was read, and the snapshot it is for.
struct Prepared {
    namespace: Namespace,
    pipeline: Pipeline,
    world: Arc<Native>,
    context: Context,
}

/// How a pipeline is carried out.
#[derive(Debug)]
pub struct Explanation {
    /// The `queryPlanner` of the search that it begins with; `None` if it begins with documents of its own.
    pub planner: Option<RawDocumentBuf>,
    /// The stages behind the search, in the order they are run in.
    pub stages: Vec<RawDocumentBuf>,
}

/// Entries and documents that searches looked at, those of look-ups too.
#[derive(Debug, Default)]
pub(crate) struct Work {
    keys: AtomicU64,
    documents: AtomicU64,
}

impl Work {
    /// Adds what was done since `told`.
    pub(crate) fn add(&self, now: Counters, told: &mut Counters) {
        self.keys.fetch_add(now.keys_examined - told.keys_examined, Ordering::Relaxed);
        self.documents.fetch_add(now.docs_examined - told.docs_examined, Ordering::Relaxed);
        *told = now;
    }
}

impl crate::Collection {
    /// Runs a pipeline over the collection: see [`Database::aggregate`].
    ///
    /// # Errors
    /// As there.
    pub fn aggregate(&self, request: &AggregateRequest) -> Result<Aggregation> {
        self.database().aggregate(self.namespace().as_str(), request)
    }
}

/// The command's variables, evaluated once; texts compare as `collation` says, in what they are used for too.
fn variables(request: &AggregateRequest, collation: Collation) -> Result<(Names, Globals)> {
    let (plain, mut globals) = (Names::default().collated(collation), Globals::now());
    let Some(given) = &request.variables else { return Ok((plain, globals)) };
    let mut names = Vec::new();
    validate_with(given.as_bytes(), treedb_query::doc::MESSAGE)?;
    let (arena, empty) = (Arena::new(), globals.clone());
    for variable in Doc::from(given).elements() {
        let name = variable.name_str();
        if name.starts_with('$') || name.is_empty() || name.contains('.') {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!("let: '{name}' cannot name a variable"),
            ));
        }
        let expr = Expr::parse_element(&variable, &plain)?;
        globals
            .values
            .push(expr.eval(&mut Scope::new(Doc::EMPTY, &empty, &arena))?.map(OwnedValue::from_value));
        names.push(name.to_owned());
    }
    Ok((plain.renamed(names), globals))
}
