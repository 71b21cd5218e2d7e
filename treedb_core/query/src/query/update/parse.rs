//! Parses MongoDB's update document into actions on fields.

use bson::{Bson, RawBsonRef, RawDocument};

use super::FieldUpdate;
use super::action::Action;
use super::number::{Arithmetic, Bitwise, is_number, whole};
use super::path::Path;
use super::pull::Pull;
use super::push::{Push, each};
use super::type_name;
use crate::error::{ErrorCode, QueryError, Result};

/// The update operators.
const OPERATORS: &[&str] = &[
    "$addToSet",
    "$bit",
    "$currentDate",
    "$inc",
    "$max",
    "$min",
    "$mul",
    "$pop",
    "$pull",
    "$pullAll",
    "$push",
    "$rename",
    "$set",
    "$setOnInsert",
    "$unset",
];

/// The actions of an update document with operators, in the order of their paths.
pub(super) fn operators(update: &RawDocument) -> Result<Vec<FieldUpdate>> {
    let mut fields: Vec<FieldUpdate> = Vec::new();
    for element in update.iter() {
        let (operator, operand) = element?;
        let operator = operator.as_str();
        if !OPERATORS.contains(&operator) {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!(
                    "Unknown modifier: {operator}. Expected a valid update modifier or pipeline-style update specified as \
                     an array"
                ),
            ));
        }
        let RawBsonRef::Document(operand) = operand else {
            let operand = Bson::try_from(operand)?;
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!(
                    "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} \
                     not {{{operator}: {operand}}}",
                    type_name(&operand)
                ),
            ));
        };
        for element in operand.iter() {
            let (path, value) = element?;
            field(operator, path.as_str(), value.try_into()?, &mut fields)?;
        }
    }
    fields.sort_by(|a, b| a.path.cmp(&b.path));
    for pair in fields.windows(2) {
        if let [a, b] = pair {
            check_conflict(&a.path, &b.path)?;
        }
    }
    Ok(fields)
}

/// `ConflictingUpdateOperators` if one of two paths, which are neighbours in sorted order, contains the
/// other, or if they differ first in a part where only one of them has `$[]` or `$[id]`.
pub(super) fn check_conflict(a: &Path, b: &Path) -> Result<()> {
    let (one, other) = (a.parts(), b.parts());
    let differ = one.iter().zip(other).find(|(one, other)| one != other);
    // In path order a path is directly followed by the paths that it contains.
    let contains = b.starts_with(a);
    let filtered = |part: &str| part.starts_with("$[");
    if contains || differ.is_some_and(|(one, other)| filtered(one) != filtered(other)) {
        return Err(QueryError::new(
            ErrorCode::ConflictingUpdateOperators,
            format!("Updating the path '{b}' would create a conflict at '{a}'"),
        ));
    }
    Ok(())
}

fn field(operator: &str, path: &str, value: Bson, fields: &mut Vec<FieldUpdate>) -> Result<()> {
    let at = Path::parse(path)?;
    let action = match operator {
        "$set" => Action::Set(value),
        "$setOnInsert" => Action::SetOnInsert(value),
        "$unset" => Action::Unset,
        "$inc" | "$mul" => {
            let (arithmetic, verb) = match operator {
                "$inc" => (Arithmetic::Add, "increment"),
                _ => (Arithmetic::Multiply, "multiply"),
            };
            if !is_number(&value) {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!("Cannot {verb} with non-numeric argument: {{{path}: {value}}}"),
                ));
            }
            Action::Arithmetic(arithmetic, value)
        }
        "$min" => Action::Min(value),
        "$max" => Action::Max(value),
        "$bit" => Action::Bits(Bitwise::parse(&value)?),
        "$currentDate" => current_date(&value)?,
        "$rename" => {
            let (source, destination) = rename(&at, &value)?;
            fields.push(FieldUpdate { path: source.clone(), action: Action::Renamed });
            fields.push(FieldUpdate { path: destination, action: Action::RenameFrom(source) });
            return Ok(());
        }
        "$push" => Action::Push(Push::parse(value)?),
        "$addToSet" => Action::AddToSet(each(operator, value)?),
        "$pop" => match whole(&value) {
            Some(1) => Action::Pop { first: false },
            Some(-1) => Action::Pop { first: true },
            _ => {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!("$pop expects 1 or -1, found: {value}"),
                ));
            }
        },
        "$pull" => Action::Pull("$pull", Pull::parse(value)?),
        // $pullAll: all other operators have been handled, unknown ones rejected.
        _ => match value {
            Bson::Array(values) => Action::Pull("$pullAll", Pull::Equal(values)),
            other => {
                return Err(QueryError::bad_value(format!(
                    "$pullAll requires an array argument but was given a {}",
                    type_name(&other)
                )));
            }
        },
    };
    fields.push(FieldUpdate { path: at, action });
    Ok(())
}

fn current_date(value: &Bson) -> Result<Action> {
    match value {
        Bson::Boolean(_) => Ok(Action::CurrentDate),
        Bson::Document(kind) => match (kind.len(), kind.get_str("$type")) {
            (1, Ok("date")) => Ok(Action::CurrentDate),
            (1, Ok("timestamp")) => Ok(Action::CurrentTimestamp),
            _ => Err(QueryError::bad_value(
                "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: \
                 'date'}}}",
            )),
        },
        other => Err(QueryError::bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: \
             'timestamp/date'}}).",
            type_name(other)
        ))),
    }
}

/// Source and destination of a `$rename`.
fn rename(source: &Path, destination: &Bson) -> Result<(Path, Path)> {
    let Bson::String(text) = destination else {
        return Err(QueryError::bad_value(format!(
            "The 'to' field for $rename must be a string: {source}: {destination}"
        )));
    };
    let destination = Path::parse(text)?;
    for (what, path) in [("source", source), ("destination", &destination)] {
        if path.is_positional() {
            return Err(QueryError::bad_value(format!(
                "The {what} field for $rename may not be dynamic: {path}"
            )));
        }
    }
    if *source == destination {
        return Err(QueryError::bad_value(format!(
            "The source and target field for $rename must differ: {source}: \"{text}\""
        )));
    }
    // One path may not contain the other either: the conflict check of all paths finds that.
    Ok((source.clone(), destination))
}
