//! Changes to pages as atomic WAL records, all of the server's generic resource manager: every server can replay them,
//! without this library.
//!
//! [`write`] is the one way in which pages are changed that are logged page by page. It writes to up to four pages in
//! place, in a critical section, and logs that as one record; what is written was put together before, so an error in the
//! middle of that, a Rust panic included, leaves all pages as they were. What is logged of a page is said by
//! [`Write`]: bytes at offsets, where a new content differs from the old one, or the page as a whole.
//!
//! Redo locks the pages in the order in which they are given: parents before children, left before right, the order in
//! which readers lock on a standby. It writes the fragments of a page that has no image in the record, then fills the
//! page's hole with zeros; so nothing of the hole is logged, and nothing but zeros is written there: what a damaged page has in
//! its hole is read by nobody.
//!
//! An image being put together is a [`PageImage`].

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

use pgrx::pg_sys;

use super::buffer::{Exclusive, PAGE_SIZE, Page, hole_of};
use super::compat;
use super::relation::{Index, Table};

/// The most pages that one record changes.
const MOST_PAGES: usize = pg_sys::MAX_GENERIC_XLOG_PAGES as usize;
/// The most bytes that a record has of one page beside its image: for more the server raises an error, when it is too late.
const MOST_LOGGED: usize = u16::MAX as usize;
/// Bytes at the front of a page that are the server's log position.
const FRONT: usize = size_of::<pg_sys::PageXLogRecPtr>();
/// Where the server's header ends.
const HEADER: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);

/// Bytes and where in the page they belong.
pub(crate) type Part<'w> = (usize, &'w [u8]);

/// What is written to a page.
#[derive(Clone, Copy)]
pub(crate) enum Write<'w> {
    /// These bytes, which lie outside the page's hole as its header says afterwards, but for zeros. Parts that follow one
    /// another without a gap are logged as one.
    Parts(&'w [Part<'w>]),
    /// The new content of a page that has a similar one: logged is where they differ.
    Content(&'w PageImage),
    /// The content of a page whose old one is of no use: logged is all of it but the hole.
    Image(&'w PageImage),
}

/// The content of a page that is being put together, in memory that the next one uses again.
pub(crate) struct PageImage(Vec<u8>);

/// Images in use at a time, of which the memory is kept.
const SPARE_IMAGES: usize = MOST_PAGES;

thread_local! {
    /// Memory of images that are not in use.
    static SPARE: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
    /// Memory for the fragments of a record.
    static FRAGMENTS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl PageImage {
    /// A copy of a page.
    pub(crate) fn of(page: &[u8]) -> PageImage {
        let mut spare = SPARE.take();
        let mut bytes = spare.pop().unwrap_or_default();
        SPARE.set(spare);
        bytes.clear();
        bytes.extend_from_slice(page);
        bytes.resize(PAGE_SIZE, 0);
        PageImage(bytes)
    }

    /// No content yet.
    pub(crate) fn empty() -> PageImage {
        PageImage::of(&[])
    }
}

impl Deref for PageImage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for PageImage {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for PageImage {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        // Where the thread ends, there is no place for it any more.
        let _ = SPARE.try_with(|spare| {
            let mut kept = spare.take();
            if kept.len() < SPARE_IMAGES {
                kept.push(bytes);
            }
            spare.set(kept);
        });
    }
}

/// Writes to up to four pages, each another one, and logs that as one record, if changes of the index are logged.
pub(crate) fn write(index: Index<'_>, pages: &mut [(&mut Page<Exclusive>, Write<'_>)]) {
    if let Some((page, _)) = pages.get(MOST_PAGES) {
        super::error::corrupted(&index.shown(), page.block(), "a change needs more pages than a record has");
    }
    let logged = index.needs_wal();
    let mut fragments = FRAGMENTS.take();
    fragments.clear();
    // Where the fragments of each page end; of one that is logged as a whole there are none.
    let mut ends = [0; MOST_PAGES];
    let mut end_before = 0;
    for ((page, write), end) in pages.iter().zip(&mut ends) {
        if let Err(what) = fragments_of(page.bytes(), *write, logged, &mut fragments) {
            super::error::corrupted(&index.shown(), page.block(), what);
        }
        if fragments.len() - end_before > MOST_LOGGED {
            let what = "a change is longer than what a record can have of a page";
            super::error::corrupted(&index.shown(), page.block(), what);
        }
        *end = fragments.len();
        end_before = *end;
    }
    // SAFETY: the pages are pinned, and locked exclusively by their owners, which are borrowed exclusively. All that is
    // written lies in them, as was just seen; the fragments outlive the record. Nothing between the counters allocates, or
    // raises an error but the server's WAL machinery, which must stop the server then.
    unsafe {
        pg_sys::CritSectionCount += 1;
        for (page, write) in pages.iter() {
            let start = pg_sys::BufferGetPage(page.buffer()).cast::<u8>();
            match write {
                Write::Parts(parts) => {
                    for (at, bytes) in *parts {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(*at), bytes.len());
                    }
                }
                Write::Content(image) | Write::Image(image) => {
                    std::ptr::copy_nonoverlapping(
                        image.as_ptr().add(FRONT),
                        start.add(FRONT),
                        PAGE_SIZE - FRONT,
                    );
                }
            }
            pg_sys::MarkBufferDirty(page.buffer());
        }
        if logged {
            pg_sys::XLogBeginInsert();
            let mut from = 0;
            for (number, ((page, write), end)) in pages.iter().zip(ends).enumerate() {
                let image = if let Write::Image(_) = write { pg_sys::REGBUF_FORCE_IMAGE } else { 0 };
                let flags = pg_sys::REGBUF_STANDARD | image;
                pg_sys::XLogRegisterBuffer(number as u8, page.buffer(), flags as u8);
                if from < end {
                    compat::register_buffer_data(number as u8, fragments.get(from..end).unwrap_or(&[]));
                }
                from = end;
            }
            let end = pg_sys::XLogInsert(pg_sys::RmgrIds::RM_GENERIC_ID as u8, 0);
            let position = pg_sys::PageXLogRecPtr { xlogid: (end >> 32) as u32, xrecoff: end as u32 };
            for (page, _) in pages.iter() {
                pg_sys::BufferGetPage(page.buffer()).cast::<pg_sys::PageXLogRecPtr>().write(position);
            }
        }
        pg_sys::CritSectionCount -= 1;
    }
    FRAGMENTS.set(fragments);
}

