//! The page file: pages of 4 KiB in a mapped file, copied on write, published by a meta page at a checkpoint.
//!
//! The module's traits separate trees from the owner of pages: node code works on payload slices, tree code reads from
//! a [`PageSource`] and changes through a [`PageSink`]. The other parts implement the native store's page file:
//!
//! | file | what |
//! |---|---|
//! | `layout` | the page header and its checksum |
//! | `meta` | the two meta pages |
//! | `view` | the map, and slices of it (this layer's `unsafe`, with `paging`) |
//! | `cache` | which pages of a file that is not mapped are in memory |
//! | `paging` | such pages read, written back and evicted |
//! | `prefetch` | asking the processor for memory before it is needed |
//! | `slots` | the reader table: which transactions are being read |
//! | `alloc` | which pages are free, which wait for a reader or a checkpoint |
//! | `free_list` | the free pages and the owner's state, written at a checkpoint |
//! | `prefault` | making never-used pages present before they are stored to |
//! | `pager` | the page file as a whole |
//! | `writer` | a transaction's pages |
//! | `accounting` | the check that every page is accounted for once |
//!
//! # Bytes
//!
//! The file is an array of pages of 4,096 bytes; integers are little-endian. Pages 0 and 1 are meta pages (see
//! [`meta`]). Every other page in use is:
//!
//! ```text
//!    0  u32   CRC-32C of bytes 4..4096, stored at the checkpoint that first makes the page durable
//!    4  u32   its own page number
//!    8  u64   birth: the transaction that wrote it
//!   16  ..    payload, 4,080 bytes
//! ```
//!
//! In an encrypted file (see `cipher`) the checksum is zero, and a page is:
//!
//! ```text
//!    0  [16]  header as above, in the clear, authenticated with the payload
//!   16  ..    payload, 4,040 bytes, encrypted
//! 4056  [40]  seal
//! ```
//!
//! # Invariants
//!
//! * A page that the last durable checkpoint, a checkpoint being written, or a live snapshot can reach is never
//!   stored to, but for its checksum. A page is reachable from transaction `s` if `birth <= s < death`.
//! * Changes of a transaction go to pages it allocated itself, so a transaction that is dropped leaves no trace.
//! * The file has disk blocks for every page before the page is stored to, so a store cannot fault for lack of room.
//! * The base address never moves while the file is open: address space is reserved up front and the file grows
//!   under it.

mod accounting;
mod alloc;
mod cache;
mod free_list;
mod layout;
pub mod meta;
mod pager;
mod paging;
mod prefault;
mod prefetch;
mod slots;
mod view;
mod writer;

pub use accounting::PageAccounting;
pub use alloc::{Allocator, PageCounts};
pub(crate) use cache::Cache;
pub use cache::CacheStats;
pub use layout::{PAGE_SIZE, PAYLOAD, SEALED_PAYLOAD};
pub use pager::{Checkpoint, Opened, Pager, PagerOptions};
pub(crate) use paging::EpochGuard;
pub(crate) use prefetch::{LEAF_LINES, PAGE_LINES, ROW_LINES, prefetch_bytes, prefetch_from};
pub use slots::{Pin, Reader};
pub use writer::PageWriter;

use std::ops::Range;

use crate::{Error, Result};

/// Number of a page in its file; page 0 is never a tree's, so it serves as "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// No page: an empty tree's root.
    pub const NONE: PageId = PageId(0);
}

/// Reads pages. A snapshot is one; so is a write transaction, which sees its own changes.
pub trait PageSource {
    /// The payload of page `id`: every byte of the page but the owner's header. Its checksum has been verified
    /// since the file was opened. A page outside the file is a corruption error, never a panic.
    fn page(&self, id: PageId) -> Result<&[u8]>;
    /// Announces that page `id` will be read soon. Nothing is checked.
    #[inline]
    fn prefetch(&self, id: PageId) {
        self.prefetch_lines(id, 0, prefetch::NEXT_LINES);
    }
    /// Announces that `lines` cache lines of page `id`, from number `from` on, will be read soon. Nothing is checked.
    #[inline]
    fn prefetch_lines(&self, _id: PageId, _from: usize, _lines: usize) {}
    /// The error for a page whose payload makes no sense at its byte `at`, although its checksum is right: a
    /// [`Corruption`](crate::Corruption) that names the file, the page and the offset in the file. Trees call it.
    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error;
}

/// Changes pages, copy on write.
pub trait PageSink: PageSource {
    /// A fresh page with whatever bytes it has: the caller writes the whole payload.
    fn allocate(&mut self) -> Result<PageId>;
    /// Makes `id` writable: the same number if this transaction already owns the page, otherwise a new page with
    /// the same payload, the old one being freed (for everybody after this transaction). The caller stores the
    /// returned number wherever the old one was.
    fn writable(&mut self, id: PageId) -> Result<PageId>;
    /// As [`PageSink::writable`], for a payload of which the part that `gap` returns is unused and need not be copied.
    fn writable_but(&mut self, id: PageId, gap: fn(&[u8]) -> Range<usize>) -> Result<PageId> {
        let _ = gap;
        self.writable(id)
    }
    /// The payload of a page this transaction owns (allocated, or returned by `writable`).
    fn page_mut(&mut self, id: PageId) -> Result<&mut [u8]>;
    /// Gives a page back. Snapshots that can reach it keep it.
    fn free(&mut self, id: PageId) -> Result<()>;
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules;
#[cfg(test)]
mod tests;
