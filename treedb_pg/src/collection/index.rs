//! The indexes of a table that queries over documents can use.
//!
//! | what the index is over | access method | what it is |
//! |---|---|---|
//! | `treedb.keys(doc, description)` | `treedb_btree` | an index of a key pattern, arrays and all |
//! | the same, with `&&` in an exclusion constraint | `treedb_btree` | the same, unique |
//! | `treedb.unique_key(doc, description)` | unique `btree` | the same for documents without arrays there: version 0.1.0 made these |
//! | `doc -> '_id'` | unique `btree` | the index on `_id` |
//!
//! The description ([`keyset::definition`]) is a constant in the index's expression, so the catalog needs no other memory
//! of the index's options. An index is called as its relation is, without the table's name in front: `films_year_1` is
//! index `year_1` of `films`.

use std::ffi::CStr;
use std::rc::Rc;
use std::sync::Arc;

use pgrx::pg_sys;
use treedb_query::access::IndexInfo;
use treedb_query::index::Definition;
use treedb_query::index::ordered::IndexDef;

use super::catalog_cache::{self, Known, KnownIndex};
use super::table::Table;
use crate::index_am::keyset_scan::{self, Facts};
use crate::shim::expression::ColumnCall;
use crate::shim::relation::{Index as OpenedIndex, LockMode, OpenIndex};
use crate::shim::{catalog, text};
use crate::types::{bson, keyset};

/// How the entries of an index are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Key sets in a tree of this extension.
    KeySets,
    /// Encoded keys in the server's btree.
    Keys,
    /// Values in the server's btree.
    Values,
}

/// An index, open as long as its table is used.
pub(super) struct Index {
    pub(super) relation: OpenIndex,
    pub(super) kind: Kind,
    pub(super) def: Rc<IndexDef>,
    /// The same for queries.
    definition: Arc<Definition>,
    /// Whether a row may have several entries, and whether these are in the order of the keys, as [`IndexInfo`] says. Both at
    /// their worst until that has been read.
    multikey: bool,
    pub(super) ordered: bool,
    /// The type bits of every entry of key sets; none if keys do not tell types.
    pub(super) type_bits: Vec<u8>,
    /// Whether it has been read.
    has_facts: bool,
    /// False while it is being built, or after its building failed.
    pub(super) built: bool,
    /// Whether queries may use it: it is built, and has every row that they may see.
    pub(super) usable: bool,
}

impl Index {
    /// The indexes of `table`, all that are collections' indexes.
    pub(super) fn all(table: &Table) -> Vec<Index> {
        known(table).indexes.iter().map(Index::open).collect()
    }

    /// Opens an index, and reads what holds for its entries.
    pub(super) fn open(known: &KnownIndex) -> Index {
        let mut index = Index::open_without_facts(known);
        index.read_facts();
        index
    }

    /// Opens an index.
    pub(super) fn open_without_facts(known: &KnownIndex) -> Index {
        let relation = OpenIndex::open(known.oid, LockMode::AccessShare);
        let index = relation.get();
        let built = is_built(index);
        let usable = built && !index.is_too_new();
        let key_sets = known.kind == Kind::KeySets;
        Index {
            relation,
            kind: known.kind,
            def: Rc::clone(&known.def),
            definition: Arc::clone(&known.definition),
            multikey: key_sets && usable,
            ordered: !(key_sets && usable),
            type_bits: Vec::new(),
            has_facts: !(key_sets && usable),
            built,
            usable,
        }
    }

    /// Reads what holds for its entries, unless that is known; true if it has been read. It may change at any time: a snapshot
    /// taken before shows no row that contradicts it.
    pub(super) fn read_facts(&mut self) -> bool {
        if self.has_facts {
            return false;
        }
        self.learn(keyset_scan::facts(self.relation.get()));
        true
    }

    fn learn(&mut self, facts: Facts) {
        (self.multikey, self.ordered, self.has_facts) = (facts.multikey, facts.ordered, true);
        if let (Some(types), false) = (facts.types, facts.multikey) {
            self.type_bits = types.type_bits(self.def.keys.len());
        }
    }

