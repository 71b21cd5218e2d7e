//! `$densify`, which adds the documents that are missing in a series, and `$fill`, which is rewritten to
//! `$setWindowFields` and `$set`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::compare::compare;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, Element, OwnedValue, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::check_path;
use crate::query::expr::date::{Unit, moved, utc};
use crate::query::expr::number::Num;

use crate::aggregate::context::Context;
use crate::aggregate::operand::{
    IDL, document, failed, known_fields, memory_exceeded, missing_field, optional_string_or, required_string,
    wrong_field,
};
use crate::aggregate::score::{Scored, Scores, pass_on};
use crate::aggregate::set_value::with_value;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

/// Documents that one `$densify` may add: MongoDB's limit.
const MAX_ADDED: usize = 500_000;

/// `$densify`.
#[derive(Debug)]
pub(crate) struct Densify {
    field: Path,
    partition: Vec<Path>,
    step: f64,
    unit: Option<Unit>,
    bounds: Bounds,
    collation: Collation,
}

#[derive(Debug)]
enum Bounds {
    /// `full`: from the least to the greatest value of all documents.
    Full,
    /// `partition`: from the least to the greatest value of each partition.
    Partition,
    Given(OwnedValue, OwnedValue),
}

/// A value of the field: a number and whether it is a whole one, or a date in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Point {
    Number(f64, bool),
    Date(i64),
}

impl Point {
    fn new(value: Value<'_>) -> Option<Point> {
        match value {
            Value::Date(millis) => Some(Point::Date(millis)),
            Value::Double(value) => Some(Point::Number(value, false)),
            value => Num::new(value).map(|number| Point::Number(number.double(), true)),
        }
    }

    fn value(self) -> Value<'static> {
        match self {
            Point::Date(millis) => Value::Date(millis),
            Point::Number(value, true) if value.fract() == 0.0 && value.abs() < 9e15 => {
                i32::try_from(value as i64).map_or(Value::Int64(value as i64), Value::Int32)
            }
            Point::Number(value, _) => Value::Double(value),
        }
    }

    fn equals(self, other: Point) -> bool {
        match (self, other) {
            (Point::Date(a), Point::Date(b)) => a == b,
            (Point::Number(a, _), Point::Number(b, _)) => a == b,
            _ => false,
        }
    }

    fn below(self, other: Point) -> bool {
        match (self, other) {
            (Point::Date(a), Point::Date(b)) => a < b,
            (Point::Number(a, _), Point::Number(b, _)) => a < b,
            _ => false,
        }
    }
}

/// The paths of `partitionByFields`.
fn paths(stage: &str, value: Option<Value<'_>>) -> Result<Vec<Path>> {
    let wrong = |found| wrong_field(stage, "partitionByFields", "an array of field names", found);
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(all)) => all
            .elements()
            .map(|path| match path.value() {
                Value::String(path) => {
                    let path = std::str::from_utf8(path).unwrap_or_default();
                    check_path(path)?;
                    Ok(Path::new(path))
                }
                other => Err(wrong(other)),
            })
            .collect(),
        Some(other) => Err(wrong(other)),
    }
}

/// A field of an operand that must be a document.
fn required_document<'a>(stage: &str, doc: Doc<'a>, name: &str) -> Result<Doc<'a>> {
    match doc.get(name) {
        Some(Value::Document(found)) => Ok(found),
        Some(other) => Err(wrong_field(stage, name, "object", other)),
        None => Err(missing_field(stage, name)),
    }
}

