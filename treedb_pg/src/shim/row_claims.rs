//! Which process of a parallel plan returns the rows of which blocks, where each of them finds all rows by an index.
//!
//! The blocks of a table are in groups. The first process that comes across a row of a group claims the group, and returns all
//! rows of it that it finds; the others pass them by. So each row that the snapshot shows is returned once, since
//!
//! * each process finds each of these rows once, though perhaps with others that the snapshot does not show, as indexes change
//!   between the beginnings of two processes;
//! * it does so under the same block: whichever index leads to a row, and whether to the root of its HOT chain or to a member,
//!   these lie in one block;
//! * a claim never changes: whoever claims a group has come across none of its rows before, or would have claimed it then.
//!
//! Layout of the shared memory: [`Head`], then for each group the number of the process that has claimed it (u16), 0 for none.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use pgrx::pg_sys;

/// Most groups of a table.
const MOST_GROUPS: usize = 8192;

#[repr(C)]
struct Head {
    /// Blocks of a group; the last group has all blocks that are left.
    blocks: u32,
    groups: u32,
    /// Entries of indexes that the processes have visited.
    keys: AtomicU64,
}

/// The claims, as one of the processes sees them.
#[derive(Clone, Copy)]
pub(crate) struct RowClaims {
    head: *mut Head,
    /// What this process claims groups with.
    process: u16,
}

/// Groups of a table of so many blocks.
fn groups_of(blocks: u32) -> usize {
    (blocks as usize).clamp(1, MOST_GROUPS)
}

impl RowClaims {
    /// How many bytes the claims on a table of so many blocks take.
    pub(super) fn size(blocks: u32) -> usize {
        size_of::<Head>() + groups_of(blocks) * size_of::<AtomicU16>()
    }

    /// Makes them, without any claim.
    ///
    /// # Safety
    /// `place` has as many bytes as [`RowClaims::size`] said of so many blocks, aligned as the server aligns memory, which nobody
    /// else uses; they stay as long as the result is used.
    pub(super) unsafe fn make(place: *mut c_void, blocks: u32) -> RowClaims {
        let groups = groups_of(blocks);
        // SAFETY: the caller's; zeros are groups without a claim.
        unsafe {
            let head = place.cast::<Head>();
            head.write(Head {
                blocks: blocks.div_ceil(groups as u32).max(1),
                groups: groups as u32,
                keys: AtomicU64::new(0),
            });
            head.add(1).cast::<AtomicU16>().write_bytes(0, groups);
            RowClaims::at(place)
        }
    }

    /// Those that were made at a place.
    ///
    /// # Safety
    /// [`RowClaims::make`] was called with it, and it stays as long as the result is used.
    pub(super) unsafe fn at(place: *mut c_void) -> RowClaims {
        // SAFETY: a variable of the backend: -1 in the leader, a small number in its workers.
        let worker = unsafe { pg_sys::ParallelWorkerNumber };
        RowClaims { head: place.cast(), process: u16::try_from(worker + 2).unwrap_or(u16::MAX) }
    }

    /// Whether this process returns the rows of a block.
    pub(crate) fn claim(&self, block: u32) -> bool {
        // SAFETY: made by `make`, with an element for each group.
        let group = unsafe {
            let head = &*self.head;
            let group = (block / head.blocks).min(head.groups - 1) as usize;
            &*self.head.add(1).cast::<AtomicU16>().add(group)
        };
        let claimed = match group.load(Ordering::Relaxed) {
            0 => group.compare_exchange(0, self.process, Ordering::Relaxed, Ordering::Relaxed),
            owner => Err(owner),
        };
        claimed.map_or_else(|owner| owner == self.process, |_| true)
    }

    /// Takes all claims back.
    ///
    /// # Safety
    /// No process makes claims now.
    pub(super) unsafe fn clear(&self) {
        // SAFETY: the caller's; as above.
        unsafe {
            let groups = (*self.head).groups as usize;
            self.head.add(1).cast::<AtomicU16>().write_bytes(0, groups);
        }
    }

    /// Notes that this process has visited more entries of indexes.
    pub(crate) fn add_keys(&self, keys: u64) {
        // SAFETY: made by `make`.
        unsafe { (*self.head).keys.fetch_add(keys, Ordering::Relaxed) };
    }

    /// How many entries all processes have visited.
    pub(crate) fn keys(&self) -> u64 {
        // SAFETY: made by `make`.
        unsafe { (*self.head).keys.load(Ordering::Relaxed) }
    }
}
