//! `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`, `$replaceWith`: stages that make one document of each.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::{Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Globals};
use crate::query::{Projection, Reshape};

use crate::aggregate::context::Context;
use crate::aggregate::operand::raw;
use crate::aggregate::stage::{PlannedStage, Reads, Role, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, Visitor};

/// One of the stages.
#[derive(Debug)]
pub(crate) struct Project {
    reshape: Reshape,
    /// The operand, if it is a projection that a find can do: it only includes or excludes fields.
    projection: Option<RawDocumentBuf>,
}

impl Stage for Project {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let Some(reshape) = Reshape::parse(stage, &parser.names)? else {
            return Err(QueryError::new(
                ErrorCode::InternalError,
                format!("{} does not make one document of each", stage.name_str()),
            ));
        };
        Ok(Project { reshape, projection: plain_projection(stage) })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let globals = Arc::clone(&context.globals);
        Ok(Box::new(ProjectStream { stage: self, globals, arena: Arena::new(), input }))
    }

    fn role(&self) -> Role<'_> {
        Role::Project(self.projection.as_deref())
    }

    fn is_per_document(&self) -> bool {
        true
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        match self.reshape.reads(fields) {
            None => Reads::Any,
            Some(false) => Reads::Named,
            Some(true) => Reads::OnlyNamed,
        }
    }

    fn leaves_out(&self, fields: &mut Vec<String>) {
        self.reshape.leaves_out(fields);
    }

    fn preserves(&self, field: &str) -> bool {
        self.reshape.leaves(field)
    }
}

/// The operand of a `$project` that only includes or excludes fields.
fn plain_projection(stage: &Element<'_>) -> Option<RawDocumentBuf> {
    let Value::Document(operand) = stage.value() else { return None };
    if stage.name != b"$project" {
        return None;
    }
    let plain = raw(operand).ok()?;
    // What is computed is computed by the stage: only of documents that are asked for, and with the variables of the pipeline.
    let parsed = Projection::parse(plain).ok().flatten()?;
    (!parsed.has_computed_fields()).then(|| plain.to_owned())
}

struct ProjectStream {
    stage: Arc<Project>,
    globals: Arc<Globals>,
    arena: Arena,
    input: BoxedStream,
}

impl DocumentStream for ProjectStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.input.next()? else { return Ok(None) };
        self.arena.clear();
        self.stage.reshape.apply(&document, &self.globals, &self.arena).map(Some)
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let ProjectStream { stage, globals, arena, input } = self;
        input.for_each(&mut |document| {
            arena.clear();
            visit(&stage.reshape.apply(document, globals, arena)?)
        })
    }
}
