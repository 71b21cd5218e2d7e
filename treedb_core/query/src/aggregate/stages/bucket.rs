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
use crate::aggregate::operand::{document, known_fields, memory_exceeded};
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

fn wrong(message: &str) -> QueryError {
    QueryError::new(ErrorCode::Location40201, message)
}

/// The output of a bucket unless the stage says otherwise.
fn default_output() -> RawDocumentBuf {
    rawdoc! { "count": { "$sum": 1 } }
}

/// `$bucket` as a `$group` by a `$switch` expression, and a `$sort`.
pub(crate) fn bucket(stage: &Element<'_>, parser: &StageParser) -> Result<Vec<RawDocumentBuf>> {
    let collation = parser.names.collation();
    let doc = document(stage)?;
    known_fields("$bucket", doc, &["groupBy", "boundaries", "default", "output"])?;
    let (Some(by), Some(Value::Array(boundaries))) = (doc.find(b"groupBy"), doc.get("boundaries")) else {
        return Err(wrong("$bucket requires 'groupBy' and an array 'boundaries' to be specified"));
    };
    let boundaries: Vec<Value<'_>> = boundaries.elements().map(|boundary| boundary.value()).collect();
    let ordered = boundaries
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if class(a) == class(b) && collation.compare(*a, *b).is_lt()));
    if boundaries.len() < 2 || !ordered {
        return Err(wrong(
            "$bucket: 'boundaries' must be at least two values of one type, in ascending order",
        ));
    }
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
    let output = match doc.get("output") {
        Some(Value::Document(output)) => output,
        None => Doc::from(&count),
        Some(_) => return Err(wrong("$bucket: 'output' must be a document")),
    };
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
        let doc = document(stage)?;
        known_fields("$bucketAuto", doc, &["groupBy", "buckets", "output", "granularity"])?;
        if doc.get("granularity").is_some() {
            return Err(QueryError::new(
                ErrorCode::NotImplemented,
                "$bucketAuto: 'granularity' is not supported: name the boundaries with $bucket",
            ));
        }
        let buckets = doc.get("buckets").and_then(|n| n.as_integer()).and_then(|n| usize::try_from(n).ok());
        let (Some(by), Some(buckets)) = (doc.get("groupBy"), buckets.filter(|n| (1..=1 << 20).contains(n)))
        else {
            return Err(wrong(
                "$bucketAuto requires 'groupBy' and a whole number of 'buckets' greater than 0",
            ));
        };
        let count = default_output();
        let output = match doc.get("output") {
            Some(Value::Document(output)) => output,
            None => Doc::from(&count),
            Some(_) => return Err(wrong("$bucketAuto: 'output' must be a document")),
        };
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
