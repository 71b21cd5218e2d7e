//! The conditions of a scan, turned into ranges of entries.
//!
//! Equalities on leading columns (`=`, `= ANY`, IS NULL) become prefixes, the first inequality after them the ends of
//! ranges; whatever remains is checked entry by entry. Ranges are disjoint and in the index's order.

use std::cmp::Ordering;

use super::argument::{Requirement, Strategy, Test};
use super::boundary::Boundary;
use super::schema::Schema;
use crate::shim::error::{SqlState, fail};
use crate::shim::index_scan::{Condition, ScanKey};

/// Prefixes beyond that number are not multiplied out: later columns are checked entry by entry.
const MAX_PREFIXES: usize = 10_000;
/// As many values of a single list become a range each.
const MAX_VALUES: usize = 100_000;

/// Entries between two boundaries.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) low: Boundary,
    pub(super) high: Boundary,
}

/// The conditions of a scan.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) ranges: Vec<Range>,
    /// Column and condition.
    tests: Vec<(usize, Test)>,
}

impl Conditions {
    /// The entries of one range.
    pub(super) fn range(range: Range) -> Self {
        Conditions { ranges: vec![range], tests: Vec::new() }
    }

    /// Reads the keys of a scan.
    pub(super) fn read<'k>(schema: &Schema, keys: impl Iterator<Item = ScanKey<'k>>) -> Self {
        let mut tests = Vec::new();
        for key in keys {
            if !read_key(schema, key, &mut tests) {
                // A comparison with NULL is true of no row.
                return Conditions::default();
            }
        }
        if schema.is_multikey() {
            fail(
                SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                "an index of key sets has no operators",
                "Read it through treedb.find().",
            );
        }
        plan(schema, tests)
    }

    /// Whether the ranges express all conditions.
    pub(super) fn are_ranges(&self) -> bool {
        self.tests.is_empty()
    }

    /// Whether an entry in a range fulfils the conditions that the ranges do not express.
    pub(super) fn matches(&self, schema: &Schema, key: &[u8]) -> bool {
        if self.tests.is_empty() {
            return true;
        }
        let columns: Vec<&[u8]> = schema.split(key).collect();
        self.tests.iter().all(|(number, test)| {
            let (Some(column), Some(value)) = (schema.columns.get(*number), columns.get(*number)) else {
                return false;
            };
            let null = value.len() == 1;
            match test {
                Test::Null => null,
                Test::NotNull => !null,
                _ if null => false,
                Test::Less(limit, included) => match column.compare(value, limit) {
                    Ordering::Less => true,
                    order => *included && order == Ordering::Equal,
                },
                Test::Greater(limit, included) => match column.compare(value, limit) {
                    Ordering::Greater => true,
                    order => *included && order == Ordering::Equal,
                },
                Test::OneOf(values) => values.binary_search_by(|one| column.compare(one, value)).is_ok(),
            }
        })
    }
}

/// Adds one scan key as tests of its column to `tests`; false if it is true of no row.
fn read_key(schema: &Schema, key: ScanKey<'_>, tests: &mut Vec<(usize, Test)>) -> bool {
    let number = key.column;
    let Some(column) = schema.columns.get(number) else { return false };
    let strategy = || {
        Strategy::from_number(key.strategy).unwrap_or_else(|| {
            fail(
                SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
                format!(
                    "operator class of column {} has no strategy {} in treedb_btree",
                    number + 1,
                    key.strategy
                ),
                "Strategies are 1 (<) to 5 (>), as in btree.",
            )
        })
    };
    let requirement = match key.condition {
        Condition::IsNull => Requirement::All(vec![Test::Null]),
        Condition::IsNotNull => Requirement::Always,
        Condition::Never => Requirement::Never,
        Condition::Row => fail(
            SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
            "treedb_btree cannot compare rows",
            "Compare the columns one by one.",
        ),
        Condition::CompareAny(values) => column.compared_with_any(strategy(), values, key.other),
        Condition::Compare(value) => column.compared(strategy(), value, key.other),
    };
    match requirement {
        Requirement::Never => return false,
        Requirement::Always => tests.push((number, Test::NotNull)),
        Requirement::Equal(value) => tests.push((number, Test::OneOf(vec![value]))),
        Requirement::All(more) => tests.extend(more.into_iter().map(|test| (number, test))),
    }
    true
}

