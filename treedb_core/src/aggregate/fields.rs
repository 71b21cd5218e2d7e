//! Fields of a document found in one walk over it, and a table of what was made of their bytes before.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::doc::{Doc, Element, Value};
use crate::query::expr::Expr;

/// Fields that are looked for at most.
pub(super) const MAX_FIELDS: usize = 12;

/// Found fields, in the order of the names; those behind the last name are empty.
pub(super) type Row<'d> = [Option<Element<'d>>; MAX_FIELDS];

/// Names of top-level fields that are looked for together.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<Box<[u8]>>);

impl Fields {
    /// The place of a name in a [`Row`]; `None` if there are too many.
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
    pub(super) fn find<'d>(&self, doc: Doc<'d>) -> Row<'d> {
        let mut row = [None; MAX_FIELDS];
        let mut left = self.0.len();
        if left == 0 {
            return row;
        }
        for element in doc.elements() {
            for (name, place) in self.0.iter().zip(&mut row) {
                // Of two fields with one name the first counts.
                if **name == *element.name && place.is_none() {
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

/// An expression as it is read from a row.
#[derive(Debug)]
pub(super) enum Input {
    /// A top-level field.
    Field(usize),
    /// The same for every row.
    Constant(Value<'static>),
    /// Evaluated over the document.
    Expr,
}

impl Input {
    pub(super) fn of(expr: &Expr, fields: &mut Fields) -> Input {
        if let Some(path) = expr.as_field()
            && path.parts().len() == 1
            && let Some(at) = fields.place(path.first())
        {
            return Input::Field(at);
        }
        match expr.as_constant() {
            Some(Value::Int32(value)) => Input::Constant(Value::Int32(value)),
            Some(Value::Int64(value)) => Input::Constant(Value::Int64(value)),
            Some(Value::Double(value)) => Input::Constant(Value::Double(value)),
            Some(Value::Null) => Input::Constant(Value::Null),
            _ => Input::Expr,
        }
    }
}

/// The fields that an expression without side effects depends on alone; `None` if it depends on more.
pub(super) fn depends_on(expr: &Expr, fields: &mut Fields) -> Option<Vec<usize>> {
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

/// Bytes an entry of a [`Cache`] takes besides its key.
const ENTRY: usize = 48;
/// Look-ups after which a cache that helps less than every other time is given up.
const TRIAL: u64 = 4096;

/// The places of groups by the bytes of the fields that decide them.
#[derive(Debug)]
pub(super) struct Cache {
    places: HashMap<Box<[u8]>, usize, Seed>,
    key: Vec<u8>,
    /// Bytes it may still take.
    room: usize,
    looked: u64,
    hits: u64,
}

impl Cache {
    /// An empty one that takes at most `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        Cache { places: HashMap::with_hasher(Seed::new()), key: Vec::new(), room, looked: 0, hits: 0 }
    }

    /// The place of the group that these fields decided before.
    #[inline]
    pub(super) fn find(&mut self, row: &Row<'_>, places: &[usize]) -> Option<usize> {
        self.key.clear();
        for place in places {
            match row.get(*place).copied().flatten() {
                Some(element) => {
                    self.key.push(element.kind);
                    self.key.extend_from_slice(element.bytes);
                }
                None => self.key.push(0),
            }
        }
        self.looked += 1;
        let found = self.places.get(self.key.as_slice()).copied();
        self.hits += u64::from(found.is_some());
        found
    }

    /// Notes the place of what was looked for last.
    pub(super) fn note(&mut self, place: usize) {
        let size = self.key.len() + ENTRY;
        if size <= self.room {
            self.room -= size;
            self.places.insert(self.key.as_slice().into(), place);
        }
    }

    /// True if looking here has not paid.
    pub(super) fn is_useless(&self) -> bool {
        self.looked == TRIAL && self.hits * 2 < TRIAL
    }
}

/// Makes hashers with a secret of their own each, so that nobody can choose keys that fall together.
#[derive(Debug)]
struct Seed(u64);

impl Seed {
    fn new() -> Self {
        Seed(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for Seed {
    type Hasher = Fold;

    #[inline]
    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

/// A hash of short keys: each eight bytes are multiplied in, both halves of the product kept.
#[derive(Debug)]
struct Fold(u64);

impl Fold {
    #[inline]
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0xf39c_c060_5ced_c835_u64);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ 0x2545_f491_4f6c_dd1d;
    }
}

impl Hasher for Fold {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            for (to, from) in last.iter_mut().zip(rest) {
                *to = *from;
            }
            self.add(u64::from_le_bytes(last));
        }
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn fields_are_found_wherever_they_stand_and_the_first_of_a_name_counts() {
        let mut fields = Fields::default();
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
    fn a_cache_tells_fields_apart_stays_within_its_room_and_knows_when_it_is_useless() {
        let mut fields = Fields::default();
        let places = [fields.place("a").unwrap(), fields.place("b").unwrap()];
        let mut cache = Cache::new(10 * (ENTRY + 12));
        let docs = [
            rawdoc! { "a": 1 },
            rawdoc! { "b": 1 },
            rawdoc! { "a": 1, "b": 1 },
            rawdoc! { "a": 1_i64 },
            rawdoc! {},
        ];
        for (number, doc) in docs.iter().enumerate() {
            assert_eq!(cache.find(&fields.find(Doc::from(doc)), &places), None);
            cache.note(number);
        }
        for (number, doc) in docs.iter().enumerate() {
            assert_eq!(cache.find(&fields.find(Doc::from(doc)), &places), Some(number));
        }
        for n in 0..5000 {
            let doc = rawdoc! { "a": n + 100 };
            if cache.find(&fields.find(Doc::from(&doc)), &places).is_none() {
                cache.note(0);
            }
            if cache.is_useless() {
                assert!(cache.places.len() < 20);
                return;
            }
        }
        panic!("thousands of misses are not noticed");
    }
}
