//! The estimators of comparisons of values, `column -> 'path' < value` among them.
//!
//! Where one side is a value at a path of documents that have statistics, the share of the rows is that of the filter that the
//! comparison implies: the same that `@@` is estimated by. Else it is what the server says of any ordered type, by statistics of
//! a column or an expression if there are some.
//!
//! The server knows its own estimators, and estimates `x > 1 AND x < 3` as one range. It does not know these. So each of
//! several conditions on a value is estimated given those before it in the query: the product is the share of all. So is each of
//! those that one arm of an OR has. Of conditions between tables, though, a search has those alone whose other tables' rows it knows:
//! an end of a range that it does not have says nothing of the other one ([`Together`]).

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use pgrx::pg_sys;

use super::catalog;
use super::compat;
use super::custom_scan::argument_of;
use super::filter_path::FilterPaths;
use super::filter_scan::{Scanned, ValueStatistics};
use super::function::Args;
use super::setting::Counter;
use super::streamed::Argument;
use super::unguarded::elements;
use super::value_condition::{Comparison, ValueAt, Wanted};

/// What the server takes for the share of an open range of which it knows nothing, and of one with two bounds.
const OPEN_RANGE: f64 = 0.333_333_333_333_333_3;
const RANGE: f64 = 0.005;

/// Most arms of an OR in which conditions are estimated together.
const MOST_ARMS: i32 = 100;

/// Most conditions, those in arms included, that are looked at for those that come before one: as they are looked at for each, more of
/// them would take time with the square of their number. Those after that many are estimated alone.
const MOST_CONDITIONS: usize = 500;

/// How often the share of a condition on values has been estimated.
static ESTIMATED: Counter =
    Counter::new(c"treedb.estimated_conditions", c"How many conditions on values have been estimated.");

/// Makes the counter known to the server.
pub(crate) fn define() {
    ESTIMATED.define();
}

/// Which conditions between tables are evaluated together, as far as an estimator cannot know it: the server tells it of one condition, and
/// not of the list that it is in.
#[derive(Clone, Copy)]
pub(super) enum Together<'c> {
    /// All whose tables are among these.
    Of(pg_sys::Relids),
    /// These.
    These(&'c [*mut pg_sys::RestrictInfo]),
}

thread_local! {
    /// What is being estimated, and by which planner: one may begin while another waits for a function.
    static TOGETHER: Cell<Option<(*mut pg_sys::PlannerInfo, Together<'static>)>> = const { Cell::new(None) };
}

impl Together<'_> {
    /// Does `work`, which has the planner estimate such conditions of one relation.
    ///
    /// # Safety
    /// The planner; a set, or conditions, of its.
    pub(super) unsafe fn estimate<R>(self, root: *mut pg_sys::PlannerInfo, work: impl FnOnce() -> R) -> R {
        /// Puts back what was estimated before, after an error too.
        struct Before(Option<(*mut pg_sys::PlannerInfo, Together<'static>)>);
        impl Drop for Before {
            fn drop(&mut self) {
                TOGETHER.set(self.0);
            }
        }
        let conditions = match self {
            Together::Of(tables) => Together::Of(tables),
            Together::These(these) => {
                // SAFETY: used until `work` ends, for as long as they are borrowed.
                Together::These(unsafe { std::slice::from_raw_parts(these.as_ptr(), these.len()) })
            }
        };
        let _before = Before(TOGETHER.replace(Some((root, conditions))));
        work()
    }

    /// Those that are there wherever a condition is, if nothing else is known: all whose tables it needs too.
    ///
    /// # Safety
    /// The planner, and a condition of its.
    unsafe fn with(
        root: *mut pg_sys::PlannerInfo,
        condition: *const pg_sys::RestrictInfo,
    ) -> Together<'static> {
        match TOGETHER.get() {
            Some((of, together)) if of == root => together,
            // SAFETY: the caller's.
            _ => Together::Of(unsafe { (*condition).clause_relids }),
        }
    }

    /// Whether a condition is among them.
    ///
    /// # Safety
    /// A condition of the planner's.
    unsafe fn has(self, condition: *mut pg_sys::RestrictInfo) -> bool {
        match self {
            // SAFETY: sets of the planner's.
            Together::Of(tables) => unsafe { pg_sys::bms_is_subset((*condition).clause_relids, tables) },
            Together::These(these) => these.contains(&condition),
        }
    }
}

/// A condition as the server estimates it: with what it knows of each arm, if it is an OR.
///
/// # Safety
/// A condition of the planner's.
unsafe fn bare(condition: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the tag of a node says what structure it is.
    unsafe {
        if (*condition).type_ != pg_sys::NodeTag::T_RestrictInfo {
            return condition;
        }
        let known = &*condition.cast::<pg_sys::RestrictInfo>();
        let either = if known.orclause.is_null() { known.clause } else { known.orclause };
        either.cast()
    }
}

/// A comparison of values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Compares(Comparison),
    Differs,
}

