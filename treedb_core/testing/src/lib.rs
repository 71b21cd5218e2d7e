//! What the tests, examples and benchmarks of all packages share. Not published: a dev-dependency by path.
//!
//! The generator is our own because a seed that failed once is kept in its test and must mean the same numbers for
//! ever. `rand`'s seedable generators and `fastrand` may change theirs in any release; `rand_chacha`, which `proptest`
//! brings, is stable, but the ranges drawn from it by `rand` are not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod allocator;
mod clusters;
mod documents;
mod effort;
mod rng;
mod seeds;

pub use allocator::Counting;
pub use clusters::{Alike, Clusters};
pub use documents::{random_document, random_value, ranked};
pub use effort::{in_time, oracle_factor, rounds};
pub use rng::Rng;
pub use seeds::seeds;
