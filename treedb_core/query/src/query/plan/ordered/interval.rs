//! Intervals of encoded values, and the index key ranges they become.
//!
//! A condition on one field is a set of [`Interval`]s. An interval is between two [`Cut`]s; a cut is directly
//! before or after all byte strings with some prefix. So inverting an interval for a descending field, and
//! prefixing it with the encodings of earlier fields, are simple byte operations.

use std::cmp::Ordering;

use crate::access::{KeyRange, after_prefix};
use crate::doc::compare::class;
use crate::doc::key::{bracket, encode_value, invert};
use crate::doc::key_decode::{decode, encoded_length};
use crate::doc::{Doc, Value};
use crate::index::ordered::SortOrder;

use crate::query::filter::{Pattern, Test, Types};

/// The maximum number of values of an index's first field that are looked up separately; with more, the whole
/// range from the first to the last is scanned.
pub(in crate::query) const MAX_POINTS: usize = 1 << 17;
/// The maximum number of ranges that conditions on several fields may multiply to; otherwise fewer fields are
/// used.
pub(in crate::query) const MAX_RANGES: usize = 512;

/// A position between byte strings: before or after all those that begin with `bytes`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    bytes: Vec<u8>,
    after: bool,
}

/// The encodings between two cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) struct Interval {
    low: Cut,
    high: Cut,
}

fn encoded(value: Value<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(value, &mut bytes);
    bytes
}

const ID: [u8; 12] = [0; 12];

/// One value of each class whose encodings have one tag; numbers, strings and booleans are left out, and arrays.
const ONE_TAG: [Value<'static>; 13] = [
    Value::MinKey,
    Value::Undefined,
    Value::Null,
    Value::Document(Doc::EMPTY),
    Value::Binary(0, b""),
    Value::ObjectId(&ID),
    Value::Date(0),
    Value::Timestamp(0),
    Value::Regex(b"", b""),
    Value::DbPointer(b"", &ID),
    Value::Code(b""),
    Value::CodeScope(b"", Doc::EMPTY),
    Value::MaxKey,
];

/// Whether the encoding of a value may begin with a byte.
fn is_tag(byte: u8) -> bool {
    let numbers = class(&Value::Int32(0))..bracket::AFTER_NUMBERS;
    let bool = class(&Value::Bool(false));
    numbers.contains(&byte)
        || (bool..=bool + 2).contains(&byte)
        || [Value::String(b""), Value::Array(Doc::EMPTY)].iter().chain(&ONE_TAG).any(|one| class(one) == byte)
}

/// First and last tag of the encodings that a comparison with `value` can match: MongoDB compares within a type.
/// `None` for values whose comparisons reach across types, or into arrays.
fn type_tags(value: Value<'_>) -> Option<(u8, u8)> {
    match value {
        Value::Array(_)
        | Value::Null
        | Value::Undefined
        | Value::MinKey
        | Value::MaxKey
        | Value::Regex(..) => None,
        Value::Bool(_) => Some((class(&value), class(&value) + 2)),
        value if value.is_number() => {
            // NaN is only compared with itself, and its tag is below those of all other numbers.
            let tag = *encoded(value).first()?;
            (tag >= bracket::NUMBERS).then_some((bracket::NUMBERS, bracket::AFTER_NUMBERS - 1))
        }
        value => Some((class(&value), class(&value))),
    }
}

impl Interval {
    /// The values equal to `value`; `None` if an index does not find all of them by these.
    pub(in crate::query) fn equal(value: Value<'_>) -> Option<Vec<Interval>> {
        let mut found = vec![Self::point(value)];
        match value {
            // An array is indexed by its elements: a row with this array has an entry with its first element,
            // and a row with an array that contains it has an entry with the array.
            Value::Array(elements) => {
                found.push(Self::point(elements.at(0).map_or(Value::Undefined, |element| element.value())));
            }
            // Missing fields are indexed as null.
            Value::Null | Value::Undefined => found.push(Self::point(Value::Undefined)),
            Value::Regex(..) => return None,
            _ => {}
        }
        Some(found)
    }

