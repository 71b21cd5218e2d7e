//! Groups made by several threads.
//!
//! Each thread groups a part of the documents; the parts follow each other. Every thread keeps its groups in as many
//! shards as there are threads, by the hashes of their keys, so that then each thread merges one shard of all, in the
//! order of the parts: what an accumulator has seen of one part comes before what it has seen of the next, and the answer
//! is that of one thread.
//!
//! The threads share the memory. When it is used up they put documents aside as one thread does; where the order of the
//! documents matters they give up instead, and one thread groups all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use crate::access::Flow;
use crate::doc::Doc;
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Globals, Scope};
use crate::query::spill::SpillReader;

use super::aside::Aside;
use super::group::Group;
use super::groups::{Groups, Room};
use super::shard::Shard;
use super::stream::Docs;
use super::table::Seed;
use super::world::Context;

/// Groups that one thread merges as fast as several.
const FEW: usize = 10_000;
/// Documents between looks at whether to go on.
const OFTEN: u32 = 256;

/// Groups, and the records of documents that are in none of them.
pub(super) type Made = (Vec<Shard>, Vec<SpillReader>);

/// What a thread has made.
struct Part {
    shards: Vec<Shard>,
    aside: Aside,
    grown: usize,
}

/// The groups of the documents of a stream.
pub(super) fn alone(stage: &Group, context: &Context, input: Docs) -> Result<Made> {
    let room = Room::new(context.memory, 1);
    let shards = Groups::shards(stage, Seed::new(), 1);
    let part = gathered(context, Groups::new(stage, context, &room, shards), input, None)?;
    Ok((part.shards, part.aside.readers()?))
}

/// The groups of records.
pub(super) fn again(stage: &Group, context: &Context, records: SpillReader) -> Result<Made> {
    let room = Room::new(context.memory, 1);
    let mut groups = Groups::new(stage, context, &room, Groups::shards(stage, Seed::new(), 1));
    groups.records(records)?;
    Ok((groups.shards, groups.aside.readers()?))
}

/// The groups of the documents of several streams, each read by a thread. `None` if the order of the documents matters
/// and they do not fit.
pub(super) fn write_batch(stage: &Group, context: &Context, input: Vec<Docs>) -> Result<Option<Made>> {
    let (count, seed) = (input.len(), Seed::new());
    let mut room = Room::new(context.memory, count);
    let stop = Stop { now: AtomicBool::new(false), when_full: !stage.is_unordered() };
    let begin = || Groups::new(stage, context, &room, Groups::shards(stage, seed, count));
    let made = spread(input, |docs| {
        let made = gathered(context, begin(), docs, Some(&stop));
        if made.is_err() {
            stop.now.store(true, Ordering::Relaxed);
        }
        made
    });
    // One thread may do with the memory, or it finds the same error.
    if stop.when_full && stop.now.into_inner() {
        return Ok(None);
    }
    let parts = made.into_iter().collect::<Result<Vec<Part>>>()?;
    let groups = parts.iter().flat_map(|part| &part.shards).map(Shard::len).sum::<usize>();
    let mut grown = parts.iter().map(|part| part.grown).sum::<usize>();
    let mut asides = Vec::new();
    let mut by_shard: Vec<Vec<Shard>> = (0..count).map(|_| Vec::with_capacity(count)).collect();
    for part in parts {
        asides.extend(part.aside.readers()?);
        by_shard.iter_mut().zip(part.shards).for_each(|(all, shard)| all.push(shard));
    }
    let merge = |all: Vec<Shard>| -> Result<(Option<Shard>, usize)> {
        let mut all = all.into_iter();
        let (mut first, mut grown) = (all.next(), 0);
        if let Some(first) = &mut first {
            for other in all {
                grown += first.merge(other, &stage.outputs)?;
            }
        }
        Ok((first, grown))
    };
    let merged: Vec<_> =
        if groups <= FEW { by_shard.into_iter().map(merge).collect() } else { spread(by_shard, merge) };
    let mut shards = Vec::with_capacity(count);
    for merged in merged {
        let (shard, more) = merged?;
        shards.extend(shard);
        grown += more;
    }
    if asides.is_empty() {
        return Ok(Some((shards, Vec::new())));
    }
    // A group that one had no room for may be among those of another.
    room.set(grown + shards.iter().map(Shard::size).sum::<usize>());
    let mut groups = Groups::new(stage, context, &room, shards);
    for aside in asides {
        groups.records(aside)?;
    }
    Ok(Some((groups.shards, groups.aside.readers()?)))
}

/// When threads stop.
struct Stop {
    now: AtomicBool,
    /// As soon as there is no room for a group.
    when_full: bool,
}

impl Stop {
    fn is_due(&self, groups: &Groups<'_>) -> bool {
        if self.when_full && groups.is_full() {
            self.now.store(true, Ordering::Relaxed);
        }
        self.now.load(Ordering::Relaxed)
    }
}

/// The groups of the documents of a stream.
fn gathered(context: &Context, mut groups: Groups<'_>, mut input: Docs, stop: Option<&Stop>) -> Result<Part> {
    let globals: &Globals = &context.globals;
    let (mut arena, mut count) = (Arena::new(), 0_u32);
    input.each(&mut |document| {
        arena.clear();
        let doc = Doc::from(document);
        groups.document(doc, &mut Scope::new(doc, globals, &arena))?;
        count = count.wrapping_add(1);
        match stop {
            Some(stop) if count.is_multiple_of(OFTEN) && stop.is_due(&groups) => Ok(Flow::Break(())),
            _ => Ok(Flow::Continue(())),
        }
    })?;
    if let Some(stop) = stop {
        stop.is_due(&groups);
    }
    Ok(Part { grown: groups.grown, shards: groups.shards, aside: groups.aside })
}

/// Does `work` with each of `all` in a thread of its own, the first in this one.
pub fn spread<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> Result<R> + Sync) -> Vec<Result<R>> {
    let work = &work;
    std::thread::scope(|scope| {
        let mut all = all.into_iter();
        let own = all.next();
        let others: Vec<ScopedJoinHandle<'_, _>> = all.map(|one| scope.spawn(move || work(one))).collect();
        let mut made: Vec<Result<R>> = own.map(work).into_iter().collect();
        made.extend(others.into_iter().map(|other| {
            other.join().unwrap_or_else(|_| {
                Err(QueryError::new(ErrorCode::InternalError, "a thread that read documents failed"))
            })
        }));
        made
    })
}
