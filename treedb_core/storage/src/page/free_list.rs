//! The free list: the free pages, and the owner's state, for which a meta page has no room. Each checkpoint writes it to a
//! chain of pages.
//!
//! Its bytes, little-endian: the number of free pages (u32), their numbers (u32 each), then the owner's state up to
//! the end. Each page of the chain contains:
//!
//! ```text
//!    0  u32   next page of the chain, 0 at the end
//!    4  u32   bytes of the free list in this page
//!    8  ..    those bytes
//! ```

use super::alloc::Bits;
use super::layout::{FIRST_PAGE, offset_of};
use super::view::View;
use super::{PageId, PageSource};
use crate::{Corruption, Error, Result};

const LINK: usize = 8;

/// Bytes of the free list that a page with `payload` bytes holds.
pub(crate) fn room(payload: usize) -> usize {
    payload - LINK
}

/// Bytes of a free list of `free` page numbers and `state` bytes of the owner's.
pub(crate) fn len_of(free: usize, state: usize) -> usize {
    4 + 4 * free + state
}

/// The free list's bytes.
pub(crate) fn encode(free: &[u32], state: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(len_of(free.len(), state.len()));
    out.extend_from_slice(&(free.len() as u32).to_le_bytes());
    for page in free {
        out.extend_from_slice(&page.to_le_bytes());
    }
    out.extend_from_slice(state);
    out
}

/// Writes `bytes` into the payload of the `index`-th of `pages`, of which the next is linked.
pub(crate) fn fill(payload: &mut [u8], bytes: &[u8], index: usize, pages: &[u32]) {
    let room = room(payload.len());
    let part = bytes.get(index * room..).unwrap_or_default();
    let part = &part[..part.len().min(room)];
    let next = pages.get(index + 1).copied().unwrap_or(0);
    payload.fill(0);
    payload[0..4].copy_from_slice(&next.to_le_bytes());
    payload[4..8].copy_from_slice(&(part.len() as u32).to_le_bytes());
    payload[LINK..LINK + part.len()].copy_from_slice(part);
}

/// A free list that was read.
#[derive(Debug, Default)]
pub(crate) struct FreeList {
    pub(crate) free: Vec<u32>,
    pub(crate) state: Vec<u8>,
    /// The chain's own pages.
    pub(crate) pages: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the chain from `head`, `len` bytes of free list in all, in a file of which `used` pages are in use.
pub(crate) fn read(view: &View, head: u32, len: u64, used: u32) -> Result<FreeList> {
    let damaged = |page: u32, at: usize, expected: String, found: String| {
        Error::Corrupt(Box::new(Corruption {
            file: view.path().to_path_buf(),
            page: Some(page.into()),
            offset: offset_of(page) + at as u64,
            expected,
            found,
        }))
    };
    let mut free_list = FreeList::default();
    if head == 0 {
        return Ok(free_list);
    }
    let mut bytes = Vec::new();
    let mut next = head;
    while next != 0 {
        let page = next;
        // A chain longer than the file has a cycle.
        if free_list.pages.len() as u64 > u64::from(used) {
            return Err(damaged(page, 16, "the free list's end".into(), "a cycle".into()));
        }
        let payload = view.page(PageId(page))?;
        let payload_len = payload.len();
        let part = word(payload, 4).unwrap_or(u32::MAX) as usize;
        let part = payload.get(LINK..).and_then(|rest| rest.get(..part)).ok_or_else(|| {
            damaged(
                page,
                20,
                format!("at most {} bytes in a free list page", room(payload_len)),
                part.to_string(),
            )
        })?;
        bytes.extend_from_slice(part);
        free_list.pages.push(page);
        next = word(payload, 0).unwrap_or(0);
    }
    if bytes.len() as u64 != len {
        return Err(damaged(head, 16, format!("a free list of {len} bytes"), bytes.len().to_string()));
    }
    let count = word(&bytes, 0).unwrap_or(u32::MAX) as usize;
    let end = count.checked_mul(4).and_then(|n| n.checked_add(4)).filter(|&end| end <= bytes.len());
    let Some(end) = end else {
        return Err(damaged(head, 24, format!("free pages in {len} bytes"), format!("{count} of them")));
    };
    let mut seen = Bits::default();
    for at in (4..end).step_by(4) {
        let page = word(&bytes, at).unwrap_or(0);
        if page < FIRST_PAGE || page >= used || !seen.insert(page) {
            return Err(damaged(
                head,
                24,
                format!("free pages from 2 to {}, each once", used - 1),
                page.to_string(),
            ));
        }
        free_list.free.push(page);
    }
    free_list.state = bytes.split_off(end);
    Ok(free_list)
}
