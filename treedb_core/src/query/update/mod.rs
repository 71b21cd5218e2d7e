//! Updates: `$set $unset $inc $setOnInsert`, or a whole new document.
//!
//! [`Update::parse`] reads the update once; [`Update::apply`] gives the document it makes of another one. Paths are
//! MongoDB's: dotted, numbers index arrays, missing documents on the way are created. Operators take their fields in
//! the order of the paths (numbers by value), so new fields come in that order, as in MongoDB since 5.0.

mod path;
mod upsert;

use bson::{Bson, Decimal128, Document, RawDocument, RawDocumentBuf};

use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::{Decimal, Doc, MESSAGE, validate, validate_with};
use crate::query::filter::Filter;

use path::Path;

/// A parsed update.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// The new document, with or without `_id`.
    Replace(Document),
    /// Changes of single fields, in the order of their paths.
    Fields(Vec<FieldUpdate>),
}

#[derive(Debug, Clone, PartialEq)]
struct FieldUpdate {
    path: Path,
    action: Action,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    Set(Bson),
    SetOnInsert(Bson),
    Unset,
    Inc(Bson),
}

impl Update {
    /// Reads an update: operators if the first field starts with `$`, otherwise the new document.
    ///
    /// # Errors
    /// `FailedToParse` for an unknown operator or a wrong shape, `ConflictingUpdateOperators` if two changes touch
    /// the same path, `TypeMismatch` for an operand of the wrong type, `DollarPrefixedFieldName` for a new document
    /// with such a field.
    pub fn parse(update: &RawDocument) -> Result<Self> {
        validate_with(update.as_bytes(), MESSAGE)?;
        let document = Document::try_from(update)?;
        let operators = document.keys().next().is_some_and(|name| name.starts_with('$'));
        let kind =
            if operators { Kind::Fields(parse_operators(document)?) } else { parse_replacement(document)? };
        Ok(Update { kind })
    }

    /// True if the update is a whole new document, which can only apply to one.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replace(_))
    }

    /// The document this update makes of `old`; `None` if that is the same, byte for byte.
    ///
    /// # Errors
    /// `ImmutableField` if `_id` would change, `PathNotViable` if a path leads through a value that has no fields,
    /// `TypeMismatch` for `$inc` of something that is not a number.
    pub fn apply(&self, old: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        let before = Document::try_from(old)?;
        let after = match &self.kind {
            Kind::Replace(new) => replace(&before, new)?,
            Kind::Fields(fields) => {
                let mut after = before.clone();
                for field in fields {
                    field.apply(&mut after, false)?;
                }
                check_id(&before, &after, fields)?;
                after
            }
        };
        let after = encode(&after)?;
        Ok((after.as_bytes() != old.as_bytes()).then_some(after))
    }

    /// The document an upsert inserts when `filter` matches none: the equalities of the filter, changed by this
    /// update. An `_id` comes first if there is one; the collection gives one otherwise.
    pub fn upsert(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let base = upsert::equalities(filter)?;
        let mut new = match &self.kind {
            Kind::Replace(new) => replace(&base, new)?,
            Kind::Fields(fields) => {
                let mut new = base.clone();
                for field in fields {
                    field.apply(&mut new, true)?;
                }
                check_id(&base, &new, fields)?;
                new
            }
        };
        if let Some(id) = new.remove("_id") {
            let rest = std::mem::take(&mut new);
            new.insert("_id", id);
            new.extend(rest);
        }
        encode(&new)
    }
}

impl FieldUpdate {
    fn apply(&self, document: &mut Document, inserting: bool) -> Result<()> {
        match &self.action {
            Action::Set(value) => self.path.set(document, value.clone()),
            Action::SetOnInsert(value) if inserting => self.path.set(document, value.clone()),
            Action::SetOnInsert(_) => Ok(()),
            Action::Unset => {
                self.path.unset(document);
                Ok(())
            }
            Action::Inc(by) => {
                let sum = match self.path.get(document) {
                    None => by.clone(),
                    Some(old) => add(old, by).map_err(|why| why.explain(&self.path, document, old, by))?,
                };
                self.path.set(document, sum)
            }
        }
    }
}

/// Why two values cannot be added.
enum NoSum {
    NotANumber,
    TooLarge,
}

