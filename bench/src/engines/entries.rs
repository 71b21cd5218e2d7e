//! Generated keys and values.

use std::sync::OnceLock;

use bench_common::Random;

/// How the key of a number is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFormat {
    /// The number in 8 bytes, big-endian: consecutive keys, in the order of their numbers.
    Dense,
    /// 8 bytes of a hash, in random order, all different.
    Spread,
    /// 64 bytes of text: a path with one of 16 directory names, 16 hexadecimal digits of a hash, and a suffix.
    Long,
}

/// The format of a table's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryFormat {
    /// Its keys.
    pub keys: KeyFormat,
    /// Size of a value in bytes, at least 8.
    pub value: usize,
}

const PATH: &[u8; 39] = b"tenants/europe-west/accounts/by-number/";

impl EntryFormat {
    /// As printed in tables, for example "8-byte keys".
    pub fn keys_label(self) -> &'static str {
        match self.keys {
            KeyFormat::Dense => "8-byte counters",
            KeyFormat::Spread => "8-byte keys",
            KeyFormat::Long => "64-byte keys",
        }
    }

    /// Writes the key of number `n` to `buffer`.
    #[inline]
    pub fn key(self, n: u64, buffer: &mut [u8; 64]) -> &[u8] {
        let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self.keys {
            KeyFormat::Dense => buffer[..8].copy_from_slice(&n.to_be_bytes()),
            KeyFormat::Spread => buffer[..8].copy_from_slice(&spread.to_be_bytes()),
            KeyFormat::Long => {
                buffer[..39].copy_from_slice(PATH);
                buffer[39] = b'a' + (spread >> 60) as u8;
                buffer[40] = b'/';
                buffer[41..49].copy_from_slice(&digits((spread >> 32) as u32));
                buffer[49..57].copy_from_slice(&digits(spread as u32));
                buffer[57..].copy_from_slice(b"/profil");
            }
        }
        match self.keys {
            KeyFormat::Long => buffer,
            _ => &buffer[..8],
        }
    }

    /// The numbers below `count`, in the order of their keys.
    pub fn sorted(self, count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        if self.keys != KeyFormat::Dense {
            numbers.sort_by_key(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        numbers
    }
}

/// The hexadecimal digits of a number, without a loop: that would take longer than some of the measured gets.
#[inline]
fn digits(number: u32) -> [u8; 8] {
    let all = |byte: u8| u64::from_le_bytes([byte; 8]);
    let n = u64::from(number);
    let n = (n | n << 16) & 0x0000_ffff_0000_ffff;
    let n = (n | n << 8) & 0x00ff_00ff_00ff_00ff;
    let n = (n | n << 4) & all(0x0f);
    let letters = (n + all(6)) >> 4 & all(1);
    (n + all(b'0') + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

/// Maximum size of a value.
const LARGEST: usize = 1 << 20;
/// Values start within this many bytes of a generated text, so that it stays in the processor's cache.
const POOL: usize = 64 << 10;

/// Text that compresses to half its size.
fn text() -> &'static [u8] {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    TEXT.get_or_init(|| {
        let digits = Random::new(1, 16).take(POOL + LARGEST);
        digits.map(|digit| b"0123456789abcdef"[digit as usize]).collect()
    })
}

/// Generates keys and values for a loop of operations.
pub struct EntryGenerator {
    format: EntryFormat,
    key: [u8; 64],
    value: Vec<u8>,
}

impl EntryGenerator {
    /// For keys only.
    pub fn keys_only(format: EntryFormat) -> EntryGenerator {
        EntryGenerator { format, key: [0; 64], value: Vec::new() }
    }

    /// For keys and values.
    pub fn with_values(format: EntryFormat) -> EntryGenerator {
        EntryGenerator { value: vec![0; format.value], ..EntryGenerator::keys_only(format) }
    }

    /// The key of number `n`.
    #[inline]
    pub fn key(&mut self, n: u64) -> &[u8] {
        self.format.key(n, &mut self.key)
    }

    /// Key and value of number `n` as written in round `version`.
    #[inline]
    pub fn entry(&mut self, n: u64, version: u64) -> (&[u8], &[u8]) {
        let at = (n.wrapping_mul(31) + version) as usize % POOL;
        self.value.copy_from_slice(&text()[at..at + self.format.value]);
        self.value[..8].copy_from_slice(&(n | version << 40).to_le_bytes());
        (self.format.key(n, &mut self.key), &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_sort_like_sorted_says() {
        for keys in [KeyFormat::Dense, KeyFormat::Spread, KeyFormat::Long] {
            let format = EntryFormat { keys, value: 100 };
            let mut entries = EntryGenerator::keys_only(format);
            let all: Vec<Vec<u8>> = format.sorted(1000).iter().map(|&n| entries.key(n).to_vec()).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "{keys:?}");
        }
    }

    #[test]
    fn digits_match_the_standard_formatting() {
        for n in [0, 1, 0x89ab_cdef, 0x0123_4567, u32::MAX] {
            assert_eq!(digits(n), format!("{n:08x}").as_bytes());
        }
    }

    #[test]
    fn a_value_depends_on_its_number_and_version() {
        let mut entries = EntryGenerator::with_values(EntryFormat { keys: KeyFormat::Spread, value: 100 });
        let a = entries.entry(1, 0).1.to_vec();
        assert_eq!(entries.entry(1, 0).1, a);
        assert_ne!(entries.entry(1, 1).1, a);
        assert_ne!(entries.entry(2, 0).1, a);
        assert_eq!(a.len(), 100);
    }
}
