//! Aggregation over the collections of a database: the native [`Collections`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::access::{Flow, IndexInfo, Source};
use treedb_query::aggregate::{
    BoxedStream, Collections, Context, DEFAULT_MEMORY_LIMIT, DocumentStream, EqualityLookup, Pipeline,
    Target, TempFile, VecStream, Visitor, WriteBody,
};
use treedb_query::doc::{Collation, Doc, Fields, Path, Value, validate_with};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::geo::Grid;
use treedb_query::query::explain::{self, Wanted};
use treedb_query::query::expr::Variables;
use treedb_query::query::interrupt;
use treedb_query::query::{
    Counters, Execution, Hint, NearestQuery, Neighbor, Plan, PlanSummary, PointLookup, PointQuery,
    Projection, Query, SearchWork, nearest,
};
use treedb_storage::{Durability, ReadTxn, SharedReadTxn};

use crate::catalog::meta::{IndexMeta, Meta};
use crate::catalog::namespace::Namespace;
use crate::catalog::search_index::SearchIndex;
use crate::catalog::special::check_series;
use crate::catalog::view_def::{MAX_DEPTH, ResolvedView};
use crate::catalog::views::too_deep;
use crate::changes::{AsOf, AsOfOverlay, by_time, is_oplog};
use crate::database::Database;
use crate::maintenance::stats;
use crate::read::batch::Batch;
use crate::read::parallel_scan::ParallelScan;
use crate::read::point_lookup;
use crate::read::top_k::top_k;
use crate::read::view::View;
use crate::transaction::{CollectionSnapshot, Overlay, collection_snapshot};
use crate::write::edit::Edit;

/// A pipeline to run.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// The stages.
    pub pipeline: RawArrayBuf,
    /// Variables that its expressions may use as `$$name`: a document of expressions.
    pub variables: Option<RawDocumentBuf>,
    /// The index to find the documents by, which is ignored at an earlier moment; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// Whether `$sort` and `$group` may use temporary files in the directory of the database beyond `memory`.
    pub allow_disk_use: bool,
    /// Bytes that a stage may hold; and the documents together that changed since an earlier moment which is read.
    pub memory: usize,
    /// When to give up, with `MaxTimeMSExpired`.
    pub until: Option<Instant>,
    /// Threads for a parallel scan of the collection; `None` lets the database choose.
    pub threads: Option<usize>,
    /// The durability of the writes of `$out` and `$merge`; `None` for that of the database.
    pub durability: Option<Durability>,
    /// How strings compare in all stages: `{ locale: "en", strength: 2 }`; `None` as the collection says.
    pub collation: Option<RawDocumentBuf>,
    /// Whether what `$out` and `$merge` write must match the validator of its collection.
    pub validates: bool,
    /// The moment that all collections are read at; `None` for the present. Changes must be recorded for it. Views are those of the present.
    pub as_of: Option<AsOf>,
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
            memory: DEFAULT_MEMORY_LIMIT,
            until: None,
            threads: None,
            durability: None,
            collation: None,
            validates: true,
            as_of: None,
        }
    }
}

/// The result of a pipeline, from one snapshot of all collections it reads.
pub struct Aggregation {
    documents: BoxedStream,
    done: bool,
    plan: Option<Plan>,
    examined: Arc<Examined>,
}

impl Aggregation {
    /// The plan of the query that the pipeline begins with; `None` if there is no collection.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// What the search of the first `$vectorSearch` did that was run: of the one that the pipeline begins with, if it begins with one.
    pub fn search_work(&self) -> Option<SearchWork> {
        self.examined.search.get().copied()
    }