impl NoSum {
    fn explain(&self, path: &Path, document: &Document, old: &Bson, by: &Bson) -> QueryError {
        let id = document
            .get("_id")
            .map(|id| format!("{{_id: {id}}}"))
            .unwrap_or_else(|| "the document".to_owned());
        match self {
            NoSum::NotANumber => QueryError::new(
                ErrorCode::TypeMismatch,
                format!(
                    "Cannot apply $inc to a value of non-numeric type. {id} has the field '{}' of non-numeric type {}",
                    path.last(),
                    type_name(old)
                ),
            ),
            NoSum::TooLarge => QueryError::bad_value(format!(
                "Failed to apply $inc operations to current value ({old}) of field '{path}' for document {id}: {old} + \
                 {by} is over 64 bits"
            )),
        }
    }
}

/// The sum of two numbers, in the wider of their types; 32 bits become 64 when they must.
fn add(old: &Bson, by: &Bson) -> Result<Bson, NoSum> {
    Ok(match (old, by) {
        (Bson::Int32(a), Bson::Int32(b)) => match a.checked_add(*b) {
            Some(sum) => Bson::Int32(sum),
            None => Bson::Int64(i64::from(*a) + i64::from(*b)),
        },
        (Bson::Int32(_) | Bson::Int64(_), Bson::Int32(_) | Bson::Int64(_)) => {
            Bson::Int64(integer(old).checked_add(integer(by)).ok_or(NoSum::TooLarge)?)
        }
        (a @ Bson::Decimal128(_), b) | (a, b @ Bson::Decimal128(_)) => match (decimal(a), decimal(b)) {
            (Some(a), Some(b)) => Bson::Decimal128(Decimal128::from_bytes(a.add(b).to_bytes())),
            _ => return Err(NoSum::NotANumber),
        },
        (a, b) if is_number(a) && is_number(b) => Bson::Double(double(a) + double(b)),
        _ => return Err(NoSum::NotANumber),
    })
}

fn is_number(value: &Bson) -> bool {
    matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
}

fn integer(value: &Bson) -> i64 {
    match value {
        Bson::Int32(n) => i64::from(*n),
        Bson::Int64(n) => *n,
        _ => 0,
    }
}

fn double(value: &Bson) -> f64 {
    match value {
        Bson::Double(n) => *n,
        other => integer(other) as f64,
    }
}

fn decimal(value: &Bson) -> Option<Decimal> {
    match value {
        Bson::Decimal128(value) => Some(Decimal::new(value.bytes())),
        Bson::Double(value) => Some(Decimal::from_double(*value)),
        Bson::Int32(_) | Bson::Int64(_) => Some(Decimal::from_integer(integer(value))),
        _ => None,
    }
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

fn parse_operators(document: Document) -> Result<Vec<FieldUpdate>> {
    let mut fields: Vec<FieldUpdate> = Vec::new();
    for (operator, operand) in document {
        let action: fn(Bson) -> Action = match operator.as_str() {
            "$set" => Action::Set,
            "$setOnInsert" => Action::SetOnInsert,
            "$unset" => |_| Action::Unset,
            "$inc" => Action::Inc,
            _ => {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!(
                        "Unknown modifier: {operator}. Expected a valid update modifier or pipeline-style update \
                         specified as an array. Known are $set, $unset, $inc and $setOnInsert."
                    ),
                ));
            }
        };
        let Bson::Document(operand) = operand else {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!(
                    "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} \
                     not {{{operator}: {operand}}}",
                    type_name(&operand)
                ),
            ));
        };
        for (path, value) in operand {
            if operator == "$inc" && !is_number(&value) {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!("Cannot increment with non-numeric argument: {{{path}: {value}}}"),
                ));
            }
            fields.push(FieldUpdate { path: Path::parse(&path)?, action: action(value) });
        }
    }
    fields.sort_by(|a, b| a.path.cmp(&b.path));
    // In path order a path that contains another stands right before what it contains.
    for pair in fields.windows(2) {
        if let [a, b] = pair
            && b.path.starts_with(&a.path)
        {
            return Err(QueryError::new(
                ErrorCode::ConflictingUpdateOperators,
                format!("Updating the path '{}' would create a conflict at '{}'", b.path, a.path),
            ));
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;
