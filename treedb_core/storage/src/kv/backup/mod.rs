//! Copies of a live store: into a directory, which is a store like any other, or into a stream.
//!
//! A copy is logical: the tables of one snapshot but for [local ones](super::LOCAL_TABLES), entry by entry in order, as the commands that
//! make them (see [`command`](super::command)). So it is compact whatever the original's files look like, and covers every kind
//! of table. Writers are not blocked; the snapshot keeps its pages from being reused until the copy is complete, so that
//! the page file grows by at most one copy of it meanwhile.
//!
//! A directory is written under a temporary name next to its final one (`NAME.partial`), as a store without a log: it is
//! checkpointed, closed and then renamed, so that it appears complete and durable, or not at all.
//!
//! # Bytes of a stream (little-endian)
//!
//! Header, 32 bytes:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `TreeDBbk` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | zero |
//! | 16 | 8 | entries and rows in it |
//! | 24 | 4 | zero |
//! | 28 | 4 | crc32c of bytes 0..28 (this place is fixed for all versions) |
//!
//! Then chunks, the first one number 1:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | crc32c of bytes 4..16 and the payload |
//! | 4 | 4 | length of the payload; 0 in the last chunk |
//! | 8 | 8 | number of the chunk |
//! | 16 | | payload: commands in the form of a log frame |
//!
//! The last chunk has no payload: a truncated stream is recognised by its absence. The stream is
//! not encrypted, whatever the store is.

mod copy;
mod destination;
mod stream;

use std::io::{Read, Write};
use std::path::Path;

use super::options::{Durability, Options};
use super::store::Store;
use super::write::WriteTxn;
use crate::Result;
use copy::SnapshotCopy;
pub(super) use destination::StagedStore;

/// Progress of a copy, and in the end its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Entries and rows copied so far.
    pub entries: u64,
    /// Entries and rows in total.
    pub of: u64,
    /// Bytes of the keys, values and commands copied so far.
    pub bytes: u64,
}

/// A transaction of a copy has about as many bytes of commands.
const STEP: usize = 4 << 20;

impl Store {
    /// Copies the current state into `dir`, which must not exist or be empty: a store that opens like any other, with
    /// the options of this one. Readers and writers go on meanwhile. The copy is durable when this returns; until then
    /// nothing is at `dir`. `progress` is called every few thousand entries, and at the end.
    ///
    /// # Errors
    /// `Invalid` if there is something at `dir`; `DiskFull` and `Io` from the system, of the copy's files; `Corrupt` if
    /// this store is damaged. What was written so far is removed then.
    pub fn backup_to(
        &self,
        dir: impl AsRef<Path>,
        mut progress: impl FnMut(BackupProgress),
    ) -> Result<BackupProgress> {
        let read = self.begin_read()?;
        let draft = StagedStore::new(&self.inner.options, dir.as_ref())?;
        draft.fill(|store| {
            let mut sink = Sink::new(store)?;
            let copied = SnapshotCopy::new(&read)?
                .run(&mut |command| sink.take(|txn| txn.apply(command)), &mut progress)?;
            sink.end()?;
            Ok(copied)
        })
    }

    /// Writes the current state to `out` as one stream, which [`Store::restore`] reads. Readers and writers go on
    /// meanwhile. Whether it is durable is the matter of `out`, which is flushed at the end. `progress` is called every
    /// few thousand entries, and at the end.
    ///
    /// # Errors
    /// `Io` from `out`; `Corrupt` if this store is damaged. The stream is cut off then, and no restore takes it.
    pub fn backup(
        &self,
        out: &mut impl Write,
        mut progress: impl FnMut(BackupProgress),
    ) -> Result<BackupProgress> {
        let read = self.begin_read()?;
        let pump = SnapshotCopy::new(&read)?;
        let mut stream = stream::Writer::begin(out, pump.of())?;
        let copied = pump.run(&mut |command| stream.push(command), &mut progress)?;
        stream.end()?;
        Ok(copied)
    }

    /// Makes a store in `dir`, which must not exist or be empty, of a stream that [`Store::backup`] wrote. It is durable
    /// when this returns; until then nothing is at `dir`. `options` are those of the new store.
    ///
    /// # Errors
    /// `Corrupt` if the stream is damaged or cut off, `Format` if it is none or of a newer TreeDB; `Invalid` if there is
    /// something at `dir`; `DiskFull` and `Io` from the system. What was written so far is removed then.
    pub fn restore(
        input: &mut impl Read,
        dir: impl AsRef<Path>,
        options: &Options,
        mut progress: impl FnMut(BackupProgress),
    ) -> Result<BackupProgress> {
        let mut stream = stream::Reader::begin(input)?;
        let draft = StagedStore::new(options, dir.as_ref())?;
        draft.fill(|store| {
            let mut sink = Sink::new(store)?;
            let mut copied = BackupProgress { of: stream.entries(), ..BackupProgress::default() };
            while let Some(commands) = stream.next()? {
                let bytes = commands.len() as u64;
                let more = sink.take(|txn| stream::apply(txn, commands))?;
                copied.entries = copied.entries.saturating_add_signed(more);
                copied.bytes += bytes;
                progress(copied);
            }
            sink.end()?;
            stream.check_entries(copied.entries)?;
            Ok(copied)
        })
    }
}

/// A store that is being filled, in transactions of a bounded size.
struct Sink<'s> {
    store: &'s Store,
    txn: Option<WriteTxn>,
}

impl<'s> Sink<'s> {
    fn new(store: &'s Store) -> Result<Sink<'s>> {
        Ok(Sink { store, txn: Some(store.begin_write()?) })
    }

    fn take<T>(&mut self, work: impl FnOnce(&mut WriteTxn) -> Result<T>) -> Result<T> {
        let mut txn = match self.txn.take() {
            Some(txn) => txn,
            None => self.store.begin_write()?,
        };
        let done = work(&mut txn)?;
        if txn.frame_bytes() > STEP {
            txn.commit_with(Durability::None)?;
        } else {
            self.txn = Some(txn);
        }
        Ok(done)
    }

    fn end(&mut self) -> Result<()> {
        self.txn.take().map_or(Ok(()), |txn| txn.commit_with(Durability::None))
    }
}