/// The `bounds` of `$densify`; `unit` is that of its step.
fn bounds_of(given: Option<Value<'_>>, unit: Option<Unit>) -> Result<Bounds> {
    use ErrorCode as C;
    let wrong = |code, what: &str| Err(QueryError::new(code, format!("$densify: {what}")));
    let edges: Vec<_> = match given {
        Some(Value::String(b"full")) => return Ok(Bounds::Full),
        Some(Value::String(b"partition")) => return Ok(Bounds::Partition),
        Some(Value::String(_)) => {
            return wrong(C::Location5946802, "'bounds' as a string must be 'full' or 'partition'");
        }
        Some(Value::Array(edges)) => edges.elements().map(|edge| edge.value()).collect(),
        Some(_) => {
            return wrong(C::Location5733404, "'bounds' must be 'full', 'partition' or an array of two");
        }
        None => return Err(missing_field("$densify.range", "bounds")),
    };
    let &[low, high] = edges.as_slice() else {
        return wrong(C::Location5733403, "an array of 'bounds' must have exactly two elements");
    };
    if compare(low, high).is_gt() {
        return wrong(C::Location5733402, "an array of 'bounds' must be in ascending order");
    }
    match (Point::new(low), Point::new(high)) {
        (Some(Point::Number(..)), _) if unit.is_some() => {
            wrong(C::Location5733409, "'bounds' that are numbers may not have a 'unit'")
        }
        (Some(Point::Date(_)), Some(Point::Date(_))) if unit.is_none() => {
            wrong(C::Location5733410, "'bounds' that are dates must have a 'unit'")
        }
        (Some(Point::Number(..)), Some(Point::Number(..))) | (Some(Point::Date(_)), Some(Point::Date(_))) => {
            Ok(Bounds::Given(OwnedValue::from_value(low), OwnedValue::from_value(high)))
        }
        (Some(Point::Number(..)), _) => {
            wrong(C::Location5733406, "'bounds' must be two numbers or two dates, not a number and another")
        }
        (Some(Point::Date(_)), _) => {
            wrong(C::Location5733405, "'bounds' must be two numbers or two dates, not a date and another")
        }
        (None, _) => wrong(C::Location5946800, "'bounds' must be numbers or dates"),
    }
}

impl Densify {
    /// The `n`th step from `start`.
    fn step(&self, start: Point, n: usize) -> Result<Point> {
        match (start, self.unit) {
            (Point::Date(millis), Some(unit)) => {
                let by = (self.step as i64).saturating_mul(i64::try_from(n).unwrap_or(i64::MAX));
                Ok(Point::Date(moved(millis, unit, by, &utc())?))
            }
            (Point::Number(value, whole), None) => {
                Ok(Point::Number(value + self.step * n as f64, whole && self.step.fract() == 0.0))
            }
            _ => Err(QueryError::new(
                ErrorCode::TypeMismatch,
                "$densify: dates need a 'unit', and numbers may have none",
            )),
        }
    }
}

/// A partition: the values of its fields, and its documents.
#[derive(Default)]
struct Partition {
    fields: Vec<Option<OwnedValue>>,
    docs: Vec<(Option<Point>, Scored)>,
}

struct DensifyStream {
    stage: Arc<Densify>,
    context: Context,
    input: Option<BoxedStream>,
    ready: std::vec::IntoIter<Scored>,
}

impl Stage for Densify {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let collation = parser.names.collation();
        const NAME: &str = "$densify";
        let doc = document(stage)?;
        known_fields(NAME, doc, &["field", "partitionByFields", "range"])?;
        let field = required_string(IDL, NAME, doc, "field")?;
        check_path(field)?;
        let range = required_document(NAME, doc, "range")?;
        known_fields("$densify.range", range, &["step", "unit", "bounds"])?;
        let step = range.get("step").ok_or_else(|| missing_field("$densify.range", "step"))?;
        let step = Num::new(step).map(Num::double).filter(|step| *step > 0.0);
        let step = step.ok_or_else(|| {
            QueryError::new(ErrorCode::Location5733401, "$densify needs a 'step' greater than 0")
        })?;
        let unit = match optional_string_or(ErrorCode::TypeMismatch, "$densify.range", range, "unit")? {
            None => None,
            Some(unit) => {
                if step.fract() != 0.0 {
                    return Err(QueryError::new(
                        ErrorCode::Location6586400,
                        "$densify: a 'step' of dates is a whole number",
                    ));
                }
                Some(Unit::parse(unit).ok_or_else(|| failed(format!("$densify: unknown unit '{unit}'")))?)
            }
        };
        let bounds = bounds_of(range.get("bounds"), unit)?;
        let partition = paths(NAME, doc.get("partitionByFields"))?;
        if partition.is_empty() && matches!(bounds, Bounds::Partition) {
            return Err(QueryError::new(
                ErrorCode::Location5733408,
                "$densify: the 'bounds' partition need 'partitionByFields': you may have meant full",
            ));
        }
        let collation = collation.clone();
        Ok(Densify { field: Path::new(field), partition, step, unit, bounds, collation })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let context = context.clone();
        Ok(Box::new(DensifyStream {
            stage: self,
            context,
            input: Some(input),
            ready: Vec::new().into_iter(),
        }))
    }

    /// A document that is added has none.
    fn scores(&self) -> Scores {
        Scores::Kept
    }
}

