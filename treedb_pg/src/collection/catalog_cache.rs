//! What this backend knows of collections: the column of documents and the definitions of indexes, which are read from
//! their expressions. It is forgotten when the table, one of its indexes or a function changes.
//!
//! A table is looked up once it is locked: the server has told of every change before the lock by then, and there is none
//! while it is held, except that indexes come and go. A statement keeps what it has found.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use pgrx::pg_sys;
use treedb_query::index::Definition;
use treedb_query::index::ordered::IndexDef;

use super::index::Kind;
use crate::shim::server;

/// Most tables that are known; when there would be more, all are forgotten.
const MOST: usize = 1024;

/// A table of documents.
pub(super) struct Known {
    /// Number of the column `doc`.
    pub(super) doc: i16,
    /// Its indexes that are a collection's, in the server's order.
    pub(super) indexes: Vec<KnownIndex>,
    /// Those that are not: changes of them count too.
    pub(super) others: Vec<pg_sys::Oid>,
}

/// An index: how it is read, and what it is over.
pub(super) struct KnownIndex {
    pub(super) oid: pg_sys::Oid,
    pub(super) kind: Kind,
    pub(super) def: Rc<IndexDef>,
    /// The same for queries.
    pub(super) definition: Arc<Definition>,
    /// It has no columns beside the keys.
    pub(super) only_keys: bool,
}

impl Known {
    fn has(&self, index: pg_sys::Oid) -> bool {
        self.others.contains(&index) || self.indexes.iter().any(|known| known.oid == index)
    }
}

/// Hashes the numbers of tables, which the server gives out one after another.
#[derive(Default)]
struct OidHasher(u64);

impl Hasher for OidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The map wants differences in the upper bits too.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Tables = HashMap<pg_sys::Oid, Rc<Known>, BuildHasherDefault<OidHasher>>;

thread_local! {
    static KNOWN: RefCell<Tables> = RefCell::default();
    /// How often something has changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Forgets what has changed: a relation, or anything.
pub(crate) fn changed(relation: Option<pg_sys::Oid>) {
    CHANGES.set(CHANGES.get().wrapping_add(1));
    KNOWN.with_borrow_mut(|known| match relation {
        Some(relation) => known.retain(|table, known| *table != relation && !known.has(relation)),
        None => known.clear(),
    });
}

/// When the statement began, and how often something has changed: a function is one statement, and may create an index. What was found
/// at another moment may be out of date.
pub(super) type Moment = (i64, u64);

/// The present one.
pub(super) fn moment() -> Moment {
    (server::statement_start(), CHANGES.get())
}

/// What is known of a locked table, if anything is.
pub(super) fn known(table: pg_sys::Oid) -> Option<Rc<Known>> {
    KNOWN.with_borrow(|known| known.get(&table).cloned())
}

/// What is known of a locked table of documents; `read` reads it if nothing is.
pub(super) fn known_or(table: pg_sys::Oid, read: impl FnOnce() -> Known) -> Rc<Known> {
    if let Some(found) = known(table) {
        return found;
    }
    let before = CHANGES.get();
    let read = Rc::new(read());
    // What changed while it was read is read again the next time.
    if CHANGES.get() == before {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(table, Rc::clone(&read));
        });
    }
    read
}
