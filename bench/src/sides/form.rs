//! What keys and values look like.

use std::sync::OnceLock;

use crate::people::Random;

/// The key of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// 8 bytes, most significant first: keys lie as close together as they can, in the order of their numbers.
    Dense,
    /// 8 bytes in no order, all different.
    Spread,
    /// 64 bytes of text: a path with one of 16 names in it, 16 hexadecimal digits in no order, and a suffix.
    Long,
}

/// Keys and values of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Its keys.
    pub keys: KeyForm,
    /// Bytes of a value, at least 8.
    pub value: usize,
}

const PATH: &[u8; 39] = b"tenants/europe-west/accounts/by-number/";

impl Form {
    /// For tables: "8-byte keys" and the like.
    pub fn keys_label(self) -> &'static str {
        match self.keys {
            KeyForm::Dense => "8-byte counters",
            KeyForm::Spread => "8-byte keys",
            KeyForm::Long => "64-byte keys",
        }
    }

    /// The key of number `n`, in `room`.
    #[inline]
    pub fn key(self, n: u64, room: &mut [u8; 64]) -> &[u8] {
        let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self.keys {
            KeyForm::Dense => room[..8].copy_from_slice(&n.to_be_bytes()),
            KeyForm::Spread => room[..8].copy_from_slice(&spread.to_be_bytes()),
            KeyForm::Long => {
                room[..39].copy_from_slice(PATH);
                room[39] = b'a' + (spread >> 60) as u8;
                room[40] = b'/';
                room[41..49].copy_from_slice(&digits((spread >> 32) as u32));
                room[49..57].copy_from_slice(&digits(spread as u32));
                room[57..].copy_from_slice(b"/profil");
            }
        }
        match self.keys {
            KeyForm::Long => room,
            _ => &room[..8],
        }
    }

    /// The numbers below `count`, in the order of their keys.
    pub fn sorted(self, count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        if self.keys != KeyForm::Dense {
            numbers.sort_by_key(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        numbers
    }
}

/// The hexadecimal digits of a number, all at once: a loop over them would take longer than some gets.
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

/// The largest value.
const LARGEST: usize = 1 << 20;
/// Values begin within so many bytes of a text: it stays in the cache.
const POOL: usize = 64 << 10;

/// Text that a compressor gets to half its size.
fn text() -> &'static [u8] {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    TEXT.get_or_init(|| {
        let digits = Random::new(1, 16).take(POOL + LARGEST);
        digits.map(|digit| b"0123456789abcdef"[digit as usize]).collect()
    })
}

/// Makes keys and values for a loop of work.
pub struct Maker {
    form: Form,
    key: [u8; 64],
    value: Vec<u8>,
}

impl Maker {
    /// For keys alone.
    pub fn keys(form: Form) -> Maker {
        Maker { form, key: [0; 64], value: Vec::new() }
    }

    /// For keys and values.
    pub fn pairs(form: Form) -> Maker {
        Maker { value: vec![0; form.value], ..Maker::keys(form) }
    }

    /// The key of number `n`.
    #[inline]
    pub fn key(&mut self, n: u64) -> &[u8] {
        self.form.key(n, &mut self.key)
    }

    /// Key and value of number `n` after it was written in round `version`.
    #[inline]
    pub fn pair(&mut self, n: u64, version: u64) -> (&[u8], &[u8]) {
        let at = (n.wrapping_mul(31) + version) as usize % POOL;
        self.value.copy_from_slice(&text()[at..at + self.form.value]);
        self.value[..8].copy_from_slice(&(n | version << 40).to_le_bytes());
        (self.form.key(n, &mut self.key), &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_sort_as_promised() {
        for keys in [KeyForm::Dense, KeyForm::Spread, KeyForm::Long] {
            let form = Form { keys, value: 100 };
            let mut maker = Maker::keys(form);
            let all: Vec<Vec<u8>> = form.sorted(1000).iter().map(|&n| maker.key(n).to_vec()).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "{keys:?}");
        }
    }

    #[test]
    fn digits_are_those_of_the_number() {
        for n in [0, 1, 0x89ab_cdef, 0x0123_4567, u32::MAX] {
            assert_eq!(digits(n), format!("{n:08x}").as_bytes());
        }
    }

    #[test]
    fn a_value_tells_its_number_and_version() {
        let mut maker = Maker::pairs(Form { keys: KeyForm::Spread, value: 100 });
        let a = maker.pair(1, 0).1.to_vec();
        assert_eq!(maker.pair(1, 0).1, a);
        assert_ne!(maker.pair(1, 1).1, a);
        assert_ne!(maker.pair(2, 0).1, a);
        assert_eq!(a.len(), 100);
    }
}