    /// The values between two tags of the encoding, inclusive.
    fn tags(first: u8, last: u8) -> Interval {
        Interval {
            low: Cut { bytes: vec![first], after: false },
            high: Cut { bytes: vec![last + 1], after: false },
        }
    }

    /// The values that may pass a test; `None` if an index does not find all of them by these. `arrays`: the index may have
    /// entries of arrays.
    pub(in crate::query) fn passing(test: &Test, arrays: bool) -> Option<Vec<Interval>> {
        let numbers = Self::tags(class(&Value::Int32(0)), bracket::AFTER_NUMBERS - 1);
        match test {
            Test::Type(types) => Self::typed(*types, arrays),
            Test::Regex(pattern) => Self::beginning(pattern),
            Test::Mod(_) => Some(vec![numbers]),
            // An index of values does not tell where they are.
            Test::Geo(_) | Test::Near(_) => None,
            Test::Bits(_) => {
                let binary = class(&Value::Binary(0, b""));
                Some(vec![numbers, Self::tags(binary, binary)])
            }
        }
    }

    fn typed(types: Types, arrays: bool) -> Option<Vec<Interval>> {
        let array = types.has(Value::Array(Doc::EMPTY));
        // An array is indexed by its elements.
        if arrays && array {
            return None;
        }
        let mut found: Vec<Interval> = ONE_TAG
            .iter()
            .filter(|value| types.has(**value))
            .map(|value| Self::tags(class(value), class(value)))
            .collect();
        let number = [Value::Double(0.0), Value::Int32(0), Value::Int64(0), Value::Decimal([0; 16])];
        if number.iter().any(|value| types.has(*value)) {
            found.push(Self::tags(class(&Value::Int32(0)), bracket::AFTER_NUMBERS - 1));
        }
        if types.has(Value::String(b"")) || types.has(Value::Symbol(b"")) {
            let text = class(&Value::String(b""));
            found.push(Self::tags(text, text));
        }
        // Nothing is found there; but the types before and behind arrays are one interval with it.
        if array {
            let array = class(&Value::Array(Doc::EMPTY));
            found.push(Self::tags(array, array));
        }
        if types.has(Value::Bool(true)) {
            let bool = class(&Value::Bool(true));
            found.push(Self::tags(bool, bool + 2));
        }
        Some(found)
    }

    /// The strings with the literal prefix of a pattern, and the pattern itself as a value; `None` without such a prefix.
    fn beginning(pattern: &Pattern) -> Option<Vec<Interval>> {
        let (source, options) = pattern.source();
        let mut low = encoded(Value::String(pattern.prefix().as_bytes()));
        // The terminator is removed.
        low.pop();
        if pattern.prefix().is_empty() {
            return None;
        }
        let high = after_prefix(&low)?;
        Some(vec![
            Interval { low: Cut { bytes: low, after: false }, high: Cut { bytes: high, after: false } },
            Self::point(Value::Regex(source.as_bytes(), options.as_bytes())),
        ])
    }

    /// The union of intervals, sorted and disjoint. Those of neighbouring types become one.
    pub(in crate::query) fn union(mut all: Vec<Interval>) -> Vec<Interval> {
        all.sort_by(Interval::order);
        let mut apart: Vec<Interval> = Vec::with_capacity(all.len());
        for interval in all {
            match apart.last_mut() {
                Some(last) if last.meets(&interval) && *last != interval => {
                    if last.high.is_before(&interval.high) {
                        *last = Self::of_several(last.low.clone(), interval.high);
                    }
                }
                Some(last) if *last == interval => {}
                _ => apart.push(interval),
            }
        }
        apart
    }

    /// Whether this interval and one that begins later are one: they overlap, or no value is between them. Single values stay
    /// what they are, as those of the next field of an index can be looked up behind them.
    fn meets(&self, later: &Interval) -> bool {
        !self.high.is_before(&later.low)
            || self.single().is_none() && later.single().is_none() && self.high.touches(&later.low)
    }

