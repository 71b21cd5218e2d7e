//! `$group`, and the stages that are rewritten to one (`$count`, `$sortByCount`).
//!
//! When the groups exceed the memory limit, the documents of further groups are spilled as records (the `_id` and the
//! arguments, not the document). They are grouped in another pass after the groups in memory have been output. A single
//! group that exceeds the limit is an error.
//!
//! | file | what it holds |
//! |---|---|
//! | `aggregator` | [`aggregator::Aggregator`]: one pass, from documents to groups |
//! | `row_fields` | the fields of a document that a group reads, and a cache of computed keys |
//! | `group_table` | the groups: their keys and the states of their accumulators |
//! | `spill` | the records of documents whose groups do not fit in memory |
//! | `parallel` | one pass by several threads |
//! | `part` | the groups that one of several processes has made |

mod aggregator;
mod group_table;
mod parallel;
mod part;
mod row_fields;
mod spill;

use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::write::Writer;
use crate::doc::{Collation, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Expr;
use crate::query::finish_document;
use crate::query::spill::SpillReader;

use crate::aggregate::accumulator::{Outputs, State};
use crate::aggregate::context::Context;
use crate::aggregate::stage::{DeferredStream, PlannedStage, Reads, Scan, Stage, StageParser, StagePart};
use crate::aggregate::stream::{BoxedStream, DocumentStream, VecStream, Visitor};

use aggregator::RowLayout;
use group_table::{GroupOutput, GroupTable};
use part::GroupPart;

/// `$group`.
#[derive(Debug)]
pub(crate) struct Group {
    id: Expr,
    outputs: Outputs,
    /// How strings in the `_id` compare.
    collation: Collation,
    layout: RowLayout,
}

/// `{ $count: "n" }` as a `$group` and a `$project`.
pub(crate) fn count(stage: &Element<'_>, _: &StageParser) -> Result<Vec<RawDocumentBuf>> {
    let wrong = |code, what| Err(QueryError::new(code, format!("the count field {what}")));
    let Value::String(field) = stage.value() else {
        return wrong(ErrorCode::Location40156, "must be a non-empty string");
    };
    match field {
        b"" => return wrong(ErrorCode::Location40157, "must be a non-empty string"),
        [b'$', ..] => return wrong(ErrorCode::Location40158, "cannot be a $-prefixed path"),
        b"_id" => return wrong(ErrorCode::Location9039800, "cannot be '_id'"),
        _ if field.contains(&0) => return wrong(ErrorCode::Location40159, "cannot contain a null byte"),
        _ if field.contains(&b'.') => return wrong(ErrorCode::Location40160, "cannot contain '.'"),
        _ => {}
    }
    let mut out = Writer::new(64);
    let group = out.open_document(b"$group");
    out.null(b"_id");
    let sum = out.open_document(field);
    out.value(b"$sum", Value::Int32(1));
    out.close(sum);
    out.close(group);
    Ok(vec![out.finish(), rawdoc! { "$project": { "_id": 0 } }])
}

/// `{ $sortByCount: expression }` as a `$group` and a `$sort`.
pub(crate) fn sort_by_count(stage: &Element<'_>, _: &StageParser) -> Result<Vec<RawDocumentBuf>> {
    let code = match stage.value() {
        Value::Document(doc) => doc.operator().is_none().then_some(ErrorCode::Location40147),
        Value::String(path) => (!path.starts_with(b"$")).then_some(ErrorCode::Location40148),
        _ => Some(ErrorCode::Location40149),
    };
    if let Some(code) = code {
        return Err(QueryError::new(
            code,
            "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
        ));
    }
    let mut out = Writer::new(64);
    let group = out.open_document(b"$group");
    out.put(b"_id", stage);
    let sum = out.open_document(b"count");
    out.value(b"$sum", Value::Int32(1));
    out.close(sum);
    out.close(group);
    Ok(vec![out.finish(), rawdoc! { "$sort": { "count": -1 } }])
}

impl Group {
    /// If the stage only counts documents: what one document adds to each of the outputs.
    fn count_steps(&self) -> Option<Vec<Value<'_>>> {
        self.id.as_constant()?;
        self.outputs.0.iter().map(|(_, accumulator)| accumulator.count_step()).collect()
    }

    /// The result for `count` documents, where there are [`Self::count_steps`].
    fn counted(&self, steps: Vec<Value<'_>>, count: u64) -> Result<BoxedStream> {
        let mut groups = Vec::new();
        if count > 0 {
            let mut states = self.outputs.start();
            for (state, step) in states.iter_mut().zip(steps) {
                if let State::Sum(sum) = state {
                    sum.add_times(step, count);
                }
            }
            let mut out = Writer::new(64);
            out.value(b"_id", self.id.as_constant().unwrap_or(Value::Null));
            self.outputs.write(states, &mut out);
            groups.push(finish_document(out)?);
        }
        Ok(Box::new(VecStream::new(groups)))
    }

    /// The paths that the stage's sorts read.
    fn sort_paths(&self) -> impl Iterator<Item = &crate::doc::Path> {
        let sorts = self.outputs.0.iter().filter_map(|(_, accumulator)| accumulator.sort());
        sorts.flat_map(|sort| sort.keys.iter().map(|key| &key.path))
    }

    /// The stage's expressions.
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        std::iter::once(&self.id).chain(self.outputs.0.iter().map(|(_, accumulator)| accumulator.input()))
    }
}

