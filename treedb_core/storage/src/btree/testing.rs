//! Test doubles: pages in memory, copied on write, that catch what a tree must not do to its pages.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::page::{PageId, PageSink, PageSource};
use crate::{Corruption, Error, Result};

struct MemPage {
    bytes: Vec<u8>,
    born: u64,
}

/// Pages in memory. Errors (not panics) tell what a tree did wrong: reading or freeing a page that is free, changing
/// a page the transaction does not own. `seal` ends a transaction: its pages are copied when they are next changed.
pub(crate) struct MemPages {
    payload: usize,
    pages: BTreeMap<u32, MemPage>,
    /// Pages freed that an earlier seal can still reach; kept for snapshots until `drop_snapshots`.
    graveyard: BTreeMap<u32, MemPage>,
    next: u32,
    txn: u64,
    /// Pages that may still be allocated: a full disk after that.
    pub(crate) budget: usize,
    /// Pages checked.
    pub(crate) reads: Cell<u64>,
}

impl MemPages {
    pub(crate) fn new(payload: usize) -> Self {
        MemPages {
            payload,
            pages: BTreeMap::new(),
            graveyard: BTreeMap::new(),
            next: 1,
            txn: 1,
            budget: usize::MAX,
            reads: Cell::new(0),
        }
    }

    /// Ends the transaction.
    pub(crate) fn seal(&mut self) {
        self.txn += 1;
    }

    /// Forgets the pages that only earlier seals reach.
    pub(crate) fn drop_snapshots(&mut self) {
        self.graveyard.clear();
    }

    /// Pages in use.
    pub(crate) fn live(&self) -> usize {
        self.pages.len()
    }

    /// The numbers of the pages in use.
    pub(crate) fn ids(&self) -> Vec<PageId> {
        self.pages.keys().map(|id| PageId(*id)).collect()
    }

    /// The bytes of a page, to be damaged.
    pub(crate) fn bytes_mut(&mut self, id: PageId) -> Option<&mut Vec<u8>> {
        self.pages.get_mut(&id.0).map(|page| &mut page.bytes)
    }
}

fn misuse(what: &str, id: PageId) -> Error {
    Error::Invalid(format!("{what} page {}", id.0))
}

impl PageSource for MemPages {
    fn page(&self, id: PageId) -> Result<&[u8]> {
        self.reads.set(self.reads.get() + 1);
        match self.pages.get(&id.0).or_else(|| self.graveyard.get(&id.0)) {
            Some(page) => Ok(&page.bytes),
            None => Err(misuse("read of free", id)),
        }
    }

    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error {
        Error::from(Box::new(Corruption {
            file: PathBuf::from("memory"),
            page: Some(id.0.into()),
            offset: at as u64,
            expected: expected.into(),
            found: found.into(),
        }))
    }
}

impl PageSink for MemPages {
    fn allocate(&mut self) -> Result<PageId> {
        if self.budget == 0 {
            return Err(Error::DiskFull { path: PathBuf::from("memory") });
        }
        self.budget -= 1;
        // The thread that allocates a page writes all of it.
        let id = self.next;
        self.next += 1;
        self.pages.insert(id, MemPage { bytes: vec![0xdb; self.payload], born: self.txn });
        Ok(PageId(id))
    }

    fn writable(&mut self, id: PageId) -> Result<PageId> {
        let page = self.pages.get(&id.0).ok_or_else(|| misuse("change of free", id))?;
        if page.born == self.txn {
            return Ok(id);
        }
        let bytes = page.bytes.clone();
        let new = self.allocate()?;
        if let Some(page) = self.pages.get_mut(&new.0) {
            page.bytes = bytes;
        }
        self.free(id)?;
        Ok(new)
    }

    fn page_mut(&mut self, id: PageId) -> Result<&mut [u8]> {
        let txn = self.txn;
        match self.pages.get_mut(&id.0) {
            Some(page) if page.born == txn => Ok(&mut page.bytes),
            Some(_) => Err(misuse("change of foreign", id)),
            None => Err(misuse("change of free", id)),
        }
    }

    fn free(&mut self, id: PageId) -> Result<()> {
        let page = self.pages.remove(&id.0).ok_or_else(|| misuse("double free of", id))?;
        if page.born != self.txn {
            self.graveyard.insert(id.0, page);
        }
        Ok(())
    }
}
