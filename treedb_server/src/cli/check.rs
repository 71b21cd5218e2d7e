//! `treedb check`.

use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use treedb_collections::{Database, Recall};

use super::key::KeyArgs;
use super::progress::Progress;
use super::{Failure, error_hints, target};

/// Read everything in a directory and compare it with everything else
#[derive(Debug, Args)]
#[command(after_help = "\
Each page must be reachable from exactly one place and have its checksum; keys must be in order; every document must be
valid; every index entry is compared with its document, and every document with its index entries. A directory whose
server was killed is recovered first, as by the next start of the server.

Progress goes to standard error: a bar on a terminal, otherwise a line every five seconds and one at the end. An entry of a table counts
once when its page is checked, and again when it is compared.

With --recall, the vectors of some documents, evenly spread over each vector index, are searched for in it, and the answers are
compared with exact ones: recall@10 is the part of the ten nearest other documents that the index finds, with as many
candidates (ef) as a search for them has by default. It is a measurement, not a fault, however low it is.

Prints what was checked. The exit status is 1 if anything is wrong, and the message says what and where.")]
pub(super) struct Check {
    /// The directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Measure the recall of vector indexes too, with so many searches in each
    #[arg(long, value_name = "SEARCHES", num_args = 0..=1, require_equals = true, default_missing_value = "100")]
    recall: Option<NonZeroU32>,
    /// Threads [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroU32>,
    #[command(flatten)]
    key: KeyArgs,
}

/// The cores of this machine.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let dir = self.dir.display();
        target::must_exist(&self.dir)?;
        let started = Instant::now();
        let database = Database::open_with(&self.dir, self.key.options()?);
        let database = database.map_err(|error| error_hints::directory(&self.dir, &error))?;
        let mut progress = Progress::of_entries("checked", 0);
        let mut checked = 0;
        let threads = self.threads.map_or_else(cores, |threads| threads.get() as usize);
        let report = database.check_with(threads, |now| {
            checked = now.done;
            progress.of(now.total);
            progress.at(now.done, now.done);
        });
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                // No half of a bar before the message.
                drop(progress);
                return Err(error.into());
            }
        };
        progress.finish(checked, &format!("in {dir}"));
        let mut out = std::io::stdout().lock();
        for collection in &report.collections {
            writeln!(out, "collection {}: {} documents", collection.namespace, HumanCount(collection.rows))?;
            for (index, entries) in &collection.indexes {
                writeln!(
                    out,
                    "  index {index}: {} entries, each agrees with its document",
                    HumanCount(*entries)
                )?;
            }
            for measured in self.measure(&database, &collection.namespace)? {
                let Recall { index, path, searches, candidates, recall } = measured;
                writeln!(
                    out,
                    "  index {index} of {path}: recall@10 {recall:.4} with ef {candidates}, {searches} searches"
                )?;
            }
        }
        let store = &report.store;
        writeln!(out, "tables: {} with {} entries", HumanCount(store.tables), HumanCount(store.entries))?;
        writeln!(out, "pages: {}, each reachable from one place", HumanCount(store.pages))?;
        writeln!(out, "large values: {}, {}", HumanCount(store.large_values), HumanBytes(store.large_bytes))?;
        writeln!(out, "change log: {} changes, each in its place", HumanCount(report.changes))?;
        database.close()?;
        writeln!(out, "no damage in {dir} ({:.2} s)", started.elapsed().as_secs_f64())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The recall of the vector indexes of a collection, if it was asked for.
    fn measure(&self, database: &Database, namespace: &str) -> Result<Vec<Recall>, Failure> {
        match self.recall {
            Some(searches) => Ok(database.collection(namespace)?.recall(searches.get() as usize)?),
            None => Ok(Vec::new()),
        }
    }
}