/// Turns conditions into ranges and the conditions that remain to be checked for each entry.
fn plan(schema: &Schema, mut tests: Vec<(usize, Test)>) -> Conditions {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let mut used = 0;
    let mut ends: Option<Ends> = None;
    for (number, column) in schema.columns.iter().enumerate() {
        let equalities = tests.iter().enumerate().filter(|(_, (of, _))| *of == number);
        let fewest = equalities
            .filter_map(|(at, (_, test))| match test {
                Test::OneOf(values) => Some((values.len(), at)),
                Test::Null => Some((1, at)),
                _ => None,
            })
            .min();
        if let Some((count, at)) = fewest
            && (count * prefixes.len() <= MAX_PREFIXES || prefixes.len() == 1 && count <= MAX_VALUES)
        {
            // The ranges express it: it is checked for entries only beside other conditions on its column.
            let alone = tests.iter().filter(|(of, _)| *of == number).count() == 1;
            let test = if alone {
                Some(tests.swap_remove(at).1)
            } else {
                tests.get(at).map(|(_, test)| test.clone())
            };
            let values = match test {
                Some(Test::OneOf(values)) => values,
                _ => {
                    let mut null = Vec::new();
                    column.encode_null(&mut null);
                    vec![null]
                }
            };
            prefixes = match used {
                0 => values,
                _ => {
                    let with = |prefix: &Vec<u8>, value: &Vec<u8>| [prefix.as_slice(), value].concat();
                    let product = prefixes
                        .iter()
                        .flat_map(|prefix| values.iter().map(move |value| with(prefix, value)));
                    product.collect()
                }
            };
            used = number + 1;
            continue;
        }
        let of_column: Vec<&Test> =
            tests.iter().filter(|(of, _)| *of == number).map(|(_, test)| test).collect();
        ends = Ends::of(schema, number, &of_column);
        break;
    }
    let ranges = prefixes
        .into_iter()
        .map(|prefix| match &ends {
            Some(ends) => ends.range(schema, &prefix, used),
            None if used == 0 => Range { low: Boundary::Start, high: Boundary::End },
            None => Range { low: schema.before(prefix.clone(), used), high: schema.after(prefix, used) },
        })
        .collect();
    // Inequalities on the column after the prefixes are the ends of the ranges.
    tests.retain(|(number, test)| {
        *number != used || !matches!(test, Test::Less(..) | Test::Greater(..) | Test::NotNull)
    });
    Conditions { ranges, tests }
}

/// The ends of a range on the column after the prefix.
struct Ends {
    low: (Vec<u8>, bool),
    high: (Vec<u8>, bool),
}

impl Ends {
    /// From the inequalities on column `number`; `None` if there is none.
    fn of(schema: &Schema, number: usize, tests: &[&Test]) -> Option<Ends> {
        let column = schema.columns.get(number)?;
        if !tests
            .iter()
            .any(|test| matches!(test, Test::Less(..) | Test::Greater(..) | Test::NotNull | Test::OneOf(_)))
        {
            return None;
        }
        // Without an inequality: everything but NULLs. The marker alone is a prefix of every value.
        let marker = column.values_from();
        let mut ends = Ends { low: (vec![marker], true), high: (vec![marker], true) };
        for test in tests {
            match test {
                Test::Less(value, included) => ends.lower(column, value, *included),
                Test::Greater(value, included) => ends.raise(column, value, *included),
                Test::OneOf(values) => {
                    if let (Some(least), Some(greatest)) = (values.first(), values.last()) {
                        ends.raise(column, least, true);
                        ends.lower(column, greatest, true);
                    }
                }
                Test::Null | Test::NotNull => {}
            }
        }
        Some(ends)
    }

    fn lower(&mut self, column: &super::column::Column, value: &[u8], included: bool) {
        let tighter = self.high.0.len() == 1
            || match column.compare(value, &self.high.0) {
                Ordering::Less => true,
                Ordering::Equal => !included,
                Ordering::Greater => false,
            };
        if tighter {
            self.high = (value.to_vec(), included);
        }
    }

    fn raise(&mut self, column: &super::column::Column, value: &[u8], included: bool) {
        let tighter = self.low.0.len() == 1
            || match column.compare(value, &self.low.0) {
                Ordering::Greater => true,
                Ordering::Equal => !included,
                Ordering::Less => false,
            };
        if tighter {
            self.low = (value.to_vec(), included);
        }
    }

    /// The range of entries that begin with `prefix`, which has `used` columns.
    fn range(&self, schema: &Schema, prefix: &[u8], used: usize) -> Range {
        let boundary = |(value, included): &(Vec<u8>, bool), low: bool| {
            let key = [prefix, value].concat();
            // Before values that are included, after those that are excluded; at the upper end the other way round.
            if *included == low { schema.before(key, used + 1) } else { schema.after(key, used + 1) }
        };
        Range { low: boundary(&self.low, true), high: boundary(&self.high, false) }
    }
}