    /// Index entries and documents examined so far, those of other collections included.
    pub fn counters(&self) -> Counters {
        Counters {
            keys_examined: self.examined.keys.load(Ordering::Relaxed),
            docs_examined: self.examined.documents.load(Ordering::Relaxed),
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
        let next = self.documents.next().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The collections of one snapshot, as a transaction sees them, or as they were.
#[derive(Clone)]
struct SnapshotCollections {
    db: Database,
    reads: Arc<Mutex<ReadTxn>>,
    /// What a transaction has changed; `None` outside of one.
    changed: Option<Overlays>,
    past: Option<Arc<Past>>,
    durability: Option<Durability>,
    validates: bool,
    examined: Arc<Examined>,
    /// The limits of the stages, those of views included.
    memory: usize,
    allow_disk_use: bool,
    until: Option<Instant>,
    /// Views that are being read, each by the pipeline of the one before.
    view_depth: usize,
}

/// Collections as they were at an earlier moment, which were found so far. To find one takes a walk over the changes since.
struct Past {
    at: AsOf,
    found: Mutex<PastCollections>,
}

struct PastCollections {
    by_name: BTreeMap<Namespace, Option<CollectionSnapshot>>,
    /// Bytes that those to come may take.
    memory: usize,
}

impl Past {
    /// Those at `at`, which take so many bytes together at most.
    fn new(at: AsOf, memory: usize) -> Past {
        Past { at, found: Mutex::new(PastCollections { by_name: BTreeMap::new(), memory }) }
    }

    /// A collection; `None` if there was none.
    fn find(
        &self,
        db: &Database,
        reads: &ReadTxn,
        namespace: &Namespace,
    ) -> Result<Option<CollectionSnapshot>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.by_name.get(namespace) {
            return Ok(known.clone());
        }
        let past = AsOfOverlay::find(&db.inner.catalog, reads, namespace, self.at, &mut found.memory)?;
        let past = past.map(|(meta, past)| CollectionSnapshot::of_past(meta, past));
        found.by_name.insert(namespace.clone(), past.clone());
        Ok(past)
    }
}

/// The collections that a transaction has changed.
pub(crate) type Overlays = BTreeMap<Namespace, Arc<Overlay>>;

fn locked(reads: &Mutex<ReadTxn>) -> MutexGuard<'_, ReadTxn> {
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SnapshotCollections {
    /// The collection, if there is one.
    fn seen(&self, namespace: &str) -> Result<Option<CollectionSnapshot>> {
        match &self.past {
            Some(past) => past.find(&self.db, &locked(&self.reads), &Namespace::parse(namespace)?),
            None => self.present(namespace),
        }
    }

    /// The collection as it is now, if there is one.
    fn present(&self, namespace: &str) -> Result<Option<CollectionSnapshot>> {
        let (nothing, namespace) = (Overlays::new(), Namespace::parse(namespace)?);
        let changed = self.changed.as_ref().unwrap_or(&nothing);
        let seen = collection_snapshot(&self.db, &*locked(&self.reads), changed, &namespace)?;
        Ok((!seen.is_nothing()).then_some(seen))
    }

    /// What the view of this name comes to; `None` for a collection, and where there is neither.
    fn view(&self, namespace: &str) -> Result<Option<ResolvedView>> {
        self.db.inner.catalog.resolve_view(&*locked(&self.reads), &Namespace::parse(namespace)?)
    }

    /// True for a view.
    fn is_view(&self, namespace: &str) -> Result<bool> {
        Ok(self.view(namespace)?.is_some())
    }

    /// True for what has no rows: a view, and the collection that shows the change log.
    fn is_computed(&self, namespace: &str) -> Result<bool> {
        Ok(is_oplog(namespace) || self.is_view(namespace)?)
    }

    /// The documents of a view that `query` finds: its stages follow those of the view.
    fn find_in_view(&self, view: &ResolvedView, query: Query) -> Result<BoxedStream> {
        if view.collation != query.collation {
            return Err(QueryError::new(
                ErrorCode::OptionNotSupportedOnView,
                "Cannot override a view's default collation: the pipeline that reads it must compare strings as it does",
            ));
        }
        if self.view_depth >= MAX_DEPTH {
            return Err(too_deep(&view.source));
        }
        interrupt::check()?;
        let below = SnapshotCollections { view_depth: self.view_depth + 1, ..self.clone() };
        let mut stages = RawArrayBuf::new();
        for stage in &view.stages {
            stages.push(RawDocumentBuf::try_from(stage)?);
        }
        if !query.filter.is_all() {
            stages.push(rawdoc! { "$match": query.filter.source().to_owned() });
        }
        if let Some(sort) = &query.sort {
            stages.push(rawdoc! { "$sort": sort.written() });
        }
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        if query.skip > 0 {
            stages.push(rawdoc! { "$skip": number(query.skip) });
        }
        if query.limit > 0 {
            stages.push(rawdoc! { "$limit": number(query.limit) });
        }
        let names = Variables::NONE.names(&view.collation);
        let pipeline =
            Pipeline::parse(Value::Array(Doc::from(RawDocument::from_bytes(stages.as_bytes())?)), &names)?;
        let documents =
            pipeline.open(view.source.as_str(), &below.context(&view.source, Variables::NONE, Some(1)))?;
        Ok(match query.projection {
            Some(projection) => Box::new(Projected { documents, projection }),
            None => documents,
        })
    }

    /// What the stages of a pipeline share that reads `namespace`.
    fn context(&self, namespace: &Namespace, variables: &Variables, threads: Option<usize>) -> Context {
        Context {
            collections: Arc::new(self.clone()),
            database: namespace.database().to_owned(),
            globals: Arc::new(variables.globals()),
            memory_limit: self.memory,
            allow_disk_use: self.allow_disk_use,
            deadline: self.until,
            threads,
        }
    }

    fn plan(&self, namespace: &Namespace, query: Option<Query>) -> Result<Option<Plan>> {
        match (self.seen(namespace.as_str())?, query) {
            (Some(seen), Some(query)) => self.choose(&seen, &query).map(Some),
            _ => Ok(None),
        }
    }

    fn choose(&self, seen: &CollectionSnapshot, query: &Query) -> Result<Plan> {
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        Plan::choose(&layer, &layer.context(), query)
    }

    /// The plan of a query as `explain` shows it.
    fn query_planner(&self, namespace: &Namespace, query: &Query) -> Result<RawDocumentBuf> {
        let Some(seen) = self.seen(namespace.as_str())? else {
            return Ok(explain::planner_of_nothing(namespace.as_str(), query));
        };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        let plan = Plan::choose(&layer, &layer.context(), query)?;
        Ok(explain::query_planner(&layer, namespace.as_str(), query, &plan, Wanted::Documents))
    }

    /// Refuses a stage that is about the present in a transaction, and where an earlier moment is read.
    fn refuse_but_of_the_present(&self, stage: &str) -> Result<()> {
        if self.past.is_some() {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                format!(
                    "Aggregation stage {stage} cannot read at an earlier time, as with the read concern snapshot: use another read concern to read what there is now"
                ),
            ));
        }
        match &self.changed {
            None => Ok(()),
            Some(_) => Err(unsupported_in_transaction(stage)),
        }
    }
}

