//! Maintenance: building and rebuilding indexes, expiring documents, checking.
//!
//! | file | what it holds |
//! |---|---|
//! | `index_build` | creating indexes of a live collection in short steps, resumed after a crash |
//! | `backfill` | the entries of an index build: read from a snapshot, sorted, written |
//! | `index_rebuild` | rebuilding indexes whose collation keys have another version |
//! | `search_index` | creating, replacing and dropping search indexes |
//! | `image_writer` | files of images of vector indexes that there is no room for in memory |
//! | `expiry` | deleting documents whose time-to-live is over |
//! | `check` | comparing rows with indexes, both ways |
//! | `check_progress` | how far a check is |
//! | `recall` | comparing what vector indexes find with what exact comparison finds |

pub(crate) mod backfill;
pub(crate) mod check;
pub(crate) mod check_progress;
pub(crate) mod expiry;
pub(crate) mod image_writer;
pub(crate) mod index_build;
pub(crate) mod index_rebuild;
pub(crate) mod recall;
mod search_index;
pub(crate) mod stats;
