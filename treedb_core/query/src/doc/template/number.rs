//! Variable-length integers, and a reader for untrusted bytes.

/// Appends a number.
pub(super) fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Maps signed numbers to unsigned ones so that numbers with a small magnitude stay small.
pub(super) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Removes the number at the start of `rest`; `None` if it is incomplete or does not fit 64 bits.
#[inline]
pub(super) fn take(rest: &mut &[u8]) -> Option<u64> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let (mut number, mut shift) = (u64::from(first & 0x7f), 7);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Removes `len` bytes from the start of `rest`.
#[inline]
pub(super) fn take_bytes<'r>(rest: &mut &'r [u8], len: usize) -> Option<&'r [u8]> {
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

/// Removes a length and that many bytes from the start of `rest`; returns the bytes.
#[inline]
pub(super) fn take_counted<'r>(rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let len = usize::try_from(take(rest)?).ok()?;
    take_bytes(rest, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_in_the_expected_number_of_bytes() {
        for (number, len) in
            [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::from(u32::MAX), 5), (u64::MAX, 10)]
        {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            assert_eq!(bytes.len(), len);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(number));
            assert!(rest.is_empty());
            assert_eq!(take(&mut &bytes[..len - 1]), None);
        }
        for number in [0, -1, 1, i64::MIN, i64::MAX, 1 << 40] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2][..]), None);
    }
}
