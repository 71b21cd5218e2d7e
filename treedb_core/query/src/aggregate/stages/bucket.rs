//! `$bucket` and `$bucketAuto`: groups by ranges of values.

use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::compare::class;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, Element, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Scope};
use crate::query::finish_document;

use crate::aggregate::accumulator::{Outputs, State};
use crate::aggregate::context::Context;
use crate::aggregate::operand::{document_or, known_fields_or, memory_exceeded};
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

/// Refuses a `groupBy` that is neither a path nor an expression.
fn check_group_by(code: ErrorCode, stage: &str, by: Value<'_>) -> Result<()> {
    let groups = match by {
        Value::Document(doc) => doc.operator().is_some(),
        Value::String(path) => path.starts_with(b"$"),
        _ => false,
    };
    if groups {
        return Ok(());
    }
    Err(QueryError::new(
        code,
        format!(
            "The {stage} 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {}",
            crate::doc::shown(by)
        ),
    ))
}

/// The `output` of a stage, or `otherwise`; the code of the error if it is no document.
fn output_of<'a>(code: ErrorCode, stage: &str, doc: Doc<'a>, otherwise: Doc<'a>) -> Result<Doc<'a>> {
    match doc.get("output") {
        Some(Value::Document(output)) => Ok(output),
        None => Ok(otherwise),
        Some(other) => Err(QueryError::new(
            code,
            format!("The {stage} 'output' field must be an object, but found type: {}", other.type_name()),
        )),
    }
}

/// The `boundaries` of `$bucket`.
fn boundaries_of<'a>(value: Value<'a>, collation: &Collation) -> Result<Vec<Value<'a>>> {
    use ErrorCode as C;
    let wrong = |code, message: String| Err(QueryError::new(code, message));
    let Value::Array(boundaries) = value else {
        let found = value.type_name();
        let message = format!("The $bucket 'boundaries' field must be an array, but found type: {found}");
        return wrong(C::Location40200, message);
    };
    let boundaries: Vec<Value<'_>> = boundaries.elements().map(|boundary| boundary.value()).collect();
    if boundaries.len() < 2 {
        let message = "The $bucket 'boundaries' field must have at least 2 values";
        return wrong(C::Location40192, message.to_owned());
    }
    for pair in boundaries.windows(2) {
        let &[low, high] = pair else { continue };
        let (low_type, high_type) = (low.type_name(), high.type_name());
        if class(&low) != class(&high) {
            let message = "All values in the 'boundaries' option to $bucket must have the same type. Found";
            return wrong(C::Location40193, format!("{message} {low_type} and {high_type}"));
        }
        if !collation.compare(low, high).is_lt() {
            let message = "The 'boundaries' option to $bucket must be sorted in ascending order, but found";
            let (low, high) = (crate::doc::shown(low), crate::doc::shown(high));
            return wrong(C::Location40194, format!("{message} {low} before {high}"));
        }
    }
    Ok(boundaries)
}

/// The output of a bucket unless the stage says otherwise.
fn default_output() -> RawDocumentBuf {
    rawdoc! { "count": { "$sum": 1 } }
}

/// `$bucket` as a `$group` by a `$switch` expression, and a `$sort`.
pub(crate) fn bucket(stage: &Element<'_>, parser: &StageParser) -> Result<Vec<RawDocumentBuf>> {
    let collation = parser.names.collation();
    const NAME: &str = "$bucket";
    let doc = document_or(ErrorCode::Location40201, stage)?;
    let options = ["groupBy", "boundaries", "default", "output"];
    known_fields_or(ErrorCode::Location40197, NAME, doc, &options)?;
    let (Some(by), Some(boundaries)) = (doc.find(b"groupBy"), doc.get("boundaries")) else {
        return Err(QueryError::new(
            ErrorCode::Location40198,
            "$bucket requires 'groupBy' and 'boundaries' to be specified.",
        ));
    };
    check_group_by(ErrorCode::Location40202, NAME, by.value())?;
    let boundaries = boundaries_of(boundaries, collation)?;
    if let (Some(default), [low, .., high]) = (doc.get("default"), boundaries.as_slice())
        && collation.compare(*low, default).is_le()
        && collation.compare(default, *high).is_lt()
    {
        return Err(QueryError::new(
            ErrorCode::Location40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest \
             boundary.",
        ));
    }
    let mut branches = ArrayWriter::new();
    for pair in boundaries.windows(2) {
        let &[low, high] = pair else { continue };
        let literal = |value: Value<'_>| {
            let mut out = Writer::new(32);
            out.value(b"$literal", value);
            out.into_bytes()
        };
        let side = |operator: &str, boundary: Value<'_>| {
            let mut sides = ArrayWriter::new();
            sides.push(by.value());
            sides.push(Value::Document(Doc::new(&literal(boundary))));
            let mut out = Writer::new(64);
            out.value(operator.as_bytes(), Value::Array(Doc::new(&sides.into_bytes())));
            out.into_bytes()
        };
        let mut and = ArrayWriter::new();
        and.push(Value::Document(Doc::new(&side("$gte", low))));
        and.push(Value::Document(Doc::new(&side("$lt", high))));
        let mut branch = Writer::new(128);
        let case = branch.open_document(b"case");
        branch.value(b"$and", Value::Array(Doc::new(&and.into_bytes())));
        branch.close(case);
        branch.value(b"then", Value::Document(Doc::new(&literal(low))));
        branches.push(Value::Document(Doc::new(&branch.into_bytes())));
    }
    let mut out = Writer::new(256);
    let group = out.open_document(b"$group");
    let id = out.open_document(b"_id");
    let switch = out.open_document(b"$switch");
    out.value(b"branches", Value::Array(Doc::new(&branches.into_bytes())));
    if let Some(default) = doc.find(b"default") {
        let literal = out.open_document(b"default");
        out.put(b"$literal", &default);
        out.close(literal);
    }
    out.close(switch);
    out.close(id);
    let count = default_output();
    let output = output_of(ErrorCode::Location40196, NAME, doc, Doc::from(&count))?;
    output.elements().for_each(|field| out.copy(&field));
    out.close(group);
    Ok(vec![out.finish(), rawdoc! { "$sort": { "_id": 1 } }])
}

