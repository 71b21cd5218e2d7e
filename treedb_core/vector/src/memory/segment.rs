//! Segments of records, in memory of their own or in a mapped file.
//!
//! This is the `unsafe` of records. A search reads a record by the address that its segment has, whatever memory it is in: to ask which it is
//! would be paid for by every record of every search. Elements are numbers, so that any bytes are some.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::mapped::Section;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// What records consist of.
///
/// # Safety
/// Any bytes are a number, and in a file they are as in memory where the lowest byte is first.
pub unsafe trait Number: Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// Adds the bytes of numbers to `out`, the lowest first.
    fn write(numbers: &[Self], out: &mut Vec<u8>);
    /// Sets numbers to those of as many bytes.
    fn read(bytes: &[u8], numbers: &mut [Self]);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        // SAFETY: whole numbers and floats have no bytes that are none, and are stored as `to_le_bytes` gives them where the lowest byte is first.
        unsafe impl Number for $number {
            fn write(numbers: &[$number], out: &mut Vec<u8>) {
                numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }

            fn read(bytes: &[u8], numbers: &mut [$number]) {
                let all = bytes.as_chunks::<{ size_of::<$number>() }>().0;
                numbers.iter_mut().zip(all).for_each(|(to, from)| *to = <$number>::from_le_bytes(*from));
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, f32);

/// Records, one after another.
#[derive(Debug)]
pub(super) struct Segment<T> {
    /// The first record, in `memory`.
    start: NonNull<T>,
    /// Elements from there on that may be read: none of a file before they were checked.
    ready: AtomicUsize,
    memory: Memory<T>,
}

/// Whose memory it is.
#[derive(Debug)]
enum Memory<T> {
    /// That of this segment and of those that were cloned.
    Own(Arc<[T]>),
    /// That of a file.
    Mapped(Arc<Section<T>>),
}

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        match self {
            Memory::Own(elements) => Memory::Own(Arc::clone(elements)),
            Memory::Mapped(section) => Memory::Mapped(Arc::clone(section)),
        }
    }
}

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Self {
        let ready = AtomicUsize::new(self.ready.load(Ordering::Relaxed));
        Segment { start: self.start, ready, memory: self.memory.clone() }
    }
}

// SAFETY: a segment shares elements that nobody writes while it does, like the `Arc<[T]>` or the mapped file that it keeps.
unsafe impl<T: Send + Sync> Send for Segment<T> {}
// SAFETY: as above; through a shared segment, elements are only read.
unsafe impl<T: Send + Sync> Sync for Segment<T> {}

/// Elements that there are more than records have, so that the first can begin at a line.
pub(super) const fn room<T>(in_lines: bool) -> usize {
    let size = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    if in_lines { LINE / size } else { 0 }
}

impl<T: Number> Segment<T> {
    /// One of `all` elements.
    pub(super) fn new(all: usize, in_lines: bool) -> Segment<T> {
        // From an iterator that knows its length, they are written once, where they stay.
        Self::of(std::iter::repeat_n(T::default(), all + room::<T>(in_lines)).collect(), all, in_lines)
    }

    /// One of `all` of these elements, which nobody else has yet.
    fn of(mut elements: Arc<[T]>, all: usize, in_lines: bool) -> Segment<T> {
        let part = Arc::get_mut(&mut elements).map(|elements| records_of(elements, all, in_lines));
        let (start, ready) =
            part.map_or((NonNull::dangling(), 0), |part| (NonNull::from(&mut *part).cast(), part.len()));
        Segment { start, ready: AtomicUsize::new(ready), memory: Memory::Own(elements) }
    }

    /// A segment of a file; `None` if the file has no such bytes, or they cannot be used where they are.
    pub(super) fn mapped(section: &Arc<Section<T>>, number: usize) -> Option<Segment<T>> {
        let start = NonNull::new(section.unchecked(number)?.as_ptr().cast_mut().cast::<T>())?;
        let memory = Memory::Mapped(Arc::clone(section));
        start.is_aligned().then_some(Segment { start, ready: AtomicUsize::new(0), memory })
    }

