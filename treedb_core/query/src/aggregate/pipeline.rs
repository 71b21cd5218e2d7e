//! Reading a pipeline, giving its front to the planner, and putting the streams of its stages together.

use std::sync::Arc;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::doc::{Collation, Doc, Element, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Names;
use crate::query::{Filter, Hint, Projection, Query, Reshape, Sort, UsedFields};

use super::looking::Apart;
use super::shape::{Match, Shape};
use super::stream::{Clock, Docs, Timed};
use super::world::Context;
use super::{
    bucket, densify, facet, graph, group, limit, lookup, redact, reorder, sort, source, unwind, window, write,
};

/// Stages a pipeline may have, nested ones counted on their own: MongoDB's limit.
pub const MAX_STAGES: usize = 1000;

/// Pipelines in pipelines.
const MAX_DEPTH: usize = 20;

/// A stage that makes a stream of a stream.
pub(super) trait Stage: std::fmt::Debug + Send + Sync {
    /// The stage's documents, made of those of `input`.
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs>;

    /// The stage's documents, made of those of `input` for the stages of `rest`; of these it does the work of as many as it
    /// says.
    fn open_before(self: Arc<Self>, rest: &[Node], input: Docs, context: &Context) -> Result<(Docs, usize)> {
        let _ = rest;
        Ok((self.open(input, context)?, 0))
    }

    /// True if what a document becomes does not depend on others, nor on other collections.
    fn is_for_each(&self) -> bool {
        false
    }

    /// True if what a document becomes does not depend on others of its own collection: the stage may be opened for each
    /// of several parts of it.
    fn is_apart(&self) -> bool {
        self.is_for_each()
    }

    /// How the array at `path` is taken apart, if the stage does that and nothing else.
    fn unwinds(&self, _path: &Path) -> Option<Apart> {
        None
    }

    /// Adds the top-level fields that are read to make the documents, where all others stay as they are; `None` if
    /// any may be.
    fn reads(&self, _names: &mut Vec<String>) -> Option<()> {
        None
    }

    /// True if the top-level field `name` of each document stays as it is, whatever else becomes of it, and documents
    /// are not chosen by their number: a filter on that field may go before the stage.
    fn leaves(&self, _name: &str) -> bool {
        false
    }
}

/// One parsed stage.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Match(Arc<Match>),
    Sort(Sort),
    Skip(u64),
    Limit(u64),
    /// With its operand, where that is a projection a find can have.
    Project(Arc<Shape>, Option<RawDocumentBuf>),
    /// Begins a pipeline; the collection is not read.
    Source(source::Source),
    Group(Arc<group::Group>),
    /// With the stage as it was written.
    Other(Arc<dyn Stage>, RawDocumentBuf),
    /// Ends a pipeline.
    Write(Arc<write::Write>),
}

impl Node {
    /// True if what a document becomes does not depend on others, nor on other collections.
    pub(super) fn is_for_each(&self) -> bool {
        match self {
            Node::Match(_) | Node::Project(..) => true,
            Node::Other(stage, _) => stage.is_for_each(),
            _ => false,
        }
    }

    /// True if the stage may be opened for each of several parts of a collection.
    fn is_apart(&self) -> bool {
        match self {
            Node::Other(stage, _) => stage.is_apart(),
            node => node.is_for_each(),
        }
    }
}

impl Node {
    /// The stage in MongoDB's notation.
    fn written(&self) -> RawDocumentBuf {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            Node::Match(found) => rawdoc! { "$match": found.written() },
            Node::Sort(sort) => rawdoc! { "$sort": sort.written() },
            Node::Skip(skip) => rawdoc! { "$skip": number(*skip) },
            Node::Limit(limit) => rawdoc! { "$limit": number(*limit) },
            Node::Project(shape, _) => shape.1.clone(),
            Node::Group(group) => group.source.clone(),
            Node::Other(_, source) => source.clone(),
            Node::Source(source) => source.written(),
            Node::Write(write) => write.written(),
        }
    }
}

/// What the parser knows.
#[derive(Debug, Clone)]
pub(super) struct Parser {
    pub(super) names: Names,
    depth: usize,
    /// Stages that write are refused: the pipeline is part of another.
    inner: bool,
}

