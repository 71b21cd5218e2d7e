//! A recorded run that can be stopped at every boundary: crash tests run a workload once and then cut the power at each
//! point of it.

use super::crash::Crash;
use super::medium::{Change, Medium};
use super::sim::SimDisk;

/// One boundary: the stores through maps seen just before it, and the call itself.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) stores: Vec<Change>,
    /// `None` only at the end of the record.
    pub(super) call: Option<Change>,
}

/// The record of [`SimDisk::record`], positioned at a point between two calls.
#[derive(Debug)]
pub struct Replay {
    medium: Medium,
    steps: Vec<Step>,
    /// Calls done at the current point; `None` before the first point.
    done: Option<usize>,
    /// Boundaries the disk had passed when the record began.
    before: u64,
}

impl Replay {
    pub(super) fn new(medium: Medium, steps: Vec<Step>, before: u64) -> Replay {
        Replay { medium, steps, done: None, before }
    }

    /// Moves to the next point and returns how many calls have been done there, as
    /// [`SimDisk::boundaries`] counted them; `None` when the record is at its end. The first point is before the
    /// first recorded call. At each point the stores made through maps up to the next call may be on the medium.
    pub fn next_point(&mut self) -> Option<u64> {
        let next = match self.done {
            None => 0,
            Some(done) => {
                if let Some(call) = self.steps.get(done).and_then(|step| step.call.as_ref()) {
                    self.medium.apply(call);
                }
                done + 1
            }
        };
        let step = self.steps.get(next)?;
        for store in &step.stores {
            self.medium.apply(store);
        }
        self.done = Some(next);
        Some(self.before + next as u64)
    }

    /// The disk found when power comes back after a cut at this point.
    pub fn crash(&self, crash: Crash) -> SimDisk {
        SimDisk::with_image(self.medium.after(crash))
    }
}
