//! Which entries of a leaf are of rows that are dead to every transaction, so that an index may remove them without a
//! vacuum. The addresses of the rows stay taken until a vacuum has been through all indexes.
//!
//! The server's btree asks the table to look at six of its blocks at most. Versions of rows in random order of the key are
//! each in another block, so that few are found, and a leaf is split whose entries are mostly of dead rows. Here the
//! blocks are looked at as long as that pays, but only those in the buffer pool: looking costs no more than an insert
//! then, and no I/O.

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
}

/// Most blocks that are looked at one by one, until one has a dead row.
const PROBES: usize = 8;
/// Blocks that are looked at together then; after that twice as many each time.
const FIRST_BLOCKS: usize = 16;
/// Blocks are looked at as long as one of so many promising rows was dead in those before.
const WORTHWHILE_PART: usize = 4;
/// So many blocks that are not in the buffer pool end a search: the rows are cold.
const MOST_MISSING: usize = 4;

/// The rows of candidates, by their addresses. The table takes each row once, but the keys of an array's elements are
/// entries of one row.
struct Rows<'c> {
    candidates: &'c [Candidate],
    /// Numbers of candidates, those of a row in a row.
    order: Vec<usize>,
    rows: Vec<Row>,
}

/// A row, and its entries.
#[derive(Clone, Copy)]
struct Row {
    tid: pg_sys::ItemPointerData,
    /// Where its candidates are in the order.
    from: usize,
    to: usize,
    known_dead: bool,
    promising: bool,
}

impl Row {
    fn block(&self) -> u32 {
        tid_parts(self.tid).0
    }
}

impl<'c> Rows<'c> {
    fn of(candidates: &'c [Candidate]) -> Rows<'c> {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        let address = |number: &usize| candidates.get(*number).map(|candidate| tid_parts(candidate.row));
        order.sort_by_key(address);
        let mut rows = Vec::with_capacity(order.len());
        let mut from = 0;
        for numbers in order.chunk_by(|a, b| address(a) == address(b)) {
            let of_row = || numbers.iter().filter_map(|number| candidates.get(*number));
            let Some(first) = of_row().next() else { break };
            rows.push(Row {
                tid: first.row,
                from,
                to: from + numbers.len(),
                known_dead: of_row().any(|candidate| candidate.known_dead),
                promising: of_row().any(|candidate| candidate.promising),
            });
            from += numbers.len();
        }
        Rows { candidates, order, rows }
    }

    /// An element for each candidate: whether its row is one of these.
    fn flags(&self, dead: &[Row]) -> Vec<bool> {
        let mut flags = vec![false; self.candidates.len()];
        for number in dead.iter().flat_map(|row| self.order.get(row.from..row.to)).flatten() {
            if let Some(flag) = flags.get_mut(*number) {
                *flag = true;
            }
        }
        flags
    }
}

/// Which of the entries of page `block` that scans have found dead are of dead rows, and those whose rows are in the same
/// blocks of the table. An element for each candidate, in the same order.
pub(crate) fn known_dead(
    table: Table<'_>,
    index: Index<'_>,
    block: u32,
    candidates: &[Candidate],
) -> Vec<bool> {
    let rows = Rows::of(candidates);
    let dead = dead_of(table, index, block, Look::All, &rows.rows);
    rows.flags(&dead)
}

/// Which of the entries of page `block` are of dead rows, as far as a look at the blocks of promising ones tells. An
/// element for each candidate, in the same order.
pub(crate) fn dead_versions(
    table: Table<'_>,
    index: Index<'_>,
    block: u32,
    candidates: &[Candidate],
) -> Vec<bool> {
    let rows = Rows::of(candidates);
    let promising = |rows: &[Row]| rows.iter().filter(|row| row.promising).count();
    let in_blocks = rows.rows.chunk_by(|a, b| a.block() == b.block());
    let mut blocks: Vec<&[Row]> = in_blocks.filter(|rows| promising(rows) > 0).collect();
    // Those with most promising rows first.
    blocks.sort_by_key(|rows| std::cmp::Reverse(promising(rows)));
    let mut blocks = blocks.into_iter();
    let mut missing = 0;
    let mut buffered = |rows: &&[Row]| {
        let found = missing < MOST_MISSING && rows.first().is_some_and(|row| is_buffered(table, row.block()));
        missing += usize::from(!found);
        found
    };
    let probed = blocks.by_ref().take(PROBES).filter(&mut buffered);
    let mut dead = probed
        .map(|rows| dead_of(table, index, block, Look::AsWorthwhile, rows))
        .find(|dead| !dead.is_empty())
        .unwrap_or_default();
    let Some(witness) = dead.first().map(|row| Row { known_dead: true, ..*row }) else {
        return rows.flags(&dead);
    };
    let mut at_once = FIRST_BLOCKS;
    loop {
        let mut chosen: Vec<Row> =
            blocks.by_ref().take(at_once).filter(&mut buffered).flatten().copied().collect();
        let asked = promising(&chosen);
        if asked == 0 {
            break;
        }
        // The table expects that a row of those which it is to look at is dead.
        chosen.push(witness);
        let mut found = dead_of(table, index, block, Look::All, &chosen);
        found.retain(|row| !row.known_dead);
        let pays = promising(&found) * WORTHWHILE_PART >= asked;
        dead.extend(found);
        if !pays {
            break;
        }
        at_once *= 2;
    }
    rows.flags(&dead)
}

/// Whether a block of a table is in the buffer pool; if not, the kernel may begin to read it.
fn is_buffered(table: Table<'_>, block: u32) -> bool {
    // SAFETY: an open table; the server looks the block up.
    let found = unsafe { pg_sys::PrefetchBuffer(table.raw(), pg_sys::ForkNumber::MAIN_FORKNUM, block) };
    found.recent_buffer != pg_sys::InvalidBuffer as i32
}

/// At which of the rows the table looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// At all. One of them at least has to be known to be dead.
    All,
    /// At those that it chooses. None of them is known to be dead.
    AsWorthwhile,
}

