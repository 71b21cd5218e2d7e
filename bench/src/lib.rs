//! TreeDB beside its peers: both sides of every ratio in one run.
//!
//! | module | noun |
//! |---|---|
//! | [`suites`] | what is measured: `kv`, `documents`, `durable` and so on |
//! | [`contest`] | how: sides take turns, round by round |
//! | [`sides`] | TreeDB and its peers doing the same work |
//! | [`child`] | work that needs a process of its own |
//! | [`people`] | the documents |
//! | [`report`] | the table and the result file |
//! | [`machine`] | what it was measured on |
//! | [`docs`] | `docs/benchmarks.md` from the result files |
//!
//! `bench/README.md` says how to read the figures.

pub mod child;
pub mod contest;
pub mod docs;
pub mod machine;
pub mod people;
pub mod report;
pub mod sides;
pub mod suites;

/// What a bench returns: any error ends the run.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