/// Checks that what is written to a page lies in it, and appends what is `logged` of it to `out`: fragments as redo reads
/// them, an offset and a length in the machine's byte order and the bytes.
fn fragments_of(page: &[u8], write: Write<'_>, logged: bool, out: &mut Vec<u8>) -> Result<(), String> {
    match write {
        Write::Parts(parts) => {
            let mut last = 0..0;
            let Range { start, end } = hole_after(page, parts);
            for (at, bytes) in parts {
                if bytes.len() > PAGE_SIZE || *at > PAGE_SIZE - bytes.len() || *at < FRONT {
                    return Err("a change reaches beyond the page".into());
                }
                let in_hole = start.saturating_sub(*at)..end.saturating_sub(*at).min(bytes.len());
                if bytes.get(in_hole).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                    return Err(format!("a change lies in the hole from byte {start} to {end}"));
                }
                if !logged || bytes.is_empty() {
                    continue;
                }
                last = match last.end == *at {
                    true => {
                        out.extend_from_slice(bytes);
                        last.start..at + bytes.len()
                    }
                    false => {
                        put_fragment(*at, bytes, out);
                        *at..at + bytes.len()
                    }
                };
                let len = out.len();
                if let Some(place) = len.checked_sub(last.len() + 2).and_then(|at| out.get_mut(at..at + 2)) {
                    place.copy_from_slice(&(last.len() as u16).to_ne_bytes());
                }
            }
        }
        Write::Content(image) => {
            for part in used(image)? {
                if logged {
                    put_differences(page, image, part, out);
                }
            }
        }
        Write::Image(image) => _ = used(image)?,
    }
    Ok(())
}

/// The parts of a page that are written: all but the log position and the hole.
fn used(image: &[u8]) -> Result<[Range<usize>; 3], String> {
    let Range { start: lower, end: upper } = hole_of(image);
    if image.len() != PAGE_SIZE || lower < HEADER || upper < lower || upper > PAGE_SIZE {
        return Err(format!("a change leaves a hole from byte {lower} to {upper}"));
    }
    Ok([FRONT..HEADER, HEADER..lower, upper..PAGE_SIZE])
}

