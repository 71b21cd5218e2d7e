//! [`Deadline`]: the time limit of an operation (`maxTimeMS`).

use std::time::Instant;

use super::interrupt;
use crate::error::{ErrorCode, QueryError, Result};

/// Calls of [`Deadline::tick`] for each reading of the clock.
const TICKS_PER_CHECK: u32 = 64;

/// The time at which an operation gives up, if there is one.
pub struct Deadline {
    at: Option<Instant>,
    ticks: u32,
}

impl Deadline {
    /// A deadline at `at`; `None` for no limit.
    pub fn new(at: Option<Instant>) -> Self {
        Deadline { at, ticks: 0 }
    }

    /// A deadline that is looked at on the first [`Self::tick`] already: of loops that may have few rounds, and long ones.
    pub(crate) fn eager(at: Option<Instant>) -> Self {
        Deadline { at, ticks: TICKS_PER_CHECK - 1 }
    }

    /// For loops: reads the clock on every 64th call.
    ///
    /// # Errors
    /// `MaxTimeMSExpired`.
    #[inline]
    pub fn tick(&mut self) -> Result<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS_PER_CHECK) { self.check() } else { Ok(()) }
    }

    /// Reads the clock, and asks whether the operation may go on ([`interrupt::check`]).
    ///
    /// # Errors
    /// `MaxTimeMSExpired`, `Interrupted`.
    pub fn check(&self) -> Result<()> {
        interrupt::check()?;
        match self.at {
            Some(at) if Instant::now() >= at => {
                Err(QueryError::new(ErrorCode::MaxTimeMSExpired, "operation exceeded time limit"))
            }
            _ => Ok(()),
        }
    }
}
