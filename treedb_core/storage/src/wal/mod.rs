//! The command log: one frame per commit, one write and one `fdatasync` per commit group.
//!
//! A log is a directory of segments. Frames are numbered without gaps by their [`Lsn`]; a segment is named
//! after the LSN of its first frame (`%016x.wal`). Its blocks are reserved before they are used, and zeroes
//! are written ahead of small durable frames, so that flushing them rarely has to write file system metadata.
//! The log does not interpret payloads.
//!
//! # Guarantees
//!
//! * After [`Log::wait_durable`] returned `Ok` for an LSN, that frame and **every frame before it**, relaxed ones
//!   included, survive a power cut. A crash only ever loses a suffix of the log; it never leaves a hole.
//! * A relaxed frame, and every frame before it, has reached the operating system when [`Log::append`] returns, so a
//!   crash of the process alone does not lose it.
//! * A write or flush that failed poisons the log: every later append or wait returns
//!   [`Error::Poisoned`](crate::Error::Poisoned). Nothing is retried, since the operating system may have dropped the
//!   bytes.
//! * Opening never accepts a damaged, stale or foreign frame as valid. Damage that a crash cannot cause is a corruption
//!   error; at damage that a crash can cause, the log ends.
//!
//! # How the end of the log is distinguished from damage
//!
//! A crash may leave any mixture of old and new sectors after the durable frames, so a bad frame is normal at
//! the end of the log, but before it is corruption. Each frame and each segment header therefore *claims* the
//! LSN up to which the log was known to be durable when it was written. At the first bad frame everything
//! after it is searched for claims: if one covers the bad frame, the frame was durable and is now damaged; if
//! none does, the log ends there. A segment ends in a `sealed` frame, which is written after its successor's
//! name is durable, so a missing successor is detected; a header names its predecessor, so a missing segment
//! in the middle is detected too.
//!
//! What a crash left after the end is never overwritten: unless the log was shut down cleanly, opening seals
//! the last segment and continues in a new one. Each segment has its own generation, which seeds the
//! checksums of its frames, so the old frames in a recycled segment are never valid as new ones.
//!
//! A log that was shut down cleanly has a record of where its last frame is. If the caller needs none of its
//! frames, opening does not read them, and takes a time that does not depend on the length of the last
//! segment.
//!
//! # Bytes (little-endian)
//!
//! Segment header, 64 bytes at 0; frames start at 512:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `TreeDBwl` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | offset of the first frame, 512 |
//! | 16 | 8 | generation: higher than that of any segment created before |
//! | 24 | 8 | LSN of the first frame, as in the name |
//! | 32 | 8 | length of the file when the segment was created: it may have grown since |
//! | 40 | 8 | claim: the log was durable up to this LSN |
//! | 48 | 8 | first LSN of the segment before, 0 if there was none |
//! | 56 | 4 | zero |
//! | 60 | 4 | crc32c of bytes 0..60 (at this offset in all versions) |
//!
//! Clean shutdown record, 32 bytes at 64; ignored if its checksum is wrong or the frame does not exist:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 64 | 4 | crc32c of bytes 68..96, seeded with the low half of the segment's generation |
//! | 68 | 4 | zero |
//! | 72 | 8 | LSN of the `closed` frame |
//! | 80 | 8 | offset of that frame |
//! | 88 | 8 | LSN of the last data frame before it |
//!
//! Frame, at a multiple of 8:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | crc32c of bytes 4..24 and the payload, seeded with the low half of the segment's generation |
//! | 4 | 4 | length of the payload |
//! | 8 | 8 | LSN |
//! | 16 | 4 | claim: the log was durable up to LSN minus this; all ones: no claim |
//! | 20 | 1 | kind: 1 data, 2 opened, 3 closed, 4 sealed (the segment is full), 5 encrypted data |
//! | 21 | 3 | zero |
//! | 24 | | payload, then padding to a multiple of 8, which is ignored |
//!
//! The payload of encrypted data is the ciphertext and its seal of 40 bytes (see `cipher`); the associated
//! data are the segment's generation and the LSN, 8 bytes each.

mod append;
mod clean_shutdown;
mod files;
mod frame;
mod group;
mod log;
mod mapped;
mod open;
mod reader;
mod recovery;
mod scan;
mod segment;
#[cfg(test)]
mod tests;
pub(crate) mod timings;

pub use frame::{Frame, Lsn, MAX_PAYLOAD};
pub use log::{Log, LogOptions, LogStats, Sync};
pub use recovery::Recovery;
pub use timings::Timings;
