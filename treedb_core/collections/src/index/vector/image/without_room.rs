//! Images that there is no room for in memory: written into their files straight from the tables, and used there.
//!
//! * A search that finds no room for an image, or that what follows a file takes most of its room, *asks* for the file ([`Asks`]); it waits for nothing. A thread
//!   of the database answers ([`crate::maintenance::image_writer`]), and a build whose image would be larger than the limit does it itself.
//! * The file is of a snapshot, which is read while it is written. A checkpoint after that has all that the snapshot has; then there is a record of
//!   the file, and searches use it like any other ([`super::saving`]).
//! * Writing takes a while: it ends when the database is closed or the index is dropped. An index rests after it ([`Asks::rest`]): the longer, the oftener its
//!   file did not serve for so long. So nothing is written all the time, whatever the reason is that a file does not do.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::vector::VectorDef;
use treedb_storage::{ReadTxn, Reads, Store, Table};

use super::saving::Since;
use super::{Contents, Images, lock};
use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::index::vector::follow::{Follower, STEP_ELEMENTS};
use crate::index::vector::record::nodes_in;
use crate::index::vector::saved::SavedImages;
use crate::index::vector::streamed::{StreamedImage, can_stream, interrupted};
use crate::read::view::View;

/// After a writing an index is left alone for so many times as long as it took, and at least for so long.
const RESTS: u32 = 8;
const LEAST_REST: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(1) };
/// Such a part of the room is to be left for what follows a file.
const SPARE: u64 = 8;
/// The rest is doubled so often at most.
const DOUBLED: u32 = 16;
/// As long as a process lives, but not so long that no clock tells when it is over.
const LONGEST_REST: Duration = Duration::from_secs(1 << 31);
/// Rests of more indexes than these are forgotten once they are over.
const RESTING: usize = 1024;

/// Which indexes are to have files.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    /// By the numbers of their tables: their collections, and when it may be done.
    indexes: BTreeMap<u32, (Namespace, Instant)>,
    rests: BTreeMap<u32, Rest>,
    stops: bool,
    /// The writing under way is to end; the next one is not.
    ends_current: bool,
}

/// The rest of an index after a writing.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Instant,
    /// How many writings one after another were asked for before the rest was over.
    soon: u32,
}

impl Asks {
    /// Asks for the file of an index.
    fn ask(&self, table: u32, namespace: &Namespace) {
        let mut asked = lock(&self.asked);
        if !asked.indexes.contains_key(&table) {
            let mut from = Instant::now();
            if let Some(rest) = asked.rests.get_mut(&table) {
                rest.soon = if from < rest.until { rest.soon.saturating_add(1) } else { 0 };
                from = from.max(rest.until);
            }
            asked.indexes.insert(table, (namespace.clone(), from));
            self.changed.notify_all();
        }
    }

