//! The indexes of a table that queries over documents can use.
//!
//! | what the index is over | access method | what it is |
//! |---|---|---|
//! | `treedb.keys(doc, pattern)` | `treedb_btree` | an index of the key pattern, arrays and all |
//! | `treedb.unique_key(doc, pattern)` | unique `btree` | the same, unique, for documents without arrays there |
//! | `doc -> '_id'` | unique `btree` | the index on `_id` |
//!
//! The pattern is a constant in the index's expression, so the catalog needs no other memory of it. An index is
//! called as its relation is, without the table's name in front: `films_year_1` is index `year_1` of `films`.

use std::ffi::CStr;

use pgrx::pg_sys;
use treedb_query::access::IndexInfo;
use treedb_query::index::ordered::IndexDef;

use super::table::Table;
use crate::index_am::walk;
use crate::shim::varlena::Bytes;
use crate::shim::{server, text};
use crate::types::bson;

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
    pub(super) relation: pg_sys::Relation,
    pub(super) kind: Kind,
    pub(super) info: IndexInfo,
    /// False while it is being built, or after its building failed.
    pub(super) usable: bool,
}

impl Index {
    /// The indexes of `table`, all that are collections' indexes.
    pub(super) fn all(table: &Table) -> Vec<Index> {
        // SAFETY: the table is open; the list holds the numbers of its indexes.
        unsafe {
            let list = pg_sys::RelationGetIndexList(table.relation);
            let count = if list.is_null() { 0 } else { usize::try_from((*list).length).unwrap_or(0) };
            let oids: Vec<pg_sys::Oid> = (0..count).map(|i| (*(*list).elements.add(i)).oid_value).collect();
            pg_sys::list_free(list);
            oids.into_iter().filter_map(|oid| Index::open(table, oid)).collect()
        }
    }

    /// Opens an index; `None` if it is not one of a collection's.
    fn open(table: &Table, oid: pg_sys::Oid) -> Option<Index> {
        // SAFETY: listed by the table, which is locked.
        let relation = unsafe { pg_sys::index_open(oid, pg_sys::AccessShareLock as i32) };
        // Closes it when it is not returned.
        let mut index = Index {
            relation,
            kind: Kind::Values,
            info: IndexInfo { def: IndexDef::id(), multikey: false, ordered: true },
            usable: false,
        };
        // SAFETY: open.
        let (form, own) = unsafe { (&*(*relation).rd_index, (*(*relation).rd_rel).relam) };
        // SAFETY: catalog look-up by name.
        let trees = unsafe { pg_sys::get_index_am_oid(c"treedb_btree".as_ptr(), true) };
        let btree = own == pg_sys::BTREE_AM_OID;
        // SAFETY: open; the expressions are in the index's own memory.
        let (kind, def) = unsafe {
            if form.indnkeyatts != 1 || !pg_sys::RelationGetIndexPredicate(relation).is_null() {
                return None;
            }
            let call = Call::of(first(pg_sys::RelationGetIndexExpressions(relation))?, table.doc)?;
            let name = short_name(table, relation);
            // Read from the end or in descending order, the entries of a btree would need other scan keys.
            let plain = *(*relation).rd_indoption == 0;
            match () {
                () if own == trees && call.is(c"keys") => (Kind::KeySets, call.pattern(&name, false)?),
                () if btree && form.indisunique && plain && call.is(c"unique_key") => {
                    (Kind::Keys, call.pattern(&name, true)?)
                }
                () if btree && form.indisunique && plain && call.is(c"get") && call.is_id() => {
                    (Kind::Values, IndexDef::id())
                }
                () => return None,
            }
        };
        index.kind = kind;
        index.info.def = def;
        index.usable = form.indisvalid && form.indisready && form.indislive && !too_new(relation);
        if kind == Kind::KeySets && index.usable {
            let facts = walk::facts(relation);
            index.info.multikey = facts.multikey;
            index.info.ordered = facts.ordered;
        }
        Some(index)
    }

