//! The locks and atomics of code whose schedules are tested: the standard library's.
//!
//! With the feature `shuttle` they are those of the crate of that name, which chooses who runs at each of them: then
//! the tests called `schedules` try thousands of orders in which threads may take their steps
//! (`make schedules`), and nothing else works. No thread that holds a lock of the standard library may use one of
//! these: whoever waits for that lock would stop the only thread there really is.

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

/// A point at which a schedule may let others go on: beside an atomic that is the standard library's because it lies in
/// the middle of other memory.
#[inline]
pub(crate) fn point() {
    #[cfg(feature = "shuttle")]
    thread::yield_now();
}

/// Runs `test` under `count` schedules chosen by dice and as many that put threads aside for long.
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
