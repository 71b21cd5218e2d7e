//! Which conditions on values of a table's documents may be searched for together, once rows of other tables are known.
//!
//! Of conditions that no index of the table has a field for nothing is made. The sets of other tables whose rows a search may need are, as
//! in the server, those of the conditions on the fields of one index, and their unions.

use std::ffi::c_void;
use std::ptr;

use pgrx::pg_sys;

use super::error_frame;
use super::filter_path::FilterPaths;
use super::filter_scan::Scanned;
use super::unguarded::elements;
use super::unknown_values::{UnknownValues, placeholder_filter};
use super::value_condition::{Comparison, Other, ValueAt, sides};

/// Most sets of other tables that are tried for each condition: as many as the server tries for an index.
const MOST_SETS: usize = 10;

/// A condition on the value at a path of a table's documents.
pub(super) struct Term {
    pub(super) path: Vec<u8>,
    pub(super) other: Other,
    pub(super) condition: *mut pg_sys::RestrictInfo,
    /// The other relations that it needs; none if it is the table's own.
    pub(super) others: pg_sys::Relids,
}

impl Term {
    /// What the value is compared with.
    fn other(&self) -> *mut pg_sys::Node {
        let (Other::Compared(_, other) | Other::OneOf(other)) = self.other;
        other
    }

    /// Whether that is a constant.
    ///
    /// # Safety
    /// In the planner.
    pub(super) unsafe fn is_known(&self) -> bool {
        // SAFETY: an expression.
        unsafe { (*self.other()).type_ == pg_sys::NodeTag::T_Const }
    }
}

/// The conditions on values of a table's documents that its indexes have fields for, if one at least is not known.
#[derive(Default)]
pub(super) struct Terms {
    own: Vec<Term>,
    /// Those between the table and others.
    joins: Vec<Term>,
    paths: Vec<Vec<u8>>,
    /// The fields of each index, by their positions among the paths.
    indexes: Vec<Vec<usize>>,
}

impl Terms {
    /// Those of a relation, which is this table.
    ///
    /// # Safety
    /// The planner, and a relation of its.
    pub(super) unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        table: Scanned,
        filters: &FilterPaths,
    ) -> Terms {
        // SAFETY: lists and sets of the planner's.
        unsafe {
            let number = (*rel).relid;
            let own = elements((*rel).baserestrictinfo).filter_map(|condition| {
                let (path, other) = searched(root, condition, number, table, filters)?;
                Some(Term { path, other, condition, others: ptr::null_mut() })
            });
            let mut own: Vec<Term> = own.collect();
            let between = |condition: *mut pg_sys::RestrictInfo| {
                if !pg_sys::join_clause_is_movable_to(condition, rel) {
                    return None;
                }
                let (path, other) = searched(root, condition, number, table, filters)?;
                let others = pg_sys::bms_copy((*condition).clause_relids);
                let others = pg_sys::bms_del_member(others, number as i32);
                (pg_sys::bms_num_members(others) > 0).then_some(Term { path, other, condition, others })
            };
            let mut joins: Vec<Term> = elements((*rel).joininfo).filter_map(between).collect();
            let mut equal = Sought { number, table, filters, wanted: None, found: Vec::new() };
            if (*rel).has_eclass_joins {
                equal.ask(root, rel);
            }
            if joins.is_empty() && equal.found.is_empty() && own.iter().all(|term| term.is_known()) {
                return Terms::default();
            }
            let mut paths: Vec<Vec<u8>> = Vec::new();
            let named = own.iter().chain(&joins).map(|term| &term.path);
            for path in named.chain(equal.found.iter().map(|(_, path)| path)) {
                if !paths.contains(path) {
                    paths.push(path.clone());
                }
            }
            let names: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
            let indexes = (filters.fields_of_indexes)(table, &names);
            let is_indexed = |path: &Vec<u8>| {
                indexes.iter().flatten().any(|at| paths.get(*at).is_some_and(|known| known == path))
            };
            own.retain(|term| is_indexed(&term.path));
            joins.retain(|term| is_indexed(&term.path));
            for wanted in std::mem::take(&mut equal.found) {
                if is_indexed(&wanted.1)
                    && placeholder_filter(&wanted.1, &[Comparison::Equal], filters).is_some()
                {
                    equal.wanted = Some(wanted);
                    joins.extend(elements(equal.ask(root, rel)).filter_map(between));
                }
            }
            Terms { own, joins, paths, indexes }
        }
    }

    /// Whether there are any between the table and others.
    pub(super) fn are_joined(&self) -> bool {
        !self.joins.is_empty()
    }

    /// The sets of other relations whose rows may be known before this table is searched.
    pub(super) fn sets(&self) -> Vec<pg_sys::Relids> {
        let mut sets = Vec::new();
        for fields in &self.indexes {
            let is_field = |term: &&Term| {
                fields.iter().any(|at| self.paths.get(*at).is_some_and(|path| *path == term.path))
            };
            let mut of_index = Vec::new();
            for (before, term) in self.joins.iter().filter(is_field).enumerate() {
                self.add_sets(&mut of_index, term, MOST_SETS * (before + 1));
            }
            for set in of_index {
                add_set(&mut sets, set);
            }
        }
        sets
    }

    /// Adds the sets with the relations that a condition needs to those of an index, to no more than `most`.
    fn add_sets(&self, sets: &mut Vec<pg_sys::Relids>, term: &Term, most: usize) {
        // SAFETY: sets and conditions of the planner's.
        unsafe {
            if has_set(sets, term.others) {
                return;
            }
            let class = (*term.condition).parent_ec;
            // Of values that are equal to each other one is enough.
            let is_equal_to_known = |known: pg_sys::Relids| {
                let is = |other: &Term| {
                    (*other.condition).parent_ec == class && pg_sys::bms_is_subset(other.others, known)
                };
                !class.is_null() && self.joins.iter().any(is)
            };
            for known in sets.clone() {
                if sets.len() >= most {
                    break;
                }
                let within =
                    pg_sys::bms_is_subset(term.others, known) || pg_sys::bms_is_subset(known, term.others);
                if !within && !is_equal_to_known(known) {
                    add_set(sets, pg_sys::bms_union(known, term.others));
                }
            }
            add_set(sets, term.others);
        }
    }

    /// What is known once a row of each of `others` is; `None` if all is known before.
    ///
    /// # Safety
    /// The planner, and a set of relations.
    pub(super) unsafe fn given(
        &self,
        others: pg_sys::Relids,
        filters: &FilterPaths,
    ) -> Option<UnknownValues> {
        let mut by_path: Vec<(&[u8], Vec<&Term>)> = Vec::new();
        let mut classes = Vec::new();
        // SAFETY: sets and conditions of the planner's.
        unsafe {
            for term in self.own.iter().chain(&self.joins) {
                if !pg_sys::bms_is_subset(term.others, others) {
                    continue;
                }
                // Of values that are equal to each other one is enough.
                let class = (*term.condition).parent_ec;
                if !term.others.is_null() && !class.is_null() {
                    if classes.contains(&class) {
                        continue;
                    }
                    classes.push(class);
                }
                match by_path.iter_mut().find(|(path, _)| *path == term.path) {
                    Some((_, terms)) => terms.push(term),
                    None => by_path.push((&term.path, vec![term])),
                }
            }
            UnknownValues::of(&by_path, filters)
        }
    }
}

