//! `$group`, and the stages that are one in other words (`$count`, `$sortByCount`).
//!
//! When the groups take more than the memory, documents of groups that are not among them are put aside as records
//! (the `_id` and the arguments, not the document), and are grouped in another pass when those in memory have been
//! handed out. A group that does not fit by itself is refused.
//!
//! Documents that come in parts are grouped by a thread for each ([`parallel`]).

use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::write::Writer;
use crate::doc::{Collation, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Expr, Names};
use crate::query::finished;
use crate::query::spill::SpillReader;

use super::accumulator::{Outputs, State};
use super::groups::Layout;
use super::parallel;
use super::pipeline::Stage;
use super::shard::Ready;
use super::stream::{Docs, List, Stream, Visit};
use super::world::Context;

/// `$group`.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Expr,
    pub(super) outputs: Outputs,
    /// How texts of the `_id` compare.
    pub(super) collation: Collation,
    pub(super) layout: Layout,
    /// The stage as it was written.
    pub(super) source: RawDocumentBuf,
}

impl Group {
    pub(super) fn parse(stage: &Element<'_>, names: &Names) -> Result<Group> {
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
        let outputs = Outputs::parse(doc, &["_id"], names)?;
        let mut source = Writer::new(doc.as_bytes().len() + 16);
        source.copy(stage);
        let source = source.finish();
        let (id, collation) = (Expr::parse(id, names)?, names.collation().clone());
        let mut group = Group { id, outputs, collation, layout: Layout::default(), source };
        group.layout = Layout::of(&group);
        Ok(group)
    }
}

/// `{ $count: "n" }` as a group.
pub(super) fn count(stage: &Element<'_>) -> Result<Vec<RawDocumentBuf>> {
    match stage.value() {
        Value::String(field)
            if !field.is_empty()
                && !field.starts_with(b"$")
                && !field.contains(&b'.')
                && !field.contains(&0) =>
        {
            let mut out = Writer::new(64);
            let group = out.open_document(b"$group");
            out.null(b"_id");
            let sum = out.open_document(field);
            out.value(b"$sum", Value::Int32(1));
            out.close(sum);
            out.close(group);
            Ok(vec![out.finish(), rawdoc! { "$project": { "_id": 0 } }])
        }
        _ => Err(QueryError::new(
            ErrorCode::Location40156,
            "the count field must be a non-empty string without '$' at its start and without '.'",
        )),
    }
}

