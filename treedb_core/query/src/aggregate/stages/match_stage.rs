//! `$match`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::Element;
use crate::error::{ErrorCode, Result};
use crate::query::expr::{Arena, Globals};

use crate::aggregate::context::Context;
use crate::aggregate::operand::document_or;
use crate::aggregate::predicate::Predicate;
use crate::aggregate::stage::{PlannedStage, Reads, Role, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, Visitor};

/// `$match`.
#[derive(Debug)]
pub(crate) struct Match(Predicate);

impl Match {
    /// The stage with this predicate.
    pub(crate) fn new(predicate: Predicate) -> Self {
        Match(predicate)
    }
}

impl Stage for Match {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        Predicate::parse(document_or(ErrorCode::Location15959, stage)?, &parser.names).map(Match)
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let globals = Arc::clone(&context.globals);
        Ok(Box::new(MatchStream { stage: self, globals, arena: Arena::new(), input }))
    }

    fn explain(&self, _: &RawDocument) -> RawDocumentBuf {
        rawdoc! { "$match": self.0.to_document() }
    }

    fn role(&self) -> Role<'_> {
        Role::Match { predicate: &self.0, rebuild: |predicate| Arc::new(Match(predicate)) }
    }

    fn is_per_document(&self) -> bool {
        true
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        if self.0.reads(fields).is_some() { Reads::Named } else { Reads::Any }
    }
}

struct MatchStream {
    stage: Arc<Match>,
    globals: Arc<Globals>,
    arena: Arena,
    input: BoxedStream,
}

impl DocumentStream for MatchStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(document) = self.input.next()? {
            if self.stage.0.matches(&document, &self.globals, &mut self.arena)? {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let MatchStream { stage, globals, arena, input } = self;
        input.for_each(&mut |document| {
            if stage.0.matches(document, globals, arena)? { visit(document) } else { Ok(Flow::Continue(())) }
        })
    }
}
