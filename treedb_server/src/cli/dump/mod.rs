//! `treedb dump`, and the part of `treedb restore` that reads such dumps: BSON files in the layout of `mongodump`.
//!
//! | module | what it is |
//! |---|---|
//! | `file` | names, BSON files and metadata files, compressed or not |
//! | `place` | a directory or a server, from which and into which documents go |
//! | `write` | `treedb dump` |
//! | `read` | restoring a dump |
//!
//! `DUMP/database/collection.bson` has the documents one after the other, and `collection.metadata.json` beside it the options, the
//! indexes, and the name in full, as canonical extended JSON. With `--gzip` both end in `.gz`. A view has metadata only.

mod file;
mod place;
mod read;
mod write;

pub(super) use place::PlaceArgs;
pub(super) use read::{DumpRestore, is_dump};
pub(super) use write::Dump;
