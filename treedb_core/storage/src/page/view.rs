//! The mapped page file, or the memory used instead of a mapping, and slices of pages.
//!
//! A file that is not mapped has anonymous memory instead, with the same offset for each page; see
//! [`cache`](super::cache) for when a page is in memory.
//!
//! This module contains the page layer's `unsafe` code. It relies on the layer's first invariant: the bytes
//! of a slice that was given to a reader are not written to while the slice exists. Header fields are
//! atomics, because a checkpoint stores the checksum of a page while readers use it; the header is outside
//! every payload slice. The invariant holds for files that TreeDB wrote. If a file is forged with valid
//! checksums so that two trees share a page, a reader may see bytes change; the tree code must handle this
//! like any other invalid bytes.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::cache::Cache;
use super::layout::{
    BIRTH_AT, CHECKSUM_AT, HEADER, NUMBER_AT, PAGE_SIZE, PAYLOAD, SEALED_PAYLOAD, offset_of,
};
use super::meta::Secret;
use super::prefetch::{LINE, prefetch_from};
use super::{PageId, PageSource};
use crate::cipher::SEAL;
use crate::disk::{DiskFile, Map, memory};
use crate::sync::point;
use crate::{Corruption, Error, Result};

/// The pages of a file by number, mapped or in a cache. Each page is verified at its first access.
pub(crate) struct View {
    file: Arc<dyn DiskFile>,
    /// Keeps the file mapped.
    pub(super) map: Box<dyn Map>,
    /// The address of the map, stored here so that readers need no virtual call.
    base: NonNull<u8>,
    /// The number of pages for which the file has disk blocks; never more than the map covers. It only
    /// decreases by pages that are not reachable.
    pages: AtomicU32,
    /// Locked while the file's length changes: a thread other than the writer may grow the file too.
    resizing: Mutex<()>,
    /// One bit per page: its checksum was verified since the file was opened, or it was written since. With a
    /// cache, a set bit also means that the page is in memory and hot. Only bits of pages inside the file are
    /// set, so this is the only check for a reader.
    verified: Box<[AtomicU64]>,
    /// The last transaction of the checkpoint at which the file was opened: no page that was in the file then
    /// has a later birth.
    pub(super) opened_at: u64,
    /// The size of a page's payload in bytes.
    payload: usize,
    /// The keys of an encrypted file, which is never mapped.
    pub(super) secret: Option<Secret>,
    /// The page cache of a file that is not mapped.
    pub(super) cache: Option<Arc<Cache>>,
    /// With a cache, one bit per page: it was written to the file since the file was opened.
    rewritten: Box<[AtomicU64]>,
}

/// A bitmap with one bit per page, all clear.
fn bits(pages: usize) -> Box<[AtomicU64]> {
    // The operating system provides zeroed memory on first access: the unused part of a large bitmap costs
    // nothing. SAFETY: all-zero bytes are a valid `AtomicU64`.
    unsafe { Box::<[AtomicU64]>::new_zeroed_slice(pages.div_ceil(64)).assume_init() }
}

/// The fields of a page's header, and the checksum computed from the page.
struct PageHeader {
    stored_checksum: u32,
    checksum: u32,
    number: u32,
    birth: u64,
}

// SAFETY: `base` points into `map`, which is `Send`; access follows the module's rule whatever the thread.
unsafe impl Send for View {}
// SAFETY: as above; shared access is reads of stable payloads and atomics.
unsafe impl Sync for View {}

impl View {
    /// Maps `capacity` pages of `file`, which has `pages` pages now; with a cache, reserves memory for as
    /// many instead.
    pub(crate) fn new(
        file: Arc<dyn DiskFile>,
        pages: u32,
        capacity: u32,
        opened_at: u64,
        cache: Option<Cache>,
        secret: Option<Secret>,
    ) -> Result<View> {
        let payload = if secret.is_some() { SEALED_PAYLOAD } else { PAYLOAD };
        let len = offset_of(capacity.max(pages));
        let map = if cache.is_some() { memory(len)? } else { file.map(len)? };
        let capacity = (map.len() / PAGE_SIZE).min(u32::MAX as usize);
        let base = NonNull::new(map.as_ptr())
            .ok_or_else(|| Error::Invalid(format!("{} was mapped at address 0", file.path().display())))?;
        let verified = bits(capacity);
        let rewritten = bits(if cache.is_some() { capacity } else { 0 });
        let cache = cache.map(Arc::new);
        let pages = AtomicU32::new(pages);
        let resizing = Mutex::new(());
        Ok(View { file, map, base, pages, resizing, verified, opened_at, payload, secret, cache, rewritten })
    }

