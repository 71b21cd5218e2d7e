//! [`Counting`]: the system's allocator, with counters for tests of what allocates how much.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// To be the `#[global_allocator]` of a test's program.
#[derive(Debug)]
pub struct Counting;

impl Counting {
    /// How often this thread has allocated.
    pub fn allocations() -> u64 {
        ALLOCATIONS.get()
    }

    /// The most bytes that were in use at any time of `work`, by all threads, beyond those before it.
    pub fn peak(work: impl FnOnce()) -> usize {
        let before = IN_USE.load(Ordering::SeqCst);
        MOST.store(before, Ordering::SeqCst);
        work();
        MOST.load(Ordering::SeqCst).saturating_sub(before)
    }

    fn took(bytes: usize) {
        // While a thread exits, its counter may already be dropped.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        MOST.fetch_max(now, Ordering::Relaxed);
    }
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::took(layout.size());
        // SAFETY: the caller upholds the requirements of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::took(size);
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.realloc(place, layout, size) }
    }
}
