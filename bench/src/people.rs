//! The documents: a name, a unique address, one of 64 cities and a fixed filler, about 112 bytes as JSON.

use bson::raw::{RawDocument, RawDocumentBuf, cstr};
use treedb_testing::Rng;

use crate::Result;
use crate::contest::Answer;

/// Cities there are.
pub const CITIES: u64 = 64;
const PAD: &str = "01234567890123456789";

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// `u-000000042`
    pub id: String,
    /// `user-000000042`
    pub name: String,
    /// `user-000000042@example.com`, unique
    pub email: String,
    /// `city-42`
    pub city: String,
    /// 20 characters, the same for all
    pub pad: String,
}

/// City `n`.
pub fn city(n: u64) -> String {
    format!("city-{:02}", n % CITIES)
}

/// The filler that an update gives person `n`.
pub fn filler(n: u64) -> String {
    format!("another-{n:012}")
}

/// What people are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// By their number, in order: short steps from one to the next, cities in turn.
    Counted,
    /// By a number that looks random, cities and fillers likewise.
    Random,
}

impl Names {
    /// The id of person `n`.
    pub fn id(self, n: u64) -> String {
        match self {
            Names::Counted => format!("u-{n:09}"),
            Names::Random => format!("u-{:016x}", scrambled(n)),
        }
    }

    /// The address of person `n`.
    pub fn email(self, n: u64) -> String {
        match self {
            Names::Counted => format!("user-{n:09}@example.com"),
            Names::Random => format!("{:016x}@example.com", scrambled(!n)),
        }
    }

    /// Person `n`.
    pub fn person(self, n: u64) -> Person {
        let (name, in_city, pad) = match self {
            Names::Counted => (format!("user-{n:09}"), n, PAD.into()),
            Names::Random => {
                let (a, b) = (scrambled(n ^ 1 << 40), scrambled(n ^ 1 << 41));
                (format!("user-{:09}", a % 1_000_000_000), b, format!("{:020}", a ^ b.rotate_left(7)))
            }
        };
        Person { id: self.id(n), name, email: self.email(n), city: city(in_city), pad }
    }
}

/// Another number for each number, far from that of the next.
#[inline]
fn scrambled(n: u64) -> u64 {
    Rng::new(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}

impl Person {
    /// As BSON, `_id` first.
    pub fn to_bson(&self) -> RawDocumentBuf {
        let mut doc = RawDocumentBuf::new();
        doc.append(cstr!("_id"), self.id.as_str());
        doc.append(cstr!("name"), self.name.as_str());
        doc.append(cstr!("email"), self.email.as_str());
        doc.append(cstr!("city"), self.city.as_str());
        doc.append(cstr!("pad"), self.pad.as_str());
        doc
    }

    /// From BSON.
    ///
    /// # Errors
    /// If a field is missing or is not a string.
    pub fn from_bson(doc: &RawDocument) -> Result<Person> {
        let mut person = Person {
            id: String::new(),
            name: String::new(),
            email: String::new(),
            city: String::new(),
            pad: String::new(),
        };
        let mut fields = 0;
        for field in doc {
            let (key, value) = field?;
            let place = match key.as_str() {
                "_id" => &mut person.id,
                "name" => &mut person.name,
                "email" => &mut person.email,
                "city" => &mut person.city,
                "pad" => &mut person.pad,
                other => return Err(format!("unexpected field {other}").into()),
            };
            place.push_str(value.as_str().ok_or("a field is not a string")?);
            fields += 1;
        }
        if fields == 5 { Ok(person) } else { Err(format!("{fields} fields instead of 5").into()) }
    }

    /// Adds every field to a checksum.
    pub fn answer(&self, answer: &mut Answer) {
        for field in [&self.id, &self.name, &self.email, &self.city, &self.pad] {
            answer.add(field.as_bytes());
        }
    }
}

/// A reproducible order of numbers below `below`.
#[derive(Debug, Clone)]
pub struct Random {
    rng: Rng,
    below: u64,
}

impl Random {
    /// Numbers below `below`, the same for the same seed.
    pub fn new(seed: u64, below: u64) -> Random {
        Random { rng: Rng::new(seed), below: below.max(1) }
    }
}

impl Iterator for Random {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        // Close enough to even for choosing keys, and without a division in the loop that is measured.
        Some(((u128::from(self.rng.next_u64()) * u128::from(self.below)) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_survives_bson() {
        for person in [Names::Counted, Names::Random].map(|names| names.person(123)) {
            assert_eq!(Person::from_bson(&person.to_bson()).unwrap(), person);
        }
    }

    #[test]
    fn random_numbers_stay_below_and_repeat() {
        let a: Vec<u64> = Random::new(1, 100).take(1000).collect();
        assert!(a.iter().all(|n| *n < 100));
        assert_eq!(a, Random::new(1, 100).take(1000).collect::<Vec<_>>());
    }
}