impl Operator {
    /// # Safety
    /// In a transaction.
    unsafe fn of(operator: pg_sys::Oid) -> Option<Operator> {
        // SAFETY: a catalog look-up.
        let function = unsafe { pg_sys::get_opcode(operator) };
        match Comparison::of(function) {
            Some(comparison) => Some(Operator::Compares(comparison)),
            None => catalog::is_own_function(function, c"bson_value_ne").then_some(Operator::Differs),
        }
    }

    fn commuted(self) -> Operator {
        match self {
            Operator::Compares(comparison) => Operator::Compares(comparison.commuted()),
            Operator::Differs => self,
        }
    }

    /// Which way an open range goes; `None` for other comparisons.
    fn is_lower_bound(self) -> Option<bool> {
        match self {
            Operator::Compares(Comparison::Greater | Comparison::GreaterOrEqual) => Some(true),
            Operator::Compares(Comparison::Less | Comparison::LessOrEqual) => Some(false),
            Operator::Compares(Comparison::Equal) | Operator::Differs => None,
        }
    }

    /// The server's estimators of such an operator: of a restriction, and of a join.
    fn estimators(self) -> (u32, u32) {
        match self {
            Operator::Compares(Comparison::Less) => (pg_sys::F_SCALARLTSEL, pg_sys::F_SCALARLTJOINSEL),
            Operator::Compares(Comparison::LessOrEqual) => (pg_sys::F_SCALARLESEL, pg_sys::F_SCALARLEJOINSEL),
            Operator::Compares(Comparison::Equal) => (pg_sys::F_EQSEL, pg_sys::F_EQJOINSEL),
            Operator::Compares(Comparison::GreaterOrEqual) => {
                (pg_sys::F_SCALARGESEL, pg_sys::F_SCALARGEJOINSEL)
            }
            Operator::Compares(Comparison::Greater) => (pg_sys::F_SCALARGTSEL, pg_sys::F_SCALARGTJOINSEL),
            Operator::Differs => (pg_sys::F_NEQSEL, pg_sys::F_NEQJOINSEL),
        }
    }
}

/// A call of an estimator for a restriction.
#[derive(Clone, Copy)]
struct EstimatorCall {
    root: *mut pg_sys::PlannerInfo,
    operator: pg_sys::Oid,
    arguments: *mut pg_sys::List,
    /// The relation whose rows are restricted; 0 for the only one there is.
    relation: i32,
    collation: pg_sys::Oid,
}

/// A condition that compares what depends on the rows of one relation with something that does not.
struct Condition {
    operator: Operator,
    /// The number of the relation.
    number: i32,
    /// What depends on its rows.
    expression: *mut pg_sys::Node,
    other: *mut pg_sys::Node,
}

impl EstimatorCall {
    /// The condition whose share is asked for.
    ///
    /// # Safety
    /// A call of the planner's.
    unsafe fn condition(&self) -> Option<Condition> {
        // SAFETY: lists of expressions, and sets of numbers that are made of them.
        unsafe {
            let mut operator = Operator::of(self.operator)?;
            if pg_sys::list_length(self.arguments) != 2 {
                return None;
            }
            let argument = |at| pg_sys::list_nth(self.arguments, at).cast::<pg_sys::Node>();
            let [left, right] = [0, 1].map(|at| pg_sys::pull_varnos(self.root, argument(at)));
            let mut number = self.relation;
            if number == 0
                && !pg_sys::bms_get_singleton_member(pg_sys::bms_union(left, right), &raw mut number)
            {
                return None;
            }
            let (mut expression, mut other) = (argument(0), argument(1));
            match [left, right].map(|numbers| pg_sys::bms_is_member(number, numbers)) {
                [true, false] => {}
                [false, true] => {
                    std::mem::swap(&mut expression, &mut other);
                    operator = operator.commuted();
                }
                _ => return None,
            }
            Some(Condition { operator, number, expression, other })
        }
    }

