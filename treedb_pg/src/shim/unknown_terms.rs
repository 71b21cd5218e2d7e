//! Which conditions on values of a table's documents may be searched for together, once rows of other tables are known.
//!
//! Of conditions that no index of the table has a field for nothing is made. The sets of other tables whose rows a search may need are
//! those of the conditions on the fields of one index, and some of their unions.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;

use pgrx::pg_sys;

use super::error_frame;
use super::filter_path::FilterPaths;
use super::filter_scan::Scanned;
use super::relation_set::RelationSet;
use super::unguarded::elements;
use super::unknown_values::{UnknownValues, placeholder_filter};
use super::value_condition::{ComparedWith, Comparison, ValueAt, sides};

/// Most sets of other tables that are tried for each field of an index beside those of each condition and of all of them: every one is a path,
/// and the planner looks at each path for each join.
const MOST_UNIONS: usize = 10;

/// A condition on the value at a path of a table's documents.
pub(super) struct Term {
    pub(super) path: Vec<u8>,
    /// What the value is compared with.
    pub(super) compared_with: ComparedWith,
    pub(super) condition: *mut pg_sys::RestrictInfo,
    /// The other relations that it needs; none if it is the table's own.
    pub(super) tables: RelationSet,
}

impl Term {
    /// Whether what the value is compared with is a constant.
    ///
    /// # Safety
    /// In the planner.
    pub(super) unsafe fn is_known(&self) -> bool {
        let (ComparedWith::Value(_, expression) | ComparedWith::OneOf(expression)) = self.compared_with;
        // SAFETY: an expression.
        unsafe { (*expression).type_ == pg_sys::NodeTag::T_Const }
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
                let (path, compared_with) = searched(root, condition, number, table, filters)?;
                Some(Term { path, compared_with, condition, tables: RelationSet::default() })
            });
            let mut own: Vec<Term> = own.collect();
            let between = |condition: *mut pg_sys::RestrictInfo| {
                if !pg_sys::join_clause_is_movable_to(condition, rel) {
                    return None;
                }
                let (path, compared_with) = searched(root, condition, number, table, filters)?;
                let tables = RelationSet::of((*condition).clause_relids).without(number);
                (tables != RelationSet::default()).then_some(Term { path, compared_with, condition, tables })
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
    pub(super) fn sets(&self) -> Vec<RelationSet> {
        let mut sets = Sets::default();
        for fields in &self.indexes {
            let field = |term: &Term| {
                let is = |at: &usize| self.paths.get(*at).is_some_and(|path| *path == term.path);
                fields.iter().position(is)
            };
            let terms = self.joins.iter().filter_map(|term| Some((field(term)?, term)));
            for set in self.sets_of_index(&terms.collect::<Vec<_>>(), fields.len()) {
                sets.add(set);
            }
        }
        sets.in_order
    }

    /// Those for an index with so many fields, of the conditions on these: that of each condition, that of all, and unions of two or more, of
    /// conditions on different fields first. More ends of ranges at one field narrow a search less than another field does.
    fn sets_of_index(&self, terms: &[(usize, &Term)], fields: usize) -> Vec<RelationSet> {
        let mut sets = Sets::default();
        // The sets with the fields that they have conditions on.
        let mut on_fields: Vec<(RelationSet, Vec<usize>)> = Vec::new();
        for (field, term) in terms {
            sets.add(term.tables.clone());
            match on_fields.iter_mut().find(|(tables, _)| *tables == term.tables) {
                Some((_, fields)) => fields.push(*field),
                None => on_fields.push((term.tables.clone(), vec![*field])),
            }
        }
        let most = sets.in_order.len() + MOST_UNIONS * fields;
        'all: for same_field in [false, true] {
            for (field, term) in terms {
                for (known, fields) in on_fields.clone() {
                    if sets.in_order.len() >= most {
                        break 'all;
                    }
                    if fields.contains(field) != same_field
                        || term.tables.is_within(&known)
                        || known.is_within(&term.tables)
                        || self.is_equal_to_known(term, &known)
                    {
                        continue;
                    }
                    let union = known.and(&term.tables);
                    if sets.add(union.clone()) {
                        on_fields.push((union, fields.into_iter().chain([*field]).collect()));
                    }
                }
            }
        }
        let different = terms.iter().fold(RelationSet::default(), |all, (_, term)| {
            if self.is_equal_to_known(term, &all) { all } else { all.and(&term.tables) }
        });
        sets.add(different);
        sets.in_order
    }

    /// Whether a value that is equal to that of a condition is known: of values that are equal to each other one is enough.
    fn is_equal_to_known(&self, term: &Term, known: &RelationSet) -> bool {
        // SAFETY: conditions of the planner's.
        let class = |term: &Term| unsafe { (*term.condition).parent_ec };
        let wanted = class(term);
        !wanted.is_null()
            && self.joins.iter().any(|other| class(other) == wanted && other.tables.is_within(known))
    }

    /// What is known once a row of each of `others` is; `None` if all is known before.
    ///
    /// # Safety
    /// In the planner.
    pub(super) unsafe fn given(&self, others: &RelationSet, filters: &FilterPaths) -> Option<UnknownValues> {
        let mut by_path: Vec<(&[u8], Vec<&Term>)> = Vec::new();
        let mut classes = Vec::new();
        // SAFETY: sets and conditions of the planner's.
        unsafe {
            for term in self.own.iter().chain(&self.joins) {
                if !term.tables.is_within(others) {
                    continue;
                }
                // Of values that are equal to each other one is enough.
                let class = (*term.condition).parent_ec;
                if term.tables != RelationSet::default() && !class.is_null() {
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

/// Sets of relations, each once.
#[derive(Default)]
struct Sets {
    in_order: Vec<RelationSet>,
    known: HashSet<RelationSet>,
}

impl Sets {
    /// Adds a set; false if it is there, or has none.
    fn add(&mut self, set: RelationSet) -> bool {
        let is_new = set != RelationSet::default() && self.known.insert(set.clone());
        if is_new {
            self.in_order.push(set);
        }
        is_new
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
) -> Option<(Vec<u8>, ComparedWith)> {
    // SAFETY: the caller's.
    unsafe {
        let (value, compared_with) = sides(condition, number, filters.values)?;
        if value.column != table.column || value.is_left_to_server() {
            return None;
        }
        let (ComparedWith::Value(_, expression) | ComparedWith::OneOf(expression)) = &compared_with;
        let fixed = !pg_sys::bms_is_member(number as i32, pg_sys::pull_varnos(root, *expression))
            && !pg_sys::contain_volatile_functions(*expression)
            && !pg_sys::contain_subplans(*expression);
        let known_path = fixed && placeholder_filter(&value.path, &[Comparison::Equal], filters).is_some();
        known_path.then_some((value.path, compared_with))
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