/// The error of a stage that is not supported in a transaction.
fn unsupported_in_transaction(stage: &str) -> QueryError {
    QueryError::new(
        ErrorCode::OperationNotSupportedInTransaction,
        format!("Stage not supported inside of a multi-document transaction: {stage}"),
    )
}

/// Documents, each with what a projection leaves of it.
struct Projected {
    documents: BoxedStream,
    projection: Projection,
}

impl DocumentStream for Projected {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        match self.documents.next()? {
            Some(document) => self.projection.apply(&document).map(Some),
            None => Ok(None),
        }
    }
}

/// The documents of a query, in a snapshot that other streams read as well.
struct QueryStream {
    reads: Arc<Mutex<ReadTxn>>,
    seen: CollectionSnapshot,
    execution: Execution,
    batch: Batch,
    examined: Arc<Examined>,
    /// The part of the execution's counters that was added to `examined`.
    reported: Counters,
}

impl DocumentStream for QueryStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.batch.needs_fetch() {
            let QueryStream { reads, seen, execution, batch, examined, reported } = self;
            let reads = locked(reads);
            let layer = seen.through(&*reads);
            batch.fetch(execution, &layer, &layer.context())?;
            examined.add(execution.counters(), reported);
        }
        Ok(self.batch.ready.pop_front())
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        while let Some(document) = self.batch.ready.pop_front() {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        if self.batch.more {
            self.batch.more = false;
            // Other readers of the snapshot, such as those that `visit` uses, are not blocked meanwhile.
            let reads = SharedReadTxn::new(&self.reads);
            let layer = self.seen.through(&reads);
            self.execution.lend(&layer, &layer.context(), visit)?;
            self.examined.add(self.execution.counters(), &mut self.reported);
        }
        Ok(())
    }
}

