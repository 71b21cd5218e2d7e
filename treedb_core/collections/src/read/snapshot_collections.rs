//! The collections of one snapshot as the stages of a pipeline read and write them: the native [`Collections`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::access::{Flow, IndexInfo, Source};
use treedb_query::aggregate::{
    BoxedStream, Collections, Context, DocumentStream, EqualityLookup, Pipeline, Target, TempFile, VecStream,
    Visitor, WriteBody,
};
use treedb_query::doc::{Collation, Doc, Fields, Path, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::geo::Grid;
use treedb_query::query::explain::{self, Wanted};
use treedb_query::query::expr::Variables;
use treedb_query::query::interrupt;
use treedb_query::query::{
    Counters, Execution, NearestQuery, Neighbor, Plan, PlanSummary, PointLookup, PointQuery, Projection,
    Query, nearest,
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
use crate::read::aggregate::AggregateRequest;
use crate::read::batch::Batch;
use crate::read::examined::{Examined, Limits};
use crate::read::parallel_scan::ParallelScan;
use crate::read::point_lookup;
use crate::read::top_k::top_k;
use crate::read::view::View;
use crate::transaction::{CollectionSnapshot, Overlay, collection_snapshot};
use crate::write::edit::Edit;

/// The collections of one snapshot, as a transaction sees them, or as they were.
#[derive(Clone)]
pub(super) struct SnapshotCollections {
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
    /// Those of a snapshot, for this request; with what a transaction has `changed`.
    pub(super) fn of_request(
        db: &Database,
        reads: Arc<Mutex<ReadTxn>>,
        changed: Option<Overlays>,
        request: &AggregateRequest,
    ) -> SnapshotCollections {
        SnapshotCollections {
            db: db.clone(),
            reads,
            changed,
            past: request.as_of.map(|at| Arc::new(Past::new(at, request.memory))),
            durability: request.durability,
            validates: request.validates,
            examined: Arc::default(),
            memory: request.memory,
            allow_disk_use: request.allow_disk_use,
            until: request.until,
            view_depth: 0,
        }
    }

    /// What was examined so far.
    pub(super) fn examined(&self) -> &Arc<Examined> {
        &self.examined
    }

    /// How strings of the collection compare.
    pub(super) fn collation_of(&self, seen: &CollectionSnapshot) -> Collation {
        seen.through(&*locked(&self.reads)).context().collation.clone()
    }

    /// The collection, if there is one.
    pub(super) fn seen(&self, namespace: &str) -> Result<Option<CollectionSnapshot>> {
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
    pub(super) fn view(&self, namespace: &str) -> Result<Option<ResolvedView>> {
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
    pub(super) fn context(
        &self,
        namespace: &Namespace,
        variables: &Variables,
        threads: Option<usize>,
    ) -> Context {
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

    pub(super) fn plan(&self, namespace: &Namespace, query: Option<Query>) -> Result<Option<Plan>> {
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
    pub(super) fn query_planner(&self, namespace: &Namespace, query: &Query) -> Result<RawDocumentBuf> {
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
pub(super) fn unsupported_in_transaction(stage: &str) -> QueryError {
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
            // The fields of a search index together.
            let of_index = |other: &&IndexMeta| {
                other.def.name() == def.name() && other.building.is_some() == index.building.is_some()
            };
            let (mut operations, mut key) = (0, RawDocumentBuf::new());
            for field in meta.indexes.iter().filter(of_index) {
                operations += field.uses.operations();
                for part in &field.def.key_pattern() {
                    let (name, value) = part?;
                    key.append(name, value);
                }
            }
            let accesses = rawdoc! {
                "ops": i64::try_from(operations).unwrap_or(i64::MAX),
                "since": bson::DateTime::from_system_time(index.uses.since()),
            };
            let mut stats =
                rawdoc! { "name": def.name(), "key": key, "accesses": accesses, "spec": def.spec() };
            if index.building.is_some() {
                stats.append(bson::raw::cstr!("building"), true);
            }
            Ok(stats)
        };
        let mut names = BTreeSet::new();
        meta.shown_indexes().filter(|index| names.insert(index.def.name())).map(shown).collect()
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