    /// The same for an estimate; false where the index cannot be read, which is an error for those that read it.
    pub(super) fn knows_facts(&mut self) -> bool {
        if !self.has_facts
            && let Some(facts) = keyset_scan::known_facts(self.relation.get())
        {
            self.learn(facts);
        }
        self.has_facts
    }

    /// What a query is told of it.
    pub(super) fn info(&self) -> IndexInfo {
        let info = IndexInfo::shared(Arc::clone(&self.definition), self.multikey);
        IndexInfo { ordered: info.ordered && self.ordered, ..info }
    }

    /// The name of its relation, for messages.
    pub(super) fn relation_name(&self) -> String {
        self.relation.get().shown()
    }

    /// Schema and name, quoted for SQL.
    pub(super) fn quoted(&self) -> std::ffi::CString {
        self.relation.get().quoted()
    }
}

/// Whether an index is there for queries: not while it is being built, nor after its building failed.
pub(super) fn is_built(index: OpenedIndex<'_>) -> bool {
    index.is_valid() && index.is_ready() && index.is_live()
}

/// What an index of `table` is called: as its relation, without the table's name in front.
pub(super) fn name_of(table: &Table, index: OpenedIndex<'_>) -> String {
    called(table, &index.shown()).to_owned()
}

/// What an index is called whose relation has this name.
pub(super) fn called<'n>(table: &Table, relation: &'n str) -> &'n str {
    let prefix = format!("{}_", text::lossy(&table.name()));
    relation.strip_prefix(&prefix).unwrap_or(relation)
}

/// Whether a table has indexes of key sets.
pub(super) fn has_key_sets(table: &Table) -> bool {
    known(table).indexes.iter().any(|index| index.kind == Kind::KeySets)
}

/// What there is to know of an open table.
pub(super) fn known(table: &Table) -> Rc<Known> {
    let relation = table.relation.get();
    let read = || {
        let mut known = Known { doc: table.doc, indexes: Vec::new(), others: Vec::new() };
        for oid in relation.indexes() {
            let index = OpenIndex::open(oid, LockMode::AccessShare);
            match read(table, index.get()) {
                Some((kind, def)) => {
                    let definition = Arc::new(Definition::Ordered(def.clone()));
                    let only_keys = index.get().column_count() == 1;
                    known.indexes.push(KnownIndex { oid, kind, def: Rc::new(def), definition, only_keys });
                }
                None => known.others.push(oid),
            }
        }
        known
    };
    let known = catalog_cache::known_or(relation.oid(), read);
    if known.doc == table.doc { known } else { Rc::new(read()) }
}

/// Reads from the catalog how an index of `table` is read and what it is over.
fn read(table: &Table, index: OpenedIndex<'_>) -> Option<(Kind, IndexDef)> {
    if index.key_count() != 1 || index.is_partial() {
        return None;
    }
    let call = ColumnCall::of(index).filter(|call| call.column == table.doc)?;
    let calls = |name: &CStr| catalog::is_own_function(call.function, name);
    let pattern = |unique: bool| {
        let name = name_of(table, index);
        // The function raises an error for an invalid pattern, but only when it is called: an index on an empty
        // table may have one.
        keyset::definition(bson::document(&call.constant), Some(&name), unique).ok()
    };
    let access_method = index.access_method();
    let own = catalog::index_access_method(c"treedb_btree") == Some(access_method);
    // Read from the end or in descending order, the entries of a btree would need other scan keys.
    let unique_btree = access_method == pg_sys::BTREE_AM_OID && index.is_unique() && index.is_ascending(0);
    match () {
        () if own && calls(c"keys") && keyset_scan::is_of_key_sets(index) => {
            Some((Kind::KeySets, pattern(index.is_exclusion())?))
        }
        () if unique_btree && calls(c"unique_key") => Some((Kind::Keys, pattern(true)?)),
        () if unique_btree && calls(c"get") && call.constant == b"_id" => {
            Some((Kind::Values, IndexDef::id()))
        }
        () => None,
    }
}
