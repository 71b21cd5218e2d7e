//! `$facet`: several pipelines over the same documents. The result is one document with a field for each pipeline.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Element, MAX_DOCUMENT_SIZE, Value};
use crate::error::{ErrorCode, QueryError, Result};

use crate::aggregate::context::Context;
use crate::aggregate::operand::{document_or, failed};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, collect};

/// `$facet`.
#[derive(Debug)]
pub(crate) struct Facet(Vec<(String, Pipeline)>);

struct FacetStream {
    stage: Arc<Facet>,
    context: Context,
    input: Option<BoxedStream>,
}

/// A stream of the documents that all pipelines read.
struct SharedStream {
    all: Arc<Vec<RawDocumentBuf>>,
    at: usize,
}

impl DocumentStream for SharedStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.at += 1;
        Ok(self.all.get(self.at - 1).cloned())
    }
}

impl Stage for Facet {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let doc = document_or(ErrorCode::Location40169, stage)?;
        let parser = parser.nested(parser.names.clone())?;
        let mut facets = Vec::new();
        for facet in doc.elements() {
            let name = facet.name_str();
            if name.contains('.') || name.starts_with('$') {
                return Err(failed(format!(
                    "$facet: the name '{name}' cannot contain '.' or begin with '$'"
                )));
            }
            let Value::Array(stages) = facet.value() else {
                return Err(QueryError::new(
                    ErrorCode::Location40170,
                    format!(
                        "arguments to $facet must be arrays, {name} is type {}",
                        facet.value().type_name()
                    ),
                ));
            };
            if stages.elements().any(|stage| !matches!(stage.value(), Value::Document(_))) {
                return Err(QueryError::new(
                    ErrorCode::Location40171,
                    format!("elements of arrays in $facet spec must be objects, those of {name} are not"),
                ));
            }
            let pipeline = Pipeline::within(facet.value(), &parser)?;
            if pipeline.begins_with_source() {
                return Err(QueryError::new(
                    ErrorCode::Location40600,
                    format!("$facet: the pipeline '{name}' begins with a stage that is not allowed in it"),
                ));
            }
            facets.push((name.to_owned(), pipeline));
        }
        if facets.is_empty() {
            return Err(QueryError::new(
                ErrorCode::Location40169,
                "the $facet specification must be a non-empty object",
            ));
        }
        Ok(Facet(facets))
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        Ok(Box::new(FacetStream { stage: self, context: context.clone(), input: Some(input) }))
    }
}

impl DocumentStream for FacetStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(input) = self.input.take() else { return Ok(None) };
        let all = Arc::new(collect(input, self.context.memory_limit, "$facet")?);
        let mut out = Writer::new(1024);
        for (name, pipeline) in &self.stage.0 {
            let shared = SharedStream { all: Arc::clone(&all), at: 0 };
            let mut answer = pipeline.open_over(Box::new(shared), &self.context)?;
            let mut list = ArrayWriter::new();
            while let Some(document) = answer.next()? {
                list.push(Value::Document(Doc::from(&document)));
                if out.len() + list.bytes() > MAX_DOCUMENT_SIZE {
                    return Err(QueryError::new(
                        ErrorCode::BSONObjectTooLarge,
                        format!("$facet: the answer is larger than {MAX_DOCUMENT_SIZE} bytes"),
                    ));
                }
            }
            let bytes = list.into_bytes();
            out.value(name.as_bytes(), Value::Array(Doc::new(&bytes)));
        }
        Ok(Some(out.finish()))
    }
}