    /// From the beginning of one interval to the end of another one. All values of a type are not given as what begins with its tag, which
    /// would look like a single encoding.
    fn of_several(low: Cut, mut high: Cut) -> Interval {
        if high.bytes == low.bytes
            && high.after
            && let Some(bytes) = after_prefix(&high.bytes)
        {
            high = Cut { bytes, after: false };
        }
        Interval { low, high }
    }

    fn point(value: Value<'_>) -> Interval {
        let bytes = encoded(value);
        Interval { low: Cut { bytes: bytes.clone(), after: false }, high: Cut { bytes, after: true } }
    }

    /// The values of the same type that are greater than `value`, or also equal to it.
    pub(in crate::query) fn above(value: Value<'_>, inclusive: bool) -> Option<Interval> {
        let (_, last) = type_tags(value)?;
        Some(Interval {
            low: Cut { bytes: encoded(value), after: !inclusive },
            high: Cut { bytes: vec![last], after: true },
        })
    }

    /// The values of the same type that are less than `value`, or also equal to it.
    pub(in crate::query) fn below(value: Value<'_>, inclusive: bool) -> Option<Interval> {
        let (first, _) = type_tags(value)?;
        Some(Interval {
            low: Cut { bytes: vec![first], after: false },
            high: Cut { bytes: encoded(value), after: inclusive },
        })
    }

    /// The intersection; `None` if it is empty.
    pub(in crate::query) fn intersect(&self, other: &Interval) -> Option<Interval> {
        let low = if self.low.is_before(&other.low) { &other.low } else { &self.low };
        let high = if self.high.is_before(&other.high) { &self.high } else { &other.high };
        low.is_before(high).then(|| Interval { low: low.clone(), high: high.clone() })
    }

    /// The smallest interval that contains all of `all`, which are sorted.
    pub(in crate::query) fn hull(all: &[Interval]) -> Option<Interval> {
        match all {
            [one] => Some(one.clone()),
            several => Some(Self::of_several(several.first()?.low.clone(), several.last()?.high.clone())),
        }
    }

    /// True if it ends before the other.
    pub(in crate::query) fn ends_before(&self, other: &Interval) -> bool {
        self.high.is_before(&other.high)
    }

    /// The encoding, if the interval contains exactly one.
    pub(in crate::query) fn single(&self) -> Option<&[u8]> {
        (self.low.bytes == self.high.bytes && !self.low.after && self.high.after)
            .then_some(self.low.bytes.as_slice())
    }

    /// True if it is bounded at both ends by conditions and not only by the type.
    pub(in crate::query) fn is_bounded(&self) -> bool {
        self.low.bytes.len() > 1 && self.high.bytes.len() > 1
    }

    /// The interval in the notation of `explain`: `[1, 5)`. All numbers are shown as doubles.
    pub(in crate::query) fn notation(&self) -> String {
        let (open, low) = self.low.notation(true);
        let (close, high) = self.high.notation(false);
        format!("{}{low}, {high}{}", if open { '(' } else { '[' }, if close { ')' } else { ']' })
    }

    /// Compares intervals by their start.
    pub(in crate::query) fn order(&self, other: &Interval) -> Ordering {
        match (self.low.is_before(&other.low), other.low.is_before(&self.low)) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => Ordering::Equal,
        }
    }

    /// The interval in the order of the index: inverted for a descending field.
    pub(in crate::query) fn directed(&self, direction: SortOrder) -> Interval {
        match direction {
            SortOrder::Ascending => self.clone(),
            SortOrder::Descending => Interval { low: self.high.inverted(), high: self.low.inverted() },
        }
    }

    /// The keys that consist of `prefix` and then an encoding in this (directed) interval.
    pub(in crate::query) fn range(&self, prefix: &[u8]) -> Option<KeyRange> {
        let place = |cut: &Cut| {
            let bytes = [prefix, &cut.bytes].concat();
            if cut.after { after_prefix(&bytes) } else { Some(bytes) }
        };
        Some(KeyRange { low: place(&self.low)?, high: place(&self.high) })
    }
}

