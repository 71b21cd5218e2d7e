//! `treedb.keyset`: the keys a document has in an ordered index, several where it has arrays.
//!
//! Stored as a byte of flags (1: the document has an array on a path of the index) and the keys in rising order,
//! each a length of two bytes, little-endian, and the key. Keys longer than [`LONGEST`] are cut: no index keeps more.

/// The most bytes of a key that are kept.
pub(crate) const LONGEST: usize = 4096;

const MULTIKEY: u8 = 1;

/// The keys of a document.
pub(crate) struct KeySet<'a> {
    /// Whether another document of this kind may have several keys.
    pub(crate) multikey: bool,
    rest: &'a [u8],
}

/// Reads a stored key set. Bytes that are none end it early.
pub(crate) fn read(bytes: &[u8]) -> KeySet<'_> {
    match bytes.split_first() {
        Some((flags, rest)) => KeySet { multikey: flags & MULTIKEY != 0, rest },
        None => KeySet { multikey: false, rest: &[] },
    }
}

impl<'a> Iterator for KeySet<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        self.rest = rest;
        Some(key)
    }
}
