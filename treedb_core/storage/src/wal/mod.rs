//! The command log: one frame a commit, one write and one `fdatasync` a durable group.
//!
//! A log is a folder of segments. Frames are numbered without gaps by their [`Lsn`]; a segment is named by the
//! LSN of its first frame (`%016x.wal`). Its blocks are reserved before they are used, and zeroes are written ahead of
//! small durable frames, so that their flush seldom changes more than data blocks. The log does not interpret payloads.
//!
//! # Promises
//!
//! * After [`Log::wait_durable`] returned `Ok` for an LSN, that frame and **every frame before it**, relaxed ones
//!   included, survive a power cut. What a crash takes is always a complete suffix of the log, never a hole.
//! * A relaxed frame, and every frame before it, has reached the operating system when [`Log::append`] returns, so a
//!   crash of the process alone does not lose it.
//! * A write or flush that failed poisons the log: every later append or wait returns
//!   [`Error::Poisoned`](crate::Error::Poisoned). Nothing is retried, since the system may have dropped the bytes.
//! * Opening never takes a damaged, stale or foreign frame for a good one. What cannot be the work of a crash is
//!   a corruption error, what can is the end of the log.
//!
//! # How the end of the log is distinguished from damage
//!
//! A crash may leave any mixture of old and new sectors after the durable frames, so a bad frame is normal at the
//! end and fatal before it. Each frame and each segment header therefore *claims* the LSN up to which the log was
//! known to be durable when it was written. At the first bad frame everything after it is searched for claims: if
//! one covers the bad frame, the frame was durable once and is damaged now; if none does, the log ends there.
//! A segment ends in a `sealed` frame, written after its successor's name is durable, so a missing successor is
//! seen; a header names its predecessor, so a missing one in the middle is seen too.
//!
//! Frames that a crash cut off are never overwritten: unless the log was shut down cleanly, opening seals the last
//! segment and continues in a new one. Each segment has a generation of its own that seeds the checksums of its
//! frames, so the old frames in a recycled segment cannot pass for new ones.
//!
//! A log that was shut down cleanly records where its last frame is. If the caller needs none of its frames, it is opened
//! there without reading them, in a time that does not depend on the length of its last segment.
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
//! | 16 | 8 | generation: higher than that of any segment made before |
//! | 24 | 8 | LSN of the first frame, as in the name |
//! | 32 | 8 | length of the file when the segment was made: it may have grown since |
//! | 40 | 8 | claim: the log was durable up to this LSN |
//! | 48 | 8 | first LSN of the segment before, 0 if there was none |
//! | 56 | 4 | zero |
//! | 60 | 4 | crc32c of bytes 0..60 (this place is fixed for all versions) |
//!
//! Clean shutdown record, 32 bytes at 64; ignored if its checksum is wrong or the frame is not there:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 64 | 4 | crc32c of bytes 68..96, seeded with the low half of the segment's generation |
//! | 68 | 4 | zero |
//! | 72 | 8 | LSN of the `closed` frame |
//! | 80 | 8 | offset of that frame |
//! | 88 | 8 | LSN of the last frame of data before it |
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
//! | 24 | | payload, then padding to a multiple of 8 that is ignored |
//!
//! The payload of encrypted data is the ciphertext and its seal of 40 bytes (see `cipher`), made for the
//! segment's generation and the LSN, 8 bytes each.

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

pub use frame::{Frame, Lsn, MAX_PAYLOAD};
pub use log::{Log, LogOptions, LogStats, Sync};
pub use recovery::Recovery;
