//! What a column is compared with in a scan, as a condition on encoded values.
//!
//! An argument of the column's own type, or of one whose values have an encoding in the same order (integers among each
//! other, floats, texts), is encoded. Between dates and timestamps there is no such encoding: what a date is as a
//! timestamp depends on the time zone. There the family's comparison function is asked for the least value of the
//! column that is not below the argument, or above it: a binary search over all values that the type has.

use std::cmp::Ordering;

use pgrx::pg_sys;

use super::column::{Column, Order};
use super::kind::Kind;
use super::stored::Compression;
use crate::shim::comparison::OtherType;
use crate::shim::datum::Datum;
use crate::shim::error::{SqlState, fail};

/// A condition on one encoded column.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// In the index's order (a descending column's conditions are reversed), and never NULL.
    Less(Vec<u8>, bool),
    Greater(Vec<u8>, bool),
    /// One of these, sorted.
    OneOf(Vec<Vec<u8>>),
    Null,
    NotNull,
}

/// What a comparison with one value requires of a column.
pub(super) enum Requirement {
    /// No value fulfils it.
    Never,
    /// Every value fulfils it.
    Always,
    /// To be this encoded value.
    Equal(Vec<u8>),
    /// All of these.
    All(Vec<Test>),
}

impl Requirement {
    fn one(test: Test) -> Requirement {
        Requirement::All(vec![test])
    }
}

/// The numbers of btree's strategies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    Less,
    LessEqual,
    Equal,
    GreaterEqual,
    Greater,
}

impl Strategy {
    /// From the number in an operator class.
    pub(super) fn from_number(number: u16) -> Option<Strategy> {
        Some(match number {
            1 => Strategy::Less,
            2 => Strategy::LessEqual,
            3 => Strategy::Equal,
            4 => Strategy::GreaterEqual,
            5 => Strategy::Greater,
            _ => return None,
        })
    }
}

impl Column {
    /// What `column STRATEGY argument` asks.
    pub(super) fn compared(
        &self,
        strategy: Strategy,
        argument: Datum<'_>,
        other: Option<OtherType>,
    ) -> Requirement {
        let kind = match other {
            None => self.kind,
            Some(other) => match self.kind_of(other) {
                Some(kind) => kind,
                None => return self.searched(strategy, argument, other),
            },
        };
        // Room for a text of usual length: growing costs more than the room.
        let mut value = Vec::with_capacity(48);
        match integer(kind, argument).zip(self.kind.integers()) {
            Some((number, own)) if kind != self.kind => {
                // All values of the column may be on one side of the argument.
                let holds = match strategy {
                    Strategy::Less | Strategy::LessEqual => number > *own.end(),
                    Strategy::Greater | Strategy::GreaterEqual => number < *own.start(),
                    Strategy::Equal => false,
                };
                if !own.contains(&number) {
                    return if holds { Requirement::Always } else { Requirement::Never };
                }
                self.encode_int(number, &mut value);
            }
            _ => _ = self.encode_as(kind, argument, Compression::No, &mut value),
        }
        Requirement::one(match strategy {
            Strategy::Equal => return Requirement::Equal(value),
            Strategy::Less | Strategy::LessEqual => {
                self.inequality(true, strategy == Strategy::LessEqual, value)
            }
            Strategy::Greater | Strategy::GreaterEqual => {
                self.inequality(false, strategy == Strategy::GreaterEqual, value)
            }
        })
    }

    /// What `column STRATEGY ANY (arguments)` asks.
    pub(super) fn compared_with_any(
        &self,
        strategy: Strategy,
        arguments: Vec<Datum<'_>>,
        other: Option<OtherType>,
    ) -> Requirement {
        let mut values: Vec<Vec<u8>> = Vec::with_capacity(arguments.len());
        let mut loosest: Option<Test> = None;
        for argument in arguments {
            match self.compared(strategy, argument, other) {
                Requirement::Never => {}
                Requirement::Always => return Requirement::Always,
                Requirement::Equal(value) => values.push(value),
                Requirement::All(tests) => {
                    for test in tests {
                        match test {
                            Test::OneOf(more) => values.extend(more),
                            // `x > ANY (..)` is `x > the least`.
                            test => self.loosen(&mut loosest, test),
                        }
                    }
                }
            }
        }
        if let Some(test) = loosest {
            return Requirement::one(test);
        }
        if values.is_empty() {
            return Requirement::Never;
        }
        if let Order::Bytes = self.order {
            values.sort_unstable();
            values.dedup();
        } else {
            values.sort_by(|a, b| self.compare(a, b));
            values.dedup_by(|a, b| self.compare(a, b) == Ordering::Equal);
        }
        Requirement::one(Test::OneOf(values))
    }

    /// Keeps the looser of two inequalities in the same direction.
    fn loosen(&self, loosest: &mut Option<Test>, test: Test) {
        let looser = match (&loosest, &test) {
            (Some(Test::Less(old, old_included)), Test::Less(new, included)) => {
                match self.compare(new, old) {
                    Ordering::Greater => true,
                    order => order == Ordering::Equal && *included && !old_included,
                }
            }
            (Some(Test::Greater(old, old_included)), Test::Greater(new, included)) => {
                match self.compare(new, old) {
                    Ordering::Less => true,
                    order => order == Ordering::Equal && *included && !old_included,
                }
            }
            _ => true,
        };
        if looser {
            *loosest = Some(test);
        }
    }

    /// An inequality in the index's order: in a descending column, lesser values come later.
    fn inequality(&self, less: bool, included: bool, value: Vec<u8>) -> Test {
        if less != self.descending { Test::Less(value, included) } else { Test::Greater(value, included) }
    }

