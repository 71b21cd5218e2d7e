//! Expressions again, as plainly as they can be written, over decoded values.

use std::cmp::Ordering;

use bson::{Bson, Document};

use crate::query::naive::{self, compare, compare_sort_keys, sort_key};

/// What an expression gives; `None` is missing.
pub(super) type Found = Option<Bson>;

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(super) enum Wrong {
    /// The pipeline is an error.
    Refused,
    /// Not one of the things the oracle is about.
    Unknown,
}

pub(super) type Answer<T> = Result<T, Wrong>;

/// Variables by name.
pub(super) type Variables = Document;

/// The order of values, missing below everything but MinKey.
pub(super) fn order(a: &Found, b: &Found) -> Ordering {
    let or = |found: &Found| found.clone().unwrap_or(Bson::Undefined);
    compare(&or(a), &or(b))
}

pub(super) fn null(found: &Found) -> bool {
    matches!(found, None | Some(Bson::Null | Bson::Undefined))
}

pub(super) fn truthy(found: &Found) -> bool {
    match found {
        None | Some(Bson::Null | Bson::Undefined | Bson::Boolean(false)) => false,
        Some(Bson::Int32(n)) => *n != 0,
        Some(Bson::Int64(n)) => *n != 0,
        Some(Bson::Double(n)) => *n != 0.0,
        Some(decimal @ Bson::Decimal128(_)) => compare(decimal, &Bson::Int32(0)).is_ne(),
        Some(_) => true,
    }
}

/// What a path leads to: in an array, what it leads to in each of its documents.
pub(super) fn at_path(value: &Bson, parts: &[&str]) -> Found {
    let Some((part, rest)) = parts.split_first() else { return Some(value.clone()) };
    match value {
        Bson::Document(doc) => at_path(doc.get(part)?, rest),
        Bson::Array(array) => {
            let documents = array.iter().filter(|element| matches!(element, Bson::Document(_)));
            Some(Bson::Array(documents.filter_map(|element| at_path(element, parts)).collect()))
        }
        _ => None,
    }
}

/// A number: the width of its kind, and its value.
pub(super) fn number(value: &Bson) -> Option<(u8, f64)> {
    match value {
        Bson::Int32(n) => Some((0, f64::from(*n))),
        Bson::Int64(n) => Some((1, *n as f64)),
        Bson::Double(n) => Some((2, *n)),
        Bson::Decimal128(_) => Some((DECIMAL, naive::number(value))),
        _ => None,
    }
}

/// The kind of decimals.
pub(super) const DECIMAL: u8 = 3;

/// Fails where one of the numbers is a decimal and doubles do not calculate as decimals do.
pub(super) fn alike<'v>(values: impl IntoIterator<Item = &'v Bson>) -> Answer<()> {
    let numbers: Vec<&Bson> = values.into_iter().filter(|value| number(value).is_some()).collect();
    let decimal = numbers.iter().any(|value| matches!(value, Bson::Decimal128(_)));
    if decimal && !numbers.into_iter().all(naive::simple) { Err(Wrong::Unknown) } else { Ok(()) }
}

/// A number of at least the width of `kind`. Integers too great for a double to tell apart are not made here.
pub(super) fn of_kind(kind: u8, value: f64) -> Answer<Bson> {
    match kind {
        DECIMAL if naive::simple(&Bson::Double(value)) => {
            let written = value.to_string().replace("inf", "Infinity");
            written.parse().map(Bson::Decimal128).map_err(|_| Wrong::Unknown)
        }
        DECIMAL => Err(Wrong::Unknown),
        2 => Ok(Bson::Double(value)),
        _ if value.abs() > 9e15 => Err(Wrong::Unknown),
        0 if value.abs() < 2e9 => Ok(Bson::Int32(value as i32)),
        _ => Ok(Bson::Int64(value as i64)),
    }
}

fn calculate(args: &[Found], start: f64, with: fn(f64, f64) -> f64) -> Answer<Found> {
    let (mut kind, mut total) = (0, start);
    alike(args.iter().flatten())?;
    for arg in args {
        match arg {
            found if null(found) => return Ok(Some(Bson::Null)),
            Some(Bson::DateTime(_)) => return Err(Wrong::Unknown),
            Some(value) => {
                let (own, value) = number(value).ok_or(Wrong::Refused)?;
                kind = kind.max(own);
                total = with(total, value);
            }
            None => {}
        }
    }
    of_kind(kind, total).map(Some)
}

