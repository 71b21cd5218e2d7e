//! Evaluating window functions over one partition.

use bson::RawDocumentBuf;

use crate::doc::{Doc, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::date::{moved, utc};
use crate::query::expr::number::Num;
use crate::query::expr::{Arena, Expr, Found, Globals, Scope, nullish};

use super::function::{Bounds, Edge, WindowFunction};
use super::sliding_window::over_windows;

/// The documents of a partition, sorted.
pub(super) struct Partition<'p> {
    pub(super) docs: &'p [RawDocumentBuf],
    /// The sort key of each.
    pub(super) keys: &'p [Vec<u8>],
    /// The value of each in the only sort field, and whether it is a date (in milliseconds).
    pub(super) values: Vec<Option<(f64, bool)>>,
    pub(super) globals: &'p Globals,
}

impl Partition<'_> {
    /// Calls `use_it` with the value of an expression for a document.
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

    /// The window of the document at `at`.
    fn window(&self, bounds: Bounds, at: usize) -> Result<std::ops::Range<usize>> {
        let len = self.docs.len();
        let Some(unit) = bounds.range else {
            let edge = |edge: Edge, unbounded: usize, past: f64| match edge {
                Edge::Unbounded => unbounded,
                Edge::At(off) => (at as f64 + off + past).clamp(0.0, len as f64) as usize,
            };
            let (low, high) = (edge(bounds.low, 0, 0.0), edge(bounds.high, len, 1.0));
            return Ok(low..high.max(low));
        };
        let Some(Some((own, date))) = self.values.get(at) else {
            return Err(QueryError::new(
                ErrorCode::Location5429414,
                "a window of a range needs numbers or dates in the sort's field",
            ));
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
        // The values are sorted, one kind after the other, so those inside are contiguous.
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

    /// The results of a window function, one for each document; `None` for missing.
    pub(super) fn results(&self, output: &WindowFunction) -> Result<Vec<Option<OwnedValue>>> {
        let len = self.docs.len();
        let number =
            |number: Option<f64>| Some(OwnedValue::from_value(number.map_or(Value::Null, Value::Double)));
        let mut all = Vec::with_capacity(len);
        match output {
            WindowFunction::Accumulator(accumulator, bounds) => {
                let (mut arguments, mut arena) = (Vec::with_capacity(len), Arena::new());
                for doc in self.docs {
                    arena.clear();
                    let (value, key) =
                        accumulator.argument(&mut Scope::new(Doc::from(doc), self.globals, &arena))?;
                    arguments.push((value.map(OwnedValue::from_value), key));
                }
                // The window is the whole partition for all documents.
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
            WindowFunction::Rank { dense } => {
                let mut rank = 0;
                for (at, key) in self.keys.iter().enumerate() {
                    let same = at.checked_sub(1).and_then(|before| self.keys.get(before)) == Some(key);
                    if !same {
                        rank = if *dense { rank + 1 } else { at + 1 };
                    }
                    all.push(int(rank));
                }
            }
            WindowFunction::Number => all.extend((1..=len).map(int)),
            WindowFunction::Shift { input, by, default } => {
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
            WindowFunction::Slope { input, unit, bounds, area } => {
                for at in 0..len {
                    let mut points = Vec::new();
                    for one in self.window(*bounds, at)? {
                        let x = self.values.get(one).copied().flatten().map(|(x, _)| x / unit);
                        points.push((x, self.number(one, input)?));
                    }
                    all.push(number(if *area { integral(&points) } else { slope(&points) }));
                }
            }
            WindowFunction::Moving { input, weight } => {
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
            WindowFunction::Carry(expr) => {
                let mut last = Some(OwnedValue::from_value(Value::Null));
                for at in 0..len {
                    let own = self.owned(at, expr)?;
                    if !nullish(own.as_ref().map(|own| own.value())) {
                        last = own;
                    }
                    all.push(last.clone());
                }
            }
            WindowFunction::LinearFill(expr) => {
                let mut known: Option<(usize, f64)> = None;
                for at in 0..len {
                    let own = self.owned(at, expr)?;
                    let own_number = self.number(at, expr)?;
                    all.push(own.or_else(|| Some(OwnedValue::from_value(Value::Null))));
                    let Some(y) = own_number else { continue };
                    if let Some((from, start)) = known {
                        self.interpolate((from, start), (at, y), &mut all);
                    }
                    known = Some((at, y));
                }
            }
            WindowFunction::Covariance { x, y, bounds, sample } => {
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

    /// Fills the results between two known ones by linear interpolation.
    fn interpolate(&self, from: (usize, f64), to: (usize, f64), all: &mut [Option<OwnedValue>]) {
        let position = |at: usize| self.values.get(at).copied().flatten().map(|(x, _)| x);
        let (Some(start), Some(end)) = (position(from.0), position(to.0)) else { return };
        for at in from.0 + 1..to.0 {
            let (Some(x), Some(result)) = (position(at), all.get_mut(at)) else { continue };
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
