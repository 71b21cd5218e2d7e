//! The fields of a document that a group reads, found in one pass over it, and a cache of the groups of computed keys.

use crate::doc::{Collation, Doc, Element, Value};
use crate::query::expr::Expr;

use crate::aggregate::group_key::{MISSING, append_collated_key};
use crate::aggregate::key_table::{Entry, HashSeed, KeyTable};

/// The most fields that are found in this way.
pub(super) const MAX_FIELDS: usize = 12;

/// The fields found, by their place in a [`FieldSet`].
pub(super) type FoundFields<'d> = [Option<Element<'d>>; MAX_FIELDS];

/// The names of the top-level fields to find.
#[derive(Debug, Default)]
pub(super) struct FieldSet(Vec<Box<[u8]>>);

impl FieldSet {
    /// The place of a name in [`FoundFields`], added if it is new; `None` if there are too many.
    pub(super) fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.0.iter().position(|other| **other == *name.as_bytes()) {
            return Some(at);
        }
        if self.0.len() >= MAX_FIELDS {
            return None;
        }
        self.0.push(name.as_bytes().into());
        Some(self.0.len() - 1)
    }

    /// The fields of a document.
    #[inline]
    pub(super) fn find<'d>(&self, doc: Doc<'d>) -> FoundFields<'d> {
        let mut row = [None; MAX_FIELDS];
        let mut left = self.0.len();
        if left == 0 {
            return row;
        }
        for element in doc.elements() {
            for (name, place) in self.0.iter().zip(&mut row) {
                // Most names differ in length or first byte, which is cheaper to see than to call a comparison. Of fields
                // with the same name the first counts.
                if name.len() == element.name.len()
                    && name.first() == element.name.first()
                    && place.is_none()
                    && **name == *element.name
                {
                    *place = Some(element);
                    left -= 1;
                }
            }
            if left == 0 {
                break;
            }
        }
        row
    }
}

/// How the value of an expression is found.
#[derive(Debug)]
pub(super) enum ValueSource {
    /// A top-level field.
    Field(usize),
    /// The same for every document.
    Constant(Value<'static>),
    /// By evaluating the expression.
    Expr,
}

impl ValueSource {
    pub(super) fn new(expr: &Expr, fields: &mut FieldSet) -> ValueSource {
        if let Some(path) = expr.as_field()
            && path.parts().len() == 1
            && let Some(at) = fields.place(path.first())
        {
            return ValueSource::Field(at);
        }
        match expr.as_constant() {
            Some(Value::Int32(value)) => ValueSource::Constant(Value::Int32(value)),
            Some(Value::Int64(value)) => ValueSource::Constant(Value::Int64(value)),
            Some(Value::Double(value)) => ValueSource::Constant(Value::Double(value)),
            Some(Value::Null) => ValueSource::Constant(Value::Null),
            _ => ValueSource::Expr,
        }
    }
}

/// The places of the top-level fields that the value of an expression depends on; `None` if it depends on more.
pub(super) fn depends_on(expr: &Expr, fields: &mut FieldSet) -> Option<Vec<usize>> {
    let reads = expr.reads();
    if reads.whole || reads.random {
        return None;
    }
    let mut places = Vec::new();
    for path in reads.paths {
        let place = fields.place(path.first())?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Some(places)
}

/// Appends the keys of fields: together the key of a document that is made of these fields.
#[inline]
pub(super) fn append_keys(row: &FoundFields<'_>, places: &[usize], collation: &Collation, out: &mut Vec<u8>) {
    for place in places {
        match row.get(*place).copied().flatten() {
            Some(element) => drop(append_collated_key(collation, element.value(), out)),
            None => out.push(MISSING),
        }
    }
}

/// Look-ups after which a cache with fewer hits than misses is given up.
const TRIAL: u64 = 4096;

/// A cache from the values of fields to a number: the group of a key that is computed from these fields.
#[derive(Debug)]
pub(super) struct GroupCache {
    keys: KeyTable,
    groups: Vec<u64>,
    key: Vec<u8>,
    /// Bytes that the cache may take.
    limit: usize,
    lookups: u64,
    hits: u64,
}

impl GroupCache {
    /// An empty cache that takes at most about `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        GroupCache {
            keys: KeyTable::new(HashSeed::new()),
            groups: Vec::new(),
            key: Vec::new(),
            limit,
            lookups: 0,
            hits: 0,
        }
    }

    /// The group that was inserted with these fields.
    #[inline]
    pub(super) fn find(&mut self, row: &FoundFields<'_>, places: &[usize]) -> Option<u64> {
        self.key.clear();
        for place in places {
            match row.get(*place).copied().flatten() {
                Some(element) => {
                    self.key.push(element.kind);
                    self.key.extend_from_slice(element.bytes);
                }
                None => self.key.push(MISSING),
            }
        }
        self.lookups += 1;
        match self.keys.entry(self.keys.hash(&self.key), &self.key) {
            Entry::Occupied(number) => {
                self.hits += 1;
                self.groups.get(number as usize).copied()
            }
            Entry::Vacant(_) => None,
        }
    }

    /// Inserts the group of the fields that were looked up last, if there is room.
    pub(super) fn insert(&mut self, group: u64) {
        if self.keys.size() + self.key.len() + self.groups.len() * size_of::<u64>() <= self.limit
            && self.keys.insert(&self.key)
        {
            self.groups.push(group);
        }
    }

    /// True if the cache should be given up.
    pub(super) fn is_useless(&self) -> bool {
        self.lookups == TRIAL && self.hits * 2 < TRIAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn fields_are_found_in_any_order_and_the_first_of_a_name_counts() {
        let mut fields = FieldSet::default();
        assert_eq!([fields.place("b"), fields.place("a"), fields.place("b")], [Some(0), Some(1), Some(0)]);
        let doc = rawdoc! { "x": 1, "a": 2, "b": "c", "a": 3 };
        let row = fields.find(Doc::from(&doc));
        let value = |at: usize| row[at].map(|element| element.value());
        assert_eq!((value(0), value(1)), (Some(Value::String(b"c")), Some(Value::Int32(2))));
        assert!(fields.find(Doc::EMPTY).iter().all(Option::is_none));
        for n in 0..20 {
            fields.place(&n.to_string());
        }
        assert_eq!(fields.place("one too many"), None);
    }

    #[test]
    fn a_cache_distinguishes_fields_keeps_its_limit_and_notices_that_it_is_useless() {
        let mut fields = FieldSet::default();
        let places = [fields.place("a").unwrap(), fields.place("b").unwrap()];
        let mut cache = GroupCache::new(600);
        let docs = [
            rawdoc! { "a": 1 },
            rawdoc! { "b": 1 },
            rawdoc! { "a": 1, "b": 1 },
            rawdoc! { "a": 1_i64 },
            rawdoc! {},
        ];
        for (number, doc) in docs.iter().enumerate() {
            assert_eq!(cache.find(&fields.find(Doc::from(doc)), &places), None);
            cache.insert(number as u64);
        }
        for (number, doc) in docs.iter().enumerate() {
            assert_eq!(cache.find(&fields.find(Doc::from(doc)), &places), Some(number as u64));
        }
        for n in 0..5000 {
            let doc = rawdoc! { "a": n + 100 };
            if cache.find(&fields.find(Doc::from(&doc)), &places).is_none() {
                cache.insert(0);
            }
            if cache.is_useless() {
                assert!(cache.keys.len() < 20);
                return;
            }
        }
        panic!("the cache is kept after thousands of misses");
    }
}
