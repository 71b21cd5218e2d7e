//! The search loop over heads: branch-free, so that a random key costs no mispredicted branch.

use std::hint::select_unpredictable;

/// The first place in the sorted `heads` that is not below `head`.
#[inline(always)]
pub(crate) fn lower_bound(heads: &[[u8; 8]], head: u64) -> usize {
    let mut base = 0;
    let mut len = heads.len();
    while len > 1 {
        let half = len / 2;
        // `base + half - 1 < heads.len()` always; the default can only be met if that were false.
        let probe = heads.get(base + half - 1).map_or(u64::MAX, |word| u64::from_le_bytes(*word));
        base = select_unpredictable(probe < head, base + half, base);
        len -= half;
    }
    let last = heads.get(base).map_or(u64::MAX, |word| u64::from_le_bytes(*word));
    base + usize::from(last < head)
}
