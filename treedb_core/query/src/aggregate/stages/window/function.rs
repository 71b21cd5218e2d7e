//! Window functions and their windows, as they are written in `$setWindowFields`.

use crate::doc::{Doc, Element, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Sort;
use crate::query::expr::date::Unit;
use crate::query::expr::number::Num;
use crate::query::expr::{Expr, Names};

use crate::aggregate::accumulator::Accumulator;
use crate::aggregate::operand::{failed, known_fields_or, optional_string};

#[derive(Debug)]
pub(super) enum WindowFunction {
    Accumulator(Accumulator, Bounds),
    /// `$rank` or `$denseRank`.
    Rank {
        dense: bool,
    },
    /// `$documentNumber`.
    Number,
    /// `$shift`.
    Shift {
        input: Expr,
        by: i64,
        default: Option<OwnedValue>,
    },
    /// `$derivative`: the change per unit of the sort field between the ends of the window; or `$integral`, if `area`.
    Slope {
        input: Expr,
        unit: f64,
        bounds: Bounds,
        area: bool,
    },
    /// `$expMovingAvg`, with this weight of the current document.
    Moving {
        input: Expr,
        weight: f64,
    },
    /// `$linearFill`.
    LinearFill(Expr),
    /// `$locf`: the last value that was not null.
    Carry(Expr),
    /// `$covariancePop` or `$covarianceSamp`.
    Covariance {
        x: Expr,
        y: Expr,
        bounds: Bounds,
        sample: bool,
    },
}

/// One end of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Edge {
    Unbounded,
    /// Documents, or units of the sort field, from the current document.
    At(f64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) low: Edge,
    pub(super) high: Edge,
    /// Edges are values of the sort field, not numbers of documents: dates in this unit, or numbers.
    pub(super) range: Option<Option<Unit>>,
}

const WHOLE: Bounds = Bounds { low: Edge::Unbounded, high: Edge::Unbounded, range: None };

/// Reads the `window` of the function `name`.
fn bounds(name: &str, window: Option<Value<'_>>) -> Result<Bounds> {
    let Some(window) = window else { return Ok(WHOLE) };
    let Value::Document(window) = window else {
        return Err(failed(format!("{name}: 'window' must be a document")));
    };
    known_fields_or(ErrorCode::FailedToParse, "window", window, &["documents", "range", "unit"])?;
    let (given, range) = match (window.get("documents"), window.get("range")) {
        (Some(Value::Array(given)), None) => (given, None),
        (None, Some(Value::Array(given))) => {
            let unit = match optional_string("window", window, "unit")? {
                Some(unit) => {
                    Some(Unit::parse(unit).ok_or_else(|| failed(format!("window: unknown unit '{unit}'")))?)
                }
                None => None,
            };
            (given, Some(unit))
        }
        (None, None) => return Ok(WHOLE),
        _ => {
            return Err(failed(format!(
                "{name}: 'window' has either 'documents' or 'range', an array of two"
            )));
        }
    };
    let edges = given.elements().map(|edge| match edge.value() {
        Value::String(b"unbounded") => Ok(Edge::Unbounded),
        Value::String(b"current") => Ok(Edge::At(0.0)),
        value => match Num::new(value) {
            Some(number) => Ok(Edge::At(number.double())),
            None => Err(failed(format!("{name}: a window's edge is a number, 'current' or 'unbounded'"))),
        },
    });
    let edges = edges.collect::<Result<Vec<_>>>()?;
    match *edges.as_slice() {
        [Edge::At(low), Edge::At(high)] if low > high => Err(QueryError::new(
            ErrorCode::Location5339900,
            format!("{name}: the lower edge of a window must not exceed the upper edge: [{low}, {high}]"),
        )),
        [low, high] => Ok(Bounds { low, high, range }),
        _ => Err(failed(format!("{name}: a window has a lower and an upper edge"))),
    }
}

