//! Point lookups: finds by the value of `_id`, of one indexed field, or of every field of a unique index.
//!
//! The most common finds need no candidates and no costs: one index finds the rows by one key. [`PointQuery`]
//! recognises such a find, in a parsed filter or in its BSON, and [`PointQuery::lookup`] chooses the index by
//! the rules below, without allocating. The planner turns it into a [`Plan`]; the owner of the rows may also
//! look up the key itself, without parsing the filter or planning.
//!
//! * The collation is simple, and only values with the same key equal the values: no arrays, documents, nulls, regular
//!   expressions.
//! * By one field: the index begins with the field and has an entry for every row with a value there. It is unique on
//!   that field alone, or no other visible index contains the field: otherwise costs decide.
//! * By several fields: the first unique index whose fields all have values has no other fields, and is not multikey.

use bson::RawDocument;

use crate::access::{Direction, IndexInfo, KeyRange, Source};
use crate::doc::{Collation, Doc, Element, MESSAGE, Value, validate_with};
use crate::error::Result;
use crate::index::ordered::{IndexDef, Kind};
use crate::query::filter::{Node, Op};

use super::OrderedIndex;
use super::covering::cover;
use crate::query::plan::{KeyPredicate, Path, Plan, Query};

/// The maximum number of fields of a point query.
const MAX_FIELDS: usize = 4;

/// The value that a field has to equal.
#[derive(Debug, Clone, Copy)]
pub struct Equality<'f> {
    field: &'f [u8],
    value: Value<'f>,
}

/// A filter that consists only of equalities whose values have one key each.
#[derive(Debug, Clone, Copy)]
pub enum PointQuery<'f> {
    /// `{ field: value }`
    One(Equality<'f>),
    /// `{ field: value, other: value }`, with the number of fields.
    Several(Equalities<'f>, usize),
}

/// The equalities of a filter with several fields.
#[derive(Debug, Clone, Copy)]
pub enum Equalities<'f> {
    /// As a document.
    Document(Doc<'f>),
    /// As conditions of a parsed filter.
    Conditions(&'f [&'f Node]),
}

impl<'f> Equalities<'f> {
    fn value(self, field: &str) -> Option<Value<'f>> {
        match self {
            Equalities::Document(doc) => doc.find(field.as_bytes()).map(|element| element.value()),
            Equalities::Conditions(nodes) => nodes.iter().find_map(|node| match node {
                Node::Compare { path, value, .. } if path.as_str() == field => Some(value.value()),
                _ => None,
            }),
        }
    }
}

/// The index that answers a [`PointQuery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointLookup {
    /// Its position in [`Source::indexes`].
    pub index: usize,
    /// True if at most one entry has the key, which is then the complete key of the entry; otherwise all
    /// entries that begin with the key are found.
    pub at_most_one: bool,
}

impl<'f> PointQuery<'f> {
    /// `filter` as a point query, if it is one.
    ///
    /// # Errors
    /// The errors of a filter that is not valid BSON.
    pub fn of_filter(filter: &'f RawDocument) -> Result<Option<Self>> {
        let Some(element) = only_element(filter.as_bytes()) else { return Ok(Self::of_fields(filter)) };
        let value = element.value();
        if !has_one_key(value) {
            return Ok(None);
        }
        if !is_valid(element, value) {
            validate_with(filter.as_bytes(), MESSAGE)?;
        }
        Ok(Some(PointQuery::One(Equality { field: element.name, value })))
    }

    /// The query for `value` in `field`, if it is a point query.
    pub fn of_field(field: &'f [u8], value: Value<'f>) -> Option<Self> {
        has_one_key(value).then_some(PointQuery::One(Equality { field, value }))
    }

    /// A filter with several fields.
    fn of_fields(filter: &'f RawDocument) -> Option<Self> {
        let (mut count, mut len) = (0, 4 + 1);
        for element in Doc::from(filter).elements() {
            let value = element.value();
            if count == MAX_FIELDS || !has_one_key(value) || !is_valid(element, value) {
                return None;
            }
            count += 1;
            len += 1 + element.name.len() + 1 + element.bytes.len();
        }
        // There are no other bytes after the elements.
        let whole = count > 1 && len == filter.as_bytes().len();
        whole.then_some(PointQuery::Several(Equalities::Document(filter.into()), count))
    }

