//! Options of a store, and the durability of commits.

use std::sync::Arc;

use crate::cipher::Key;
use crate::disk::{Disk, RealDisk};

/// What a commit guarantees when it returns. Chosen per commit; a store has a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It survives a power cut, and so does every commit before it. Concurrent commits share a flush.
    #[default]
    Durable,
    /// It survives the death of the process, and so does every commit before it. A power cut may lose a complete
    /// recent suffix of such commits, never one from the middle.
    Relaxed,
    /// It is visible, without any write: it becomes durable with the next commit of another durability, or with the
    /// next checkpoint. A crash before that, be it of the process alone, loses a complete recent suffix of such
    /// commits, never one from the middle. Their changes are kept in memory for the next logged
    /// commit, up to [`Options::pending_bytes`]; after more than that, it waits for a checkpoint instead of the log.
    None,
}

impl Durability {
    /// The durability of a profile name of earlier databases: `command_wal_durable`,
    /// `command_wal_relaxed` or `bench`.
    pub fn of_profile(name: &str) -> Option<Durability> {
        match name {
            "command_wal_durable" => Some(Durability::Durable),
            "command_wal_relaxed" => Some(Durability::Relaxed),
            "bench" => Some(Durability::None),
            _ => None,
        }
    }
}

/// How a store is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// What [`WriteTxn::commit`](super::WriteTxn::commit) promises.
    pub durability: Durability,
    /// The disk that the files are on.
    pub disk: Arc<dyn Disk>,
    /// A checkpoint is made when the log has this many bytes that recovery would have to read.
    pub checkpoint_log_bytes: u64,
    /// A checkpoint is made when more dead pages than this wait for one, and they are more than two fifths of the live
    /// ones. What waits is never more than the pages the last checkpoint reaches, so that small files are left alone:
    /// once all their pages have been copied, the copies take turns in memory that is warm, at a third of the cost.
    /// A file of random changes so takes twice its live size, three times while a checkpoint is being written; a
    /// file with many times this number of pages takes about one and a half times.
    pub checkpoint_dead_pages: usize,
    /// Bytes of changes by commits with [`Durability::None`] that are kept in memory for the next logged commit.
    pub pending_bytes: usize,
    /// Bytes of keys of recent commits that are kept in memory while an optimistic transaction is open.
    #[cfg(feature = "optimistic")]
    pub optimistic_bytes: usize,
    /// A background thread makes the checkpoints that fall due. Without it, the commit that makes one due makes it.
    pub background: bool,
    /// The most bytes the page file may have: address space reserved for it, not memory.
    pub max_bytes: u64,
    /// Do not map the page file, but keep at most about this many bytes of it in memory, 16 pages of the system or more. Pages that calls
    /// under way use, and one for each cursor, come on top; so does what transactions have read, which is copied then
    /// (see [`ReadTxn::forget`](super::ReadTxn::forget)). Large values are read from their files each time. `None`, the
    /// default: the file is mapped, the system decides what is in memory, and nothing is copied.
    pub cache_bytes: Option<u64>,
    /// Whether the system reads ahead, with mapped files. That fills memory soon if all data fits, and wastes disk bandwidth
    /// and memory if it does not. `None`, the default: it does while the files have at most half the size of the memory
    /// that the process may use, its control group's limit included.
    pub read_ahead: Option<bool>,
    /// The database's key: every page, every log frame with changes and every large value is encrypted and authenticated,
    /// with XChaCha20-Poly1305. An encrypted database is never mapped: it has a cache of [`Options::cache_bytes`],
    /// 64 MiB if that is `None`. Whether a database is encrypted is decided when it is created; a copy by
    /// [`Store::backup`](super::Store::backup) and [`Store::restore`](super::Store::restore) may be made with another.
    pub key: Option<Key>,
    /// Pages of 4 KiB that the page file grows by at least.
    pub growth: u32,
    /// Bytes of a log segment.
    pub log_segment_bytes: u64,
    /// Bytes of a segment of the value log; a larger value gets a larger segment of its own.
    pub value_segment_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durability: Durability::Durable,
            disk: Arc::new(RealDisk),
            checkpoint_log_bytes: 64 << 20,
            checkpoint_dead_pages: 1 << 16,
            pending_bytes: 1 << 20,
            #[cfg(feature = "optimistic")]
            optimistic_bytes: 16 << 20,
            background: true,
            max_bytes: 1 << 40,
            cache_bytes: None,
            read_ahead: None,
            key: None,
            growth: 256,
            log_segment_bytes: 16 << 20,
            value_segment_bytes: 64 << 20,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("durability", &self.durability).finish_non_exhaustive()
    }
}
