//! Values at paths of documents in a query: `column -> 'path'`, as the planner sees it in conditions and orders, and the
//! conditions `column -> 'path' < constant` and `column -> 'path' IN (constants)` of a table, collected by paths.
//!
//! Such conditions are no filters. What a document has to match for all conditions on one path to be true is known to the
//! search, see [`FilteredRows::filter_of_values`](super::filter_scan::FilteredRows::filter_of_values).

use std::ffi::CStr;

use pgrx::pg_sys;

use super::catalog;
use super::custom_scan::argument_of;
use super::datum::{Datum, Layout};

/// A function of a document and a path that gives the value there, or NULL.
pub(crate) struct ValueFunction {
    pub(crate) function: &'static CStr,
    /// The dotted path that means the same as a constant: a `text`, or the elements of a `text[]`, in the database's encoding;
    /// `None` if there is none.
    pub(crate) path: fn(&[&[u8]]) -> Option<Vec<u8>>,
    /// A path of which nothing is searched for: the server has an index of its own.
    pub(crate) except: &'static [u8],
}

/// How a value compares with a constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Comparison {
    /// The functions behind the operators.
    const FUNCTIONS: [(&'static CStr, Comparison); 5] = [
        (c"bson_value_lt", Comparison::Less),
        (c"bson_value_le", Comparison::LessOrEqual),
        (c"bson_value_eq", Comparison::Equal),
        (c"bson_value_ge", Comparison::GreaterOrEqual),
        (c"bson_value_gt", Comparison::Greater),
    ];

    /// That of a function of the extension's; `None` if it is another one.
    pub(super) fn of(function: pg_sys::Oid) -> Option<Comparison> {
        Some(catalog::own_function_among(function, &Comparison::FUNCTIONS, |known| known.0)?.1)
    }

    /// That of an operator's name.
    pub(crate) fn named(name: &[u8]) -> Option<Comparison> {
        Self::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, comparison)| *comparison)
    }

    /// The name of the operator.
    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, comparison)| *comparison == self).map_or("", |(name, _)| name)
    }

    const NAMES: [(&'static str, Comparison); 5] = [
        ("<", Comparison::Less),
        ("<=", Comparison::LessOrEqual),
        ("=", Comparison::Equal),
        (">=", Comparison::GreaterOrEqual),
        (">", Comparison::Greater),
    ];

    /// The comparison with its two sides exchanged.
    pub(super) fn commuted(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Equal => Comparison::Equal,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            Comparison::Greater => Comparison::Less,
        }
    }
}

/// What a condition asks of a value.
#[derive(Clone)]
pub(crate) enum Wanted {
    /// That it compares so with a stored value.
    Compared(Comparison, Vec<u8>),
    /// That it is one of these stored values.
    OneOf(Vec<Vec<u8>>),
}

/// The value that an expression takes from a document of a relation.
pub(super) struct ValueAt {
    function: &'static ValueFunction,
    /// The number of the column of documents.
    pub(super) column: i16,
    /// The dotted path, in the database's encoding.
    pub(super) path: Vec<u8>,
}

