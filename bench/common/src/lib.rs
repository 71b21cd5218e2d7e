//! What every engine of a benchmark is given and what it must return: generated documents, reproducible random
//! numbers, and the checksum over everything that was read.
//!
//! A package of its own because peers that cannot be linked into the benchmark program run in a process of their own,
//! and generate the same documents there. [`remote`] is the protocol between the two.

mod checksum;
mod random;
pub mod remote;
mod users;

pub use checksum::Checksum;
pub use random::Random;
pub use users::{CITIES, IdPattern, User, city, padding};
