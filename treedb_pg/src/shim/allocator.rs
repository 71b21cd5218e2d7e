//! The allocator of our own memory: the C library's, before which small blocks that were freed are kept for those who ask
//! next.
//!
//! The shortest statement allocates some twenty small blocks and frees them when it ends. The C library takes 130
//! instructions for each, which is a twentieth of such a statement; a block that is kept takes 30.
//!
//! Invariants: a block of up to [`MOST`] bytes has been allocated with its size rounded up to a multiple of [`STEP`], so that
//! the size that it is freed with tells to which list it belongs. Blocks are kept for the server's thread, and only by it: other
//! threads take blocks from the C library and give them back to it. No more than [`KEPT`] blocks of a size are kept.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sizes are multiples of this. Every block of the C library is aligned to it.
const STEP: usize = 16;
/// Larger blocks come from the C library, and go back to it.
const MOST: usize = 256;
const SIZES: usize = MOST / STEP;
/// Most blocks of a size that are kept.
const KEPT: usize = 32;

/// A block that is kept.
struct Free {
    next: *mut Free,
}

/// Blocks of one size that are kept.
struct List {
    first: *mut Free,
    len: usize,
}

struct Allocator;

/// The blocks that are kept for the server's thread.
struct Lists(UnsafeCell<[List; SIZES]>);

// SAFETY: only used where `on_home_thread` has said so, that is by one thread.
unsafe impl Sync for Lists {}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

static LISTS: Lists = Lists(UnsafeCell::new([const { List { first: ptr::null_mut(), len: 0 } }; SIZES]));

/// The server's thread, as [`this_thread`] says; 0 as long as it is not known: then nothing is kept.
static HOME: AtomicUsize = AtomicUsize::new(0);

/// From now on blocks are kept for this thread, which must be the server's and call this once. It ends with the process.
pub(crate) fn keep_blocks() {
    HOME.store(this_thread(), Ordering::Relaxed);
}

/// A number that no other thread has at the same time: where its own variables are. 0 if it is not known how to get it.
#[inline(always)]
fn this_thread() -> usize {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    // SAFETY: the register points to a structure of the thread that begins with its own address, by the platform's ABI.
    unsafe {
        let place: usize;
        std::arch::asm!("mov {}, fs:0", out(reg) place, options(nostack, readonly, preserves_flags));
        place
    }
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    // SAFETY: reading the register has no effect; it differs between threads by the platform's ABI.
    unsafe {
        let place: usize;
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) place, options(nostack, nomem, preserves_flags));
        place
    }
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    0
}

/// The blocks that are kept, if this is the thread that they are kept for.
///
/// # Safety
/// The list is not used any more when this is called again.
#[inline(always)]
unsafe fn lists<'l>() -> Option<&'l mut [List; SIZES]> {
    let home = HOME.load(Ordering::Relaxed);
    // SAFETY: no other thread gets here, and the caller's.
    (home != 0 && home == this_thread()).then(|| unsafe { &mut *LISTS.0.get() })
}

/// Which list has blocks for `size` bytes, of which there is at least one; none for large blocks.
#[inline(always)]
fn list_of(size: usize) -> Option<usize> {
    (size <= MOST).then_some(size.wrapping_sub(1) / STEP)
}

/// What is asked of the C library for `size` bytes.
#[inline(always)]
fn rounded(size: usize) -> Layout {
    let size = if size <= MOST { size.next_multiple_of(STEP) } else { size };
    // SAFETY: a power of two, and a size that had a layout before it was rounded up, or is small.
    unsafe { Layout::from_size_align_unchecked(size, STEP) }
}

/// A block of `size` bytes.
///
/// # Safety
/// The size is not 0.
#[inline(never)]
unsafe fn take(size: usize) -> *mut u8 {
    // SAFETY: the list is used here only. A block in it is one of ours that nobody uses.
    unsafe {
        if let Some(list) = list_of(size).and_then(|at| lists()?.get_mut(at))
            && !list.first.is_null()
        {
            let block = list.first;
            list.first = (*block).next;
            list.len -= 1;
            return block.cast();
        }
        System.alloc(rounded(size))
    }
}

/// Gives a block back.
///
/// # Safety
/// A block of [`take`] of that size, which nobody uses any more.
#[inline(never)]
unsafe fn give(block: *mut u8, size: usize) {
    // SAFETY: the list is used here only. The block is as large as those in it, and has room for the pointer.
    unsafe {
        if let Some(list) = list_of(size).and_then(|at| lists()?.get_mut(at))
            && list.len < KEPT
        {
            let block = block.cast::<Free>();
            block.write(Free { next: list.first });
            list.first = block;
            list.len += 1;
            return;
        }
        System.dealloc(block, rounded(size));
    }
}

/// Makes a block another size.
///
/// # Safety
/// As [`give`]; the new size is not 0.
#[inline(never)]
unsafe fn resize(block: *mut u8, size: usize, new_size: usize) -> *mut u8 {
    // SAFETY: both blocks have as many bytes as are copied.
    unsafe {
        match (list_of(size), list_of(new_size)) {
            (Some(list), Some(new_list)) if list == new_list => block,
            (Some(_), Some(_)) => {
                let new_block = take(new_size);
                if !new_block.is_null() {
                    ptr::copy_nonoverlapping(block, new_block, size.min(new_size));
                    give(block, size);
                }
                new_block
            }
            // The C library knows how large the block is.
            _ => System.realloc(block, rounded(size), rounded(new_size).size()),
        }
    }
}

// SAFETY: blocks are the C library's, or ones of it that have been given back and are not smaller than what is asked for.
// None of this panics or calls anything of the server's.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { if layout.align() > STEP { System.alloc(layout) } else { take(layout.size()) } }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's; what is aligned to more was allocated by the system.
        unsafe {
            if layout.align() > STEP {
                System.dealloc(block, layout);
            } else {
                give(block, layout.size());
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's. The C library need not fill large blocks.
        unsafe {
            if layout.align() > STEP || layout.size() > MOST {
                return System.alloc_zeroed(layout);
            }
            let block = take(layout.size());
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if layout.align() > STEP {
                System.realloc(block, layout, new_size)
            } else {
                resize(block, layout.size(), new_size)
            }
        }
    }
}
