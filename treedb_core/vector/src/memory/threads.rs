//! Work on many things that only read, divided among threads.
//!
//! The thread that calls takes part. What comes out does not depend on how many threads there are, nor on which of them did what.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The program that the work is done in. All is called by the thread that asked for the work.
pub trait Host {
    /// Calls `start` once, which starts the other threads.
    fn start(&mut self, start: &mut dyn FnMut()) {
        start();
    }

    /// Whether the program has something to do meanwhile; asked every few hundredths of a second.
    fn is_interrupted(&mut self) -> bool {
        false
    }

    /// Does it. No other thread is running then, and the work goes on afterwards unless this panics.
    fn interrupt(&mut self) {}
}

/// A thread takes so small a share of what is left for it at a time.
const SHARES: usize = 4;

/// A program that does nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undisturbed;

impl Host for Undisturbed {}

/// Calls `work` with every number below `count`, on as many threads as there are `workers`; the results in order. A thread is started if there
/// are `taken` numbers for it. It takes at most so many at a time, and fewer towards the end, so that none waits long for another.
pub(super) fn divide<W: Send, T: Send>(
    workers: &mut [W],
    count: usize,
    taken: usize,
    host: &mut impl Host,
    work: impl Fn(&mut W, usize) -> T + Sync,
) -> Vec<T> {
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut left: Vec<usize> = (0..count).collect();
    loop {
        for (number, result) in divide_until_interrupted(workers, &left, taken.max(1), host, &work) {
            if let Some(place) = results.get_mut(number) {
                *place = Some(result);
            }
        }
        left.retain(|number| results.get(*number).is_some_and(Option::is_none));
        if left.is_empty() {
            return results.into_iter().flatten().collect();
        }
        host.interrupt();
    }
}

/// The same, until the host is interrupted: some of the results, each with its number.
fn divide_until_interrupted<W: Send, T: Send>(
    workers: &mut [W],
    numbers: &[usize],
    taken: usize,
    host: &mut impl Host,
    work: &(impl Fn(&mut W, usize) -> T + Sync),
) -> Vec<(usize, T)> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    // As many as have something to do.
    let useful = (numbers.len() / taken).saturating_sub(1).min(workers.len().saturating_sub(1));
    let shares = SHARES * (1 + useful);
    let take = |from: usize| (numbers.len().saturating_sub(from) / shares).clamp(1, taken);
    let run = |worker: &mut W, is_interrupted: &mut dyn FnMut() -> bool| {
        let mut done = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let taken =
                next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |from| Some(from + take(from)));
            let from = taken.unwrap_or(numbers.len());
            let Some(left) = numbers.get(from..).filter(|left| !left.is_empty()) else { break };
            done.extend(left.iter().take(take(from)).map(|number| (*number, work(worker, *number))));
            if is_interrupted() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        done
    };
    let Some((own, others)) = workers.split_first_mut() else { return Vec::new() };
    let mut others = others.get_mut(..useful).filter(|others| !others.is_empty());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        if others.is_some() {
            host.start(&mut || {
                for worker in others.take().into_iter().flatten() {
                    // Where no more threads can be started, those that there are do it.
                    let work = || run(worker, &mut || false);
                    threads.extend(thread::Builder::new().spawn_scoped(scope, work));
                }
            });
        }
        let mut done = run(own, &mut || host.is_interrupted());
        for thread in threads {
            match thread.join() {
                Ok(others) => done.extend(others),
                Err(panic) => resume_unwind(panic),
            }
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Is interrupted whenever it is asked.
    #[derive(Default)]
    struct Busy {
        started: usize,
        interrupted: usize,
    }

    impl Host for Busy {
        fn start(&mut self, start: &mut dyn FnMut()) {
            self.started += 1;
            start();
        }

        fn is_interrupted(&mut self) -> bool {
            true
        }

        fn interrupt(&mut self) {
            self.interrupted += 1;
        }
    }

    #[test]
    fn every_number_is_done_once_and_the_results_are_in_order() {
        for (threads, count) in [(1, 0), (1, 1), (1, 100), (2, 7), (2, 1000), (5, 1000), (9, 20)] {
            let mut workers = vec![0; threads];
            let work = |done: &mut usize, number| {
                *done += 1;
                number * number
            };
            let squares = divide(&mut workers, count, 4, &mut Undisturbed, work);
            assert_eq!(squares, (0..count).map(|number| number * number).collect::<Vec<_>>());
            assert_eq!(workers.iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn work_ends_however_often_the_host_is_interrupted() {
        for threads in [1, 3] {
            let mut host = Busy::default();
            // Long enough that the calling thread gets some of it.
            let work = |(): &mut (), number| {
                thread::sleep(Duration::from_micros(50));
                number
            };
            let done = divide(&mut vec![(); threads], 500, 4, &mut host, work);
            assert_eq!(done, (0..500).collect::<Vec<_>>());
            assert!(host.interrupted > 0, "{threads}");
            assert_eq!(host.started > 0, threads > 1);
        }
    }

    #[test]
    #[should_panic(expected = "cancelled")]
    fn a_host_may_end_the_work_by_a_panic_when_it_is_interrupted() {
        struct Cancelled;
        impl Host for Cancelled {
            fn is_interrupted(&mut self) -> bool {
                true
            }

            fn interrupt(&mut self) {
                panic!("cancelled");
            }
        }
        let work = |(): &mut (), _| thread::sleep(Duration::from_micros(50));
        divide(&mut [(); 3], 500, 4, &mut Cancelled, work);
    }
}
