//! The function that callgrind counts.

use std::hint::black_box;

use crate::Result;

/// Runs `work` and returns what it returns. `valgrind --tool=callgrind --toggle-collect='*measure::measured*'` counts
/// the instructions between the beginning and the end of this function, and no others; so it must be a function of its
/// own in the optimised program, and must not end in a jump to `work`.
#[inline(never)]
pub(crate) fn measured(work: &mut dyn FnMut() -> Result<u64>) -> Result<u64> {
    black_box(black_box(work)())
}

/// An error if a path did not do what it is there to do: a path that finds nothing is quick.
pub(crate) fn expect(what: &str, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {expected}, found {found}").into())
}
