//! The value log: large values outside the tree, read as slices of the map.
//!
//! A folder of append-only segments (`%08x.val`). A value is found by a 16-byte [`ValuePtr`], which its owner (a
//! tree's cell) keeps; each record also carries the owner's name for it, so that a segment that is mostly garbage
//! can be scanned and its live values moved.
//!
//! # Invariants
//!
//! * A record is never changed. The log syncs only when a checkpoint asks for it ([`ValueLog::sync`]): until then
//!   the command log's frames hold the values, and recovery appends them again.
//! * What is durable is what the checkpoint's [`ValueLogState`] says: the end and the live bytes of each segment.
//!   Opening takes exactly that. Bytes after a segment's end are garbage, whatever they look like, and are
//!   written over; segments that the state does not name are removed.
//! * Records are buffered in memory and written together, half a MiB at a time, or when one of them is read or the log is
//!   synced; if another thread writes them, up to 8 MiB are buffered. A crash loses nothing: the frames hold the same
//!   records. What a failed write left in memory is read from there.
//! * The file of a removed segment may be reused for another one. Its old records cannot be taken for new ones: their
//!   checksums are seeded with another segment number.
//! * A pointer carries its record's checksum, so a pointer and a record that do not belong together are an error.
//!   The checksum is computed once per record and open.
//! * A segment is removed only when the durable state does not name it any more, and when no one can hold a slice
//!   of it: that is the caller's knowledge, hence [`ValueLog::remove`] is unsafe.
//!
//! # Bytes (little-endian)
//!
//! Segment header, 64 bytes at 0; records start at 512:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `TreeDBvl` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | offset of the first record, 512 |
//! | 16 | 8 | number of the segment, as in the name |
//! | 24 | 8 | capacity: the most bytes the file may have |
//! | 32 | 28 | zero |
//! | 60 | 4 | crc32c of bytes 0..60 (this place is fixed for all versions) |
//!
//! Record, at a multiple of 8 and at least 512 bytes after the one before:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | crc32c of bytes 4..16, value and owner, seeded with the segment's number |
//! | 4 | 4 | length of the value |
//! | 8 | 4 | length of the owner's name |
//! | 12 | 4 | 1, or 2 if the record is encrypted |
//! | 16 | | value, owner's name, padding that is ignored |
//!
//! Of an encrypted record value and owner's name are ciphertext, and their seal of 40 bytes is after them (see
//! [`cipher`](crate::cipher)), made for the segment's number, the record's offset (8 bytes) and bytes 4..16; the checksum is
//! that of the bytes as they are in the file.
//!
//! Pointer: segment u32, offset of the record divided by 8 u32, length of the value u32, the record's crc32c u32.
//!
//! State: version u32 (1), number of the active segment u32 (0: none), count u32, then per segment its number u32,
//! end u64, live bytes u64.

mod log;
mod pointer;
mod record;
mod records;
mod segment;
mod segment_table;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod write_buffer;

pub use log::ValueLogStats;
pub(crate) use log::{ValueLog, ValueLogOptions};
pub(crate) use pointer::ValuePtr;
pub(crate) use record::MAX_VALUE;
pub(crate) use records::Record;
pub(crate) use state::ValueLogState;
