//! The workloads.

mod access_paths;
mod concurrent_reads;
mod connections;
mod documents;
mod durable;
mod groups;
mod index_builds;
mod kv;
mod memory;
mod open;
mod packages;
mod pg;
mod pg_documents;
mod pg_vectors;
mod readers;
mod requests;
mod server;
mod stall;
mod vector_documents;
mod vectors;

use crate::comparison::Clock;
use crate::report::{Row, print, write};
use crate::results::Curve;
use crate::{Result, engines, machine};

/// The number of rounds that every row of a result file has at least.
pub const MIN_ROUNDS: u64 = 5;

/// A suite of workloads.
pub struct Suite {
    /// As in `make bench SUITE=name`.
    pub name: &'static str,
    /// Its description in `docs/benchmarks.md`.
    pub about: &'static str,
    run: fn(Scale) -> Result<Measured>,
}

/// What a suite has measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Comparisons with peers.
    pub rows: Vec<Row>,
    /// Recall and speed of approximate searches.
    pub curves: Vec<Curve>,
    /// Names and versions of peers that are known only while they run.
    pub peers: Vec<(&'static str, String)>,
}

impl From<Vec<Row>> for Measured {
    fn from(rows: Vec<Row>) -> Measured {
        Measured { rows, ..Measured::default() }
    }
}

/// All suites, in the order of `make bench`.
pub const SUITES: &[Suite] = &[
    Suite { name: "kv", about: kv::ABOUT, run: |scale| Ok(kv::run(scale)?.into()) },
    Suite { name: "documents", about: documents::ABOUT, run: |scale| Ok(documents::run(scale)?.into()) },
    Suite { name: "groups", about: groups::ABOUT, run: |scale| Ok(groups::run(scale)?.into()) },
    Suite { name: "durable", about: durable::ABOUT, run: |scale| Ok(durable::run(scale)?.into()) },
    Suite { name: "readers", about: readers::ABOUT, run: |scale| Ok(readers::run(scale)?.into()) },
    Suite { name: "stall", about: stall::ABOUT, run: |scale| Ok(stall::run(scale)?.into()) },
    Suite { name: "open", about: open::ABOUT, run: |scale| Ok(open::run(scale)?.into()) },
    Suite { name: "memory", about: memory::ABOUT, run: |scale| Ok(memory::run(scale)?.into()) },
    Suite { name: "pg", about: pg::ABOUT, run: |scale| Ok(pg::run(scale)?.into()) },
    Suite { name: "server", about: server::ABOUT, run: server::run },
    Suite { name: "connections", about: connections::ABOUT, run: connections::run },
    Suite {
        name: "access_paths",
        about: access_paths::ABOUT,
        run: |scale| Ok(access_paths::run(scale)?.into()),
    },
    Suite { name: "vectors", about: vectors::ABOUT, run: vectors::run },
    Suite { name: "pg_vectors", about: pg_vectors::ABOUT, run: pg_vectors::run },
];

/// The number of rounds, and the amount of work in a round.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Rounds without the warm-up round.
    pub rounds: u64,
    /// Divisor of the amount of work.
    pub divide: u64,
}

impl Scale {
    /// The usual scale, or a hundredth of the work in two rounds if `BENCH_QUICK` is set, which tests the benchmarks
    /// rather than the engines. `BENCH_ROUNDS` sets another number of rounds.
    pub fn chosen() -> Scale {
        let usual = match std::env::var_os("BENCH_QUICK") {
            Some(_) => Scale { rounds: 2, divide: 100 },
            None => Scale { rounds: 7, divide: 1 },
        };
        Scale { rounds: number("BENCH_ROUNDS").unwrap_or(usual.rounds), ..usual }
    }

    /// Whether `BENCH_ONLY` selects a workload. It lists parts, separated by `+`, that the workload's name must contain,
    /// or must not contain if they start with `!`.
    pub fn wants(self, workload: &str) -> bool {
        only().is_none_or(|parts| {
            parts.split('+').all(|part| match part.strip_prefix('!') {
                Some(part) => !workload.contains(part),
                None => workload.contains(part),
            })
        })
    }

    /// A number of operations at this scale.
    pub fn of(self, count: u64) -> u64 {
        (count / self.divide).max(1)
    }

    /// Why a run writes no result file, if it does not.
    fn exploratory(self) -> Option<&'static str> {
        if self.divide > 1 {
            Some("BENCH_QUICK is set: the work is too small to measure")
        } else if self.rounds < MIN_ROUNDS {
            Some("BENCH_ROUNDS is below 5, which is the minimum for a result file")
        } else if only().is_some() || engines::chosen().is_some() || Clock::chosen() != Clock::Wall {
            Some("BENCH_ONLY, BENCH_PEERS or BENCH_CLOCK is set")
        } else if number("BENCH_RECORDS").or(number("BENCH_OPERATIONS")).is_some() {
            Some("BENCH_RECORDS or BENCH_OPERATIONS is set")
        } else {
            None
        }
    }
}

/// The number that an environment variable holds, if it is set to one.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The value of `BENCH_ONLY`.
fn only() -> Option<String> {
    std::env::var("BENCH_ONLY").ok()
}

impl Suite {
    /// Runs the suite, prints its table and, unless the run is exploratory, writes its result file.
    ///
    /// # Errors
    /// From an engine, because results differ, or, before any work, because a result file would name a commit that
    /// does not contain the code.
    pub fn run(&self, scale: Scale) -> Result<()> {
        let exploratory = scale.exploratory();
        if exploratory.is_none()
            && machine::has_uncommitted_changes()
            && std::env::var_os("BENCH_DIRTY").is_none()
        {
            return Err(
                "there are uncommitted changes, and a result file must name the commit it was measured at: \
                        commit them, or set BENCH_DIRTY=1 to write a file that is marked as such"
                    .into(),
            );
        }
        // Before the work, so that the load average does not include it.
        let mut machine = machine::describe(&engines::base()?)?;
        let mut measured = (self.run)(scale)?;
        let peers = measured.peers.drain(..).map(|(name, version)| (name.to_owned(), version.into()));
        machine.peers.extend(peers);
        print(self.name, &measured.rows);
        match exploratory {
            Some(reason) => println!("no result file is written: {reason}"),
            None => println!("written to {}", write(self.name, self.about, machine, measured)?.display()),
        }
        Ok(())
    }
}
