//! Updates: operators on fields, a replacement document, or a pipeline.
//!
//! [`Update::parse`] parses the update once; [`Update::apply`] applies it to a document. Paths are MongoDB's:
//! dotted, numbers index arrays, missing documents on the path are created, `$`, `$[]` and `$[id]` stand for
//! array elements. Fields are updated in the order of their paths (numbers by value), so new fields are added
//! in that order, as in MongoDB since 5.0. Operators that compare values compare strings by the query's
//! collation.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | the update document, operator by operator |
//! | `action` | the action on one field |
//! | `number` | `$inc $mul $bit` |
//! | `push` | `$push` with its modifiers, `$addToSet` |
//! | `pull` | `$pull $pullAll` |
//! | `in_place` | changing a few fields in the encoded document |
//! | `path`, `positional` | the path of one field, and the paths that `$`, `$[]` and `$[id]` stand for |
//! | `pipeline` | stages that compute the new document from the old one |
//! | `upsert` | the fields that an upsert takes from its filter |

mod action;
mod in_place;
mod number;
mod parse;
mod path;
mod pipeline;
mod positional;
mod pull;
mod push;
mod upsert;

use std::borrow::Cow;
use std::cmp::Ordering;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use crate::doc::{Collation, Doc, MESSAGE, Value, shown, validate, validate_with};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Variables;
use crate::query::filter::Filter;

use action::Action;
use path::{Path, Removals};
use pipeline::Pipeline;
use positional::ArrayFilters;

/// An update as the client sent it.
#[derive(Debug, Clone)]
pub enum Changes {
    /// Operators, or the replacement document.
    Document(RawDocumentBuf),
    /// Stages of a pipeline.
    Pipeline(Vec<RawDocumentBuf>),
}

impl Changes {
    /// Parses a value: a document, or the array of a pipeline's stages.
    ///
    /// # Errors
    /// `FailedToParse` for anything else.
    pub fn from_value(value: Value<'_>) -> Result<Self> {
        let document = |value: Value<'_>| match value {
            Value::Document(doc) => Ok(RawDocument::from_bytes(doc.as_bytes())?.to_owned()),
            other => Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!("Each element of the 'pipeline' array must be an object, not {}", shown(other)),
            )),
        };
        match value {
            Value::Document(_) => document(value).map(Changes::Document),
            Value::Array(stages) => stages
                .elements()
                .map(|stage| document(stage.value()))
                .collect::<Result<_>>()
                .map(Changes::Pipeline),
            other => Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!("Update argument must be either an object or an array, not {}", shown(other)),
            )),
        }
    }
}

impl From<RawDocumentBuf> for Changes {
    fn from(document: RawDocumentBuf) -> Self {
        Changes::Document(document)
    }
}

impl From<Vec<RawDocumentBuf>> for Changes {
    fn from(stages: Vec<RawDocumentBuf>) -> Self {
        Changes::Pipeline(stages)
    }
}

/// A parsed update.
#[derive(Debug, Clone)]
pub struct Update {
    kind: Kind,
    filters: ArrayFilters,
    /// The collation by which `$min $max $addToSet $pull $pullAll` and the `$sort` of `$push` compare
    /// strings; filters and stages have their own copy.
    collation: Collation,
}

#[derive(Debug, Clone)]
enum Kind {
    /// The replacement document, with or without `_id`.
    Replace(Document),
    /// Actions on single fields, in the order of their paths.
    Fields(Vec<FieldUpdate>),
    Pipeline(Pipeline),
}

#[derive(Debug, Clone, PartialEq)]
struct FieldUpdate {
    path: Path,
    action: Action,
}

impl Update {
    /// Parses an update: operators if the first field starts with `$`, otherwise a replacement document.
    ///
    /// # Errors
    /// `FailedToParse` for an unknown operator or a wrong shape, `ConflictingUpdateOperators` if two actions
    /// have the same path or one contains the other, `TypeMismatch` and `BadValue` for an invalid operand,
    /// `DollarPrefixedFieldName` for a replacement document with such a field.
    pub fn parse(update: &RawDocument) -> Result<Self> {
        Self::with_array_filters(update, &[])
    }

    /// Parses an update of either form, with the array filters of its `$[id]`s.
    ///
    /// # Errors
    /// As [`Self::with_array_filters`] and [`Self::pipeline`]; `FailedToParse` for a pipeline with array
    /// filters.
    pub fn read(changes: &Changes, filters: &[RawDocumentBuf]) -> Result<Self> {
        Self::read_with(changes, filters, Variables::NONE)
    }

    /// [`Self::read`] of an update whose pipeline may use `variables`.
    ///
    /// # Errors
    /// As there.
    pub fn read_with(changes: &Changes, filters: &[RawDocumentBuf], variables: &Variables) -> Result<Self> {
        match changes {
            Changes::Document(update) => Self::with_array_filters(update, filters),
            Changes::Pipeline(stages) if filters.is_empty() => Self::pipeline_with(stages, variables),
            Changes::Pipeline(_) => Err(QueryError::new(
                ErrorCode::FailedToParse,
                "arrayFilters may not be specified for pipeline-style updates",
            )),
        }
    }

