//! Updates: operators on fields, or a whole new document.
//!
//! [`Update::parse`] reads the update once; [`Update::apply`] gives the document it makes of another one. Paths are
//! MongoDB's: dotted, numbers index arrays, missing documents on the way are created, `$`, `$[]` and `$[id]` mean elements
//! of arrays. Operators take their fields in the order of the paths (numbers by value), so new fields come in that
//! order, as in MongoDB since 5.0. Operators that compare values compare their strings by the query's collation.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | the update document, operator by operator |
//! | `action` | what is done to one field |
//! | `number` | `$inc $mul $bit` |
//! | `push` | `$push` with its modifiers, `$addToSet` |
//! | `pull` | `$pull $pullAll` |
//! | `in_place` | a few fields changed in a document's bytes |
//! | `path`, `positional` | where: one place, or those that `$`, `$[]` and `$[id]` mean |
//! | `pipeline` | stages that make a document of the old one |
//! | `upsert` | what an upsert takes from its filter |

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
use crate::query::filter::Filter;

use action::Action;
use path::Path;
use pipeline::Pipeline;
use positional::ArrayFilters;

/// What an update asks for, as it was written.
#[derive(Debug, Clone)]
pub enum Changes {
    /// Operators, or the new document.
    Document(RawDocumentBuf),
    /// Stages of a pipeline.
    Pipeline(Vec<RawDocumentBuf>),
}

impl Changes {
    /// Reads a value: a document, or the array of a pipeline's stages.
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
    /// How `$min $max $addToSet $pull $pullAll` and the order of `$push` compare strings; filters and stages know it
    /// themselves.
    collation: Collation,
}

#[derive(Debug, Clone)]
enum Kind {
    /// The new document, with or without `_id`.
    Replace(Document),
    /// Changes of single fields, in the order of their paths.
    Fields(Vec<FieldUpdate>),
    Pipeline(Pipeline),
}

#[derive(Debug, Clone, PartialEq)]
struct FieldUpdate {
    path: Path,
    action: Action,
}

impl Update {
    /// Reads an update: operators if the first field starts with `$`, otherwise the new document.
    ///
    /// # Errors
    /// `FailedToParse` for an unknown operator or a wrong shape, `ConflictingUpdateOperators` if two changes touch
    /// the same path, `TypeMismatch` and `BadValue` for an operand that an operator cannot have,
    /// `DollarPrefixedFieldName` for a new document with such a field.
    pub fn parse(update: &RawDocument) -> Result<Self> {
        Self::with_array_filters(update, &[])
    }

    /// Reads an update of either form, with the filters of its `$[id]`s.
    ///
    /// # Errors
    /// As [`Self::with_array_filters`] and [`Self::pipeline`]; `FailedToParse` for a pipeline with filters.
    pub fn read(changes: &Changes, filters: &[RawDocumentBuf]) -> Result<Self> {
        match changes {
            Changes::Document(update) => Self::with_array_filters(update, filters),
            Changes::Pipeline(stages) if filters.is_empty() => Self::pipeline(stages),
            Changes::Pipeline(_) => Err(QueryError::new(
                ErrorCode::FailedToParse,
                "arrayFilters may not be specified for pipeline-style updates",
            )),
        }
    }

    /// Reads an update by the stages of a pipeline.
    ///
    /// # Errors
    /// `InvalidOptions` for a stage that an update cannot have, and those of the stages.
    pub fn pipeline(stages: &[RawDocumentBuf]) -> Result<Self> {
        let kind = Kind::Pipeline(Pipeline::parse(stages, &Collation::Simple)?);
        Ok(Update { kind, filters: ArrayFilters::default(), collation: Collation::Simple })
    }

    /// [`Self::parse`] with the filters of its `$[id]`s.
    ///
    /// # Errors
    /// As there; `BadValue` for an identifier without its filter, `FailedToParse` for a filter that is not used or not
    /// about one identifier.
    pub fn with_array_filters(update: &RawDocument, filters: &[RawDocumentBuf]) -> Result<Self> {
        validate_with(update.as_bytes(), MESSAGE)?;
        let document = Document::try_from(update)?;
        let operators = document.keys().next().is_some_and(|name| name.starts_with('$'));
        let kind =
            if operators { Kind::Fields(parse::operators(document)?) } else { parse_replacement(document)? };
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

    /// The same update, its strings compared by `collation`.
    ///
    /// # Errors
    /// None: its filters and expressions were read before.
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

    /// True if the update is a whole new document, which can only apply to one.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replace(_))
    }

