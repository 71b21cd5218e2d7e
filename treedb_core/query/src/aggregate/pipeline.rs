//! [`Pipeline`]: giving its front to the planner, and putting the streams of its stages together.

use std::sync::Arc;

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use crate::doc::{Collation, Value};
use crate::error::Result;
use crate::query::expr::{CurrentScore, Globals};
use crate::query::{Filter, Hint, Projection, Query};

use super::context::Context;
use super::deadline::with_deadline;
use super::following::used_fields;
use super::reorder::reordered;
use super::score::Scores;
use super::stage::{PlannedStage, Role, Scan, Stage, StageParser, open_stages};
use super::stream::BoxedStream;

/// A parsed pipeline. It can be run any number of times.
#[derive(Debug, Clone)]
pub struct Pipeline {
    stages: Vec<PlannedStage>,
    /// How strings compare in the search that the pipeline begins with.
    collation: Collation,
}

impl Pipeline {
    /// The pipeline of an array of stages, as `parser` reads them.
    pub(crate) fn within(stages: Value<'_>, parser: &StageParser) -> Result<Pipeline> {
        let stages = reordered(parser.stages(stages)?)?;
        Ok(Pipeline { stages, collation: parser.names.collation().clone() })
    }

    /// The same pipeline with `stage` before its first stage.
    pub(crate) fn preceded_by(&self, stage: Arc<dyn Stage>) -> Pipeline {
        let stages =
            std::iter::once(PlannedStage::derived(stage)).chain(self.stages.iter().cloned()).collect();
        Pipeline { stages, collation: self.collation.clone() }
    }

    /// True if the result is the input.
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// True if the pipeline ends in `$out` or `$merge`.
    pub fn writes(&self) -> bool {
        self.stages.last().is_some_and(|last| matches!(last.role(), Role::Write))
    }

    /// Refuses a pipeline that ends in `$out` or `$merge` into a collection that these cannot write. Without this it fails when
    /// its documents have been computed, or not at all if there are none.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView`, and others with MongoDB's code for why.
    pub fn check_target(&self, context: &Context) -> Result<()> {
        self.stages.last().map_or(Ok(()), |last| last.stage.check_target(context))
    }

    /// True if the pipeline begins with documents of its own and needs no collection.
    pub fn has_source(&self) -> bool {
        matches!(self.stages.first().map(PlannedStage::role), Some(Role::Source(source)) if !source.needs_collection())
    }

    /// True if the pipeline begins with documents other than its input.
    pub(crate) fn begins_with_source(&self) -> bool {
        matches!(self.stages.first().map(PlannedStage::role), Some(Role::Source(_)))
    }

