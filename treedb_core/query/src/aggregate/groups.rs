//! The groups of one pass of a `$group`, found by what tells their `_id`s apart (see [`super::identity`]), so that numbers
//! of different kinds that are equal fall together.
//!
//! The fields that expressions name are found in one walk over a row. Where the `_id` is a field or a document of fields,
//! their bytes are the key of the group; where it depends on a few fields alone, their bytes lead to the group as soon
//! as it was computed once.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::doc::{Doc, Element, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Scope;
use crate::query::spill::SpillReader;

use super::aside::{Arguments, Aside, Record};
use super::fields::{Cache, Fields, Input, Row, depends_on, identify_fields};
use super::group::Group;
use super::identity::identify_by;
use super::shard::Shard;
use super::table::{Look, Seed};
use super::world::Context;

/// How a group's expressions are read from a row.
#[derive(Debug, Default)]
pub(super) struct Layout {
    fields: Fields,
    id: Id,
    inputs: Vec<Input>,
}

/// How the key of a row's group is made.
#[derive(Debug, Default)]
enum Id {
    /// Of a field.
    Field(usize),
    /// Of fields, which a document is made of.
    Fields(Vec<usize>),
    /// Of the computed `_id`, which depends on fields alone.
    Computed(Vec<usize>),
    /// Of the computed `_id`.
    #[default]
    Any,
}

impl Layout {
    pub(super) fn of(stage: &Group) -> Layout {
        let mut fields = Fields::default();
        let id = Id::of(stage, &mut fields);
        let inputs = stage.outputs.0.iter();
        let inputs = inputs.map(|(_, accumulator)| Input::of(accumulator.input(), &mut fields)).collect();
        Layout { fields, id, inputs }
    }
}

impl Id {
    fn of(stage: &Group, fields: &mut Fields) -> Id {
        if let Input::Field(place) = Input::of(&stage.id, fields) {
            return Id::Field(place);
        }
        let paths = if stage.id.as_constant().is_some() { Some(Vec::new()) } else { stage.id.fields() };
        if let Some(paths) = paths
            && paths.iter().all(|path| path.parts().len() == 1)
            && let Some(places) = paths.iter().map(|path| fields.place(path.first())).collect()
        {
            return Id::Fields(places);
        }
        depends_on(&stage.id, fields).map_or(Id::Any, Id::Computed)
    }
}

/// The memory of groups, which several threads may share.
#[derive(Debug)]
pub(super) struct Room {
    used: AtomicUsize,
    limit: usize,
    /// Bytes that one of those who share it may use before it says so.
    step: usize,
    sharing: usize,
}

impl Room {
    /// `limit` bytes, shared by so many.
    pub(super) fn new(limit: usize, sharing: usize) -> Self {
        Room { used: AtomicUsize::new(0), limit, step: (limit / (64 * sharing.max(1))).min(1 << 18), sharing }
    }

    /// Says that so many bytes are used now.
    pub(super) fn set(&mut self, bytes: usize) {
        self.used = AtomicUsize::new(bytes);
    }
}

/// The groups of one pass.
pub(super) struct Groups<'p> {
    stage: &'p Group,
    context: &'p Context,
    /// By the upper half of the keys' hashes.
    pub(super) shards: Vec<Shard>,
    room: &'p Room,
    /// Bytes of the room used and not yet said.
    untold: usize,
    /// Bytes that states hold elsewhere.
    pub(super) grown: usize,
    /// There are no new groups.
    full: bool,
    cache: Option<Cache>,
    pub(super) aside: Aside,
    key: Vec<u8>,
}

/// Where a group is.
enum Place {
    At(Where),
    Free(Free),
    /// There is no room for it; the hash of its key.
    None(u64),
}

/// Shard and number.
type Where = (usize, u32);

/// Shard, slot and hash.
struct Free(usize, usize, u64);

impl<'p> Groups<'p> {
    /// No groups yet.
    pub(super) fn new(stage: &'p Group, context: &'p Context, room: &'p Room, shards: Vec<Shard>) -> Self {
        let cache = matches!(stage.layout.id, Id::Computed(_))
            .then(|| Cache::new(room.limit / 8 / room.sharing.max(1)));
        let full = room.used.load(Ordering::Relaxed) > room.limit;
        let (aside, key) = (Aside::default(), Vec::new());
        Groups { stage, context, shards, room, untold: 0, grown: 0, full, cache, aside, key }
    }

    /// So many shards without groups.
    pub(super) fn shards(stage: &Group, seed: Seed, count: usize) -> Vec<Shard> {
        (0..count.max(1)).map(|_| Shard::new(seed, &stage.outputs)).collect()
    }

    /// True if what belongs to none of the groups is put aside.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The place of the group of `self.key`.
    #[inline]
    fn place(&mut self) -> Place {
        let count = self.shards.len() as u64;
        let Some(first) = self.shards.first() else { return Place::None(0) };
        let hash = first.hash(&self.key);
        let at = if count == 1 { 0 } else { (((hash >> 32) * count) >> 32) as usize };
        let Some(shard) = self.shards.get_mut(at) else { return Place::None(hash) };
        match shard.look(hash, &self.key) {
            Look::At(number) => Place::At((at, number)),
            Look::Free(_) if self.full || shard.is_full() => Place::None(hash),
            Look::Free(slot) => Place::Free(Free(at, slot, hash)),
        }
    }

