//! Whether an operator class of an ordered access method is valid: `amvalidate`.
//!
//! What is asked is what the server asks of a btree operator class: comparison functions and operators of the right
//! types, all five strategies for every pair of types, no ordering operators. The operator class must also say of
//! which kind its columns are.
//!
//! An operator class of an access method that returns rows by distance ([`is_valid_distance`]) has one ordering operator and
//! says its kind by support function 1.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;

use pgrx::pg_sys;

use super::relation::{COMPARISON, KIND, OPTIONS};
use super::text;

/// `<`, `<=`, `=`, `>=` and `>`.
const STRATEGIES: std::ops::RangeInclusive<i16> = 1..=5;
/// `&&`, of columns without an order.
pub(crate) const OVERLAPS: u16 = 6;

/// What an access method says of a kind of column, given `typlen` and `typbyval` of its type: whether it has an order,
/// or what is wrong with it.
pub(super) type CheckKind = fn(i32, i16, bool) -> Result<bool, String>;

/// Two types that are compared with each other.
type Types = (u32, u32);

/// A support function of a family.
struct Function {
    types: Types,
    number: u16,
    oid: pg_sys::Oid,
}

/// An operator of a family.
struct Operator {
    types: Types,
    strategy: i16,
    oid: pg_sys::Oid,
    /// It orders rows by a distance.
    is_ordering: bool,
}

/// Copies what `read` makes of the rows of a catalog that belong to a family.
///
/// # Safety
/// The cache's first key is a family, and its rows are `T`s.
unsafe fn members<T, R>(cache: i32, family: pg_sys::Oid, read: impl Fn(&T) -> R) -> Vec<R> {
    let none = pg_sys::Datum::from(0usize);
    // SAFETY: the server's list has as many members, each with a row of the catalog, until it is released.
    unsafe {
        let list = pg_sys::SearchSysCacheList(cache, 1, family.into(), none, none);
        let count = usize::try_from((*list).n_members).unwrap_or(0);
        let rows = (*list).members.as_slice(count);
        let read =
            rows.iter().map(|row| read(&*pg_sys::GETSTRUCT(&raw mut (**row).tuple).cast::<T>())).collect();
        pg_sys::ReleaseCatCacheList(list);
        read
    }
}

fn functions_of(family: pg_sys::Oid) -> Vec<Function> {
    // SAFETY: that catalog.
    unsafe {
        members(pg_sys::SysCacheIdentifier::AMPROCNUM as i32, family, |row: &pg_sys::FormData_pg_amproc| {
            Function {
                types: (row.amproclefttype.into(), row.amprocrighttype.into()),
                number: row.amprocnum as u16,
                oid: row.amproc,
            }
        })
    }
}

fn operators_of(family: pg_sys::Oid) -> Vec<Operator> {
    // SAFETY: that catalog.
    unsafe {
        members(pg_sys::SysCacheIdentifier::AMOPSTRATEGY as i32, family, |row: &pg_sys::FormData_pg_amop| {
            Operator {
                types: (row.amoplefttype.into(), row.amoprighttype.into()),
                strategy: row.amopstrategy,
                oid: row.amopopr,
                is_ordering: row.amoppurpose as u8 != pg_sys::AMOP_SEARCH
                    || row.amopsortfamily != pg_sys::InvalidOid,
            }
        })
    }
}

