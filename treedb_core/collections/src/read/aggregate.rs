//! Pipelines over the collections of a database: what is asked for, and the documents that come.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf};

use treedb_query::aggregate::{BoxedStream, Context, DEFAULT_MEMORY_LIMIT, Pipeline};
use treedb_query::doc::{Collation, Doc, Value, validate_with};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::expr::Variables;
use treedb_query::query::{Counters, Hint, Plan, SearchWork};
use treedb_storage::{Durability, ReadTxn};

use crate::catalog::namespace::Namespace;
use crate::changes::{AsOf, AsOfOverlay};
use crate::database::Database;
use crate::read::examined::Examined;
use crate::read::snapshot_collections::{Overlays, SnapshotCollections, unsupported_in_transaction};

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
        self.examined.search()
    }

    /// Index entries and documents examined so far, those of other collections included.
    pub fn counters(&self) -> Counters {
        self.examined.counters()
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
        Ok(Aggregation { documents, done: false, plan, examined: Arc::clone(collections.examined()) })
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
            let Some(made) =
                divided.part(Box::new(treedb_query::aggregate::VecStream::new(part)), &context)?
            else {
                return Ok(None);
            };
            let Some(whole) = &mut whole else {
                whole = Some(made);
                continue;
            };
            let mut fits = true;
            made.send(&mut |message| {
                fits = fits && whole.receive(message)?;
                // A message that has been cut off is an error, and nothing else.
                for end in (0..message.len()).step_by(message.len() / 5 + 1).skip(1) {
                    let mut other = divided
                        .part(Box::new(treedb_query::aggregate::VecStream::new(Vec::new())), &context)?;
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
        let collections = Arc::new(SnapshotCollections::of_request(self, reads, changed, request));
        let named = request.collation.as_deref().map(Collation::parse).transpose()?;
        let mut resolved = None;
        let own = match collections.seen(namespace.as_str()) {
            Ok(Some(seen)) => collections.collation_of(&seen),
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

impl crate::Collection {
    /// Runs a pipeline over the collection: see [`Database::aggregate`].
    ///
    /// # Errors
    /// As there.
    pub fn aggregate(&self, request: &AggregateRequest) -> Result<Aggregation> {
        self.database().aggregate(self.namespace().as_str(), request)
    }
}
