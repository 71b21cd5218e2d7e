//! `treedb backup` and `treedb restore`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use treedb_core::kv::Copied;
use treedb_core::{Error, QueryError, Store};

use super::key::KeyArgs;
use super::progress::Progress;
use super::{Failure, advice, place};

/// Bytes handed to or taken from a stream at a time.
const BUFFER: usize = 1 << 20;

/// Copy a database into a directory, or write it as one stream
#[derive(Debug, Args)]
#[command(after_help = "\
A directory is a database like any other: compact, with nothing to recover. It appears under its name when everything in
it is on the disk; until then it is called DIR.partial. A stream has checksums of its own and is read by `treedb restore`.

The database's directory must not be open in a server. Programs that have it open in their own process make copies of it
while they write, with `Store::backup_to` and `Store::backup`.

Examples:
  treedb backup --dir ./data /mnt/backups/monday
  treedb backup --dir ./data - | zstd > monday.treedb.zst")]
pub(super) struct Backup {
    /// The database's directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A directory that is empty or does not exist; `-` writes a stream to standard output
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
}

/// Make a database of what `treedb backup` wrote
#[derive(Debug, Args)]
#[command(after_help = "\
With a key file the new database is encrypted with that key; a directory it is made from has the same key. Streams are
not encrypted.

Nothing is in DIR before everything is on the disk, and a damaged or cut stream restores nothing.

Examples:
  treedb restore /mnt/backups/monday --dir ./data
  zstd -dc monday.treedb.zst | treedb restore - --dir ./data")]
pub(super) struct Restore {
    /// A directory, or a file with a stream; `-` reads a stream from standard input
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The new database's directory, which is empty or does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
}

fn open(dir: &Path, key: &KeyArgs) -> Result<Store, Failure> {
    place::must_exist(dir)?;
    Store::open_with(dir, key.options()?).map_err(|error| failed(dir, error))
}

fn failed(dir: &Path, error: Error) -> Failure {
    advice::directory(dir, &QueryError::from(error))
}

/// Copies a directory into another.
fn copy(from: &Path, to: &Path, key: &KeyArgs, done: &'static str) -> Result<(), Failure> {
    let store = open(from, key)?;
    let mut meter = Meter::new(done);
    let copied = store.backup_to(to, |copied| meter.at(copied)).map_err(|error| failed(to, error))?;
    meter.finish(copied, &format!("to {}", to.display()));
    Ok(store.close()?)
}

/// The progress of a copy, which says itself how much there is.
struct Meter {
    done: &'static str,
    progress: Option<Progress>,
}

impl Meter {
    fn new(done: &'static str) -> Meter {
        Meter { done, progress: None }
    }

    fn of(&mut self, copied: Copied) -> &mut Progress {
        self.progress.get_or_insert_with(|| Progress::of_entries(self.done, copied.of))
    }

    fn at(&mut self, copied: Copied) {
        self.of(copied).at(copied.entries, copied.entries);
    }

    fn finish(mut self, copied: Copied, whither: &str) {
        self.of(copied);
        if let Some(progress) = self.progress {
            progress.finish(copied.entries, whither);
        }
    }
}

impl Backup {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.to.as_os_str() != "-" {
            copy(&self.dir, &self.to, &self.key, "copied")?;
            return Ok(ExitCode::SUCCESS);
        }
        if io::stdout().is_terminal() {
            return Err(Failure("a backup is not for a terminal: send it to a file or a program".into()));
        }
        let store = open(&self.dir, &self.key)?;
        let mut meter = Meter::new("copied");
        let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
        let copied = store.backup(&mut out, |copied| meter.at(copied))?;
        meter.finish(copied, "to standard output");
        store.close()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Restore {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.from.is_dir() {
            copy(&self.from, &self.dir, &self.key, "restored")?;
            return Ok(ExitCode::SUCCESS);
        }
        let name = self.from.display().to_string();
        let input: Box<dyn io::Read> = if name == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.from).map_err(|error| Failure(format!("{name}: {error}")))?)
        };
        let mut input = BufReader::with_capacity(BUFFER, input);
        let mut meter = Meter::new("restored");
        let options = self.key.options()?;
        let restored = Store::restore(&mut input, &self.dir, &options, |copied| meter.at(copied));
        let restored = restored.map_err(|error| failed(&self.dir, error))?;
        meter.finish(restored, &format!("to {}", self.dir.display()));
        Ok(ExitCode::SUCCESS)
    }
}
