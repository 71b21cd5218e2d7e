//! The locks and atomics of code whose thread schedules are tested: those of the standard library.
//!
//! With the feature `shuttle` they come from the crate of that name, which decides at each of them which thread runs:
//! then the tests called `schedules` explore thousands of schedules (`make schedules`), and nothing else works. A thread
//! must not use one of these while it holds a plain standard lock: the thread waiting for that lock would block the only
//! OS thread there is. A `static` must not be one of these: tests that run in parallel would share it, and shuttle's
//! types are for one test's OS thread only.
//!
//! They are the standard library's types rather than `parking_lot`'s because shuttle implements the standard API,
//! poisoning included. So both builds compile the same code.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

/// A point at which a schedule may switch threads: next to an atomic that must be the standard library's because it is
/// embedded in other memory.
#[inline]
pub(crate) fn point() {
    #[cfg(feature = "shuttle")]
    thread::yield_now();
}

/// Runs `test` under `count` random schedules and as many that delay threads for long.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) fn schedules(name: &str, count: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    shuttle::Runner::new(RandomScheduler::new(count), config.clone()).run(test.clone());
    shuttle::Runner::new(PctScheduler::new(3, count), config).run(test);
    println!("\nsummary: schedules: {name}: {} orders tried, 0 violations", 2 * count);
}
