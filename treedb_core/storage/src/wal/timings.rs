//! How often something happens, and how long it takes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often something happened since the store was opened, and how long it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// How often.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Timings {
    /// Once more, for `time`.
    pub(crate) fn add(&mut self, time: Duration) {
        *self = self.and(Timings { count: 1, total: time, longest: time });
    }

    /// These and others.
    pub(crate) fn and(self, other: Timings) -> Timings {
        Timings {
            count: self.count + other.count,
            total: self.total + other.total,
            longest: self.longest.max(other.longest),
        }
    }
}

/// Counts what several threads do at a time.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    count: AtomicU64,
    total: AtomicU64,
    longest: AtomicU64,
}

impl Timer {
    /// Once more, for `time`.
    pub(crate) fn note(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(ns, Ordering::Relaxed);
        self.longest.fetch_max(ns, Ordering::Relaxed);
    }

    /// What was counted.
    pub(crate) fn timings(&self) -> Timings {
        Timings {
            count: self.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.total.load(Ordering::Relaxed)),
            longest: Duration::from_nanos(self.longest.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_summed_and_the_longest_is_known() {
        let (timer, mut timings) = (Timer::default(), Timings::default());
        for millis in [3, 5, 1] {
            timer.note(Duration::from_millis(millis));
            timings.add(Duration::from_millis(millis));
        }
        let (total, longest) = (Duration::from_millis(9), Duration::from_millis(5));
        assert_eq!(timings, Timings { count: 3, total, longest });
        assert_eq!(timer.timings(), timings);
        let both = timings.and(Timings { count: 1, total: longest, longest: Duration::from_millis(7) });
        assert_eq!((both.count, both.total, both.longest.as_millis()), (4, Duration::from_millis(14), 7));
    }
}
