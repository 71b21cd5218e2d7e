//! [`Interrupt`]: telling an operation to stop, and being told by which plan it finds its rows.
//!
//! The caller of an operation makes an [`Interrupt`] and enters it on the thread that runs the operation; loops over rows, keys and
//! documents ask [`check`] now and then, through an [`InterruptTick`]. Threads that work for the operation enter it too
//! (`run_in_parallel` does that). Without an entered one, a check reads a thread-local variable.
//!
//! Code that begins to execute a plan calls [`note_plan`]. The first plan is that of the operation; later ones are those of its further
//! statements, of its stages, and of what they look up.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::plan::PlanSummary;
use crate::error::{ErrorCode, QueryError, Result};

/// Calls of [`InterruptTick::tick`] for each [`check`].
const TICKS_PER_CHECK: u32 = 128;

/// What an operation is stopped by: somebody's order, or its time limit.
#[derive(Debug, Default)]
pub struct Interrupt {
    killed: AtomicBool,
    until: Option<Instant>,
    held: usize,
    plan: OnceLock<PlanSummary>,
}

impl Interrupt {
    /// An operation that may be stopped, and has to end by `until`.
    pub fn new(until: Option<Instant>) -> Self {
        Interrupt { killed: AtomicBool::new(false), until, held: 0, plan: OnceLock::new() }
    }

    /// The same of an operation that holds so many bytes of a budget until it ends, for those who decide whether it may wait.
    pub fn holding(self, held: usize) -> Self {
        Interrupt { held, ..self }
    }

    /// Tells the operation to stop. It does so with `Interrupted` where it next asks.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// Whether it was told to stop.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// The plan by which it finds its rows, once it has begun to.
    pub fn plan(&self) -> Option<&PlanSummary> {
        self.plan.get()
    }

    /// Whether the operation may go on.
    ///
    /// # Errors
    /// `Interrupted`, `MaxTimeMSExpired`.
    pub fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(QueryError::new(ErrorCode::Interrupted, "operation was interrupted"));
        }
        match self.until {
            Some(until) if Instant::now() >= until => {
                Err(QueryError::new(ErrorCode::MaxTimeMSExpired, "operation exceeded time limit"))
            }
            _ => Ok(()),
        }
    }

    /// Makes this the operation of the calling thread, until the result is dropped.
    pub fn enter(self: Arc<Self>) -> Entered {
        Entered { before: CURRENT.with(|current| current.replace(Some(self))) }
    }
}

thread_local! {
    /// That of the operation that the thread runs.
    static CURRENT: RefCell<Option<Arc<Interrupt>>> = const { RefCell::new(None) };
    /// Whether what it does now is its own work, see [`aside`].
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// The time in which a thread runs an operation.
#[derive(Debug)]
pub struct Entered {
    before: Option<Arc<Interrupt>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        // The variable is gone while the thread ends.
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}

/// That of the operation that the calling thread runs, for other threads that work for it.
pub fn current() -> Option<Arc<Interrupt>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Says by which plan the operation of the calling thread finds its rows, unless that has been said.
#[inline]
pub fn note_plan(plan: impl FnOnce() -> PlanSummary) {
    let _ = CURRENT.try_with(|current| {
        if let Some(operation) = &*current.borrow()
            && operation.plan.get().is_none()
            && !ASIDE.get()
        {
            let _ = operation.plan.set(plan());
        }
    });
}

/// Does `work`, whose plans are not those of the operation: it keeps the operation's records, for example.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ASIDE.set(self.0);
        }
    }
    let _before = Before(ASIDE.replace(true));
    work()
}

/// How many bytes of a budget the operation of the calling thread holds.
pub fn held() -> usize {
    CURRENT.try_with(|current| current.borrow().as_ref().map_or(0, |interrupt| interrupt.held)).unwrap_or(0)
}

/// Whether the operation of the calling thread may go on; always, if it runs none.
///
/// # Errors
/// Those of [`Interrupt::check`].
pub fn check() -> Result<()> {
    CURRENT
        .try_with(|current| current.borrow().as_ref().map_or(Ok(()), |interrupt| interrupt.check()))
        .unwrap_or(Ok(()))
}

/// Asks [`check`] on some of the rounds of a loop.
#[derive(Debug, Default)]
pub struct InterruptTick(u32);

impl InterruptTick {
    /// One round.
    ///
    /// # Errors
    /// Those of [`check`].
    #[inline]
    pub fn tick(&mut self) -> Result<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(TICKS_PER_CHECK) { check() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_runs_an_operation_is_stopped_and_only_as_long_as_it_does() {
        let interrupt = Arc::new(Interrupt::new(None));
        let entered = Arc::clone(&interrupt).enter();
        check().unwrap();
        interrupt.kill();
        assert_eq!(check().unwrap_err().code, ErrorCode::Interrupted);
        std::thread::spawn(|| check().unwrap()).join().unwrap();
        let mut tick = InterruptTick::default();
        assert!((0..TICKS_PER_CHECK).any(|_| tick.tick().is_err()));
        {
            let _inner = Arc::new(Interrupt::new(Some(Instant::now()))).enter();
            assert_eq!(check().unwrap_err().code, ErrorCode::MaxTimeMSExpired);
        }
        assert_eq!(check().unwrap_err().code, ErrorCode::Interrupted);
        drop(entered);
        check().unwrap();
    }

    #[test]
    fn the_first_plan_that_is_the_operations_own_work_is_its_plan() {
        let operation = Arc::new(Interrupt::new(None));
        note_plan(|| panic!("no operation"));
        {
            let _entered = Arc::clone(&operation).enter();
            aside(|| note_plan(|| panic!("not its own")));
            assert!(operation.plan().is_none());
            note_plan(|| PlanSummary::COLLECTION_SCAN);
            note_plan(|| panic!("it has one"));
        }
        assert_eq!(operation.plan().unwrap().to_string(), "COLLSCAN");
    }
}
