//! Aggregation pipelines.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use bson::{Document, RawDocumentBuf, rawdoc};
use treedb_collections::AggregateRequest;

use crate::Hint;
use crate::convert::{Deferred, IntoDocument, IntoPipeline};
use crate::cursor::{Cursor, decode};
use crate::error::Result;
use crate::target::Target;

/// The action of [`Collection::aggregate`](crate::Collection::aggregate). Its documents are `T`s.
#[must_use = "an action does nothing until it is run"]
pub struct Aggregate<'c, T = Document> {
    target: &'c Target,
    stages: Result<Vec<RawDocumentBuf>>,
    request: AggregateRequest,
    deferred: Deferred,
    kind: PhantomData<fn() -> T>,
}

impl<'c> Aggregate<'c> {
    pub(crate) fn new(target: &'c Target, pipeline: impl IntoPipeline) -> Self {
        let (stages, request) = (pipeline.into_pipeline(), AggregateRequest::new([]));
        Aggregate { target, stages, request, deferred: Deferred::default(), kind: PhantomData }
    }
}

impl<'c, T> Aggregate<'c, T> {
    /// The same pipeline, its documents as values of another type.
    pub fn with_type<U>(self) -> Aggregate<'c, U> {
        let Aggregate { target, stages, request, deferred, kind: _ } = self;
        Aggregate { target, stages, request, deferred, kind: PhantomData }
    }

    /// Whether `$sort` and `$group` may use temporary files beyond 100 MiB, as they may by default.
    pub fn allow_disk_use(mut self, allow: bool) -> Self {
        self.request.allow_disk_use = allow;
        self
    }

    /// Gives up after this time, with `MaxTimeMSExpired`.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.request.until = Instant::now().checked_add(time);
        self
    }

    /// Variables that expressions may use as `$$name`.
    pub fn let_vars(mut self, variables: impl IntoDocument) -> Self {
        self.request.variables = self.deferred.take(variables);
        self
    }

    /// Finds the documents at the front of the pipeline with the index of this name or key pattern.
    pub fn hint(mut self, index: impl Into<Hint>) -> Self {
        self.request.hint = Some(index.into());
        self
    }

    /// Strings are compared as this says, in all stages.
    pub fn collation(mut self, collation: impl IntoDocument) -> Self {
        self.request.collation = self.deferred.take(collation);
        self
    }

    fn ready(self) -> Result<(&'c Target, AggregateRequest)> {
        self.deferred.check()?;
        let mut request = self.request;
        for stage in self.stages? {
            request.pipeline.push(stage);
        }
        Ok((self.target, request))
    }

    /// Runs the pipeline over a snapshot of all collections that it reads.
    ///
    /// # Errors
    /// Those of the stages, naming stage and field.
    pub fn run(self) -> Result<Cursor<T>> {
        let (target, request) = self.ready()?;
        Ok(Cursor::new(target.aggregate(&request)?))
    }

    /// How the pipeline would be carried out: the plan of the search at its front, and its stages in the order they run.
    ///
    /// # Errors
    /// As [`Self::run`]; `OperationNotSupportedInTransaction` in a transaction.
    pub fn explain(self) -> Result<Document> {
        let (target, request) = self.ready()?;
        target.outside("explain")?;
        let shown = target.database().explain_aggregate(target.name(), &request)?;
        let mut explanation = rawdoc! {};
        if let Some(planner) = shown.planner {
            explanation.append(bson::raw::cstr!("queryPlanner"), planner);
        }
        explanation.append(bson::raw::cstr!("stages"), bson::RawArrayBuf::from_iter(shown.stages));
        decode(&explanation)
    }
}
