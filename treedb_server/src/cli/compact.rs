//! `treedb compact`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use treedb_collections::{QueryError, Store};

use super::key::KeyArgs;
use super::{Failure, error_hints, target};

/// Make the files of a database as small as their content allows
#[derive(Debug, Args)]
#[command(after_help = "\
Moves pages to the front of the page file and large values out of files that are half dead, cuts the command log, and
gives the room back to the file system. The database's directory must not be open in a server. Programs that have it open
in their own process compact it while they read and write, with `Store::compact`.

Example:
  treedb compact --dir ./data")]
pub(super) struct Compact {
    /// The database's directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
}

impl Compact {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        target::must_exist(&self.dir)?;
        let started = Instant::now();
        let failed = |error| error_hints::directory(&self.dir, &QueryError::from(error));
        let store = Store::open_with(&self.dir, self.key.options()?).map_err(failed)?;
        let done = store.compact(|_| {}).map_err(failed)?;
        store.close().map_err(failed)?;
        println!(
            "compacted {}: {} before, {} now, {} pages moved ({:.2} s)",
            self.dir.display(),
            HumanBytes(done.before),
            HumanBytes(done.after),
            HumanCount(done.moved),
            started.elapsed().as_secs_f64()
        );
        Ok(ExitCode::SUCCESS)
    }
}
