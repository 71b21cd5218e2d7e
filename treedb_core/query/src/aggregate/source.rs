//! Stages that begin a pipeline with documents of their own: `$documents`, `$collStats`, `$indexStats`.

use bson::{RawDocumentBuf, rawdoc};

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Names, Scope};

use super::pipeline::raw;
use super::stream::{Docs, List};
use super::world::Context;

/// Where documents come from that lie in no collection.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Documents(Expr),
    Collection,
    Indexes,
}

impl Source {
    pub(super) fn parse(stage: &Element<'_>, names: &Names) -> Result<Source> {
        Ok(match stage.name {
            b"$documents" => Source::Documents(Expr::parse(stage.value(), names)?),
            b"$collStats" => {
                super::only("$collStats", super::document(stage)?, &["count", "storageStats"])?;
                Source::Collection
            }
            _ => {
                super::only("$indexStats", super::document(stage)?, &[])?;
                Source::Indexes
            }
        })
    }

    /// The stage in MongoDB's notation.
    pub(super) fn written(&self) -> RawDocumentBuf {
        match self {
            Source::Documents(_) => rawdoc! { "$documents": {} },
            Source::Collection => rawdoc! { "$collStats": {} },
            Source::Indexes => rawdoc! { "$indexStats": {} },
        }
    }

    /// True if no collection needs to be named.
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Source::Documents(_))
    }

    pub(super) fn open(&self, namespace: &str, context: &Context) -> Result<Docs> {
        let all = match self {
            Source::Collection => vec![context.world.collection_stats(namespace)?],
            Source::Indexes => context.world.index_stats(namespace)?,
            Source::Documents(expr) => documents(expr, context)?,
        };
        Ok(Box::new(List::new(all)))
    }
}

fn documents(expr: &Expr, context: &Context) -> Result<Vec<RawDocumentBuf>> {
    let arena = Arena::new();
    let found = expr.eval(&mut Scope::new(Doc::EMPTY, &context.globals, &arena))?;
    let wrong = || QueryError::new(ErrorCode::Location5858203, "$documents must be an array of documents");
    let Some(Value::Array(array)) = found else { return Err(wrong()) };
    array
        .elements()
        .map(|element| match element.value() {
            Value::Document(doc) => Ok(raw(doc)?.to_owned()),
            _ => Err(wrong()),
        })
        .collect()
}
