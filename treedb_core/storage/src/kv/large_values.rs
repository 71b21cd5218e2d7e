//! Large values: which values go to the value log, and when a dead one may be released.
//!
//! A value over [`INLINE`] bytes is appended to the value log, and the tree's cell holds a pointer of 16 bytes with
//! the pointer flag. A value whose cell was removed or overwritten by transaction `t` is *dead since `t`*. It is
//! released in the value log, so that its room can be reclaimed, when a durable checkpoint includes `t` and no snapshot
//! older than `t` is left.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::arena::Arena;
use crate::btree::{MAX_VALUE, Value};
use crate::page::{PageSource, Pager, prefetch_bytes};
use crate::vlog::{ValueLog, ValueLogState, ValuePtr};
use crate::{Error, Result};

/// The longest value that is stored in its tree, in bytes.
pub(crate) const INLINE: usize = MAX_VALUE;

/// Reads a pointer cell.
pub(crate) fn pointer(pager: &Pager, cell: Value<'_>) -> Result<ValuePtr> {
    match <[u8; ValuePtr::SIZE]>::try_from(cell.bytes) {
        Ok(bytes) => Ok(ValuePtr::from_bytes(bytes)),
        Err(_) => {
            let found = format!("a pointer of {} bytes", cell.bytes.len());
            Err(pager.damaged(crate::page::PageId::NONE, 0, "pointers of 16 bytes in the trees", &found))
        }
    }
}

/// The value of a cell.
#[inline]
pub(crate) fn resolve<'a>(pager: &Pager, values: &'a ValueLog, cell: Value<'a>) -> Result<&'a [u8]> {
    if !cell.pointer {
        return Ok(cell.bytes);
    }
    values.get(pointer(pager, cell)?)
}

/// Asks for the memory of the value of a cell, which is about to be read.
#[inline]
pub(crate) fn prefetch(pager: &Pager, values: &ValueLog, cell: Value<'_>) {
    match cell.pointer {
        true => pointer(pager, cell).into_iter().for_each(|ptr| values.prefetch(ptr)),
        false => prefetch_bytes(cell.bytes.as_ptr(), cell.bytes.len()),
    }
}

/// The value of a cell, for as long as its transaction: borrowed from the files if they are mapped, otherwise copied to
/// `arena`.
#[inline]
pub(crate) fn resolve_for_txn<'a>(
    pager: &Pager,
    values: &'a ValueLog,
    cell: Value<'a>,
    arena: Option<&'a Arena>,
) -> Result<&'a [u8]> {
    match arena {
        None => resolve(pager, values, cell),
        Some(arena) => keep(pager, values, cell, arena),
    }
}

/// The value of a cell, copied to `arena`.
#[cold]
fn keep<'a>(pager: &Pager, values: &ValueLog, cell: Value<'_>, arena: &'a Arena) -> Result<&'a [u8]> {
    if !cell.pointer {
        return Ok(arena.keep(cell.bytes));
    }
    values.read(pointer(pager, cell)?, |len| arena.room(len))
}

/// The value of a pointer cell, in `buffer`.
#[cold]
pub(crate) fn copy<'b>(
    pager: &Pager,
    values: &ValueLog,
    cell: Value<'_>,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8]> {
    values.read(pointer(pager, cell)?, |len| {
        buffer.clear();
        buffer.resize(len, 0);
        buffer
    })
}

/// Values that are dead and not yet released, with the transactions that removed them.
#[derive(Debug, Default)]
pub(crate) struct DeadValues {
    list: Mutex<Vec<(u64, ValuePtr)>>,
}

impl DeadValues {
    fn list(&self) -> MutexGuard<'_, Vec<(u64, ValuePtr)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what transaction `txn` removed.
    pub(crate) fn add(&self, txn: u64, pointers: &[ValuePtr]) {
        self.list().extend(pointers.iter().map(|&ptr| (txn, ptr)));
    }

    /// Releases what died up to `durable` and before every one of `pins`.
    pub(crate) fn release(&self, values: &ValueLog, durable: u64, pins: &[u64]) -> Result<()> {
        let oldest = pins.iter().copied().min().unwrap_or(u64::MAX);
        let mut list = self.list();
        let mut result = Ok(());
        list.retain(|&(txn, ptr)| {
            let waits = txn > durable || txn > oldest;
            if !waits && result.is_ok() {
                result = values.release(ptr);
            }
            waits
        });
        result
    }

    fn pointers(&self) -> Vec<ValuePtr> {
        self.list().iter().map(|&(_, ptr)| ptr).collect()
    }
}

/// What a checkpoint stores about large values: the value log's state, and the values that are dead in it.
///
/// Bytes, little-endian: the length of the value log's state (u32), that state, then the dead values' pointers to
/// the end, 16 bytes each.
pub(crate) fn encode_state(log: &ValueLogState, dead: &DeadValues) -> Vec<u8> {
    let log = log.encode();
    let mut out = (log.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&log);
    for ptr in dead.pointers() {
        out.extend_from_slice(&ptr.to_bytes());
    }
    out
}

/// Reads the state back; an empty one is that of a new store.
pub(crate) fn decode_state(bytes: &[u8]) -> Result<(ValueLogState, Vec<ValuePtr>)> {
    if bytes.is_empty() {
        return Ok((ValueLogState::default(), Vec::new()));
    }
    let cut = || Error::Invalid("the saved state of the values is cut short".into());
    let (len, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
    let (log, dead) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(cut)?;
    let (pointers, rest) = dead.as_chunks::<{ ValuePtr::SIZE }>();
    if !rest.is_empty() {
        return Err(cut());
    }
    Ok((ValueLogState::decode(log)?, pointers.iter().map(|&bytes| ValuePtr::from_bytes(bytes)).collect()))
}