/// Reads a field of `output`: a window function and its window.
pub(super) fn parse_output(
    field: &Element<'_>,
    sort: Option<&Sort>,
    names: &Names,
) -> Result<WindowFunction> {
    let wrong =
        || failed(format!("$setWindowFields: the field '{}' must be one window function", field.name_str()));
    let Value::Document(doc) = field.value() else { return Err(wrong()) };
    let mut functions = doc.elements().filter(|element| element.name != b"window");
    let (Some(function), None) = (functions.next(), functions.next()) else { return Err(wrong()) };
    let name = function.name_str();
    let bounds_are_given = doc.get("window").is_some();
    let bounds = bounds(name, doc.get("window"))?;
    if sort.is_none_or(|sort| sort.keys.len() != 1) && bounds.range.is_some() {
        return Err(QueryError::new(
            ErrorCode::Location5339902,
            format!("{name}: a window of a range needs a sort by one field"),
        ));
    }
    if sort.is_none() && (bounds.low, bounds.high) != (Edge::Unbounded, Edge::Unbounded) {
        return Err(QueryError::new(
            ErrorCode::Location5339901,
            format!("{name}: a window of documents needs a 'sortBy'"),
        ));
    }
    let sorted = |output: WindowFunction| match sort {
        Some(_) => Ok(output),
        None => Err(failed(format!("{name} needs a 'sortBy'"))),
    };
    let args = |known: &[&str]| match function.value() {
        Value::Document(args) => known_fields_or(ErrorCode::FailedToParse, name, args, known).map(|()| args),
        _ => Err(failed(format!("{name} needs a document of arguments"))),
    };
    let needed = |args: Doc<'_>, argument: &str| match args.get(argument) {
        Some(value) => Expr::parse(value, names),
        None => Err(failed(format!("{name} needs '{argument}'"))),
    };
    if bounds_are_given && matches!(name, "$shift" | "$expMovingAvg") {
        return Err(failed(format!("{name} has no 'window'")));
    }
    let ranked = |output: WindowFunction| {
        let (code, what) = match (function.value(), sort) {
            _ if bounds_are_given => (ErrorCode::Location5371601, "has no 'window'"),
            (Value::Document(doc), Some(sort)) if doc.is_empty() && sort.keys.len() == 1 => {
                return Ok(output);
            }
            (Value::Document(doc), _) if doc.is_empty() => {
                (ErrorCode::Location5371602, "needs a 'sortBy' of exactly one field")
            }
            _ => (ErrorCode::Location5371603, "must be specified with '{}' as the value"),
        };
        Err(QueryError::new(code, format!("{name} {what}")))
    };
    match name {
        "$rank" => ranked(WindowFunction::Rank { dense: false }),
        "$denseRank" => ranked(WindowFunction::Rank { dense: true }),
        "$documentNumber" => ranked(WindowFunction::Number),
        "$shift" => {
            let args = args(&["output", "by", "default"])?;
            let by = args.get("by").and_then(|by| by.as_integer());
            let by = by.ok_or_else(|| failed("$shift needs a whole number 'by'"))?;
            let default = args.get("default").map(OwnedValue::from_value);
            sorted(WindowFunction::Shift { input: needed(args, "output")?, by, default })
        }
        "$derivative" | "$integral" => {
            let args = args(&["input", "unit"])?;
            let unit = match optional_string(name, args, "unit")? {
                None => 1.0,
                Some("week") => 604_800_000.0,
                Some("day") => 86_400_000.0,
                Some(unit) => match Unit::parse(unit) {
                    Some(Unit::Clock(len)) => len as f64,
                    Some(_) => {
                        return Err(QueryError::new(
                            ErrorCode::Location5490710,
                            format!("{name}: 'unit' must be week, day or shorter"),
                        ));
                    }
                    None => return Err(failed(format!("{name}: unknown time unit value: {unit}"))),
                },
            };
            sorted(WindowFunction::Slope {
                input: needed(args, "input")?,
                unit,
                bounds,
                area: name == "$integral",
            })
        }
        "$expMovingAvg" => {
            let args = args(&["input", "N", "alpha"])?;
            let weight =
                match (args.get("N").and_then(|n| n.as_integer()), args.get("alpha").and_then(Num::new)) {
                    (Some(n), None) if n > 0 => 2.0 / (n as f64 + 1.0),
                    (None, Some(alpha)) if alpha.double() > 0.0 && alpha.double() < 1.0 => alpha.double(),
                    _ => {
                        return Err(failed("$expMovingAvg needs 'N' above 0, or 'alpha' between 0 and 1"));
                    }
                };
            sorted(WindowFunction::Moving { input: needed(args, "input")?, weight })
        }
        "$linearFill" => sorted(WindowFunction::LinearFill(Expr::parse(function.value(), names)?)),
        "$locf" => sorted(WindowFunction::Carry(Expr::parse(function.value(), names)?)),
        "$covariancePop" | "$covarianceSamp" => match function.value() {
            Value::Array(pair) if pair.elements().count() == 2 => {
                let mut exprs = pair.elements().map(|one| Expr::parse(one.value(), names));
                let (Some(x), Some(y)) = (exprs.next(), exprs.next()) else { return Err(wrong()) };
                Ok(WindowFunction::Covariance { x: x?, y: y?, bounds, sample: name == "$covarianceSamp" })
            }
            _ => Err(failed(format!("{name} needs an array of two expressions"))),
        },
        _ => Ok(WindowFunction::Accumulator(Accumulator::operator(&function, names)?, bounds)),
    }
}
