//! A client's session with a Postgres server, of one statement that is executed again and again.

use std::ffi::CStr;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use super::libpq::Connection;
use crate::Result;

/// The name under which statements are prepared.
pub(super) const STATEMENT: &CStr = c"measured";

/// A connection with one prepared statement. Parameters and results are in the binary forms of their types.
pub struct Session(Connection);

impl Session {
    pub(super) fn open(connection: Connection, processor: &OneProcessor, statement: &str) -> Result<Session> {
        processor.share(connection.backend())?;
        connection.prepare(STATEMENT, statement)?;
        Ok(Session(connection))
    }

    /// Runs another statement, such as one that changes a setting, and returns the first column of its rows as text.
    ///
    /// # Errors
    /// An SQL error.
    pub fn run(&self, statement: &str) -> Result<Vec<String>> {
        let answer = self.0.run(statement)?;
        Ok(answer.first_column().map(|value| String::from_utf8_lossy(value).into_owned()).collect())
    }

    /// Executes the prepared statement, and shows the first value of each of its rows to `each`.
    ///
    /// # Errors
    /// An SQL error.
    pub fn execute(&self, parameters: &[&[u8]], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.0.execute_binary(STATEMENT, parameters)?.first_column().for_each(each);
        Ok(())
    }
}

/// Keeps this thread on one processor; on drop, it may run on all it could before.
///
/// A client and its server process take turns, and to wake another processor up takes longer than a short statement where
/// processors are virtual, and not always as long.
pub struct OneProcessor {
    one: CpuSet,
    before: CpuSet,
}

impl OneProcessor {
    /// The first of this thread's processors.
    ///
    /// # Errors
    /// From the system.
    pub fn take() -> Result<OneProcessor> {
        let before = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).ok_or("no processor")?;
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one)?;
        Ok(OneProcessor { one, before })
    }

    /// Keeps another process on it too, for good.
    pub(super) fn share(&self, process: Option<Pid>) -> Result<()> {
        Ok(sched_setaffinity(Some(process.ok_or("a connection without a server process")?), &self.one)?)
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // It was so before.
        let _ = sched_setaffinity(None, &self.before);
    }
}
