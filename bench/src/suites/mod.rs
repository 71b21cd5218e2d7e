//! What is measured.

mod documents;
mod durable;
mod kv;
mod pg;

use crate::Result;
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
    Suite { name: "durable", about: durable::ABOUT, run: durable::run },
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
    /// not to measure.
    pub fn chosen() -> Scale {
        match std::env::var_os("BENCH_QUICK") {
            Some(_) => Scale { rounds: 2, divide: 100 },
            None => Scale { rounds: 7, divide: 1 },
        }
    }

    /// A count of operations at this scale.
    pub fn of(self, count: u64) -> u64 {
        (count / self.divide).max(1)
    }
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
        if scale.divide > 1 {
            println!("a quick run: 1/{} of the work, and figures that mean nothing", scale.divide);
        } else {
            println!("written to {}", write(self.name, self.about, &facts, &rows)?.display());
        }
        Ok(())
    }
}
