//! Reading ahead of the sums, and in place.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks the processor to bring the cache lines of these elements nearer.
#[inline]
pub fn prefetch<T>(elements: &[T]) {
    let first: *const u8 = elements.as_ptr().cast();
    for at in (0..size_of_val(elements)).step_by(LINE) {
        prefetch_line(first.wrapping_add(at));
    }
}

/// Asks the processor to bring the cache line of an address nearer, which may be any.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that the program could see, whatever the address is.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Asks the processor to bring the cache line of an address nearer, which may be any.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
pub fn prefetch_line(at: *const u8) {
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// Nothing, where there is no such instruction.
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
#[inline(always)]
pub fn prefetch_line(_at: *const u8) {}

/// The floats that bytes are, 4 each, the lowest first, where they can be read in their place; `None` where they have to be
/// copied.
#[inline]
pub fn floats(bytes: &[u8]) -> Option<&[f32]> {
    if cfg!(target_endian = "big") {
        return None;
    }
    // SAFETY: any four bytes are a float; this processor stores the lowest byte first.
    let (before, floats, after) = unsafe { bytes.align_to() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}
