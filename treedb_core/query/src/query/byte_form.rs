//! Values as bytes on their way from one process to another of the same program: numbers in little-endian order, byte
//! strings behind their length (u32). What takes bytes off a message answers `None` where it is too short.

/// Appends bytes of a fixed number.
pub(crate) fn put_bytes<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&bytes);
}

/// Appends a byte string. Those of documents are far shorter than its length can say.
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_bytes(out, (bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Takes bytes of a fixed number off the front.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

/// Takes a byte string off the front.
pub(crate) fn take_string<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = u32::from_le_bytes(take(bytes)?);
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}
