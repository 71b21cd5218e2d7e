//! The pages of the transaction in progress: copies of what it changes, and nothing else.

use std::ops::Range;

use super::alloc::Allocator;
use super::pager::Pager;
use super::{PageId, PageSink, PageSource};
use crate::{Error, Result};

/// A gap of fewer bytes is copied with the rest.
const WORTH_SPARING: usize = 512;

/// Reads and changes pages for one transaction. Made by [`Pager::writer`] of the allocator that the writer holds.
#[derive(Debug)]
pub struct PageWriter<'a> {
    pager: &'a Pager,
    alloc: &'a mut Allocator,
}

impl<'a> PageWriter<'a> {
    pub(crate) fn new(pager: &'a Pager, alloc: &'a mut Allocator) -> PageWriter<'a> {
        PageWriter { pager, alloc }
    }

    /// A page of this transaction's own, with whatever bytes it has.
    fn take(&mut self) -> Result<u32> {
        let page = match self.alloc.take() {
            Some(page) => page,
            None => self.pager.extend(self.alloc)?,
        };
        self.pager.view().adopt(page, self.alloc.txn)?;
        Ok(page)
    }

    /// A copy of a page that transaction `birth` wrote, but for the bytes that `gap` says; the page itself is freed.
    #[inline(never)]
    fn copy(&mut self, id: PageId, birth: u64, gap: fn(&[u8]) -> Range<usize>) -> Result<PageId> {
        let copy = self.take()?;
        if copy == id.0 {
            // Only a damaged file has a page both in a tree and free.
            return Err(self.pager.view().not_free(copy));
        }
        let old = self.pager.view().page(id)?;
        // SAFETY: the copy was taken for this transaction just now; it is another page than `id`.
        let new = unsafe { self.pager.view().payload_mut(copy) }?;
        let gap = gap(old);
        match (new.get_mut(gap.end..), old.get(gap.end..)) {
            (Some(new_end), Some(old_end))
                if gap.len() >= WORTH_SPARING && new_end.len() == old_end.len() =>
            {
                new_end.copy_from_slice(old_end);
                if let (Some(new), Some(old)) = (new.get_mut(..gap.start), old.get(..gap.start)) {
                    new.copy_from_slice(old);
                }
            }
            _ => new.copy_from_slice(old),
        }
        self.alloc.give_back(id.0, birth);
        Ok(PageId(copy))
    }
}

impl PageSource for PageWriter<'_> {
    #[inline]
    fn page(&self, id: PageId) -> Result<&[u8]> {
        self.pager.view().page(id)
    }

    #[inline]
    fn prefetch_lines(&self, id: PageId, from: usize, lines: usize) {
        self.pager.view().prefetch_lines(id, from, lines);
    }

    #[cold]
    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error {
        self.pager.view().damaged(id, at, expected, found)
    }
}

impl PageSink for PageWriter<'_> {
    fn allocate(&mut self) -> Result<PageId> {
        self.take().map(PageId)
    }

    #[inline]
    fn writable(&mut self, id: PageId) -> Result<PageId> {
        self.writable_but(id, |_| 0..0)
    }

    #[inline]
    fn writable_but(&mut self, id: PageId, gap: fn(&[u8]) -> Range<usize>) -> Result<PageId> {
        // Reading it first verifies the header too.
        self.pager.view().page(id)?;
        let birth = self.pager.view().birth(id.0)?;
        if self.alloc.owns(birth) {
            return Ok(id);
        }
        self.copy(id, birth, gap)
    }

    #[inline]
    fn page_mut(&mut self, id: PageId) -> Result<&mut [u8]> {
        let birth = self.pager.view().birth(id.0)?;
        if !self.alloc.owns(birth) {
            return Err(Error::Invalid(format!("page {} does not belong to this transaction", id.0)));
        }
        self.pager.view().will_store(id.0, birth)?;
        // SAFETY: this transaction allocated the page, so no snapshot reaches it; the slice borrows the writer
        // mutably, so there is no other slice of it.
        unsafe { self.pager.view().payload_mut(id.0) }
    }

    fn free(&mut self, id: PageId) -> Result<()> {
        self.pager.view().page(id)?;
        let birth = self.pager.view().birth(id.0)?;
        self.alloc.give_back(id.0, birth);
        Ok(())
    }
}
