//! Sizes, and the 16 bytes every page but the meta pages begins with.

use crate::cipher::SEAL;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;
/// Bytes of the owner's header at the front of a page.
pub(crate) const HEADER: usize = 16;
/// Bytes of a page that its content may use.
pub const PAYLOAD: usize = PAGE_SIZE - HEADER;
/// Bytes of a page that its content may use in an encrypted file.
pub const SEALED_PAYLOAD: usize = PAYLOAD - SEAL;

/// Offsets in the header.
pub(crate) const CHECKSUM_AT: usize = 0;
pub(crate) const NUMBER_AT: usize = 4;
pub(crate) const BIRTH_AT: usize = 8;

/// Pages 0 and 1 hold the two metas; content starts here.
pub(crate) const FIRST_PAGE: u32 = 2;

/// Offset of a page in the file.
pub(crate) fn offset_of(page: u32) -> u64 {
    u64::from(page) * PAGE_SIZE as u64
}