impl Parser {
    /// For a pipeline within a stage, with other variables.
    pub(super) fn within(&self, names: Names) -> Result<Parser> {
        if self.depth >= MAX_DEPTH {
            return Err(QueryError::new(
                ErrorCode::MaxSubPipelineDepthExceeded,
                format!("pipelines are nested deeper than {MAX_DEPTH}"),
            ));
        }
        Ok(Parser { names, depth: self.depth + 1, inner: true })
    }

    /// The pipeline in an array of stages.
    pub(super) fn pipeline(&self, stages: Value<'_>) -> Result<Pipeline> {
        let Value::Array(stages) = stages else {
            return Err(QueryError::new(ErrorCode::TypeMismatch, "A pipeline must be an array of stages"));
        };
        let mut nodes = Vec::new();
        for (at, stage) in stages.elements().enumerate() {
            let Value::Document(stage) = stage.value() else {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            if at >= MAX_STAGES {
                return Err(super::failed(format!("a pipeline has at most {MAX_STAGES} stages")));
            }
            if matches!(nodes.last(), Some(Node::Write(_))) {
                return Err(QueryError::new(
                    ErrorCode::Location40601,
                    "$out and $merge can only be the final stage in the pipeline",
                ));
            }
            let found = self.stage(stage)?;
            if at > 0 && matches!(found.first(), Some(Node::Source(_))) {
                return Err(QueryError::new(
                    ErrorCode::Location40602,
                    "$documents, $collStats and $indexStats are only valid as the first stage in a pipeline",
                ));
            }
            nodes.extend(found);
        }
        let collation = self.names.collation().clone();
        Ok(Pipeline { nodes: reorder::reordered(nodes)?, collation })
    }

    fn stage(&self, stage: Doc<'_>) -> Result<Vec<Node>> {
        let mut elements = stage.elements();
        let (Some(element), None) = (elements.next(), elements.next()) else {
            return Err(QueryError::new(
                ErrorCode::Location40323,
                "A pipeline stage specification object must contain exactly one field.",
            ));
        };
        let name = element.name_str();
        if let Some(reshape) = Reshape::parse(&element, &self.names)? {
            let plain = if name == "$project" { plain_projection(&element) } else { None };
            return Ok(vec![Node::Project(Arc::new(Shape(reshape, raw(stage)?.to_owned())), plain)]);
        }
        let written = raw(stage)?;
        let other = |stage: Arc<dyn Stage>| Ok(vec![Node::Other(stage, written.to_owned())]);
        match name {
            "$match" => Ok(vec![Node::Match(Arc::new(Match::parse(&element, &self.names)?))]),
            "$sort" => match Sort::parse(raw(super::document(&element)?)?)? {
                Some(sort) => Ok(vec![Node::Sort(sort.collated(self.names.collation()))]),
                None => Err(QueryError::new(
                    ErrorCode::Location15976,
                    "$sort stage must have at least one sort key",
                )),
            },
            "$skip" => Ok(vec![Node::Skip(limit::amount(&element, ErrorCode::Location15956)?)]),
            "$limit" => match limit::amount(&element, ErrorCode::Location15957)? {
                0 => Err(QueryError::new(ErrorCode::Location15958, "the limit must be positive")),
                limit => Ok(vec![Node::Limit(limit)]),
            },
            "$count" => self.stages(&group::count(&element)?),
            "$sortByCount" => self.stages(&group::sort_by_count(&element)?),
            "$bucket" => self.stages(&bucket::desugar(&element, self.names.collation())?),
            "$group" => Ok(vec![Node::Group(Arc::new(group::Group::parse(&element, &self.names)?))]),
            "$bucketAuto" => other(Arc::new(bucket::Auto::parse(&element, &self.names)?)),
            "$sample" => other(Arc::new(limit::Sample::parse(&element)?)),
            "$unwind" => other(Arc::new(unwind::Unwind::parse(&element)?)),
            "$lookup" => other(Arc::new(lookup::Lookup::parse(&element, self)?)),
            "$unionWith" => other(Arc::new(lookup::Union::parse(&element, self)?)),
            "$graphLookup" => other(Arc::new(graph::Graph::parse(&element, &self.names)?)),
            "$facet" => other(Arc::new(facet::Facet::parse(&element, self)?)),
            "$redact" => other(Arc::new(redact::Redact::parse(&element, &self.names)?)),
            "$setWindowFields" => other(Arc::new(window::Window::parse(&element, &self.names)?)),
            "$densify" => other(Arc::new(densify::Densify::parse(&element, self.names.collation())?)),
            "$fill" => self.stages(&densify::fill(&element)?),
            "$documents" | "$collStats" | "$indexStats" => {
                Ok(vec![Node::Source(source::Source::parse(&element, &self.names)?)])
            }
            "$out" | "$merge" if self.inner => Err(QueryError::new(
                ErrorCode::Location40600,
                format!("{name} is not allowed inside of another stage's pipeline"),
            )),
            "$out" | "$merge" => Ok(vec![Node::Write(Arc::new(write::Write::parse(&element, self)?))]),
            "$changeStream" => Err(QueryError::new(
                ErrorCode::Location40573,
                "the stage $changeStream is only supported as the first of a pipeline that watches a collection or database \
                 whose changes are recorded",
            )),
            "$geoNear" | "$search" | "$searchMeta" | "$vectorSearch" | "$currentOp" | "$listSessions"
            | "$listLocalSessions" | "$planCacheStats" => {
                Err(QueryError::new(ErrorCode::NotImplemented, format!("the stage {name} is not supported")))
            }
            name => Err(QueryError::new(
                ErrorCode::Location40324,
                format!("Unrecognized pipeline stage name: '{name}'"),
            )),
        }
    }

    /// Stages that another one stands for.
    fn stages(&self, stages: &[RawDocumentBuf]) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for stage in stages {
            nodes.extend(self.stage(Doc::from(stage))?);
        }
        Ok(nodes)
    }
}

