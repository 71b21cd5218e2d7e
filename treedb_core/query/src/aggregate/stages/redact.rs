//! `$redact`: an expression decides which documents, and which subdocuments, are kept.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::write::Writer;
use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Scope};
use crate::query::finish_document;

use crate::aggregate::context::Context;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

/// `$redact`.
#[derive(Debug)]
pub(crate) struct Redact(Expr);

impl Redact {
    /// What is left of `doc`; `None` if nothing is.
    fn document<'a>(&'a self, scope: &mut Scope<'a>, doc: Doc<'a>) -> Result<Option<Writer>> {
        let decision = self.0.eval(&mut scope.at(Value::Document(doc)))?;
        let mut out = Writer::new(doc.as_bytes().len());
        match decision {
            Some(Value::String(b"prune")) => return Ok(None),
            Some(Value::String(b"keep")) => doc.elements().for_each(|element| out.copy(&element)),
            Some(Value::String(b"descend")) => {
                for element in doc.elements() {
                    self.field(scope, element.name, element.value(), &mut out)?;
                }
            }
            _ => {
                return Err(QueryError::new(
                    ErrorCode::Location17053,
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE",
                ));
            }
        }
        Ok(Some(out))
    }

    fn field<'a>(
        &'a self,
        scope: &mut Scope<'a>,
        name: &[u8],
        value: Value<'a>,
        out: &mut Writer,
    ) -> Result<bool> {
        match value {
            Value::Document(inner) => match self.document(scope, inner)? {
                Some(kept) => out.value(name, Value::Document(Doc::new(&kept.into_bytes()))),
                None => return Ok(false),
            },
            Value::Array(array) => {
                let open = out.open_array(name);
                let mut at = 0_usize;
                for element in array.elements() {
                    at += usize::from(self.field(scope, at.to_string().as_bytes(), element.value(), out)?);
                }
                out.close(open);
            }
            value => out.value(name, value),
        }
        Ok(true)
    }
}

struct RedactStream {
    stage: Arc<Redact>,
    context: Context,
    input: BoxedStream,
}

impl Stage for Redact {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let names = &parser.names;
        Ok(Redact(Expr::parse(stage.value(), names)?))
    }

    fn is_per_document(&self) -> bool {
        true
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        Ok(Box::new(RedactStream { stage: self, context: context.clone(), input }))
    }
}

impl DocumentStream for RedactStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(document) = self.input.next()? {
            let doc = Doc::from(&document);
            let arena = Arena::new();
            let mut scope = Scope::new(doc, &self.context.globals, &arena);
            if let Some(kept) = self.stage.document(&mut scope, doc)? {
                return finish_document(kept).map(Some);
            }
        }
        Ok(None)
    }
}
