//! Expressions of indexes and of extended statistics, as far as collections use them.

use pgrx::pg_sys;

use super::datum::{Datum, Layout};
use super::relation::{Index, Table};

/// A call of a function with a column of the table, a constant of variable length and, for some functions, an integer.
pub(crate) struct ColumnCall {
    pub(crate) function: pg_sys::Oid,
    pub(crate) column: i16,
    pub(crate) constant: Vec<u8>,
    /// The third argument, if there is one.
    pub(crate) number: Option<i32>,
}

impl ColumnCall {
    /// The first expression of an index; `None` if there is none, or none of that form.
    pub(crate) fn of(index: Index<'_>) -> Option<ColumnCall> {
        // SAFETY: the server returns a copy of its list of expressions, or null.
        unsafe {
            let list = pg_sys::RelationGetIndexExpressions(index.raw());
            ColumnCall::read(node(list, 0)?)
        }
    }

    /// The expressions that CREATE STATISTICS names of a table, those of that form.
    pub(crate) fn of_statistics(table: Table<'_>) -> Vec<ColumnCall> {
        /// `Anum_pg_statistic_ext_stxexprs` of all versions.
        const EXPRESSIONS: i16 = 9;
        let mut calls = Vec::new();
        // SAFETY: the server returns a list of its own with the numbers of the objects; a row of the catalog is released when what
        // is read of it has been copied.
        unsafe {
            let objects = pg_sys::RelationGetStatExtList(table.raw());
            for at in 0..pg_sys::list_length(objects) {
                let cache = pg_sys::SysCacheIdentifier::STATEXTOID as i32;
                let row = pg_sys::SearchSysCache1(cache, pg_sys::list_nth_oid(objects, at).into());
                if row.is_null() {
                    continue;
                }
                let mut null = false;
                let stored = pg_sys::SysCacheGetAttr(cache, row, EXPRESSIONS, &raw mut null);
                let text = (!null).then(|| pg_sys::text_to_cstring(stored.cast_mut_ptr()));
                pg_sys::ReleaseSysCache(row);
                let Some(text) = text else { continue };
                let expressions = pg_sys::stringToNode(text).cast::<pg_sys::List>();
                let nodes = (0..).map_while(|at| node(expressions, at));
                calls.extend(nodes.filter_map(|expression| ColumnCall::read(expression)));
            }
            pg_sys::list_free(objects);
        }
        calls
    }

    /// Reads an expression.
    ///
    /// # Safety
    /// A node of an expression.
    unsafe fn read(expression: *mut pg_sys::Node) -> Option<ColumnCall> {
        // SAFETY: a node's tag says what structure it is; lists of arguments hold nodes.
        unsafe {
            let (function, args) = match (*expression).type_ {
                pg_sys::NodeTag::T_FuncExpr => {
                    let call = expression.cast::<pg_sys::FuncExpr>();
                    ((*call).funcid, (*call).args)
                }
                pg_sys::NodeTag::T_OpExpr => {
                    let call = expression.cast::<pg_sys::OpExpr>();
                    (pg_sys::get_opcode((*call).opno), (*call).args)
                }
                _ => return None,
            };
            let (column, constant) = (node(args, 0)?, node(args, 1)?);
            if (*column).type_ != pg_sys::NodeTag::T_Var {
                return None;
            }
            let number = match (*args).length {
                2 => None,
                3 => Some(integer(node(args, 2)?)?),
                _ => return None,
            };
            let constant = non_null(constant)?;
            let layout = Layout::new(i16::try_from(constant.constlen).ok()?, constant.constbyval);
            if layout != Layout::Varlena {
                return None;
            }
            let bytes = Datum::from_raw(constant.constvalue, layout).bytes().to_vec();
            let column = (*column.cast::<pg_sys::Var>()).varattno;
            Some(ColumnCall { function, column, constant: bytes, number })
        }
    }
}

/// A constant that is not NULL.
///
/// # Safety
/// A node of an expression.
unsafe fn non_null<'n>(node: *mut pg_sys::Node) -> Option<&'n pg_sys::Const> {
    // SAFETY: a node's tag says what structure it is.
    unsafe {
        if (*node).type_ != pg_sys::NodeTag::T_Const {
            return None;
        }
        Some(&*node.cast::<pg_sys::Const>()).filter(|constant| !constant.constisnull)
    }
}

/// A constant of type `integer`.
///
/// # Safety
/// A node of an expression.
unsafe fn integer(node: *mut pg_sys::Node) -> Option<i32> {
    // SAFETY: the caller's.
    let constant = unsafe { non_null(node)? };
    (constant.consttype == pg_sys::INT4OID).then_some(constant.constvalue.value() as i32)
}

/// Element `at` of a list of nodes.
///
/// # Safety
/// A list of nodes, or null.
unsafe fn node(list: *mut pg_sys::List, at: usize) -> Option<*mut pg_sys::Node> {
    // SAFETY: the list has `length` elements.
    unsafe {
        let list = list.as_ref()?;
        let count = usize::try_from(list.length).unwrap_or(0);
        (at < count).then(|| (*list.elements.add(at)).ptr_value.cast())
    }
}
