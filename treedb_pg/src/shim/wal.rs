//! Changes to pages as atomic WAL records, all of the server's generic resource manager: every server can replay them,
//! without this library.
//!
//! [`patch`] is for small changes of one page, such as inserts: it writes bytes in place and logs just these;
//! [`patch_pages`] does so for up to four pages. [`rewrite`] puts a page's new content in place and logs from where to
//! where it differs. For everything else, a [`Change`] works on copies of up to four pages, which it borrows exclusively
//! until it ends. Committing writes one generic WAL record and puts the copies in place; dropping it leaves the pages as
//! they were. So an error in the middle of a change, a Rust panic included, never leaves half of it behind. On a standby,
//! redo locks the pages in the order in which they were registered: parents before children, left before right, the
//! order in which readers lock there.

use std::marker::PhantomData;

use pgrx::pg_sys;

use super::buffer::{Exclusive, PAGE_SIZE, Page};
use super::compat;
use super::relation::{Index, Table};

/// Writes each part of `parts`, bytes at an offset of the page, in place, and logs them. The parts lie outside the
/// page's hole, as its header says afterwards; bytes of the hole are zero.
pub(crate) fn patch<const N: usize>(
    index: Index<'_>,
    page: &mut Page<Exclusive>,
    parts: [(usize, &[u8]); N],
) {
    // A record has room for 20 pieces of data: an offset and a length before each part.
    const { assert!(2 * N < 20) };
    if parts.iter().any(|(at, bytes)| at + bytes.len() > PAGE_SIZE) {
        super::error::corrupted(&index.shown(), page.block(), "a change reaches beyond the page");
    }
    // Redo reads them in the byte order of the machine.
    let heads: [[u8; 4]; N] = std::array::from_fn(|i| {
        let (at, len) = parts.get(i).map_or((0, 0), |(at, bytes)| (*at as u16, bytes.len() as u16));
        let ([a, b], [c, d]) = (at.to_ne_bytes(), len.to_ne_bytes());
        [a, b, c, d]
    });
    // SAFETY: all parts lie in the page; `heads` and `parts` outlive the record.
    unsafe {
        write_logged(
            index,
            &mut [page],
            |_, start| {
                for (at, bytes) in &parts {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(*at), bytes.len());
                }
            },
            || {
                for (head, (_, bytes)) in heads.iter().zip(&parts) {
                    compat::register_buffer_data(0, head);
                    compat::register_buffer_data(0, bytes);
                }
            },
        );
    }
}

/// Bytes to be written to a page, each part at an offset.
pub(crate) type PageParts = Vec<(usize, Vec<u8>)>;

/// A page, and what is to be written to it.
pub(crate) struct PagePatch<'p> {
    pub(crate) page: &'p mut Page<Exclusive>,
    pub(crate) parts: PageParts,
}

/// Writes to up to four pages in place, and logs that as one record. The parts lie outside the holes of their pages.
pub(crate) fn patch_pages(index: Index<'_>, patches: &mut [PagePatch<'_>]) {
    let too_many = patches.len() > pg_sys::MAX_GENERIC_XLOG_PAGES as usize;
    let mut fragments = Vec::with_capacity(patches.len());
    for patch in patches.iter() {
        if too_many || patch.parts.iter().any(|(at, bytes)| at + bytes.len() > PAGE_SIZE) {
            super::error::corrupted(&index.shown(), patch.page.block(), "a change reaches beyond its pages");
        }
        let mut data: Vec<u8> = Vec::new();
        for (at, bytes) in &patch.parts {
            data.extend_from_slice(&(*at as u16).to_ne_bytes());
            data.extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
            data.extend_from_slice(bytes);
        }
        fragments.push(data);
    }
    let (mut pages, parts): (Vec<&mut Page<Exclusive>>, Vec<&PageParts>) =
        patches.iter_mut().map(|patch| (&mut *patch.page, &patch.parts)).unzip();
    // SAFETY: all parts lie in their pages; `fragments` and `parts` outlive the record.
    unsafe {
        write_logged(
            index,
            &mut pages,
            |number, start| {
                for (at, bytes) in parts.get(number).copied().into_iter().flatten() {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(*at), bytes.len());
                }
            },
            || {
                for (number, data) in fragments.iter().enumerate() {
                    compat::register_buffer_data(number as u8, data);
                }
            },
        );
    }
}

