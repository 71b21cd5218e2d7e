//! [`DividedPipeline`]: a pipeline whose search and first stages several processes run together, each over a part of the
//! collection.
//!
//! Every process parses the same pipeline. A stage that can be made in parts ([`is_divisible`](super::stage::Stage::is_divisible): a `$group` whose
//! result does not depend on the order of the documents) is where they meet: one process adds the parts of the others
//! to its own and goes on with the stages after it. How messages go from one process to another, and who reads which
//! documents, is the caller's part.

use crate::error::Result;
use crate::query::Query;

use super::context::Context;
use super::pipeline::Pipeline;
use super::stage::{PlannedStage, StagePart, open_stages};
use super::stream::BoxedStream;

/// A pipeline, cut at a stage that can be made in parts.
pub struct DividedPipeline<'p> {
    query: Query,
    /// The stages after the search.
    stages: &'p [PlannedStage],
    /// How many of them come before the one that is made in parts; these look at one document at a time.
    before: usize,
}

/// What has been made of a part of the documents.
pub struct PipelinePart(Box<dyn StagePart>);

impl Pipeline {
    /// The pipeline, if it can be divided: it begins with a search without an order and a limit, then come stages that look at
    /// one document at a time, then a stage that can be made in parts.
    ///
    /// # Errors
    /// Those of the filters.
    pub fn divided(&self, context: &Context) -> Result<Option<DividedPipeline<'_>>> {
        if self.begins_with_source() {
            return Ok(None);
        }
        let (mut query, covered) = self.query(context)?;
        if query.sort.is_some() || query.skip > 0 || query.limit > 0 {
            return Ok(None);
        }
        let stages = self.stages_after(covered);
        Pipeline::limit_fields(&mut query, stages);
        let before = stages.iter().position(|stage| !stage.stage.is_per_document());
        let at = before.filter(|at| stages.get(*at).is_some_and(|stage| stage.stage.is_divisible()));
        Ok(at.map(|before| DividedPipeline { query, stages, before }))
    }
}

impl DividedPipeline<'_> {
    /// The search that the pipeline begins with. It has neither sort nor skip nor limit.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Does what can be done with a part of the documents that the search finds. `None` if it takes more memory than there
    /// is: then one process has to do everything ([`Pipeline::open`]), which can use scratch files.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn part(&self, documents: BoxedStream, context: &Context) -> Result<Option<PipelinePart>> {
        let Some(divisible) = self.stages.get(self.before) else { return Ok(None) };
        let input = open_stages(self.stages, self.before, documents, context)?;
        let part = std::sync::Arc::clone(&divisible.stage).open_part(input, context)?;
        Ok(part.map(PipelinePart))
    }

    /// The pipeline's documents, once all parts have been added to `part`.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn finish(&self, part: PipelinePart, context: &Context) -> Result<BoxedStream> {
        let following = self.stages.get(self.before + 1..).unwrap_or_default();
        open_stages(following, following.len(), part.0.open(context), context)
    }
}

impl PipelinePart {
    /// Passes all of it to `send`, as messages for another process, of some tens of kilobytes each.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn send(&self, send: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.0.send(send)
    }

    /// Adds what a message of another process holds, which has the same pipeline. False if that takes more memory than there
    /// is, as in [`DividedPipeline::part`].
    ///
    /// # Errors
    /// `InternalError` if the message is none of such a part.
    pub fn receive(&mut self, message: &[u8]) -> Result<bool> {
        self.0.receive(message)
    }
}