    /// Parses an update with an aggregation pipeline.
    ///
    /// # Errors
    /// `InvalidOptions` for a stage that is not allowed in an update, and the errors of the stages.
    pub fn pipeline(stages: &[RawDocumentBuf]) -> Result<Self> {
        Self::pipeline_with(stages, Variables::NONE)
    }

    fn pipeline_with(stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self> {
        let kind = Kind::Pipeline(Pipeline::parse(stages, &Collation::Simple, variables)?);
        Ok(Update { kind, filters: ArrayFilters::default(), collation: Collation::Simple })
    }

    /// [`Self::parse`] with the array filters of its `$[id]`s.
    ///
    /// # Errors
    /// As for [`Self::parse`]; `BadValue` for an identifier without an array filter, `FailedToParse` for an
    /// array filter that is not used or does not have exactly one identifier.
    pub fn with_array_filters(update: &RawDocument, filters: &[RawDocumentBuf]) -> Result<Self> {
        validate_with(update.as_bytes(), MESSAGE)?;
        let kind = match Doc::from(update).operator() {
            Some(_) => Kind::Fields(parse::operators(update)?),
            None => parse_replacement(Document::try_from(update)?)?,
        };
        let filters = ArrayFilters::parse(filters)?;
        match &kind {
            Kind::Fields(fields) => filters.check(fields.iter().map(|field| &field.path))?,
            Kind::Pipeline(_) => {}
            Kind::Replace(_) if filters.is_empty() => {}
            Kind::Replace(_) => {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    "arrayFilters may not be specified for replacement-style updates",
                ));
            }
        }
        Ok(Update { kind, filters, collation: Collation::Simple })
    }

    /// The same update with another collation.
    ///
    /// # Errors
    /// None: its filters and expressions were parsed before.
    pub fn collated(mut self, collation: &Collation) -> Result<Self> {
        if self.collation == *collation {
            return Ok(self);
        }
        match &mut self.kind {
            Kind::Replace(_) => {}
            Kind::Fields(fields) => {
                fields.iter_mut().try_for_each(|field| field.action.collate(collation))?
            }
            Kind::Pipeline(pipeline) => *pipeline = pipeline.collated(collation)?,
        }
        self.filters.collate(collation)?;
        self.collation = collation.clone();
        Ok(self)
    }

    /// True if the update is a replacement document, which can only be applied to one document.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replace(_))
    }

    /// Refuses a replacement document for several documents.
    ///
    /// # Errors
    /// `FailedToParse`.
    pub fn refuse_many(&self, multi: bool) -> Result<()> {
        if multi && self.is_replacement() {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                "multi update is not supported for replacement-style update",
            ));
        }
        Ok(())
    }

    /// Applies the update to `old`, a document that matches `filter` (which determines the element that `$`
    /// stands for). `None` if the new document is the same, byte for byte.
    ///
    /// # Errors
    /// `ImmutableField` if `_id` would change, `PathNotViable` if a path goes through a value that has no
    /// fields, `TypeMismatch` and `BadValue` for an operator on a field that it cannot be applied to,
    /// `ConflictingUpdateOperators` if two positional paths stand for the same element.
    pub fn apply(&self, old: &RawDocument, filter: &Filter) -> Result<Option<RawDocumentBuf>> {
        let patch = match &self.kind {
            Kind::Fields(fields) => self.patch(fields, old)?,
            Kind::Replace(_) | Kind::Pipeline(_) => None,
        };
        let after = patch.map_or_else(|| self.apply_decoded(old, filter), Ok)?;
        Ok((after.as_bytes() != old.as_bytes()).then_some(after))
    }

    /// Applies the update to the decoded document.
    fn apply_decoded(&self, old: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf> {
        let before = Document::try_from(old)?;
        let after = match &self.kind {
            Kind::Replace(new) => replace(&before, new)?,
            Kind::Pipeline(pipeline) => replace(&before, &pipeline.apply(old)?)?,
            Kind::Fields(fields) => {
                let matched = positional::matched(fields.iter().map(|field| &field.path), filter, old);
                self.change(fields, before, matched, false)?
            }
        };
        encode(&after)
    }

    /// The document an upsert inserts when `filter` matches none: this update applied to the equalities of
    /// the filter. An `_id`, if there is one, comes first; otherwise the collection generates one.
    pub fn upsert(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let base = upsert::equalities(filter)?;
        let mut new = match &self.kind {
            Kind::Replace(new) => replace(&base, new)?,
            Kind::Pipeline(pipeline) => replace(&base, &pipeline.apply(&encode(&base)?)?)?,
            Kind::Fields(fields) => self.change(fields, base, None, true)?,
        };
        if let Some(id) = new.remove("_id") {
            let rest = std::mem::take(&mut new);
            new.insert("_id", id);
            new.extend(rest);
        }
        encode(&new)
    }

    /// Applies the actions on single fields to a document.
    fn change(
        &self,
        fields: &[FieldUpdate],
        mut document: Document,
        matched: Option<usize>,
        inserting: bool,
    ) -> Result<Document> {
        let id = document.get("_id").cloned();
        let mut removals = Removals::default();
        if fields.iter().any(|field| field.path.is_positional()) {
            let mut targets: Vec<(Cow<'_, Path>, &Action)> = Vec::new();
            for field in fields {
                if field.path.is_positional() {
                    let found = positional::expand(&field.path, &document, matched, &self.filters)?;
                    targets.extend(found.into_iter().map(|path| (Cow::Owned(path), &field.action)));
                } else {
                    targets.push((Cow::Borrowed(&field.path), &field.action));
                }
            }
            targets.sort_by(|(a, _), (b, _)| a.cmp(b));
            for pair in targets.windows(2) {
                if let [(a, _), (b, _)] = pair {
                    parse::check_conflict(a, b)?;
                }
            }
            for (path, action) in targets {
                action.apply(&path, &mut document, &mut removals, inserting, &self.collation)?;
            }
        } else {
            for field in fields {
                let (path, action) = (&field.path, &field.action);
                action.apply(path, &mut document, &mut removals, inserting, &self.collation)?;
            }
        }
        removals.apply(&mut document);
        check_id(id.as_ref(), &document, fields)?;
        Ok(document)
    }
}

/// Compares two values in MongoDB's order, strings by `collation`.
fn compare_values(collation: &Collation, a: &Bson, b: &Bson) -> Result<Ordering> {
    let (a, b) = (positional::document_with("", a)?, positional::document_with("", b)?);
    let (a, b) = (Doc::from(&a).get(""), Doc::from(&b).get(""));
    Ok(collation.compare(a.unwrap_or(Value::Undefined), b.unwrap_or(Value::Undefined)))
}

/// The name of a document in error messages.
fn described(document: &Document) -> String {
    document.get("_id").map(|id| format!("{{_id: {id}}}")).unwrap_or_else(|| "the document".to_owned())
}

/// MongoDB's name of a value's type.
fn type_name(value: &Bson) -> &'static str {
    let wrapper = RawDocumentBuf::try_from(&bson::doc! { "": value.clone() });
    wrapper.ok().and_then(|wrapper| Some(Doc::from(&wrapper).get("")?.type_name())).unwrap_or("unknown")
}

