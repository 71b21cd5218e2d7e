//! A running checksum over keys, values and fields that were read.

/// A running checksum. All engines of a comparison have to finish with the same one.
#[derive(Debug, Clone, Copy)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    /// Adds bytes, eight at a time.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let last = rest.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b));
        self.mix(last ^ (bytes.len() as u64) << 56);
    }

    /// Adds the first 8 bytes and the length of a value. A full checksum would dominate a timed loop of short reads.
    #[inline]
    pub fn add_prefix(&mut self, value: &[u8]) {
        self.mix_fast(first_word(value) ^ (value.len() as u64) << 48);
    }

    /// Adds the first and last 8 bytes of a key and the prefix of its value, at the same cost.
    #[inline]
    pub fn add_entry_prefix(&mut self, key: &[u8], value: &[u8]) {
        let last = key.last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        self.mix_fast(first_word(key) ^ last.rotate_left(29));
        self.add_prefix(value);
    }

    /// Adds every byte of a key and a value.
    #[inline]
    pub fn add_entry(&mut self, key: &[u8], value: &[u8]) {
        self.add(key);
        self.add(value);
    }

    /// Takes two cycles; [`Checksum::mix`] has a dependency chain of five.
    #[inline]
    fn mix_fast(&mut self, word: u64) {
        self.0 = self.0.rotate_left(5).wrapping_add(word);
    }

    #[inline]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    /// The checksum.
    pub fn finish(self) -> u64 {
        self.0
    }
}

/// The first 8 bytes; 0 if there are fewer.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_depends_on_every_byte_and_on_the_length() {
        let of = |bytes: &[u8]| {
            let mut checksum = Checksum::default();
            checksum.add(bytes);
            checksum.finish()
        };
        assert_ne!(of(b""), of(b"\0"));
        assert_ne!(of(b"12345678"), of(b"123456789"));
        assert_ne!(of(b"12345678\0"), of(b"12345678\0\0"));
    }
}