/// Point look-ups in an index, in a snapshot that streams read as well.
struct IndexLookup {
    reads: SharedReadTxn,
    meta: Arc<Meta>,
    lookup: PointLookup,
    name: Box<str>,
    examined: Arc<Examined>,
}

impl EqualityLookup for IndexLookup {
    fn find(
        &mut self,
        value: Value<'_>,
        fields: Option<&Fields>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<bool> {
        let Some(point) = PointQuery::of_field(self.name.as_bytes(), value) else { return Ok(false) };
        let entries =
            point_lookup::each(&point, self.lookup, &self.reads, &self.meta, fields, &mut |document| {
                visit(document)?;
                Ok(Flow::Continue(()))
            })?;
        let examined = entries.unwrap_or_default();
        let counters = Counters { keys_examined: examined, docs_examined: examined, ..Counters::default() };
        self.examined.add(counters, &mut Counters::default());
        Ok(entries.is_some())
    }
}

/// The options of the time series that the target must be.
fn series_of(target: Target<'_>) -> Result<Option<Document>> {
    match target {
        Target::Replaced(Some(series)) => Ok(Some(Document::try_from(series)?)),
        Target::Replaced(None) | Target::Merged => Ok(None),
    }
}

/// Refuses a collection that `$out` or `$merge` cannot write; `series` is [`series_of`] the target.
fn refuse(meta: &Meta, namespace: &str, target: Target<'_>, series: Option<&Document>) -> Result<()> {
    if let Some(series) = series {
        check_series(Some(&meta.options), series)?;
    }
    let special = &meta.special;
    match target {
        Target::Replaced(_) if special.capped.is_some() => Err(QueryError::new(
            ErrorCode::Location17152,
            format!("namespace '{namespace}' is capped so it can't be used for $out"),
        )),
        Target::Merged if special.time_field.is_some() => Err(QueryError::new(
            ErrorCode::CommandNotSupportedOnView,
            format!(
                "$merge cannot write to the time-series collection {namespace}: use $out, or insert the documents"
            ),
        )),
        Target::Replaced(_) | Target::Merged => Ok(()),
    }
}

impl Collections for SnapshotCollections {
    fn find(&self, namespace: &str, query: Query) -> Result<BoxedStream> {
        if is_oplog(namespace) {
            if self.past.is_some() {
                self.refuse_but_of_the_present("that reads local.oplog.rs")?;
            }
            return Ok(Box::new(self.db.query_oplog(query, false)?));
        }
        let seen = match self.seen(namespace) {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                interrupt::note_plan(|| PlanSummary::EOF);
                return Ok(Box::new(VecStream::new(Vec::new())));
            }
            Err(error) => match self.view(namespace)? {
                Some(view) => return self.find_in_view(&view, query),
                None => return Err(error),
            },
        };
        let execution = {
            let reads = locked(&self.reads);
            let layer = seen.through(&*reads);
            Execution::new(&layer, &layer.context(), query)?
        };
        let (reads, examined) = (Arc::clone(&self.reads), Arc::clone(&self.examined));
        let reported = Counters::default();
        Ok(Box::new(QueryStream { reads, seen, execution, batch: Batch::new(), examined, reported }))
    }