impl Cut {
    /// True if no value lies between this cut and a later one, `other`, both at the ends of types.
    fn touches(&self, other: &Cut) -> bool {
        match (self.bytes.as_slice(), other.bytes.as_slice()) {
            ([tag], [next]) if !other.after => !(tag.saturating_add(self.after.into())..*next).any(is_tag),
            _ => false,
        }
    }

    /// True if the cut is before `other`.
    fn is_before(&self, other: &Cut) -> bool {
        // If neither byte string is a prefix of the other, they are ordered by their bytes; otherwise the cut
        // of the shorter one encloses that of the longer one.
        if other.bytes.starts_with(&self.bytes) && self.bytes.len() < other.bytes.len() {
            return !self.after;
        }
        if self.bytes.starts_with(&other.bytes) && other.bytes.len() < self.bytes.len() {
            return other.after;
        }
        match self.bytes.cmp(&other.bytes) {
            Ordering::Equal => !self.after && other.after,
            order => order.is_lt(),
        }
    }

    /// For the lower or upper end of an interval: whether the value at the cut is excluded, and that value.
    fn notation(&self, lower: bool) -> (bool, String) {
        let mut text = Vec::new();
        // A tag without a value is the end of that type's range.
        let whole = encoded_length(&self.bytes, false) == Some(self.bytes.len());
        if whole {
            let value = match decode(&self.bytes, &mut text) {
                Some(value) => crate::doc::shown(value),
                None => format!("<type {:#04x}>", self.bytes.first().copied().unwrap_or_default()),
            };
            return (self.after == lower, value);
        }
        let number = class(&Value::Int32(0));
        let value = match (self.bytes.as_slice(), lower) {
            ([tag], true) if *tag == bracket::NUMBERS => "-inf".to_owned(),
            ([tag], false) if (number..bracket::AFTER_NUMBERS + 1).contains(tag) => "inf".to_owned(),
            ([0x20], true) => "\"\"".to_owned(),
            ([0x20 | 0x21], false) => return (true, "{}".to_owned()),
            ([0x20, rest @ ..], _) => {
                // A string prefix.
                let ended = [&[0x20], rest, &[0]].concat();
                let value = decode(&ended, &mut text).unwrap_or(Value::String(b""));
                return (!lower, crate::doc::shown(value));
            }
            (_, true) => "MinKey".to_owned(),
            (_, false) => "MaxKey".to_owned(),
        };
        (false, value)
    }

    fn inverted(&self) -> Cut {
        let mut bytes = self.bytes.clone();
        invert(&mut bytes);
        Cut { bytes, after: !self.after }
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawArrayBuf, rawdoc};

    use super::*;
    use crate::doc::compare::compare;
    use crate::query::filter::{Filter, Node};

    /// Numbers, strings and others, in order.
    const VALUES: &[Value<'static>] = &[
        Value::Undefined,
        Value::Null,
        Value::Double(f64::NAN),
        Value::Double(f64::NEG_INFINITY),
        Value::Int32(-1),
        Value::Double(0.0),
        Value::Double(0.5),
        Value::Int64(1),
        Value::Int32(300),
        Value::String(b""),
        Value::String(b"a"),
        Value::String(b"ab"),
        Value::String(b"b"),
        Value::Bool(false),
        Value::Bool(true),
        Value::Date(5),
    ];

    fn holds(interval: &Interval, value: Value<'_>, direction: SortOrder) -> bool {
        let mut key = encoded(value);
        if direction == SortOrder::Descending {
            invert(&mut key);
        }
        interval
            .directed(direction)
            .range(b"p")
            .is_some_and(|range| range.contains(&[b"p", key.as_slice()].concat()))
    }

