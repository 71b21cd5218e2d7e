//! The page file: pages of 4 KiB in a mapped file, copied on write, published by a meta page at a checkpoint.
//!
//! This module's traits are the seam between trees and the owner of pages: node code works on the payload slices,
//! tree code asks a [`PageSource`] to read and a [`PageSink`] to change.

use crate::error::{Error, Result};

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
    /// The error for a page whose payload makes no sense at its byte `at`, although its checksum is right: a
    /// [`Corruption`](crate::error::Corruption) that names the file, the page and the offset in the file. Trees call it.
    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error;
}

/// Changes pages, copy on write.
pub trait PageSink: PageSource {
    /// A fresh page, zero-filled.
    fn allocate(&mut self) -> Result<PageId>;
    /// Makes `id` writable: the same number if this transaction already owns the page, otherwise a new page with
    /// the same payload, the old one being freed (for everybody after this transaction). The caller stores the
    /// returned number wherever the old one was.
    fn writable(&mut self, id: PageId) -> Result<PageId>;
    /// The payload of a page this transaction owns (allocated, or returned by `writable`).
    fn page_mut(&mut self, id: PageId) -> Result<&mut [u8]>;
    /// Gives a page back. Snapshots that can reach it keep it.
    fn free(&mut self, id: PageId) -> Result<()>;
}