    /// A new group under `self.key`; `id` is its `_id` if that is not the key.
    fn add(&mut self, Free(at, slot, hash): Free, id: &[u8]) -> Result<Where> {
        let Some(shard) = self.shards.get_mut(at) else { return Ok((at, 0)) };
        let before = shard.size();
        let number = shard.fill(slot, hash, &self.key, id, self.stage.outputs.starts());
        let bytes = shard.size() - before;
        self.use_up(bytes)?;
        Ok((at, number))
    }

    fn use_up(&mut self, bytes: usize) -> Result<()> {
        self.untold += bytes;
        if self.untold < self.room.step {
            return Ok(());
        }
        let used = self.room.used.fetch_add(self.untold, Ordering::Relaxed) + self.untold;
        self.untold = 0;
        self.full = used > self.room.limit;
        // New groups are put aside beyond the memory; those there are may grow that much again.
        if used > self.room.limit.saturating_mul(2) {
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

    /// Makes the key of a row's group, where fields are all it takes. True if it is the `_id` too.
    #[inline]
    fn key_of_fields(&mut self, row: &Row<'_>) -> Option<bool> {
        self.key.clear();
        match &self.stage.layout.id {
            Id::Field(place) => {
                let value = row.get(*place).copied().flatten().map_or(Value::Null, |element| element.value());
                Some(identify_by(&self.stage.collation, value, &mut self.key))
            }
            Id::Fields(places) => {
                identify_fields(row, places, &self.stage.collation, &mut self.key);
                Some(false)
            }
            _ => None,
        }
    }

    /// The group of a document, `None` if there is no room for it; with it the `_id` and the hash of the key then.
    fn find<'a>(
        &mut self,
        row: &Row<'a>,
        scope: &mut Scope<'a>,
    ) -> Result<std::result::Result<Where, (Vec<u8>, u64)>>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
        let mut id = None;
        let own = match self.key_of_fields(row) {
            Some(own) => own,
            None => {
                if let (Some(cache), Id::Computed(places)) = (&mut self.cache, &stage.layout.id)
                    && let Some(note) = cache.find(row, places)
                {
                    return Ok(Ok(((note >> 32) as usize, note as u32)));
                }
                let value = stage.id.eval(scope)?.unwrap_or(Value::Null);
                id = Some(value);
                identify_by(&stage.collation, value, &mut self.key)
            }
        };
        let place = self.place();
        let found = match place {
            Place::At(found) => found,
            Place::Free(_) | Place::None(_) => {
                let mut bytes = Vec::new();
                if !own {
                    let field = match &stage.layout.id {
                        Id::Field(place) => row.get(*place).copied().flatten(),
                        _ => None,
                    };
                    let mut put = |element: Element<'_>| {
                        bytes.push(element.kind);
                        bytes.extend_from_slice(element.bytes);
                    };
                    match (field, id) {
                        (Some(element), _) => put(element),
                        (None, Some(value)) => {
                            OwnedValue::from_value(value).element().into_iter().for_each(put)
                        }
                        (None, None) => {
                            let value = stage.id.eval(scope)?.unwrap_or(Value::Null);
                            OwnedValue::from_value(value).element().into_iter().for_each(put);
                        }
                    }
                }
                match place {
                    Place::Free(free) => self.add(free, &bytes)?,
                    Place::At(found) => found,
                    Place::None(hash) => return Ok(Err((bytes, hash))),
                }
            }
        };
        if let Some(cache) = &mut self.cache {
            cache.note((found.0 as u64) << 32 | u64::from(found.1));
            if cache.is_useless() {
                self.cache = None;
            }
        }
        Ok(Ok(found))
    }

    /// Takes a document in.
    pub(super) fn document<'a>(&mut self, doc: Doc<'a>, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
        let layout = &stage.layout;
        let row = layout.fields.find(doc);
        let (at, number) = match self.find(&row, scope)? {
            Ok(found) => found,
            Err((id, hash)) => return self.put_aside(&id, hash, scope),
        };
        let Some(shard) = self.shards.get_mut(at) else { return Ok(()) };
        let mut grown = 0;
        let outputs = stage.outputs.0.iter().zip(&layout.inputs).zip(shard.states(number));
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
        self.grew(grown)
    }

    #[inline]
    fn grew(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.grown += bytes;
        self.use_up(bytes)
    }

    /// Writes down what a later pass needs of a document, whose key is `self.key`.
    fn put_aside<'a>(&mut self, id: &[u8], hash: u64, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let (stage, context): (&'p Group, _) = (self.stage, self.context);
        let mut record = Record::new(id);
        for (_, accumulator) in &stage.outputs.0 {
            let (value, key) = accumulator.argument(scope)?;
            record.argument(value, key.as_deref());
        }
        self.aside.put(hash, &self.key, &record.into_bytes(), || context.scratch("$group"))
    }

    /// Takes in all records of an earlier pass.
    pub(super) fn records(&mut self, mut records: SpillReader) -> Result<()> {
        let context = self.context;
        while let Some((key, record)) = records.next()? {
            self.key = key;
            let (arguments, id) = Arguments::of(&record);
            let (at, number) = match self.place() {
                Place::At(found) => found,
                Place::Free(free) => self.add(free, &id)?,
                Place::None(hash) => {
                    self.aside.put(hash, &self.key, &record, || context.scratch("$group"))?;
                    continue;
                }
            };
            let Some(shard) = self.shards.get_mut(at) else { continue };
            let mut grown = 0;
            let outputs = self.stage.outputs.0.iter().zip(shard.states(number)).zip(arguments);
            for (((_, accumulator), state), (value, key)) in outputs {
                grown += accumulator.add(state, value, key)?;
            }
            self.grew(grown)?;
        }
        Ok(())
    }
}