/// Writes to pages in place, and logs that with the data that `register` registers, fragments of the pages.
///
/// # Safety
/// At most four pages. `write` gets the number and the first byte of each, and writes no further than the page;
/// `register` registers data of blocks of these numbers that outlives the call. Neither allocates, nor raises an error but
/// the server's WAL machinery's, which stops the server here.
unsafe fn write_logged(
    index: Index<'_>,
    pages: &mut [&mut Page<Exclusive>],
    write: impl Fn(usize, *mut u8),
    register: impl FnOnce(),
) {
    let logged = index.needs_wal();
    // SAFETY: the pages are pinned, and locked exclusively by their owners, which are borrowed exclusively; the rest is
    // the caller's.
    unsafe {
        pg_sys::CritSectionCount += 1;
        for (number, page) in pages.iter().enumerate() {
            write(number, pg_sys::BufferGetPage(page.buffer()).cast());
            pg_sys::MarkBufferDirty(page.buffer());
        }
        if logged {
            pg_sys::XLogBeginInsert();
            for (number, page) in pages.iter().enumerate() {
                pg_sys::XLogRegisterBuffer(number as u8, page.buffer(), pg_sys::REGBUF_STANDARD as u8);
            }
            register();
            let end = pg_sys::XLogInsert(pg_sys::RmgrIds::RM_GENERIC_ID as u8, 0);
            let position = pg_sys::PageXLogRecPtr { xlogid: (end >> 32) as u32, xrecoff: end as u32 };
            for page in pages.iter() {
                pg_sys::BufferGetPage(page.buffer()).cast::<pg_sys::PageXLogRecPtr>().write(position);
            }
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// Puts `image`, the new content of a page, in place. Logged is, for each part of the page, what lies between the first
/// and the last byte that differ: finding all that are the same in between costs more than logging them. The server's
/// log position and checksum at the front stay as they are; bytes of the hole are zero.
pub(crate) fn rewrite(index: Index<'_>, page: &mut Page<Exclusive>, image: &[u8; PAGE_SIZE]) {
    const FRONT: usize = size_of::<pg_sys::PageXLogRecPtr>();
    const HEADER: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);
    let int = |at: usize| {
        image.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| usize::from(u16::from_ne_bytes(*b)))
    };
    let (lower, upper) = (int(12), int(14));
    if lower < HEADER || upper < lower || upper > PAGE_SIZE {
        let what = format!("a change leaves a hole from byte {lower} to {upper}");
        super::error::corrupted(&index.shown(), page.block(), what);
    }
    let mut data: Vec<u8> = Vec::with_capacity(PAGE_SIZE + 64);
    for part in [FRONT..HEADER, HEADER..lower, upper..PAGE_SIZE] {
        let (Some(old), Some(new)) = (page.bytes().get(part.clone()), image.get(part.clone())) else {
            continue;
        };
        let same = common_front(old, new);
        if same == new.len() {
            continue;
        }
        let same_behind = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        let bytes = new.get(same..new.len() - same_behind).unwrap_or(&[]);
        data.extend_from_slice(&((part.start + same) as u16).to_ne_bytes());
        data.extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
        data.extend_from_slice(bytes);
    }
    if data.is_empty() {
        return;
    }
    // SAFETY: `image` is as long as the page; `data` outlives the record.
    unsafe {
        write_logged(
            index,
            &mut [page],
            |_, start| {
                let rest = PAGE_SIZE - FRONT;
                std::ptr::copy_nonoverlapping(image.as_ptr().add(FRONT), start.add(FRONT), rest);
            },
            || compat::register_buffer_data(0, &data),
        );
    }
}

/// How many bytes two parts begin with that are the same.
fn common_front(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 64;
    let same = a.chunks(STEP).zip(b.chunks(STEP)).take_while(|(a, b)| a == b).count() * STEP;
    let rest = a.iter().skip(same).zip(b.iter().skip(same)).take_while(|(a, b)| a == b).count();
    (same + rest).min(b.len())
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

/// What happens to the content that a page has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Changed here and there: the record has the bytes that changed.
    Edited,
    /// Written anew: the record has the whole page.
    Replaced,
}

/// A change being prepared, of pages that are locked for `'p`.
pub(crate) struct Change<'p> {
    state: *mut pg_sys::GenericXLogState,
    pages: PhantomData<&'p mut Page<Exclusive>>,
}

impl<'p> Change<'p> {
    /// Begins a change of pages of `index`.
    pub(crate) fn begin(index: Index<'_>) -> Change<'p> {
        // SAFETY: an open relation.
        Change { state: unsafe { pg_sys::GenericXLogStart(index.raw()) }, pages: PhantomData }
    }

    /// Registers all pages of the change, at most four, and returns their copies in the same order.
    pub(crate) fn pages<const N: usize>(
        &mut self,
        pages: [(&'p mut Page<Exclusive>, Content); N],
    ) -> [&mut [u8]; N] {
        const { assert!(N <= pg_sys::MAX_GENERIC_XLOG_PAGES as usize) };
        pages.map(|(page, content)| {
            let flags = if content == Content::Replaced { pg_sys::GENERIC_XLOG_FULL_IMAGE as i32 } else { 0 };
            // SAFETY: each page is another one, being borrowed exclusively for longer than the record is prepared,
            // so each copy is its own memory (an error if there are more than four). The copies live as long as the
            // state, which ends with `self`.
            unsafe {
                let copy = pg_sys::GenericXLogRegisterBuffer(self.state, page.buffer(), flags);
                std::slice::from_raw_parts_mut(copy.cast::<u8>(), PAGE_SIZE)
            }
        })
    }

    /// Logs the change and carries it out.
    pub(crate) fn commit(self) {
        let state = self.state;
        std::mem::forget(self);
        // SAFETY: begun by us; the pages are still locked, and nobody has a view of them.
        unsafe { pg_sys::GenericXLogFinish(state) };
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: begun by us and not finished.
            unsafe { pg_sys::GenericXLogAbort(self.state) }
        }
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

/// Logs every page of the main fork as a whole, if changes of the index are logged: the end of a build.
pub(crate) fn log_pages(index: Index<'_>) {
    if index.needs_wal() {
        let (fork, blocks) = (pg_sys::ForkNumber::MAIN_FORKNUM, index.blocks());
        // SAFETY: an open relation, all of whose blocks have been written and none of which is locked by us.
        unsafe { pg_sys::log_newpage_range(index.raw(), fork, 0, blocks, true) };
    }
}
