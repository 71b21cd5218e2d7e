//! `treedb check`.

use std::fmt::Display;
use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use treedb_collections::{Database, Recall};

use super::dump::{Place, PlaceArgs};
use super::progress::Progress;
use super::{Failure, check_server};

/// Read everything in a directory, or the collections of a server, and compare it with everything else
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

With --uri a running server checks its collections, one after another, as the command validate does: documents and index entries, and with --recall the vector
indexes, with fewer searches where they would take more than some seconds. Pages and the change log are checked in a directory only. The
user needs the right to list and to validate the collections (the role dbAdminAnyDatabase has it).

Prints what was checked. The exit status is 1 if anything is wrong, and the message says what and where.")]
pub(super) struct Check {
    #[command(flatten)]
    place: PlaceArgs,
    /// Measure the recall of vector indexes too, with so many searches in each
    #[arg(long, value_name = "SEARCHES", num_args = 0..=1, require_equals = true, default_missing_value = "100")]
    recall: Option<NonZeroU32>,
    /// Threads [default: as many as there are cores]
    #[arg(long, value_name = "N", conflicts_with = "uri")]
    threads: Option<NonZeroU32>,
}

/// The cores of this machine.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What was measured of a field of an index.
pub(super) fn write_recall(
    out: &mut impl Write,
    (index, path): (&str, &str),
    recall: f64,
    candidates: impl Display,
    searches: impl Display,
) -> std::io::Result<()> {
    writeln!(
        out,
        "  index {index} of {path}: recall@10 {recall:.4} with ef {candidates}, {searches} searches"
    )
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let started = Instant::now();
        let database = match self.place.open(false)? {
            Place::Directory(database) => database,
            server @ Place::Server(_) => return check_server::check(server, self.recall),
        };
        let dir = self.place.dir().map(|dir| dir.display().to_string()).unwrap_or_default();
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
                write_recall(&mut out, (&index, &path), recall, candidates, searches)?;
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
