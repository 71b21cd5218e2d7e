//! The search loop over heads: branch-free, so that a random key costs no mispredicted branch.

use std::hint::select_unpredictable;

/// From this many heads down all are counted: that has no step that waits for the one before.
const COUNTED: usize = 16;

/// The first place in the sorted `heads` that is not below `head`.
///
/// The part that is left is a slice, not a place and a length: an index that the compiler must check becomes a
/// branch, which a random key mispredicts every other time, and the search takes four times as long.
#[inline(always)]
pub(crate) fn lower_bound(heads: &[[u8; 8]], head: u64) -> usize {
    let below = |word: &[u8; 8]| u64::from_le_bytes(*word) < head;
    let mut part = heads;
    while part.len() > COUNTED {
        let half = part.len() / 2;
        let (left, right) = part.split_at(half);
        // Both choices have the same length, so that the number of turns depends on the node alone.
        let kept = &part[..part.len() - half];
        part = select_unpredictable(left.last().is_some_and(below), right, kept);
    }
    let before = (part.as_ptr() as usize - heads.as_ptr() as usize) / size_of::<[u8; 8]>();
    before + part.iter().map(|word| usize::from(below(word))).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_that_of_a_plain_search() {
        for len in 0..200 {
            let heads: Vec<[u8; 8]> = (0..len).map(|i: u64| (i / 2 * 3 + 1).to_le_bytes()).collect();
            for head in (0..310).chain([u64::MAX]) {
                let plain = heads.partition_point(|word| u64::from_le_bytes(*word) < head);
                assert_eq!(lower_bound(&heads, head), plain, "{head} in {len}");
            }
        }
    }
}
