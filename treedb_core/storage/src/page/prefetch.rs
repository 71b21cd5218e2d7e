//! Prefetching memory. A page that is not in the processor's cache costs a wait for each line that a search reads; if the
//! lines are prefetched together, it costs one.

use super::PAGE_SIZE;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
/// Lines of a page.
pub(crate) const PAGE_LINES: usize = PAGE_SIZE / LINE;

/// Lines of a leaf that a search reads: the header, the heads and the slots of entries of 100 bytes. Only leaves
/// are asked for: branches are seen often enough to be in the cache.
pub(crate) const LEAF_LINES: usize = 8;

/// Lines of a leaf of rows that come before those of a row of 100 bytes: the header and the slots.
pub(crate) const ROW_LINES: usize = 2;

/// Lines of a page that will be read in whole after the one before it: where it begins is what must be there in time.
/// All of its lines at once would be in the way of what is read now.
pub(crate) const NEXT_LINES: usize = 16;

/// Prefetches `lines` cache lines from `start` on, which may be any address. Does nothing on other processors than
/// x86-64 and 64-bit ARM.
#[inline(always)]
pub(crate) fn prefetch_from(start: *const u8, lines: usize) {
    for line in 0..lines {
        prefetch_line(start.wrapping_add(line * LINE));
    }
}

/// Prefetches `len` bytes that are read from the first to the last, from `start` on, which may be any address. Of many, it is for the
/// processor to see that those after the first lines are wanted too.
#[inline]
pub(crate) fn prefetch_bytes(start: *const u8, len: usize) {
    prefetch_from(start, len.div_ceil(LINE).min(PAGE_LINES));
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is part of every x86-64 processor, takes any address and changes nothing but what
    // is cached.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn prefetch_line(at: *const u8) {
    // SAFETY: as above, of every 64-bit ARM processor.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
#[inline(always)]
fn prefetch_line(_at: *const u8) {}