    /// The conditions that come before this one among those of relation `number` that all have to be true, or of an arm of an OR; `None`
    /// if it is not there.
    ///
    /// # Safety
    /// As [`Self::condition`], of which `number` is.
    unsafe fn before(&self, number: i32) -> Option<Vec<EstimatorCall>> {
        // SAFETY: the planner has arrays of as many relations as it says.
        unsafe {
            if number <= 0 || number >= (*self.root).simple_rel_array_size {
                return None;
            }
            let rel = (*(*self.root).simple_rel_array.add(number as usize)).as_ref()?;
            let mut left = MOST_CONDITIONS;
            self.earlier_in(rel.baserestrictinfo, &mut left)
                .or_else(|| self.earlier_in_joins(rel.joininfo, &mut left))
        }
    }

    /// The comparisons that come before this one in a list of conditions that all have to be true, or in an arm of one of them; `None`
    /// if it is in none of as many as are `left` to be looked at. The elements of a list are asked about one by one: none of them is a
    /// condition.
    ///
    /// # Safety
    /// A list of conditions of the planner's.
    unsafe fn earlier_in(
        &self,
        conditions: *mut pg_sys::List,
        left: &mut usize,
    ) -> Option<Vec<EstimatorCall>> {
        let mut earlier = Vec::new();
        // SAFETY: the tag of a node says what structure it is.
        unsafe {
            for condition in elements(conditions) {
                *left = left.checked_sub(1)?;
                let condition = bare(condition);
                if (*condition).type_ != pg_sys::NodeTag::T_OpExpr {
                    if let Some(found) = self.earlier_in_arms(condition, left) {
                        return Some(found);
                    }
                    continue;
                }
                let comparison = condition.cast::<pg_sys::OpExpr>();
                if (*comparison).args == self.arguments {
                    return Some(earlier);
                }
                let (operator, arguments) = ((*comparison).opno, (*comparison).args);
                earlier.push(EstimatorCall { operator, arguments, ..*self });
            }
        }
        None
    }

    /// The same in a list of conditions that are evaluated in joins: not all of them have to be true of the same rows, but those that are not
    /// of an outer join, or are of the same one, and that are evaluated [`Together`]. Of one that the server has several forms of, only one is.
    ///
    /// # Safety
    /// A list of conditions of the planner's.
    unsafe fn earlier_in_joins(
        &self,
        conditions: *mut pg_sys::List,
        left: &mut usize,
    ) -> Option<Vec<EstimatorCall>> {
        let mut earlier = Vec::new();
        // SAFETY: the tag of a node says what structure it is.
        unsafe {
            for known in elements::<pg_sys::RestrictInfo>(conditions) {
                *left = left.checked_sub(1)?;
                let condition = bare(known.cast());
                if (*condition).type_ != pg_sys::NodeTag::T_OpExpr {
                    if let Some(found) = self.earlier_in_arms(condition, left) {
                        return Some(found);
                    }
                    continue;
                }
                let comparison = condition.cast::<pg_sys::OpExpr>();
                let several = compat::has_several_forms(known);
                if (*comparison).args == self.arguments {
                    let together = Together::with(self.root, known);
                    earlier.retain(|(other, _): &(*mut pg_sys::RestrictInfo, _)| {
                        let same_join = pg_sys::bms_equal((**other).outer_relids, (*known).outer_relids);
                        !several && same_join && together.has(*other)
                    });
                    return Some(earlier.into_iter().map(|(_, call)| call).collect());
                }
                if !several {
                    let (operator, arguments) = ((*comparison).opno, (*comparison).args);
                    earlier.push((known, EstimatorCall { operator, arguments, ..*self }));
                }
            }
        }
        None
    }

