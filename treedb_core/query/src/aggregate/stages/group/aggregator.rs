//! One pass of a `$group`: hash aggregation by the key of the `_id` ([`crate::aggregate::group_key`]).
//!
//! The fields that expressions name are found in one pass over a document. If the `_id` is a field or a document of fields,
//! the key is made of these fields without computing the `_id`. If it depends on a few fields only, their values lead to
//! the group through a cache once it has been computed.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::doc::{Doc, Element, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Expr, Scope};
use crate::query::spill::SpillReader;

use crate::aggregate::accumulator::Outputs;
use crate::aggregate::context::Context;
use crate::aggregate::group_key::append_collated_key;
use crate::aggregate::key_table::{Entry, HashSeed};

use super::Group;
use super::group_table::GroupTable;
use super::row_fields::{FieldSet, FoundFields, GroupCache, ValueSource, append_keys, depends_on};
use super::spill::{Arguments, RecordWriter, SpillFiles};

/// How the expressions of a group are read from a document.
#[derive(Debug)]
pub(super) struct RowLayout {
    fields: FieldSet,
    key: KeySource,
    /// Of the argument of each accumulator.
    arguments: Vec<ValueSource>,
}

/// What the key of a group is made of.
#[derive(Debug)]
enum KeySource {
    /// A field.
    Field(usize),
    /// Fields that the `_id` is a document of.
    Fields(Vec<usize>),
    /// The computed `_id`, which depends on these fields only.
    Computed(Vec<usize>),
    /// The computed `_id`.
    Any,
}

impl RowLayout {
    pub(super) fn new(id: &Expr, outputs: &Outputs) -> RowLayout {
        let mut fields = FieldSet::default();
        let key = KeySource::new(id, &mut fields);
        let inputs = outputs.0.iter().map(|(_, accumulator)| accumulator.input());
        let arguments = inputs.map(|input| ValueSource::new(input, &mut fields)).collect();
        RowLayout { fields, key, arguments }
    }
}

impl KeySource {
    fn new(id: &Expr, fields: &mut FieldSet) -> KeySource {
        if let ValueSource::Field(place) = ValueSource::new(id, fields) {
            return KeySource::Field(place);
        }
        let paths = if id.as_constant().is_some() { Some(Vec::new()) } else { id.fields() };
        if let Some(paths) = paths
            && paths.iter().all(|path| path.parts().len() == 1)
            && let Some(places) = paths.iter().map(|path| fields.place(path.first())).collect()
        {
            return KeySource::Fields(places);
        }
        depends_on(id, fields).map_or(KeySource::Any, KeySource::Computed)
    }
}

/// The memory limit of a pass, which several threads may share.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    used: AtomicUsize,
    limit: usize,
    /// Bytes that a thread may use before it adds them to `used`.
    step: usize,
    threads: usize,
}

impl MemoryBudget {
    /// `limit` bytes for as many threads.
    pub(super) fn new(limit: usize, threads: usize) -> Self {
        let step = (limit / (64 * threads.max(1))).min(1 << 18);
        MemoryBudget { used: AtomicUsize::new(0), limit, step, threads }
    }

    /// Sets the bytes that are used.
    pub(super) fn set_used(&mut self, bytes: usize) {
        self.used = AtomicUsize::new(bytes);
    }
}

/// Makes the groups of one pass.
pub(super) struct Aggregator<'p> {
    stage: &'p Group,
    context: &'p Context,
    /// One for each range of the upper half of the key hash.
    pub(super) tables: Vec<GroupTable>,
    budget: &'p MemoryBudget,
    /// Bytes used and not yet added to the budget.
    unreported: usize,
    /// Bytes that states have allocated.
    pub(super) allocated: usize,
    /// No group may be added: documents of other groups are spilled.
    full: bool,
    cache: Option<GroupCache>,
    pub(super) spill: SpillFiles,
    /// The key of the current document's group.
    key: Vec<u8>,
}

/// The result of looking a group up.
enum Found {
    Group(GroupId),
    Vacant(VacantSlot),
    /// The group is not in memory and cannot be added; with the hash of its key.
    NotInMemory(u64),
}

/// Table and number.
type GroupId = (usize, u32);

