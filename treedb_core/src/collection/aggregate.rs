//! Aggregation over the collections of a database: the native [`World`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::aggregate::{Context, Docs, List, MEMORY, Pipeline, Scratch, Stream, Visit, Work, World};
use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::{Doc, OwnedValue, Value, validate_with};
use crate::index::ordered::IndexDef;
use crate::kv::{Durability, ReadTxn};
use crate::query::expr::{Arena, Expr, Globals, Names, Scope};
use crate::query::{Execution, Plan, Query};

use super::database::Database;
use super::meta::Meta;
use super::namespace::Namespace;
use super::parts::Cuts;
use super::view::View;

/// Documents fetched at a time.
const BATCH: usize = 128;
/// Bytes of documents after which a batch is long enough.
const BATCH_BYTES: usize = 1 << 20;

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
        }
    }
}

/// The documents a pipeline gives, from one snapshot of all collections it reads.
pub struct Aggregation {
    docs: Docs,
    done: bool,
    plan: Option<Plan>,
}

impl Aggregation {
    /// How the documents of the collection are found; `None` if there is none.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
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
}

fn locked(reads: &Mutex<ReadTxn>) -> MutexGuard<'_, ReadTxn> {
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Native {
    fn meta(&self, namespace: &Namespace) -> Result<Option<Arc<Meta>>> {
        self.db.inner.catalog.find(&*locked(&self.reads), namespace)
    }
}

/// The answer of a find, batch by batch, in a snapshot that other streams read too.
struct Rows {
    reads: Arc<Mutex<ReadTxn>>,
    meta: Arc<Meta>,
    execution: Execution,
    ready: std::collections::VecDeque<RawDocumentBuf>,
    more: bool,
}

impl Stream for Rows {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.ready.is_empty() && self.more {
            let Rows { reads, meta, execution, ready, more } = self;
            let (reads, mut bytes) = (locked(reads), 0);
            *more = false;
            *more = execution.run(&View { reads: &*reads, meta }, &mut |document| {
                bytes += document.as_bytes().len();
                ready.push_back(document);
                let full = ready.len() >= BATCH || bytes >= BATCH_BYTES;
                if full { Flow::Break(()) } else { Flow::Continue(()) }
            })?;
        }
        Ok(self.ready.pop_front())
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        while let Some(document) = self.ready.pop_front() {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        if self.more {
            self.more = false;
            let reads = locked(&self.reads);
            self.execution.lend(&View { reads: &*reads, meta: &self.meta }, visit)?;
        }
        Ok(())
    }
}

impl World for Native {
    fn find(&self, namespace: &str, query: Query) -> Result<Docs> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else {
            return Ok(Box::new(List::new(Vec::new())));
        };
        let execution = Execution::new(&View { reads: &*locked(&self.reads), meta: &meta }, query)?;
        let reads = Arc::clone(&self.reads);
        Ok(Box::new(Rows { reads, meta, execution, ready: Default::default(), more: true }))
    }

    fn parts(&self, namespace: &str, query: Query, threads: Option<usize>) -> Result<Vec<Docs>> {
        let whole = query.sort.is_none() && query.skip == 0 && query.limit == 0 && query.projection.is_none();
        if let (true, Some(meta)) = (whole && threads != Some(1), self.meta(&Namespace::parse(namespace)?)?) {
            let reads = locked(&self.reads);
            let view = View { reads: &*reads, meta: &meta };
            if Plan::choose(&view, &query)?.path == crate::query::Path::Rows {
                let cuts = Cuts::of(&view, threads)?;
                drop(reads);
                if let Some(cuts) = cuts {
                    let filter = Arc::new(query.filter);
                    return Ok(cuts.parts(&self.reads, &meta, &filter));
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

    fn gives_order(&self, namespace: &str, query: &Query) -> Result<bool> {
        let Some(meta) = self.meta(&Namespace::parse(namespace)?)? else { return Ok(true) };
        Ok(!Plan::choose(&View { reads: &*locked(&self.reads), meta: &meta }, query)?.sort_in_memory)
    }

    fn change(&self, namespace: &str, work: &mut Work<'_>) -> Result<()> {
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
        let namespace = Namespace::parse(namespace)?;
        let (names, globals) = variables(request)?;
        let stages = RawDocument::from_bytes(request.pipeline.as_bytes())?;
        validate_with(stages.as_bytes(), crate::doc::MESSAGE)?;
        let pipeline = Pipeline::parse(Value::Array(Doc::from(stages)), &names)?;
        let reads = Arc::new(Mutex::new(self.inner.store.begin_read()?));
        let world =
            Arc::new(Native { db: self.clone(), reads: Arc::clone(&reads), durability: request.durability });
        let context = Context {
            world: Arc::clone(&world) as Arc<dyn World>,
            database: namespace.database().to_owned(),
            globals: Arc::new(globals),
            memory: request.memory,
            spill: request.allow_disk_use,
            until: request.until,
            threads: request.threads,
        };
        let plan = match world.meta(&namespace)? {
            Some(meta) if !pipeline.has_source() => {
                let mut query = pipeline.query(&context)?.0;
                query.hint = request.hint.clone();
                Some(Plan::choose(&View { reads: &*locked(&reads), meta: &meta }, &query)?)
            }
            _ => None,
        };
        let docs = pipeline.open_with_hint(namespace.as_str(), request.hint.clone(), &context)?;
        Ok(Aggregation { docs, done: false, plan })
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

/// The command's variables, evaluated once.
fn variables(request: &AggregateRequest) -> Result<(Names, Globals)> {
    let (mut names, mut globals) = (Vec::new(), Globals::now());
    let Some(given) = &request.variables else { return Ok((Names::default(), globals)) };
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
        let expr = Expr::parse_element(&variable, &Names::default())?;
        globals
            .values
            .push(expr.eval(&mut Scope::new(Doc::EMPTY, &empty, &arena))?.map(OwnedValue::from_value));
        names.push(name.to_owned());
    }
    Ok((Names::new(names), globals))
}
