//! TreeDB compared with other embedded databases, all measured in the same run.
//!
//! | module | contents |
//! |---|---|
//! | [`suites`] | the workloads: `kv`, `documents`, `durable` and so on |
//! | [`engines`] | TreeDB and its peers behind common traits |
//! | `debian_packages` | a data set of real documents |
//! | `server` | servers, clients and YCSB's workloads |
//! | `paths` | the ways to reach a collection of TreeDB |
//! | `vectors` | sets of vectors, and indexes over them |
//! | [`comparison`] | interleaved rounds, clocks, units and checksums |
//! | [`worker`] | work that needs a process of its own |
//! | [`machine`] | the machine, the commit and the peers' versions |
//! | [`report`] | the printed table |
//! | [`results`] | the result files |
//! | [`page`] | `docs/benchmarks.md`, and the table in the README, from the result files |
//! | [`chart`] | its pictures of ratios |
//! | `curves` | its pictures of recall and speed |
//!
//! `bench/README.md` explains how to read the results.

pub mod chart;
pub mod comparison;
mod curves;
mod debian_packages;
pub mod engines;
pub mod machine;
pub mod page;
mod paths;
pub mod report;
pub mod results;
mod server;
pub mod suites;
mod vectors;
pub mod worker;

/// Any error ends the run.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
