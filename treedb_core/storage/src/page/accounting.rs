//! The check that every page is accounted for exactly once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::alloc::Allocator;
use super::layout::{FIRST_PAGE, offset_of};
use super::pager::Pager;
use super::{PageId, PageSource};
use crate::{Corruption, Error, Result};

/// Notes pages as `check` meets them, in any number of threads: the free ones and the free list's at the start, the trees' as they
/// are walked. It takes a bit per page of the file, whatever numbers it is given.
#[derive(Debug)]
pub struct PageAccounting<'a> {
    pager: &'a Pager,
    alloc: &'a Allocator,
    /// A bit for each page that was ever allocated.
    seen: Box<[AtomicU64]>,
    met_twice: AtomicBool,
}

impl<'a> PageAccounting<'a> {
    /// # Errors
    /// As [`PageAccounting::visit`] for the free pages.
    pub(crate) fn new(pager: &'a Pager, alloc: &'a Allocator) -> Result<PageAccounting<'a>> {
        let words = (alloc.high() as usize).div_ceil(64);
        let accounting = PageAccounting {
            pager,
            alloc,
            seen: (0..words).map(|_| AtomicU64::new(0)).collect(),
            met_twice: AtomicBool::new(false),
        };
        for page in alloc.all_free() {
            accounting.mark(page)?;
        }
        for &page in &alloc.free_list {
            accounting.visit(PageId(page))?;
        }
        Ok(accounting)
    }

    fn mark(&self, page: u32) -> Result<()> {
        let used = self.alloc.high();
        let Some(word) = self.seen.get(page as usize / 64).filter(|_| page < used) else {
            let found = "a page that was never allocated";
            return Err(self.corrupt(page, &format!("pages below {used}"), found));
        };
        let bit = 1 << (page % 64);
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            self.met_twice.store(true, Ordering::Relaxed);
            let found = "a page that two branches, two trees, or a tree and the free list, hold";
            return Err(self.corrupt(page, "a page in one place", found));
        }
        Ok(())
    }

    /// Counts a page of a tree, and reads it against its checksum if it has one yet.
    ///
    /// # Errors
    /// `Corrupt` for a page that was counted before, was never allocated, or is damaged.
    pub fn visit(&self, id: PageId) -> Result<()> {
        self.mark(id.0)?;
        match self.alloc.is_dirty(id.0) {
            true => self.pager.view().page(id).map(|_| ()),
            false => self.pager.view().reverify(id.0),
        }
    }

    /// Whether any page was counted twice. Which of its two places is then reported depends on the order of the walks.
    pub(crate) fn met_twice(&self) -> bool {
        self.met_twice.load(Ordering::Relaxed)
    }

    /// The number of pages; an error if there are any that were not counted.
    pub fn finish(&self) -> Result<u64> {
        let used = self.alloc.high();
        let words = || self.seen.iter().map(|word| word.load(Ordering::Relaxed));
        // The first two are the meta pages.
        let missing_of = |(at, word): (usize, u64)| {
            let missing = if at == 0 { !word & !((1 << FIRST_PAGE) - 1) } else { !word };
            (missing != 0).then(|| at as u32 * 64 + missing.trailing_zeros())
        };
        match words().enumerate().find_map(missing_of).filter(|&page| page < used) {
            Some(page) => {
                let expected = "a page of a tree or of the free list";
                Err(self.corrupt(page, expected, "a page that nothing refers to"))
            }
            None => Ok(words().map(|word| u64::from(word.count_ones())).sum()),
        }
    }

    fn corrupt(&self, page: u32, expected: &str, found: &str) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: self.pager.view().path().to_path_buf(),
            page: Some(page.into()),
            offset: offset_of(page),
            expected: expected.into(),
            found: found.into(),
        }))
    }
}