/// A document's bytes as the `bson` crate's type.
pub(super) fn raw(doc: Doc<'_>) -> Result<&RawDocument> {
    Ok(RawDocument::from_bytes(doc.as_bytes())?)
}

/// The operand of a `$project` that only keeps or drops fields.
fn plain_projection(stage: &Element<'_>) -> Option<RawDocumentBuf> {
    let Value::Document(doc) = stage.value() else { return None };
    let plain = raw(doc).ok()?;
    Projection::parse(plain).ok().flatten().map(|_| plain.to_owned())
}

/// A parsed pipeline. It can be run any number of times.
#[derive(Debug, Clone)]
pub struct Pipeline {
    nodes: Vec<Node>,
    /// How texts compare in what is searched for.
    collation: Collation,
}

impl Pipeline {
    /// Reads an array of stages; `names` are the variables its expressions may use.
    ///
    /// # Errors
    /// MongoDB's code for what is wrong, and a message that names the stage.
    pub fn parse(stages: Value<'_>, names: &Names) -> Result<Pipeline> {
        Parser { names: names.clone(), depth: 0, inner: false }.pipeline(stages)
    }

    /// True if it gives its input.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True if the pipeline ends in `$out` or `$merge`.
    pub fn writes(&self) -> bool {
        matches!(self.nodes.last(), Some(Node::Write(_)))
    }

    /// True if the pipeline begins with documents of its own: no collection is read.
    pub fn has_source(&self) -> bool {
        matches!(self.nodes.first(), Some(Node::Source(source)) if source.is_free())
    }

    /// True if the pipeline begins with documents that are not its input.
    pub(super) fn reads_elsewhere(&self) -> bool {
        matches!(self.nodes.first(), Some(Node::Source(_)))
    }

