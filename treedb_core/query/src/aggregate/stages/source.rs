//! Stages that begin a pipeline with documents of their own: `$documents`, `$collStats`, `$indexStats`,
//! `$listSearchIndexes`.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Scope};

use crate::aggregate::context::Context;
use crate::aggregate::operand::{
    document, document_or, failed, known_fields, known_fields_or, optional_string, raw,
};
use crate::aggregate::stage::{PlannedStage, Role, Source, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, VecStream};

/// One of the stages.
#[derive(Debug)]
pub(crate) enum OwnSource {
    Documents(Expr),
    CollectionStats(CollectionStats),
    IndexStats,
    /// The one with this name or id, if one is given.
    SearchIndexes {
        name: Option<String>,
        id: Option<String>,
    },
}

/// What a `$collStats` asks for.
#[derive(Debug)]
pub(crate) struct CollectionStats {
    count: bool,
    /// The storage statistics, with sizes divided by this.
    storage: Option<f64>,
}

impl CollectionStats {
    fn parse(operand: Doc<'_>) -> Result<Self> {
        let stage = "$collStats";
        known_fields(stage, operand, &["count", "storageStats"])?;
        let inner = |name: &str| match operand.get(name) {
            None => Ok(None),
            Some(Value::Document(options)) => Ok(Some(options)),
            Some(other) => Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("{stage}: '{name}' must be an object, not {}", other.type_name()),
            )),
        };
        let storage = match inner("storageStats")? {
            None => None,
            Some(options) => {
                known_fields("$collStats.storageStats", options, &["scale"])?;
                match options.get("scale") {
                    None | Some(Value::Null) => Some(1.0),
                    Some(scale) => match scale.as_integer() {
                        Some(scale) if scale >= 1 => Some(scale as f64),
                        _ => {
                            return Err(QueryError::new(
                                ErrorCode::BadValue,
                                format!("{stage}: 'scale' must be a number that is at least 1"),
                            ));
                        }
                    },
                }
            }
        };
        let count =
            inner("count")?.map(|options| known_fields("$collStats.count", options, &[])).transpose()?;
        Ok(CollectionStats { count: count.is_some(), storage })
    }

    fn document(&self, namespace: &str, context: &Context) -> Result<RawDocumentBuf> {
        let count = context.collections.document_count(namespace)?;
        let mut found = rawdoc! { "ns": namespace, "localTime": bson::DateTime::now() };
        if let Some(scale) = self.storage {
            found.append(cstr!("storageStats"), context.collections.storage_stats(namespace, scale)?);
        }
        if self.count {
            found.append(cstr!("count"), i64::try_from(count).unwrap_or(i64::MAX));
        }
        Ok(found)
    }
}

impl Stage for OwnSource {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        Ok(match stage.name {
            b"$documents" => OwnSource::Documents(Expr::parse(stage.value(), &parser.names)?),
            b"$collStats" => OwnSource::CollectionStats(CollectionStats::parse(document(stage)?)?),
            b"$listSearchIndexes" => {
                let (stage, operand) = ("$listSearchIndexes", document(stage)?);
                known_fields(stage, operand, &["name", "id"])?;
                let name = optional_string(stage, operand, "name")?.map(str::to_owned);
                let id = optional_string(stage, operand, "id")?.map(str::to_owned);
                if name.is_some() && id.is_some() {
                    return Err(failed(format!("{stage} takes 'name' or 'id', not both")));
                }
                OwnSource::SearchIndexes { name, id }
            }
            _ => {
                let code = ErrorCode::Location28803;
                known_fields_or(code, "$indexStats", document_or(code, stage)?, &[])?;
                OwnSource::IndexStats
            }
        })
    }

    fn open(self: Arc<Self>, _: BoxedStream, _: &[PlannedStage], _: &Context) -> Result<BoxedStream> {
        Err(failed("a stage that begins a pipeline cannot stand within one"))
    }

    fn explain(&self, source: &RawDocument) -> RawDocumentBuf {
        match self {
            OwnSource::Documents(_) => rawdoc! { "$documents": {} },
            OwnSource::CollectionStats(_) => source.to_owned(),
            OwnSource::IndexStats => rawdoc! { "$indexStats": {} },
            OwnSource::SearchIndexes { .. } => source.to_owned(),
        }
    }

    fn role(&self) -> Role<'_> {
        Role::Source(self)
    }
}

impl Source for OwnSource {
    fn open_source(&self, namespace: &str, _: &[PlannedStage], context: &Context) -> Result<BoxedStream> {
        let documents = match self {
            OwnSource::CollectionStats(wanted) => vec![wanted.document(namespace, context)?],
            OwnSource::IndexStats => context.collections.index_stats(namespace)?,
            OwnSource::SearchIndexes { name, id } => {
                let is = |index: &RawDocument, field: &str, wanted: &Option<String>| {
                    wanted.as_ref().is_none_or(|wanted| {
                        Doc::from(index).get(field) == Some(Value::String(wanted.as_bytes()))
                    })
                };
                let mut indexes = context.collections.search_indexes(namespace)?;
                indexes.retain(|index| is(index, "name", name) && is(index, "id", id));
                indexes
            }
            OwnSource::Documents(expr) => evaluated(expr, context)?,
        };
        Ok(Box::new(VecStream::new(documents)))
    }

    fn needs_collection(&self) -> bool {
        !matches!(self, OwnSource::Documents(_))
    }
}

/// The documents that the expression of a `$documents` gives.
fn evaluated(expr: &Expr, context: &Context) -> Result<Vec<RawDocumentBuf>> {
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
