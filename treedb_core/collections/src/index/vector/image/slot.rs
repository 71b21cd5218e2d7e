//! The image of one index: its versions, what follows the table, and what others may know of it without waiting.
//!
//! * [`State`] is changed under its lock only. Who must not wait for that reads what [`Slot`] has beside it, which was so when the lock was
//!   last given back ([`Slot::note_bytes`]).
//! * The follower belongs to the newest contents: those that are unfinished, or the newest image.
//! * A state that turned out to be damaged, or that an error left half changed, is replaced as a whole: nothing of it is used again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use treedb_storage::TableVersion;

use super::{Contents, Image, lock};
use crate::index::vector::follow::Follower;

/// The images of all indexes, by the number of the index's table, which is never used again.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) by_table: HashMap<u32, Known>,
    /// Those that were dropped: older snapshots read the table.
    pub(super) dropped: HashSet<u32>,
}

impl Slots {
    pub(super) fn bytes(&self) -> u64 {
        self.by_table.values().map(|known| known.slot.bytes()).sum()
    }
}

/// An index that was searched.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) slot: Arc<Slot>,
    /// When it was last noticed that it had been.
    pub(super) used: Instant,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.slot.signs.dropped.store(true, Ordering::Relaxed);
    }
}

/// What searches tell of the image that they use, without a lock.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// Some search has used it since [`Images::make_room`](super::Images::make_room) asked.
    used: AtomicBool,
    /// Some search has listed the nodes of rows, which take memory, since [`Slot::note_bytes`].
    listed: AtomicBool,
    /// The slot is not among [`Slots`] any more: nothing of it counts, so nothing is to stay.
    dropped: AtomicBool,
}

impl Signs {
    /// Notes that a search uses the image. All threads share the flag, so it is written only if it is not set.
    #[inline]
    pub(super) fn note_use(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a search has used it since the last call.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Whether the slot was dropped.
    #[inline]
    pub(super) fn are_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Notes that nodes of rows were listed, once they are.
    pub(super) fn note_listed(&self) {
        self.listed.store(true, Ordering::Release);
    }
}

/// The image of one index.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) signs: Arc<Signs>,
    /// What [`State`] takes, what it has in a file, and whether it keeps one in use, for those who must not wait for it.
    pub(super) bytes: AtomicU64,
    pub(super) mapped: AtomicU64,
    pub(super) uses_file: AtomicBool,
    /// It is not complete, or not up to date after many writes: who would have to wait for the next part reads the table meanwhile.
    pub(super) building: AtomicBool,
    pub(super) state: Mutex<State>,
}

impl Slot {
    pub(super) fn new() -> Slot {
        let (bytes, mapped, building) = (AtomicU64::default(), AtomicU64::default(), AtomicBool::new(true));
        let uses_file = AtomicBool::default();
        Slot { signs: Arc::default(), bytes, mapped, uses_file, building, state: Mutex::default() }
    }

    /// Bytes that [`State`] takes.
    pub(super) fn bytes(&self) -> u64 {
        if self.signs.listed.load(Ordering::Acquire)
            && let Ok(state) = self.state.try_lock()
        {
            self.note_bytes(&state);
        }
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes what [`State`] takes.
    pub(super) fn note_bytes(&self, state: &State) {
        // First: what is listed from here on is noted the next time.
        self.signs.listed.swap(false, Ordering::AcqRel);
        self.bytes.store(state.bytes(), Ordering::Relaxed);
        self.mapped.store(state.mapped_bytes(), Ordering::Relaxed);
        self.uses_file.store(state.uses_file(), Ordering::Relaxed);
    }

    /// Whether there is an image, though it may not have what was written last.
    pub(super) fn has_image(&self) -> bool {
        self.bytes() > 0 && !self.building.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) follower: Follower,
    /// The newest last.
    pub(super) recent: Vec<Arc<Image>>,
    /// What the follower has read of a state that no image has yet.
    pub(super) unfinished: Option<Contents>,
    /// The version that could not be read: some row that its image needs, but few searches, is damaged.
    pub(super) unreadable: Option<TableVersion>,
    /// There was an image of all of the index, which the follower brings up to date: it does not build the first one.
    pub(super) is_built: bool,
    /// That one is from a file, or will be, once it is up to date.
    pub(super) is_from_file: bool,
    /// The size of the index when its image was given up while it was built, because it turned out to be too large.
    pub(super) outgrown: Option<Size>,
}

/// How many nodes an index has, and how many bytes its image may take.
///
/// What an image takes is estimated before it is built, but rows that are far apart take more. Each search reads a part of the table for an
/// image that is being built, so one that was given up is built again only when it is much more likely to fit. One that became too large by
/// what it followed is built anew at once: it takes less then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) nodes: u64,
    pub(super) room: u64,
}

impl Size {
    /// Whether an image that was too large at the size of `before` may fit now: there are an eighth fewer nodes, or there is an eighth more
    /// room.
    pub(super) fn may_fit_after(&self, before: &Size) -> bool {
        self.nodes < before.nodes - before.nodes / 8 || self.room >= before.room_to_fit()
    }

