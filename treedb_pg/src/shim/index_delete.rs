//! Which entries of a leaf are of rows that are dead to every transaction, so that an index may remove them without a
//! vacuum. The addresses of the rows stay taken until a vacuum has been through all indexes.

use pgrx::pg_sys;

use super::relation::{Index, Table};
use super::wal;

/// An entry that may be removed.
pub(crate) struct Candidate {
    pub(crate) row: pg_sys::ItemPointerData,
    /// A scan has found its row dead to every transaction.
    pub(crate) known_dead: bool,
    /// Its row is likely to be dead: one of several versions of a logical row.
    pub(crate) promising: bool,
    /// Bytes that removing it gives back.
    pub(crate) size: usize,
}

/// How to look for dead rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// All candidates are checked: those known to be dead, and those whose rows are in the same blocks of the table.
    Known,
    /// The table decides which of its blocks are worth reading to give back so many bytes.
    BottomUp(usize),
}

/// Asks the table which of the entries of page `block` are of dead rows, and makes standbys cancel the queries that
/// could still need them. An element for each candidate, in the same order.
pub(crate) fn dead_rows(
    table: Table<'_>,
    index: Index<'_>,
    block: u32,
    candidates: &[Candidate],
    search: Search,
) -> Vec<bool> {
    let mut dead = vec![false; candidates.len()];
    let mut rows: Vec<pg_sys::TM_IndexDelete> = Vec::with_capacity(candidates.len());
    let mut states: Vec<pg_sys::TM_IndexStatus> = Vec::with_capacity(candidates.len());
    for (number, candidate) in candidates.iter().enumerate() {
        let Ok(id) = i16::try_from(number) else { break };
        rows.push(pg_sys::TM_IndexDelete { tid: candidate.row, id });
        states.push(pg_sys::TM_IndexStatus {
            idxoffnum: number as u16 + 1,
            knowndeletable: candidate.known_dead,
            promising: candidate.promising,
            freespace: candidate.size as i16,
        });
    }
    if rows.is_empty() {
        return dead;
    }
    let mut request = pg_sys::TM_IndexDeleteOp {
        irel: index.raw(),
        iblknum: block,
        bottomup: search != Search::Known,
        bottomupfreespace: match search {
            Search::Known => 0,
            Search::BottomUp(bytes) => i32::try_from(bytes).unwrap_or(0),
        },
        ndeltids: rows.len() as i32,
        deltids: rows.as_mut_ptr(),
        status: states.as_mut_ptr(),
    };
    // SAFETY: open relations; both arrays have as many elements as the request says. The table sorts them, and lowers
    // the number of rows to those that it has looked at.
    let horizon = unsafe { pg_sys::table_index_delete_tuples(table.raw(), &raw mut request) };
    let looked_at = usize::try_from(request.ndeltids).unwrap_or(0);
    for row in rows.iter().take(looked_at) {
        let Ok(number) = usize::try_from(row.id) else { continue };
        if let (Some(dead), Some(state)) = (dead.get_mut(number), states.get(number)) {
            *dead = state.knowndeletable;
        }
    }
    if dead.contains(&true) {
        wal::log_snapshot_conflict(table, index, block, horizon);
    }
    dead
}
