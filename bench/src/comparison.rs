//! Interleaved measurement of several engines.
//!
//! The speed of a shared machine changes from second to second. So each round runs every candidate once, in an order
//! that rotates, and a ratio is the median over rounds of the ratios *within* a round; nothing is compared across
//! program runs.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::report::THE_GOAL;

/// Which clock single-threaded work is timed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Elapsed time. Background threads count as far as they delay the measured work.
    Wall,
    /// Processor time of the measuring thread. Useful on a busy machine, but it misses waits and background
    /// threads. Multi-threaded work is always timed by the wall clock.
    Thread,
}

impl Clock {
    /// The thread's clock if `BENCH_CLOCK=thread`, otherwise the wall clock.
    pub fn chosen() -> Clock {
        match std::env::var("BENCH_CLOCK").as_deref() {
            Ok("thread") => Clock::Thread,
            _ => Clock::Wall,
        }
    }

    /// The time since some moment in the past.
    pub fn now(self) -> Duration {
        let id = match self {
            Clock::Wall => ClockId::Monotonic,
            Clock::Thread => ClockId::ThreadCPUTime,
        };
        let now = clock_gettime(id);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// What one candidate did in one round.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// Number of operations.
    pub ops: u64,
    /// Their total cost: nanoseconds without setup, or bytes.
    pub spent: u64,
    /// Checksum over everything the operations returned. Candidates that have one must agree within a round.
    pub checksum: Option<u64>,
}

impl Measurement {
    /// Times single-threaded `work`, which does `ops` operations and returns their checksum, by the chosen clock.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn single_threaded(ops: u64, work: impl FnOnce() -> Result<u64>) -> Result<Measurement> {
        let clock = Clock::chosen();
        let start = clock.now();
        let checksum = work()?;
        Ok(Measurement { ops, spent: (clock.now() - start).as_nanos() as u64, checksum: Some(checksum) })
    }

    /// Times `work`, which does `ops` operations and returns their checksum, by the wall clock.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn wall_clock(ops: u64, work: impl FnOnce() -> Result<u64>) -> Result<Measurement> {
        let start = Instant::now();
        let checksum = work()?;
        Ok(Measurement { ops, spent: start.elapsed().as_nanos() as u64, checksum: Some(checksum) })
    }
}

/// One participant of a comparison.
pub struct Candidate<'a> {
    /// Its name in tables.
    pub name: &'static str,
    /// Does the work of round `n`.
    pub run: Box<dyn FnMut(u64) -> Result<Measurement> + 'a>,
}

/// The unit of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds per operation: less is better.
    NanosPerOp,
    /// Microseconds of a single event: less is better.
    Microseconds,
    /// Operations per second: more is better.
    OpsPerSecond,
    /// MiB per second: more is better.
    MebibytesPerSecond,
    /// Bytes on disk per document: less is better.
    BytesPerDocument,
    /// Bytes: less is better.
    Bytes,
}

impl Unit {
    /// As printed.
    pub fn label(self) -> &'static str {
        match self {
            Unit::NanosPerOp => "ns/op",
            Unit::Microseconds => "us",
            Unit::OpsPerSecond => "ops/s",
            Unit::MebibytesPerSecond => "MiB/s",
            Unit::BytesPerDocument => "B/doc",
            Unit::Bytes => "B",
        }
    }

    /// True if a smaller value is better.
    pub fn less_is_better(self) -> bool {
        !matches!(self, Unit::OpsPerSecond | Unit::MebibytesPerSecond)
    }

    fn of(self, measured: &Measurement) -> f64 {
        let (spent, ops) = (measured.spent.max(1) as f64, measured.ops.max(1) as f64);
        match self {
            Unit::NanosPerOp | Unit::BytesPerDocument | Unit::Bytes => spent / ops,
            Unit::Microseconds => spent / ops / 1e3,
            Unit::OpsPerSecond | Unit::MebibytesPerSecond => ops * 1e9 / spent,
        }
    }
}

/// One candidate's results.
#[derive(Debug, Clone)]
pub struct Samples {
    /// The candidate's name.
    pub name: &'static str,
    /// One value per round.
    pub rounds: Vec<f64>,
}

impl Samples {
    /// The median of the rounds.
    pub fn median(&self) -> f64 {
        median(&self.rounds)
    }

    /// A fixed target in the place of a peer: see [`crate::report::THE_GOAL`].
    pub fn target(value: f64) -> Samples {
        Samples { name: THE_GOAL, rounds: vec![value] }
    }

    /// Minimum and maximum.
    pub fn spread(&self) -> (f64, f64) {
        let min = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let max = self.rounds.iter().copied().fold(0.0, f64::max);
        (min, max)
    }
}

/// The median; 0 if there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mid = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[mid],
        _ => (sorted[mid - 1] + sorted[mid]) / 2.0,
    }
}

/// Runs one warm-up round and then `rounds` rounds. The first candidate must be TreeDB.
///
/// # Errors
/// A candidate's error, or a checksum that differs from TreeDB's.
pub fn compare(unit: Unit, rounds: u64, candidates: &mut [Candidate<'_>]) -> Result<Vec<Samples>> {
    let mut samples: Vec<Samples> =
        candidates.iter().map(|c| Samples { name: c.name, rounds: Vec::new() }).collect();
    for round in 0..=rounds {
        let mut checksums = vec![None; candidates.len()];
        for i in 0..candidates.len() {
            let at = (i + round as usize) % candidates.len();
            let name = candidates[at].name;
            let measured = (candidates[at].run)(round).map_err(|e| format!("{name}: {e}"))?;
            checksums[at] = measured.checksum;
            if round > 0 {
                samples[at].rounds.push(unit.of(&measured));
            }
        }
        for (candidate, theirs) in candidates.iter().zip(&checksums) {
            if let (Some(ours), Some(theirs)) = (checksums[0], theirs)
                && ours != *theirs
            {
                let name = candidate.name;
                return Err(format!(
                    "results differ: checksum {theirs:016x} of {name}, {ours:016x} of TreeDB"
                )
                .into());
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &'static str, checksum: u64) -> Candidate<'static> {
        let run = move |_| Ok(Measurement { ops: 10, spent: 100, checksum: Some(checksum) });
        Candidate { name, run: Box::new(run) }
    }

    #[test]
    fn a_candidate_with_another_checksum_ends_the_run() {
        assert!(compare(Unit::NanosPerOp, 2, &mut [candidate("a", 1), candidate("b", 2)]).is_err());
        let samples = compare(Unit::NanosPerOp, 3, &mut [candidate("a", 1), candidate("b", 1)]).unwrap();
        assert_eq!(samples[1].rounds, [10.0; 3]);
    }

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_the_two_middle_ones() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }
}
