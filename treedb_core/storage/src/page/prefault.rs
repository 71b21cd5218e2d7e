//! Makes never-used pages present before they are stored to.
//!
//! The first store to a page of the map costs the writer a page fault, one or two microseconds: as much as many puts. So
//! the writer makes pages present in groups, and while a transaction takes many, the owner's thread is asked to do that
//! ahead of the writer, up to a limit. All of this is a hint: nothing else depends on it.

use super::view::View;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Pages made present at once.
const STEP: u32 = 64;
/// A transaction that has allocated this many pages is expected to allocate more.
const MANY: u32 = 16;
/// The least and the most pages that are made ready ahead of the writer: in between it is half of the file.
const AHEAD: std::ops::RangeInclusive<u32> = 128..=1024;

/// How far the file is ready.
#[derive(Debug)]
pub(super) struct Prefault {
    /// Never-used pages below this number have been made present.
    present: AtomicU32,
    /// Where the writer is.
    reached: AtomicU32,
    /// True while the owner's thread has been asked to make pages ready; `wanted` until it has seen the request.
    asked: AtomicBool,
    wanted: AtomicBool,
}

impl Prefault {
    /// Of a file of which pages below `used` have been used.
    pub(super) fn new(used: u32) -> Prefault {
        let (present, reached) = (AtomicU32::new(used), AtomicU32::new(used));
        Prefault { present, reached, asked: AtomicBool::new(false), wanted: AtomicBool::new(false) }
    }

    /// Pages that should be ready when the writer has reached page `reached`.
    fn ahead(reached: u32) -> u32 {
        (reached / 2).clamp(*AHEAD.start(), *AHEAD.end())
    }

    /// The writer took `page`, its transaction has taken `taken` in all.
    pub(super) fn took(&self, view: &View, page: u32, taken: u32) {
        self.reached.store(page, Ordering::Relaxed);
        let present = self.present.load(Ordering::Relaxed);
        if page >= present {
            let to = page.saturating_add(STEP);
            view.prefault(page, to);
            self.present.fetch_max(to, Ordering::Relaxed);
        } else if taken >= MANY
            && present - page < Self::ahead(page) / 2
            && !self.asked.load(Ordering::Relaxed)
            && view.cache.is_none()
        {
            self.asked.store(true, Ordering::Relaxed);
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// True, once, if pages should be made ready.
    #[inline]
    pub(super) fn wants(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Makes the pages ahead of the writer present.
    pub(super) fn make_ready(&self, view: &View) {
        let reached = self.reached.load(Ordering::Relaxed);
        let target = reached.saturating_add(Self::ahead(reached)).min(view.capacity());
        // If the disk is full, the writer gets the error when it needs the pages.
        let room = if view.grow_early(target).is_ok() { target } else { view.pages() };
        loop {
            // The writer may have overtaken this thread.
            let from = self.present.load(Ordering::Relaxed).max(self.reached.load(Ordering::Relaxed));
            if from >= room {
                break;
            }
            let to = from.saturating_add(STEP).min(room);
            view.prefault(from, to);
            self.present.fetch_max(to, Ordering::Relaxed);
        }
        self.asked.store(false, Ordering::Relaxed);
    }

    /// The file is cut down to `pages`.
    pub(super) fn cut(&self, pages: u32) {
        self.present.fetch_min(pages, Ordering::Relaxed);
    }
}