/// `$bucketAuto`: a number of buckets of about the same size.
#[derive(Debug)]
pub(crate) struct BucketAuto {
    by: Expr,
    buckets: usize,
    collation: Collation,
    outputs: Outputs,
}

struct BucketAutoStream {
    stage: Arc<BucketAuto>,
    context: Context,
    input: Option<BoxedStream>,
    ready: std::vec::IntoIter<RawDocumentBuf>,
}

impl Stage for BucketAuto {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let names = &parser.names;
        use ErrorCode as C;
        const NAME: &str = "$bucketAuto";
        let doc = document_or(C::Location40240, stage)?;
        let known = ["groupBy", "buckets", "output", "granularity"];
        known_fields_or(C::Location40245, NAME, doc, &known)?;
        if doc.get("granularity").is_some() {
            return Err(QueryError::new(
                ErrorCode::NotImplemented,
                "$bucketAuto: 'granularity' is not supported: name the boundaries with $bucket",
            ));
        }
        let (Some(by), Some(given)) = (doc.get("groupBy"), doc.get("buckets")) else {
            return Err(QueryError::new(
                C::Location40246,
                "$bucketAuto requires 'groupBy' and 'buckets' to be specified",
            ));
        };
        check_group_by(C::Location40239, NAME, by)?;
        let buckets = given.as_integer().and_then(|n| i32::try_from(n).ok());
        let Some(buckets) = buckets.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0) else {
            let code = match buckets {
                Some(_) => C::Location40243,
                None if given.is_number() => C::Location40242,
                None => C::Location40241,
            };
            return Err(QueryError::new(
                code,
                format!(
                    "The $bucketAuto 'buckets' field must be a 32-bit integer greater than 0, but found: {}",
                    crate::doc::shown(given)
                ),
            ));
        };
        let count = default_output();
        let output = output_of(C::Location40244, NAME, doc, Doc::from(&count))?;
        let (by, outputs) = (Expr::parse(by, names)?, Outputs::parse(output, &[], names)?);
        Ok(BucketAuto { by, buckets, collation: names.collation().clone(), outputs })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let context = context.clone();
        Ok(Box::new(BucketAutoStream {
            stage: self,
            context,
            input: Some(input),
            ready: Vec::new().into_iter(),
        }))
    }
}

impl BucketAutoStream {
    fn buckets(&self, mut input: BoxedStream) -> Result<Vec<RawDocumentBuf>> {
        let (stage, context) = (&*self.stage, &self.context);
        let (mut all, mut bytes, mut arena) = (Vec::new(), 0, Arena::new());
        input.for_each(&mut |document| {
            arena.clear();
            let value = stage.by.eval(&mut Scope::new(Doc::from(document), &context.globals, &arena))?;
            let value = OwnedValue::from_value(value.unwrap_or(Value::Null));
            let mut key = Vec::new();
            stage.collation.encode(value.value(), &mut key);
            bytes += key.len() + value.size() + document.as_bytes().len() + 100;
            if bytes > context.memory_limit {
                return Err(memory_exceeded("$bucketAuto", context.memory_limit));
            }
            all.push((key, value, document.to_owned()));
            Ok(Flow::Continue(()))
        })?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let size = (all.len() as f64 / stage.buckets as f64).round().max(1.0) as usize;
        let mut found: Vec<(OwnedValue, OwnedValue, Vec<State>)> = Vec::new();
        let mut rest = all.as_slice();
        while let Some((_, first, _)) = rest.first() {
            // The last bucket has all remaining documents. Equal values are in the same bucket.
            let last = found.len() + 1 == stage.buckets;
            let mut len = if last { rest.len() } else { size.min(rest.len()) };
            while let (Some(a), Some(b)) = (rest.get(len - 1), rest.get(len))
                && a.0 == b.0
            {
                len += 1;
            }
            let (bucket, remaining) = rest.split_at(len);
            let mut states = stage.outputs.start();
            for (_, _, document) in bucket {
                arena.clear();
                stage
                    .outputs
                    .add(&mut states, &mut Scope::new(Doc::from(document), &context.globals, &arena))?;
            }
            let high = remaining
                .first()
                .or(bucket.last())
                .map_or_else(|| first.clone(), |(_, value, _)| value.clone());
            found.push((first.clone(), high, states));
            rest = remaining;
        }
        let document = |(low, high, states): (OwnedValue, OwnedValue, Vec<State>)| {
            let mut out = Writer::new(64);
            let id = out.open_document(b"_id");
            out.value(b"min", low.value());
            out.value(b"max", high.value());
            out.close(id);
            stage.outputs.write(states, &mut out);
            finish_document(out)
        };
        found.into_iter().map(document).collect()
    }
}

impl DocumentStream for BucketAutoStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.ready = self.buckets(input)?.into_iter();
        }
        Ok(self.ready.next())
    }
}
