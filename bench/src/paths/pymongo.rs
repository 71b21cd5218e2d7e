//! MongoDB's protocol by PyMongo, in a process of its own that runs `bench/pymongo_finds.py`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::stores::DATABASE;
use crate::Result;
use crate::server::{Beginning, Done, Process};

/// The process, killed on drop.
pub(crate) struct PyMongo {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl PyMongo {
    /// Starts it for the first `count` documents of a collection; `None` unless `BENCH_PYTHON` names a Python that has PyMongo.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(server: &Process, collection: &str, count: usize) -> Result<Option<PyMongo>> {
        let Some(python) = std::env::var_os("BENCH_PYTHON") else { return Ok(None) };
        let mut child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/pymongo_finds.py"))
            .args([server.mongo.as_str(), DATABASE, collection, &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = child.stdin.take().ok_or("no input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Some(PyMongo { child, requests, answers }))
    }

    /// Finds documents by `_id`, one after another, for some time on one connection.
    ///
    /// # Errors
    /// The process has ended, because a document was not there or was another one; it has said why.
    pub(crate) fn finds(&mut self, server: &Process, time: Duration, seed: u64) -> Result<Done> {
        let begun = Beginning::now(Some(server))?;
        writeln!(self.requests, "{seed} {}", time.as_secs_f64())?;
        self.requests.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let took = numbers.next().ok_or("PyMongo's process has ended")??;
        let latencies = numbers.collect::<Result<Vec<u64>, _>>()?;
        begun.done_in(Duration::from_nanos(took), vec![latencies])
    }
}

impl Drop for PyMongo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
