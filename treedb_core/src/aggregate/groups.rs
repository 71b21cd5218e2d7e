//! The groups of one pass of a `$group`, found by the order-preserving bytes of their `_id`, so that numbers of
//! different kinds that are equal fall together.
//!
//! The fields that expressions name are found in one walk over a row. Where the `_id` depends on a few fields alone,
//! their bytes lead to the group without the `_id` being computed.

use std::collections::HashMap;

use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::key::encode_value;
use crate::doc::write::Writer;
use crate::doc::{Doc, OwnedValue, Value};
use crate::query::expr::{Found, Scope};
use crate::query::spill::{SpillReader, SpillWriter};

use super::accumulator::State;
use super::fields::{Cache, Fields, Input, depends_on};
use super::group::Group;
use super::world::Context;

/// One group.
pub(super) struct Entry {
    pub(super) id: OwnedValue,
    pub(super) states: Vec<State>,
}

/// How a group's expressions are read from a row.
#[derive(Debug, Default)]
pub(super) struct Layout {
    fields: Fields,
    /// The fields that decide the `_id`; `None` if more of a document does.
    id: Option<Vec<usize>>,
    inputs: Vec<Input>,
}

impl Layout {
    pub(super) fn of(stage: &Group) -> Layout {
        let mut fields = Fields::default();
        let id = depends_on(&stage.id, &mut fields);
        let inputs = stage.outputs.0.iter();
        let inputs = inputs.map(|(_, accumulator)| Input::of(accumulator.input(), &mut fields)).collect();
        Layout { fields, id, inputs }
    }
}

/// The groups of one pass.
pub(super) struct Groups<'p> {
    stage: &'p Group,
    context: &'p Context,
    found: HashMap<Box<[u8]>, usize>,
    cache: Option<Cache>,
    groups: Vec<Entry>,
    bytes: usize,
    /// Bytes of groups beyond which there are no new ones.
    room: usize,
    aside: Option<SpillWriter>,
    key: Vec<u8>,
}

impl<'p> Groups<'p> {
    /// No groups yet; they may take `room` bytes.
    pub(super) fn new(stage: &'p Group, context: &'p Context, room: usize) -> Self {
        Groups {
            stage,
            context,
            found: HashMap::new(),
            cache: stage.layout.id.is_some().then(|| Cache::new(room / 8)),
            groups: Vec::new(),
            bytes: 0,
            room,
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
        if self.bytes > self.room {
            if self.aside.is_none() {
                self.aside = Some(SpillWriter::new(self.context.scratch("$group")?));
            }
            return Ok(None);
        }
        let states = self.stage.outputs.start();
        Ok(Some(self.insert(Entry { id: OwnedValue::from_value(id), states })))
    }

    /// A new group under `self.key`.
    fn insert(&mut self, entry: Entry) -> usize {
        self.bytes += self.key.len()
            + entry.id.size()
            + size_of::<Entry>()
            + 48
            + entry.states.len() * size_of::<State>();
        self.found.insert(self.key.as_slice().into(), self.groups.len());
        self.groups.push(entry);
        self.groups.len() - 1
    }

    fn grew(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        // New groups are put aside beyond the memory; those there are may grow that much again.
        if self.bytes > self.room.saturating_mul(2) {
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

    /// Takes a document in.
    pub(super) fn document<'a>(&mut self, doc: Doc<'a>, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
        let layout = &stage.layout;
        let row = layout.fields.find(doc);
        let known = match (&mut self.cache, &layout.id) {
            (Some(cache), Some(places)) => cache.find(&row, places),
            _ => None,
        };
        let at = match known {
            Some(at) => at,
            None => {
                let id = stage.id.eval(scope)?.unwrap_or(Value::Null);
                let Some(at) = self.place(id)? else { return self.put_aside(id, scope) };
                if let Some(cache) = &mut self.cache {
                    cache.note(at);
                    if cache.is_useless() {
                        self.cache = None;
                    }
                }
                at
            }
        };
        let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
        let mut grown = 0;
        let outputs = stage.outputs.0.iter().zip(&layout.inputs).zip(&mut group.states);
        for (((_, accumulator), input), state) in outputs {
            grown += match input {
                Input::Field(at) => {
                    let value = row.get(*at).copied().flatten().map(|element| element.value());
                    accumulator.add(state, value, accumulator.sort_key(scope)?)?
                }
                Input::Constant(value) => {
                    accumulator.add(state, Some(*value), accumulator.sort_key(scope)?)?
                }
                Input::Expr => {
                    let (value, key) = accumulator.argument(scope)?;
                    accumulator.add(state, value, key)?
                }
            };
        }
        if grown > 0 { self.grew(grown) } else { Ok(()) }
    }

    /// Writes down what a later pass needs of a document.
    fn put_aside<'a>(&mut self, id: Value<'_>, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
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

    /// Takes in all records of an earlier pass.
    pub(super) fn records(&mut self, mut aside: SpillReader) -> Result<()> {
        while let Some((record, _)) = aside.next()? {
            self.record(&record)?;
        }
        Ok(())
    }

    /// Takes in the groups that others made of other documents; all of them together have `room` bytes.
    pub(super) fn merge(&mut self, others: Vec<Groups<'_>>, room: usize) -> Result<()> {
        self.room = room;
        let mut asides = Vec::new();
        asides.extend(self.aside.take());
        for other in others {
            for entry in other.groups {
                self.key.clear();
                encode_value(entry.id.value(), &mut self.key);
                match self.found.get(self.key.as_slice()) {
                    None => drop(self.insert(entry)),
                    Some(at) => {
                        let mut grown = 0;
                        let Some(own) = self.groups.get_mut(*at) else { continue };
                        let outputs = self.stage.outputs.0.iter().zip(&mut own.states).zip(entry.states);
                        for (((_, accumulator), state), with) in outputs {
                            grown += accumulator.merge(state, with)?;
                        }
                        self.grew(grown)?;
                    }
                }
            }
            asides.extend(other.aside);
        }
        // A group that one had no room for may be among those of another.
        for aside in asides {
            self.records(aside.reader()?)?;
        }
        Ok(())
    }

    /// The groups, and what did not fit.
    pub(super) fn end(self) -> Result<(std::vec::IntoIter<Entry>, Option<SpillReader>)> {
        let aside = self.aside.map(SpillWriter::reader).transpose()?;
        Ok((self.groups.into_iter(), aside))
    }
}
