//! The documents: a name, a unique e-mail address, one of 64 cities and padding, about 112 bytes as JSON.

use serde::{Deserialize, Serialize};

use crate::Checksum;
use crate::random::hash;

/// Number of cities.
pub const CITIES: u64 = 64;
const PAD: &str = "01234567890123456789";

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// `u-000000042`
    #[serde(rename = "_id")]
    pub id: String,
    /// `user-000000042`
    pub name: String,
    /// `user-000000042@example.com`, unique
    pub email: String,
    /// `city-42`
    pub city: String,
    /// 20 characters
    pub pad: String,
}

/// The name of city `n`.
pub fn city(n: u64) -> String {
    format!("city-{:02}", n % CITIES)
}

/// The padding that an update gives user `n`.
pub fn padding(n: u64) -> String {
    format!("another-{n:012}")
}

/// How ids and values are generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdPattern {
    /// From the user's number, in order: neighbouring ids share a long prefix, cities take turns.
    Sequential,
    /// From a hash of the user's number; so are cities and padding.
    Random,
}

impl IdPattern {
    /// The id of user `n`.
    pub fn id(self, n: u64) -> String {
        match self {
            IdPattern::Sequential => format!("u-{n:09}"),
            IdPattern::Random => format!("u-{:016x}", hash(n)),
        }
    }

    /// The e-mail address of user `n`.
    pub fn email(self, n: u64) -> String {
        match self {
            IdPattern::Sequential => format!("user-{n:09}@example.com"),
            IdPattern::Random => format!("{:016x}@example.com", hash(!n)),
        }
    }

    /// User `n`.
    pub fn user(self, n: u64) -> User {
        let (name, in_city, pad) = match self {
            IdPattern::Sequential => (format!("user-{n:09}"), n, PAD.into()),
            IdPattern::Random => {
                let (a, b) = (hash(n ^ 1 << 40), hash(n ^ 1 << 41));
                (format!("user-{:09}", a % 1_000_000_000), b, format!("{:020}", a ^ b.rotate_left(7)))
            }
        };
        User { id: self.id(n), name, email: self.email(n), city: city(in_city), pad }
    }
}

impl User {
    /// Adds every field to a checksum.
    pub fn add_to(&self, checksum: &mut Checksum) {
        for field in [&self.id, &self.name, &self.email, &self.city, &self.pad] {
            checksum.add(field.as_bytes());
        }
    }
}
