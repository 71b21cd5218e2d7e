//! The values of a key that fit in its cell. The bytes are in the header of the module above.

/// A set of values, in a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct InlineSet<'a> {
    ends: &'a [[u8; 2]],
    values: &'a [u8],
}

impl<'a> InlineSet<'a> {
    /// The set in `bytes`; `None` if they cannot be one. What it says of single values is checked when they are.
    pub(super) fn open(bytes: &'a [u8]) -> Option<InlineSet<'a>> {
        let (count, rest) = bytes.split_first_chunk()?;
        let (ends, values) = rest.split_at_checked(2 * usize::from(u16::from_le_bytes(*count)))?;
        let (ends, _) = ends.as_chunks();
        let end = usize::from(u16::from_le_bytes(*ends.last()?));
        (end == values.len()).then_some(InlineSet { ends, values })
    }

    /// Number of values.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Value `i`; `None` after the last, and where ends do not rise.
    pub(super) fn get(&self, i: usize) -> Option<&'a [u8]> {
        let end = |i: usize| self.ends.get(i).map(|&end| usize::from(u16::from_le_bytes(end)));
        let begin = match i.checked_sub(1) {
            Some(before) => end(before)?,
            None => 0,
        };
        self.values.get(begin..end(i)?)
    }

    /// The place of a value, or the one it would have; `None` if the set is damaged.
    pub(super) fn search(&self, value: &[u8]) -> Option<Result<usize, usize>> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle)?.cmp(value) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(Ok(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Some(Err(low))
    }

    /// All values in order; ends early if the set is damaged.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.count()).map_while(move |i| self.get(i))
    }

    /// Whether every value is there.
    pub(super) fn is_whole(&self) -> bool {
        self.iter().count() == self.count()
    }

    /// Whether every value is there and above the one before it.
    pub(super) fn is_sound(&self) -> bool {
        self.is_whole() && self.iter().is_sorted_by(|a, b| a < b)
    }
}

/// Writes the set of `values`, which rise, into `out`; false if it takes more than `limit` bytes.
pub(super) fn write<'v>(
    values: impl Iterator<Item = &'v [u8]> + Clone,
    out: &mut Vec<u8>,
    limit: usize,
) -> bool {
    out.clear();
    let (count, bytes) = values.clone().fold((0, 0), |(n, bytes), value| (n + 1, bytes + value.len()));
    if 2 + 2 * count + bytes > limit.min(usize::from(u16::MAX)) {
        return false;
    }
    out.extend_from_slice(&(count as u16).to_le_bytes());
    let mut end = 0u16;
    for value in values.clone() {
        end += value.len() as u16;
        out.extend_from_slice(&end.to_le_bytes());
    }
    values.for_each(|value| out.extend_from_slice(value));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(values: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(write(values.iter().copied(), &mut out, 1000));
        out
    }

    #[test]
    fn encoded_values_are_decoded_and_found() {
        let values: [&[u8]; 5] = [b"", b"\0", b"a", b"ab", &[7; 300]];
        let mut values = values.to_vec();
        values.sort_unstable();
        let bytes = set_of(&values);
        let set = InlineSet::open(&bytes).unwrap();
        assert!(set.is_sound());
        assert_eq!(set.iter().collect::<Vec<_>>(), values);
        for (i, value) in values.iter().enumerate() {
            assert_eq!(set.search(value), Some(Ok(i)));
        }
        assert_eq!(set.search(b"aa"), Some(Err(values.iter().position(|v| v == b"ab").unwrap())));
        assert_eq!(set.search(&[0xff]), Some(Err(5)));
        assert_eq!(set.get(5), None);
    }

    #[test]
    fn a_set_over_the_limit_is_not_written() {
        let value = [1u8; 100];
        let mut out = Vec::new();
        assert!(write([&value[..], &value[..]].into_iter(), &mut out, 206));
        assert!(!write([&value[..], &value[..]].into_iter(), &mut out, 205));
    }

    #[test]
    fn flipped_and_cut_sets_are_refused_or_other_sets_never_a_panic() {
        let whole = set_of(&[b"", b"one", b"three", b"two"]);
        let context = |bytes: &[u8]| {
            if let Some(set) = InlineSet::open(bytes) {
                let _ = (set.is_sound(), set.search(b"p"), set.iter().count(), set.get(9));
            }
        };
        for at in 0..whole.len() {
            context(&whole[..at]);
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                context(&bytes);
            }
        }
        assert!(
            InlineSet::open(&[]).is_none()
                && InlineSet::open(&[0, 0]).is_none()
                && InlineSet::open(&[0xff, 0xff]).is_none()
        );
    }
}
