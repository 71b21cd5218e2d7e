//! [`Probe`], [`Among`]: what a query asks of an index.

use treedb_vector::memory::Way;

use super::{Direction, Flow, KeyRange, RowId};
use crate::error::{ErrorCode, QueryError, Result};

/// The callback of an index scan: row id and key bytes of each entry.
pub type VisitEntry<'a> = dyn FnMut(RowId, &[u8]) -> Result<Flow> + 'a;

/// The callback of an index scan without keys: row id of each entry.
pub type VisitRowId<'a> = dyn FnMut(RowId) -> Result<Flow> + 'a;

/// The callback of an index scan for rows alone: the next ones, one after another.
pub type VisitRowIds<'a> = dyn FnMut(&[RowId]) -> Result<Flow> + 'a;

/// The callback of an index scan with type bits: row id, key bytes, type bits.
pub type VisitTypedEntry<'a> = dyn FnMut(RowId, &[u8], &[u8]) -> Result<Flow> + 'a;

/// The callback of a search for vectors: row id and distance of each row.
pub type VisitNearest<'a> = dyn FnMut(RowId, f32) -> Result<Flow> + 'a;

/// What a query asks of an index, and who is told of the rows: one variant for each kind of question.
///
/// The answer is given row by row, and the callback says when it has enough: the query may discard rows, and take more
/// instead.
#[non_exhaustive]
pub enum Probe<'p> {
    /// Of an ordered index, the entries whose keys are in a range, in key order, entries of equal keys by row id. A row with
    /// several entries (multikey) is visited once for each.
    Range {
        /// The keys.
        range: &'p KeyRange,
        /// The order.
        direction: Direction,
        /// Begin after this entry: the key bytes and row id that were visited last.
        after: Option<(&'p [u8], RowId)>,
        /// Told of the row, the key and the type bits that are stored with the entry
        /// ([`IndexDef::type_bits`](crate::index::ordered::IndexDef::type_bits)); empty if they are not stored.
        visit: &'p mut VisitTypedEntry<'p>,
    },
    /// Of a vector index, the rows with the nearest vectors, the nearest first as far as the index knows. Every row of the index is visited
    /// once, if the callback lets it come to that.
    Nearest {
        /// A vector that could be in the index.
        vector: &'p [f32],
        /// The rows that the query is likely to take; their order is exact.
        k: usize,
        /// The rows that are looked at to find these: the more, the better, and the slower.
        ef: usize,
        /// The query is likely to discard rows, and to take others instead: what going on needs is kept.
        discards: bool,
        /// What it has done is added to it, if the index knows.
        done: &'p mut Comparisons,
        /// Told of the row and its exact distance.
        visit: &'p mut VisitNearest<'p>,
    },
}

/// Which rows a vector index is to find the nearest of, where a filter says which.
#[derive(Debug, Clone, Copy)]
pub struct Among<'r> {
    /// The rows, each once.
    pub rows: &'r [RowId],
    /// How many of them the query is likely to take.
    pub k: usize,
    /// The rows that are looked at to find these; `None` for all of them, without error.
    pub ef: Option<usize>,
}

/// What a vector index does to find the nearest rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Comparisons {
    /// Vectors that were compared, also by their codes.
    pub vectors: u64,
    /// Documents that were read for their vectors.
    pub documents: u64,
}

/// How a vector index has found the nearest of some rows.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// What it has done.
    pub done: Comparisons,
    /// Whether it has looked for them in its graph.
    pub way: Way,
    /// Some were passed over, of which codes of few bits say that they are far.
    pub passes_over: bool,
}

impl Probe<'_> {
    /// The error of a source that has no index number `index`, or one that does not answer such a probe.
    pub fn refused(index: usize) -> QueryError {
        let message = format!("no index number {index} that answers this probe");
        QueryError::new(ErrorCode::IndexNotFound, message)
    }
}