/// Where a group can be added.
struct VacantSlot {
    table: usize,
    slot: usize,
    hash: u64,
}

impl<'p> Aggregator<'p> {
    /// Begins with the groups of `tables`.
    pub(super) fn new(
        stage: &'p Group,
        context: &'p Context,
        budget: &'p MemoryBudget,
        tables: Vec<GroupTable>,
    ) -> Self {
        let cache = matches!(stage.layout.key, KeySource::Computed(_))
            .then(|| GroupCache::new(budget.limit / 8 / budget.threads.max(1)));
        let full = budget.used.load(Ordering::Relaxed) > budget.limit;
        let (spill, key) = (SpillFiles::default(), Vec::new());
        Aggregator { stage, context, tables, budget, unreported: 0, allocated: 0, full, cache, spill, key }
    }

    /// `count` empty tables.
    pub(super) fn empty_tables(stage: &Group, seed: HashSeed, count: usize) -> Vec<GroupTable> {
        (0..count.max(1)).map(|_| GroupTable::new(seed, &stage.outputs)).collect()
    }

    /// True if documents of groups that are not in memory are spilled.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Looks up the group of `self.key`.
    #[inline]
    fn look_up(&mut self) -> Found {
        let count = self.tables.len() as u64;
        let Some(first) = self.tables.first() else { return Found::NotInMemory(0) };
        let hash = first.hash(&self.key);
        let at = if count == 1 { 0 } else { (((hash >> 32) * count) >> 32) as usize };
        let Some(table) = self.tables.get_mut(at) else { return Found::NotInMemory(hash) };
        match table.entry(hash, &self.key) {
            Entry::Occupied(number) => Found::Group((at, number)),
            Entry::Vacant(_) if self.full || table.is_full() => Found::NotInMemory(hash),
            Entry::Vacant(slot) => Found::Vacant(VacantSlot { table: at, slot, hash }),
        }
    }

    /// Adds the group of `self.key`; `id` is its `_id` if that is not the key.
    fn add_group(&mut self, vacant: VacantSlot, id: &[u8]) -> Result<GroupId> {
        let VacantSlot { table: at, slot, hash } = vacant;
        let Some(table) = self.tables.get_mut(at) else { return Ok((at, 0)) };
        let before = table.size();
        let number = table.insert_at(slot, hash, &self.key, id, self.stage.outputs.starts());
        let bytes = table.size() - before;
        self.use_memory(bytes)?;
        Ok((at, number))
    }

    fn use_memory(&mut self, bytes: usize) -> Result<()> {
        self.unreported += bytes;
        if self.unreported < self.budget.step {
            return Ok(());
        }
        let used = self.budget.used.fetch_add(self.unreported, Ordering::Relaxed) + self.unreported;
        self.unreported = 0;
        self.full = used > self.budget.limit;
        // Beyond the limit no groups are added, but those in memory may still grow.
        if used > self.budget.limit.saturating_mul(2) {
            return Err(QueryError::new(
                ErrorCode::ExceededMemoryLimit,
                format!(
                    "$group: the values collected for single groups take more than {} bytes: collect fewer with \
                     $firstN, $topN or a projection",
                    self.context.memory_limit
                ),
            ));
        }
        Ok(())
    }

    /// Sets `self.key` if it is made of fields. True if the key is the `_id` as well; `None` if the `_id` must be computed.
    #[inline]
    fn key_of_fields(&mut self, row: &FoundFields<'_>) -> Option<bool> {
        self.key.clear();
        match &self.stage.layout.key {
            KeySource::Field(place) => {
                let value = row.get(*place).copied().flatten().map_or(Value::Null, |element| element.value());
                Some(append_collated_key(&self.stage.collation, value, &mut self.key))
            }
            KeySource::Fields(places) => {
                append_keys(row, places, &self.stage.collation, &mut self.key);
                Some(false)
            }
            _ => None,
        }
    }

