//! `$facet`: several pipelines over the same documents, each answer a field of one document.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Element, MAX_DOCUMENT_SIZE, Value};
use crate::error::{ErrorCode, QueryError, Result};

use super::pipeline::{Parser, Pipeline, Stage};
use super::stream::{Docs, Stream, collect};
use super::world::Context;

/// `$facet`.
#[derive(Debug)]
pub(super) struct Facet(Vec<(String, Pipeline)>);

impl Facet {
    pub(super) fn parse(stage: &Element<'_>, parser: &Parser) -> Result<Facet> {
        let doc = super::document(stage)?;
        let inner = parser.within(parser.names.clone())?;
        let mut facets = Vec::new();
        for facet in doc.elements() {
            let name = facet.name_str();
            if name.contains('.') || name.starts_with('$') {
                return Err(super::failed(format!(
                    "$facet: the name '{name}' cannot contain '.' or begin with '$'"
                )));
            }
            let pipeline = inner.pipeline(facet.value())?;
            if pipeline.reads_elsewhere() {
                return Err(QueryError::new(
                    ErrorCode::Location40600,
                    format!("$facet: the pipeline '{name}' begins with a stage that is not allowed in it"),
                ));
            }
            facets.push((name.to_owned(), pipeline));
        }
        if facets.is_empty() {
            return Err(super::failed("the $facet specification must be a non-empty object"));
        }
        Ok(Facet(facets))
    }
}

struct Facets {
    stage: Arc<Facet>,
    context: Context,
    input: Option<Docs>,
}

/// Documents that several pipelines read.
struct Shared {
    all: Arc<Vec<RawDocumentBuf>>,
    at: usize,
}

impl Stream for Shared {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.at += 1;
        Ok(self.all.get(self.at - 1).cloned())
    }
}

impl Stage for Facet {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        Ok(Box::new(Facets { stage: self, context: context.clone(), input: Some(input) }))
    }
}

impl Stream for Facets {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(input) = self.input.take() else { return Ok(None) };
        let all = Arc::new(collect(input, self.context.memory, "$facet")?);
        let mut out = Writer::new(1024);
        for (name, pipeline) in &self.stage.0 {
            let shared = Shared { all: Arc::clone(&all), at: 0 };
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