impl DensifyStream {
    fn read(&self, mut input: BoxedStream) -> Result<Vec<Scored>> {
        let (stage, memory) = (&*self.stage, self.context.memory_limit);
        let mut parts: BTreeMap<Vec<u8>, Partition> = BTreeMap::new();
        let mut bytes = 0;
        input.for_each(&mut |document| {
            bytes += document.as_bytes().len() + 64;
            if bytes > memory {
                return Err(memory_exceeded("$densify", memory));
            }
            let doc = Doc::from(document);
            let (mut key, mut fields) = (Vec::new(), Vec::new());
            for path in &stage.partition {
                let value = path.get(doc);
                stage.collation.encode(value.unwrap_or(Value::Undefined), &mut key);
                fields.push(value.map(OwnedValue::from_value));
            }
            let point = match stage.field.get(doc) {
                None | Some(Value::Null) => None,
                Some(value) => Some(Point::new(value).ok_or_else(|| {
                    QueryError::new(
                        ErrorCode::Location5733201,
                        format!(
                            "$densify: the field '{}' must be a number or a date, found {}",
                            stage.field,
                            value.type_name()
                        ),
                    )
                })?),
            };
            let part = parts.entry(key).or_default();
            part.fields = fields;
            let (document, score) = (document.to_owned(), self.context.globals.score.get());
            part.docs.push((point, Scored { document, score }));
            Ok(Flow::Continue(()))
        })?;
        let order = |a: &Point, b: &Point| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
        let points = |part: &Partition| part.docs.iter().filter_map(|(point, _)| *point).collect::<Vec<_>>();
        let everywhere: Vec<Point> = parts.values().flat_map(points).collect();
        let full = (everywhere.iter().copied().min_by(order), everywhere.iter().copied().max_by(order));
        if parts.is_empty() && matches!(stage.bounds, Bounds::Given(..)) && stage.partition.is_empty() {
            parts.insert(Vec::new(), Partition::default());
        }
        let (mut all, mut added) = (Vec::new(), 0);
        for mut part in parts.into_values() {
            part.docs.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
            let own = points(&part);
            // The upper one of given bounds is excluded; the upper bound of a partition is the value of its last document.
            let (low, high) = match &stage.bounds {
                Bounds::Full => full,
                Bounds::Partition => (own.first().copied(), own.last().copied()),
                Bounds::Given(low, high) => (Point::new(low.value()), Point::new(high.value())),
            };
            let (Some(low), Some(high)) = (low, high) else {
                all.extend(part.docs.into_iter().map(|(_, document)| document));
                continue;
            };
            let inclusive = matches!(stage.bounds, Bounds::Full);
            let mut docs = part.docs.into_iter().peekable();
            let mut n = 0;
            loop {
                let next = stage.step(low, n)?;
                if !(next.below(high) || inclusive && next.equals(high)) {
                    break;
                }
                n += 1;
                let mut exists = false;
                while let Some((point, document)) =
                    docs.next_if(|(point, _)| point.is_none_or(|point| !next.below(point)))
                {
                    exists |= point.is_some_and(|point| !point.below(next));
                    all.push(document);
                }
                if !exists {
                    added += 1;
                    if added > MAX_ADDED {
                        return Err(QueryError::new(
                            ErrorCode::Location5897900,
                            format!("$densify would add more than {MAX_ADDED} documents: take a larger step"),
                        ));
                    }
                    let mut document = RawDocumentBuf::new();
                    for (path, value) in stage.partition.iter().zip(&part.fields) {
                        let value = value.as_ref().map(|value| value.value());
                        document = with_value(Doc::from(&document), path, value)?;
                    }
                    let document = with_value(Doc::from(&document), &stage.field, Some(next.value()))?;
                    all.push(Scored { document, score: None });
                }
            }
            all.extend(docs.map(|(_, document)| document));
        }
        Ok(all)
    }
}

