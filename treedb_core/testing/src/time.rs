//! Limits of time and of repetitions.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// So many rounds of something random; under Miri, which is hundreds of times slower, a few.
pub const fn rounds(count: usize) -> usize {
    if cfg!(miri) { count.div_ceil(100) } else { count }
}

/// Runs `body` and fails if it is not done in two minutes: a test that fails is better than one that never ends.
pub fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    const LIMIT: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        let result = body();
        // Nobody listens any more if this took too long.
        let _ = done.send(());
        result
    });
    // A body that panicked has hung up.
    assert_ne!(ended.recv_timeout(LIMIT), Err(RecvTimeoutError::Timeout), "not done after {LIMIT:?}");
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
