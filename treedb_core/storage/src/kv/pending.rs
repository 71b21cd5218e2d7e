//! Commits that are not in the log yet.
//!
//! A commit with [`Durability::None`](super::Durability::None) writes no frame, but later logged commits build on it, and
//! recovery must find the state they were made on. So its commands are kept in memory, and the next frame, whoever
//! writes it, contains them before its own: the frames after a checkpoint, taken together, are always a prefix of what
//! was committed.
//!
//! The memory is bounded. When it is full, the commands are dropped and the log has a *gap*: no frame is written until a
//! durable checkpoint includes the last commit in the gap. Meanwhile, commits that should have been logged are made
//! durable by a checkpoint instead.

use super::command::FORMAT;
use crate::wal::{Log, Lsn, Sync};
use crate::{Error, Result};

/// The commands of commits that are not in the log, or the information that there were too many.
#[derive(Debug)]
pub(crate) struct PendingCommits {
    /// A frame of the commands, in order; empty if there are none.
    frame: Vec<u8>,
    /// The last transaction that is neither in the log nor in `frame`; 0 if there is none.
    gap: u64,
    /// The maximum number of bytes that are kept.
    limit: usize,
}

impl PendingCommits {
    /// Without commits; at most `limit` bytes are kept.
    pub(crate) fn new(limit: usize) -> PendingCommits {
        PendingCommits { frame: Vec::new(), gap: 0, limit }
    }

    /// True if the log may not be written to, given the last durable checkpoint's transaction.
    pub(crate) fn gap_after(&self, durable: u64) -> bool {
        self.gap > durable
    }

    /// Adds the commands of transaction `txn`, which was published without a frame; `durable` as for
    /// [`PendingCommits::gap_after`].
    pub(crate) fn add(&mut self, frame: &[u8], txn: u64, durable: u64) {
        let commands = frame.get(1..).unwrap_or_default();
        if self.gap_after(durable) || self.frame.len() + commands.len() > self.limit {
            self.drop_all(txn);
            return;
        }
        if self.frame.is_empty() {
            self.frame.push(FORMAT);
        }
        self.frame.extend_from_slice(commands);
    }

    fn drop_all(&mut self, txn: u64) {
        self.frame = Vec::new();
        self.gap = txn;
    }

    /// Appends `frame` to the log, preceded by the commands of the pending commits. Returns the LSN and the
    /// length of the frame. After an error nothing has changed.
    pub(crate) fn append(&mut self, log: &Log, frame: &[u8], sync: Sync) -> Result<(Lsn, usize)> {
        if self.frame.is_empty() {
            return Ok((log.append(frame, sync)?, frame.len()));
        }
        let before = self.frame.len();
        self.frame.extend_from_slice(frame.get(1..).unwrap_or_default());
        let appended = log.append(&self.frame, sync);
        self.frame.truncate(if appended.is_ok() { 0 } else { before });
        Ok((appended?, before + frame.len() - 1))
    }

    /// Appends the pending commands to the log before a checkpoint of transaction `txn`, the last one
    /// published, because frames that are written during the checkpoint must not contain them. If the disk
    /// has no room for this, there is a gap until the checkpoint is durable.
    pub(crate) fn write_to_log(&mut self, log: &Log, txn: u64) -> Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        match self.append(log, &[FORMAT], Sync::Relaxed) {
            Ok(_) => Ok(()),
            Err(Error::DiskFull { .. }) => {
                self.drop_all(txn);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// True if there are pending commands, which the next frame will contain.
    pub(crate) fn has_commands(&self) -> bool {
        !self.frame.is_empty()
    }
}