    fn parallel_scan(
        &self,
        namespace: &str,
        query: Query,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Vec<BoxedStream>> {
        let is_plain =
            query.sort.is_none() && query.skip == 0 && query.limit == 0 && query.projection.is_none();
        let is_plain = is_plain && threads != Some(1) && !self.is_view(namespace)?;
        let seen = if is_plain { self.seen(namespace)? } else { None };
        // The changes of a transaction are read by its own thread.
        if let Some(meta) = seen.as_ref().and_then(CollectionSnapshot::unchanged) {
            let reads = locked(&self.reads);
            let view = View { reads: &*reads, meta };
            let plan = Plan::choose(&view, &view.context(), &query)?;
            if plan.path == treedb_query::query::Path::CollectionScan && !plan.backward {
                let scan = ParallelScan::new(&view, threads, in_order)?;
                drop(reads);
                if let Some(scan) = scan {
                    interrupt::note_plan(|| PlanSummary::COLLECTION_SCAN);
                    let query = Arc::new(query);
                    return Ok(scan.streams(&self.reads, meta, &query, &self.examined));
                }
            }
        }
        Ok(vec![self.find(namespace, query)?])
    }

    fn top_k(
        &self,
        namespace: &str,
        query: &Query,
        memory_limit: usize,
        deadline: Option<Instant>,
        threads: Option<usize>,
    ) -> Result<Option<Vec<RawDocumentBuf>>> {
        if self.is_computed(namespace)? {
            return Ok(None);
        }
        let Some(seen) = self.seen(namespace)? else { return Ok(Some(Vec::new())) };
        let limits = Limits { memory: memory_limit, deadline, threads };
        top_k(&self.reads, &seen, query.clone(), &limits, &self.examined)
    }

    fn count(&self, namespace: &str, query: Query) -> Result<u64> {
        if self.is_computed(namespace)? {
            let (mut documents, mut count) = (self.find(namespace, query)?, 0);
            while documents.next()?.is_some() {
                count += 1;
            }
            return Ok(count);
        }
        let Some(seen) = self.seen(namespace)? else { return Ok(0) };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        if let (true, None, Some(rows)) = (query.filter.is_all(), &query.hint, layer.known_rows()?) {
            interrupt::note_plan(|| PlanSummary::RECORD_COUNT);
            let found = rows.saturating_sub(query.skip);
            return Ok(if query.limit == 0 { found } else { found.min(query.limit) });
        }
        treedb_query::query::count(&layer, &layer.context(), &query)
    }

    fn point_lookup(&self, namespace: &str, path: &Path) -> Result<Option<Box<dyn EqualityLookup>>> {
        if self.is_view(namespace)? {
            return Ok(None);
        }
        let seen = self.seen(namespace)?;
        // A collection that a transaction has changed is queried.
        let Some(meta) = seen.as_ref().and_then(CollectionSnapshot::unchanged).map(Arc::clone) else {
            return Ok(None);
        };
        let field = path.as_str().as_bytes();
        let Some(lookup) = PointLookup::by_field(field, &meta.infos, &meta.collation) else {
            return Ok(None);
        };
        meta.indexes.get(lookup.index).iter().for_each(|index| index.uses.add());
        let (name, reads) = (path.as_str().into(), SharedReadTxn::new(&self.reads));
        Ok(Some(Box::new(IndexLookup { reads, meta, lookup, name, examined: Arc::clone(&self.examined) })))
    }

    fn uses_index(&self, namespace: &str, query: &Query) -> Result<bool> {
        if self.is_computed(namespace)? {
            return Ok(false);
        }
        let Some(seen) = self.seen(namespace)? else { return Ok(true) };
        let plan = self.choose(&seen, query)?;
        Ok(plan.path != treedb_query::query::Path::CollectionScan)
    }

    fn provides_order(&self, namespace: &str, query: &Query) -> Result<bool> {
        if is_oplog(namespace) {
            return Ok(query.hint.is_none() && query.sort.as_ref().and_then(by_time).is_some());
        }
        if self.is_view(namespace)? {
            return Ok(false);
        }
        let Some(seen) = self.seen(namespace)? else { return Ok(true) };
        Ok(!self.choose(&seen, query)?.sort_in_memory)
    }

    fn check_target(&self, namespace: &str, target: Target<'_>) -> Result<()> {
        // What is written is written now, whatever moment is read. A view is an error here.
        let Some(seen) = self.present(namespace)? else {
            if let Some(series) = series_of(target)? {
                check_series(None, &series)?;
            }
            return self.db.inner.catalog.check_free(&*locked(&self.reads), &Namespace::parse(namespace)?);
        };
        let Some(meta) = seen.unchanged() else { return Ok(()) };
        refuse(meta, namespace, target, series_of(target)?.as_ref())
    }

    fn write(&self, namespace: &str, target: Target<'_>, body: &mut WriteBody<'_>) -> Result<()> {
        let series = series_of(target)?;
        let work = |edit: &mut Edit<'_>| {
            // It may have been created, or become another, while the pipeline ran.
            refuse(&edit.meta, namespace, target, series.as_ref())?;
            edit.validates = self.validates;
            body(edit)
        };
        let options =
            series.as_ref().map_or_else(Document::new, |series| bson::doc! { "timeseries": series.clone() });
        let parsed = Namespace::parse(namespace)?;
        self.db.edit_or_create(&parsed, Some(&options), self.durability, work).map(drop)
    }