    /// The conditions of a parsed filter; a document must meet all of them.
    fn of_conditions(conditions: &'f [&'f Node]) -> Option<Self> {
        let equality = |node: &'f Node| match node {
            Node::Compare { path, op: Op::Eq, value } if has_one_key(value.value()) => {
                Some(Equality { field: path.as_str().as_bytes(), value: value.value() })
            }
            _ => None,
        };
        if let [only] = conditions {
            return equality(only).map(PointQuery::One);
        }
        let point = conditions.len() <= MAX_FIELDS && conditions.iter().all(|node| equality(node).is_some());
        let several = PointQuery::Several(Equalities::Conditions(conditions), conditions.len());
        (point && !conditions.is_empty()).then_some(several)
    }

    /// The index among `indexes` for the query with this collation; `None` if the planner has to choose.
    #[inline]
    pub fn lookup(&self, indexes: &[IndexInfo], collation: &Collation) -> Option<PointLookup> {
        match self {
            PointQuery::One(Equality { field, .. }) => PointLookup::by_field(field, indexes, collation),
            PointQuery::Several(..) => self.by_unique_index(indexes, collation),
        }
    }

    fn by_unique_index(&self, indexes: &[IndexInfo], collation: &Collation) -> Option<PointLookup> {
        let PointQuery::Several(fields, count) = self else { return None };
        if !collation.is_simple() {
            return None;
        }
        let (index, info) = indexes.iter().enumerate().find(|(_, info)| {
            let Some(def) = info.def.as_ordered() else { return false };
            let visible = def.unique && !def.options.hidden;
            visible && def.keys.iter().all(|part| fields.value(part.path.as_str()).is_some())
        })?;
        let (def, multikey) = (info.def.as_ordered()?, &info.multikey);
        let positions = def.keys.iter().any(|part| part.path.has_positions());
        let eligible = def.keys.len() == *count && !*multikey && !positions && holds_plain_values(def);
        eligible.then_some(PointLookup { index, at_most_one: true })
    }
}

impl PointLookup {
    /// The index for a query for one value of `field`, whatever the value.
    pub fn by_field(field: &[u8], indexes: &[IndexInfo], collation: &Collation) -> Option<PointLookup> {
        if !collation.is_simple() {
            return None;
        }
        let mut only = None;
        for (index, info) in indexes.iter().enumerate() {
            let (Some(def), multikey) = (info.def.as_ordered(), &info.multikey) else { continue };
            let mut paths = def.keys.iter().map(|part| part.path.as_str().as_bytes());
            let wildcard = matches!(def.options.kind, Kind::Wildcard(_));
            if def.options.hidden || !wildcard && !paths.any(|path| path == field) {
                continue;
            }
            let [first, rest @ ..] = def.keys.as_slice() else { return None };
            // A multikey index with several fields may have several entries for a row with this key.
            let once = !*multikey || rest.is_empty() && first.path.parts().len() == 1;
            if first.path.as_str().as_bytes() != field
                || !holds_plain_values(def)
                || first.path.has_positions()
                || !once
            {
                return None;
            }
            if def.unique && rest.is_empty() {
                return Some(PointLookup { index, at_most_one: true });
            }
            if only.replace(index).is_some() {
                return None;
            }
        }
        only.map(|index| PointLookup { index, at_most_one: false })
    }

    /// Writes the bytes with which the entries begin to `key`; `def` is the definition of the index.
    #[inline]
    pub fn encode_key(&self, query: &PointQuery<'_>, def: &IndexDef, key: &mut Vec<u8>) {
        key.clear();
        match query {
            // The index begins with the field.
            PointQuery::One(one) => {
                if let Some(first) = def.keys.first() {
                    first.encode(one.value, key);
                }
            }
            PointQuery::Several(fields, _) => {
                for part in &def.keys {
                    if let Some(value) = fields.value(part.path.as_str()) {
                        part.encode(value, key);
                    }
                }
            }
        }
    }

    /// True if the rows of the entries that begin with the key are those that match, each once: a row has no other entry
    /// in the index, and keys have the complete encodings of the values.
    pub fn decides(&self, info: &IndexInfo) -> bool {
        !info.multikey && OrderedIndex::of(info).is_some_and(|index| index.keys_are_values())
    }

    /// The lookup of `key` in the index `info` as a plan.
    pub fn plan(&self, info: &IndexInfo, key: Vec<u8>) -> Plan {
        let path = Path::Index {
            index: self.index,
            name: info.def.name().to_owned(),
            ranges: vec![KeyRange::prefix(key)],
            direction: Direction::Forward,
            distinct: !info.multikey,
            keys: KeyPredicate { test: None, complete: self.decides(info) },
        };
        Plan { unique: self.at_most_one, ..Plan::new(path, false) }
    }
}

/// The plan for a query that is a point query on some index.
pub(in crate::query) fn choose(source: &dyn Source, query: &Query, conditions: &[&Node]) -> Option<Plan> {
    if query.sort.is_some() || query.hint.is_some() {
        return None;
    }
    let point = PointQuery::of_conditions(conditions)?;
    let lookup = point.lookup(source.indexes(), &query.collation)?;
    let info = source.indexes().get(lookup.index)?;
    let index = OrderedIndex::of(info)?;
    let mut key = Vec::new();
    lookup.encode_key(&point, &index.def, &mut key);
    let mut plan = lookup.plan(info, key);
    plan.cover = cover(source, lookup.index, &index, query);
    Some(plan)
}

