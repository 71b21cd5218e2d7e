//! Which entries of a leaf are of rows that are dead to every transaction, so that an index may remove them without a
//! vacuum. The addresses of the rows stay taken until a vacuum has been through all indexes.

use pgrx::pg_sys;

use super::heap::tid_parts;
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
    // The table takes each row once, but the keys of an array's elements are entries of one row.
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let row_of = |number: &usize| candidates.get(*number).map(|candidate| tid_parts(candidate.row));
    order.sort_by_key(row_of);
    let mut entries: Vec<&[usize]> = Vec::with_capacity(candidates.len());
    let mut rows: Vec<pg_sys::TM_IndexDelete> = Vec::with_capacity(candidates.len());
    let mut states: Vec<pg_sys::TM_IndexStatus> = Vec::with_capacity(candidates.len());
    // The table takes what is known only where it checks everything; where it chooses blocks, that is a reason to
    // choose one.
    let known = search == Search::Known;
    for entries_of_row in order.chunk_by(|a, b| row_of(a) == row_of(b)) {
        let of_row = || entries_of_row.iter().filter_map(|number| candidates.get(*number));
        let (Some(first), Ok(id)) = (of_row().next(), i16::try_from(entries.len())) else { break };
        let known_dead = of_row().any(|candidate| candidate.known_dead);
        rows.push(pg_sys::TM_IndexDelete { tid: first.row, id });
        states.push(pg_sys::TM_IndexStatus {
            idxoffnum: entries.len() as u16 + 1,
            knowndeletable: known && known_dead,
            promising: !known && (known_dead || of_row().any(|candidate| candidate.promising)),
            freespace: i16::try_from(of_row().map(|candidate| candidate.size).sum::<usize>())
                .unwrap_or(i16::MAX),
        });
        entries.push(entries_of_row);
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
        let (Some(entries), Some(state)) = (entries.get(number), states.get(number)) else { continue };
        for entry in *entries {
            if let Some(dead) = dead.get_mut(*entry) {
                *dead = state.knowndeletable;
            }
        }
    }
    if dead.contains(&true) {
        wal::log_snapshot_conflict(table, index, block, horizon);
    }
    dead
}
