//! `$setWindowFields`: for each document, what the documents around it give.
//!
//! The documents are held in memory, each partition in order. An accumulator over windows is evaluated by [`sliding_window`].

mod sliding_window;

use std::collections::HashMap;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::{Collation, Doc, Element, OwnedValue, Path, Value};
use crate::error::Result;
use crate::query::Sort;
use crate::query::expr::date::{Unit, moved, utc};
use crate::query::expr::number::Num;
use crate::query::expr::{Arena, Expr, Found, Globals, Names, Scope, check_path, nullish};

use crate::aggregate::accumulator::Accumulator;
use crate::aggregate::context::Context;
use crate::aggregate::operand::{document, failed, known_fields, memory_exceeded, optional_string, raw};
use crate::aggregate::set_value::with_value;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

use sliding_window::over_windows;

/// `$setWindowFields`.
#[derive(Debug)]
pub(crate) struct Window {
    partition: Option<Expr>,
    sort: Option<Sort>,
    collation: Collation,
    outputs: Vec<(Path, Output)>,
}

#[derive(Debug)]
enum Output {
    Accumulator(Accumulator, Bounds),
    Rank {
        dense: bool,
    },
    Number,
    Shift {
        input: Expr,
        by: i64,
        default: Option<OwnedValue>,
    },
    /// Change per unit of the sort's field between the ends of the window, or the area under it.
    Slope {
        input: Expr,
        unit: f64,
        bounds: Bounds,
        area: bool,
    },
    /// Exponential moving average with this weight of the newest.
    Moving {
        input: Expr,
        weight: f64,
    },
    LinearFill(Expr),
    /// The last value that was not null.
    Carry(Expr),
    Covariance {
        x: Expr,
        y: Expr,
        bounds: Bounds,
        sample: bool,
    },
}

/// One side of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge {
    Unbounded,
    /// Documents, or units of the sort's field, from the current one.
    At(f64),
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: Edge,
    high: Edge,
    /// Counted in the sort field's value instead of documents: with a unit of time, or plain numbers.
    range: Option<Option<Unit>>,
}

const WHOLE: Bounds = Bounds { low: Edge::Unbounded, high: Edge::Unbounded, range: None };

fn bounds(name: &str, window: Option<Value<'_>>) -> Result<Bounds> {
    let Some(window) = window else { return Ok(WHOLE) };
    let Value::Document(window) = window else {
        return Err(failed(format!("{name}: 'window' must be a document")));
    };
    known_fields("window", window, &["documents", "range", "unit"])?;
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
    match edges.as_slice() {
        &[low, high] => Ok(Bounds { low, high, range }),
        _ => Err(failed(format!("{name}: a window has a lower and an upper edge"))),
    }
}

