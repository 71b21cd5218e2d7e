//! PoloDB, in a process of its own: see `bench/polodb`. Its documents are structs with `serde`, through its typed
//! collections, and its commits are always flushed: it has no option for that.
//!
//! The numbers of the users that an operation works on are sent through a pipe inside the timer, 8 bytes each. That is
//! well below 1 % of what the operation takes.

use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use bench_common::IdPattern;
use bench_common::remote::{Operation, Request, read_response};

use super::{DataDir, DocumentStore, Order};
use crate::Result;

/// PoloDB as a document store. Its commits are always flushed.
pub struct PoloDbDocuments {
    // Dropped first: the process ends at the end of its input, and has closed its files before the directory is removed.
    process: Mutex<Process>,
    data_dir: DataDir,
}

struct Process {
    /// `None` only while it is dropped.
    requests: Option<BufWriter<ChildStdin>>,
    responses: BufReader<ChildStdout>,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// The program, which `scripts/bench.sh` builds: `BENCH_POLODB`, or where it is built by default.
pub(crate) fn program() -> PathBuf {
    match std::env::var_os("BENCH_POLODB") {
        Some(path) => path.into(),
        None => concat!(env!("CARGO_MANIFEST_DIR"), "/../target/polodb/release/polodb_peer").into(),
    }
}

impl PoloDbDocuments {
    /// Opens an empty one.
    ///
    /// # Errors
    /// If the program has not been built, or from the file system.
    pub fn new(ids: IdPattern) -> Result<PoloDbDocuments> {
        let data_dir = DataDir::new("polodb-documents")?;
        let pattern = match ids {
            IdPattern::Sequential => "sequential",
            IdPattern::Random => "random",
        };
        let program = program();
        let mut child = Command::new(&program)
            .arg(data_dir.path().join("db"))
            .arg(pattern)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("starting {}, which scripts/bench.sh builds: {e}", program.display()))?;
        let (Some(requests), Some(responses)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process of PoloDB has no pipes".into());
        };
        let requests = Some(BufWriter::new(requests));
        let process = Mutex::new(Process { requests, responses: BufReader::new(responses), child });
        Ok(PoloDbDocuments { process, data_dir })
    }

    fn request(&self, operation: Operation, argument: u64, users: Vec<u64>) -> Result<(u64, u64)> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = process.requests.as_mut().ok_or("the process of PoloDB has ended")?;
        Request { operation, argument, users }.write(requests)?;
        Ok(read_response(&mut process.responses)?)
    }

    fn request_for(&self, operation: Operation, order: &mut Order<'_>, count: u64) -> Result<u64> {
        Ok(self.request(operation, 0, order.take(count as usize).collect())?.0)
    }
}

impl DocumentStore for PoloDbDocuments {
    fn name(&self) -> &'static str {
        "PoloDB"
    }

    fn insert(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<()> {
        self.request(Operation::Insert, batch, order.take(count as usize).collect()).map(|_| ())
    }

    fn find_by_id(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.request_for(Operation::FindById, order, count)
    }

    fn find_by_email(&self, order: &mut Order<'_>, count: u64) -> Result<u64> {
        self.request_for(Operation::FindByEmail, order, count)
    }

    fn find_by_city(&self, city: u64) -> Result<u64> {
        Ok(self.request(Operation::FindByCity, city, Vec::new())?.0)
    }

    fn update(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        self.request_for(Operation::Update, order, count).map(|_| ())
    }

    fn delete(&self, order: &mut Order<'_>, count: u64) -> Result<()> {
        self.request_for(Operation::Delete, order, count).map(|_| ())
    }

    fn counts(&self) -> Result<(u64, u64)> {
        self.request(Operation::Count, 0, Vec::new())
    }

    fn checkpoint(&self) -> Result<()> {
        // PoloDB has no such call; it flushes and compacts when it is closed.
        Ok(())
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.data_dir.bytes()
    }
}