    /// The front of the pipeline as one search, and how many stages that is.
    ///
    /// # Errors
    /// Those of the filters.
    pub fn query(&self, context: &Context) -> Result<(Query, usize)> {
        let mut query = Query::new(Filter::all());
        let mut filters = Vec::new();
        let (mut used, mut reached) = (0, 0);
        for node in &self.nodes {
            let rank = match node {
                Node::Match(_) => 0,
                Node::Sort(_) => 1,
                Node::Skip(_) => 2,
                Node::Limit(_) => 3,
                Node::Project(_, Some(_)) => 4,
                _ => break,
            };
            // Filters are many, and may come behind a sort; everything else is there once, in this order.
            if rank < reached && !(rank == 0 && reached == 1) || rank == reached && rank > 0 {
                break;
            }
            match node {
                Node::Match(found) => {
                    filters.extend(found.pushed(&context.globals));
                    // What only an expression can decide stays a stage of its own.
                    if found.has_rest() {
                        break;
                    }
                }
                Node::Sort(sort) => query.sort = Some(sort.clone()),
                Node::Skip(skip) => query.skip = *skip,
                Node::Limit(limit) => query.limit = *limit,
                Node::Project(_, fields) => {
                    query.projection = fields.as_deref().map(Projection::parse).transpose()?.flatten();
                }
                _ => break,
            }
            reached = reached.max(rank);
            used += 1;
        }
        query.filter = match filters.len() {
            0 => Filter::all(),
            1 => Filter::parse(&filters.pop().unwrap_or_default())?,
            _ => {
                let mut all = RawArrayBuf::new();
                filters.into_iter().for_each(|filter| all.push(filter));
                Filter::parse(&rawdoc! { "$and": all })?
            }
        };
        Ok((query.collated(&self.collation)?, used))
    }

    /// Runs the pipeline over the collection `namespace` (`database.collection`).
    ///
    /// # Errors
    /// Those of the stages; a stage that must see all documents reads them when the first of its own is asked for.
    pub fn open(&self, namespace: &str, context: &Context) -> Result<Docs> {
        self.open_with_hint(namespace, None, context)
    }

    /// [`Self::open`], using the index of this name to find the documents.
    ///
    /// # Errors
    /// As there, and `BadValue` for an index that does not exist.
    pub fn open_with_hint(&self, namespace: &str, hint: Option<Hint>, context: &Context) -> Result<Docs> {
        if let Some((Node::Source(source), rest)) = self.nodes.split_first() {
            let input = source.open(namespace, context)?;
            return chain(rest, input, context);
        }
        let (mut query, used) = self.front(namespace, hint, context)?;
        let rest = self.nodes.get(used..).unwrap_or_default();
        if query.projection.is_none() {
            let names = reorder::used(rest, Vec::new());
            query.used = names.map(|names| UsedFields::new(&names, &query.filter));
        }
        // Groups are made by several threads, if the collection can be read by several.
        let group = rest.iter().position(|node| !node.is_apart());
        if let Some(at) = group
            && let Some((front, [Node::Group(group), behind @ ..])) = rest.split_at_checked(at)
        {
            if front.is_empty() && group.counts().is_some() {
                let count = context.world.count(namespace, query)?;
                return chain(behind, group.counted(count)?, context);
            }
            let parts =
                context.world.parts(namespace, query.clone(), context.threads, !group.is_unordered())?;
            let parts = parts.into_iter().map(|docs| chained(rest, at, timed(docs, context), context));
            let parts = parts.collect::<Result<_>>()?;
            let (rest, all) = (rest.to_vec(), (namespace.to_owned(), context.clone()));
            let again = Box::new(move || {
                let (namespace, context) = all;
                chained(&rest, at, timed(context.world.find(&namespace, query)?, &context), &context)
            });
            return chain(behind, Arc::clone(group).open_parts(parts, again, context), context);
        }
        // The first documents of an order are found by the collection, if it can.
        let plain = query.sort.is_none() && query.skip == 0 && query.limit == 0 && query.projection.is_none();
        if let Some((Node::Sort(sort), behind)) = rest.split_first()
            && let Some(wanted) = wanted(behind).filter(|_| plain)
        {
            let needed = reorder::needed(sort, behind);
            let first = sort::First::new(namespace, query, sort.clone(), wanted, needed, context);
            return chain(behind, Box::new(first), context);
        }
        chain(rest, timed(context.world.find(namespace, query)?, context), context)
    }

    /// What is searched for, and how many stages that is.
    fn front(&self, namespace: &str, hint: Option<Hint>, context: &Context) -> Result<(Query, usize)> {
        let (mut query, mut used) = self.query(context)?;
        query.hint = hint;
        // What must be sorted is sorted here, where there may be more of it than fits in memory.
        if query.sort.is_some() && !context.world.gives_order(namespace, &query)? {
            query = Query { sort: None, skip: 0, limit: 0, projection: None, ..query };
            used = self.nodes.iter().position(|node| matches!(node, Node::Sort(_))).unwrap_or(used);
        }
        Ok((query, used))
    }