/// `{ $sortByCount: expression }` as a group and a sort.
pub(super) fn sort_by_count(stage: &Element<'_>) -> Result<Vec<RawDocumentBuf>> {
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
    /// True if the order of the documents does not matter.
    pub(super) fn is_unordered(&self) -> bool {
        self.outputs.0.iter().all(|(_, accumulator)| accumulator.is_unordered())
    }

    /// The top-level field that a path into the `_id` leads to.
    pub(super) fn source_of(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix("_id")?;
        let expr = match rest.strip_prefix('.') {
            None if rest.is_empty() => self.id.clone(),
            Some(name) => self.id.field_named(name)?,
            None => return None,
        };
        let path = expr.as_field()?;
        (path.parts().len() == 1).then(|| path.first().to_owned())
    }

    /// Adds the top-level fields that are read; `None` if that may be any.
    pub(super) fn reads(&self, names: &mut Vec<String>) -> Option<()> {
        let inputs = self.outputs.0.iter().map(|(_, accumulator)| accumulator.input());
        for expr in std::iter::once(&self.id).chain(inputs) {
            let reads = expr.reads();
            if reads.whole {
                return None;
            }
            names.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        }
        let sorts = self.outputs.0.iter().filter_map(|(_, accumulator)| accumulator.sort());
        names.extend(sorts.flat_map(|sort| sort.keys.iter().map(|key| key.path.first().to_owned())));
        Some(())
    }

    /// Adds the fields that are read of the document in the field `name`; `None` if that may be all of it.
    pub(super) fn below(&self, name: &str, fields: &mut Vec<String>) -> Option<()> {
        let inputs = self.outputs.0.iter().map(|(_, accumulator)| accumulator.input());
        let reads: Vec<_> = std::iter::once(&self.id).chain(inputs).map(Expr::reads).collect();
        let sorts = self.outputs.0.iter().filter_map(|(_, accumulator)| accumulator.sort());
        let sorted = sorts.flat_map(|sort| sort.keys.iter().map(|key| &key.path));
        let paths = reads.iter().flat_map(|reads| reads.paths.iter().copied()).chain(sorted);
        for path in paths.filter(|path| path.first() == name) {
            fields.push(path.parts().get(1)?.name.to_string());
        }
        reads.iter().all(|reads| !reads.whole).then_some(())
    }

    /// If the group does nothing but count all documents: the field of each count and what one document counts.
    pub(super) fn counts(&self) -> Option<Vec<Value<'_>>> {
        self.id.as_constant()?;
        self.outputs.0.iter().map(|(_, accumulator)| accumulator.counts()).collect()
    }

    /// The group of `count` documents, where [`Self::counts`].
    pub(super) fn counted(&self, count: u64) -> Result<Docs> {
        let mut all = Vec::new();
        if let (Some(steps), true) = (self.counts(), count > 0) {
            let mut states = self.outputs.start();
            for (state, step) in states.iter_mut().zip(steps) {
                if let State::Sum(sum) = state {
                    sum.add_times(step, count);
                }
            }
            let mut out = Writer::new(64);
            out.value(b"_id", self.id.as_constant().unwrap_or(Value::Null));
            self.outputs.write(states, &mut out);
            all.push(finished(out)?);
        }
        Ok(Box::new(List::new(all)))
    }

    /// The groups of documents that come in parts, each of which a thread of its own may read; they follow each other.
    /// `again` gives all of them once more.
    pub(super) fn open_parts(self: Arc<Self>, parts: Vec<Docs>, again: Again, context: &Context) -> Docs {
        let (context, input) = (context.clone(), Some((parts, again)));
        Box::new(Grouping { stage: self, context, input, ready: Ready::default(), aside: Vec::new() })
    }
}

impl Stage for Group {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        Ok(self.open_parts(vec![input], Box::new(|| Ok(Box::new(List::new(Vec::new())))), context))
    }
}

/// Reads documents once more, from the first to the last.
pub(super) type Again = Box<dyn FnOnce() -> Result<Docs> + Send>;

struct Grouping {
    stage: Arc<Group>,
    context: Context,
    /// `None` once they are read.
    input: Option<(Vec<Docs>, Again)>,
    ready: Ready,
    /// What did not fit, for later passes.
    aside: Vec<SpillReader>,
}

impl Grouping {
    /// Makes the groups of the next pass; false behind the last.
    fn pass(&mut self) -> Result<bool> {
        let Grouping { stage, context, input, aside, .. } = self;
        let (shards, more) = match (input.take(), aside.pop()) {
            (Some((parts, again)), _) => match <[Docs; 1]>::try_from(parts) {
                Ok([docs]) => parallel::alone(stage, context, docs)?,
                Err(parts) => match parallel::write_batch(stage, context, parts)? {
                    Some(made) => made,
                    None => parallel::alone(stage, context, again()?)?,
                },
            },
            (None, Some(records)) => parallel::again(stage, context, records)?,
            (None, None) => return Ok(false),
        };
        self.ready = Ready::new(shards);
        self.aside.extend(more);
        Ok(true)
    }
}

impl Stream for Grouping {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.ready.next(&self.stage.outputs)? {
                return Ok(Some(document));
            }
            if !self.pass()? {
                return Ok(None);
            }
        }
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let mut out = Writer::new(64);
        loop {
            while let Some(document) = self.ready.lend(&self.stage.outputs, &mut out)? {
                if visit(document)? == Flow::Break(()) {
                    return Ok(());
                }
            }
            if !self.pass()? {
                return Ok(());
            }
        }
    }
}