/// The types that a function takes, and the one that it returns; `None` for a set.
fn signature(function: pg_sys::Oid) -> Option<(Vec<u32>, pg_sys::Oid)> {
    let (mut types, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: the server returns an array of as many types in the current memory context.
    unsafe {
        let result = pg_sys::get_func_signature(function, &raw mut types, &raw mut count);
        let types = match usize::try_from(count) {
            Ok(count) if count > 0 => {
                std::slice::from_raw_parts(types, count).iter().map(|oid| (*oid).into()).collect()
            }
            _ => Vec::new(),
        };
        (!pg_sys::get_func_retset(function)).then_some((types, result))
    }
}

/// Whether a function has the signature of the support function of that number.
fn has_signature(function: &Function) -> bool {
    let Some((arguments, result)) = signature(function.oid) else { return false };
    let (left, right) = function.types;
    match function.number {
        COMPARISON => result == pg_sys::INT4OID && arguments == [left, right],
        KIND => result == pg_sys::INT4OID && arguments.is_empty() && left == right,
        OPTIONS => {
            result == pg_sys::VOIDOID && arguments == [u32::from(pg_sys::INTERNALOID)] && left == right
        }
        _ => false,
    }
}

/// A string of the server's, for messages.
///
/// # Safety
/// A string closed by a zero, or null.
unsafe fn shown(name: *const std::ffi::c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    text::lossy(unsafe { CStr::from_ptr(name) })
}

fn function_name(function: pg_sys::Oid) -> String {
    // SAFETY: a string in the current memory context.
    unsafe { shown(pg_sys::format_procedure(function)) }
}

fn operator_name(operator: pg_sys::Oid) -> String {
    // SAFETY: a string in the current memory context.
    unsafe { shown(pg_sys::format_operator(operator)) }
}

fn type_names((left, right): Types) -> String {
    // SAFETY: strings in the current memory context.
    unsafe {
        let name = |oid: u32| shown(pg_sys::format_type_be(pg_sys::Oid::from(oid)));
        format!("types {} and {}", name(left), name(right))
    }
}

/// Name, family and input type of an operator class; `None` if there is none.
fn class_of(class: pg_sys::Oid) -> Option<(String, pg_sys::Oid, u32)> {
    let none = pg_sys::Datum::from(0usize);
    // SAFETY: catalog look-ups; rows are read before they are released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::CLAOID as i32;
        let row = pg_sys::SearchSysCache(cache, class.into(), none, none, none);
        if row.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_opclass>();
        let found = (shown(form.opcname.data.as_ptr()), form.opcfamily, form.opcintype.into());
        pg_sys::ReleaseSysCache(row);
        Some(found)
    }
}

/// Whether an operator class is valid; what is wrong with it is told by INFO messages.
pub(super) fn is_valid(class: pg_sys::Oid, check_kind: CheckKind) -> bool {
    let Some((name, family, input)) = class_of(class) else { return false };
    let mut problems: Vec<String> = Vec::new();
    let own: Types = (input, input);
    let functions = functions_of(family);
    let operators = operators_of(family);

    // Which support functions and strategies each pair of types has.
    let mut supported: BTreeMap<Types, BTreeSet<u16>> = BTreeMap::new();
    for function in &functions {
        if ![COMPARISON, OPTIONS, KIND].contains(&function.number) {
            problems.push(format!(
                "function {} has number {}, but support functions have numbers 1, 5 and 11",
                function_name(function.oid),
                function.number
            ));
        } else if !has_signature(function) {
            problems.push(format!(
                "function {} does not have the signature of support function {} for {}",
                function_name(function.oid),
                function.number,
                type_names(function.types)
            ));
        }
        supported.entry(function.types).or_default().insert(function.number);
    }
    let ordered = kind_of(&functions, own, check_kind);
    let mut strategies: BTreeMap<Types, BTreeSet<i16>> = BTreeMap::new();
    for operator in &operators {
        let overlaps = operator.strategy == OVERLAPS as i16 && matches!(ordered, Ok(false));
        if !STRATEGIES.contains(&operator.strategy) && !overlaps {
            problems.push(format!(
                "operator {} has number {}, but strategies are numbered 1 to 5",
                operator_name(operator.oid),
                operator.strategy
            ));
        }
        if operator.is_ordering {
            problems.push(format!("operator {} is an ordering operator", operator_name(operator.oid)));
        }
        let (mut left, mut right) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        // SAFETY: catalog look-ups.
        let result = unsafe {
            pg_sys::op_input_types(operator.oid, &raw mut left, &raw mut right);
            pg_sys::get_op_rettype(operator.oid)
        };
        if result != pg_sys::BOOLOID || (u32::from(left), u32::from(right)) != operator.types {
            problems.push(format!(
                "operator {} does not compare {}",
                operator_name(operator.oid),
                type_names(operator.types)
            ));
        }
        strategies.entry(operator.types).or_default().insert(operator.strategy);
    }

    let ordered = match ordered {
        Ok(ordered) => ordered,
        Err(problem) => {
            problems.push(problem);
            true
        }
    };
    if ordered {
        let has_comparison =
            |types: &Types| supported.get(types).is_some_and(|numbers| numbers.contains(&COMPARISON));
        let mut pairs: BTreeSet<Types> = strategies.keys().copied().filter(|types| *types != own).collect();
        pairs.extend(supported.keys().filter(|types| has_comparison(types)));
        pairs.insert(own);
        for types in &pairs {
            if strategies.get(types).map_or(0, BTreeSet::len) < STRATEGIES.count() {
                problems.push(format!("not all of <, <=, =, >=, > are there for {}", type_names(*types)));
            }
            if !has_comparison(types) {
                problems.push(format!("comparison function 1 is missing for {}", type_names(*types)));
            }
        }
        let types: BTreeSet<u32> = pairs.iter().flat_map(|(left, right)| [*left, *right]).collect();
        for left in &types {
            for right in types.iter().filter(|right| !pairs.contains(&(*left, **right))) {
                problems.push(format!("operators are missing for {}", type_names((*left, *right))));
            }
        }
    } else if operators.iter().any(|operator| STRATEGIES.contains(&operator.strategy)) {
        problems.push("columns of this kind have no order, but the operator class has operators".to_owned());
    }

    report(&name, &problems)
}

