//! Filters that every document matches whose value at a path compares as SQL says: `doc -> 'a.b' > '1'`,
//! `doc #> '{a,b}' > '1'` and `doc -> 'a.b' IN ('1', '2')`.
//!
//! SQL has one order of all values, and filters compare values of one type. So what is above a number is a greater number, or
//! a value of one of the types that come later. Between two numbers there is nothing but numbers. An array is compared as
//! a whole, and filters look into it: an index with arrays does not find those that an open range includes, and the planner of
//! filters leaves it out.
//!
//! A filter may be wider than the conditions, which are evaluated on each row that is found: of types that filters treat in
//! ways of their own it takes all values.

use treedb_query::doc::compare::compare;
use treedb_query::doc::write::Writer;
use treedb_query::doc::{Doc, Value};
use treedb_query::query::Filter;

use super::implied::{every_document, is_comparable, is_plain};
use super::value;
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::text;
use crate::shim::value_condition::{Comparison, ValueFunction, Wanted};

/// `->`, whose paths have dots, and `#>`. The server has an index of its own on the value of `doc -> '_id'`.
pub(crate) const VALUES: &[ValueFunction] = &[
    ValueFunction { function: c"get", path: dotted, except: b"_id" },
    ValueFunction { function: c"get_path", path: joined, except: b"" },
];

fn dotted(path: &[&[u8]]) -> Option<Vec<u8>> {
    path.first().map(|path| path.to_vec())
}

/// The path of these names. A position means something else in a dotted path: there it may be a name, and does not count from
/// the end.
fn joined(names: &[&[u8]]) -> Option<Vec<u8>> {
    let plain = !names.is_empty() && names.iter().all(|name| is_name(&text::to_utf8(name)));
    plain.then(|| names.join(&b'.'))
}

/// Whether a name can be nothing but that of a field.
fn is_name(name: &str) -> bool {
    is_plain(name) && name.trim_start().parse::<i32>().is_err()
}

/// The types in the order of their values; values of one class compare with each other.
const CLASSES: [&[&str]; 17] = [
    &["minKey"],
    &["undefined"],
    &["null"],
    &["number"],
    &["string", "symbol"],
    &["object"],
    &["array"],
    &["binData"],
    &["objectId"],
    &["bool"],
    &["date"],
    &["timestamp"],
    &["regex"],
    &["dbPointer"],
    &["javascript"],
    &["javascriptWithScope"],
    &["maxKey"],
];

/// The position of a value's type in [`CLASSES`].
fn class(value: Value<'_>) -> usize {
    let name = if value.is_number() { "number" } else { value.type_name() };
    CLASSES.iter().position(|names| names.contains(&name)).unwrap_or(CLASSES.len())
}

/// Whether filters compare values of this type as SQL does.
fn is_ordered(value: Value<'_>) -> bool {
    is_comparable(value) || matches!(value, Value::Binary(..) | Value::Timestamp(_))
}

const NUMBERS: usize = 3;
const NAN: Value<'static> = Value::Double(f64::NAN);

/// An end of a range.
#[derive(Clone, Copy)]
struct Bound<'v> {
    value: Value<'v>,
    included: bool,
}

/// The values that meet all conditions.
#[derive(Clone, Copy, Default)]
struct Range<'v> {
    low: Option<Bound<'v>>,
    high: Option<Bound<'v>>,
}

impl<'v> Range<'v> {
    fn add(&mut self, comparison: Comparison, value: Value<'v>) {
        let included =
            matches!(comparison, Comparison::LessOrEqual | Comparison::Equal | Comparison::GreaterOrEqual);
        let bound = Bound { value, included };
        let from = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual | Comparison::Equal);
        let to = matches!(comparison, Comparison::Less | Comparison::LessOrEqual | Comparison::Equal);
        // The tighter one of two.
        if from
            && self.low.is_none_or(|old| {
                let order = compare(value, old.value);
                order.is_gt() || order.is_eq() && !included
            })
        {
            self.low = Some(bound);
        }
        if to
            && self.high.is_none_or(|old| {
                let order = compare(value, old.value);
                order.is_lt() || order.is_eq() && !included
            })
        {
            self.high = Some(bound);
        }
    }

    fn is_empty(&self) -> bool {
        self.low.zip(self.high).is_some_and(|(low, high)| {
            let order = compare(low.value, high.value);
            order.is_gt() || order.is_eq() && !(low.included && high.included)
        })
    }
}