    /// The same in the arms of an OR, if it is one and has no more than [`MOST_ARMS`]: each is looked at for each.
    ///
    /// # Safety
    /// A condition of the planner's.
    unsafe fn earlier_in_arms(
        &self,
        condition: *mut pg_sys::Node,
        left: &mut usize,
    ) -> Option<Vec<EstimatorCall>> {
        // SAFETY: the tag of a node says what structure it is.
        unsafe {
            if (*condition).type_ != pg_sys::NodeTag::T_BoolExpr {
                return None;
            }
            let any = &*condition.cast::<pg_sys::BoolExpr>();
            if any.boolop != pg_sys::BoolExprType::OR_EXPR || pg_sys::list_length(any.args) > MOST_ARMS {
                return None;
            }
            elements(any.args).find_map(|arm| {
                *left = left.checked_sub(1)?;
                let arm = bare(arm);
                let all = arm.cast::<pg_sys::BoolExpr>();
                let several = (*arm).type_ == pg_sys::NodeTag::T_BoolExpr
                    && (*all).boolop == pg_sys::BoolExprType::AND_EXPR;
                if several { self.earlier_in((*all).args, left) } else { self.earlier_in_arms(arm, left) }
            })
        }
    }

    /// The share that the statistics of documents give; `None` if they say nothing, or the server knows more.
    ///
    /// # Safety
    /// As [`Self::condition`].
    unsafe fn by_documents(&self, filters: &FilterPaths) -> Option<f64> {
        // SAFETY: the caller's.
        unsafe {
            let Condition { operator, number, expression, other } = self.condition()?;
            let wanted = constant(self.root, other)?;
            if wanted.is_none() && operator.is_lower_bound().is_some() {
                return None;
            }
            let (table, path) = documents(self.root, filters, expression, number)?;
            let statistics = (filters.statistics)(table, &path);
            if statistics.is_none() && is_known(self.root, expression) {
                return None;
            }
            let Some(wanted) = wanted else {
                let equal = statistics?.equal();
                return match operator {
                    Operator::Compares(Comparison::Equal) => Some(equal),
                    Operator::Compares(_) => None,
                    Operator::Differs => Some(1.0 - statistics?.missing - equal),
                };
            };
            let Operator::Compares(comparison) = operator else {
                let equal = [Wanted::Compared(Comparison::Equal, wanted)];
                let equal = filters.share_of_values(table, &path, &equal)?;
                return Some(1.0 - statistics?.missing - equal);
            };
            let mut all = Vec::new();
            let before = self.before(number).unwrap_or_default();
            for earlier in before.iter().filter_map(|earlier| earlier.condition()) {
                if let Operator::Compares(comparison) = earlier.operator
                    && documents(self.root, filters, earlier.expression, number)
                        .is_some_and(|(_, other)| other == path)
                    && let Some(Some(value)) = constant(self.root, earlier.other)
                {
                    all.push(Wanted::Compared(comparison, value));
                }
            }
            // Null and no value are one to filters; no comparison is true of no value.
            let there = statistics.map_or(1.0, |known| 1.0 - known.missing);
            let before = match all.is_empty() {
                true => 1.0,
                false => filters.share_of_values(table, &path, &all)?.min(there),
            };
            all.push(Wanted::Compared(comparison, wanted));
            let share = filters.share_of_values(table, &path, &all)?.min(there);
            Some(share / before.max(f64::MIN_POSITIVE))
        }
    }

    /// The share that the server's estimator gives for such an operator.
    ///
    /// # Safety
    /// As [`Self::condition`].
    unsafe fn by_server(&self, operator: Operator) -> f64 {
        // SAFETY: the server's function takes what this one was given.
        let share = unsafe {
            pg_sys::OidFunctionCall4Coll(
                pg_sys::Oid::from(operator.estimators().0),
                self.collation,
                pg_sys::Datum::from(self.root),
                pg_sys::Datum::from(self.operator),
                pg_sys::Datum::from(self.arguments),
                pg_sys::Datum::from(self.relation),
            )
        };
        number_of(share)
    }

