//! `$push`, with `$each`, `$position`, `$sort` and `$slice`.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::number::whole;
use super::{compare_values, type_name};
use crate::doc::Collation;
use crate::error::{QueryError, Result};

/// The values that are inserted into an array, and how the array is sorted and truncated afterwards.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Push {
    each: Vec<Bson>,
    /// Where the values are inserted; negative counts from the end; `None` appends them.
    position: Option<i64>,
    order: Option<Order>,
    /// How many elements are kept: the first ones, or the last ones if it is negative.
    slice: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
enum Order {
    /// By whole elements; true for descending order.
    Whole(bool),
    /// By fields of the elements: the path, and true for descending order.
    Fields(Vec<(Vec<String>, bool)>),
}

fn integer(name: &str, value: &Bson) -> Result<i64> {
    whole(value).ok_or_else(|| {
        QueryError::bad_value(format!(
            "The value for {name} must be an integer value but was given type: {}",
            type_name(value)
        ))
    })
}

impl Push {
    /// Parses an operand: a value to append, or modifiers.
    pub(super) fn parse(operand: Bson) -> Result<Self> {
        let mut push = Push { each: Vec::new(), position: None, order: None, slice: None };
        let modifiers = match operand {
            Bson::Document(modifiers) if modifiers.contains_key("$each") => modifiers,
            value => {
                push.each.push(value);
                return Ok(push);
            }
        };
        for (name, value) in modifiers {
            match name.as_str() {
                "$each" => match value {
                    Bson::Array(values) => push.each = values,
                    other => {
                        return Err(QueryError::bad_value(format!(
                            "The argument to $each in $push must be an array but it was of type: {}",
                            type_name(&other)
                        )));
                    }
                },
                "$position" => push.position = Some(integer("$position", &value)?),
                "$slice" => push.slice = Some(integer("$slice", &value)?),
                "$sort" => push.order = Some(Order::parse(&value)?),
                _ => return Err(QueryError::bad_value(format!("Unrecognized clause in $push: {name}"))),
            }
        }
        Ok(push)
    }

    /// Applies the operator to the array.
    pub(super) fn apply(&self, array: &mut Vec<Bson>, collation: &Collation) -> Result<()> {
        let at = match self.position {
            Some(at) if at >= 0 => usize::try_from(at).unwrap_or(usize::MAX).min(array.len()),
            Some(back) => {
                array.len().saturating_sub(usize::try_from(back.unsigned_abs()).unwrap_or(usize::MAX))
            }
            None => array.len(),
        };
        array.splice(at..at, self.each.iter().cloned());
        if let Some(order) = &self.order {
            order.sort(array, collation)?;
        }
        match self.slice {
            Some(first) if first >= 0 => array.truncate(usize::try_from(first).unwrap_or(usize::MAX)),
            Some(last) => {
                let kept = usize::try_from(last.unsigned_abs()).unwrap_or(usize::MAX);
                array.drain(..array.len().saturating_sub(kept));
            }
            None => {}
        }
        Ok(())
    }
}

impl Order {
    fn parse(value: &Bson) -> Result<Self> {
        let descending = |value: &Bson| match whole(value) {
            Some(1) => Ok(false),
            Some(-1) => Ok(true),
            _ => Err(QueryError::bad_value("The $sort element value must be either 1 or -1")),
        };
        match value {
            Bson::Document(fields) if fields.is_empty() => {
                Err(QueryError::bad_value("The $sort pattern is empty when it should be a set of fields."))
            }
            Bson::Document(fields) => {
                let field = |(path, value): (&String, &Bson)| {
                    let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
                    if parts.len() > 1 && parts.iter().any(String::is_empty) || path.starts_with('$') {
                        return Err(QueryError::bad_value(format!(
                            "The $sort field '{path}' is not a valid field path"
                        )));
                    }
                    Ok((parts, descending(value)?))
                };
                fields.iter().map(field).collect::<Result<_>>().map(Order::Fields)
            }
            value if super::number::is_number(value) => descending(value).map(Order::Whole),
            _ => Err(QueryError::bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
            )),
        }
    }

    fn sort(&self, array: &mut Vec<Bson>, collation: &Collation) -> Result<()> {
        let fields: &[(Vec<String>, bool)] = match self {
            Order::Whole(descending) => &[(Vec::new(), *descending)],
            Order::Fields(fields) => fields,
        };
        let key = |element: &Bson| -> Result<Vec<Vec<u8>>> {
            let part = |path: &[String]| sort_key(at(element, path).unwrap_or(&Bson::Null), collation);
            fields.iter().map(|(path, _)| part(path)).collect()
        };
        let mut keyed =
            array.drain(..).map(|element| Ok((key(&element)?, element))).collect::<Result<Vec<_>>>()?;
        keyed.sort_by(|(a, _), (b, _)| {
            let orders = a.iter().zip(b).zip(fields).map(
                |((a, b), (_, descending))| {
                    if *descending { b.cmp(a) } else { a.cmp(b) }
                },
            );
            orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
        array.extend(keyed.into_iter().map(|(_, element)| element));
        Ok(())
    }
}

/// The sort key of a value: its bytes sort in MongoDB's order.
fn sort_key(value: &Bson, collation: &Collation) -> Result<Vec<u8>> {
    let wrapper = super::positional::document_with("", value)?;
    let mut key = Vec::new();
    if let Some(value) = crate::doc::Doc::from(&wrapper).get("") {
        collation.encode(value, &mut key);
    }
    Ok(key)
}

/// The value at a path; only documents are followed, not arrays.
fn at<'v>(element: &'v Bson, path: &[String]) -> Option<&'v Bson> {
    path.iter().try_fold(element, |value, part| match value {
        Bson::Document(document) => document.get(part),
        _ => None,
    })
}

/// The values of an `$each`, or the operand as the only value.
pub(super) fn each(operator: &str, operand: Bson) -> Result<Vec<Bson>> {
    let each = |modifiers: &Document| modifiers.keys().next().is_some_and(|name| name == "$each");
    match operand {
        Bson::Document(mut modifiers) if each(&modifiers) => {
            if let Some(other) = modifiers.keys().nth(1) {
                return Err(QueryError::bad_value(format!(
                    "Found unexpected fields after $each in {operator}: {other}"
                )));
            }
            match modifiers.remove("$each") {
                Some(Bson::Array(values)) => Ok(values),
                other => Err(QueryError::new(
                    crate::error::ErrorCode::TypeMismatch,
                    format!(
                        "The argument to $each in {operator} must be an array but it was of type {}",
                        other.as_ref().map_or("missing", type_name)
                    ),
                )),
            }
        }
        value => Ok(vec![value]),
    }
}

/// Appends those of `values` that the array does not contain yet.
pub(super) fn add_to_set(array: &mut Vec<Bson>, values: &[Bson], collation: &Collation) -> Result<()> {
    for value in values {
        let mut contained = false;
        for element in array.iter() {
            contained = contained || compare_values(collation, element, value)?.is_eq();
        }
        if !contained {
            array.push(value.clone());
        }
    }
    Ok(())
}
