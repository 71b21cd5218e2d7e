//! Asking for memory before it is needed. A page that is not in the cache costs a wait for each line that a search
//! comes upon; asked for together they cost one.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Lines of a leaf that a search comes upon: the header, the heads and the slots of entries of 100 bytes. Only leaves
/// are asked for: branches are seen often enough to be in the cache.
pub(crate) const LEAF_LINES: usize = 8;

/// Asks for the first `lines` cache lines of `page`. Nothing happens on machines it is not known how to ask.
#[inline(always)]
pub(crate) fn prefetch_lines(page: &[u8], lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in page.chunks(LINE).take(lines) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64 processor, takes any address and changes nothing but what
        // is cached; this address is within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (page, lines);
}
