//! What queries need of a place where rows live.
//!
//! Two owners implement these traits: the native [`crate::collection`] and, in the Postgres extension, a table with
//! its indexes. A filter, an update operator or a pipeline stage is written once over them.

/// The address of a row in its collection: dense numbers natively, a TID in Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);
