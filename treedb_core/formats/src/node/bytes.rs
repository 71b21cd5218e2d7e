//! Numbers in a payload, and comparisons of short keys without libc: its `memcmp` stalls when a short compare ends
//! near the end of a mapped page.

use std::cmp::Ordering;

/// Reads a u16; `None` outside the slice.
#[inline(always)]
pub(super) fn u16_at(page: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(*page.get(at..)?.first_chunk()?) as usize)
}

/// The order of two byte strings, eight bytes at a time.
#[inline]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    for (x, y) in a_words.iter().zip(b_words) {
        if x != y {
            return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        }
    }
    let words = a_words.len().min(b_words.len()) * 8;
    let a_rest = if a_words.len() > b_words.len() { a.get(words..).unwrap_or(&[]) } else { a_rest };
    let b_rest = if b_words.len() > a_words.len() { b.get(words..).unwrap_or(&[]) } else { b_rest };
    // One of the two is shorter than 8 bytes here.
    for (x, y) in a_rest.iter().zip(b_rest) {
        if x != y {
            return x.cmp(y);
        }
    }
    a.len().cmp(&b.len())
}

/// How many bytes `a` and `b` have in common at their beginning.
#[inline]
pub fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Whether `key` begins with `prefix`.
#[inline(always)]
pub(super) fn starts_with(key: &[u8], prefix: &[u8]) -> bool {
    key.get(..prefix.len()).is_some_and(|key| same(key, prefix))
}

/// Whether two byte strings are the same, eight bytes at a time: the last eight overlap those before.
#[inline(always)]
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a_end), Some(b_end)) => {
            let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
            a_words.iter().zip(b_words).all(|(x, y)| x == y) && a_end == b_end
        }
        _ => a.iter().zip(b).all(|(x, y)| x == y),
    }
}

/// Copies short keys' bytes, eight at a time: the last eight overlap those before. Both slices are of one length.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
        *to = *from;
    }
    match (from.last_chunk::<8>(), to.last_chunk_mut::<8>()) {
        (Some(from), Some(to)) => *to = *from,
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// The head of what follows the first `from` bytes of `key`: 8 bytes as a big-endian number, zero-padded.
#[inline(always)]
pub(super) fn head_of(key: &[u8], from: usize) -> u64 {
    let Some(suffix) = key.get(from..) else { return 0 };
    if let Some(word) = suffix.first_chunk::<8>() {
        return u64::from_be_bytes(*word);
    }
    if suffix.is_empty() {
        return 0;
    }
    let missing = 8 * (8 - suffix.len()) as u32;
    match key.last_chunk::<8>() {
        // The key's last word ends with the suffix: shifting drops what belongs to the prefix.
        Some(word) => u64::from_be_bytes(*word) << missing,
        None => suffix.iter().fold(0, |head, &byte| head << 8 | byte as u64) << missing,
    }
}