    /// The same, of the second bound of a range given the first one.
    ///
    /// # Safety
    /// As [`Self::condition`].
    unsafe fn by_server_in_range(&self, operator: Operator) -> f64 {
        // SAFETY: the caller's.
        unsafe {
            let alone = self.by_server(operator);
            let Some(condition) = self.condition() else { return alone };
            let Some(is_lower) = condition.operator.is_lower_bound() else { return alone };
            let Some(before) = self.before(condition.number) else { return alone };
            let same = condition.expression.cast();
            let of_same = |earlier: &&EstimatorCall| {
                elements(earlier.arguments).any(|argument: *mut c_void| pg_sys::equal(argument, same))
            };
            let mut bounds = before.iter().filter(of_same).filter_map(|call| {
                let earlier =
                    call.condition().filter(|earlier| pg_sys::equal(earlier.expression.cast(), same))?;
                Some((call, earlier.operator.is_lower_bound()?))
            });
            let Some((first, first_is_lower)) = bounds.next() else { return alone };
            if first_is_lower == is_lower || bounds.any(|(_, other)| other == is_lower) {
                return alone;
            }
            let Some(first_operator) = Operator::of(first.operator) else { return alone };
            let first = first.by_server(first_operator);
            // As the server has it for operators whose estimators it knows.
            let both = if [alone, first].iter().any(|share| (share - OPEN_RANGE).abs() < 1e-12) {
                RANGE
            } else {
                let inner = pg_sys::JoinType::JOIN_INNER;
                let is_null = pg_sys::NullTestType::IS_NULL;
                let (root, value, none) = (self.root, condition.expression, ptr::null_mut());
                match alone + first - 1.0
                    + pg_sys::nulltestsel(root, is_null, value, self.relation, inner, none)
                {
                    both if both > 0.0 => both,
                    both if both < -0.01 => RANGE,
                    _ => 1e-10,
                }
            };
            both / first.max(f64::MIN_POSITIVE)
        }
    }
}

/// The number in the result of an estimator.
fn number_of(share: pg_sys::Datum) -> f64 {
    f64::from_bits(share.value() as u64)
}

/// The table and the path if an expression is a value at a path of documents of relation `number`, of which the server has no
/// index of its own.
///
/// # Safety
/// The planner, and an expression of the query.
unsafe fn documents(
    root: *mut pg_sys::PlannerInfo,
    filters: &FilterPaths,
    expression: *mut pg_sys::Node,
    number: i32,
) -> Option<(Scanned, Vec<u8>)> {
    // SAFETY: the caller's.
    unsafe {
        let value = ValueAt::of(expression, u32::try_from(number).ok()?, filters.values)?;
        let table = filters.readable(root, number, value.column)?;
        (!value.is_left_to_server()).then_some((table, value.path))
    }
}

/// The stored value of an expression as far as it is known, `Some(None)` if it is not; `None` if it is NULL.
///
/// # Safety
/// The planner, and an expression of the query of the type of values.
unsafe fn constant(root: *mut pg_sys::PlannerInfo, expression: *mut pg_sys::Node) -> Option<Option<Vec<u8>>> {
    // SAFETY: the caller's.
    unsafe {
        match argument_of(pg_sys::estimate_expression_value(root, expression), |_| None) {
            Argument::Null => None,
            Argument::Expression(_) => Some(None),
            Argument::Constant(value) => Some(Some(value.bytes().to_vec())),
        }
    }
}

/// What the server knows of an expression: its statistics, and how many different values there are.
struct ServerStatistics(pg_sys::VariableStatData);

impl ServerStatistics {
    /// # Safety
    /// The planner, and an expression of the query.
    unsafe fn of(root: *mut pg_sys::PlannerInfo, expression: *mut pg_sys::Node) -> ServerStatistics {
        let mut found = pg_sys::VariableStatData::default();
        // SAFETY: the caller's.
        unsafe { pg_sys::examine_variable(root, expression, 0, &raw mut found) };
        ServerStatistics(found)
    }

    fn are_there(&self) -> bool {
        !self.0.statsTuple.is_null() || self.0.isunique
    }

    fn distinct(&mut self) -> f64 {
        let mut default = false;
        // SAFETY: what the server has filled.
        unsafe { pg_sys::get_variable_numdistinct(&raw mut self.0, &raw mut default) }
    }
}

impl Drop for ServerStatistics {
    fn drop(&mut self) {
        if let (false, Some(free)) = (self.0.statsTuple.is_null(), self.0.freefunc) {
            // SAFETY: what the server says to do with its entry.
            unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| free(self.0.statsTuple)) };
        }
    }
}

/// Whether the server has statistics of an expression.
///
/// # Safety
/// The planner, and an expression of the query.
unsafe fn is_known(root: *mut pg_sys::PlannerInfo, expression: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's.
    unsafe { ServerStatistics::of(root, expression) }.are_there()
}