fn output(field: &Element<'_>, sort: Option<&Sort>, names: &Names) -> Result<Output> {
    let wrong =
        || failed(format!("$setWindowFields: the field '{}' must be one window function", field.name_str()));
    let Value::Document(doc) = field.value() else { return Err(wrong()) };
    let mut functions = doc.elements().filter(|element| element.name != b"window");
    let (Some(function), None) = (functions.next(), functions.next()) else { return Err(wrong()) };
    let name = function.name_str();
    let bounds = bounds(name, doc.get("window"))?;
    if sort.is_none() && bounds.range.is_some()
        || sort.is_some_and(|sort| sort.keys.len() != 1) && bounds.range.is_some()
    {
        return Err(failed(format!("{name}: a window of a range needs a sort by one field")));
    }
    let sorted = |output: Output| match sort {
        Some(_) => Ok(output),
        None => Err(failed(format!("{name} needs a 'sortBy'"))),
    };
    let args = |known: &[&str]| match function.value() {
        Value::Document(args) => known_fields(name, args, known).map(|()| args),
        _ => Err(failed(format!("{name} needs a document of arguments"))),
    };
    let needed = |args: Doc<'_>, argument: &str| match args.get(argument) {
        Some(value) => Expr::parse(value, names),
        None => Err(failed(format!("{name} needs '{argument}'"))),
    };
    match name {
        "$rank" => sorted(Output::Rank { dense: false }),
        "$denseRank" => sorted(Output::Rank { dense: true }),
        "$documentNumber" => sorted(Output::Number),
        "$shift" => {
            let args = args(&["output", "by", "default"])?;
            let by = args.get("by").and_then(|by| by.as_integer());
            let by = by.ok_or_else(|| failed("$shift needs a whole number 'by'"))?;
            let default = args.get("default").map(OwnedValue::from_value);
            sorted(Output::Shift { input: needed(args, "output")?, by, default })
        }
        "$derivative" | "$integral" => {
            let args = args(&["input", "unit"])?;
            let unit = match optional_string(name, args, "unit")? {
                None => 1.0,
                Some("week") => 604_800_000.0,
                Some("day") => 86_400_000.0,
                Some(unit) => match Unit::parse(unit) {
                    Some(Unit::Clock(len)) => len as f64,
                    _ => return Err(failed(format!("{name}: 'unit' must be week, day or shorter"))),
                },
            };
            sorted(Output::Slope { input: needed(args, "input")?, unit, bounds, area: name == "$integral" })
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
            sorted(Output::Moving { input: needed(args, "input")?, weight })
        }
        "$linearFill" => sorted(Output::LinearFill(Expr::parse(function.value(), names)?)),
        "$locf" => sorted(Output::Carry(Expr::parse(function.value(), names)?)),
        "$covariancePop" | "$covarianceSamp" => match function.value() {
            Value::Array(pair) if pair.elements().count() == 2 => {
                let mut exprs = pair.elements().map(|one| Expr::parse(one.value(), names));
                let (Some(x), Some(y)) = (exprs.next(), exprs.next()) else { return Err(wrong()) };
                Ok(Output::Covariance { x: x?, y: y?, bounds, sample: name == "$covarianceSamp" })
            }
            _ => Err(failed(format!("{name} needs an array of two expressions"))),
        },
        _ => Ok(Output::Accumulator(Accumulator::operator(&function, names)?, bounds)),
    }
}

/// A partition's documents in order.
struct Part<'p> {
    docs: &'p [RawDocumentBuf],
    /// Each one's place in the sort.
    keys: &'p [Vec<u8>],
    /// Each one's value of the only sort field; dates as milliseconds.
    values: Vec<Option<(f64, bool)>>,
    globals: &'p Globals,
}

