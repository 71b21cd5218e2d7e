//! The order of a table's rows by the value at a path of their documents: what the planner asks for, and how a plan says it.
//!
//! A query is ordered by `get(column, 'path')`, the function behind `column -> 'path'`, or by that behind `column #> '{path}'`. The
//! result is NULL for documents without a value there. Only the first key of an order counts: the server sorts rows with equal ones by the others
//! (Incremental Sort).

use std::ffi::CStr;
use std::ptr;

use pgrx::pg_sys;

use super::custom_path;
use super::value_condition::{ValueAt, ValueFunction};
use super::{catalog, compat};

/// An order of rows by a value of their documents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowOrder {
    /// The path of the value, in the database's encoding.
    pub(crate) path: Vec<u8>,
    pub(crate) descending: bool,
    /// Whether rows without a value come first; else they come last.
    pub(crate) absent_first: bool,
    /// Whether the query's conditions leave out rows without a value.
    pub(crate) with_value: bool,
    /// How many rows are likely to be read; 0 for all.
    pub(crate) wanted: u32,
}

impl RowOrder {
    /// How many numbers say what its expression does not say.
    pub(super) const NUMBERS: usize = 4;

    /// What its expression says, with the numbers of [`RowOrder::numbers`].
    ///
    /// # Safety
    /// An expression of [`AskedOrder`], or a copy that the server has made a part of a plan.
    pub(super) unsafe fn of(
        expression: *mut pg_sys::Node,
        functions: &'static [ValueFunction],
        [descending, absent_first, with_value, wanted]: [i32; Self::NUMBERS],
    ) -> Option<RowOrder> {
        Some(RowOrder {
            // SAFETY: the caller's.
            path: unsafe { ValueAt::path_of(expression, functions)? },
            descending: descending != 0,
            absent_first: absent_first != 0,
            with_value: with_value != 0,
            wanted: u32::try_from(wanted).unwrap_or(0),
        })
    }

    /// What its expression does not say.
    pub(super) fn numbers(&self) -> [i32; Self::NUMBERS] {
        let wanted = i32::try_from(self.wanted).unwrap_or(0);
        [i32::from(self.descending), i32::from(self.absent_first), i32::from(self.with_value), wanted]
    }

    /// What SQL has behind the expression in ORDER BY.
    pub(super) fn direction(&self) -> &'static str {
        match (self.descending, self.absent_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        }
    }
}

/// An order that a query asks for.
pub(super) struct AskedOrder {
    pub(super) order: RowOrder,
    /// The number of the column of documents.
    pub(super) column: i16,
    /// The value that rows are ordered by.
    pub(super) expression: *mut pg_sys::Node,
    key: *mut pg_sys::PathKey,
}

impl AskedOrder {
    /// What a query orders the rows of `rel` by first, if that is a value of their documents: what one of `functions` gives, which
    /// return values of the extension's type `kind`.
    ///
    /// # Safety
    /// The planner, and a relation of the query's own.
    pub(super) unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        functions: &'static [ValueFunction],
        kind: &'static CStr,
    ) -> Option<AskedOrder> {
        // SAFETY: lists of the planner's; the tag of a node says what structure it is.
        unsafe {
            // A path that depends on other relations has no order, in the planner's view.
            if (*root).query_pathkeys.is_null() || !(*rel).lateral_relids.is_null() {
                return None;
            }
            let key = pg_sys::list_nth((*root).query_pathkeys, 0).cast::<pg_sys::PathKey>();
            let class = (*key).pk_eclass;
            if (*class).ec_has_volatile {
                return None;
            }
            let members = (*class).ec_members;
            let (expression, value) = (0..pg_sys::list_length(members)).find_map(|at| {
                let member = pg_sys::list_nth(members, at).cast::<pg_sys::EquivalenceMember>();
                let own = !(*member).em_is_child && pg_sys::bms_equal((*member).em_relids, (*rel).relids);
                let expression = (*member).em_expr.cast::<pg_sys::Node>();
                let value = own.then(|| ValueAt::of(expression, (*rel).relid, functions)).flatten()?;
                Some((expression, value))
            })?;
            if (*key).pk_opfamily != order_of_type(catalog::own_type(kind)) {
                return None;
            }
            let ValueAt { column, path, .. } = value;
            let order = RowOrder {
                path,
                descending: compat::is_descending(&*key),
                absent_first: (*key).pk_nulls_first,
                with_value: false,
                wanted: custom_path::wanted_rows(root, rel).unwrap_or(0),
            };
            Some(AskedOrder { order, column, expression, key })
        }
    }

    /// The order of a path that has it.
    ///
    /// # Safety
    /// In the planner of the query.
    pub(super) unsafe fn path_keys(&self) -> *mut pg_sys::List {
        // SAFETY: a node of the planner's.
        unsafe { pg_sys::lappend(ptr::null_mut(), self.key.cast()) }
    }
}

/// The family of the operators that values of a type are ordered by unless others are named.
fn order_of_type(kind: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up by a type that exists; its entry stays where it is.
    unsafe { (*pg_sys::lookup_type_cache(kind, pg_sys::TYPECACHE_BTREE_OPFAMILY as i32)).btree_opf }
}