/// Tells what is wrong with an operator class; whether that is nothing.
fn report(name: &str, problems: &[String]) -> bool {
    for problem in problems {
        pgrx::info!("operator class \"{name}\": {problem}");
    }
    problems.is_empty()
}

/// Number of the ordering operator of a class that is ordered by distance.
pub(super) const DISTANCE: i16 = 1;
/// Number of the support function of such a class that says its kind.
pub(super) const DISTANCE_KIND: u16 = 1;

/// Whether an operator class is valid for an access method that returns rows by distance.
pub(super) fn is_valid_distance(class: pg_sys::Oid, is_kind: fn(i32) -> bool) -> bool {
    let Some((name, family, input)) = class_of(class) else { return false };
    let own: Types = (input, input);
    let mut problems: Vec<String> = Vec::new();
    let functions = functions_of(family);
    let kind = functions.iter().find(|function| function.types == own && function.number == DISTANCE_KIND);
    match kind.map(|function| (function, signature(function.oid))) {
        None => problems.push("support function 1, which says the kind of vectors, is missing".to_owned()),
        Some((function, Some((arguments, result)))) if arguments.is_empty() && result == pg_sys::INT4OID => {
            // SAFETY: a function without arguments that returns an integer.
            let kind =
                unsafe { pg_sys::OidFunctionCall0Coll(function.oid, pg_sys::InvalidOid).value() as i32 };
            if !is_kind(kind) {
                problems.push(format!("support function 1 returns {kind}, which is no kind of vectors"));
            }
        }
        Some(_) => problems.push("support function 1 cannot be called".to_owned()),
    }
    let operators = operators_of(family);
    if !operators.iter().any(|operator| operator.types == own && operator.strategy == DISTANCE) {
        problems.push("operator 1, the distance, is missing".to_owned());
    }
    for operator in operators.iter().filter(|operator| !operator.is_ordering) {
        problems.push(format!("operator {} is not an ordering operator", operator_name(operator.oid)));
    }
    report(&name, &problems)
}

/// Whether the kind of column that the operator class names has an order; the error says what is wrong with the kind.
fn kind_of(functions: &[Function], own: Types, check_kind: CheckKind) -> Result<bool, String> {
    let function = functions
        .iter()
        .find(|function| function.types == own && function.number == KIND)
        .ok_or("support function 11, which says the kind of column, is missing")?;
    if !has_signature(function) {
        return Err("support function 11 cannot be called".to_owned());
    }
    let (mut len, mut by_value) = (0, false);
    // SAFETY: a function without arguments that returns an integer; a look-up of a type that there is.
    let kind = unsafe {
        pg_sys::get_typlenbyval(pg_sys::Oid::from(own.0), &raw mut len, &raw mut by_value);
        pg_sys::OidFunctionCall0Coll(function.oid, pg_sys::InvalidOid).value() as i32
    };
    check_kind(kind, len, by_value)
}
