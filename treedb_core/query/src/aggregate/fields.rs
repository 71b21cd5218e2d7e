//! Fields of a document found in one walk over it, and a table of what was made of their bytes before.

use crate::doc::{Collation, Doc, Element, Value};
use crate::query::expr::Expr;

use super::identity::{MISSING, identify_by};
use super::table::{Look, Seed, Table};

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

/// The bytes of fields that tell apart what an object made of them alone is.
#[inline]
pub(super) fn identify_fields(row: &Row<'_>, places: &[usize], collation: &Collation, out: &mut Vec<u8>) {
    for place in places {
        match row.get(*place).copied().flatten() {
            Some(element) => drop(identify_by(collation, element.value(), out)),
            None => out.push(MISSING),
        }
    }
}

/// Look-ups after which a cache that helps less than every other time is given up.
const TRIAL: u64 = 4096;

/// What was noted with the bytes of fields.
#[derive(Debug)]
pub(super) struct Cache {
    keys: Table,
    notes: Vec<u64>,
    key: Vec<u8>,
    /// Bytes it may take.
    room: usize,
    looked: u64,
    hits: u64,
}

impl Cache {
    /// An empty one that takes about `room` bytes at most.
    pub(super) fn new(room: usize) -> Self {
        Cache { keys: Table::new(Seed::new()), notes: Vec::new(), key: Vec::new(), room, looked: 0, hits: 0 }
    }

    /// What was noted with these fields.
    #[inline]
    pub(super) fn find(&mut self, row: &Row<'_>, places: &[usize]) -> Option<u64> {
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
        self.looked += 1;
        match self.keys.look(self.keys.hash(&self.key), &self.key) {
            Look::At(number) => {
                self.hits += 1;
                self.notes.get(number as usize).copied()
            }
            Look::Free(_) => None,
        }
    }

    /// Notes something with the fields that were looked for last.
    pub(super) fn note(&mut self, note: u64) {
        if self.keys.size() + self.key.len() + self.notes.len() * size_of::<u64>() <= self.room
            && self.keys.add(&self.key)
        {
            self.notes.push(note);
        }
    }

    /// True if looking here has not paid.
    pub(super) fn is_useless(&self) -> bool {
        self.looked == TRIAL && self.hits * 2 < TRIAL
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
        let mut cache = Cache::new(600);
        let docs = [
            rawdoc! { "a": 1 },
            rawdoc! { "b": 1 },
            rawdoc! { "a": 1, "b": 1 },
            rawdoc! { "a": 1_i64 },
            rawdoc! {},
        ];
        for (number, doc) in docs.iter().enumerate() {
            assert_eq!(cache.find(&fields.find(Doc::from(doc)), &places), None);
            cache.note(number as u64);
        }
        for (number, doc) in docs.iter().enumerate() {
            assert_eq!(cache.find(&fields.find(Doc::from(doc)), &places), Some(number as u64));
        }
        for n in 0..5000 {
            let doc = rawdoc! { "a": n + 100 };
            if cache.find(&fields.find(Doc::from(&doc)), &places).is_none() {
                cache.note(0);
            }
            if cache.is_useless() {
                assert!(cache.keys.len() < 20);
                return;
            }
        }
        panic!("thousands of misses are not noticed");
    }
}
