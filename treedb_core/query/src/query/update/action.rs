//! The action of an update on one field.

use bson::{Bson, DateTime, Document, Timestamp};

use super::number::{Arithmetic, Bitwise};
use super::path::{Path, Removals};
use super::pull::Pull;
use super::push::{Push, add_to_set};
use super::{compare_values, described, type_name};
use crate::doc::Collation;
use crate::error::{ErrorCode, QueryError, Result};

/// What is done to the field at a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Set(Bson),
    SetOnInsert(Bson),
    Unset,
    Arithmetic(Arithmetic, Bson),
    Min(Bson),
    Max(Bson),
    Bits(Vec<Bitwise>),
    CurrentDate,
    CurrentTimestamp,
    /// The value at this path is moved here: `$rename`, for the destination.
    RenameFrom(Path),
    /// `$rename`, for the source: the action of the destination does the work.
    Renamed,
    Push(Push),
    AddToSet(Vec<Bson>),
    /// Removes the first or the last element.
    Pop {
        first: bool,
    },
    /// `$pull` or `$pullAll`: the name is for error messages.
    Pull(&'static str, Pull),
}

impl Action {
    /// Applies the action to the field at `path`, which has no positional parts. Fields to be removed are added to `removals`. `inserting`
    /// is true for an upsert's new document.
    pub(super) fn apply(
        &self,
        path: &Path,
        document: &mut Document,
        removals: &mut Removals,
        inserting: bool,
        collation: &Collation,
    ) -> Result<()> {
        match self {
            Action::Set(value) => path.set(document, value.clone()),
            Action::SetOnInsert(value) if inserting => path.set(document, value.clone()),
            Action::SetOnInsert(_) | Action::Renamed => Ok(()),
            Action::Unset => {
                path.unset(document, removals);
                Ok(())
            }
            Action::Arithmetic(arithmetic, operand) => {
                let result = match path.get(document) {
                    None => arithmetic.of_missing(operand),
                    Some(old) => arithmetic.apply(path, document, old, operand)?,
                };
                path.set(document, result)
            }
            Action::Min(value) | Action::Max(value) => {
                let replace = match path.get(document) {
                    None => true,
                    Some(old) => {
                        let order = compare_values(collation, value, old)?;
                        if matches!(self, Action::Min(_)) { order.is_lt() } else { order.is_gt() }
                    }
                };
                if replace { path.set(document, value.clone()) } else { Ok(()) }
            }
            Action::Bits(all) => {
                let old = path.get(document).unwrap_or(&Bson::Int32(0));
                let result = Bitwise::apply(all, path, document, old)?;
                path.set(document, result)
            }
            Action::CurrentDate => path.set(document, Bson::DateTime(DateTime::now())),
            Action::CurrentTimestamp => {
                let seconds = u32::try_from(DateTime::now().timestamp_millis() / 1000).unwrap_or(u32::MAX);
                path.set(document, Bson::Timestamp(Timestamp { time: seconds, increment: 1 }))
            }
            Action::RenameFrom(source) => rename(source, path, document, removals),
            Action::Push(push) => edit_array(path, document, "$push", |array| push.apply(array, collation)),
            Action::AddToSet(values) => {
                edit_array(path, document, "$addToSet", |array| add_to_set(array, values, collation))
            }
            Action::Pop { first } => match array_at(path, document, "$pop")? {
                Some(array) if *first && !array.is_empty() => {
                    array.remove(0);
                    Ok(())
                }
                Some(array) => {
                    array.pop();
                    Ok(())
                }
                None => Ok(()),
            },
            Action::Pull(name, pull) => match array_at(path, document, name)? {
                Some(array) => pull.apply(array, collation),
                None => Ok(()),
            },
        }
    }

    /// Sets the collation of the action's filter, if it has one.
    pub(super) fn collate(&mut self, collation: &Collation) -> Result<()> {
        match self {
            Action::Pull(_, pull) => pull.collate(collation),
            _ => Ok(()),
        }
    }
}

/// Changes the array at `path`; a missing field is created as an empty array first.
fn edit_array(
    path: &Path,
    document: &mut Document,
    operator: &str,
    change: impl FnOnce(&mut Vec<Bson>) -> Result<()>,
) -> Result<()> {
    if let Some(array) = array_at(path, document, operator)? {
        return change(array);
    }
    let mut array = Vec::new();
    change(&mut array)?;
    path.set(document, Bson::Array(array))
}

/// The array at `path`, `None` if the field is missing; an error if it is not an array.
fn array_at<'d>(
    path: &Path,
    document: &'d mut Document,
    operator: &str,
) -> Result<Option<&'d mut Vec<Bson>>> {
    let found = path.get(document);
    if let Some(other) = found.filter(|value| !matches!(value, Bson::Array(_))) {
        let (kind, id, name) = (type_name(other), described(document), path.last());
        let (code, message) = match operator {
            "$push" => (
                ErrorCode::BadValue,
                format!("The field '{path}' must be an array but is of type {kind} in document {id}"),
            ),
            "$addToSet" => (
                ErrorCode::BadValue,
                format!(
                    "Cannot apply $addToSet to non-array field. Field named '{name}' has non-array type {kind}"
                ),
            ),
            "$pop" => (
                ErrorCode::TypeMismatch,
                format!("Path '{path}' contains an element of non-array type '{kind}'"),
            ),
            other => (
                ErrorCode::BadValue,
                format!("Cannot apply {other} to a non-array value: the field '{path}' is of type {kind}"),
            ),
        };
        return Err(QueryError::new(code, message));
    }
    Ok(path.get_mut(document).and_then(Bson::as_array_mut))
}

fn rename(source: &Path, destination: &Path, document: &mut Document, removals: &mut Removals) -> Result<()> {
    for (what, path) in [("source", source), ("destination", destination)] {
        if let Some(name) = path.first_array(document) {
            return Err(QueryError::bad_value(format!(
                "The {what} field cannot be an array element, '{path}' in doc with {} has an array field called '{name}'",
                described(document)
            )));
        }
    }
    let Some(value) = source.get(document).cloned() else { return Ok(()) };
    destination.set(document, value)?;
    source.unset(document, removals);
    Ok(())
}
