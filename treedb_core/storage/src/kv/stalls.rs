//! Slowing writers down gradually, before something has to hold them up.
//!
//! The log may grow by as much as its limit while a checkpoint is being written. Beyond that each commit pauses in
//! proportion to its bytes, the longer the further the log is over its limit: so a writer that is faster than the disk
//! slows down to the disk's speed gradually, instead of blocking for the rest of a checkpoint.

use std::time::Duration;

/// Nanoseconds of pause per byte when the log is at [`PATIENCE`](super::checkpoint::PATIENCE) times its limit.
const DEAREST: f64 = 250.0;
/// Shorter pauses are accumulated: the system cannot sleep that briefly.
const SHORTEST: u64 = 200_000;
/// The longest pause of one commit, in nanoseconds.
const LONGEST: u64 = 10_000_000;

/// Accumulated pause of all writers, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Debt(u64);

impl Debt {
    /// A commit of `bytes` was logged when the log had `logged` bytes since the last checkpoint began, of which `limit`
    /// are free of charge and `most` the most there may be. Returns how long it is to pause, if at all.
    pub(crate) fn add(&mut self, bytes: usize, logged: u64, limit: u64, most: u64) -> Option<Duration> {
        let over = logged.checked_sub(limit).filter(|&over| over > 0)?;
        let part = (over as f64 / (most.saturating_sub(limit)).max(1) as f64).min(1.0);
        self.0 = self.0.saturating_add((bytes as f64 * part * DEAREST) as u64);
        let due = (self.0 >= SHORTEST).then(|| self.0.min(LONGEST))?;
        // What is beyond the longest pause is forgiven: it was one large commit.
        self.0 = 0;
        Some(Duration::from_nanos(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;

    /// Nanoseconds that a byte costs when `logged` bytes are in the log, over many commits of 100 bytes.
    fn price(logged: u64) -> f64 {
        let mut debt = Debt::default();
        let paused = |_| debt.add(100, logged, LIMIT, 4 * LIMIT).unwrap_or_default().as_nanos();
        (0..100_000).map(paused).sum::<u128>() as f64 / 1e7
    }

    #[test]
    fn writers_pause_the_more_the_further_the_log_is_over_its_limit() {
        assert_eq!(price(0), 0.0);
        assert_eq!(price(LIMIT), 0.0);
        let prices: Vec<f64> = (1..=6).map(|half| price(LIMIT + half * LIMIT / 2)).collect();
        assert!(prices.is_sorted_by(|a, b| a < b), "{prices:?}");
        assert!((240.0..=251.0).contains(&prices[5]), "{prices:?}");
        assert_eq!(price(40 * LIMIT), prices[5]);
    }

    #[test]
    fn no_pause_is_long_however_large_the_commit() {
        let pause = Debt::default().add(1 << 30, 4 * LIMIT, LIMIT, 4 * LIMIT);
        assert_eq!(pause, Some(Duration::from_millis(10)));
    }
}
