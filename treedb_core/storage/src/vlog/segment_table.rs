//! Finds an open segment by its number without a lock: a read of a large value must not touch a shared counter.
//!
//! Two levels of pointers that are set when a segment is opened and cleared when it is removed. Numbers rise
//! forever and wrap around in the table; a segment whose place is taken gets the next free number.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use super::segment::Segment;

const LOW: u32 = 12;
const HIGH: u32 = 10;

type Slots = Box<[AtomicPtr<Segment>]>;

/// The open segments by number.
pub(super) struct SegmentTable {
    blocks: Box<[OnceLock<Slots>]>,
}

impl SegmentTable {
    pub(super) fn new() -> SegmentTable {
        SegmentTable { blocks: (0..1 << HIGH).map(|_| OnceLock::new()).collect() }
    }

    fn slot(&self, id: u32) -> Option<&AtomicPtr<Segment>> {
        let block = self.blocks.get((id >> LOW) as usize & ((1 << HIGH) - 1))?;
        block.get()?.get(id as usize & ((1 << LOW) - 1))
    }

    /// The segment `id`.
    pub(super) fn get(&self, id: u32) -> Option<&Segment> {
        let segment = self.slot(id)?.load(Ordering::Acquire);
        // SAFETY: a pointer in the table comes from `Arc::into_raw` in `insert` and owns one count, which `take`
        // gives back only when its caller vouches that nothing uses what `get` returned.
        unsafe { segment.as_ref() }.filter(|s| s.id == id)
    }

    /// Adds a segment; false if its place is taken by another.
    pub(super) fn insert(&self, segment: &Arc<Segment>) -> bool {
        let id = segment.id;
        if let Some(block) = self.blocks.get((id >> LOW) as usize & ((1 << HIGH) - 1)) {
            block.get_or_init(|| (0..1 << LOW).map(|_| AtomicPtr::default()).collect());
        }
        let Some(slot) = self.slot(id) else { return false };
        let raw = Arc::into_raw(segment.clone()).cast_mut();
        let null = std::ptr::null_mut();
        if slot.compare_exchange(null, raw, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return true;
        }
        // SAFETY: `raw` was made three lines above and is in no one's hands.
        drop(unsafe { Arc::from_raw(raw) });
        false
    }

    /// Takes a segment out of the table.
    ///
    /// # Safety
    /// No one uses a reference that `get` returned for this segment, or will use one, and no call of `get` for it
    /// is running.
    pub(super) unsafe fn take(&self, id: u32) -> Option<Arc<Segment>> {
        self.get(id)?;
        let raw = self.slot(id)?.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if raw.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Arc::into_raw` in `insert` and was taken out by the swap, so its count is
        // given back once.
        Some(unsafe { Arc::from_raw(raw) })
    }
}

impl Drop for SegmentTable {
    fn drop(&mut self) {
        for slot in self.blocks.iter().filter_map(|b| b.get()).flat_map(|slots| slots.iter()) {
            let raw = slot.load(Ordering::Acquire);
            if !raw.is_null() {
                // SAFETY: as in `take`; `&mut self` says that no reference from `get` is left.
                drop(unsafe { Arc::from_raw(raw) });
            }
        }
    }
}
