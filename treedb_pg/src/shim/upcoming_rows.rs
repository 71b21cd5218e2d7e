//! Rows of a table that the executor is about to fetch, wherever they are: the processor is asked for them before, or the disk.
//!
//! Only that it takes less time depends on what is here: buffers may hold other pages by now, and pages other rows.

use std::sync::atomic::{AtomicU32, Ordering};

use pgrx::pg_sys;
use treedb_vector::kernel::prefetch_line;

use super::buffer::PAGE_SIZE;
use super::heap;
use super::relation::Relation;

/// Blocks that are remembered of a table.
const BLOCKS: usize = 1 << 13;
/// One of so many blocks is looked up although it is known where it was: it may be elsewhere by now.
const LOOKED_UP: u32 = 16;
/// Where a page points to its first row, and the bytes of such a pointer.
const POINTERS: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);
const POINTER: usize = size_of::<pg_sys::ItemIdData>();
/// Bits of a pointer that say where in the page the row is.
const PLACE: u32 = 0x7fff;
/// Bytes of a row that are asked for: its header, and columns of fixed width. They may be in two cache lines.
const LINE: usize = 64;

/// In which buffers the blocks of a table were found. Of two blocks with one place here, the later one is remembered.
#[derive(Default)]
pub(crate) struct UpcomingRows {
    places: Vec<(u32, pg_sys::Buffer)>,
    turn: u32,
}

impl UpcomingRows {
    /// Asks for what the executor reads of a page before it comes to a row. If the page is in no buffer, the disk is asked for it, unless the
    /// server is set to ask for none before it is needed. The table has the block.
    pub(crate) fn prefetch_page(&mut self, table: Relation<'_>, row: pg_sys::ItemPointerData) {
        // SAFETY: a setting of this backend.
        if table.is_temporary() || unsafe { pg_sys::effective_io_concurrency } == 0 {
            return;
        }
        if self.places.is_empty() {
            self.places.resize(BLOCKS, (0, 0));
        }
        let (block, _) = heap::tid_parts(row);
        let Some(place) = self.places.get_mut(block as usize % BLOCKS) else { return };
        self.turn = (self.turn + 1) % LOOKED_UP;
        if place.0 != block || place.1 <= 0 || self.turn == 0 {
            // SAFETY: an open relation.
            let found =
                unsafe { pg_sys::PrefetchBuffer(table.raw(), pg_sys::ForkNumber::MAIN_FORKNUM, block) };
            *place = (block, found.recent_buffer);
        }
        let Some((buffer, page, pointer)) = self.page(row) else { return };
        // SAFETY: the array of the server's, of which nothing is read.
        let descriptors = unsafe { pg_sys::BufferDescriptors };
        prefetch_line(descriptors.wrapping_add(buffer as usize - 1).cast());
        prefetch_line(page);
        prefetch_line(page.wrapping_add(pointer));
    }

    /// Asks for the row itself, some time after [`UpcomingRows::prefetch_page`].
    pub(crate) fn prefetch_row(&self, row: pg_sys::ItemPointerData) {
        let Some((_, page, pointer)) = self.page(row) else { return };
        // SAFETY: four bytes of a shared buffer, on a boundary of four; others may write them meanwhile, as whole words.
        let pointer = unsafe { AtomicU32::from_ptr(page.wrapping_add(pointer).cast()) };
        let place = ((pointer.load(Ordering::Relaxed) & PLACE) as usize).min(PAGE_SIZE - LINE);
        prefetch_line(page.wrapping_add(place));
        prefetch_line(page.wrapping_add(place + LINE - 1));
    }

    /// The buffer that may hold a row's page, where that is, and where in it the pointer to the row.
    fn page(&self, row: pg_sys::ItemPointerData) -> Option<(pg_sys::Buffer, *mut u8, usize)> {
        let (block, number) = heap::tid_parts(row);
        let (_, buffer) =
            *self.places.get(block as usize % BLOCKS).filter(|place| place.0 == block && place.1 > 0)?;
        let pointer = POINTERS + POINTER * usize::from(number).checked_sub(1)?;
        // SAFETY: a shared buffer of this number was found, and buffers stay where they are.
        let page = unsafe { pg_sys::BufferGetPage(buffer) };
        (pointer + POINTER <= PAGE_SIZE).then_some((buffer, page.cast(), pointer))
    }
}