    /// The group of a document, added if it is new. If it is not in memory and cannot be added: its `_id` and the hash of its
    /// key.
    fn find_group<'a>(
        &mut self,
        row: &FoundFields<'a>,
        scope: &mut Scope<'a>,
    ) -> Result<std::result::Result<GroupId, (Vec<u8>, u64)>>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
        let mut id = None;
        let key_is_id = match self.key_of_fields(row) {
            Some(key_is_id) => key_is_id,
            None => {
                if let (Some(cache), KeySource::Computed(places)) = (&mut self.cache, &stage.layout.key)
                    && let Some(group) = cache.find(row, places)
                {
                    return Ok(Ok(((group >> 32) as usize, group as u32)));
                }
                let value = stage.id.eval(scope)?.unwrap_or(Value::Null);
                id = Some(value);
                append_collated_key(&stage.collation, value, &mut self.key)
            }
        };
        let found = self.look_up();
        let group = match found {
            Found::Group(group) => group,
            Found::Vacant(_) | Found::NotInMemory(_) => {
                let mut bytes = Vec::new();
                if !key_is_id {
                    let field = match &stage.layout.key {
                        KeySource::Field(place) => row.get(*place).copied().flatten(),
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
                match found {
                    Found::Vacant(vacant) => self.add_group(vacant, &bytes)?,
                    Found::Group(group) => group,
                    Found::NotInMemory(hash) => return Ok(Err((bytes, hash))),
                }
            }
        };
        if let Some(cache) = &mut self.cache {
            cache.insert((group.0 as u64) << 32 | u64::from(group.1));
            if cache.is_useless() {
                self.cache = None;
            }
        }
        Ok(Ok(group))
    }

    /// Adds a document to its group.
    pub(super) fn add<'a>(&mut self, doc: Doc<'a>, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let stage: &'p Group = self.stage;
        let layout = &stage.layout;
        let row = layout.fields.find(doc);
        let (at, number) = match self.find_group(&row, scope)? {
            Ok(group) => group,
            Err((id, hash)) => return self.spill_document(&id, hash, scope),
        };
        let Some(table) = self.tables.get_mut(at) else { return Ok(()) };
        let mut allocated = 0;
        let outputs = stage.outputs.0.iter().zip(&layout.arguments).zip(table.states(number));
        for (((_, accumulator), argument), state) in outputs {
            allocated += match argument {
                ValueSource::Field(at) => {
                    let value = row.get(*at).copied().flatten().map(|element| element.value());
                    accumulator.add(state, value, accumulator.sort_key(scope)?)?
                }
                ValueSource::Constant(value) => {
                    accumulator.add(state, Some(*value), accumulator.sort_key(scope)?)?
                }
                ValueSource::Expr => {
                    let (value, key) = accumulator.argument(scope)?;
                    accumulator.add(state, value, key)?
                }
            };
        }
        self.add_allocated(allocated)
    }

    #[inline]
    fn add_allocated(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.allocated += bytes;
        self.use_memory(bytes)
    }

    /// Spills a document for a later pass. The key of its group is `self.key`.
    fn spill_document<'a>(&mut self, id: &[u8], hash: u64, scope: &mut Scope<'a>) -> Result<()>
    where
        'p: 'a,
    {
        let (stage, context): (&'p Group, _) = (self.stage, self.context);
        let mut record = RecordWriter::new(id);
        for (_, accumulator) in &stage.outputs.0 {
            let (value, key) = accumulator.argument(scope)?;
            record.argument(value, key.as_deref());
        }
        self.spill.put(hash, &self.key, &record.into_bytes(), || context.temp_file("$group"))
    }

    /// Adds the records of an earlier pass to their groups.
    pub(super) fn add_records(&mut self, mut records: SpillReader) -> Result<()> {
        let context = self.context;
        while let Some((key, record)) = records.next()? {
            self.key = key;
            let (arguments, id) = Arguments::read(&record);
            let (at, number) = match self.look_up() {
                Found::Group(group) => group,
                Found::Vacant(vacant) => self.add_group(vacant, &id)?,
                Found::NotInMemory(hash) => {
                    self.spill.put(hash, &self.key, &record, || context.temp_file("$group"))?;
                    continue;
                }
            };
            let Some(table) = self.tables.get_mut(at) else { continue };
            let mut allocated = 0;
            let outputs = self.stage.outputs.0.iter().zip(table.states(number)).zip(arguments);
            for (((_, accumulator), state), (value, key)) in outputs {
                allocated += accumulator.add(state, value, key)?;
            }
            self.add_allocated(allocated)?;
        }
        Ok(())
    }
}
