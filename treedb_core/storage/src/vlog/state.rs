//! What a checkpoint remembers of the value log.

use crate::{Error, Result};

/// One segment at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentState {
    /// Its number.
    pub id: u32,
    /// Offset after its last record, in bytes.
    pub end: u64,
    /// Bytes of values (and their headers) that have not been released.
    pub live: u64,
}

/// The value log at a checkpoint: the segments with live values, and the one being appended to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ValueLogState {
    /// Number of the segment that the next value goes to; 0 if there is none yet.
    pub active: u32,
    /// Segments in order of their numbers.
    pub segments: Vec<SegmentState>,
}

const VERSION: u32 = 1;
const PREFIX: usize = 12;
const ENTRY: usize = 20;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

impl ValueLogState {
    /// The state's bytes: 12 and 20 for each segment.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PREFIX + ENTRY * self.segments.len());
        for word in [VERSION, self.active, self.segments.len() as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for s in &self.segments {
            bytes.extend_from_slice(&s.id.to_le_bytes());
            bytes.extend_from_slice(&s.end.to_le_bytes());
            bytes.extend_from_slice(&s.live.to_le_bytes());
        }
        bytes
    }

    /// Reads the state back.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not a state, naming what is wrong.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ValueLogState> {
        let wrong = |what: &str| Error::Invalid(format!("the value log's saved state {what}"));
        let (Some(version), Some(active), Some(count)) = (word(bytes, 0), word(bytes, 4), word(bytes, 8))
        else {
            return Err(wrong("is cut short"));
        };
        if version != VERSION {
            return Err(wrong(&format!("has version {version}, expected {VERSION}")));
        }
        let body = bytes.get(PREFIX..).unwrap_or_default();
        if body.len() as u64 != u64::from(count) * ENTRY as u64 {
            return Err(wrong(&format!("has {} bytes for {count} segments", body.len())));
        }
        let mut segments = Vec::with_capacity(count as usize);
        for entry in body.chunks_exact(ENTRY) {
            if let (Some(id), Some(end), Some(live)) = (word(entry, 0), long(entry, 4), long(entry, 12)) {
                segments.push(SegmentState { id, end, live });
            }
        }
        if !segments.is_sorted_by(|a, b| a.id < b.id) || segments.first().is_some_and(|s| s.id == 0) {
            return Err(wrong("names its segments out of order"));
        }
        Ok(ValueLogState { active, segments })
    }

    /// True if the state names this segment.
    pub(crate) fn names(&self, id: u32) -> bool {
        self.segments.binary_search_by_key(&id, |s| s.id).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_bytes_and_damaged_bytes_are_refused_or_harmless() {
        let segments = (1..5).map(|id| SegmentState { id, end: 512 + u64::from(id), live: 7 }).collect();
        let state = ValueLogState { active: 4, segments };
        let bytes = state.encode();
        assert_eq!(ValueLogState::decode(&bytes).unwrap(), state);
        for len in 0..bytes.len() {
            assert!(ValueLogState::decode(&bytes[..len]).is_err());
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            let _ = ValueLogState::decode(&bad);
        }
    }
}