/// True if every row with a value has an entry whose key begins with the encoding of the value.
fn holds_plain_values(def: &IndexDef) -> bool {
    def.options.kind.is_values() && def.options.partial.is_none() && def.options.collation.is_simple()
}

/// The element of a document with exactly one: length, element, NUL.
fn only_element(bytes: &[u8]) -> Option<Element<'_>> {
    let element = Doc::new(bytes).elements().next()?;
    let len = 4 + 1 + element.name.len() + 1 + element.bytes.len() + 1;
    let (prefix, end) = (bytes.first_chunk::<4>()?, bytes.last()?);
    (bytes.len() == len && u32::from_le_bytes(*prefix) as usize == len && *end == 0).then_some(element)
}

/// True if an element is known to be valid BSON without full validation.
fn is_valid(element: Element<'_>, value: Value<'_>) -> bool {
    match value {
        Value::String(text) => element.bytes.last() == Some(&0) && std::str::from_utf8(text).is_ok(),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Date(_) | Value::ObjectId(_) => true,
        _ => false,
    }
}

/// True for values that equal exactly those with the same key: no operators, no arrays (whose elements count too),
/// nothing that a missing field equals.
fn has_one_key(value: Value<'_>) -> bool {
    value.is_number()
        || matches!(
            value,
            Value::String(_) | Value::ObjectId(_) | Value::Bool(_) | Value::Date(_) | Value::Binary(..)
        )
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::query::{Filter, index_of};

    fn index(spec: bson::RawDocumentBuf, multikey: bool) -> IndexInfo {
        IndexInfo::new(index_of(&spec).unwrap(), multikey)
    }

    #[test]
    fn the_bytes_of_a_filter_and_its_conditions_are_the_same_point_query() {
        let indexes = [
            IndexInfo::new(IndexDef::id(), false),
            index(rawdoc! { "key": { "a": 1 } }, true),
            index(rawdoc! { "key": { "b": 1, "c": -1 }, "unique": true }, false),
        ];
        for (filter, expected) in [
            (rawdoc! { "_id": 5 }, Some((0, true))),
            (rawdoc! { "a": "x" }, Some((1, false))),
            (rawdoc! { "b": 1 }, Some((2, false))),
            (rawdoc! { "c": 1.5, "b": true }, None),
            (rawdoc! { "c": 1.5, "b": 2 }, Some((2, true))),
            (rawdoc! { "_id": 1, "b": 1, "c": 2 }, None),
            (rawdoc! { "c": 1 }, None),
            (rawdoc! { "a": null }, None),
            (rawdoc! { "a": [1] }, None),
            (rawdoc! { "_id": { "$gt": 1 } }, None),
            (rawdoc! {}, None),
        ] {
            let parsed = Filter::parse(&filter).unwrap();
            let direct = PointQuery::of_filter(&filter).unwrap();
            let conditions = parsed.conjuncts();
            let planned = PointQuery::of_conditions(&conditions);
            let found = |point: Option<PointQuery<'_>>| {
                let lookup = point?.lookup(&indexes, &Collation::Simple)?;
                Some((lookup.index, lookup.at_most_one))
            };
            // Booleans are point values for the planner only: their bytes need a closer look.
            if filter.get("b").ok().flatten().and_then(|value| value.as_bool()).is_none() {
                assert_eq!(found(planned), expected, "{filter:?}");
            }
            assert_eq!(found(direct), expected, "{filter:?}");
        }
    }

    #[test]
    fn an_index_that_may_lack_rows_or_fold_its_keys_is_left_to_the_planner() {
        for spec in [
            rawdoc! { "key": { "a": 1 }, "partialFilterExpression": { "a": { "$gt": 0 } } },
            rawdoc! { "key": { "a": 1 }, "collation": { "locale": "en", "strength": 2 } },
            rawdoc! { "key": { "a": "hashed" } },
            rawdoc! { "key": { "$**": 1 } },
            rawdoc! { "key": { "b": 1, "a": 1 } },
            rawdoc! { "key": { "a.0": 1 } },
        ] {
            let field: &[u8] =
                if spec.get_document("key").unwrap().get("a.0").unwrap().is_some() { b"a.0" } else { b"a" };
            let indexes = [IndexInfo::new(IndexDef::id(), false), index(spec.clone(), false)];
            assert_eq!(PointLookup::by_field(field, &indexes, &Collation::Simple), None, "{spec:?}");
        }
    }
}