    /// The kind to encode values of another type as, if their encoding has the column's order.
    fn kind_of(&self, other: OtherType) -> Option<Kind> {
        let integer = |oid| match oid {
            pg_sys::INT2OID => Some(Kind::Int2),
            pg_sys::INT4OID => Some(Kind::Int4),
            pg_sys::INT8OID => Some(Kind::Int8),
            _ => None,
        };
        let float = |oid| match oid {
            pg_sys::FLOAT4OID => Some(Kind::Float4),
            pg_sys::FLOAT8OID => Some(Kind::Float8),
            _ => None,
        };
        if integer(other.own).is_some() {
            integer(other.other)
        } else if float(other.own).is_some() {
            float(other.other)
        } else {
            let text = matches!(other.other, pg_sys::TEXTOID | pg_sys::NAMEOID);
            (text && self.kind.is_text()).then_some(self.kind)
        }
    }

    /// The same of a type whose values have no encoding here.
    fn searched(&self, strategy: Strategy, argument: Datum<'_>, other: OtherType) -> Requirement {
        let Some(values) = Values::of(other.own).filter(|_| other.is_comparable()) else {
            fail(
                SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                "treedb_btree cannot compare a column with values of this other type",
                "Cast the value to the type of the column.",
            )
        };
        // The first value for which `column < argument` (or `<=`) does not hold any more.
        let first_after = |less: Ordering| -> Option<i64> {
            values.first(|word| match other.compare(word, argument) {
                Some(order) => order > less,
                None => fail(
                    SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
                    "a comparison function of an operator family does not take the types it is declared for",
                    "Use the operator families that the extension brings.",
                ),
            })
        };
        let from = || first_after(Ordering::Less);
        let past = || first_after(Ordering::Equal);
        let encoded = |value: i64| {
            let mut out = Vec::new();
            self.encode_int(value, &mut out);
            out
        };
        let less = |limit: Option<i64>| match limit {
            Some(limit) => Requirement::one(self.inequality(true, false, encoded(limit))),
            None => Requirement::Always,
        };
        let greater = |limit: Option<i64>| match limit {
            Some(limit) => Requirement::one(self.inequality(false, true, encoded(limit))),
            None => Requirement::Never,
        };
        match strategy {
            Strategy::Less => less(from()),
            Strategy::LessEqual => less(past()),
            Strategy::GreaterEqual => greater(from()),
            Strategy::Greater => greater(past()),
            Strategy::Equal => match (from(), past()) {
                (Some(from), past) if past != Some(from) => {
                    // Two values may be equal to one argument, where a time zone leaves out a day or an hour.
                    let last = values.before(past);
                    let mut equal = vec![encoded(from)];
                    if last > from && other.compare(last as usize, argument) == Some(Ordering::Equal) {
                        equal.push(encoded(last));
                        equal.sort_by(|a, b| self.compare(a, b));
                    }
                    Requirement::one(Test::OneOf(equal))
                }
                _ => Requirement::Never,
            },
        }
    }
}

/// An argument of a kind of integers.
fn integer(kind: Kind, argument: Datum<'_>) -> Option<i64> {
    Some(match kind {
        Kind::Int2 => i64::from(argument.word() as i16),
        Kind::Int4 => i64::from(argument.word() as i32),
        Kind::Int8 => argument.word() as i64,
        _ => return None,
    })
}

/// The values of a type that is a number in the word itself, in order: finite ones, with an infinite one on either side.
struct Values {
    least: i64,
    greatest: i64,
    minus_infinity: i64,
    infinity: i64,
}

impl Values {
    /// The values of dates and timestamps, as the server limits them: outside, its comparisons may fail.
    fn of(own: pg_sys::Oid) -> Option<Values> {
        match own {
            pg_sys::DATEOID => Some(Values {
                least: i64::from(pg_sys::DATETIME_MIN_JULIAN) - i64::from(pg_sys::POSTGRES_EPOCH_JDATE),
                greatest: i64::from(pg_sys::DATE_END_JULIAN) - i64::from(pg_sys::POSTGRES_EPOCH_JDATE) - 1,
                minus_infinity: i64::from(i32::MIN),
                infinity: i64::from(i32::MAX),
            }),
            pg_sys::TIMESTAMPOID | pg_sys::TIMESTAMPTZOID => Some(Values {
                least: MIN_TIMESTAMP,
                greatest: END_TIMESTAMP - 1,
                minus_infinity: i64::MIN,
                infinity: i64::MAX,
            }),
            _ => None,
        }
    }

    /// The value at a place: the places of finite values are themselves.
    fn at(&self, place: i64) -> i64 {
        if place < self.least {
            self.minus_infinity
        } else if place > self.greatest {
            self.infinity
        } else {
            place
        }
    }

    /// The first value for which `holds`, which does for all that follow; `None` if there is none.
    fn first(&self, holds: impl Fn(usize) -> bool) -> Option<i64> {
        let (mut low, mut high) = (self.least - 1, self.greatest + 2);
        while low < high {
            // Their distance may be more than a number of 64 bits holds.
            let middle = (i128::from(low) + i128::from(high)).div_euclid(2) as i64;
            if holds(self.at(middle) as usize) { high = middle } else { low = middle + 1 }
        }
        (low < self.greatest + 2).then(|| self.at(low))
    }

    /// The value before another one; the last one if there is none.
    fn before(&self, value: Option<i64>) -> i64 {
        match value {
            None => self.infinity,
            Some(value) if value == self.infinity => self.greatest,
            Some(value) if value <= self.least => self.minus_infinity,
            Some(value) => value - 1,
        }
    }
}

/// The server's limits of a timestamp, in microseconds since 2000; the latter is excluded.
const MIN_TIMESTAMP: i64 = -211_813_488_000_000_000;
const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;
