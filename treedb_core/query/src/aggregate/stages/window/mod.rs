//! `$setWindowFields`: fields that are computed from the documents around a document.
//!
//! All documents are held in memory. [`function`] has the window functions as they are written, [`partition`] evaluates
//! them, [`sliding_window`] evaluates accumulators.

mod function;
mod partition;
mod sliding_window;

use std::collections::HashMap;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::{Collation, Doc, Element, Path, Value};
use crate::error::Result;
use crate::query::Sort;
use crate::query::expr::number::Num;
use crate::query::expr::{Arena, Expr, Scope, check_path};

use crate::aggregate::context::Context;
use crate::aggregate::operand::{document, known_fields, memory_exceeded, missing_field, raw, wrong_field};
use crate::aggregate::score::{Scored, Scores, pass_on};
use crate::aggregate::set_value::with_value;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

use function::{WindowFunction, parse_output};
use partition::Partition;

/// `$setWindowFields`.
#[derive(Debug)]
pub(crate) struct Window {
    partition: Option<Expr>,
    sort: Option<Sort>,
    collation: Collation,
    outputs: Vec<(Path, WindowFunction)>,
}

struct WindowStream {
    stage: Arc<Window>,
    context: Context,
    input: Option<BoxedStream>,
    ready: std::vec::IntoIter<Scored>,
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
            Some(other) => return Err(wrong_field(NAME, "sortBy", "object", other)),
        };
        let fields = match doc.get("output") {
            Some(Value::Document(fields)) => fields,
            Some(other) => return Err(wrong_field(NAME, "output", "object", other)),
            None => return Err(missing_field(NAME, "output")),
        };
        let mut outputs = Vec::new();
        for field in fields.elements() {
            check_path(field.name_str())?;
            outputs.push((Path::new(field.name_str()), parse_output(&field, sort.as_ref(), names)?));
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

    fn scores(&self) -> Scores {
        Scores::Kept
    }
}

impl WindowStream {
    fn read(&self, mut input: BoxedStream) -> Result<Vec<Scored>> {
        let (stage, context) = (&*self.stage, &self.context);
        let (mut arena, mut bytes) = (Arena::new(), 0);
        let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut partitions: Vec<Vec<(Vec<u8>, Scored)>> = Vec::new();
        input.for_each(&mut |document| {
            let mut partition_key = Vec::new();
            if let Some(by) = &stage.partition {
                arena.clear();
                let value = by.eval(&mut Scope::new(Doc::from(document), &context.globals, &arena))?;
                stage.collation.encode(value.unwrap_or(Value::Null), &mut partition_key);
            }
            let key = stage.sort.as_ref().map(|sort| sort.key(document)).transpose()?.unwrap_or_default();
            bytes += document.as_bytes().len() + key.len() + 64;
            if bytes > context.memory_limit {
                return Err(memory_exceeded("$setWindowFields", context.memory_limit));
            }
            let at = *numbers.entry(partition_key).or_insert(partitions.len());
            if at == partitions.len() {
                partitions.push(Vec::new());
            }
            if let Some(partition) = partitions.get_mut(at) {
                let (document, score) = (document.to_owned(), context.globals.score.get());
                partition.push((key, Scored { document, score }));
            }
            Ok(Flow::Continue(()))
        })?;
        let mut all = Vec::new();
        for mut partition in partitions {
            partition.sort_by(|a, b| a.0.cmp(&b.0));
            let (mut keys, mut docs, mut scores) = (Vec::new(), Vec::new(), Vec::new());
            for (key, Scored { document, score }) in partition {
                keys.push(key);
                docs.push(document);
                scores.push(score);
            }
            let scored = self.evaluate(keys, docs)?.into_iter().zip(scores);
            all.extend(scored.map(|(document, score)| Scored { document, score }));
        }
        Ok(all)
    }

    fn evaluate(&self, keys: Vec<Vec<u8>>, docs: Vec<RawDocumentBuf>) -> Result<Vec<RawDocumentBuf>> {
        let only = self.stage.sort.as_ref().and_then(|sort| match sort.keys.as_slice() {
            [key] => Some(key.path.clone()),
            _ => None,
        });
        let value = |doc: &RawDocumentBuf| match only.as_ref()?.get(Doc::from(doc))? {
            Value::Date(millis) => Some((millis as f64, true)),
            value => Num::new(value).map(|number| (number.double(), false)),
        };
        let values = docs.iter().map(value).collect();
        let partition = Partition { docs: &docs, keys: &keys, values, globals: &self.context.globals };
        let mut columns = Vec::new();
        for (path, output) in &self.stage.outputs {
            columns.push((path, partition.results(output)?.into_iter()));
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
        Ok(pass_on(&mut self.ready, &self.context.globals.score))
    }
}
