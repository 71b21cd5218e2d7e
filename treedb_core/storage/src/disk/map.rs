//! Memory mappings: of a file, and of nothing (the memory of a simulated file).
//!
//! This is the disk layer's `unsafe`. A [`Mapping`] owns its address range from `mmap` to `munmap` and gives out
//! only its address; whoever makes slices of it (the page file, the value log) states why they are valid.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::Map;

/// Bytes of a page of the system, which is what it maps, reads and takes back: 4,096 on x86-64, also 16,384 or 65,536 on 64-bit ARM.
#[cfg(not(miri))]
pub(crate) fn unit() -> usize {
    #[cfg(test)]
    if let Some(unit) = test_unit::get() {
        return unit;
    }
    rustix::param::page_size()
}

#[cfg(miri)]
pub(crate) fn unit() -> usize {
    4096
}

/// Greater pages for the mappings that a test makes on its thread, as multiples of them are pages of other systems.
#[cfg(all(test, not(miri)))]
pub(crate) mod test_unit {
    use std::cell::Cell;

    std::thread_local! {
        static UNIT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    pub(super) fn get() -> Option<usize> {
        UNIT.get()
    }

    /// Calls `test` with pages of `unit` bytes.
    pub(crate) fn with<R>(unit: usize, test: impl FnOnce() -> R) -> R {
        UNIT.set(Some(unit.max(rustix::param::page_size())));
        let result = test();
        UNIT.set(None);
        result
    }
}

/// An address range got from the system, given back on drop.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// See [`unit`].
    unit: usize,
}

// SAFETY: a `Mapping` is an address and a length; the range stays mapped wherever the value is moved to.
unsafe impl Send for Mapping {}
// SAFETY: no method reads or writes the mapped bytes, so sharing the value cannot race.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file`, shared, readable and writable. Zero maps one byte's page.
    pub(super) fn of_file(file: impl AsFd, len: usize) -> io::Result<Mapping> {
        Self::shared(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same to be read only: the system ends a process that stores into it.
    pub(super) fn of_file_to_read(file: impl AsFd, len: usize) -> io::Result<Mapping> {
        Self::shared(file, len, ProtFlags::READ)
    }

    fn shared(file: impl AsFd, len: usize, protection: ProtFlags) -> io::Result<Mapping> {
        let len = len.max(1);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a null hint lets the system choose an unused range, so no memory of ours is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, file, 0) }?;
        Self::owning(base, len)
    }

    /// Miri has no `mmap` of this kind: there the bytes are the allocator's.
    #[cfg(miri)]
    pub(super) fn anonymous(len: usize) -> io::Result<Mapping> {
        let layout = layout(len.max(1))?;
        // SAFETY: the length is above zero.
        Self::owning(unsafe { std::alloc::alloc_zeroed(layout) }.cast(), len.max(1))
    }

    /// Maps `len` bytes of zeroes that no file backs; memory is taken as pages are first touched.
    #[cfg(not(miri))]
    pub(super) fn anonymous(len: usize) -> io::Result<Mapping> {
        let len = len.max(1);
        // SAFETY: a null hint lets the system choose an unused range, so no memory of ours is replaced.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Self::owning(base, len)
    }

    fn owning(base: *mut core::ffi::c_void, len: usize) -> io::Result<Mapping> {
        let base =
            NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Mapping { base, len, unit: unit() })
    }

    /// Asks the system not to back the range by huge pages: what is touched is what is taken.
    pub(super) fn in_small_pieces(&self) {
        // SAFETY: the range is exactly the mapping; the advice changes no byte of it.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxNoHugepage) };
    }

    /// Copies `out.len()` bytes from `offset`; false, and nothing copied, if they are not all inside.
    pub(super) fn copy_out(&self, offset: usize, out: &mut [u8]) -> bool {
        if offset.checked_add(out.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        // SAFETY: the source range is inside the mapping (checked above), the destination is an exclusive slice
        // of ours, and the two cannot overlap. Only anonymous mappings, whose every byte may be touched, are
        // read this way.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), out.as_mut_ptr(), out.len()) };
        true
    }

    /// Copies `bytes` to `offset`; false, and nothing copied, if they do not fit.
    pub(super) fn copy_in(&self, offset: usize, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        // SAFETY: the destination range is inside the mapping (checked above); a shared slice of ours cannot
        // overlap memory that only raw pointers reach. Only anonymous mappings are written this way.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(offset), bytes.len()) };
        true
    }

    /// Calls `differs(offset, bytes)` for each run of `unit` bytes in the first `known.len()` that is not equal
    /// to `known`, in order.
    pub(super) fn compare(&self, known: &[u8], unit: usize, mut differs: impl FnMut(usize, &[u8])) {
        const STRIDE: usize = 64 * 1024;
        let len = known.len().min(self.len);
        for start in (0..len).step_by(STRIDE) {
            let stride = STRIDE.min(len - start);
            // SAFETY: the range is inside the mapping. The simulated disk calls this between operations of the
            // thread that stores through the map; a store that races is seen or not, as on a real disk.
            let bytes = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), stride) };
            if bytes == &known[start..start + stride] {
                continue;
            }
            for (i, (new, old)) in
                bytes.chunks(unit).zip(known[start..start + stride].chunks(unit)).enumerate()
            {
                if new != old {
                    differs(start + i * unit, new);
                }
            }
        }
    }
}

#[cfg(miri)]
fn layout(len: usize) -> io::Result<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(len, unit()).map_err(io::Error::other)
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        if let Ok(layout) = layout(self.len) {
            // SAFETY: under Miri every mapping is an anonymous one, allocated with this layout.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        }
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `mmap` returned, unmapped once; slices made of it borrow the mapping
        // or hold a handle to it, so none is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Map for Mapping {
    fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn prefault(&self, from: usize, to: usize) {
        let from = from / self.unit * self.unit;
        let to = to.min(self.len);
        if from < to {
            // SAFETY: the range is inside the mapping; populating pages changes no byte of them.
            let _ = unsafe {
                madvise(self.base.as_ptr().add(from).cast(), to - from, Advice::LinuxPopulateWrite)
            };
        }
    }

    fn read_ahead(&self, on: bool) {
        let advice = if on { Advice::Normal } else { Advice::Random };
        // SAFETY: the range is exactly the mapping; the advice changes no byte of it.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) };
    }

    fn will_need(&self, from: usize, to: usize) {
        let from = from / self.unit * self.unit;
        let to = to.min(self.len);
        if from < to {
            // SAFETY: the range is inside the mapping; the advice changes no byte of it.
            let _ = unsafe { madvise(self.base.as_ptr().add(from).cast(), to - from, Advice::WillNeed) };
        }
    }

    fn discard(&self, from: usize, to: usize) {
        // Rounded here: the system takes the end of a range for the end of its page, and what lies behind it may be in use.
        let from = from.next_multiple_of(self.unit);
        let to = to.min(self.len) / self.unit * self.unit;
        if from < to {
            // SAFETY: the range is inside the mapping, and by this method's contract nothing reads it.
            let _ = unsafe { madvise(self.base.as_ptr().add(from).cast(), to - from, Advice::LinuxDontNeed) };
        }
    }
}

/// A handle to the memory of a simulated file; there is nothing to gain from touching it early.
impl Map for std::sync::Arc<Mapping> {
    fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }
}
