//! Stores into a mapped segment: hands relaxed frames to the operating system without a system call (37 ns
//! instead of 1.9 us).

use crate::disk::Map;
use crate::{Error, Result};

/// Copies `parts`, one after the other, to `at` in the mapping. The caller is the only writer of these bytes: the
/// appender, under the log's lock, at its own position.
pub(super) fn store(map: &dyn Map, at: u64, parts: [&[u8]; 2]) -> Result<()> {
    let len = parts.iter().map(|p| p.len() as u64).sum::<u64>();
    if at.checked_add(len).is_none_or(|end| end > map.len() as u64) {
        return Err(Error::Invalid(format!(
            "a store of {len} bytes at {at} is outside a mapping of {} bytes",
            map.len()
        )));
    }
    let mut to = at as usize;
    for part in parts {
        // SAFETY: the range is inside the mapping (checked above), and its blocks exist since the segment was
        // created; there are no references to mapped bytes, so no slice aliases them.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), map.as_ptr().add(to), part.len()) };
        to += part.len();
    }
    Ok(())
}