impl ValueAt {
    /// What an expression takes from a row of relation `number`, if it is a call of one of `functions` with a constant path.
    ///
    /// # Safety
    /// An expression.
    pub(super) unsafe fn of(
        expression: *mut pg_sys::Node,
        number: pg_sys::Index,
        functions: &'static [ValueFunction],
    ) -> Option<ValueAt> {
        // SAFETY: the tag of a node says what structure it is.
        unsafe {
            let (called, arguments) = called_by(expression)?;
            let document = pg_sys::list_nth(arguments, 0).cast::<pg_sys::Var>();
            if (*document.cast::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_Var
                || (*document).varno != number as i32
                || (*document).varlevelsup != 0
            {
                return None;
            }
            let function = catalog::own_function_among(called, functions, |known| known.function)?;
            let path = function.path_in(arguments)?;
            Some(ValueAt { function, column: (*document).varattno, path })
        }
    }

    /// Whether nothing is searched for at its path: the server has an index of its own.
    pub(super) fn is_left_to_server(&self) -> bool {
        self.path == self.function.except
    }

    /// The path of an expression of which [`ValueAt::of`] found it, or of a copy in a plan.
    ///
    /// # Safety
    /// Such an expression.
    pub(super) unsafe fn path_of(
        expression: *mut pg_sys::Node,
        functions: &'static [ValueFunction],
    ) -> Option<Vec<u8>> {
        // SAFETY: the caller's.
        unsafe {
            let (called, arguments) = called_by(expression)?;
            catalog::own_function_among(called, functions, |known| known.function)?.path_in(arguments)
        }
    }
}

impl ValueFunction {
    /// The dotted path of a call with these arguments, if its path is a constant.
    ///
    /// # Safety
    /// A list of two expressions.
    unsafe fn path_in(&self, arguments: *mut pg_sys::List) -> Option<Vec<u8>> {
        // SAFETY: the tag of a node says what structure it is; a constant of a type of variable length, an array of such.
        unsafe {
            let path = pg_sys::list_nth(arguments, 1).cast::<pg_sys::Const>();
            if (*path.cast::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_Const || (*path).constisnull {
                return None;
            }
            let value = Datum::from_raw((*path).constvalue, Layout::Varlena);
            let names = match (*path).consttype {
                pg_sys::TEXTOID => vec![value.bytes()],
                pg_sys::TEXTARRAYOID => value
                    .elements()
                    .into_iter()
                    .map(|name| Some(name?.bytes()))
                    .collect::<Option<Vec<_>>>()?,
                _ => return None,
            };
            let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
            (self.path)(&names)
        }
    }
}

/// The conditions on the value at one path of a table's documents, all of which have to be true.
#[derive(Clone)]
pub(super) struct ValueConditions {
    pub(super) path: Vec<u8>,
    pub(super) wanted: Vec<Wanted>,
}

impl ValueConditions {
    /// Those in a list of conditions that are about a column of relation `number`, and not about a path that `functions` leave to
    /// the server.
    ///
    /// # Safety
    /// A list of conditions of the relation, in the planner.
    pub(super) unsafe fn in_list(
        conditions: *mut pg_sys::List,
        (number, column): (pg_sys::Index, i16),
        functions: &'static [ValueFunction],
    ) -> Vec<ValueConditions> {
        let mut found: Vec<ValueConditions> = Vec::new();
        // SAFETY: a list of that length.
        unsafe {
            for at in 0..pg_sys::list_length(conditions) {
                let condition = pg_sys::list_nth(conditions, at).cast::<pg_sys::RestrictInfo>();
                let Some((value, one)) = compared(condition, number, functions) else { continue };
                if value.column != column || value.is_left_to_server() {
                    continue;
                }
                match found.iter_mut().find(|known| known.path == value.path) {
                    Some(known) => known.wanted.push(one),
                    None => found.push(ValueConditions { path: value.path, wanted: vec![one] }),
                }
            }
        }
        found
    }
}

/// What a condition compares a value with.
pub(super) enum ComparedWith {
    /// With a single value, so.
    Value(Comparison, *mut pg_sys::Node),
    /// With the elements of an array, one of which it has to be equal to.
    OneOf(*mut pg_sys::Node),
}

/// The value that a condition compares, and with what: a constant, or the elements of one. The planner has made constants of
/// whatever is one for the plan, parameters too if the plan is not generic.
///
/// # Safety
/// A condition of the query.
unsafe fn compared(
    condition: *mut pg_sys::RestrictInfo,
    number: pg_sys::Index,
    functions: &'static [ValueFunction],
) -> Option<(ValueAt, Wanted)> {
    // SAFETY: the caller's; both sides are of types of variable length.
    unsafe {
        let (value, other) = sides(condition, number, functions)?;
        let wanted = match other {
            ComparedWith::Value(comparison, other) => {
                Wanted::Compared(comparison, constant(other)?.bytes().to_vec())
            }
            // Nothing is equal to NULL.
            ComparedWith::OneOf(list) => {
                let values = constant(list)?.elements().into_iter().flatten();
                Wanted::OneOf(values.map(|value| value.bytes().to_vec()).collect())
            }
        };
        Some((value, wanted))
    }
}

/// The value that a condition compares, and the expression of what it is compared with.
///
/// # Safety
/// A condition of the query.
pub(super) unsafe fn sides(
    condition: *mut pg_sys::RestrictInfo,
    number: pg_sys::Index,
    functions: &'static [ValueFunction],
) -> Option<(ValueAt, ComparedWith)> {
    // SAFETY: the tag of a node says what structure it is. Both arguments of these functions are of the same type; that of a
    // list is an array of it.
    unsafe {
        if (*condition).pseudoconstant {
            return None;
        }
        let clause = (*condition).clause.cast::<pg_sys::Node>();
        let (operator, arguments, any) = match (*clause).type_ {
            pg_sys::NodeTag::T_OpExpr => {
                let clause = &*clause.cast::<pg_sys::OpExpr>();
                (clause.opno, clause.args, None)
            }
            pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                let clause = &*clause.cast::<pg_sys::ScalarArrayOpExpr>();
                (clause.opno, clause.args, Some(clause.useOr))
            }
            _ => return None,
        };
        if pg_sys::list_length(arguments) != 2 {
            return None;
        }
        let comparison = Comparison::of(pg_sys::get_opcode(operator))?;
        let argument = |at| pg_sys::list_nth(arguments, at).cast::<pg_sys::Node>();
        if let Some(any) = any {
            let value = ValueAt::of(argument(0), number, functions)?;
            return (any && comparison == Comparison::Equal)
                .then(|| (value, ComparedWith::OneOf(argument(1))));
        }
        Some(match ValueAt::of(argument(0), number, functions) {
            Some(value) => (value, ComparedWith::Value(comparison, argument(1))),
            None => {
                let value = ValueAt::of(argument(1), number, functions)?;
                (value, ComparedWith::Value(comparison.commuted(), argument(0)))
            }
        })
    }
}

/// The value of an expression of a type of variable length, if it is a constant and not NULL.
///
/// # Safety
/// An expression of the query, which lives as long as the result is used.
unsafe fn constant<'a>(expression: *mut pg_sys::Node) -> Option<Datum<'a>> {
    // SAFETY: the caller's.
    unsafe { argument_of(expression, |_| None) }.constant()
}

/// The function of two arguments that an expression calls, and its arguments.
///
/// # Safety
/// An expression.
unsafe fn called_by(expression: *mut pg_sys::Node) -> Option<(pg_sys::Oid, *mut pg_sys::List)> {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        let (called, arguments) = match (*expression).type_ {
            pg_sys::NodeTag::T_OpExpr => {
                let operator = &*expression.cast::<pg_sys::OpExpr>();
                (pg_sys::get_opcode(operator.opno), operator.args)
            }
            pg_sys::NodeTag::T_FuncExpr => {
                let call = &*expression.cast::<pg_sys::FuncExpr>();
                (call.funcid, call.args)
            }
            _ => return None,
        };
        (pg_sys::list_length(arguments) == 2).then_some((called, arguments))
    }
}