fn encode(document: &Document) -> Result<RawDocumentBuf> {
    let raw = RawDocumentBuf::try_from(document)?;
    // The update may have nested the document deeper than allowed.
    validate(raw.as_bytes())?;
    Ok(raw)
}

/// The replacement of `old` by `new`: it keeps the `_id`, which comes first.
fn replace(old: &Document, new: &Document) -> Result<Document> {
    let mut after = Document::new();
    match (old.get("_id"), new.get("_id")) {
        (Some(old), Some(new)) if !is_same(old, new)? => {
            return Err(QueryError::new(
                ErrorCode::ImmutableField,
                format!(
                    "After applying the update, the (immutable) field '_id' was found to have been altered to _id: {new}"
                ),
            ));
        }
        (Some(id), _) | (None, Some(id)) => {
            after.insert("_id", id.clone());
        }
        (None, None) => {}
    }
    after.extend(
        new.iter().filter(|(name, _)| *name != "_id").map(|(name, value)| (name.clone(), value.clone())),
    );
    Ok(after)
}

/// Whether two values have the same bytes. (Bson's own comparison says of no NaN that it is another.)
fn is_same(a: &Bson, b: &Bson) -> Result<bool> {
    Ok(a == b || positional::document_with("", a)?.as_bytes() == positional::document_with("", b)?.as_bytes())
}

/// `ImmutableField` if the document had an `_id`, `old`, and the update changed it.
fn check_id(old: Option<&Bson>, after: &Document, fields: &[FieldUpdate]) -> Result<()> {
    let Some(old) = old else { return Ok(()) };
    if let Some(new) = after.get("_id")
        && is_same(old, new)?
    {
        return Ok(());
    }
    let path =
        fields.iter().map(|field| field.path.to_string()).find(|path| path.split('.').next() == Some("_id"));
    Err(QueryError::new(
        ErrorCode::ImmutableField,
        format!(
            "Performing an update on the path '{}' would modify the immutable field '_id'",
            path.as_deref().unwrap_or("_id")
        ),
    ))
}

fn parse_replacement(document: Document) -> Result<Kind> {
    match document.keys().find(|name| name.starts_with('$')) {
        Some(name) => Err(QueryError::new(
            ErrorCode::DollarPrefixedFieldName,
            format!("The dollar ($) prefixed field '{name}' in '{name}' is not valid for storage."),
        )),
        None => Ok(Kind::Replace(document)),
    }
}

#[cfg(test)]
mod tests;