/// What is known of one side of a join: by the statistics of documents, if `own` has them, or else by the server's.
///
/// # Safety
/// The planner, and an expression of the query.
unsafe fn of_side(
    root: *mut pg_sys::PlannerInfo,
    expression: *mut pg_sys::Node,
    own: Option<ValueStatistics>,
) -> ValueStatistics {
    // SAFETY: the caller's.
    own.unwrap_or_else(|| unsafe {
        let mut known = ServerStatistics::of(root, expression);
        let missing = match known.are_there() {
            true => {
                let (inner, is_null) = (pg_sys::JoinType::JOIN_INNER, pg_sys::NullTestType::IS_NULL);
                pg_sys::nulltestsel(root, is_null, expression, 0, inner, ptr::null_mut())
            }
            false => 0.0,
        };
        ValueStatistics { missing, distinct: known.distinct().max(1.0) }
    })
}

/// The share of all pairs of rows of two relations that have equal values, if one of them has statistics of documents.
///
/// # Safety
/// The planner, and the arguments of an operator.
unsafe fn equal_pairs(
    root: *mut pg_sys::PlannerInfo,
    filters: &FilterPaths,
    arguments: *mut pg_sys::List,
) -> Option<f64> {
    // SAFETY: lists of expressions, and sets of numbers that are made of them.
    unsafe {
        if pg_sys::list_length(arguments) != 2 {
            return None;
        }
        let sides = [0, 1].map(|at| pg_sys::list_nth(arguments, at).cast::<pg_sys::Node>());
        let sides = sides.map(|side| {
            let mut number = 0;
            let one = pg_sys::bms_get_singleton_member(pg_sys::pull_varnos(root, side), &raw mut number);
            let documents = one.then(|| documents(root, filters, side, number)).flatten();
            (side, documents.and_then(|(table, path)| (filters.statistics)(table, &path)))
        });
        if sides.iter().all(|(_, own)| own.is_none()) {
            return None;
        }
        let [left, right] = sides.map(|(side, own)| of_side(root, side, own));
        Some((1.0 - left.missing) * (1.0 - right.missing) / left.distinct.max(right.distinct))
    }
}

impl Args {
    /// The share of a relation's rows of which a comparison of values is true, for a function that the server calls as the
    /// estimator of the operator: with the planner, the operator, the arguments and a relation.
    pub(crate) fn value_share(&self, filters: &'static FilterPaths) -> f64 {
        let (Some(root), Some(arguments)) = (self.internal(0), self.internal(2)) else { return RANGE };
        ESTIMATED.add();
        // SAFETY: SQL cannot call a function with an argument of type internal; the server calls estimators with these.
        let share = unsafe {
            let call = EstimatorCall {
                root: root.cast_mut_ptr(),
                operator: self.oid(1),
                arguments: arguments.cast_mut_ptr(),
                relation: self.int4(3),
                collation: (*self.raw()).fncollation,
            };
            match (call.by_documents(filters), Operator::of(call.operator)) {
                (Some(share), _) => share,
                (None, Some(operator)) => call.by_server_in_range(operator),
                (None, None) => RANGE,
            }
        };
        share.clamp(0.0, 1.0)
    }

    /// The share of all pairs of rows of two relations, for the estimator of joins: it is called with the planner, the operator,
    /// the arguments, the kind of join and what the server knows of it.
    pub(crate) fn value_join_share(&self, filters: &'static FilterPaths) -> f64 {
        let (Some(root), Some(arguments)) = (self.internal(0), self.internal(2)) else { return RANGE };
        // SAFETY: as above; the server's function takes what this one was given.
        let share = unsafe {
            let Some(operator) = Operator::of(self.oid(1)) else { return RANGE };
            let join = self.int2(3) as pg_sys::JoinType::Type;
            let is_equal = operator == Operator::Compares(Comparison::Equal);
            let pairs =
                is_equal && join != pg_sys::JoinType::JOIN_SEMI && join != pg_sys::JoinType::JOIN_ANTI;
            let own = pairs.then(|| equal_pairs(root.cast_mut_ptr(), filters, arguments.cast_mut_ptr()));
            own.flatten().unwrap_or_else(|| {
                number_of(pg_sys::OidFunctionCall5Coll(
                    pg_sys::Oid::from(operator.estimators().1),
                    (*self.raw()).fncollation,
                    root,
                    pg_sys::Datum::from(self.oid(1)),
                    arguments,
                    pg_sys::Datum::from(self.int2(3)),
                    self.internal(4).unwrap_or(pg_sys::Datum::null()),
                ))
            })
        };
        share.clamp(0.0, 1.0)
    }
}
