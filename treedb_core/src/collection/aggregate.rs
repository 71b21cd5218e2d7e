//! Aggregation over the collections of a database: the native [`World`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::aggregate::{Context, Docs, Equal, List, MEMORY, Pipeline, Scratch, Stream, Visit, World};
use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::{Collation, Doc, OwnedValue, Path, Value, validate_with};
use crate::index::ordered::IndexDef;
use crate::kv::{Durability, ReadTxn};
use crate::query::expr::{Arena, Expr, Globals, Names, Scope};
use crate::query::{Counters, Execution, Plan, Query};

use super::batch::Batch;
use super::by_key::Sought;
use super::database::Database;
use super::meta::Meta;
use super::namespace::Namespace;
use super::parts::Cuts;
use super::view::View;

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
    /// How texts compare in all stages: `{ locale: "en", strength: 2 }`; `None` by their bytes.
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

/// The collections of one snapshot.
struct Native {
    db: Database,
    reads: Arc<Mutex<ReadTxn>>,
    durability: Option<Durability>,
    work: Arc<Work>,
}

fn locked(reads: &Mutex<ReadTxn>) -> MutexGuard<'_, ReadTxn> {
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Native {
    fn meta(&self, namespace: &Namespace) -> Result<Option<Arc<Meta>>> {
        self.db.inner.catalog.find(&*locked(&self.reads), namespace)
    }

    fn plan(&self, namespace: &Namespace, query: Option<Query>) -> Result<Option<Plan>> {
        match (self.meta(namespace)?, query) {
            (Some(meta), Some(query)) => {
                Plan::choose(&View { reads: &*locked(&self.reads), meta: &meta }, &query).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The answer of a find, batch by batch, in a snapshot that other streams read too.
struct Rows {
    reads: Arc<Mutex<ReadTxn>>,
    meta: Arc<Meta>,
    execution: Execution,
    batch: Batch,
    work: Arc<Work>,
    /// What of the execution's work was told.
    told: Counters,
}

impl Stream for Rows {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.batch.is_wanting() {
            let Rows { reads, meta, execution, batch, work, told } = self;
            let reads = locked(reads);
            batch.fetch(execution, &View { reads: &*reads, meta })?;
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
            let reads = locked(&self.reads);
            self.execution.lend(&View { reads: &*reads, meta: &self.meta }, visit)?;
            self.work.add(self.execution.counters(), &mut self.told);
        }
        Ok(())
    }
}

/// Documents of a collection by a value, in a snapshot that streams read too.
struct ByValue {
    reads: Arc<Mutex<ReadTxn>>,
    meta: Arc<Meta>,
    index: usize,
    name: Box<str>,
    work: Arc<Work>,
}

impl Equal for ByValue {
    fn find(&mut self, value: Value<'_>, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        let reads = locked(&self.reads);
        let Some(sought) = Sought::new(self.name.as_bytes(), value) else { return Ok(false) };
        let entries = sought.each(self.index, &*reads, &self.meta, visit)?;
        let looked = entries.unwrap_or_default();
        let counters = Counters { keys_examined: looked, docs_examined: looked, ..Counters::default() };
        self.work.add(counters, &mut Counters::default());
        Ok(entries.is_some())
    }
}

impl World for Native {
    fn find(&self, namespace: &str, query: Query) -> Result<Docs> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else {
            return Ok(Box::new(List::new(Vec::new())));
        };
        let execution = Execution::new(&View { reads: &*locked(&self.reads), meta: &meta }, query)?;
        let (reads, work) = (Arc::clone(&self.reads), Arc::clone(&self.work));
        let told = Counters::default();
        Ok(Box::new(Rows { reads, meta, execution, batch: Batch::begun(), work, told }))
    }

    fn parts(
        &self,
        namespace: &str,
        query: Query,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Vec<Docs>> {
        let whole = query.sort.is_none() && query.skip == 0 && query.limit == 0 && query.projection.is_none();
        if let (true, Some(meta)) = (whole && threads != Some(1), self.meta(&Namespace::parse(namespace)?)?) {
            let reads = locked(&self.reads);
            let view = View { reads: &*reads, meta: &meta };
            if Plan::choose(&view, &query)?.path == crate::query::Path::Rows {
                let cuts = Cuts::of(&view, threads, in_order)?;
                drop(reads);
                if let Some(cuts) = cuts {
                    let query = Arc::new(query);
                    return Ok(cuts.parts(&self.reads, &meta, &query, &self.work));
                }
            }
        }
        Ok(vec![self.find(namespace, query)?])
    }

    fn count(&self, namespace: &str, query: Query) -> Result<u64> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else { return Ok(0) };
        let reads = locked(&self.reads);
        let view = View { reads: &*reads, meta: &meta };
        if query.filter.is_all() && query.hint.is_none() {
            let found = crate::access::Source::estimated_rows(&view).saturating_sub(query.skip);
            return Ok(if query.limit == 0 { found } else { found.min(query.limit) });
        }
        crate::query::count(&view, &query)
    }

    fn equal(&self, namespace: &str, path: &Path) -> Result<Option<Box<dyn Equal>>> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else { return Ok(None) };
        let (name, reads, work) = (path.as_str().into(), Arc::clone(&self.reads), Arc::clone(&self.work));
        let index = Sought::index_on(path.as_str().as_bytes(), &meta);
        Ok(index.map(|index| Box::new(ByValue { reads, meta, index, name, work }) as Box<dyn Equal>))
    }

    fn searches(&self, namespace: &str, query: &Query) -> Result<bool> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else { return Ok(true) };
        let plan = Plan::choose(&View { reads: &*locked(&self.reads), meta: &meta }, query)?;
        Ok(plan.path != crate::query::Path::Rows)
    }

    fn gives_order(&self, namespace: &str, query: &Query) -> Result<bool> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else { return Ok(true) };
        Ok(!Plan::choose(&View { reads: &*locked(&self.reads), meta: &meta }, query)?.sort_in_memory)
    }

    fn change(&self, namespace: &str, work: &mut crate::aggregate::Work<'_>) -> Result<()> {
        let namespace = Namespace::parse(namespace)?;
        self.db.edit(&namespace, true, self.durability, |edit| work(edit)).map(drop)
    }

    fn collection_stats(&self, namespace: &str) -> Result<RawDocumentBuf> {
        let namespace = Namespace::parse(namespace)?;
        let Some(meta) = self.meta(&namespace)? else { return Err(Database::missing(&namespace)) };
        let reads = locked(&self.reads);
        let count =
            i64::try_from(crate::access::Source::estimated_rows(&View { reads: &*reads, meta: &meta }));
        let count = count.unwrap_or(i64::MAX);
        let indexes = i32::try_from(meta.indexes.len()).unwrap_or(i32::MAX);
        Ok(rawdoc! {
            "ns": namespace.as_str(),
            "localTime": bson::DateTime::now(),
            "count": count,
            "storageStats": { "count": count, "nindexes": indexes, "capped": false },
        })
    }

    fn index_stats(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else { return Ok(Vec::new()) };
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
        let Prepared { namespace, pipeline, world, context } = self.prepare(namespace, request)?;
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
        let Prepared { namespace, pipeline, world, context } = self.prepare(namespace, request)?;
        let (query, stages) = pipeline.explain(namespace.as_str(), request.hint.clone(), &context)?;
        let filter = query.as_ref().map(|query| query.filter.source().to_owned());
        Ok(Explanation { searches: query.is_some(), filter, plan: world.plan(&namespace, query)?, stages })
    }

    fn prepare(&self, namespace: &str, request: &AggregateRequest) -> Result<Prepared> {
        let namespace = Namespace::parse(namespace)?;
        let reads = self.inner.store.begin_read()?;
        let collation = match request.collation.as_deref() {
            Some(named) => Collation::parse(named)?,
            None => match self.inner.catalog.find(&reads, &namespace)? {
                Some(meta) => meta.collation.clone(),
                None => Collation::Simple,
            },
        };
        let (names, globals) = variables(request, collation)?;
        let stages = RawDocument::from_bytes(request.pipeline.as_bytes())?;
        validate_with(stages.as_bytes(), crate::doc::MESSAGE)?;
        let pipeline = Pipeline::parse(Value::Array(Doc::from(stages)), &names)?;
        let reads = Arc::new(Mutex::new(reads));
        let work = Arc::default();
        let world = Arc::new(Native { db: self.clone(), reads, durability: request.durability, work });
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
    /// True if it begins with a search of the collection, not with documents of its own.
    pub searches: bool,
    /// What is searched for.
    pub filter: Option<RawDocumentBuf>,
    /// How; `None` if there is no such collection.
    pub plan: Option<Plan>,
    /// The stages behind the search, in the order they are run in.
    pub stages: Vec<RawDocumentBuf>,
}

/// Entries and documents that searches looked at, those of look-ups too.
#[derive(Debug, Default)]
pub(super) struct Work {
    keys: AtomicU64,
    documents: AtomicU64,
}

impl Work {
    /// Adds what was done since `told`.
    pub(super) fn add(&self, now: Counters, told: &mut Counters) {
        self.keys.fetch_add(now.keys_examined - told.keys_examined, Ordering::Relaxed);
        self.documents.fetch_add(now.docs_examined - told.docs_examined, Ordering::Relaxed);
        *told = now;
    }
}

impl super::Collection {
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
    validate_with(given.as_bytes(), crate::doc::MESSAGE)?;
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