    /// The room that the image may fit in that was too large for the room that there was.
    pub(super) fn room_to_fit(&self) -> u64 {
        self.room.saturating_add(self.room / 8).saturating_add(1)
    }
}

impl State {
    /// Bytes of what changes and of the images, what they share counted once.
    pub(super) fn bytes(&self) -> u64 {
        // What an image shares with the newest state it shares with every one between.
        let images = self.recent.iter().map(|image| &image.contents).chain(&self.unfinished);
        let beside =
            images.clone().zip(images.clone().skip(1)).map(|(older, newer)| older.bytes_beside(newer));
        self.follower.bytes() + beside.sum::<u64>() + images.last().map_or(0, Contents::bytes)
    }

    /// Bytes of the newest contents that are in a file.
    pub(super) fn mapped_bytes(&self) -> u64 {
        let images = self.recent.iter().map(|image| &image.contents).chain(&self.unfinished);
        images.last().map_or(0, Contents::mapped_bytes)
    }

    /// Whether any of its contents keeps a file in use.
    pub(super) fn uses_file(&self) -> bool {
        self.recent.iter().map(|image| &image.contents).chain(&self.unfinished).any(Contents::is_mapped)
    }

    /// Whether anything of it is from a file that turned out to be damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.recent.iter().map(|image| &image.contents).chain(&self.unfinished).any(Contents::is_damaged)
    }

    /// Goes on in `file`, which what was `written` of one of its versions was written to: what they share has no memory of its own, nor another file,
    /// any more, what was changed since stays as it is, and each version is the one that it was. Returns what it has had instead, which is to be
    /// given back without the lock. What has changed altogether keeps no file. `None`, and nothing is changed, if nothing would be, if the newest has
    /// something in a file that is neither, or if any of it is damaged: what was listed of that stays, so it must stay known.
    pub(super) fn go_on_in(
        &mut self,
        written: &Contents,
        file: &Contents,
    ) -> Option<(Vec<Arc<Image>>, Option<Contents>)> {
        if self.is_damaged() {
            return None;
        }
        let moved = |contents: &Contents| contents.moved(written, file);
        let unfinished = match &self.unfinished {
            Some(unfinished) => Some(moved(unfinished)?),
            None => None,
        };
        let mut recent = Vec::with_capacity(self.recent.len());
        for (at, image) in self.recent.iter().enumerate() {
            let is_newest = self.unfinished.is_none() && at + 1 == self.recent.len();
            match moved(&image.contents) {
                Some(contents) => recent.push(Arc::new(Image::new(image.version, contents, &image.signs))),
                None if is_newest => return None,
                // It has something in the file before that has changed since: searches of that state read the table.
                None => {}
            }
        }
        // That of an index that was built anew meanwhile has none.
        let mut all = recent.iter().map(|image| &image.contents).chain(&unfinished);
        let has_any = all.any(|contents| contents.mapped_bytes() > 0);
        // Searches list rows without the lock, and what they have listed was taken over.
        if !has_any && !self.uses_file() || self.is_damaged() {
            return None;
        }
        self.is_from_file |= has_any;
        self.recent.iter().for_each(|image| image.is_replaced.store(true, Ordering::Relaxed));
        Some((
            std::mem::replace(&mut self.recent, recent),
            std::mem::replace(&mut self.unfinished, unfinished),
        ))
    }

    /// Bytes that the image takes with so many nodes, about: `new` says what one has.
    pub(super) fn bytes_of(&self, nodes: usize, new: impl Fn() -> Contents) -> u64 {
        match self.unfinished.as_ref().or(self.recent.last().map(|image| &image.contents)) {
            Some(contents) => Follower::bytes_of(contents, nodes),
            None => Follower::bytes_of(&new(), nodes),
        }
    }

    /// Whether what was changed since an image with so many nodes was written to its file leaves half of the room that there is beside what each image in a file
    /// takes.
    pub(super) fn leaves_half_of(&self, room: u64, nodes: u64) -> bool {
        let Some(newest) = self.recent.last() else { return true };
        let least = Follower::bytes_of_mapped(&newest.contents, nodes as usize);
        self.bytes() <= least.saturating_add(room.saturating_sub(least) / 2)
    }

    /// The newest contents, to be changed: those of an image that no search uses are changed where they are, of which
    /// nothing has to be copied.
    pub(super) fn take_newest(&mut self) -> Option<Contents> {
        self.unfinished.take().or_else(|| {
            let newest = Arc::try_unwrap(self.recent.pop()?);
            let in_use = match newest {
                Ok(image) => return Some(image.contents),
                Err(in_use) => in_use,
            };
            let contents = in_use.contents.clone();
            self.recent.push(in_use);
            Some(contents)
        })
    }
}

/// Drops the images that are in files, so that these make room on the disk; true if there were any. A search that uses one keeps it until it ends. Who
/// needs the room may hold anything but this lock.
pub(super) fn let_go(slots: &Mutex<Slots>) -> bool {
    let mut dropped = Vec::new();
    lock(slots).by_table.retain(|_, known| {
        let uses_file = known.slot.uses_file.load(Ordering::Relaxed);
        if uses_file {
            dropped.push(Arc::clone(&known.slot));
        }
        !uses_file
    });
    !dropped.is_empty()
}
