//! Unique keys of key sets: no two documents have one in common.
//!
//! A unique index of a collection is an exclusion constraint: the server inserts a row's entries, then asks the index for
//! other rows with one of the keys (operator `&&`), waits for the transactions that have inserted or deleted these, and
//! raises an error if one of them stays. So the check holds for every way in which a row comes, for builds and restored
//! dumps too. What it does not avoid is that two transactions insert their entries first, and then wait for each other.
//!
//! So an insert waits before its entries can be seen ([`Turn::take`]): it locks its keys, and if other transactions are at
//! work on rows that have one of them, it gives the locks up, waits for these, and tries again. If such a row stays, it
//! raises the server's error there: a row that is updated meanwhile would have to wait for this insert, and this insert for
//! the update. Then it inserts its entries and gives the locks up. A later insert of one of these keys finds the entries and
//! waits for this transaction.
//!
//! Invariants: locks of keys are taken in rising order of their numbers, and not held while waiting for a transaction. They
//! are locks of the server's on pages of the index that need not be there: an error releases them.

use pgrx::check_for_interrupts;

use super::keyset_scan;
use super::tree::Tree;
use crate::shim::datum::Bytes;
use crate::shim::index_build::IndexRow;
use crate::shim::index_scan::{Condition, ScanKey};
use crate::shim::key_lock::{KeyLock, Row};
use crate::shim::operator_class::OVERLAPS;
use crate::shim::relation::Table;
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
    keys: &[u8],
    but: Option<pg_sys::ItemPointerData>,
) -> Vec<pg_sys::ItemPointerData> {
    keyset_scan::rows_with(tree, keyset::read(keys), but)
}

/// How often a row with a key that is stored shortened is checked for conflicts before its entries are inserted: one that
/// stays without being a conflict has another key.
const MOST_CHECKS: u32 = 3;

/// The right to insert entries of some keys. Dropped when they have been inserted.
pub(super) struct Turn {
    _locks: Vec<KeyLock>,
}

impl Turn {
    /// Waits until no other open transaction is at work on rows that have a key of this row; an SQL error if there are
    /// such rows then.
    pub(super) fn take(tree: &Tree<'_>, table: Table<'_>, row: &IndexRow<'_>) -> Option<Turn> {
        let value = row.value(0)?;
        let bytes = value.bytes();
        let mut numbers: Vec<u32> = keyset::read(&bytes).map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let exact = keyset::read(&bytes).all(|key| super::schema::shortened(key).len() == key.len());
        let mut checks = 0;
        loop {
            check_for_interrupts!();
            let locks: Vec<KeyLock> =
                numbers.iter().map(|number| KeyLock::take(tree.index, *number)).collect();
            let rows = rows(Tree::new(tree.index, tree.schema), &bytes, Some(row.tid()));
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
                    drop(locks);
                    pending.wait(table, row.tid());
                }
                None if live && checks < MOST_CHECKS => {
                    drop(locks);
                    // No error: the row has gone meanwhile, or has another key after all, or the executor decides.
                    checks = match row.expect_no_conflict(table) {
                        true if exact => 0,
                        true => checks + 1,
                        false => MOST_CHECKS,
                    };
                }
                None => return Some(Turn { _locks: locks }),
            }
        }
    }
}

/// The number of a key's lock: the FNV-1a hash of its bytes, as many as an entry has at most. Different keys may have the same.
fn number(key: &[u8]) -> u32 {
    super::schema::shortened(key)
        .iter()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
