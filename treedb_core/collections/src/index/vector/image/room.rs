//! The memory that the images and the builds of a database share.
//!
//! * What images and builds take together is at most the limit, but for builds that had more when it was lowered.
//! * An image that does not fit beside the others gets the room of those that no search has used for a while, the longest unused
//!   first; what is in use stays, so that two indexes that take turns do not drive each other out.
//! * What an image has in its file does not count: the system takes that memory back by itself.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Images, lock};

/// An image that was used within this time is not dropped for another one.
#[cfg(not(test))]
const IDLE: Duration = Duration::from_secs(10);
#[cfg(test)]
const IDLE: Duration = Duration::from_millis(50);

/// What the images of a database take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VectorMemory {
    /// Bytes of the images, without what is in files.
    pub bytes: u64,
    /// Bytes of images that are in files, where the system keeps in memory what it has room for. They do not count towards the limit.
    pub mapped_bytes: u64,
    /// Bytes of the graphs of indexes that are being built.
    pub building_bytes: u64,
    /// What both may take together.
    pub limit_bytes: u64,
    /// Indexes that have an image, or a part of one.
    pub images: u64,
    /// Indexes that have been searched and have none: their searches read the table.
    pub without_image: u64,
    /// Images that were built from the indexes' tables since the database was opened.
    pub built: u64,
    /// Images that were found in files since then.
    pub loaded: u64,
    /// Images that were written into files straight from the indexes' tables since then, because they had no room in memory. They are counted in
    /// `loaded` too when they are first used.
    pub streamed: u64,
}

/// Memory of a graph that is being built, which is given back when this is dropped.
#[derive(Debug)]
pub(in super::super) struct Reserved<'i> {
    images: &'i Images,
    bytes: u64,
}

impl Reserved<'_> {
    /// Takes as much more as makes it so many bytes; false if there is no room for it beside the images and other builds.
    pub(in super::super) fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let there_is = self.take(more) || self.images.make_room(None, more) > 0 && self.take(more);
        if there_is {
            self.bytes += more;
        }
        there_is
    }

    fn take(&self, more: u64) -> bool {
        let Images { limit, reserved, .. } = self.images;
        let room = limit.load(Ordering::Relaxed).saturating_sub(self.images.bytes());
        let grown = |reserved: u64| reserved.checked_add(more).filter(|grown| more == 0 || *grown <= room);
        reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.images.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Images {
    /// Sets how many bytes the images may take together; those that there are are dropped if they take more.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        let mut slots = lock(&self.slots);
        if slots.bytes() > bytes {
            slots.by_table.clear();
        }
    }

    /// Memory for a graph that is being built: none until it [grows](Reserved::grow_to).
    pub(in super::super) fn reserve(&self) -> Reserved<'_> {
        // What is not used from here on may be dropped for it.
        self.make_room(None, 0);
        Reserved { images: self, bytes: 0 }
    }

    /// Bytes that the images take, without those that only searches under way still use.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.slots).bytes()
    }

    /// What the images take, and how many there are.
    pub(crate) fn memory(&self) -> VectorMemory {
        let (building_bytes, limit_bytes) =
            (self.reserved.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let slots = lock(&self.slots);
        let images = slots.by_table.values().filter(|known| known.slot.bytes() > 0).count() as u64;
        let without_image = slots.by_table.len() as u64 - images;
        let (built, loaded) = (self.built.load(Ordering::Relaxed), self.loaded.load(Ordering::Relaxed));
        let mapped = slots.by_table.values().map(|known| known.slot.mapped.load(Ordering::Relaxed));
        VectorMemory {
            bytes: slots.bytes(),
            mapped_bytes: mapped.sum(),
            building_bytes,
            limit_bytes,
            images,
            without_image,
            built,
            loaded,
            streamed: self.streamed.load(Ordering::Relaxed),
        }
    }

    /// Drops images that no search has used for [`IDLE`], but not that of `table`, the longest unused first, if that makes so much room;
    /// returns how many bytes they took. When an image was used is known only as of the last call, since a search just sets a flag.
    pub(super) fn make_room(&self, table: Option<u32>, wanted: u64) -> u64 {
        // They are given back after the lock.
        let (mut freed, mut dropped) = (0, Vec::new());
        let (mut slots, mut idle) = (lock(&self.slots), Vec::new());
        let now = Instant::now();
        for (other, known) in &mut slots.by_table {
            if known.slot.signs.take_used() {
                known.used = now;
            } else if Some(*other) != table && now.duration_since(known.used) >= IDLE {
                idle.push((known.used, *other, known.slot.bytes()));
            }
        }
        // Slots without an image stay: they record that the image did not fit.
        idle.retain(|(.., bytes)| *bytes > 0);
        if idle.iter().map(|(.., bytes)| bytes).sum::<u64>() < wanted {
            return 0;
        }
        idle.sort_unstable();
        for (_, table, bytes) in idle {
            if freed >= wanted {
                break;
            }
            freed += bytes;
            dropped.extend(slots.by_table.remove(&table));
        }
        drop(slots);
        freed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::slot::{Known, Slot};
    use super::*;

    #[test]
    fn builds_share_what_the_images_leave_and_give_it_back() {
        let images = Images::default();
        images.set_limit(1000);
        let (mut one, mut other) = (images.reserve(), images.reserve());
        assert!(one.grow_to(600) && !other.grow_to(500) && other.grow_to(400) && !one.grow_to(601));
        // What a build has it keeps, also beyond a limit that was lowered.
        images.set_limit(500);
        assert!(one.grow_to(600) && !one.grow_to(601) && !other.grow_to(401));
        images.set_limit(1000);
        drop(one);
        assert!(other.grow_to(1000) && !other.grow_to(1001));
        drop(other);
        assert_eq!(images.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_build_gets_the_room_of_an_image_that_no_search_has_used_since_it_began() {
        let images = Images::default();
        images.set_limit(1000);
        let slot = Slot::new();
        slot.bytes.store(900, Ordering::Relaxed);
        slot.signs.note_use();
        lock(&images.slots).by_table.insert(7, Known { slot: Arc::new(slot), used: Instant::now() });
        let mut build = images.reserve();
        assert!(build.grow_to(100) && !build.grow_to(500));
        std::thread::sleep(2 * IDLE);
        assert!(!build.grow_to(1001), "more than there is");
        assert_eq!(images.bytes(), 900);
        assert!(build.grow_to(500));
        assert_eq!(images.bytes(), 0);
    }
}