    fn document_count(&self, namespace: &str) -> Result<u64> {
        self.refuse_but_of_the_present("$collStats")?;
        let Some(seen) = self.seen(namespace)? else {
            return Err(Database::namespace_not_found(&Namespace::parse(namespace)?));
        };
        let reads = locked(&self.reads);
        Ok(seen.through(&*reads).estimated_rows())
    }

    fn storage_stats(&self, namespace: &str, scale: f64) -> Result<RawDocumentBuf> {
        self.refuse_but_of_the_present("$collStats")?;
        let Some(seen) = self.seen(namespace)? else {
            return Err(Database::namespace_not_found(&Namespace::parse(namespace)?));
        };
        let reads = locked(&self.reads);
        let meta = seen.unchanged().ok_or_else(|| unsupported_in_transaction("$collStats"))?;
        stats::of(&reads, meta)?.storage_document(scale)
    }

    fn index_stats(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        self.refuse_but_of_the_present("$indexStats")?;
        let seen = self.seen(namespace)?;
        let Some(meta) = seen.as_ref().and_then(CollectionSnapshot::unchanged) else { return Ok(Vec::new()) };
        let shown = |index: &IndexMeta| {
            let def = &index.def;
            let accesses = rawdoc! {
                "ops": i64::try_from(index.uses.operations()).unwrap_or(i64::MAX),
                "since": bson::DateTime::from_system_time(index.uses.since()),
            };
            let mut stats = rawdoc! {
                "name": def.name(), "key": def.key_pattern(), "accesses": accesses, "spec": def.spec(),
            };
            if index.building.is_some() {
                stats.append(bson::raw::cstr!("building"), true);
            }
            stats
        };
        Ok(meta.shown_indexes().map(shown).collect())
    }

    fn indexed_locations(&self, namespace: &str) -> Result<Option<Vec<(Path, Grid)>>> {
        let Some(seen) = self.seen(namespace)? else { return Ok(None) };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        Ok(Some(layer.indexes().iter().flat_map(IndexInfo::locations).collect()))
    }

    fn vector_search(&self, namespace: &str, search: &NearestQuery) -> Result<Vec<Neighbor>> {
        if self.past.is_some() {
            self.refuse_but_of_the_present("$vectorSearch")?;
        }
        let Some(seen) = self.seen(namespace)? else { return Ok(Vec::new()) };
        let reads = locked(&self.reads);
        let layer = seen.through(&*reads);
        let answer = nearest(&layer, &layer.context(), search, None)?;
        self.examined.searched(answer.work);
        Ok(answer.neighbors)
    }

    fn search_indexes(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        self.refuse_but_of_the_present("$listSearchIndexes")?;
        let seen = self.seen(namespace)?;
        let indexes =
            seen.as_ref().and_then(CollectionSnapshot::unchanged).map(|meta| SearchIndex::all(meta));
        Ok(indexes.unwrap_or_default().iter().map(SearchIndex::listed).collect())
    }