impl Stage for Group {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let names = &parser.names;
        let doc = match stage.value() {
            Value::Document(doc) => doc,
            _ => {
                return Err(QueryError::new(
                    ErrorCode::Location15947,
                    "a group's fields must be specified in an object",
                ));
            }
        };
        let Some(id) = doc.get("_id") else {
            return Err(QueryError::new(
                ErrorCode::Location15955,
                "a group specification must include an _id",
            ));
        };
        if doc.elements().filter(|element| element.name == b"_id").count() > 1 {
            return Err(QueryError::new(
                ErrorCode::Location15948,
                "a group's _id may only be specified once",
            ));
        }
        let outputs = Outputs::parse(doc, &["_id"], names)?;
        let (id, collation) = (Expr::parse(id, names)?, names.collation().clone());
        let layout = RowLayout::new(&id, &outputs);
        Ok(Group { id, outputs, collation, layout })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        Ok(Box::new(GroupStream::new(self, Input::Stream(input), context)))
    }

    fn open_scan(self: Arc<Self>, scan: &Scan<'_>, context: &Context) -> Result<Option<BoxedStream>> {
        if scan.before == 0
            && let Some(steps) = self.count_steps()
        {
            let count = context.collections.count(scan.namespace, scan.query.clone())?;
            return self.counted(steps, count).map(Some);
        }
        let partitions = scan.open_partitions(self.needs_order(), context)?;
        let input = match <[BoxedStream; 1]>::try_from(partitions) {
            Ok([input]) => Input::Stream(input),
            Err(partitions) => Input::Partitions(partitions, scan.deferred(context)),
        };
        Ok(Some(Box::new(GroupStream::new(self, input, context))))
    }

    fn is_divisible(&self) -> bool {
        !self.needs_order()
    }

    fn open_part(
        self: Arc<Self>,
        input: BoxedStream,
        context: &Context,
    ) -> Result<Option<Box<dyn StagePart>>> {
        let part = GroupPart::new(self, input, context)?;
        Ok(part.map(|part| Box::new(part) as Box<dyn StagePart>))
    }

    fn needs_order(&self) -> bool {
        self.outputs.0.iter().any(|(_, accumulator)| accumulator.needs_order())
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        for expr in self.expressions() {
            let reads = expr.reads();
            if reads.whole {
                return Reads::Any;
            }
            fields.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        }
        fields.extend(self.sort_paths().map(|path| path.first().to_owned()));
        Reads::OnlyNamed
    }

    fn reads_within(&self, field: &str, subfields: &mut Vec<String>) -> Reads {
        let reads: Vec<_> = self.expressions().map(Expr::reads).collect();
        let paths = reads.iter().flat_map(|reads| reads.paths.iter().copied()).chain(self.sort_paths());
        for path in paths.filter(|path| path.first() == field) {
            match path.parts().get(1) {
                Some(part) => subfields.push(part.name.to_string()),
                None => return Reads::Any,
            }
        }
        if reads.iter().any(|reads| reads.whole) { Reads::Any } else { Reads::OnlyNamed }
    }

    fn input_field(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix("_id")?;
        let expr = match rest.strip_prefix('.') {
            None if rest.is_empty() => self.id.clone(),
            Some(name) => self.id.field_named(name)?,
            None => return None,
        };
        let path = expr.as_field()?;
        (path.parts().len() == 1).then(|| path.first().to_owned())
    }
}

/// The documents to group.
enum Input {
    Stream(BoxedStream),
    /// Several streams, one for each thread; and all documents once more, as one stream.
    Partitions(Vec<BoxedStream>, DeferredStream),
}

struct GroupStream {
    stage: Arc<Group>,
    context: Context,
    /// `None` once it has been read.
    input: Option<Input>,
    output: GroupOutput,
    /// Records for later passes.
    spilled: Vec<SpillReader>,
}

impl GroupStream {
    fn new(stage: Arc<Group>, input: Input, context: &Context) -> Self {
        let (output, spilled) = (GroupOutput::default(), Vec::new());
        GroupStream { stage, context: context.clone(), input: Some(input), output, spilled }
    }

    /// The documents of groups that have been made.
    fn grouped(stage: Arc<Group>, tables: Vec<GroupTable>, context: &Context) -> Self {
        let output = GroupOutput::new(tables);
        GroupStream { stage, context: context.clone(), input: None, output, spilled: Vec::new() }
    }

    /// Makes the groups of the next pass; false after the last.
    fn run_pass(&mut self) -> Result<bool> {
        let GroupStream { stage, context, input, spilled, .. } = self;
        let (tables, more) = match (input.take(), spilled.pop()) {
            (Some(Input::Stream(input)), _) => parallel::group(stage, context, input)?,
            (Some(Input::Partitions(partitions, all)), _) => {
                match parallel::group_partitions(stage, context, partitions)? {
                    Some(groups) => groups,
                    None => parallel::group(stage, context, all()?)?,
                }
            }
            (None, Some(records)) => parallel::group_records(stage, context, records)?,
            (None, None) => return Ok(false),
        };
        self.output = GroupOutput::new(tables);
        self.spilled.extend(more);
        Ok(true)
    }
}

impl DocumentStream for GroupStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.output.next(&self.stage.outputs)? {
                return Ok(Some(document));
            }
            if !self.run_pass()? {
                return Ok(None);
            }
        }
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let mut out = Writer::new(64);
        loop {
            while let Some(document) = self.output.next_in(&self.stage.outputs, &mut out)? {
                if visit(document)? == Flow::Break(()) {
                    return Ok(());
                }
            }
            if !self.run_pass()? {
                return Ok(());
            }
        }
    }
}
