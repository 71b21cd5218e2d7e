//! `treedb dump`, and the part of `treedb restore` that reads such dumps: BSON files in the layout of `mongodump`.
//!
//! | module | what it is |
//! |---|---|
//! | `file` | names, BSON files and metadata files, compressed or not |
//! | `place` | a directory or a server, from which and into which documents go |
//! | `found_indexes` | the indexes of a server's collection that the user may list |
//! | `write` | `treedb dump` |
//! | `read` | restoring a dump |
//! | `oplog` | the entries of an oplog: times, from a place, from files |
//! | `archive` | `treedb archive` |
//! | `replay` | applying entries to a dump that was restored, or to a backup |
//! | `forward` | a backup, replayed up to a moment |
//! | `indexes` | indexes that are created when the entries of an oplog are replayed |
//!
//! `DUMP/database/collection.bson` has the documents one after the other, and `collection.metadata.json` beside it the options, the
//! indexes, and the name in full, as canonical extended JSON. With `--gzip` both end in `.gz`. A view has metadata only. `DUMP/oplog.bson` has
//! what was changed during the dump; it is called that when it is compressed too.

mod archive;
mod file;
mod forward;
mod found_indexes;
mod indexes;
mod oplog;
mod place;
mod read;
mod replay;
mod write;

pub(super) use archive::Archive;
pub(super) use forward::forward;
pub(super) use found_indexes::{FoundIndexes, left_out_to};
pub(super) use oplog::{Until, parse_time};
pub(super) use place::{BATCH_BYTES, Place, PlaceArgs, array, batch, create_index};
pub(super) use read::{DumpRestore, is_dump};
pub(super) use write::Dump;