    fn temp_file(&self) -> Result<Option<Box<dyn TempFile>>> {
        Ok(self.db.inner.store.scratch()?.map(|file| Box::new(file) as Box<dyn TempFile>))
    }
}

impl Database {
    /// Runs a pipeline over the collection `namespace` (`database.collection`). Documents are computed as they are asked
    /// for; `$out` and `$merge` write when the first is asked for.
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
        let in_transaction = changed.is_some();
        let Prepared { namespace, pipeline, collections, context, hint } =
            self.prepare(reads, changed, namespace, request)?;
        if in_transaction && pipeline.writes() {
            return Err(unsupported_in_transaction("$out or $merge"));
        }
        pipeline.check_target(&context)?;
        let plan =
            collections.plan(&namespace, pipeline.explain(namespace.as_str(), hint.clone(), &context)?.0)?;
        let documents = pipeline.open_with_hint(namespace.as_str(), hint, &context)?;
        Ok(Aggregation { documents, done: false, plan, examined: Arc::clone(&collections.examined) })
    }

    /// How [`Self::aggregate`] would run a pipeline.
    ///
    /// # Errors
    /// As there.
    pub fn explain_aggregate(&self, namespace: &str, request: &AggregateRequest) -> Result<Explanation> {
        let reads = Arc::new(Mutex::new(self.inner.store.begin_read()?));
        let Prepared { namespace, pipeline, collections, context, hint } =
            self.prepare(reads, None, namespace, request)?;
        pipeline.check_target(&context)?;
        let (query, stages) = pipeline.explain(namespace.as_str(), hint, &context)?;
        let planner = query.map(|query| collections.query_planner(&namespace, &query)).transpose()?;
        Ok(Explanation { planner, stages })
    }

    /// The answer of a pipeline whose front is run over parts of the collection, each as another process would run it: what
    /// it has made is sent as bytes. `None` if the pipeline is not divided, or does not fit in memory.
    #[cfg(test)]
    pub(crate) fn aggregate_in_parts(
        &self,
        namespace: &str,
        request: &AggregateRequest,
        parts: Vec<Vec<RawDocumentBuf>>,
    ) -> Result<Option<Vec<RawDocumentBuf>>> {
        let reads = Arc::new(Mutex::new(self.inner.store.begin_read()?));
        let Prepared { pipeline, context, .. } = self.prepare(reads, None, namespace, request)?;
        let Some(divided) = pipeline.divided(&context)? else { return Ok(None) };
        let query = divided.query();
        if query.projection.is_some() {
            return Ok(None);
        }
        let mut whole: Option<treedb_query::aggregate::PipelinePart> = None;
        for mut part in parts {
            let mut wrong = None;
            part.retain(|document| match query.filter.matches(document) {
                Ok(matches) => matches,
                Err(error) => {
                    wrong = Some(error);
                    false
                }
            });
            wrong.map_or(Ok(()), Err)?;
            let Some(made) = divided.part(Box::new(VecStream::new(part)), &context)? else { return Ok(None) };
            let Some(whole) = &mut whole else {
                whole = Some(made);
                continue;
            };
            let mut fits = true;
            made.send(&mut |message| {
                fits = fits && whole.receive(message)?;
                // A message that has been cut off is an error, and nothing else.
                for end in (0..message.len()).step_by(message.len() / 5 + 1).skip(1) {
                    let mut other = divided.part(Box::new(VecStream::new(Vec::new())), &context)?;
                    let _ = other.as_mut().map(|other| other.receive(message.get(..end).unwrap_or_default()));
                }
                Ok(())
            })?;
            if !fits {
                return Ok(None);
            }
        }
        let Some(whole) = whole else { return Ok(None) };
        let (mut documents, mut answer) = (divided.finish(whole, &context)?, Vec::new());
        while let Some(document) = documents.next()? {
            answer.push(document);
        }
        Ok(Some(answer))
    }

    fn prepare(
        &self,
        reads: Arc<Mutex<ReadTxn>>,
        changed: Option<Overlays>,
        namespace: &str,
        request: &AggregateRequest,
    ) -> Result<Prepared> {
        let namespace = Namespace::parse(namespace)?;
        let examined = Arc::default();
        let collections = Arc::new(SnapshotCollections {
            db: self.clone(),
            reads,
            changed,
            past: request.as_of.map(|at| Arc::new(Past::new(at, request.memory))),
            durability: request.durability,
            validates: request.validates,
            examined,
            memory: request.memory,
            allow_disk_use: request.allow_disk_use,
            until: request.until,
            view_depth: 0,
        });
        let named = request.collation.as_deref().map(Collation::parse).transpose()?;
        let mut resolved = None;
        let own = match collections.seen(namespace.as_str()) {
            Ok(Some(seen)) => seen.through(&*locked(&collections.reads)).context().collation.clone(),
            Ok(None) => Collation::Simple,
            Err(error) => {
                let view = collections.view(namespace.as_str())?.ok_or(error)?;
                if named.as_ref().is_some_and(|named| *named != view.collation) {
                    return Err(QueryError::new(
                        ErrorCode::OptionNotSupportedOnView,
                        "Cannot override a view's default collation",
                    ));
                }
                resolved.insert(view).collation.clone()
            }
        };
        let collation = named.unwrap_or(own);
        let variables = Variables::of(request.variables.as_deref(), &collation)?;
        let names = variables.names(&collation);
        let stages = RawDocument::from_bytes(request.pipeline.as_bytes())?;
        validate_with(stages.as_bytes(), treedb_query::doc::MESSAGE)?;
        let (namespace, pipeline) = match resolved {
            None => (namespace, Pipeline::parse(Value::Array(Doc::from(stages)), &names)?),
            Some(view) => {
                let mut all = RawArrayBuf::new();
                // Documents of its own are not those of the view.
                if !Pipeline::parse(Value::Array(Doc::from(stages)), &names)?.has_source() {
                    for stage in &view.stages {
                        all.push(RawDocumentBuf::try_from(stage)?);
                    }
                }
                for stage in &request.pipeline {
                    all.push(stage?);
                }
                let all = RawDocument::from_bytes(all.as_bytes())?;
                (view.source, Pipeline::parse(Value::Array(Doc::from(all)), &names)?)
            }
        };
        let context = collections.context(&namespace, &variables, request.threads);
        let hint = match request.as_of {
            Some(_) => AsOfOverlay::hint(request.hint.clone()),
            None => request.hint.clone(),
        };
        Ok(Prepared { namespace, pipeline, collections, context, hint })
    }
}