    /// The front of the pipeline as one query, and how many stages that covers.
    ///
    /// # Errors
    /// Those of the filters.
    pub fn query(&self, context: &Context) -> Result<(Query, usize)> {
        let mut query = Query::new(Filter::all());
        let mut filters = Vec::new();
        // A find applies its parts in this order: filter, sort, skip, limit, projection.
        let (mut covered, mut reached) = (0, 0);
        for stage in &self.stages {
            let role = stage.role();
            let rank = match role {
                Role::Match { .. } => 0,
                Role::Sort(_) => 1,
                Role::Skip(_) => 2,
                Role::Limit(_) => 3,
                Role::Project(Some(_)) => 4,
                _ => break,
            };
            // There may be several filters, also after a sort; of the others one each, in this order.
            if rank < reached && !(rank == 0 && reached == 1) || rank == reached && rank > 0 {
                break;
            }
            match role {
                Role::Match { predicate, .. } => {
                    filters.extend(predicate.planner_filters(&context.globals));
                    // A predicate with expressions stays a stage as well.
                    if predicate.has_expressions() {
                        break;
                    }
                }
                Role::Sort(sort) => query.sort = Some(sort.clone()),
                Role::Skip(skip) => query.skip = skip,
                Role::Limit(limit) => query.limit = limit,
                Role::Project(projection) => {
                    query.projection = projection.map(Projection::parse).transpose()?.flatten();
                }
                _ => break,
            }
            reached = reached.max(rank);
            covered += 1;
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
        Ok((query.collated(&self.collation)?, covered))
    }

    /// Runs the pipeline over the collection `namespace` (`database.collection`).
    ///
    /// # Errors
    /// Those of the stages. A stage that needs all of its input before its first document reads it when that document
    /// is asked for.
    pub fn open(&self, namespace: &str, context: &Context) -> Result<BoxedStream> {
        self.open_with_hint(namespace, None, context)
    }

    /// [`Self::open`], with the name of the index to find the documents by.
    ///
    /// # Errors
    /// As there, and `BadValue` for an index that does not exist.
    pub fn open_with_hint(
        &self,
        namespace: &str,
        hint: Option<Hint>,
        context: &Context,
    ) -> Result<BoxedStream> {
        if let Some((first, following)) = self.stages.split_first()
            && let Role::Source(source) = first.role()
        {
            let scored;
            let context = match first.stage.scores() {
                Scores::Given => {
                    let score = CurrentScore::kept();
                    scored = context.with_globals(Globals { score, ..(*context.globals).clone() });
                    &scored
                }
                _ => context,
            };
            return open_all(following, source.open_source(namespace, following, context)?, context);
        }
        let (mut query, covered) = self.front(namespace, hint, context)?;
        let stages = self.stages_after(covered);
        Self::limit_fields(&mut query, stages);
        // The first stage that needs more than one document at a time may have a faster way to read the collection.
        if let Some(before) = stages.iter().position(|stage| !stage.stage.is_partitionable())
            && let Some(stage) = stages.get(before)
        {
            let scan = Scan { namespace, query: &query, stages, before };
            if let Some(stream) = Arc::clone(&stage.stage).open_scan(&scan, context)? {
                return open_all(scan.following(), stream, context);
            }
        }
        let documents = with_deadline(context.collections.find(namespace, query)?, context.deadline);
        open_all(stages, documents, context)
    }

    /// The stages after the first `covered`.
    pub(super) fn stages_after(&self, covered: usize) -> &[PlannedStage] {
        self.stages.get(covered..).unwrap_or_default()
    }

    /// Tells the query which fields the stages after it use, unless it has a projection.
    pub(super) fn limit_fields(query: &mut Query, stages: &[PlannedStage]) {
        if query.projection.is_none() {
            query.used = used_fields(stages, &query.filter);
        }
    }

    /// The query that the pipeline begins with, and how many stages that covers.
    fn front(&self, namespace: &str, hint: Option<Hint>, context: &Context) -> Result<(Query, usize)> {
        let (mut query, mut covered) = self.query(context)?;
        query.hint = hint;
        // Without an index for the order, `$sort` stays a stage: it can use scratch files.
        if query.sort.is_some() && !context.collections.provides_order(namespace, &query)? {
            query = Query { sort: None, skip: 0, limit: 0, projection: None, ..query };
            let sort = self.stages.iter().position(|stage| matches!(stage.role(), Role::Sort(_)));
            covered = sort.unwrap_or(covered);
        }
        Ok((query, covered))
    }

    /// How the pipeline is run: the query it begins with, `None` if it begins with documents of its own, and the stages
    /// after it in the order they run.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn explain(
        &self,
        namespace: &str,
        hint: Option<Hint>,
        context: &Context,
    ) -> Result<(Option<Query>, Vec<RawDocumentBuf>)> {
        let (query, covered) = if self.begins_with_source() {
            (None, 0)
        } else {
            let (query, covered) = self.front(namespace, hint, context)?;
            (Some(query), covered)
        };
        Ok((query, self.stages.iter().skip(covered).map(PlannedStage::explain).collect()))
    }

    /// The kinds of the stages in the order they run, with the fields that filters read.
    #[cfg(test)]
    pub(super) fn summary(&self) -> Vec<String> {
        let one = |stage: &PlannedStage| match stage.role() {
            Role::Match { predicate, .. } => {
                let mut fields = Vec::new();
                let _ = predicate.reads(&mut fields);
                format!("match({})", fields.join(","))
            }
            Role::Sort(_) => "sort".to_owned(),
            Role::Skip(_) => "skip".to_owned(),
            Role::Limit(_) => "limit".to_owned(),
            Role::Project(_) => "project".to_owned(),
            _ if stage.explain().get("$group").is_ok_and(|group| group.is_some()) => "group".to_owned(),
            _ => "other".to_owned(),
        };
        self.stages.iter().map(one).collect()
    }

    /// Runs the pipeline over the documents of `input`.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn open_over(&self, input: BoxedStream, context: &Context) -> Result<BoxedStream> {
        open_all(&self.stages, input, context)
    }
}

fn open_all(stages: &[PlannedStage], input: BoxedStream, context: &Context) -> Result<BoxedStream> {
    open_stages(stages, stages.len(), input, context)
}
