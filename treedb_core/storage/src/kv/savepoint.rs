//! Savepoints: points in a write transaction to roll back to.
//!
//! A savepoint is the root of the catalog at its moment, with every changed table's record written into it, and how
//! much there was of everything that only grows: the frame, the values appended, the values that died. The pages
//! that root reaches stay as they are: the allocator hands out others (see [`Allocator`](crate::page::Allocator)).

use std::sync::atomic::{AtomicU64, Ordering};

use super::edit::{Edit, Writer};
use super::write::WriteTxn;
use crate::btree::TreeRoot;
use crate::vlog::ValueLog;
use crate::{Error, Result};

/// A point in a write transaction to roll back to, made by [`WriteTxn::savepoint`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a savepoint is needed to roll back to it"]
pub struct Savepoint {
    serial: u64,
}

/// The state that a savepoint restores.
#[derive(Debug)]
pub(crate) struct SavepointState {
    serial: u64,
    catalog: TreeRoot,
    frame: usize,
    appended: usize,
    died: usize,
    /// Calls that are made if what was changed before it is undone.
    if_undone: usize,
}

impl Writer {
    fn mark(&mut self, if_undone: usize) -> Savepoint {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mark = SavepointState {
            serial,
            catalog: self.catalog,
            frame: self.frame.len(),
            appended: self.appended.len(),
            died: self.died.len(),
            if_undone,
        };
        self.savepoints.push(mark);
        self.alloc.savepoint();
        Savepoint { serial }
    }

    fn index_of(&self, savepoint: &Savepoint) -> Result<usize> {
        self.savepoints.iter().position(|mark| mark.serial == savepoint.serial).ok_or_else(|| {
            Error::Invalid(
                "the savepoint is gone: it was released, rolled back over, or is another transaction's"
                    .into(),
            )
        })
    }

    fn roll_back_to(&mut self, index: usize, values: &ValueLog) -> Result<()> {
        self.savepoints.truncate(index + 1);
        let Some(mark) = self.savepoints.last() else { return Ok(()) };
        self.alloc.rollback_to(index);
        self.fingers.reset_all();
        self.catalog = mark.catalog;
        self.tables.clear();
        self.frame.truncate(mark.frame);
        self.died.truncate(mark.died);
        self.appended.drain(mark.appended..).try_for_each(|ptr| values.release(ptr))
    }
}

impl WriteTxn {
    /// Marks this point of the transaction, so that what comes after it can be undone alone. Savepoints nest. A commit keeps what has not been undone.
    ///
    /// Pages changed before are copied when they are changed again after a savepoint, so a savepoint before every
    /// change makes a transaction slower.
    ///
    /// # Errors
    /// `DiskFull`, after which the transaction can only be dropped, or rolled back to an earlier savepoint.
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        let inner = std::sync::Arc::clone(&self.inner);
        let if_undone = self.if_undone.count();
        let writer = self.working()?;
        match (Edit { pager: &inner.pager, values: &inner.values, writer }).finish() {
            Ok(_) => Ok(writer.mark(if_undone)),
            Err(error) => {
                self.broken = true;
                Err(error)
            }
        }
    }

    /// Undoes everything since the savepoint, which remains valid; those made after it are gone.
    /// Handles of tables created since then must not be used any more: as after a dropped transaction, the next table
    /// gets the same number. A transaction that could only be dropped after an error goes on from here: nothing of
    /// the failed change is left.
    ///
    /// # Errors
    /// `Invalid` if the savepoint is gone, or of another transaction.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let inner = std::sync::Arc::clone(&self.inner);
        let Some(writer) = self.writer.as_deref_mut() else { return Err(Self::ended()) };
        let index = writer.index_of(savepoint)?;
        let kept = writer.savepoints.get(index).map_or(0, |mark| mark.if_undone);
        self.if_undone.undo(kept);
        let gone_back = writer.roll_back_to(index, &inner.values);
        self.broken = gone_back.is_err();
        gone_back.inspect_err(|error| inner.poison(error))
    }

    /// Releases a savepoint and those made after it; the changes since then are kept.
    ///
    /// # Errors
    /// `Invalid` if the savepoint is gone, or of another transaction.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let writer = self.working()?;
        let index = writer.index_of(&savepoint)?;
        writer.savepoints.truncate(index);
        writer.alloc.release_savepoint(index);
        Ok(())
    }
}
