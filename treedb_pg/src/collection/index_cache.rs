//! What this backend knows of indexes: definitions, which are read from the expressions of indexes, and are forgotten
//! when the index, its table or a function changes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys;
use treedb_query::index::ordered::IndexDef;

use super::index::Kind;

/// Most indexes that are known; when there would be more, all are forgotten.
const MOST: usize = 1024;

/// How an index is read and what it is over; `None` if it is not one of a collection's.
pub(super) type Known = Option<(Kind, IndexDef)>;

thread_local! {
    /// By the index, with its table.
    static KNOWN: RefCell<HashMap<pg_sys::Oid, (pg_sys::Oid, Known)>> = RefCell::new(HashMap::new());
    /// How often something has changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Forgets what has changed: a relation, or anything.
pub(crate) fn changed(relation: Option<pg_sys::Oid>) {
    CHANGES.set(CHANGES.get().wrapping_add(1));
    KNOWN.with_borrow_mut(|known| match relation {
        Some(relation) => known.retain(|index, (table, _)| *index != relation && *table != relation),
        None => known.clear(),
    });
}

/// What is known of an open index of an open table; `read` reads it if nothing is.
pub(super) fn known(index: pg_sys::Oid, table: pg_sys::Oid, read: impl FnOnce() -> Known) -> Known {
    let found = KNOWN.with_borrow(|known| {
        known.get(&index).filter(|(of, _)| *of == table).map(|(_, known)| known.clone())
    });
    if let Some(found) = found {
        return found;
    }
    let before = CHANGES.get();
    let read = read();
    // What changed while it was read may be read again.
    if CHANGES.get() == before {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(index, (table, read.clone()));
        });
    }
    read
}
