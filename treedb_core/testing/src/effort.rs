//! How much a test does, and how long it may take.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// So many rounds of something random; under Miri, which is hundreds of times slower, a hundredth of them.
pub const fn rounds(count: usize) -> usize {
    if cfg!(miri) { count.div_ceil(100) } else { count }
}

/// How many times as much as usual the oracle tests try: with `TREEDB_ORACLE=5` it is 50,000 queries; 1 without it.
pub fn oracle_factor() -> u64 {
    std::env::var("TREEDB_ORACLE").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Runs `body` and fails if it is not done in two minutes, so that a deadlock is a test that fails and not one that
/// never ends.
pub fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    const LIMIT: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        let result = body();
        // The receiver is gone if this took too long.
        let _ = done.send(());
        result
    });
    // A body that panicked has dropped its sender.
    assert_ne!(ended.recv_timeout(LIMIT), Err(RecvTimeoutError::Timeout), "not done after {LIMIT:?}");
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
