//! Bringing the image of an index up to what a search sees.
//!
//! * An image is given to a search only if it is of exactly the version of the table that the search's snapshot sees.
//! * One thread at a time follows a table. While the image is not complete, others do not wait for it: they read the table.
//! * Whatever fails, the search goes on in the table: nothing here is an error of a search but what its own snapshot cannot read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};

use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table, TableVersion, WriteTxn};

use super::slot::{Size, Slot, State};
use super::{Contents, Image, Images, lock};
use crate::catalog::meta::Meta;
use crate::index::vector::follow::Progress;
use crate::index::vector::record::nodes_in;
use crate::read::view::View;

/// States of an index that have an image at the same time: searches whose snapshots are a commit apart take turns.
const VERSIONS: usize = 2;

/// An insertion updates an image that lacks the changes of at most so many rows: it holds the lock of the writer meanwhile.
const BEHIND: usize = 4096;

impl Images {
    /// The image of what was committed of an index before a transaction that has not changed it yet; `None` if there is none now. That an insertion uses
    /// it is no use that keeps it from making room for others.
    pub(in super::super) fn of_writer(
        &self,
        def: &VectorDef,
        txn: &WriteTxn,
        meta: &Meta,
        table: &Table,
    ) -> Result<Option<Arc<Image>>> {
        let known = lock(&self.slots).by_table.get(&table.id()).map(|known| Arc::clone(&known.slot));
        let Some(slot) = known.filter(|slot| slot.has_image()) else { return Ok(None) };
        let Some(version) = txn.unchanged(table)? else { return Ok(None) };
        // Somebody else may follow for long.
        let Ok(state) = slot.state.try_lock() else { return Ok(None) };
        // From the first question on it is known which rows are changed, so this is asked also while none are.
        let reads = txn.committed_before()?;
        let changed = reads.changed_rows(table, state.follower.since());
        if let Some(image) = state.recent.iter().find(|image| image.version == version) {
            return Ok(Some(image.clone()).filter(|image| !image.is_damaged()));
        }
        if state.recent.is_empty() || changed.is_none_or(|rows| rows.len() > BEHIND) {
            return Ok(None);
        }
        let image = self.follow_from(&slot, state, def, &View { reads: &reads, meta }, (table, version))?;
        Ok(image.filter(|image| !image.is_damaged()))
    }

    /// Brings the image of an index up to what `view` sees.
    #[cold]
    pub(super) fn follow(
        &self,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        table: &Table,
        version: TableVersion,
    ) -> Result<Option<Arc<Image>>> {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return Ok(None);
        }
        let Some(slot) = self.slot(table) else { return Ok(None) };
        let state = match slot.building.load(Ordering::Relaxed) {
            false => lock(&slot.state),
            true => match slot.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(None),
            },
        };
        self.follow_from(&slot, state, def, view, (table, version))
    }

    /// The same, of this slot and from this state of it on.
    fn follow_from(
        &self,
        slot: &Slot,
        mut state: MutexGuard<'_, State>,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        (table, version): (&Table, TableVersion),
    ) -> Result<Option<Arc<Image>>> {
        let limit = self.limit.load(Ordering::Relaxed);
        if state.is_damaged() {
            // It is built as if there were no file.
            self.forget_file_of(&state, table);
            *state = State::default();
            slot.building.store(true, Ordering::Relaxed);
            slot.note_bytes(&state);
        }
        if let Some(image) = state.recent.iter().find(|image| image.version == version) {
            return Ok(Some(image.clone()));
        }
        if state.unreadable == Some(version) {
            return Ok(None);
        }
        let Some(now) = state.follower.sees(view) else { return Ok(None) };
        if self.load(&mut state, def, view, (table, now), nodes_in(view.reads.len(table)?))? {
            return Ok(None);
        }
        let is_new = !state.is_built && !state.is_from_file;
        let others = self.bytes().saturating_sub(slot.bytes());
        // A build leaves what images took when it began. One that grows meanwhile is not given up for it: searches would become slow.
        let builds = if is_new { self.reserved.load(Ordering::Relaxed) } else { 0 };
        let mut room = limit.saturating_sub(others).saturating_sub(builds);
        let nodes = nodes_in(view.reads.len(table)?);
        let needed = state.bytes_of(nodes.min(u64::from(u32::MAX)) as usize, || Contents::new(def));
        let needed = state.outgrown.map_or(needed, |before| needed.max(before.room_to_fit()));
        if needed > room && needed <= limit {
            room += self.make_room(Some(table.id()), needed - room);
        }
        let size = Size { nodes, room };
        if state.outgrown.is_some_and(|before| !size.may_fit_after(&before)) {
            self.ask_for_file(view, table);
            return Ok(None);
        }
        state.outgrown = None;
        let outgrown = is_new.then_some(size);
        // After an error they are gone: they may have only some of the changes.
        let mut contents = state.take_newest().unwrap_or_else(|| Contents::new(def));
        let mut follower = std::mem::take(&mut state.follower);
        let progress = follower.advance(&mut contents, def, view, table, (now, room));
        let rebuilds =
            matches!(progress, Ok(Progress::TooLarge | Progress::Full | Progress::OtherCentre) | Err(_));
        slot.building.store(rebuilds || follower.is_partial(), Ordering::Relaxed);
        let mut image = None;
        match progress {
            Ok(Progress::Complete) => {
                let counted = if state.is_from_file { &self.loaded } else { &self.built };
                counted.fetch_add(u64::from(!state.is_built), Ordering::Relaxed);
                state.is_built = true;
                image = Some(Arc::new(Image::new(version, contents, &slot.signs)));
            }
            Ok(Progress::Partial) => state.unfinished = Some(contents),
            Ok(given_up @ (Progress::TooLarge | Progress::Full | Progress::OtherCentre)) => {
                let outgrown = outgrown.filter(|_| given_up == Progress::Full);
                self.forget_file_of(&state, table);
                if given_up == Progress::TooLarge {
                    self.ask_for_file(view, table);
                }
                *state = State { outgrown, ..State::default() };
                slot.note_bytes(&state);
                return Ok(None);
            }
            // A search in the table fails only if it needs what is damaged, and with the same error then.
            Err(_) => {
                // If it began with a file, that may be why: then it is built as if there were none.
                let unreadable = (!state.is_from_file).then_some(version);
                self.forget_file_of(&state, table);
                *state = State { unreadable, ..State::default() };
                slot.note_bytes(&state);
                return Ok(None);
            }
        }
        state.follower = follower;
        state.recent.extend(image.clone());
        let needed = usize::from(image.is_some());
        while state.recent.len() > VERSIONS || state.recent.len() > needed && state.bytes() > room {
            state.recent.remove(0);
        }
        let lacking = state.bytes().saturating_sub(room);
        if lacking > 0 && self.make_room(Some(table.id()), lacking) == 0 {
            self.forget_file_of(&state, table);
            *state = State { outgrown, ..State::default() };
            slot.building.store(true, Ordering::Relaxed);
            self.ask_for_file(view, table);
        } else if state.is_from_file && image.is_some() && !state.leaves_half_of(room, nodes) {
            // Before it does not fit any more.
            self.ask_for_file(view, table);
        }
        slot.note_bytes(&state);
        Ok(image)
    }
}
