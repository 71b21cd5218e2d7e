//! `$group`, and the stages that are one in other words (`$count`, `$sortByCount`).
//!
//! Groups are found by the order-preserving bytes of their `_id`, so that numbers of different kinds that are equal
//! fall together. When the groups take more than the memory, documents of groups that are not among them are put aside
//! as records (the `_id` and the arguments, not the document), and are grouped in another pass when those in memory
//! have been handed out. A group that does not fit by itself is refused.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::key::encode_value;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, OwnedValue, Value};
use crate::query::expr::{Arena, Expr, Found, Globals, Names, Scope};
use crate::query::finished;

use super::accumulator::{Outputs, State};
use super::pipeline::Stage;
use super::spill::{SpillReader, SpillWriter};
use super::stream::{Docs, Stream};
use super::world::Context;

/// `$group`.
#[derive(Debug)]
pub(super) struct Group {
    id: Expr,
    outputs: Outputs,
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
        Ok(Group { id: Expr::parse(id, names)?, outputs })
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

impl Stage for Group {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let context = context.clone();
        Ok(Box::new(Grouping {
            stage: self,
            context,
            input: Some(input),
            ready: Vec::new().into_iter(),
            aside: None,
        }))
    }
}

/// One group.
struct Entry {
    id: OwnedValue,
    states: Vec<State>,
}

struct Grouping {
    stage: Arc<Group>,
    context: Context,
    input: Option<Docs>,
    ready: std::vec::IntoIter<Entry>,
    /// What did not fit, for the next pass.
    aside: Option<SpillReader>,
}

/// The groups of one pass.
struct Pass<'p> {
    stage: &'p Group,
    context: &'p Context,
    found: HashMap<Box<[u8]>, usize>,
    groups: Vec<Entry>,
    bytes: usize,
    aside: Option<SpillWriter>,
    key: Vec<u8>,
}

impl<'p> Pass<'p> {
    fn new(stage: &'p Group, context: &'p Context) -> Self {
        Pass {
            stage,
            context,
            found: HashMap::new(),
            groups: Vec::new(),
            bytes: 0,
            aside: None,
            key: Vec::new(),
        }
    }

    /// The place of the group of `id`, made if there is room for it.
    fn place(&mut self, id: Value<'_>) -> Result<Option<usize>> {
        self.key.clear();
        encode_value(id, &mut self.key);
        if let Some(at) = self.found.get(self.key.as_slice()) {
            return Ok(Some(*at));
        }
        if self.bytes > self.context.memory {
            if self.aside.is_none() {
                self.aside = Some(SpillWriter::new(self.context.scratch("$group")?));
            }
            return Ok(None);
        }
        let states = self.stage.outputs.start();
        let id = OwnedValue::from_value(id);
        self.bytes +=
            self.key.len() + id.size() + size_of::<Entry>() + 48 + states.len() * size_of::<State>();
        self.found.insert(self.key.as_slice().into(), self.groups.len());
        self.groups.push(Entry { id, states });
        Ok(Some(self.groups.len() - 1))
    }

    fn grew(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        // New groups are put aside beyond the memory; those there are may grow that much again.
        if self.bytes > self.context.memory.saturating_mul(2) {
            return Err(QueryError::new(
                ErrorCode::ExceededMemoryLimit,
                format!(
                    "$group: the values collected for single groups take more than {} bytes: collect fewer with \
                     $firstN, $topN or a projection",
                    self.context.memory
                ),
            ));
        }
        Ok(())
    }

    fn document<'a>(&mut self, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
        let id = stage.id.eval(scope)?.unwrap_or(Value::Null);
        match self.place(id)? {
            Some(at) => {
                let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
                let grown = stage.outputs.add(&mut group.states, scope)?;
                if grown > 0 { self.grew(grown) } else { Ok(()) }
            }
            None => {
                let mut record = Writer::new(128);
                record.value(b"", id);
                for (number, (_, accumulator)) in stage.outputs.0.iter().enumerate() {
                    let (value, key) = accumulator.argument(scope)?;
                    if let Some(value) = value {
                        record.value(format!("v{number}").as_bytes(), value);
                    }
                    if let Some(key) = key {
                        record.value(format!("k{number}").as_bytes(), Value::Binary(0, &key));
                    }
                }
                match &mut self.aside {
                    Some(aside) => aside.put(&record.into_bytes(), &[]),
                    None => Ok(()),
                }
            }
        }
    }

    /// Takes in a record of an earlier pass.
    fn record(&mut self, bytes: &[u8]) -> Result<()> {
        let record = Doc::new(bytes);
        let Some(at) = self.place(record.get("").unwrap_or(Value::Null))? else {
            return match &mut self.aside {
                Some(aside) => aside.put(bytes, &[]),
                None => Ok(()),
            };
        };
        let mut grown = 0;
        if let Some(group) = self.groups.get_mut(at) {
            let outputs = self.stage.outputs.0.iter().zip(&mut group.states);
            for (number, ((_, accumulator), state)) in outputs.enumerate() {
                let value: Found<'_> = record.get(&format!("v{number}"));
                let key = match record.get(&format!("k{number}")) {
                    Some(Value::Binary(_, key)) => Some(key.to_vec()),
                    _ => None,
                };
                grown += accumulator.add(state, value, key)?;
            }
        }
        self.grew(grown)
    }

    fn end(self) -> Result<(std::vec::IntoIter<Entry>, Option<SpillReader>)> {
        let aside = self.aside.map(SpillWriter::reader).transpose()?;
        Ok((self.groups.into_iter(), aside))
    }
}

impl Grouping {
    fn pass(&mut self) -> Result<bool> {
        let stage = Arc::clone(&self.stage);
        let context = self.context.clone();
        let mut pass = Pass::new(&stage, &context);
        if let Some(mut input) = self.input.take() {
            let globals: &Globals = &context.globals;
            let mut arena = Arena::new();
            input.each(&mut |document| {
                arena.clear();
                pass.document(&mut Scope::new(Doc::from(document), globals, &arena))?;
                Ok(Flow::Continue(()))
            })?;
        } else if let Some(mut aside) = self.aside.take() {
            while let Some((record, _)) = aside.next()? {
                pass.record(&record)?;
            }
        } else {
            return Ok(false);
        }
        (self.ready, self.aside) = pass.end()?;
        Ok(true)
    }
}

impl Stream for Grouping {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(Entry { id, states }) = self.ready.next() {
                let mut out = Writer::new(64);
                out.value(b"_id", id.value());
                self.stage.outputs.write(states, &mut out);
                return finished(out).map(Some);
            }
            if !self.pass()? {
                return Ok(None);
            }
        }
    }
}
