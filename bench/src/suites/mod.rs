//! What is measured.

mod builds;
mod documents;
mod durable;
mod groups;
mod kv;
mod lookups;
mod memory;
mod open;
mod packages;
mod pg;
mod readers;
mod stall;

use crate::Result;
use crate::contest::Clock;
use crate::report::{Row, print, write};
use crate::{machine, sides};

/// A suite: its name on the command line, what it is about, and the work.
pub struct Suite {
    /// As in `make bench SUITE=name`.
    pub name: &'static str,
    /// For the page.
    pub about: &'static str,
    run: fn(Scale) -> Result<Vec<Row>>,
}

/// All suites, in the order of `make bench`.
pub const SUITES: &[Suite] = &[
    Suite { name: "kv", about: kv::ABOUT, run: kv::run },
    Suite { name: "documents", about: documents::ABOUT, run: documents::run },
    Suite { name: "groups", about: groups::ABOUT, run: groups::run },
    Suite { name: "durable", about: durable::ABOUT, run: durable::run },
    Suite { name: "readers", about: readers::ABOUT, run: readers::run },
    Suite { name: "stall", about: stall::ABOUT, run: stall::run },
    Suite { name: "open", about: open::ABOUT, run: open::run },
    Suite { name: "memory", about: memory::ABOUT, run: memory::run },
    Suite { name: "pg", about: pg::ABOUT, run: pg::run },
];

/// How much work a round is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Rounds that count.
    pub rounds: u64,
    /// Work is divided by this.
    pub divide: u64,
}

impl Scale {
    /// The usual scale, or a hundredth of it in two rounds if `BENCH_QUICK` is set: to see that everything runs,
    /// not to measure. `BENCH_ROUNDS` asks for another number of rounds.
    pub fn chosen() -> Scale {
        let usual = match std::env::var_os("BENCH_QUICK") {
            Some(_) => Scale { rounds: 2, divide: 100 },
            None => Scale { rounds: 7, divide: 1 },
        };
        let rounds = std::env::var("BENCH_ROUNDS").ok().and_then(|n| n.parse().ok());
        Scale { rounds: rounds.unwrap_or(usual.rounds), ..usual }
    }

    /// Whether a workload is wanted: `BENCH_ONLY` may name parts, separated by `+`, that the names
    /// of those must have, or with a `!` before them must not have.
    pub fn wants(self, workload: &str) -> bool {
        only().is_none_or(|parts| {
            parts.split('+').all(|part| match part.strip_prefix('!') {
                Some(part) => !workload.contains(part),
                None => workload.contains(part),
            })
        })
    }

    /// A count of operations at this scale.
    pub fn of(self, count: u64) -> u64 {
        (count / self.divide).max(1)
    }
}

/// The parts of a name that `BENCH_ONLY` asks for.
fn only() -> Option<String> {
    std::env::var("BENCH_ONLY").ok()
}

impl Suite {
    /// Runs the suite, prints its table and writes its result file (but not for a quick run).
    ///
    /// # Errors
    /// From a side, or because answers differ.
    pub fn run(&self, scale: Scale) -> Result<()> {
        // Before the work, so that the load named is not our own.
        let facts = machine::facts(&sides::base()?)?;
        let rows = (self.run)(scale)?;
        print(self.name, &rows);
        if only().is_some() || sides::chosen().is_some() || Clock::chosen() != Clock::Wall {
            println!(
                "a run with BENCH_ONLY, BENCH_PEERS or BENCH_CLOCK, for looking into something: no file is written"
            );
        } else if scale.divide > 1 {
            println!("a quick run: 1/{} of the work, and figures that mean nothing", scale.divide);
        } else {
            println!("written to {}", write(self.name, self.about, &facts, &rows)?.display());
        }
        Ok(())
    }
}
