//! Unique keys of key sets: no two documents have one in common.
//!
//! A unique index of a collection is an exclusion constraint: the server inserts a row's entries, then asks the index for
//! other rows with one of the keys (operator `&&`), waits for the transactions that have inserted or deleted these, and
//! raises an error if one of them stays. So the check holds for every way in which a row comes, for builds and restored
//! dumps too. What it does not avoid is that two transactions insert their entries first, and then wait for each other.
//!
//! So an insert waits before its entries can be seen ([`Turn`]): it locks its keys, and if other transactions are at
//! work on rows that have one of them, it gives the locks up, waits for these, and tries again. If such a row stays, it
//! raises the server's error there: a row that is updated meanwhile would have to wait for this insert, and this insert for
//! the update. Then it inserts its entries and gives the locks up. A later insert of one of these keys finds the entries and
//! waits for this transaction.
//!
//! A row with one key needs no search for others: its entry goes into a leaf that has no entry of that key, under one latch
//! ([`Tree::insert_alone`]), and only if that is not so the rows are looked for. Either way the server's own question after the
//! insert is answered without another search, as no row with one of the keys can have come meanwhile ([`is_checked`]).
//!
//! Invariants: locks of keys are taken in rising order of their numbers, and not held while waiting for a transaction. They
//! are locks of the server's on pages of the index that need not be there: an error releases them.

use std::cell::Cell;

use pgrx::check_for_interrupts;

use super::keyset_scan;
use super::tree::Tree;
use crate::shim::datum::Bytes;
use crate::shim::index_build::IndexRow;
use crate::shim::index_scan::{Condition, ScanKey};
use crate::shim::key_lock::{KeyLock, Row};
use crate::shim::operator_class::OVERLAPS;
use crate::shim::relation::{Index, Relation, Table};
use crate::shim::snapshot::RunningCommand;
use crate::types::keyset;

use pgrx::pg_sys;

/// The key set that the only condition of a scan compares with; `None` if it is another condition.
pub(super) fn overlapped<'k>(mut keys: impl Iterator<Item = ScanKey<'k>>) -> Option<Bytes<'k>> {
    match (keys.next(), keys.next()) {
        (Some(ScanKey { strategy: OVERLAPS, condition: Condition::Compare(keys), .. }), None) => {
            Some(keys.bytes())
        }
        _ => None,
    }
}

/// The rows that have a key of this set, perhaps, each once. `but` is left out.
pub(super) fn rows(
    tree: Tree<'_>,
    table: Option<Relation<'_>>,
    keys: &[u8],
    but: Option<pg_sys::ItemPointerData>,
) -> Vec<pg_sys::ItemPointerData> {
    keyset_scan::rows_with(tree, table, keyset::read(keys), but)
}

/// How often a row with a key that is stored shortened is checked for conflicts before its entries are inserted: one that
/// stays without being a conflict has another key.
const MOST_CHECKS: u32 = 3;

/// Locks of the keys of a row that is to be inserted. Ended when its entries are there.
pub(super) struct Turn<'k> {
    keys: &'k [u8],
    /// The numbers of the keys' locks, in rising order.
    numbers: Vec<u32>,
    exact: bool,
    locks: Vec<KeyLock>,
    /// No other row that stays has one of the keys.
    alone: bool,
}

impl<'k> Turn<'k> {
    /// Locks the keys of a set.
    pub(super) fn begin(tree: &Tree<'_>, keys: &'k [u8]) -> Turn<'k> {
        let mut numbers: Vec<u32> = keyset::read(keys).map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let exact = keyset::read(keys).all(|key| super::schema::shortened(key).len() == key.len());
        let mut turn = Turn { keys, numbers, exact, locks: Vec::new(), alone: false };
        turn.lock(tree);
        turn
    }

    /// Whether entries have the keys as they are, none of them shortened.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    fn lock(&mut self, tree: &Tree<'_>) {
        self.locks.extend(self.numbers.iter().map(|number| KeyLock::take(tree.index, *number)));
    }

    /// Waits until no other open transaction is at work on rows that have a key of this row; an SQL error if there are
    /// such rows then.
    pub(super) fn wait(mut self, tree: &Tree<'_>, table: Table<'_>, row: &IndexRow<'_>) -> Turn<'k> {
        let mut checks = 0;
        loop {
            let tree_again = Tree::new(tree.index, tree.schema);
            let rows = rows(tree_again, Some(*table), self.keys, Some(row.tid()));
            let (mut live, mut pending) = (false, None);
            for row in rows {
                match Row::of(table, row) {
                    Row::Gone => {}
                    Row::Live => live = true,
                    Row::Pending(one) => pending = Some(one),
                }
            }
            match pending {
                Some(pending) => {
                    self.locks.clear();
                    pending.wait(table, row.tid());
                }
                None if live && checks < MOST_CHECKS => {
                    self.locks.clear();
                    // No error: the row has gone meanwhile, or has another key after all, or the executor decides.
                    checks = match row.expect_no_conflict(table) {
                        true if self.exact => 0,
                        true => checks + 1,
                        false => MOST_CHECKS,
                    };
                }
                None => {
                    self.alone = self.exact && !live;
                    return self;
                }
            }
            check_for_interrupts!();
            self.lock(tree);
        }
    }

    /// Gives the locks up: the entries are there.
    pub(super) fn end(self, index: Index<'_>) {
        let alone = self.alone && index.is_immediate();
        CHECKED.set(alone.then(|| Checked::now(index, self.keys)));
    }

    /// The same after it was seen that no other entry has the key.
    pub(super) fn end_alone(mut self, index: Index<'_>) {
        self.alone = true;
        self.end(index);
    }
}

thread_local! {
    /// The last insert of this backend after which no other row had one of its keys.
    static CHECKED: Cell<Option<Checked>> = const { Cell::new(None) };
}

/// An insert whose keys need not be looked for again: the server does so right after it.
struct Checked {
    index: pg_sys::Oid,
    keys: Vec<u8>,
    command: RunningCommand,
}

impl Checked {
    fn now(index: Index<'_>, keys: &[u8]) -> Checked {
        Checked { index: index.oid(), keys: keys.to_vec(), command: RunningCommand::of_writer() }
    }
}

/// Whether the running command has just inserted entries of these keys, and there were no others. True once for an
/// insert: the server asks once.
pub(super) fn is_checked(index: Index<'_>, keys: &[u8]) -> bool {
    CHECKED.take().is_some_and(|checked| {
        checked.index == index.oid() && checked.keys == keys && checked.command == RunningCommand::of_writer()
    })
}

/// The number of a key's lock: the FNV-1a hash of its bytes, as many as an entry has at most. Different keys may have the same.
fn number(key: &[u8]) -> u32 {
    super::schema::shortened(key)
        .iter()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