/// Asks the table which of these rows are dead, and makes standbys cancel the queries that could still need them.
fn dead_of(table: Table<'_>, index: Index<'_>, block: u32, look: Look, of: &[Row]) -> Vec<Row> {
    // Where the table chooses, that is how it weighs what it finds: all rows are worth the same.
    const SPACE: i16 = 1;
    let all = look == Look::All;
    let mut rows: Vec<pg_sys::TM_IndexDelete> = Vec::with_capacity(of.len());
    let mut states: Vec<pg_sys::TM_IndexStatus> = Vec::with_capacity(of.len());
    for row in of {
        let Ok(id) = i16::try_from(rows.len()) else { break };
        rows.push(pg_sys::TM_IndexDelete { tid: row.tid, id });
        states.push(pg_sys::TM_IndexStatus {
            idxoffnum: rows.len() as u16,
            knowndeletable: all && row.known_dead,
            promising: !all && row.promising,
            freespace: SPACE,
        });
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let mut request = pg_sys::TM_IndexDeleteOp {
        irel: index.raw(),
        iblknum: block,
        bottomup: !all,
        bottomupfreespace: if all { 0 } else { i32::MAX },
        ndeltids: rows.len() as i32,
        deltids: rows.as_mut_ptr(),
        status: states.as_mut_ptr(),
    };
    // SAFETY: open relations; both arrays have as many elements as the request says. The table sorts them, and lowers
    // the number of rows to those up to the last one that is dead.
    let horizon = unsafe { pg_sys::table_index_delete_tuples(table.raw(), &raw mut request) };
    let looked_at = usize::try_from(request.ndeltids).unwrap_or(0);
    let dead: Vec<Row> = rows
        .iter()
        .take(looked_at)
        .filter_map(|row| usize::try_from(row.id).ok())
        .filter(|number| states.get(*number).is_some_and(|state| state.knowndeletable))
        .filter_map(|number| of.get(number).copied())
        .collect();
    if !dead.is_empty() {
        wal::log_snapshot_conflict(table, index, block, horizon);
    }
    dead
}