impl DocumentStream for DensifyStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.ready = self.read(input)?.into_iter();
        }
        Ok(pass_on(&mut self.ready, &self.context.globals.score))
    }
}

/// `$fill` as a `$setWindowFields` for methods, and a `$set` for values.
pub(crate) fn fill(stage: &Element<'_>, _: &StageParser) -> Result<Vec<RawDocumentBuf>> {
    const NAME: &str = "$fill";
    let doc = document(stage)?;
    known_fields(NAME, doc, &["partitionBy", "partitionByFields", "sortBy", "output"])?;
    let outputs = required_document(NAME, doc, "output")?;
    if outputs.is_empty() {
        return Err(QueryError::new(ErrorCode::Location6050203, "$fill needs a field in its 'output'"));
    }
    if doc.get("partitionBy").is_some() && doc.get("partitionByFields").is_some() {
        return Err(QueryError::new(
            ErrorCode::Location6050204,
            "$fill has at most one of 'partitionBy' and 'partitionByFields'",
        ));
    }
    let (mut window, mut set) = (Writer::new(128), Writer::new(128));
    let (mut windows, mut sets) = (0, 0);
    let outer = window.open_document(b"$setWindowFields");
    if let Some(by) = doc.find(b"partitionBy") {
        window.copy(&by);
    } else if doc.get("partitionByFields").is_some() {
        let by = window.open_document(b"partitionBy");
        for (at, path) in paths(NAME, doc.get("partitionByFields"))?.iter().enumerate() {
            window.value(format!("p{at}").as_bytes(), Value::String(format!("${path}").as_bytes()));
        }
        window.close(by);
    }
    if let Some(sort) = doc.find(b"sortBy") {
        if !matches!(sort.value(), Value::Document(_)) {
            return Err(wrong_field(NAME, "sortBy", "object", sort.value()));
        }
        window.copy(&sort);
    }
    let fields = window.open_document(b"output");
    let set_fields = set.open_document(b"$set");
    for output in outputs.elements() {
        let path = output.name_str();
        let own = format!("${path}");
        let Value::Document(how) = output.value() else {
            return Err(QueryError::new(
                ErrorCode::Location6050200,
                format!("$fill: '{path}' must be an object with a 'value' or a 'method'"),
            ));
        };
        match (how.find(b"value"), how.get("method")) {
            (Some(value), None) => {
                let mut both = ArrayWriter::new();
                both.push(Value::String(own.as_bytes()));
                both.push(value.value());
                let bytes = both.into_bytes();
                let open = set.open_document(output.name);
                set.value(b"$ifNull", Value::Array(Doc::new(&bytes)));
                set.close(open);
                sets += 1;
            }
            (None, Some(Value::String(method @ (b"linear" | b"locf")))) => {
                let function: &[u8] = if method == b"linear" { b"$linearFill" } else { b"$locf" };
                let open = window.open_document(output.name);
                window.value(function, Value::String(own.as_bytes()));
                window.close(open);
                windows += 1;
            }
            (value, method) => {
                let code = match (value, method) {
                    (Some(_), Some(_)) => ErrorCode::Location6050201,
                    (_, Some(Value::String(_))) => ErrorCode::Location6050202,
                    (_, Some(_)) => ErrorCode::TypeMismatch,
                    (_, None) => ErrorCode::FailedToParse,
                };
                return Err(QueryError::new(
                    code,
                    format!("$fill: '{path}' must have a 'value' or the 'method' linear or locf"),
                ));
            }
        }
    }
    window.close(fields);
    window.close(outer);
    set.close(set_fields);
    let mut stages = Vec::new();
    if windows > 0 {
        stages.push(window.finish());
    }
    if sets > 0 {
        stages.push(set.finish());
    }
    Ok(stages)
}
