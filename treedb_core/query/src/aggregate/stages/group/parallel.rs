//! One pass of a `$group`, by one thread or several.
//!
//! Each thread groups one partition of the documents; the partitions follow one another in the order of the collection.
//! Every thread keeps its groups in as many tables as there are threads, divided by the hashes of their keys. Then each
//! thread merges one of these tables of all threads in the order of the partitions, so that accumulators such as `$push` and
//! `$first` give the result of a single thread.
//!
//! The threads share the memory limit. Beyond it they spill documents as a single thread does, or, if the result depends on
//! the order of the documents, they stop, and a single thread groups all documents again.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::access::Flow;
use crate::doc::Doc;
use crate::error::Result;
use crate::query::expr::{Arena, Globals, Scope};
use crate::query::spill::SpillReader;

use crate::aggregate::context::Context;
use crate::aggregate::key_table::HashSeed;
use crate::aggregate::stage::Stage;
use crate::aggregate::stream::BoxedStream;
use crate::aggregate::threads::run_in_parallel;

use super::Group;
use super::aggregator::{Aggregator, MemoryBudget};
use super::group_table::GroupTable;
use super::spill::SpillFiles;

/// Up to this number of groups one thread merges them as fast as several.
const MERGED_BY_ONE: usize = 10_000;
/// Documents between two checks whether to stop.
const DOCUMENTS_PER_CHECK: u32 = 256;

/// Groups, and the records of documents that belong to none of them.
pub(super) type Groups = (Vec<GroupTable>, Vec<SpillReader>);

/// What a thread has made.
struct Partial {
    tables: Vec<GroupTable>,
    spill: SpillFiles,
    /// Bytes that states have allocated.
    allocated: usize,
}

/// The groups of a stream, by this thread.
pub(super) fn group(stage: &Group, context: &Context, input: BoxedStream) -> Result<Groups> {
    let budget = MemoryBudget::new(context.memory_limit, 1);
    let tables = Aggregator::empty_tables(stage, HashSeed::new(), 1);
    let partial = add_all(context, Aggregator::new(stage, context, &budget, tables), input, None)?;
    Ok((partial.tables, partial.spill.readers()?))
}

/// The groups of spilled records, by this thread.
pub(super) fn group_records(stage: &Group, context: &Context, records: SpillReader) -> Result<Groups> {
    let budget = MemoryBudget::new(context.memory_limit, 1);
    let tables = Aggregator::empty_tables(stage, HashSeed::new(), 1);
    let mut aggregator = Aggregator::new(stage, context, &budget, tables);
    aggregator.add_records(records)?;
    Ok((aggregator.tables, aggregator.spill.readers()?))
}

/// The groups of a stream that is a part of the documents, and the bytes that their states have allocated; `None` if they
/// do not fit in memory.
pub(super) fn group_part(
    stage: &Group,
    context: &Context,
    input: BoxedStream,
) -> Result<Option<(GroupTable, usize)>> {
    let budget = MemoryBudget::new(context.memory_limit, 1);
    let stop = StopSignal { stopped: AtomicBool::new(false), when_full: true };
    let table = GroupTable::new(HashSeed::new(), &stage.outputs);
    let aggregator = Aggregator::new(stage, context, &budget, vec![table]);
    let mut partial = add_all(context, aggregator, input, Some(&stop))?;
    let table = if stop.stopped.into_inner() { None } else { partial.tables.pop() };
    Ok(table.map(|table| (table, partial.allocated)))
}

/// The groups of several streams, each read by a thread of its own. `None` if they do not fit in memory and the result
/// depends on the order of the documents.
pub(super) fn group_partitions(
    stage: &Group,
    context: &Context,
    partitions: Vec<BoxedStream>,
) -> Result<Option<Groups>> {
    let (threads, seed) = (partitions.len(), HashSeed::new());
    let mut budget = MemoryBudget::new(context.memory_limit, threads);
    let stop = StopSignal { stopped: AtomicBool::new(false), when_full: stage.needs_order() };
    let begin = || Aggregator::new(stage, context, &budget, Aggregator::empty_tables(stage, seed, threads));
    let partials = run_in_parallel(partitions, |documents| {
        let partial = add_all(context, begin(), documents, Some(&stop));
        if partial.is_err() {
            stop.stopped.store(true, Ordering::Relaxed);
        }
        partial
    });
    // A single thread may need less memory, or it meets the same error.
    if stop.when_full && stop.stopped.into_inner() {
        return Ok(None);
    }
    let partials = partials.into_iter().collect::<Result<Vec<Partial>>>()?;
    let groups = partials.iter().flat_map(|partial| &partial.tables).map(GroupTable::len).sum::<usize>();
    let mut allocated = partials.iter().map(|partial| partial.allocated).sum::<usize>();
    let mut spilled = Vec::new();
    let mut by_range: Vec<Vec<GroupTable>> = (0..threads).map(|_| Vec::with_capacity(threads)).collect();
    for partial in partials {
        spilled.extend(partial.spill.readers()?);
        by_range.iter_mut().zip(partial.tables).for_each(|(range, table)| range.push(table));
    }
    let merge = |tables: Vec<GroupTable>| -> Result<(Option<GroupTable>, usize)> {
        let mut tables = tables.into_iter();
        let (mut first, mut allocated) = (tables.next(), 0);
        if let Some(first) = &mut first {
            for other in tables {
                allocated += first.merge(other, &stage.outputs)?;
            }
        }
        Ok((first, allocated))
    };
    let merged: Vec<_> = if groups <= MERGED_BY_ONE {
        by_range.into_iter().map(merge).collect()
    } else {
        run_in_parallel(by_range, merge)
    };
    let mut tables = Vec::with_capacity(threads);
    for merged in merged {
        let (table, more) = merged?;
        tables.extend(table);
        allocated += more;
    }
    if spilled.is_empty() {
        return Ok(Some((tables, Vec::new())));
    }
    // A group that was spilled by one thread may be among those of another.
    budget.set_used(allocated + tables.iter().map(GroupTable::size).sum::<usize>());
    let mut aggregator = Aggregator::new(stage, context, &budget, tables);
    for records in spilled {
        aggregator.add_records(records)?;
    }
    Ok(Some((aggregator.tables, aggregator.spill.readers()?)))
}

/// Tells threads to stop.
struct StopSignal {
    stopped: AtomicBool,
    /// Whether to stop as soon as the memory limit is reached.
    when_full: bool,
}

impl StopSignal {
    fn is_set(&self, aggregator: &Aggregator<'_>) -> bool {
        if self.when_full && aggregator.is_full() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Adds the documents of a stream, until the end or the stop signal.
fn add_all(
    context: &Context,
    mut aggregator: Aggregator<'_>,
    mut input: BoxedStream,
    stop: Option<&StopSignal>,
) -> Result<Partial> {
    let globals: &Globals = &context.globals;
    let (mut arena, mut count) = (Arena::new(), 0_u32);
    input.for_each(&mut |document| {
        arena.clear();
        let doc = Doc::from(document);
        aggregator.add(doc, &mut Scope::new(doc, globals, &arena))?;
        count = count.wrapping_add(1);
        match stop {
            Some(stop) if count.is_multiple_of(DOCUMENTS_PER_CHECK) && stop.is_set(&aggregator) => {
                Ok(Flow::Break(()))
            }
            _ => Ok(Flow::Continue(())),
        }
    })?;
    if let Some(stop) = stop {
        stop.is_set(&aggregator);
    }
    Ok(Partial { allocated: aggregator.allocated, tables: aggregator.tables, spill: aggregator.spill })
}