/// The value of an expression for a document.
pub(super) fn eval(expr: &Bson, root: &Document, variables: &Variables) -> Answer<Found> {
    match expr {
        Bson::String(text) if text.starts_with("$$") => {
            let parts: Vec<&str> = text[2..].split('.').collect();
            let base = match parts[0] {
                "REMOVE" => return Ok(None),
                "ROOT" | "CURRENT" => Bson::Document(root.clone()),
                "KEEP" => Bson::String("keep".to_owned()),
                "PRUNE" => Bson::String("prune".to_owned()),
                "DESCEND" => Bson::String("descend".to_owned()),
                name => match variables.get(name) {
                    // A variable that is there and holds nothing.
                    None | Some(Bson::Undefined) => return Ok(None),
                    Some(value) => value.clone(),
                },
            };
            Ok(at_path(&base, &parts[1..]))
        }
        Bson::String(text) if text.starts_with('$') => {
            Ok(at_path(&Bson::Document(root.clone()), &text[1..].split('.').collect::<Vec<_>>()))
        }
        Bson::Array(items) => {
            let items = items.iter().map(|item| Ok(eval(item, root, variables)?.unwrap_or(Bson::Null)));
            Ok(Some(Bson::Array(items.collect::<Answer<_>>()?)))
        }
        Bson::Document(doc) => match doc.iter().next() {
            Some((name, operand)) if name.starts_with('$') => operator(name, operand, root, variables),
            _ => {
                let mut made = Document::new();
                for (name, field) in doc {
                    if let Some(value) = eval(field, root, variables)? {
                        made.insert(name, value);
                    }
                }
                Ok(Some(Bson::Document(made)))
            }
        },
        constant => Ok(Some(constant.clone())),
    }
}

