//! `treedb check`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use treedb_collections::Database;

use super::key::KeyArgs;
use super::{Failure, error_hints, target};

/// Read everything in a directory and compare it with everything else
#[derive(Debug, Args)]
#[command(after_help = "\
Each page must be reachable from exactly one place and have its checksum; keys must be in order; every document must be
valid; every index entry is compared with its document, and every document with its index entries. A directory whose
server was killed is recovered first, as by the next start of the server.

Prints what was checked. The exit status is 1 if anything is wrong, and the message says what and where.")]
pub(super) struct Check {
    /// The directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let dir = self.dir.display();
        target::must_exist(&self.dir)?;
        let started = Instant::now();
        let database = Database::open_with(&self.dir, self.key.options()?);
        let database = database.map_err(|error| error_hints::directory(&self.dir, &error))?;
        let report = database.check()?;
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
}