    /// Waits for the next index that is to have a file; `None` once it is to [stop](Asks::stop).
    pub(crate) fn next(&self) -> Option<(u32, Namespace)> {
        let mut asked = lock(&self.asked);
        loop {
            if asked.stops {
                return None;
            }
            let now = Instant::now();
            let next = asked.indexes.iter().map(|(table, (_, from))| (*from, *table)).min();
            asked = match next {
                Some((from, table)) if from <= now => {
                    asked.ends_current = false;
                    return asked.indexes.remove(&table).map(|(namespace, _)| (table, namespace));
                }
                Some((from, _)) => {
                    let wait = self.changed.wait_timeout(asked, from - now);
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Leaves an index alone after a writing that took so long.
    pub(crate) fn rest(&self, table: u32, took: Duration) {
        let mut asked = lock(&self.asked);
        let now = Instant::now();
        if asked.rests.len() > RESTING {
            asked.rests.retain(|_, rest| rest.until > now);
        }
        let soon = asked.rests.get(&table).map_or(0, |rest| rest.soon);
        let rests = LEAST_REST.max(took.saturating_mul(RESTS)).saturating_mul(1 << soon.min(DOUBLED));
        asked.rests.insert(table, Rest { until: now + rests.min(LONGEST_REST), soon });
    }

    /// Ends the thread that waits in [`Asks::next`], and the writing under way.
    pub(crate) fn stop(&self) {
        lock(&self.asked).stops = true;
        self.changed.notify_all();
    }

    /// Ends the writing under way.
    pub(crate) fn end_current(&self) {
        lock(&self.asked).ends_current = true;
    }

    /// Whether the writing under way is to go on.
    pub(crate) fn goes_on(&self) -> bool {
        let asked = lock(&self.asked);
        !asked.stops && !asked.ends_current
    }
}

impl Images {
    /// Which indexes are to have files.
    pub(crate) fn asks(&self) -> &Arc<Asks> {
        &self.asks
    }

    /// Whether images can be in files, so that somebody has to answer who [asks](Asks).
    pub(crate) fn may_be_in_files(&self) -> bool {
        self.saved().is_some()
    }

    /// Asks for the file of an index.
    pub(super) fn ask_for_file(&self, view: &View<'_, impl Reads>, table: &Table) {
        if self.may_be_in_files() && self.are_saved_at_close() {
            self.asks.ask(table.id(), &view.meta.namespace);
        }
    }

    /// Whether the image of an index is too large for the memory that there may be beside `others`, and what it needs with its file is not, with something
    /// to spare for what follows.
    fn needs_file(&self, def: &VectorDef, nodes: u64, others: u64) -> bool {
        let room = self.limit.load(Ordering::Relaxed).saturating_sub(others);
        let count = usize::try_from(nodes).ok().filter(|count| *count < u32::MAX as usize);
        let Some(count) = count else { return false };
        let empty = Contents::new(def);
        nodes.saturating_mul(def.dimensions as u64) > STEP_ELEMENTS as u64
            && Follower::bytes_of(&empty, count) > room
            && Follower::bytes_of_mapped(&empty, count) <= room - room / SPARE
    }

    /// Writes the file of an index whose image there is no room for, or for what it follows the file by; nothing is done for others. `meta_in` finds the
    /// collection in a snapshot, and `goes_on` is asked now and then. After a build (`is_built`) only what no room would be made for is written.
    ///
    /// # Errors
    /// Those of the store and of the disk; `Interrupted` if it was not to go on, or there was no memory for it.
    pub(crate) fn write_without_room(
        &self,
        store: &Store,
        meta_in: &dyn Fn(&ReadTxn) -> Result<Option<Arc<Meta>>>,
        (number, is_built): (u32, bool),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        // Who wants no files at the end wants none before.
        let Some(saved) = self.saved().filter(|_| self.are_saved_at_close()) else { return Ok(()) };
        // Before the snapshot, which keeps pages from being used again: another writing takes a while.
        let one = lock(&saved.saving);
        let known = lock(&self.slots).by_table.get(&number).map(|known| Arc::clone(&known.slot));
        let own = known.as_ref().map_or(0, |slot| slot.bytes());
        let has_image = known.is_some_and(|slot| slot.has_image());
        let others = if is_built { 0 } else { self.bytes().saturating_sub(own) };
        let reads = store.begin_read()?;
        let Some(meta) = meta_in(&reads)? else { return Ok(()) };
        let is_it = |table: &Table| table.id() == number;
        let Some(index) = meta.indexes.iter().find(|index| index.building.is_none() && is_it(&index.table))
        else {
            return Ok(());
        };
        let Some(def) = index.def.as_vector() else { return Ok(()) };
        let table = &index.table;
        if has_image {
            drop((reads, one));
            return self.save_one(saved, store, &meta, (table, def), (Since::Snapshot, goes_on));
        }
        let view = View { reads: &reads, meta: &meta };
        let nodes = nodes_in(reads.len(table)?);
        if !self.needs_file(def, nodes, others) || !can_stream(def, &view, nodes)? {
            return Ok(());
        }
        let done = self.stream(saved, store, &view, (table, def), goes_on);
        self.remove_if_dropped(saved, number);
        if done? {
            self.leave_file_before(number);
            self.streamed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Drops the image that a search has read from the file before while this one was written: it keeps that file on the disk, and what it has followed in
    /// memory. The next search reads the new file.
    fn leave_file_before(&self, table: u32) {
        let known = lock(&self.slots).by_table.get(&table).map(|known| Arc::clone(&known.slot));
        let Some(slot) = known else { return };
        let mut state = lock(&slot.state);
        if state.is_from_file {
            let before = std::mem::take(&mut *state);
            before.recent.iter().for_each(|image| image.is_replaced.store(true, Ordering::Relaxed));
            slot.building.store(true, Ordering::Relaxed);
            slot.note_bytes(&state);
            drop(state);
            // To give back a large one takes longer.
            drop(before);
        }
    }

    /// Writes the file of an index, if it has another one; returns whether it did. [`SavedImages::saving`] is held.
    fn stream(
        &self,
        saved: &SavedImages,
        store: &Store,
        view: &View<'_, ReadTxn>,
        (table, def): (&Table, &VectorDef),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let Some(version) = view.reads.version(table)? else { return Ok(false) };
        if saved.is_saved(table, def, version.changed()) {
            return Ok(false);
        }
        let (begun, mut memory) = (Instant::now(), self.reserve());
        let mut may = |bytes: u64| goes_on() && !self.is_dropped(table.id()) && memory.grow_to(bytes);
        let image = StreamedImage::new(def, view, table, &mut may)?;
        let (bytes, namespace) = (image.file_bytes(), &view.meta.namespace);
        tracing::info!(%namespace, index = def.name, bytes, "writing a vector index's image, which there is no room for in memory");
        let written = saved.write_streamed(store, (table, def), view.reads.txn(), bytes, |out| {
            image.write_to(out, &mut may)
        });
        written.map_err(|error| error_of_write(error, goes_on))?;
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(%namespace, index = def.name, bytes, seconds, "wrote a vector index's image");
        Ok(true)
    }
}

/// The error of a write that failed: `Interrupted`, whatever else it says, if it was not to go on.
pub(super) fn error_of_write(error: QueryError, goes_on: &dyn Fn() -> bool) -> QueryError {
    if goes_on() { error } else { interrupted() }
}

/// Logs the result of a write in the background.
pub(crate) fn log(namespace: &Namespace, done: Result<()>) {
    match done {
        Ok(()) => {}
        Err(error) if error.code == ErrorCode::Interrupted => {
            tracing::debug!(%namespace, "the writing of a vector index's image has ended before it was complete");
        }
        Err(error) => {
            tracing::warn!(%namespace, %error, "the image of a vector index is not written, and its searches read its table");
        }
    }
}
