//! Slices of a mapped segment.

use crate::disk::Map;
use crate::page::prefetch_bytes;

/// A segment's mapping, as long as the segment's capacity; the file may be shorter.
pub(super) struct View {
    map: Box<dyn Map>,
}

impl View {
    pub(super) fn new(map: Box<dyn Map>) -> View {
        View { map }
    }

    /// See [`Map::read_ahead`].
    pub(super) fn read_ahead(&self, on: bool) {
        self.map.read_ahead(on);
    }

    /// See [`Map::will_need`].
    pub(super) fn will_need(&self, at: usize, len: usize) {
        self.map.will_need(at, at.saturating_add(len));
    }

    /// Asks the processor for the bytes `at..at + len`, which may be any.
    #[inline]
    pub(super) fn prefetch(&self, at: usize, len: usize) {
        prefetch_bytes(self.map.as_ptr().wrapping_add(at), len);
    }

    /// The bytes `at..at + len`; `None` if they are outside the mapping. The caller has seen the end of
    /// what is written after them.
    pub(super) fn written(&self, at: usize, len: usize) -> Option<&[u8]> {
        if at.checked_add(len)? > self.map.len() {
            return None;
        }
        // SAFETY: the range lies inside the mapping (checked above), which lives as long as `self`, and inside the
        // file, which is never shortened below the segment's end while the segment is open. Bytes that have been
        // written are never written again: the appender writes after them only, and moves their end when it is done.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), len) })
    }
}
