//! What some clients of a server have done, and how long it took them.

use std::time::{Duration, Instant};

use super::process::Process;
use crate::Result;

/// What some clients have done at the same time.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    /// Operations: as many as requests, unless a request stands for several.
    pub(crate) ops: u64,
    /// How long it took.
    pub(crate) time: Duration,
    /// The processor time of the server meanwhile, in nanoseconds, if there was one.
    pub(crate) server_cpu: Option<u64>,
    /// How long each request took, in nanoseconds, in ascending order.
    latencies: Vec<u64>,
}

impl Done {
    /// So many percent of the requests took at most that.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let nanos = self.latencies.get(self.latencies.len() * percent / 100).copied().unwrap_or(0);
        Duration::from_nanos(nanos)
    }
}

/// The moment when clients begin.
pub(crate) struct Beginning<'a> {
    /// When.
    pub(crate) at: Instant,
    /// The server, and the processor time that it had used by then.
    server: Option<(&'a Process, u64)>,
}

impl<'a> Beginning<'a> {
    /// Now. The processor time of `server` will be counted.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn now(server: Option<&'a Process>) -> Result<Beginning<'a>> {
        let server = server.map(|server| server.cpu_nanos().map(|used| (server, used))).transpose()?;
        Ok(Beginning { at: Instant::now(), server })
    }

    /// What has been done since, with the nanoseconds that each request of each client took.
    ///
    /// # Errors
    /// The server has ended.
    pub(crate) fn done(self, latencies: Vec<Vec<u64>>) -> Result<Done> {
        let time = self.at.elapsed();
        self.done_in(time, latencies)
    }

    /// The same, if it is known how long it took.
    ///
    /// # Errors
    /// As [`Beginning::done`].
    pub(crate) fn done_in(self, time: Duration, latencies: Vec<Vec<u64>>) -> Result<Done> {
        let used = |(server, before): (&Process, u64)| server.cpu_nanos().map(|now| now - before);
        let server_cpu = self.server.map(used).transpose()?;
        let mut latencies: Vec<u64> = latencies.into_iter().flatten().collect();
        latencies.sort_unstable();
        Ok(Done { ops: latencies.len() as u64, time, server_cpu, latencies })
    }
}

/// The nanoseconds since a request began.
pub(crate) fn nanos(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_that_of_the_requests_of_all_clients() {
        let latencies = vec![(1..=60).rev().collect(), (61..=100).collect(), Vec::new()];
        let done = Beginning::now(None).unwrap().done(latencies).unwrap();
        assert_eq!((done.ops, done.server_cpu), (100, None));
        assert_eq!(done.percentile(95), Duration::from_nanos(96));
        assert_eq!(done.percentile(50), Duration::from_nanos(51));
        let nothing = Beginning::now(None).unwrap().done(Vec::new()).unwrap();
        assert_eq!(nothing.percentile(95), Duration::ZERO);
    }
}