    /// The document this update makes of `old`, which `filter` found (it tells what `$` means); `None` if that is the
    /// same, byte for byte.
    ///
    /// # Errors
    /// `ImmutableField` if `_id` would change, `PathNotViable` if a path leads through a value that has no fields,
    /// `TypeMismatch` and `BadValue` for an operator on a field that it cannot be applied to,
    /// `ConflictingUpdateOperators` if positional paths come to mean the same element.
    pub fn apply(&self, old: &RawDocument, filter: &Filter) -> Result<Option<RawDocumentBuf>> {
        let patch = match &self.kind {
            Kind::Fields(fields) => self.patch(fields, old)?,
            Kind::Replace(_) | Kind::Pipeline(_) => None,
        };
        let after = patch.map_or_else(|| self.whole(old, filter), Ok)?;
        Ok((after.as_bytes() != old.as_bytes()).then_some(after))
    }

    /// [`Self::apply`], by way of the whole document.
    fn whole(&self, old: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf> {
        let before = Document::try_from(old)?;
        let after = match &self.kind {
            Kind::Replace(new) => replace(&before, new)?,
            Kind::Pipeline(pipeline) => replace(&before, &pipeline.apply(old)?)?,
            Kind::Fields(fields) => {
                let matched = positional::matched(fields.iter().map(|field| &field.path), filter, old);
                self.change(fields, &before, matched, false)?
            }
        };
        encode(&after)
    }

    /// The document an upsert inserts when `filter` matches none: the equalities of the filter, changed by this
    /// update. An `_id` comes first if there is one; the collection gives one otherwise.
    pub fn upsert(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let base = upsert::equalities(filter)?;
        let mut new = match &self.kind {
            Kind::Replace(new) => replace(&base, new)?,
            Kind::Pipeline(pipeline) => replace(&base, &pipeline.apply(&encode(&base)?)?)?,
            Kind::Fields(fields) => self.change(fields, &base, None, true)?,
        };
        if let Some(id) = new.remove("_id") {
            let rest = std::mem::take(&mut new);
            new.insert("_id", id);
            new.extend(rest);
        }
        encode(&new)
    }

    /// What changing fields makes of a document.
    fn change(
        &self,
        fields: &[FieldUpdate],
        before: &Document,
        matched: Option<usize>,
        inserting: bool,
    ) -> Result<Document> {
        let mut after = before.clone();
        if fields.iter().any(|field| field.path.is_positional()) {
            let mut places: Vec<(Cow<'_, Path>, &Action)> = Vec::new();
            for field in fields {
                if field.path.is_positional() {
                    let found = positional::places(&field.path, before, matched, &self.filters)?;
                    places.extend(found.into_iter().map(|path| (Cow::Owned(path), &field.action)));
                } else {
                    places.push((Cow::Borrowed(&field.path), &field.action));
                }
            }
            places.sort_by(|(a, _), (b, _)| a.cmp(b));
            for pair in places.windows(2) {
                if let [(a, _), (b, _)] = pair {
                    parse::no_conflict(a, b)?;
                }
            }
            for (path, action) in places {
                action.apply(&path, &mut after, inserting, &self.collation)?;
            }
        } else {
            for field in fields {
                field.action.apply(&field.path, &mut after, inserting, &self.collation)?;
            }
        }
        check_id(before, &after, fields)?;
        Ok(after)
    }
}

/// MongoDB's order of two values, their strings compared by `collation`.
fn compare_values(collation: &Collation, a: &Bson, b: &Bson) -> Result<Ordering> {
    let (a, b) = (positional::holding("", a)?, positional::holding("", b)?);
    let (a, b) = (Doc::from(&a).get(""), Doc::from(&b).get(""));
    Ok(collation.compare(a.unwrap_or(Value::Undefined), b.unwrap_or(Value::Undefined)))
}

/// A document as messages name it.
fn described(document: &Document) -> String {
    document.get("_id").map(|id| format!("{{_id: {id}}}")).unwrap_or_else(|| "the document".to_owned())
}

/// MongoDB's name of a value's type.
fn type_name(value: &Bson) -> &'static str {
    let held = RawDocumentBuf::try_from(&bson::doc! { "": value.clone() });
    held.ok().and_then(|held| Some(Doc::from(&held).get("")?.type_name())).unwrap_or("unknown")
}

fn encode(document: &Document) -> Result<RawDocumentBuf> {
    let raw = RawDocumentBuf::try_from(document)?;
    // A path may have nested the document deeper than a document may be.
    validate(raw.as_bytes())?;
    Ok(raw)
}

/// `new` in the place of `old`: with its `_id`, which comes first.
fn replace(old: &Document, new: &Document) -> Result<Document> {
    let mut after = Document::new();
    match (old.get("_id"), new.get("_id")) {
        (Some(old), Some(new)) if old != new => {
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

/// `ImmutableField` if `_id` is there before and different after.
fn check_id(before: &Document, after: &Document, fields: &[FieldUpdate]) -> Result<()> {
    let old = before.get("_id");
    if old.is_none() || old == after.get("_id") {
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