    /// The name of its relation.
    pub(super) fn relation_name(&self) -> &CStr {
        // SAFETY: open.
        unsafe { CStr::from_ptr((*(*self.relation).rd_rel).relname.data.as_ptr()) }
    }

    /// Schema and name, quoted for SQL.
    pub(super) fn quoted(&self) -> std::ffi::CString {
        // SAFETY: open.
        server::qualified(unsafe { (*(*self.relation).rd_rel).relnamespace }, self.relation_name())
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened by us; the lock stays until the end of the transaction.
            unsafe { pg_sys::index_close(self.relation, pg_sys::NoLock as i32) }
        }
    }
}

/// An index that was built over broken HOT chains does not have every row of older snapshots.
fn too_new(index: pg_sys::Relation) -> bool {
    // SAFETY: an open index, whose catalog row is kept with it.
    unsafe {
        (*(*index).rd_index).indcheckxmin
            && !pg_sys::TransactionIdPrecedes(
                crate::shim::heap::xmin((*(*index).rd_indextuple).t_data),
                pg_sys::TransactionXmin,
            )
    }
}

/// The index's name without the table's in front.
fn short_name(table: &Table, index: pg_sys::Relation) -> String {
    // SAFETY: open.
    let name = text::lossy(unsafe { CStr::from_ptr((*(*index).rd_rel).relname.data.as_ptr()) });
    let prefix = format!("{}_", text::lossy(table.name()));
    name.strip_prefix(&prefix).map(str::to_owned).unwrap_or(name)
}

/// The first node of a list.
unsafe fn first(list: *mut pg_sys::List) -> Option<*mut pg_sys::Node> {
    // SAFETY: the caller's list is one of nodes, or null.
    unsafe { list.as_ref().filter(|list| list.length > 0).map(|list| (*list.elements).ptr_value.cast()) }
}

/// A call of a function with the documents' column and a constant.
struct Call {
    function: pg_sys::Oid,
    constant: Bytes,
}

impl Call {
    /// Reads an expression; `None` if it is not of that form.
    unsafe fn of(node: *mut pg_sys::Node, doc: i16) -> Option<Call> {
        // SAFETY: a node's tag says what structure it is; lists of arguments hold nodes.
        unsafe {
            let (function, args) = match (*node).type_ {
                pg_sys::NodeTag::T_FuncExpr => {
                    let call = node.cast::<pg_sys::FuncExpr>();
                    ((*call).funcid, (*call).args)
                }
                pg_sys::NodeTag::T_OpExpr => {
                    let call = node.cast::<pg_sys::OpExpr>();
                    (pg_sys::get_opcode((*call).opno), (*call).args)
                }
                _ => return None,
            };
            if args.as_ref()?.length != 2 {
                return None;
            }
            let column = (*(*args).elements).ptr_value.cast::<pg_sys::Node>();
            let constant = (*(*args).elements.add(1)).ptr_value.cast::<pg_sys::Node>();
            let is = |node: *mut pg_sys::Node, tag| (*node).type_ == tag;
            if !is(column, pg_sys::NodeTag::T_Var) || !is(constant, pg_sys::NodeTag::T_Const) {
                return None;
            }
            let (column, constant) = (column.cast::<pg_sys::Var>(), constant.cast::<pg_sys::Const>());
            if (*column).varattno != doc || (*constant).constisnull {
                return None;
            }
            Some(Call { function, constant: Bytes::of((*constant).constvalue) })
        }
    }

    fn is(&self, name: &CStr) -> bool {
        server::is_own_function(self.function, name)
    }

    fn is_id(&self) -> bool {
        &*self.constant == b"_id"
    }

    fn pattern(&self, name: &str, unique: bool) -> Option<IndexDef> {
        // What is no pattern the function would have refused; an index over no rows may have one all the same.
        IndexDef::parse(bson::document(&self.constant), Some(name), unique).ok()
    }
}
