//! The check that every page is accounted for exactly once.

use super::alloc::{Allocator, Bits};
use super::layout::{FIRST_PAGE, offset_of};
use super::pager::Pager;
use super::{PageId, PageSource};
use crate::{Corruption, Error, Result};

/// Counts pages as `check` meets them: the free ones and the free list's at the start, the trees' as they are walked.
#[derive(Debug)]
pub struct PageAccounting<'a> {
    pager: &'a Pager,
    alloc: &'a Allocator,
    seen: Bits,
    doubled: Option<u32>,
    damaged: Option<Error>,
    counted: u64,
}

impl<'a> PageAccounting<'a> {
    pub(crate) fn new(pager: &'a Pager, alloc: &'a Allocator) -> PageAccounting<'a> {
        let mut accounting =
            PageAccounting { pager, alloc, seen: Bits::default(), doubled: None, damaged: None, counted: 0 };
        for page in alloc.all_free() {
            accounting.mark(page);
        }
        for &page in &alloc.free_list {
            accounting.visit(PageId(page));
        }
        accounting
    }

    fn mark(&mut self, page: u32) {
        self.counted += 1;
        if !self.seen.insert(page) {
            self.doubled = self.doubled.or(Some(page));
        }
    }

    /// Counts a page of a tree, and reads it against its checksum if it has one yet.
    pub fn visit(&mut self, id: PageId) {
        self.mark(id.0);
        if self.damaged.is_none() {
            let result = if self.alloc.is_dirty(id.0) {
                self.pager.view().page(id).map(|_| ())
            } else {
                self.pager.view().reverify(id.0)
            };
            self.damaged = result.err();
        }
    }

    /// The result: an error for a damaged page, a page counted twice, or a page not counted at all.
    pub fn finish(self) -> Result<u64> {
        if let Some(error) = self.damaged {
            return Err(error);
        }
        let used = self.alloc.high();
        let corrupt = |page: u32, expected: &str, found: &str| {
            Err(Error::Corrupt(Box::new(Corruption {
                file: self.pager.view().path().to_path_buf(),
                page: Some(page.into()),
                offset: offset_of(page),
                expected: expected.into(),
                found: found.into(),
            })))
        };
        if let Some(page) = self.doubled {
            return corrupt(
                page,
                "a page in one place",
                "a page that two trees, or a tree and the free list, hold",
            );
        }
        if let Some(page) = self.seen.iter().find(|&page| page >= used) {
            return corrupt(page, &format!("pages below {used}"), "a page that was never allocated");
        }
        if let Some(page) = (FIRST_PAGE..used).find(|&page| !self.seen.contains(page)) {
            return corrupt(page, "a page of a tree or of the free list", "a page that nothing refers to");
        }
        Ok(self.counted)
    }
}