/// Conditions on the value at a path, one of which has to be true.
#[derive(Default)]
struct Alternatives<'v> {
    /// Values of one class between two bounds.
    ranges: Vec<Range<'v>>,
    single: Vec<Value<'v>>,
    types: Vec<&'static str>,
}

impl<'v> Alternatives<'v> {
    fn of(range: Range<'v>) -> Self {
        let mut found = Alternatives::default();
        if range.is_empty() {
            return found;
        }
        let first = range.low.map_or(0, |low| class(low.value));
        let last = range.high.map_or(CLASSES.len() - 1, |high| class(high.value));
        for (at, names) in CLASSES.iter().enumerate().take(last + 1).skip(first) {
            let of_class = |bound: &Bound<'v>| class(bound.value) == at;
            let (low, high) = (range.low.filter(of_class), range.high.filter(of_class));
            found.add(at, names, Range { low, high });
        }
        found
    }

    /// Those of a list.
    fn among(values: impl Iterator<Item = Value<'v>>) -> Self {
        let mut found = Alternatives::default();
        for value in values {
            let bound = Some(Bound { value, included: true });
            let class = class(value);
            if let Some(names) = CLASSES.get(class) {
                found.add(class, names, Range { low: bound, high: bound });
            }
        }
        found
    }

    /// Adds the values of a class in a range, whose bounds are of that class.
    fn add(&mut self, class: usize, names: &'static [&'static str], Range { low, high }: Range<'v>) {
        let is_nan = |bound: &Bound<'_>| class == NUMBERS && compare(bound.value, NAN).is_eq();
        // The least number, which filters compare with no other.
        let from_least = low.as_ref().is_none_or(is_nan);
        let low = low.filter(|bound| !is_nan(bound));
        let comparable = [low, high].iter().flatten().all(|bound| is_ordered(bound.value));
        let is_null = [low, high].iter().flatten().any(|bound| matches!(bound.value, Value::Null));
        match (low, high) {
            (None, Some(high)) if is_nan(&high) => self.single.push(NAN),
            (Some(low), Some(high)) if comparable && !is_null && compare(low.value, high.value).is_eq() => {
                self.single.push(low.value);
            }
            (None, None) => self.add_types(names),
            _ if !comparable || is_null => self.add_types(names),
            _ => {
                self.ranges.push(Range { low, high });
                if class == NUMBERS && from_least {
                    self.single.push(NAN);
                }
            }
        }
    }

    fn add_types(&mut self, names: &[&'static str]) {
        let new = |name: &&&str| !self.types.iter().any(|known| known == *name);
        let names: Vec<&str> = names.iter().filter(new).copied().collect();
        self.types.extend(names);
    }

    /// The filter for documents with such a value at a path.
    fn filter(&self, path: &str) -> Vec<u8> {
        let mut conditions: Vec<Vec<u8>> =
            self.ranges.iter().map(|range| range_filter(path, *range)).collect();
        if let [only] = self.single.as_slice() {
            let mut filter = Writer::new(64);
            filter.value(path.as_bytes(), *only);
            conditions.push(filter.finish().into_bytes());
        } else if !self.single.is_empty() {
            conditions.push(one_of(path, b"$in", self.single.iter().copied()));
        }
        if !self.types.is_empty() {
            let names = self.types.iter().map(|name| Value::String(name.as_bytes()));
            conditions.push(one_of(path, b"$type", names));
        } else if conditions.is_empty() {
            // No value is one of none.
            conditions.push(one_of(path, b"$in", std::iter::empty()));
        }
        match conditions.as_slice() {
            [only] => only.clone(),
            several => list_filter(b"$or", several.iter().map(Vec::as_slice)),
        }
    }
}

fn range_filter(path: &str, Range { low, high }: Range<'_>) -> Vec<u8> {
    let mut filter = Writer::new(64);
    let within = filter.open_document(path.as_bytes());
    if let Some(Bound { value, included }) = low {
        filter.value(if included { b"$gte" } else { b"$gt" }, value);
    }
    if let Some(Bound { value, included }) = high {
        filter.value(if included { b"$lte" } else { b"$lt" }, value);
    }
    filter.close(within);
    filter.finish().into_bytes()
}