fn operator(name: &str, operand: &Bson, root: &Document, variables: &Variables) -> Answer<Found> {
    let of = |expr: &Bson| eval(expr, root, variables);
    let parts: Vec<&Bson> = match operand {
        Bson::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    let part = |name: &str| operand.as_document().and_then(|doc| doc.get(name)).ok_or(Wrong::Unknown);
    let list = |found: Found| match found {
        found if null(&found) => Ok(None),
        Some(Bson::Array(all)) => Ok(Some(all)),
        _ => Err(Wrong::Refused),
    };
    let truth = |yes: bool| Ok(Some(Bson::Boolean(yes)));
    // Those that do not look at all their operands.
    match name {
        "$literal" => return Ok(Some(operand.clone())),
        "$and" => {
            for part in parts {
                if !truthy(&of(part)?) {
                    return truth(false);
                }
            }
            return truth(true);
        }
        "$or" => {
            for part in parts {
                if truthy(&of(part)?) {
                    return truth(true);
                }
            }
            return truth(false);
        }
        "$cond" => return if truthy(&of(parts[0])?) { of(parts[1]) } else { of(parts[2]) },
        "$ifNull" => {
            let mut last = None;
            for part in parts {
                last = of(part)?;
                if !null(&last) {
                    break;
                }
            }
            return Ok(last);
        }
        "$let" => {
            let mut inner = variables.clone();
            for (name, value) in part("vars")?.as_document().ok_or(Wrong::Unknown)? {
                inner.insert(name, of(value)?.unwrap_or(Bson::Undefined));
            }
            return eval(part("in")?, root, &inner);
        }
        "$map" | "$filter" => {
            let Some(items) = list(of(part("input")?)?)? else { return Ok(Some(Bson::Null)) };
            let mut made = Vec::new();
            for item in items {
                let mut inner = variables.clone();
                inner.insert("this", item.clone());
                if name == "$map" {
                    made.push(eval(part("in")?, root, &inner)?.unwrap_or(Bson::Null));
                } else if truthy(&eval(part("cond")?, root, &inner)?) {
                    made.push(item);
                }
            }
            return Ok(Some(Bson::Array(made)));
        }
        "$reduce" => {
            let Some(items) = list(of(part("input")?)?)? else { return Ok(Some(Bson::Null)) };
            let mut so_far = of(part("initialValue")?)?;
            for item in items {
                let mut inner = variables.clone();
                inner.insert("this", item);
                inner.insert("value", so_far.unwrap_or(Bson::Undefined));
                so_far = eval(part("in")?, root, &inner)?;
            }
            return Ok(so_far);
        }
        "$sortArray" => {
            let Some(mut items) = list(of(part("input")?)?)? else { return Ok(Some(Bson::Null)) };
            match part("sortBy")? {
                Bson::Document(by) => {
                    let mut keyed = Vec::new();
                    for item in items {
                        let doc = item.as_document().ok_or(Wrong::Unknown)?;
                        keyed.push((sort_key(doc, by), item));
                    }
                    keyed.sort_by(|a, b| compare_sort_keys(&a.0, &b.0, by));
                    if keyed.windows(2).any(|pair| compare_sort_keys(&pair[0].0, &pair[1].0, by).is_eq()) {
                        return Err(Wrong::Unknown);
                    }
                    items = keyed.into_iter().map(|(_, item)| item).collect();
                }
                _ => items.sort_by(compare),
            }
            return Ok(Some(Bson::Array(items)));
        }
        _ => {}
    }
    let args = parts.into_iter().map(of).collect::<Answer<Vec<Found>>>()?;
    let compared = || order(&args[0], &args[1]);
    match name {
        "$add" => calculate(&args, 0.0, |a, b| a + b),
        "$multiply" => calculate(&args, 1.0, |a, b| a * b),
        "$subtract" => match args.as_slice() {
            args if args.iter().any(null) => Ok(Some(Bson::Null)),
            [Some(Bson::DateTime(_)), _] | [_, Some(Bson::DateTime(_))] => Err(Wrong::Unknown),
            [Some(a), Some(b)] => {
                alike([a, b])?;
                let (a, b) = (number(a).ok_or(Wrong::Refused)?, number(b).ok_or(Wrong::Refused)?);
                of_kind(a.0.max(b.0), a.1 - b.1).map(Some)
            }
            _ => Err(Wrong::Unknown),
        },
        "$eq" => truth(compared().is_eq()),
        "$ne" => truth(compared().is_ne()),
        "$lt" => truth(compared().is_lt()),
        "$lte" => truth(compared().is_le()),
        "$gt" => truth(compared().is_gt()),
        "$gte" => truth(compared().is_ge()),
        "$cmp" => Ok(Some(Bson::Int32(compared() as i32))),
        "$not" => truth(!truthy(&args[0])),
        "$isArray" => truth(matches!(args[0], Some(Bson::Array(_)))),
        "$size" => match &args[0] {
            Some(Bson::Array(all)) => Ok(Some(Bson::Int32(all.len() as i32))),
            _ => Err(Wrong::Refused),
        },
        "$concatArrays" => {
            let mut all = Vec::new();
            for arg in &args {
                match arg {
                    found if null(found) => return Ok(Some(Bson::Null)),
                    Some(Bson::Array(items)) => all.extend(items.clone()),
                    _ => return Err(Wrong::Refused),
                }
            }
            Ok(Some(Bson::Array(all)))
        }
        "$in" => match &args[1] {
            Some(Bson::Array(all)) => {
                truth(all.iter().any(|one| order(&Some(one.clone()), &args[0]).is_eq()))
            }
            _ => Err(Wrong::Refused),
        },
        "$mergeObjects" => {
            let mut made = Document::new();
            for arg in args {
                merge(&mut made, &arg)?;
            }
            Ok(Some(Bson::Document(made)))
        }
        _ => Err(Wrong::Unknown),
    }
}

/// Puts the fields of one document into another.
pub(super) fn merge(into: &mut Document, found: &Found) -> Answer<()> {
    match found {
        found if null(found) => Ok(()),
        Some(Bson::Document(doc)) => {
            into.extend(doc.clone());
            Ok(())
        }
        _ => Err(Wrong::Refused),
    }
}