    /// How the pipeline is carried out: the search it begins with, `None` if it begins with documents of its own, and
    /// the stages behind it, in the order they are run in.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn explain(
        &self,
        namespace: &str,
        hint: Option<Hint>,
        context: &Context,
    ) -> Result<(Option<Query>, Vec<RawDocumentBuf>)> {
        let (query, used) = match self.nodes.first() {
            Some(Node::Source(_)) => (None, 0),
            _ => {
                let (query, used) = self.front(namespace, hint, context)?;
                (Some(query), used)
            }
        };
        Ok((query, self.nodes.iter().skip(used).map(Node::written).collect()))
    }

    /// The kinds of its stages in the order they are run in, with the fields that filters read.
    #[cfg(test)]
    pub(super) fn shown(&self) -> Vec<String> {
        let one = |node: &Node| match node {
            Node::Match(found) => {
                let mut names = Vec::new();
                let _ = found.reads(&mut names);
                format!("match({})", names.join(","))
            }
            Node::Sort(_) => "sort".to_owned(),
            Node::Skip(_) => "skip".to_owned(),
            Node::Limit(_) => "limit".to_owned(),
            Node::Project(..) => "project".to_owned(),
            Node::Group(_) => "group".to_owned(),
            _ => "other".to_owned(),
        };
        self.nodes.iter().map(one).collect()
    }

    /// Runs the pipeline over documents.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn open_over(&self, input: Docs, context: &Context) -> Result<Docs> {
        chain(&self.nodes, input, context)
    }

    /// The same stages behind those of `front`.
    pub(super) fn behind(&self, front: Node) -> Pipeline {
        let nodes = std::iter::once(front).chain(self.nodes.iter().cloned()).collect();
        Pipeline { nodes, collation: self.collation.clone() }
    }
}

/// The same documents, until the time is up.
pub(super) fn timed(input: Docs, context: &Context) -> Docs {
    match context.until {
        Some(_) => Box::new(Timed { input, clock: Clock::new(context.until) }),
        None => input,
    }
}

/// Documents that a sort must keep if only a part of its answer is taken: a limit behind it, after skips.
fn wanted(rest: &[Node]) -> Option<usize> {
    let mut skipped = 0_u64;
    for node in rest {
        match node {
            Node::Skip(skip) => skipped = skipped.saturating_add(*skip),
            Node::Limit(limit) => return usize::try_from(skipped.saturating_add(*limit)).ok(),
            // One document becomes one document.
            Node::Project(..) => {}
            _ => return None,
        }
    }
    None
}

fn chain(nodes: &[Node], input: Docs, context: &Context) -> Result<Docs> {
    chained(nodes, nodes.len(), input, context)
}

/// What the first `count` of some stages make of documents, for the others.
fn chained(nodes: &[Node], count: usize, input: Docs, context: &Context) -> Result<Docs> {
    let mut docs = input;
    let mut rest = nodes;
    while nodes.len() - rest.len() < count
        && let Some((node, behind)) = rest.split_first()
    {
        rest = behind;
        docs = match node {
            Node::Match(stage) => Arc::clone(stage).open(docs, context)?,
            Node::Project(stage, _) => Arc::clone(stage).open(docs, context)?,
            Node::Sort(sort) => {
                let (wanted, needed) = (wanted(rest), reorder::needed(sort, rest));
                Box::new(sort::Sorting::new(sort.clone(), wanted, needed, docs, context))
            }
            Node::Skip(skip) => Box::new(limit::Skip::new(docs, *skip)),
            Node::Limit(limit) => Box::new(limit::Limit::new(docs, *limit)),
            Node::Group(stage) => Arc::clone(stage).open(docs, context)?,
            Node::Other(stage, _) => {
                let (opened, taken) = Arc::clone(stage).open_before(rest, docs, context)?;
                rest = rest.get(taken..).unwrap_or_default();
                opened
            }
            Node::Write(stage) => Arc::clone(stage).open(docs, context)?,
            Node::Source(_) => {
                return Err(super::failed("a stage that begins a pipeline cannot stand within one"));
            }
        };
    }
    Ok(docs)
}