impl Part<'_> {
    /// Shows `use_it` an expression's value for a document.
    fn value<T>(&self, at: usize, expr: &Expr, use_it: impl FnOnce(Found<'_>) -> T) -> Result<T> {
        let arena = Arena::new();
        let doc = self.docs.get(at).map_or(Doc::EMPTY, Doc::from);
        Ok(use_it(expr.eval(&mut Scope::new(doc, self.globals, &arena))?))
    }

    fn owned(&self, at: usize, expr: &Expr) -> Result<Option<OwnedValue>> {
        self.value(at, expr, |found| found.map(OwnedValue::from_value))
    }

    fn number(&self, at: usize, expr: &Expr) -> Result<Option<f64>> {
        self.value(at, expr, |found| {
            found.and_then(|value| match value {
                Value::Date(millis) => Some(millis as f64),
                value => Num::new(value).map(Num::double),
            })
        })
    }

    /// The documents of the window of the one at `at`.
    fn window(&self, bounds: Bounds, at: usize) -> Result<std::ops::Range<usize>> {
        let len = self.docs.len();
        let Some(unit) = bounds.range else {
            let edge = |edge: Edge, unbounded: usize, behind: f64| match edge {
                Edge::Unbounded => unbounded,
                Edge::At(off) => (at as f64 + off + behind).clamp(0.0, len as f64) as usize,
            };
            let (low, high) = (edge(bounds.low, 0, 0.0), edge(bounds.high, len, 1.0));
            return Ok(low..high.max(low));
        };
        let Some(Some((own, date))) = self.values.get(at) else {
            return Err(failed("a window of a range needs numbers or dates in the sort's field"));
        };
        let limit = |edge: Edge, unbounded: f64| match (edge, unit) {
            (Edge::Unbounded, _) => Ok(unbounded),
            (Edge::At(off), Some(unit)) if *date => {
                moved(*own as i64, unit, off as i64, &utc()).map(|millis| millis as f64)
            }
            (Edge::At(off), _) => Ok(own + off),
        };
        let (low, high) = (limit(bounds.low, f64::NEG_INFINITY)?, limit(bounds.high, f64::INFINITY)?);
        let inside = |value: &Option<(f64, bool)>| {
            value.is_some_and(|(value, kind)| kind == *date && low <= value && value <= high)
        };
        // The values are in order, one kind after the other: those inside lie together.
        let own = self.values.get(at..).unwrap_or_default();
        let (before, _) = self.values.split_at_checked(at).unwrap_or_default();
        let reaches = |value: f64| low <= value && value <= high;
        if !reaches(self.values.get(at).copied().flatten().map_or(f64::NAN, |(value, _)| value)) {
            let first = self.values.iter().position(inside).unwrap_or(at);
            let count = self.values.iter().skip(first).take_while(|value| inside(value)).count();
            return Ok(first..first + count);
        }
        let first = before.partition_point(|value| !inside(value));
        Ok(first..at + own.partition_point(inside))
    }

    /// The results of an output, one for each document; `None` for missing.
    fn results(&self, output: &Output) -> Result<Vec<Option<OwnedValue>>> {
        let len = self.docs.len();
        let number =
            |number: Option<f64>| Some(OwnedValue::from_value(number.map_or(Value::Null, Value::Double)));
        let mut all = Vec::with_capacity(len);
        match output {
            Output::Accumulator(accumulator, bounds) => {
                let (mut arguments, mut arena) = (Vec::with_capacity(len), Arena::new());
                for doc in self.docs {
                    arena.clear();
                    let (value, key) =
                        accumulator.argument(&mut Scope::new(Doc::from(doc), self.globals, &arena))?;
                    arguments.push((value.map(OwnedValue::from_value), key));
                }
                // The whole partition is the same for all of it.
                if bounds.low == Edge::Unbounded && bounds.high == Edge::Unbounded {
                    let one = over_windows(accumulator, &arguments, std::slice::from_ref(&(0..len)))?
                        .pop()
                        .flatten();
                    all.resize(len, one);
                    return Ok(all);
                }
                let windows = (0..len).map(|at| self.window(*bounds, at)).collect::<Result<Vec<_>>>()?;
                return over_windows(accumulator, &arguments, &windows);
            }
            Output::Rank { dense } => {
                let mut rank = 0;
                for (at, key) in self.keys.iter().enumerate() {
                    let same = at.checked_sub(1).and_then(|before| self.keys.get(before)) == Some(key);
                    if !same {
                        rank = if *dense { rank + 1 } else { at + 1 };
                    }
                    all.push(int(rank));
                }
            }
            Output::Number => all.extend((1..=len).map(int)),
            Output::Shift { input, by, default } => {
                for at in 0..len {
                    let from = i64::try_from(at).ok().and_then(|at| at.checked_add(*by));
                    let from = from.and_then(|from| usize::try_from(from).ok()).filter(|from| *from < len);
                    let null = || Some(OwnedValue::from_value(Value::Null));
                    all.push(match from {
                        Some(from) => self.owned(from, input)?.or_else(null),
                        None => default.clone().or_else(null),
                    });
                }
            }
            Output::Slope { input, unit, bounds, area } => {
                for at in 0..len {
                    let mut points = Vec::new();
                    for one in self.window(*bounds, at)? {
                        let x = self.values.get(one).copied().flatten().map(|(x, _)| x / unit);
                        points.push((x, self.number(one, input)?));
                    }
                    all.push(number(if *area { integral(&points) } else { slope(&points) }));
                }
            }
            Output::Moving { input, weight } => {
                let mut last: Option<f64> = None;
                for at in 0..len {
                    if let Some(value) = self.number(at, input)? {
                        last = Some(last.map_or(value, |last| value * weight + last * (1.0 - weight)));
                        all.push(number(last));
                    } else {
                        all.push(number(None));
                    }
                }
            }
            Output::Carry(expr) => {
                let mut last = Some(OwnedValue::from_value(Value::Null));
                for at in 0..len {
                    let own = self.owned(at, expr)?;
                    if !nullish(own.as_ref().map(|own| own.value())) {
                        last = own;
                    }
                    all.push(last.clone());
                }
            }
            Output::LinearFill(expr) => {
                let mut known: Option<(usize, f64)> = None;
                for at in 0..len {
                    let own = self.owned(at, expr)?;
                    let own_number = self.number(at, expr)?;
                    all.push(own.or_else(|| Some(OwnedValue::from_value(Value::Null))));
                    let Some(y) = own_number else { continue };
                    if let Some((from, start)) = known {
                        self.between((from, start), (at, y), &mut all);
                    }
                    known = Some((at, y));
                }
            }
            Output::Covariance { x, y, bounds, sample } => {
                for at in 0..len {
                    let mut pairs = Vec::new();
                    for one in self.window(*bounds, at)? {
                        if let (Some(x), Some(y)) = (self.number(one, x)?, self.number(one, y)?) {
                            pairs.push((x, y));
                        }
                    }
                    let n = pairs.len() as f64;
                    let (mean_x, mean_y) =
                        pairs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
                    let sum: f64 = pairs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
                    let over = n - f64::from(u8::from(*sample));
                    all.push(number((over > 0.0).then(|| sum / over)));
                }
            }
        }
        Ok(all)
    }

    /// Puts the numbers on the line between two known ones where there is none.
    fn between(&self, from: (usize, f64), to: (usize, f64), all: &mut [Option<OwnedValue>]) {
        let place = |at: usize| self.values.get(at).copied().flatten().map(|(x, _)| x);
        let (Some(start), Some(end)) = (place(from.0), place(to.0)) else { return };
        for at in from.0 + 1..to.0 {
            let (Some(x), Some(result)) = (place(at), all.get_mut(at)) else { continue };
            let part = if end == start { 0.0 } else { (x - start) / (end - start) };
            *result = Some(OwnedValue::from_value(Value::Double(from.1 + (to.1 - from.1) * part)));
        }
    }
}

