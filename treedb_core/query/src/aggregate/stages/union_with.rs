//! `$unionWith`.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, Result};
use crate::query::expr::CurrentScore;

use crate::aggregate::context::Context;
use crate::aggregate::operand::{document, failed, known_fields, optional_string_or};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::score::Scores;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

/// `$unionWith`: the documents of the input, then those of another collection's pipeline.
#[derive(Debug)]
pub(crate) struct UnionWith {
    from: String,
    pipeline: Pipeline,
}

impl Stage for UnionWith {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let parser = parser.nested(parser.names.clone())?;
        if let Value::String(from) = stage.value() {
            let from = std::str::from_utf8(from).unwrap_or_default().to_owned();
            return Ok(UnionWith { from, pipeline: Pipeline::within(Value::Array(Doc::EMPTY), &parser)? });
        }
        let doc = document(stage)?;
        known_fields("$unionWith", doc, &["coll", "pipeline"])?;
        let pipeline = doc.get("pipeline").unwrap_or(Value::Array(Doc::EMPTY));
        let pipeline = Pipeline::within(pipeline, &parser)?;
        let from = match optional_string_or(ErrorCode::TypeMismatch, "$unionWith", doc, "coll")? {
            Some(from) => from.to_owned(),
            None if pipeline.has_source() => String::new(),
            None => return Err(failed("$unionWith needs the field 'coll'")),
        };
        Ok(UnionWith { from, pipeline })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let second = self.pipeline.open(&context.namespace(&self.from), context)?;
        Ok(Box::new(UnionStream { first: Some(input), second, score: context.globals.score.clone() }))
    }

    fn scores(&self) -> Scores {
        Scores::Kept
    }
}

struct UnionStream {
    /// `None` once it has ended.
    first: Option<BoxedStream>,
    second: BoxedStream,
    /// That of the first ones; the second ones have none here.
    score: CurrentScore,
}

impl DocumentStream for UnionStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(first) = &mut self.first {
            if let Some(document) = first.next()? {
                return Ok(Some(document));
            }
            self.first = None;
        }
        self.score.set(None);
        self.second.next()
    }
}
