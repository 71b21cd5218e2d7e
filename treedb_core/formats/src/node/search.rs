//! The search among heads: branch-free, so that a random key costs no mispredicted branch.

/// Heads that the last part of a search is about.
const WINDOW: usize = 16;

/// The first place in the sorted `heads` that is not below `head`.
///
/// Windows are searched by their last heads, with the standard library's search, which takes no branch on what it
/// compares: written here, with indices that are checked or slices cut in two, the compiler makes branches of it, which
/// a random key mispredicts every other time. The last window reaches back into the one before, so that there always
/// are as many heads in it.
#[inline(always)]
pub fn lower_bound(heads: &[[u8; 8]], head: u64) -> usize {
    let below = |word: &[u8; 8]| u64::from_le_bytes(*word) < head;
    let windows = heads.as_chunks::<WINDOW>().0;
    let passed = WINDOW * windows.partition_point(|window| below(&window[WINDOW - 1]));
    let from = passed.min(heads.len().saturating_sub(WINDOW));
    match heads.get(from..).and_then(|heads| heads.first_chunk()) {
        Some(window) => from + within(window, head),
        None => heads.partition_point(below),
    }
}

/// As [`lower_bound`] in one window. The three looks at quarters do not wait for each other, nor do those within a
/// quarter.
#[inline(always)]
fn within(window: &[[u8; 8]; WINDOW], head: u64) -> usize {
    let below = |word: &[u8; 8]| usize::from(u64::from_le_bytes(*word) < head);
    let (quarters, _) = window.as_chunks::<4>();
    let quarter = below(&window[3]) + below(&window[7]) + below(&window[11]);
    let [a, b, c, _] = &quarters[quarter % 4];
    // The last head of the last quarter is below only if all are.
    4 * quarter + below(a) + below(b) + below(c) + below(&window[WINDOW - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_bound_agrees_with_a_plain_search() {
        for len in 0..200 {
            let heads: Vec<[u8; 8]> = (0..len).map(|i: u64| (i / 2 * 3 + 1).to_le_bytes()).collect();
            for head in (0..310).chain([u64::MAX]) {
                let plain = heads.partition_point(|word| u64::from_le_bytes(*word) < head);
                assert_eq!(lower_bound(&heads, head), plain, "{head} in {len}");
            }
        }
    }
}