/// The filter with a list for an operator on the value at a path.
fn one_of<'v>(path: &str, operator: &[u8], values: impl Iterator<Item = Value<'v>>) -> Vec<u8> {
    let mut filter = Writer::new(64);
    let condition = filter.open_document(path.as_bytes());
    let list = filter.open_array(operator);
    for (at, value) in values.enumerate() {
        filter.value(at.to_string().as_bytes(), value);
    }
    filter.close(list);
    filter.close(condition);
    filter.finish().into_bytes()
}

/// The filter with a list of filters.
pub(super) fn list_filter<'f>(operator: &[u8], filters: impl Iterator<Item = &'f [u8]>) -> Vec<u8> {
    let mut all = Writer::new(256);
    let list = all.open_array(operator);
    for (at, filter) in filters.enumerate() {
        all.value(at.to_string().as_bytes(), Value::Document(Doc::new(filter)));
    }
    all.close(list);
    all.finish().into_bytes()
}

/// The filter that every document matches whose value at a dotted path, in the database's encoding, is what all of these ask
/// for; `None` if it would say nothing.
pub(crate) fn filter_of_values(path: &[u8], wanted: &[Wanted]) -> Option<Vec<u8>> {
    let path = text::to_utf8(path);
    // A position counts in arrays only, and is not to be found by an index on a field of that name.
    if !path.split('.').all(is_name) {
        return None;
    }
    let mut range = Range::default();
    let mut filters = Vec::new();
    for one in wanted {
        match one {
            Wanted::Compared(comparison, value) => range.add(*comparison, value::decode(value)),
            Wanted::OneOf(values) => {
                let values = values.iter().map(|value| value::decode(value));
                filters.push(Alternatives::among(values).filter(&path));
            }
        }
    }
    if range.low.is_some() || range.high.is_some() {
        filters.push(Alternatives::of(range).filter(&path));
    }
    let filter = match filters.as_slice() {
        [only] => only.clone(),
        several => list_filter(b"$and", several.iter().map(Vec::as_slice)),
    };
    // Too long a path, for example.
    Filter::parse(super::bson::document(&filter)).is_ok().then_some(filter)
}

/// The filter for what all of these match.
pub(crate) fn filter_of_all(filters: &[&[u8]]) -> Vec<u8> {
    list_filter(b"$and", filters.iter().copied())
}

/// The filter that no document matches.
fn nothing(path: &[u8]) -> Vec<u8> {
    Alternatives::default().filter(&text::to_utf8(path))
}

pg_function! {
    /// `treedb.values_filter(path, comparisons, values)`: the filter of `document -> path` compared with each of these values, by
    /// operators with a space between. That of conditions whose values are known when a statement is executed.
    fn treedb_values_filter(args: [Varlena, Varlena, Array]) -> Varlena<'_> {
        let (path, comparisons) = (args.bytes(0), args.bytes(1));
        let values: Option<Vec<Vec<u8>>> =
            args.elements(2).into_iter().map(|value| Some(value?.bytes().to_vec())).collect();
        let comparisons = comparisons.split(|byte| *byte == b' ').map(Comparison::named);
        let filter = match values {
            // No comparison with NULL is true.
            None => nothing(&path),
            Some(values) => {
                let wanted = comparisons.zip(values);
                let wanted = wanted.map(|(comparison, value)| Some(Wanted::Compared(comparison?, value)));
                let wanted: Option<Vec<Wanted>> = wanted.collect();
                wanted.and_then(|wanted| filter_of_values(&path, &wanted)).unwrap_or_else(every_document)
            }
        };
        args.memory().varlena(&filter)
    }
}

pg_function! {
    /// `treedb.any_value_filter(path, values)`: the filter of `document -> path = ANY (values)`.
    fn treedb_any_value_filter(args: [Varlena, Array]) -> Varlena<'_> {
        let path = args.bytes(0);
        // Nothing is equal to NULL.
        let values = args.elements(1).into_iter().flatten().map(|value| value.bytes().to_vec());
        let wanted = [Wanted::OneOf(values.collect())];
        args.memory().varlena(&filter_of_values(&path, &wanted).unwrap_or_else(every_document))
    }
}

pg_function! {
    /// `treedb.both_filters(one, other)`: the filter that asks for both.
    fn treedb_both_filters(args: [Varlena, Varlena]) -> Varlena<'_> {
        let (one, other) = (args.bytes(0), args.bytes(1));
        args.memory().varlena(&filter_of_all(&[&one, &other]))
    }
}
