//! Pointers to values in the value log.

/// Finds a value in the log: 16 bytes, kept by the value's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ValuePtr {
    /// Number of the segment, from 1.
    pub segment: u32,
    /// Offset of the record in the segment, in units of 8 bytes.
    pub offset: u32,
    /// Length of the value, in bytes.
    pub len: u32,
    /// The record's checksum.
    pub check: u32,
}

impl ValuePtr {
    /// Bytes of an encoded pointer.
    pub(crate) const SIZE: usize = 16;

    /// The pointer's bytes, little-endian.
    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (place, word) in bytes.chunks_exact_mut(4).zip([self.segment, self.offset, self.len, self.check])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The pointer in these bytes. Any bytes are a pointer; whether it leads to a value, `get` finds out.
    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> ValuePtr {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        ValuePtr { segment: word(0), offset: word(4), len: word(8), check: word(12) }
    }

    /// Offset of the record in bytes.
    pub(super) fn at(&self) -> u64 {
        u64::from(self.offset) * super::record::ALIGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_survives_its_bytes() {
        let ptr = ValuePtr { segment: 1, offset: 0x0203_0405, len: u32::MAX, check: 0xdead_beef };
        assert_eq!(ValuePtr::from_bytes(ptr.to_bytes()), ptr);
    }
}