/// A parsed pipeline, and the snapshot it runs on.
struct Prepared {
    namespace: Namespace,
    pipeline: Pipeline,
    collections: Arc<SnapshotCollections>,
    context: Context,
    hint: Option<Hint>,
}

/// How a pipeline is run.
#[derive(Debug)]
pub struct Explanation {
    /// The `queryPlanner` of the query that it begins with; `None` if it begins with documents of its own.
    pub planner: Option<RawDocumentBuf>,
    /// The stages after the query, in the order they run.
    pub stages: Vec<RawDocumentBuf>,
}

/// Index entries and documents that an aggregation has examined, those of look-ups included.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    keys: AtomicU64,
    documents: AtomicU64,
    /// What the first search for vectors did: that of a stage which begins the pipeline, if there is one.
    search: OnceLock<SearchWork>,
}

/// The limits of an operation.
pub(crate) struct Limits {
    pub(crate) memory: usize,
    pub(crate) deadline: Option<Instant>,
    pub(crate) threads: Option<usize>,
}

impl Examined {
    /// Adds what was counted since `reported`.
    pub(crate) fn add(&self, now: Counters, reported: &mut Counters) {
        self.keys.fetch_add(now.keys_examined - reported.keys_examined, Ordering::Relaxed);
        self.documents.fetch_add(now.docs_examined - reported.docs_examined, Ordering::Relaxed);
        *reported = now;
    }

    fn searched(&self, work: SearchWork) {
        self.documents.fetch_add(work.documents_examined, Ordering::Relaxed);
        // Those of other stages come later.
        let _ = self.search.set(work);
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