fn int(value: usize) -> Option<OwnedValue> {
    Some(OwnedValue::from_value(Value::Int32(i32::try_from(value).unwrap_or(i32::MAX))))
}

type Point = (Option<f64>, Option<f64>);

fn slope(points: &[Point]) -> Option<f64> {
    let (Some((Some(x0), Some(y0))), Some((Some(x1), Some(y1)))) = (points.first(), points.last()) else {
        return None;
    };
    (points.len() > 1 && x1 != x0).then(|| (y1 - y0) / (x1 - x0))
}

fn integral(points: &[Point]) -> Option<f64> {
    let mut area = 0.0;
    for pair in points.windows(2) {
        let &[(Some(x0), Some(y0)), (Some(x1), Some(y1))] = pair else { return None };
        area += (x1 - x0) * (y0 + y1) / 2.0;
    }
    Some(area)
}

struct WindowStream {
    stage: Arc<Window>,
    context: Context,
    input: Option<BoxedStream>,
    ready: std::vec::IntoIter<RawDocumentBuf>,
}

impl Stage for Window {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let names = &parser.names;
        const NAME: &str = "$setWindowFields";
        let doc = document(stage)?;
        known_fields(NAME, doc, &["partitionBy", "sortBy", "output"])?;
        let sort = match doc.get("sortBy") {
            Some(Value::Document(sort)) => {
                Sort::parse(raw(sort)?)?.map(|sort| sort.collated(names.collation()))
            }
            None => None,
            Some(_) => return Err(failed("$setWindowFields: 'sortBy' must be a document")),
        };
        let Some(Value::Document(fields)) = doc.get("output") else {
            return Err(failed("$setWindowFields needs a document 'output'"));
        };
        let mut outputs = Vec::new();
        for field in fields.elements() {
            check_path(field.name_str())?;
            outputs.push((Path::new(field.name_str()), output(&field, sort.as_ref(), names)?));
        }
        let partition = doc.get("partitionBy").map(|by| Expr::parse(by, names)).transpose()?;
        Ok(Window { partition, sort, collation: names.collation().clone(), outputs })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let context = context.clone();
        Ok(Box::new(WindowStream { stage: self, context, input: Some(input), ready: Vec::new().into_iter() }))
    }
}