    #[test]
    fn intervals_hold_the_values_of_the_same_type_on_their_side_in_both_directions() {
        for &bound in VALUES {
            for &value in VALUES {
                let nan = |value: Value<'_>| matches!(value, Value::Double(n) if n.is_nan());
                let comparable = class(&bound) == class(&value) && nan(bound) == nan(value);
                let order = compare(value, bound);
                for direction in [SortOrder::Ascending, SortOrder::Descending] {
                    let point = Interval::point(bound);
                    assert_eq!(holds(&point, value, direction), order.is_eq(), "{value:?} = {bound:?}");
                    for inclusive in [false, true] {
                        if let Some(above) = Interval::above(bound, inclusive) {
                            let wanted = comparable && (order.is_gt() || inclusive && order.is_eq());
                            assert_eq!(holds(&above, value, direction), wanted, "{value:?} > {bound:?}");
                        }
                        if let Some(below) = Interval::below(bound, inclusive) {
                            let wanted = comparable && (order.is_lt() || inclusive && order.is_eq());
                            assert_eq!(holds(&below, value, direction), wanted, "{value:?} < {bound:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn all_values_of_a_type_as_those_below_and_above_one_are_not_taken_for_one_value() {
        for &bound in VALUES {
            for inclusive in [false, true] {
                let below = Interval::below(bound, inclusive);
                let Some((below, above)) = below.zip(Interval::above(bound, false)) else { continue };
                let all = Interval::union(vec![below, above]);
                let hull = Interval::hull(&all).unwrap();
                for &value in VALUES {
                    let nan = |value: Value<'_>| matches!(value, Value::Double(n) if n.is_nan());
                    let same_type = class(&bound) == class(&value) && nan(bound) == nan(value);
                    let is_it = compare(value, bound).is_eq();
                    for direction in [SortOrder::Ascending, SortOrder::Descending] {
                        let found = all.iter().any(|all| holds(all, value, direction));
                        assert_eq!(found, same_type && (inclusive || !is_it), "{value:?} by {bound:?}");
                        assert_eq!(holds(&hull, value, direction), same_type, "{value:?} by {bound:?}");
                        assert_eq!(hull.directed(direction).single(), None, "{bound:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn all_values_above_one_are_one_interval_and_arrays_may_be_in_it_if_an_index_has_none() {
        let typed = |names: &[&str], arrays: bool| {
            let filter =
                Filter::parse(&rawdoc! { "a": { "$type": names.iter().copied().collect::<RawArrayBuf>() } });
            match filter.unwrap().root() {
                Node::Value { test, .. } => Interval::passing(test, arrays),
                other => panic!("{other:?}"),
            }
        };
        let above = ["string", "symbol", "object", "array", "binData", "objectId", "bool", "date"];
        assert_eq!(typed(&above, true), None);
        let mut all = typed(&above, false).unwrap();
        all.extend(Interval::above(Value::Int32(1), false));
        let all = Interval::union(all);
        assert_eq!(all.len(), 1, "{all:?}");
        for &value in VALUES {
            let above = compare(value, Value::Int32(1)).is_gt();
            assert_eq!(holds(&all[0], value, SortOrder::Ascending), above, "{value:?}");
            assert_eq!(holds(&all[0], value, SortOrder::Descending), above, "{value:?}");
        }
        assert_eq!(Interval::union(typed(&["string", "date"], true).unwrap()).len(), 2);
        let null = Interval::union(Interval::equal(Value::Null).unwrap());
        assert!(null.len() == 2 && null.iter().all(|one| one.single().is_some()), "{null:?}");
    }

    #[test]
    fn an_intersection_holds_what_both_hold() {
        let mut intervals = Vec::new();
        for &value in VALUES {
            intervals.push(Interval::point(value));
            intervals.extend([false, true].iter().filter_map(|&inclusive| Interval::above(value, inclusive)));
            intervals.extend([false, true].iter().filter_map(|&inclusive| Interval::below(value, inclusive)));
        }
        for a in &intervals {
            for b in &intervals {
                let both = a.intersect(b);
                for &value in VALUES {
                    let direction = SortOrder::Ascending;
                    let wanted = holds(a, value, direction) && holds(b, value, direction);
                    assert_eq!(both.as_ref().is_some_and(|both| holds(both, value, direction)), wanted);
                }
            }
        }
    }
}
