//! What the tests of TreeDB's packages share.
//!
//! | module | what it holds |
//! |---|---|
//! | `rng` | [`Rng`]: a seeded generator |
//! | `documents` | random documents |
//! | `time` | [`in_time`], [`rounds`]: limits of time and of repetitions |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod documents;
mod rng;
mod time;

pub use documents::{random_document, random_value};
pub use rng::Rng;
pub use time::{in_time, rounds};
