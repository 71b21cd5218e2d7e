//! Running work on several threads.

use std::thread::ScopedJoinHandle;

use crate::error::{ErrorCode, QueryError, Result};
use crate::query::interrupt;

/// Calls `work` with each of `inputs` on a thread of its own, the first on the calling thread. The results have the order
/// of `inputs`. An interrupt of the calling thread's operation interrupts all of them.
pub fn run_in_parallel<T: Send, R: Send>(
    inputs: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let (work, operation) = (&work, &interrupt::current());
    let within = move |input| {
        let _entered = operation.clone().map(interrupt::Interrupt::enter);
        work(input)
    };
    std::thread::scope(|scope| {
        let mut inputs = inputs.into_iter();
        let first = inputs.next();
        let others: Vec<ScopedJoinHandle<'_, _>> =
            inputs.map(|input| scope.spawn(move || within(input))).collect();
        let mut results: Vec<Result<R>> = first.map(work).into_iter().collect();
        results.extend(others.into_iter().map(|other| {
            other.join().unwrap_or_else(|_| {
                Err(QueryError::new(ErrorCode::InternalError, "a thread that read documents failed"))
            })
        }));
        results
    })
}
