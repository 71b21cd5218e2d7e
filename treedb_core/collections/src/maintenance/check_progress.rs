//! How far a check is: of the store, then of the collections, then of the change log.

use std::sync::{Mutex, PoisonError};

/// How far a check is.
///
/// An entry of a table counts once when its page is checked, and a second time when it is compared with others: a row with the indexes, an entry
/// of an index with its row, a record of the change log with the row history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// What has been checked: it never decreases, and is `total` in the end, if nothing is wrong.
    pub done: u64,
    /// What there is to check, which stays the same.
    pub total: u64,
}

/// Adds up what threads have checked, and reports it in order.
pub(crate) struct Meter<F> {
    state: Mutex<State<F>>,
}

struct State<F> {
    now: CheckProgress,
    /// What `now.done` is when the part of the check that runs has ended.
    end: u64,
    report: F,
}

impl<F: FnMut(CheckProgress)> Meter<F> {
    /// Reports that nothing of `total` is done.
    pub(crate) fn new(total: u64, mut report: F) -> Meter<F> {
        let now = CheckProgress { done: 0, total };
        report(now);
        Meter { state: Mutex::new(State { now, end: 0, report }) }
    }

    fn reach(&self, done: impl FnOnce(&State<F>) -> u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = done(&state);
        if done > state.now.done {
            state.now.done = done;
            let now = state.now;
            (state.report)(now);
        }
    }

    /// The next part of the check begins, in which so much is to be checked, about: commits meanwhile may change it.
    pub(crate) fn begin(&self, part: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.end = state.end.saturating_add(part).min(state.now.total);
    }

    /// So much more has been checked.
    pub(crate) fn advance(&self, n: u64) {
        self.reach(|state| state.now.done.saturating_add(n).min(state.end));
    }

    /// The part has been checked.
    pub(crate) fn end(&self) {
        self.reach(|state| state.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_rises_to_the_total_whatever_threads_count() {
        let mut seen = Vec::new();
        let meter = Meter::new(5000, |now| seen.push(now));
        for (part, counted) in [(4000, 1100), (0, 7), (900, 100), (100, 0)] {
            meter.begin(part);
            std::thread::scope(|scope| {
                (0..4).for_each(|_| drop(scope.spawn(|| (0..counted).for_each(|_| meter.advance(1)))));
            });
            meter.end();
        }
        assert!(seen.is_sorted_by(|a, b| a.done < b.done) && seen.iter().all(|now| now.total == 5000));
        assert_eq!((seen[0].done, seen[seen.len() - 1].done, seen.len()), (0, 5000, 4403));
    }
}