    /// `len` elements from one on; `None` if there are no such, or none that were checked.
    #[inline]
    pub(super) fn get(&self, at: usize, len: usize) -> Option<&[T]> {
        // Nothing is published by this number: elements of a shared segment were there before it was shared, and those of a file always.
        if at.checked_add(len)? > self.ready.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: `start` points to at least `ready` elements (`of`, `own`, `checked`) of `memory`, which this segment keeps. Nobody writes to them
        // while a segment is borrowed: those of its own are written through `own` alone, by the only segment that has them and that is borrowed
        // as mutable then; those of a file never, as `MappedBytes` promises.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) })
    }

    /// All elements of this segment, the so manieth, which are checked if they were not; nothing if they are damaged.
    pub(super) fn checked(&self, number: usize) -> &[T] {
        if let Memory::Mapped(section) = &self.memory
            && self.ready.load(Ordering::Relaxed) == 0
            && let Some(bytes) = section.unchecked(number)
            && bytes.as_ptr() == self.start.as_ptr().cast_const().cast()
        {
            let all = bytes.len() / size_of::<T>();
            // SAFETY: `start` is the aligned address of these bytes (checked above, and when the segment was made), of which any are numbers.
            let elements = unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast_const(), all) };
            if section.is_sound(number, elements) {
                self.ready.store(all, Ordering::Relaxed);
            }
        }
        self.get(0, self.ready.load(Ordering::Relaxed)).unwrap_or(&[])
    }

    /// The elements for writing, of this segment alone: those of a file are copied, and nothing if they are damaged.
    pub(super) fn own(&mut self, number: usize, in_lines: bool) -> &mut [T] {
        // Nobody else can begin to share it meanwhile: to ask by `Arc::get_mut` would be a locked instruction for each record.
        if !matches!(&self.memory, Memory::Own(elements) if Arc::strong_count(elements) == 1) {
            let elements = self.checked(number);
            let (all, room) = (elements.len(), room::<T>(in_lines));
            let mut memory: Arc<[T]> = match room {
                0 => Arc::from(elements),
                _ => elements.iter().copied().chain(std::iter::repeat_n(T::default(), room)).collect(),
            };
            // Where the first record begins in new memory is known only then.
            if let Some(memory) = Arc::get_mut(&mut memory).filter(|_| room > 0) {
                let from = memory.as_ptr().align_offset(LINE).min(room);
                memory.copy_within(..all, from);
            }
            *self = Self::of(memory, all, in_lines);
        }
        let all = *self.ready.get_mut();
        let Memory::Own(elements) = &mut self.memory else { return &mut [] };
        // What the last one that shared it has read was read before.
        fence(Ordering::Acquire);
        // SAFETY: this segment alone has the elements (the count was 1 above, or they are new; there are no weak references to them, and `self` is
        // borrowed as mutable), so nobody reads or writes them while they are borrowed here.
        let elements = unsafe { &mut *Arc::as_ptr(elements).cast_mut() };
        let records = records_of(elements, all, in_lines);
        let len = records.len();
        self.start = NonNull::from(records).cast();
        // SAFETY: the elements that `start` was made of just now, borrowed from `self`. They are given through `start`, so that it stays the address
        // that they were written through.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), len) }
    }

    /// Whether its memory is that of a file.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.memory, Memory::Mapped(_))
    }

    /// Whether it shares memory of its own with another one.
    pub(super) fn shares(&self, other: &Segment<T>) -> bool {
        matches!((&self.memory, &other.memory), (Memory::Own(own), Memory::Own(other)) if Arc::ptr_eq(own, other))
    }

    /// Whether it is where another one is. As long as both are, neither changes, so that they have the same elements.
    pub(super) fn is_where(&self, other: &Segment<T>) -> bool {
        self.start == other.start
    }

    /// Whether only this segment has its memory.
    #[cfg(test)]
    pub(super) fn is_alone(&self) -> bool {
        matches!(&self.memory, Memory::Own(elements) if Arc::strong_count(elements) == 1)
    }
}

/// The `all` elements that are records among those that there is memory for.
fn records_of<T>(elements: &mut [T], all: usize, in_lines: bool) -> &mut [T] {
    let from = elements.as_ptr().align_offset(LINE).min(room::<T>(in_lines));
    elements.get_mut(from..from.saturating_add(all)).unwrap_or(&mut [])
}