fn has_set(sets: &[pg_sys::Relids], set: pg_sys::Relids) -> bool {
    // SAFETY: sets of the planner's.
    sets.iter().any(|known| unsafe { pg_sys::bms_equal(*known, set) })
}

/// Adds a set, unless it is there.
fn add_set(sets: &mut Vec<pg_sys::Relids>, set: pg_sys::Relids) {
    if !has_set(sets, set) {
        sets.push(set);
    }
}

/// What a condition compares a value at a path of this table with, if a filter can be made of it when it is known.
///
/// # Safety
/// The planner, and a condition of relation `number`, which is this table.
unsafe fn searched(
    root: *mut pg_sys::PlannerInfo,
    condition: *mut pg_sys::RestrictInfo,
    number: pg_sys::Index,
    table: Scanned,
    filters: &FilterPaths,
) -> Option<(Vec<u8>, Other)> {
    // SAFETY: the caller's.
    unsafe {
        let (value, other) = sides(condition, number, filters.values)?;
        if value.column != table.column || value.is_left_to_server() {
            return None;
        }
        let (Other::Compared(_, expression) | Other::OneOf(expression)) = &other;
        let fixed = !pg_sys::bms_is_member(number as i32, pg_sys::pull_varnos(root, *expression))
            && !pg_sys::contain_volatile_functions(*expression)
            && !pg_sys::contain_subplans(*expression);
        let known_path = fixed && placeholder_filter(&value.path, &[Comparison::Equal], filters).is_some();
        known_path.then_some((value.path, other))
    }
}

/// What is sought among the expressions that are equal to others: all values of the table's documents, or one.
struct Sought<'f> {
    number: pg_sys::Index,
    table: Scanned,
    filters: &'f FilterPaths,
    wanted: Option<(*mut pg_sys::EquivalenceClass, Vec<u8>)>,
    /// If all are sought: those there are, and what they are equal to.
    found: Vec<(*mut pg_sys::EquivalenceClass, Vec<u8>)>,
}

impl Sought<'_> {
    /// The conditions that the one that is wanted is equal to values of other relations.
    ///
    /// # Safety
    /// The planner, and a relation of its that has the number.
    unsafe fn ask(
        &mut self,
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
    ) -> *mut pg_sys::List {
        let sought = ptr::from_mut(self).cast();
        // SAFETY: the caller's; the callback gets what is given here.
        unsafe {
            let lateral = (*rel).lateral_referencers;
            pg_sys::generate_implied_equalities_for_column(root, rel, Some(is_sought), sought, lateral)
        }
    }
}

unsafe extern "C-unwind" fn is_sought(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    class: *mut pg_sys::EquivalenceClass,
    member: *mut pg_sys::EquivalenceMember,
    sought: *mut c_void,
) -> bool {
    // SAFETY: called by the server with what `Sought::ask` gave it.
    unsafe {
        error_frame::guarded(|| {
            let Sought { number, table, filters, wanted, found } = &mut *sought.cast::<Sought<'_>>();
            if wanted.as_ref().is_some_and(|(wanted, _)| *wanted != class) {
                return false;
            }
            let expression = (*member).em_expr.cast::<pg_sys::Node>();
            let value = ValueAt::of(expression, *number, filters.values)
                .filter(|value| value.column == table.column && !value.is_left_to_server());
            match (value, wanted) {
                (Some(value), Some((_, wanted))) => value.path == *wanted,
                (Some(value), None) => {
                    let one = (class, value.path);
                    if !found.contains(&one) {
                        found.push(one);
                    }
                    // So it goes on with the others.
                    false
                }
                (None, _) => false,
            }
        })
    }
}
