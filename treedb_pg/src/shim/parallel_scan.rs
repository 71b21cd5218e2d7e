//! Parallel index scans: the place in shared memory where the processes of a scan agree on who reads which page.
//!
//! One process at a time has the turn: it takes the place where the scan goes on, reads the page there, and passes on
//! the place after it before it works on the page's entries. The others wait on a condition variable meanwhile.
//!
//! Layout of the shared state, [`Shared`]: the condition variable, the phase, and the place, which is read and written
//! only by the process that has the turn. A process that fails while it has the turn leaves the phase as it is: its
//! error ends the whole query, and those who wait take the interrupt.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use pgrx::pg_sys;

use super::buffer::PAGE_SIZE;
use super::compat;
use super::error::{REINDEX, SqlState, fail_with_detail};

/// Longest key of a place: a page's bound, of which two fit a page.
const LONGEST_KEY: usize = PAGE_SIZE / 2;

/// Nobody has the turn.
const IDLE: u32 = 0;
/// Somebody has the turn.
const TAKEN: u32 = 1;
/// The scan has reached its end.
const DONE: u32 = 2;

/// Values of [`Stored::range`] and [`Stored::key_len`] for nothing.
const NONE: u32 = u32::MAX;

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At its beginning.
    Beginning,
    /// At the first page of this range of its conditions.
    Range(usize),
    /// Within a range, of which `leaves` leaves have been read: beside `key`, on page `block` or, if that is not known,
    /// wherever a descent to the key leads.
    Beside { range: usize, block: Option<u32>, key: Vec<u8>, leaves: u32 },
}

/// A [`Place`] in shared memory.
#[repr(C)]
struct Stored {
    range: u32,
    block: u32,
    key_len: u32,
    leaves: u32,
    key: [u8; LONGEST_KEY],
}

/// What the processes share.
#[repr(C)]
pub(super) struct Shared {
    passed_on: UnsafeCell<pg_sys::ConditionVariable>,
    phase: AtomicU32,
    place: UnsafeCell<Stored>,
}

/// How many bytes a scan's shared state takes.
pub(super) const SIZE: usize = size_of::<Shared>();

/// Makes the state of a scan that has not begun.
///
/// # Safety
/// `target` has [`SIZE`] bytes, aligned as the server aligns memory, which nobody else uses yet.
pub(super) unsafe fn init(target: *mut c_void) {
    // SAFETY: the caller's; all fields are written before the memory is used as a `Shared`.
    unsafe {
        std::ptr::write_bytes(target.cast::<u8>(), 0, SIZE);
        let shared = target.cast::<Shared>();
        pg_sys::ConditionVariableInit(UnsafeCell::raw_get(&raw const (*shared).passed_on));
        reset(&*shared);
    }
}

/// Makes a scan begin again.
///
/// # Safety
/// No other process takes part in the scan now.
pub(super) unsafe fn reset(shared: &Shared) {
    // SAFETY: the caller's.
    unsafe { (*shared.place.get()).put(&Place::Beginning) };
    shared.phase.store(IDLE, Ordering::Release);
}

impl Stored {
    fn put(&mut self, place: &Place) {
        (self.range, self.block, self.key_len) = (NONE, NONE, NONE);
        match place {
            Place::Beginning => {}
            Place::Range(range) => self.range = *range as u32,
            Place::Beside { range, block, key, leaves } => {
                let Some(room) = self.key.get_mut(..key.len()) else {
                    fail_with_detail(
                        SqlState::ERRCODE_INDEX_CORRUPTED,
                        "a page of an index of treedb is damaged",
                        format!(
                            "Expected a bound of at most {LONGEST_KEY} bytes, found one of {}.",
                            key.len()
                        ),
                        REINDEX,
                    )
                };
                room.copy_from_slice(key);
                (self.range, self.key_len) = (*range as u32, key.len() as u32);
                (self.block, self.leaves) = (block.unwrap_or(NONE), *leaves);
            }
        }
    }

    fn get(&self) -> Place {
        match (self.range, self.key_len) {
            (NONE, _) => Place::Beginning,
            (range, NONE) => Place::Range(range as usize),
            (range, len) => Place::Beside {
                range: range as usize,
                block: (self.block != NONE).then_some(self.block),
                key: self.key.get(..len as usize).unwrap_or(&[]).to_vec(),
                leaves: self.leaves,
            },
        }
    }
}

/// This process's part in a parallel scan.
#[derive(Clone, Copy)]
pub(crate) struct SharedScan<'c>(&'c Shared);

/// The right to read the next page, and the duty to say where the scan goes on after it.
#[must_use]
pub(crate) struct Turn<'c>(&'c Shared);

impl<'c> SharedScan<'c> {
    /// The shared state of a scan; `None` if it is not a parallel one.
    ///
    /// # Safety
    /// A scan of an access method whose parallel scans were made by [`init`]; it lives for `'c`.
    pub(super) unsafe fn of(scan: pg_sys::IndexScanDesc) -> Option<SharedScan<'c>> {
        // SAFETY: the caller's. The state lies where the descriptor in shared memory says, as long as the query runs.
        unsafe {
            let parallel = (*scan).parallel_scan;
            if parallel.is_null() {
                return None;
            }
            let state = parallel.cast::<u8>().add(compat::state_at(parallel)).cast::<Shared>();
            Some(SharedScan(&*state))
        }
    }

    /// Makes the scan begin again.
    ///
    /// # Safety
    /// No other process takes part in the scan now.
    pub(super) unsafe fn restart(self) {
        // SAFETY: the caller's.
        unsafe { reset(self.0) }
    }

    /// Waits for the turn; `None` if the scan has reached its end.
    pub(crate) fn take(self) -> Option<(Turn<'c>, Place)> {
        let phase = &self.0.phase;
        let mut slept = false;
        let taken = loop {
            match phase.compare_exchange(IDLE, TAKEN, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break true,
                Err(DONE) => break false,
                Err(_) => {}
            }
            slept = true;
            // SAFETY: a condition variable in shared memory. The first call only prepares to sleep, so that nothing is
            // missed between the check above and the sleep; it takes interrupts.
            unsafe {
                pg_sys::ConditionVariableSleep(
                    self.0.passed_on.get(),
                    pg_sys::WaitEventIPC::WAIT_EVENT_BTREE_PAGE,
                );
            }
        };
        if slept {
            // SAFETY: ends what was begun above.
            unsafe { pg_sys::ConditionVariableCancelSleep() };
        }
        // SAFETY: this process has the turn, so no other reads or writes the place.
        taken.then(|| (Turn(self.0), unsafe { (*self.0.place.get()).get() }))
    }
}

impl Turn<'_> {
    /// Lets the next process go on at `place`, or tells all that the scan has reached its end.
    pub(crate) fn pass_on(self, place: Option<&Place>) {
        let passed_on = self.0.passed_on.get();
        // SAFETY: this process has the turn until the phase changes, so no other reads or writes the place; a condition
        // variable in shared memory.
        unsafe {
            match place {
                Some(place) => {
                    (*self.0.place.get()).put(place);
                    self.0.phase.store(IDLE, Ordering::Release);
                    pg_sys::ConditionVariableSignal(passed_on);
                }
                None => {
                    self.0.phase.store(DONE, Ordering::Release);
                    pg_sys::ConditionVariableBroadcast(passed_on);
                }
            }
        }
    }
}