impl WindowStream {
    fn read(&self, mut input: BoxedStream) -> Result<Vec<RawDocumentBuf>> {
        let (stage, context) = (&*self.stage, &self.context);
        let (mut arena, mut bytes) = (Arena::new(), 0);
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut parts: Vec<Vec<(Vec<u8>, RawDocumentBuf)>> = Vec::new();
        input.for_each(&mut |document| {
            let mut partition = Vec::new();
            if let Some(by) = &stage.partition {
                arena.clear();
                let value = by.eval(&mut Scope::new(Doc::from(document), &context.globals, &arena))?;
                stage.collation.encode(value.unwrap_or(Value::Null), &mut partition);
            }
            let key = stage.sort.as_ref().map(|sort| sort.key(document)).transpose()?.unwrap_or_default();
            bytes += document.as_bytes().len() + key.len() + 64;
            if bytes > context.memory_limit {
                return Err(memory_exceeded("$setWindowFields", context.memory_limit));
            }
            let place = *places.entry(partition).or_insert(parts.len());
            if place == parts.len() {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.get_mut(place) {
                part.push((key, document.to_owned()));
            }
            Ok(Flow::Continue(()))
        })?;
        let mut all = Vec::new();
        for mut part in parts {
            part.sort_by(|a, b| a.0.cmp(&b.0));
            let (keys, docs): (Vec<_>, Vec<_>) = part.into_iter().unzip();
            all.extend(self.partition(keys, docs)?);
        }
        Ok(all)
    }

    fn partition(&self, keys: Vec<Vec<u8>>, docs: Vec<RawDocumentBuf>) -> Result<Vec<RawDocumentBuf>> {
        let only = self.stage.sort.as_ref().and_then(|sort| match sort.keys.as_slice() {
            [key] => Some(key.path.clone()),
            _ => None,
        });
        let value = |doc: &RawDocumentBuf| match only.as_ref()?.get(Doc::from(doc))? {
            Value::Date(millis) => Some((millis as f64, true)),
            value => Num::new(value).map(|number| (number.double(), false)),
        };
        let values = docs.iter().map(value).collect();
        let part = Part { docs: &docs, keys: &keys, values, globals: &self.context.globals };
        let mut columns = Vec::new();
        for (path, output) in &self.stage.outputs {
            columns.push((path, part.results(output)?.into_iter()));
        }
        let mut out = Vec::with_capacity(docs.len());
        for doc in &docs {
            let mut doc = doc.clone();
            for (path, column) in &mut columns {
                if let Some(Some(value)) = column.next() {
                    doc = with_value(Doc::from(&doc), path, Some(value.value()))?;
                }
            }
            out.push(doc);
        }
        Ok(out)
    }
}

impl DocumentStream for WindowStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.ready = self.read(input)?.into_iter();
        }
        Ok(self.ready.next())
    }
}