    /// The size of a page's payload in bytes.
    pub(crate) fn payload(&self) -> usize {
        self.payload
    }

    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The number of pages for which the file has disk blocks.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Relaxed)
    }

    /// The maximum number of pages with the current mapping.
    pub(crate) fn capacity(&self) -> u32 {
        (self.map.len() / PAGE_SIZE).min(u32::MAX as usize) as u32
    }

    /// Grows the file to `pages`, reserving disk blocks. `DiskFull` if the disk has no room; the file is
    /// unchanged then.
    pub(crate) fn grow(&self, pages: u32) -> Result<()> {
        self.grow_by(pages, |len| self.file.reserve(len))
    }

    /// The same for pages that nobody needs yet: derived data is not removed for them.
    pub(crate) fn grow_early(&self, pages: u32) -> Result<()> {
        self.grow_by(pages, |len| self.file.reserve_early(len))
    }

    fn grow_by(&self, pages: u32, reserve: impl Fn(u64) -> Result<()>) -> Result<()> {
        if pages > self.capacity() {
            return Err(Error::DiskFull { path: self.path().to_path_buf() });
        }
        let _guard = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        reserve(offset_of(pages))?;
        self.pages.fetch_max(pages, Ordering::Release);
        Ok(())
    }

    /// Truncates the file to `pages`. The other pages must not be reachable from any tree, snapshot or
    /// checkpoint.
    pub(crate) fn shrink(&self, pages: u32) -> Result<()> {
        let _guard = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        if pages >= self.pages() {
            return Ok(());
        }
        // Done first, so that a reference to a removed page is an error and not a page fault.
        let before = self.pages.swap(pages, Ordering::SeqCst);
        (pages..before).for_each(|page| self.clear_verified(page));
        if let Some(cache) = &self.cache {
            self.discard_beyond(cache, pages);
        }
        self.file.set_len(offset_of(pages))
    }

    /// Turns the operating system's read-ahead on or off.
    pub(crate) fn read_ahead(&self, on: bool) {
        if self.cache.is_none() {
            self.map.read_ahead(on);
        }
    }

    /// Faults in the pages `from..to` before they are written to.
    pub(crate) fn prefault(&self, from: u32, to: u32) {
        if self.cache.is_some() {
            return;
        }
        self.map.prefault(from as usize * PAGE_SIZE, to.min(self.pages()) as usize * PAGE_SIZE);
    }

    #[inline]
    pub(super) fn start(&self, page: u32) -> *mut u8 {
        debug_assert!(page < self.pages());
        self.base.as_ptr().wrapping_add(page as usize * PAGE_SIZE)
    }

    fn word32(&self, page: u32, at: usize) -> &AtomicU32 {
        // SAFETY: callers pass pages below `pages()`, so the header is inside the mapped file; the offset is
        // a multiple of 4; header bytes are only accessed through atomics, and read for the checksum of pages
        // that are not being written to.
        unsafe { AtomicU32::from_ptr(self.start(page).add(at).cast()) }
    }

    #[inline]
    fn word64(&self, page: u32, at: usize) -> &AtomicU64 {
        // SAFETY: as `word32`; the offset is a multiple of 8.
        unsafe { AtomicU64::from_ptr(self.start(page).add(at).cast()) }
    }

    #[inline]
    fn check_inside(&self, page: u32) -> Result<()> {
        if page < super::layout::FIRST_PAGE || page >= self.pages() {
            return Err(self.outside_error(page));
        }
        Ok(())
    }

    #[cold]
    fn outside_error(&self, page: u32) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: self.path().to_path_buf(),
            page: Some(page.into()),
            offset: offset_of(page),
            expected: format!("a page number from 2 to {}", self.pages().saturating_sub(1)),
            found: format!("a reference to page {page}"),
        }))
    }

    /// The error for a page that is both in a tree and in the free list.
    #[cold]
    pub(crate) fn not_free(&self, page: u32) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: self.path().to_path_buf(),
            page: Some(page.into()),
            offset: offset_of(page),
            expected: "a page in one place".into(),
            found: "a page both in a tree and in the free list".into(),
        }))
    }

    /// The transaction that wrote `page`, which must be inside the file.
    #[inline]
    pub(crate) fn birth(&self, page: u32) -> Result<u64> {
        self.check_inside(page)?;
        if self.cache.is_some() {
            self.page(PageId(page))?;
        }
        Ok(u64::from_le(self.word64(page, BIRTH_AT).load(Ordering::Relaxed)))
    }

    /// Initializes the header of a newly allocated page: `birth` is the transaction that writes it.
    pub(crate) fn adopt(&self, page: u32, birth: u64) -> Result<()> {
        self.check_inside(page)?;
        match &self.cache {
            // The cache sets the bit itself. It must not be set again here: the page may have been cooled
            // since.
            Some(cache) => self.insert_new(cache, page, birth),
            None => self.set_verified(page),
        }
        self.word32(page, CHECKSUM_AT).store(0, Ordering::Relaxed);
        self.word32(page, NUMBER_AT).store(page.to_le(), Ordering::Relaxed);
        self.word64(page, BIRTH_AT).store(birth.to_le(), Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn set_verified(&self, page: u32) {
        point();
        if let Some(word) = self.verified.get(page as usize / 64) {
            word.fetch_or(1 << (page % 64), Ordering::Release);
        }
    }

    #[inline]
    fn is_verified(&self, page: u32) -> bool {
        match self.verified.get(page as usize / 64) {
            Some(word) => word.load(Ordering::Acquire) >> (page % 64) & 1 == 1,
            None => false,
        }
    }

    pub(super) fn clear_verified(&self, page: u32) {
        point();
        if let Some(word) = self.verified.get(page as usize / 64) {
            word.fetch_and(!(1 << (page % 64)), Ordering::Release);
        }
    }

    pub(super) fn set_rewritten(&self, page: u32) {
        if let Some(word) = self.rewritten.get(page as usize / 64) {
            word.fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }

    pub(super) fn was_rewritten(&self, page: u32) -> bool {
        self.rewritten
            .get(page as usize / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    /// The checksum of everything in the page after the checksum field.
    fn compute_checksum(&self, page: u32) -> u32 {
        // SAFETY: the page is inside the mapped file and is not being written to: it is either unchanged
        // since the file was opened or frozen by the checkpoint that calls this.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.start(page).add(NUMBER_AT), PAGE_SIZE - NUMBER_AT) };
        crc32c::crc32c(bytes)
    }

    /// Stores the checksum of `page`, which no transaction writes to while a checkpoint needs it. With a
    /// cache, also writes the page to the file.
    pub(crate) fn seal(&self, page: u32) -> Result<()> {
        self.check_inside(page)?;
        if let Some(cache) = &self.cache {
            return self.flush(cache, page);
        }
        let checksum = self.compute_checksum(page);
        self.word32(page, CHECKSUM_AT).store(checksum.to_le(), Ordering::Relaxed);
        Ok(())
    }

    /// Verifies the checksum of `page` even if it was verified before; for `check`. Pages written since the
    /// last checkpoint have no checksum yet; the caller must leave them out.
    pub(crate) fn reverify(&self, page: u32) -> Result<()> {
        self.check_inside(page)?;
        if self.cache.is_some() {
            return self.reread(page);
        }
        match self.is_verified(page) {
            true => self.verify(page, u64::MAX),
            // The next reader of the page need not verify it again.
            false => self.first_access(page),
        }
    }

    /// Verifies a page in the map; its birth must be at or before `newest`.
    pub(super) fn verify(&self, page: u32, newest: u64) -> Result<()> {
        let header = PageHeader {
            stored_checksum: u32::from_le(self.word32(page, CHECKSUM_AT).load(Ordering::Relaxed)),
            checksum: self.compute_checksum(page),
            number: u32::from_le(self.word32(page, NUMBER_AT).load(Ordering::Relaxed)),
            birth: u64::from_le(self.word64(page, BIRTH_AT).load(Ordering::Relaxed)),
        };
        self.check_header(page, newest, &header)
    }

    /// Verifies the bytes of a page; its birth must be at or before `newest`.
    pub(super) fn verify_bytes(&self, page: u32, bytes: &[u8; PAGE_SIZE], newest: u64) -> Result<()> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let header = PageHeader {
            stored_checksum: word(CHECKSUM_AT),
            checksum: crc32c::crc32c(&bytes[NUMBER_AT..]),
            number: word(NUMBER_AT),
            birth: u64::from(word(BIRTH_AT)) | u64::from(word(BIRTH_AT + 4)) << 32,
        };
        self.check_header(page, newest, &header)
    }

    /// Decrypts the bytes of a page that were read from the file, and checks that they are those of this page
    /// and that its birth is at or before `newest`.
    pub(super) fn unseal(
        &self,
        secret: &Secret,
        page: u32,
        bytes: &mut [u8; PAGE_SIZE],
        newest: u64,
    ) -> Result<()> {
        let (header, rest) = bytes.split_at_mut(HEADER);
        let (content, seal) = rest.split_at_mut(SEALED_PAYLOAD);
        let opened = match <&[u8; SEAL]>::try_from(&*seal) {
            Ok(seal) => secret.keys.pages.open(header, content, seal),
            Err(_) => false,
        };
        if !opened {
            return Err(Error::Corrupt(Box::new(Corruption {
                file: self.path().to_path_buf(),
                page: Some(page.into()),
                offset: offset_of(page),
                expected: "a page sealed with the database's key".into(),
                found: "bytes that fail authentication".into(),
            })));
        }
        // The seal authenticates the header, so these are the bytes of a page of this file; the header tells
        // which one.
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let birth = u64::from(word(BIRTH_AT)) | u64::from(word(BIRTH_AT + 4)) << 32;
        let header = PageHeader { stored_checksum: 0, checksum: 0, number: word(NUMBER_AT), birth };
        self.check_header(page, newest, &header)
    }

    fn check_header(&self, page: u32, newest: u64, header: &PageHeader) -> Result<()> {
        let damaged = |at: usize, expected: String, found: String| {
            Err(Error::Corrupt(Box::new(Corruption {
                file: self.path().to_path_buf(),
                page: Some(page.into()),
                offset: offset_of(page) + at as u64,
                expected,
                found,
            })))
        };
        let &PageHeader { stored_checksum, checksum, number, birth } = header;
        if stored_checksum != checksum {
            let found = format!("{stored_checksum:#010x}");
            return damaged(CHECKSUM_AT, format!("checksum {checksum:#010x}"), found);
        }
        if number != page {
            return damaged(NUMBER_AT, format!("page number {page}"), number.to_string());
        }
        if birth > newest {
            return damaged(BIRTH_AT, format!("birth at or before transaction {newest}"), birth.to_string());
        }
        Ok(())
    }

    #[cold]
    fn first_access(&self, page: u32) -> Result<()> {
        self.check_inside(page)?;
        if let Some(cache) = &self.cache {
            return self.fetch(cache, page);
        }
        self.verify(page, self.opened_at)?;
        self.set_verified(page);
        Ok(())
    }

    /// Must be called before writing to `page`, which was allocated by transaction `birth`, the one in
    /// progress.
    #[inline]
    pub(crate) fn will_store(&self, page: u32, birth: u64) -> Result<()> {
        match &self.cache {
            None => Ok(()),
            Some(cache) => self.mark_dirty(cache, page, birth),
        }
    }

    /// The payload of `page`, for writing.
    ///
    /// # Safety
    /// The caller is the only writer, and there is no other slice of this payload: the page was allocated by
    /// the transaction in progress and no slice of it was given to a reader. In a file that is not mapped,
    /// the page must be in memory and stay there: [`View::adopt`] or [`View::will_store`] was called before,
    /// in the same epoch, or the page is pinned.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "exclusivity is the caller's promise, not the borrow checker's")]
    pub(crate) unsafe fn payload_mut(&self, page: u32) -> Result<&mut [u8]> {
        self.check_inside(page)?;
        // SAFETY: the page is inside the mapped file (checked); access is exclusive by this function's
        // contract.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start(page).add(HEADER), self.payload) })
    }
}

impl PageSource for View {
    #[inline]
    fn page(&self, id: PageId) -> Result<&[u8]> {
        let page = id.0;
        point();
        if !self.is_verified(page) {
            self.first_access(page)?;
        }
        point();
        // SAFETY: the page is inside the mapped file: the bit of a page beyond the end is never set. By the
        // layer's first invariant the payload is not written to while a reader that can reach the page is
        // alive.
        Ok(unsafe { std::slice::from_raw_parts(self.start(page).add(HEADER), self.payload) })
    }

    #[inline]
    fn prefetch_lines(&self, id: PageId, from: usize, lines: usize) {
        let page = self.base.as_ptr().wrapping_add(id.0 as usize * PAGE_SIZE);
        prefetch_from(page.wrapping_add(from * LINE), lines);
    }

    #[cold]
    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: self.path().to_path_buf(),
            page: Some(id.0.into()),
            offset: offset_of(id.0) + (HEADER + at) as u64,
            expected: expected.to_owned(),
            found: found.to_owned(),
        }))
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("file", &self.path())
            .field("pages", &self.pages())
            .finish_non_exhaustive()
    }
}
