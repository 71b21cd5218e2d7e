//! [`Stage`]: what a pipeline stage has to offer, and how stages are parsed and opened.
//!
//! Nothing here knows a particular stage. The optimizer ([`super::reorder`]), [`super::pipeline`] and stages that look at
//! those after them ([`super::following`]) use the methods of the trait; [`super::parser`] alone has the list of stages.

use std::fmt::Debug;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::{Element, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Names;
use crate::query::{Query, Sort};

use super::context::Context;
use super::deadline::with_deadline;
use super::predicate::Predicate;
use super::score::{AttachedStream, DetachedStream, Scores};
use super::stream::BoxedStream;

/// Pipelines within pipelines.
const MAX_DEPTH: usize = 20;

/// A parsed stage: it makes a stream of documents from a stream of documents.
pub(crate) trait Stage: Debug + Send + Sync {
    /// Reads the stage from its name and operand.
    ///
    /// # Errors
    /// MongoDB's code for what is wrong.
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self>
    where
        Self: Sized;

    /// The stage's documents, made from those of `input`. The stages `following` this one tell what is needed of them.
    ///
    /// # Errors
    /// Those of `input`.
    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        following: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream>;

    /// How many of the stages following this one [`Self::open`] does as well.
    fn absorbs(&self, _following: &[PlannedStage]) -> usize {
        0
    }

    /// Opens the stage directly over a scan of the collection, where that is faster than [`Self::open`] over its documents;
    /// otherwise `None`.
    ///
    /// # Errors
    /// Those of the scan.
    fn open_scan(self: Arc<Self>, _scan: &Scan<'_>, _context: &Context) -> Result<Option<BoxedStream>> {
        Ok(None)
    }

    /// True if several processes may each do a part of the stage's work, over parts of its input that have no order
    /// ([`Self::open_part`]).
    fn is_divisible(&self) -> bool {
        false
    }

    /// Does the stage's work over a part of its input. `None` if it takes more memory than there is, or if the stage is not
    /// divisible.
    ///
    /// # Errors
    /// Those of `input`.
    fn open_part(
        self: Arc<Self>,
        _input: BoxedStream,
        _context: &Context,
    ) -> Result<Option<Box<dyn StagePart>>> {
        Ok(None)
    }

    /// Refuses a pipeline that ends in this stage if the stage could not write its documents: they need not be computed then.
    ///
    /// # Errors
    /// MongoDB's code for why.
    fn check_target(&self, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// The stage as `explain` shows it; `source` is how it was written.
    fn explain(&self, source: &RawDocument) -> RawDocumentBuf {
        source.to_owned()
    }

    /// What the optimizer may do with the stage as a whole.
    fn role(&self) -> Role<'_> {
        Role::Other
    }

    /// The stage that does the work of this one and, after it, of `next`, if one stage can.
    fn merged_with(&self, _next: &Role<'_>) -> Option<Arc<dyn Stage>> {
        None
    }

    /// True if what a document becomes depends neither on other documents nor on other collections.
    fn is_per_document(&self) -> bool {
        false
    }

    /// True if what a document becomes does not depend on other documents of its own collection. Such a stage may be
    /// opened once for each partition of a parallel scan.
    fn is_partitionable(&self) -> bool {
        self.is_per_document()
    }

    /// True if the result depends on the order of the input.
    fn needs_order(&self) -> bool {
        true
    }

    /// If the stage unwinds the array at `path` and does nothing else: how.
    fn unwinds(&self, _path: &Path) -> Option<UnwindOptions> {
        None
    }

    /// What becomes of the scores of documents that a search has found.
    fn scores(&self) -> Scores {
        if self.is_per_document() { Scores::Kept } else { Scores::Lost }
    }

    /// Adds the top-level fields of the input that the result depends on to `fields`, except those that are passed on
    /// unchanged.
    fn reads(&self, _fields: &mut Vec<String>) -> Reads {
        Reads::Any
    }

    /// Adds the top-level fields of the input that no document of the result has, whatever their values.
    fn leaves_out(&self, _fields: &mut Vec<String>) {}

    /// Adds the fields that are read of the document in the top-level field `field` to `subfields`.
    fn reads_within(&self, field: &str, _subfields: &mut Vec<String>) -> Reads {
        let mut fields = Vec::new();
        match self.reads(&mut fields) {
            _ if fields.iter().any(|read| read == field) => Reads::Any,
            reads => reads,
        }
    }

    /// True if the stage passes the top-level field `field` of each document on unchanged, and does not choose documents by
    /// their number: a filter on that field may move before the stage.
    fn preserves(&self, _field: &str) -> bool {
        false
    }

    /// The top-level field of the input whose value the output has at `path`, where each output document stands for input
    /// documents with that same value.
    fn input_field(&self, _path: &str) -> Option<String> {
        None
    }
}

/// What a stage has made of a part of its input, in one of several processes.
pub(crate) trait StagePart {
    /// Passes all of it to `send`, as messages for another process.
    ///
    /// # Errors
    /// Those of `send`.
    fn send(&self, send: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Adds what a message of another process holds. False if that takes more memory than there is.
    ///
    /// # Errors
    /// `InternalError` if the message is none of such a part.
    fn receive(&mut self, message: &[u8]) -> Result<bool>;

    /// The stage's documents, once all parts have been added.
    fn open(self: Box<Self>, context: &Context) -> BoxedStream;
}

/// What the optimizer may do with a stage as a whole.
pub(crate) enum Role<'s> {
    /// Chooses documents: it can be split, joined with others and moved. `rebuild` makes the same stage of another predicate.
    Match { predicate: &'s Predicate, rebuild: fn(Predicate) -> Arc<dyn Stage> },
    /// Puts the documents in this order.
    Sort(&'s Sort),
    /// Leaves out the first documents.
    Skip(u64),
    /// Keeps the first documents.
    Limit(u64),
    /// Makes one document of each; with the operand if it is a projection that a find can do.
    Project(Option<&'s RawDocument>),
    /// Begins a pipeline with documents of its own.
    Source(&'s dyn Source),
    /// Writes the documents and ends a pipeline.
    Write,
    /// None of these.
    Other,
}

/// Which fields of its input a stage depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reads {
    /// It may be any.
    Any,
    /// The fields named; all others are passed on.
    Named,
    /// The fields named; no others are passed on.
    OnlyNamed,
}

/// A stage that begins a pipeline with documents of its own.
pub(crate) trait Source {
    /// The documents; `namespace` is the collection of the pipeline, `following` the stages after this one.
    fn open_source(
        &self,
        namespace: &str,
        following: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream>;

    /// True if the pipeline must name a collection.
    fn needs_collection(&self) -> bool;
}

/// How an array is unwound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnwindOptions {
    /// Documents without elements are kept.
    pub(crate) preserve_empty: bool,
}

/// A stage with its place in a pipeline.
#[derive(Debug, Clone)]
pub(crate) struct PlannedStage {
    pub(crate) stage: Arc<dyn Stage>,
    /// The stage as it was written; empty if the optimizer made it.
    source: RawDocumentBuf,
}

impl PlannedStage {
    /// A stage that was written as `source`.
    pub(crate) fn new(stage: Arc<dyn Stage>, source: &RawDocument) -> Self {
        PlannedStage { stage, source: source.to_owned() }
    }

    /// A stage that the optimizer made.
    pub(crate) fn derived(stage: Arc<dyn Stage>) -> Self {
        PlannedStage { stage, source: RawDocumentBuf::new() }
    }

    /// The stage as `explain` shows it.
    pub(crate) fn explain(&self) -> RawDocumentBuf {
        self.stage.explain(&self.source)
    }

    pub(crate) fn role(&self) -> Role<'_> {
        self.stage.role()
    }
}

/// A search of a collection whose documents go through the first stages of a pipeline.
pub(crate) struct Scan<'p> {
    pub(crate) namespace: &'p str,
    pub(crate) query: &'p Query,
    /// All stages after the search.
    pub(crate) stages: &'p [PlannedStage],
    /// How many of them come before the stage that is opened; all of these are partitionable.
    pub(crate) before: usize,
}

impl Scan<'_> {
    /// The stages after the one that is opened.
    pub(crate) fn following(&self) -> &[PlannedStage] {
        self.stages.get(self.before + 1..).unwrap_or_default()
    }

    /// Streams that several threads may read, as [`super::Collections::parallel_scan`].
    pub(crate) fn open_partitions(&self, in_order: bool, context: &Context) -> Result<Vec<BoxedStream>> {
        let collections = &context.collections;
        let partitions =
            collections.parallel_scan(self.namespace, self.query.clone(), context.threads, in_order)?;
        let open = |documents| {
            open_stages(self.stages, self.before, with_deadline(documents, context.deadline), context)
        };
        partitions.into_iter().map(open).collect()
    }

    /// A function that opens the scan as one stream, later.
    pub(crate) fn deferred(&self, context: &Context) -> DeferredStream {
        let (namespace, query) = (self.namespace.to_owned(), self.query.clone());
        let (stages, before, context) = (self.stages.to_vec(), self.before, context.clone());
        Box::new(move || {
            let documents = context.collections.find(&namespace, query)?;
            open_stages(&stages, before, with_deadline(documents, context.deadline), &context)
        })
    }
}

/// A stream that is opened when it is needed.
pub(crate) type DeferredStream = Box<dyn FnOnce() -> Result<BoxedStream> + Send>;

/// Opens the first `count` of `stages`, one over the other, over `input`.
pub(crate) fn open_stages(
    stages: &[PlannedStage],
    count: usize,
    input: BoxedStream,
    context: &Context,
) -> Result<BoxedStream> {
    let (mut stream, mut at) = (input, 0);
    while let Some((stage, following)) = stages.get(at..).and_then(<[PlannedStage]>::split_first)
        && at < count
    {
        let score = &context.globals.score;
        stream = if score.is_kept() && stage.stage.scores() == Scores::Held {
            let input = Box::new(AttachedStream { input: stream, score: score.clone() });
            // All fields of all documents: the score is one that no other stage asks for.
            let input = Arc::clone(&stage.stage).open(input, &[], context)?;
            Box::new(DetachedStream { input, score: score.clone() })
        } else {
            Arc::clone(&stage.stage).open(stream, following, context)?
        };
        at += 1 + stage.stage.absorbs(following);
    }
    Ok(stream)
}

/// What the parser of a stage has to know about the pipeline around it.
#[derive(Debug, Clone)]
pub(crate) struct StageParser {
    /// The variables that expressions may use, and the collation.
    pub(crate) names: Names,
    depth: usize,
    parse_stages: ParseStages,
}

/// Parses an array of stages: [`super::parser`] has the list of them.
pub(crate) type ParseStages = fn(Value<'_>, &StageParser) -> Result<Vec<PlannedStage>>;

impl StageParser {
    /// For a pipeline that is not part of another.
    pub(crate) fn new(names: &Names, parse_stages: ParseStages) -> Self {
        StageParser { names: names.clone(), depth: 0, parse_stages }
    }

    /// For a pipeline within a stage, with these variables.
    ///
    /// # Errors
    /// `MaxSubPipelineDepthExceeded`.
    pub(crate) fn nested(&self, names: Names) -> Result<StageParser> {
        if self.depth >= MAX_DEPTH {
            return Err(QueryError::new(
                ErrorCode::MaxSubPipelineDepthExceeded,
                format!("pipelines are nested deeper than {MAX_DEPTH}"),
            ));
        }
        Ok(StageParser { names, depth: self.depth + 1, parse_stages: self.parse_stages })
    }

    /// For stages over documents that have scores, or have none.
    pub(crate) fn with_scores(&self, has_scores: bool) -> StageParser {
        StageParser { names: self.names.clone().with_scores(has_scores), ..self.clone() }
    }

    /// True for a pipeline within a stage.
    pub(crate) fn is_nested(&self) -> bool {
        self.depth > 0
    }

    /// The stages of an array, in the order they are written.
    pub(crate) fn stages(&self, stages: Value<'_>) -> Result<Vec<PlannedStage>> {
        (self.parse_stages)(stages, self)
    }
}
