//! What the paths work on: keys and values, documents about people, and documents with vectors. The same in every run.

use treedb_collections::bson::oid::ObjectId;
use treedb_collections::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

/// Keys in the table.
pub(crate) const KEYS: u64 = 100_000;
/// Documents in the collection.
pub(crate) const PEOPLE: u64 = 10_000;
/// Documents with vectors, and their dimensions.
pub(crate) const PLACES: u64 = 4000;
pub(crate) const DIMENSIONS: u64 = 96;
/// The difference between two neighbouring values of `points`.
pub(crate) const POINTS_STEP: i64 = 100;

const CITIES: u64 = 64;
const GIVEN: [&str; 8] = ["Ada", "Barbara", "Edgar", "Grace", "Jim", "Margaret", "Michael", "Rudolf"];
const FAMILY: [&str; 8] =
    ["Bayer", "Codd", "Gray", "Hamilton", "Hopper", "Liskov", "Lovelace", "Stonebraker"];

/// A number far from those of its neighbours, another one for each (the last steps of splitmix64).
pub(crate) fn spread(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `count` numbers below `below` that look random, another row for each `seed`.
pub(crate) fn draw(seed: u64, count: u64, below: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |n| spread(seed << 32 | n) % below)
}

/// Key `n`: 16 bytes in no order.
pub(crate) fn key(n: u64) -> Vec<u8> {
    format!("{:016x}", spread(n)).into_bytes()
}

/// A value of 100 bytes for key `n`.
pub(crate) fn value(n: u64) -> Vec<u8> {
    n.to_le_bytes().iter().copied().cycle().take(100).collect()
}

/// The `_id` of person `n`: they rise, as those that drivers make do.
pub(crate) fn id(n: u64) -> ObjectId {
    let mut bytes = [0x65; 12];
    bytes[4..].copy_from_slice(&n.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// The address of person `n`, which is nobody else's.
pub(crate) fn email(n: u64) -> String {
    format!("{:012x}@example.com", spread(n) >> 16)
}

/// The points of person `n`: of the first `PEOPLE`, each has another multiple of `POINTS_STEP`.
pub(crate) fn points(n: u64) -> i64 {
    (n * 7919 % PEOPLE) as i64 * POINTS_STEP + (n / PEOPLE) as i64
}

/// Person `n`.
pub(crate) fn person(n: u64) -> RawDocumentBuf {
    let random = spread(!n);
    let one_of = |names: [&'static str; 8], bits: u32| names[(random >> bits) as usize % 8];
    rawdoc! {
        "_id": id(n),
        "name": format!("{} {}", one_of(GIVEN, 0), one_of(FAMILY, 3)),
        "email": email(n),
        "city": format!("city-{:02}", random >> 8 & (CITIES - 1)),
        "points": points(n),
        "balance": (random >> 20) as f64 / 1024.0,
        "visits": (random >> 16 & 0xff) as i32,
    }
}

/// Vector `n`, near one of 100 others.
pub(crate) fn vector(n: u64) -> Vec<f32> {
    let random = |n: u64, d: u64| (spread(n << 8 | d) >> 40) as f32 / (1 << 23) as f32 - 1.0;
    (0..DIMENSIONS).map(|d| random(u64::MAX >> 16 | (n % 100) << 32, d) + 0.5 * random(n, d)).collect()
}

/// The document of vector `n`.
pub(crate) fn place(n: u64) -> RawDocumentBuf {
    rawdoc! { "_id": id(n), "number": n as i64, "vector": RawArrayBuf::from_iter(vector(n).into_iter().map(f64::from)) }
}