/// The hole that a page has once these parts are written.
fn hole_after(page: &[u8], parts: &[Part<'_>]) -> Range<usize> {
    let mut header = [0; HEADER];
    for (at, bytes) in [(0, page)].iter().chain(parts) {
        for (place, byte) in header.iter_mut().skip(*at).zip(*bytes) {
            *place = *byte;
        }
    }
    hole_of(&header)
}

fn put_fragment(at: usize, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(at as u16).to_ne_bytes());
    out.extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
    out.extend_from_slice(bytes);
}

/// Appends fragments with the bytes of a part that differ. As many bytes as a step has, or more, that are the same end a
/// fragment: to look for fewer costs more than to log them.
fn put_differences(old: &[u8], new: &[u8], part: Range<usize>, out: &mut Vec<u8>) {
    const STEP: usize = 32;
    let (Some(old), Some(new)) = (old.get(part.clone()), new.get(part.clone())) else { return };
    let mut put = |from: usize, to: usize| {
        let (Some(old), Some(new)) = (old.get(from..to), new.get(from..to)) else { return };
        let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let behind = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        if let Some(bytes) = new.get(before..new.len() - behind) {
            put_fragment(part.start + from + before, bytes, out);
        }
    };
    let mut differs_from = None;
    for (step, (old, new)) in old.chunks(STEP).zip(new.chunks(STEP)).enumerate() {
        match (old == new, differs_from) {
            (true, Some(from)) => {
                put(from, step * STEP);
                differs_from = None;
            }
            (false, None) => differs_from = Some(step * STEP),
            _ => {}
        }
    }
    if let Some(from) = differs_from {
        put(from, new.len());
    }
}

/// Number of the server's btree record "a page is reused", which only resolves conflicts: its redo cancels the queries of
/// a standby that may need rows removed by transactions up to the horizon.
const XLOG_BTREE_REUSE_PAGE: u8 = 0xD0;

/// Logs that entries of rows removed by transactions up to `horizon` are about to be removed from a page.
pub(super) fn log_snapshot_conflict(
    table: Table<'_>,
    index: Index<'_>,
    block: u32,
    horizon: pg_sys::TransactionId,
) {
    if !index.needs_wal() || horizon == pg_sys::InvalidTransactionId {
        return;
    }
    // SAFETY: open relations; the data outlives the record.
    unsafe {
        if pg_sys::wal_level < pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32 {
            return;
        }
        let next = pg_sys::ReadNextFullTransactionId().value;
        // The horizon lies in the past, so it is of this epoch or, if its number is above the next one, of the last.
        let epoch = (next >> 32).wrapping_sub(u64::from(horizon.into_inner() > next as u32));
        let horizon = epoch << 32 | u64::from(horizon.into_inner());
        let data = compat::ReusedPage::new(table.raw(), index.raw(), block, horizon);
        pg_sys::XLogBeginInsert();
        compat::register_data(data.bytes());
        pg_sys::XLogInsert(pg_sys::RmgrIds::RM_BTREE_ID as u8, XLOG_BTREE_REUSE_PAGE);
    }
}

/// How far the WAL has been written; on a standby, replayed.
pub(crate) fn position() -> u64 {
    // SAFETY: plain questions to the server; no place for the timeline is asked for.
    unsafe {
        if pg_sys::RecoveryInProgress() {
            pg_sys::GetXLogReplayRecPtr(std::ptr::null_mut())
        } else {
            pg_sys::GetXLogInsertRecPtr()
        }
    }
}

/// Pages that are logged in one record at most.
pub(crate) const PAGES: u32 = pg_sys::XLR_MAX_BLOCK_ID;

/// Logs pages of the main fork as wholes, if changes of the index are logged: those that a build has written.
pub(crate) fn log_pages(index: Index<'_>, blocks: Range<u32>) {
    if index.needs_wal() {
        let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
        // SAFETY: an open relation with these blocks, all of which have been written, and none of which is locked by us.
        unsafe { pg_sys::log_newpage_range(index.raw(), fork, blocks.start, blocks.end, true) };
    }
}
