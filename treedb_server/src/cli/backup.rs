//! `treedb backup` and `treedb restore`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use bson::{Timestamp, rawdoc};
use clap::Args;
use treedb_collections::{AsOf, Database, Error, QueryError, Store};

use super::dump::{DumpRestore, PlaceArgs, Until, forward, is_dump, parse_time};
use super::key::KeyArgs;
use super::mongo_client::{MongoClient, Uri};
use super::progress::Progress;
use super::rewind::{self, moment};
use super::user::UserArgs;
use super::{Failure, error_hints, target};

/// Buffer size of streams.
const BUFFER: usize = 1 << 20;
/// Time between two requests for the progress of a server's backup.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Copy a database into a directory, or write it as one stream
#[derive(Debug, Args)]
#[command(after_help = "\
A backup directory is an ordinary database: compact, with nothing to recover. It gets its name when everything in it is on
disk; until then it is called DIR.partial. A stream has its own checksums and is read by `treedb restore`.

A directory that a server has open is copied by that server, with --uri, while it continues to serve: the copy is the state at the
time of the request, and is on the server's machine. Programs that have a directory open in their own process make copies
of it while they write, with `Store::backup_to` and `Store::backup`.

Examples:
  treedb backup --uri mongodb://127.0.0.1:27017 --user operator --password-file operator.password /mnt/backups/monday
  treedb backup --dir ./data /mnt/backups/monday
  treedb backup --dir ./data - | zstd > monday.treedb.zst")]
pub(super) struct Backup {
    #[command(flatten)]
    source: Source,
    /// A directory that is empty or does not exist; `-` writes a stream to standard output (not with --uri)
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// What is copied.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// The database's directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The database of the server whose drivers' port this is
    #[arg(long, value_name = "mongodb://HOST:PORT", conflicts_with = "key_file")]
    uri: Option<Uri>,
}

/// Restore a database from a backup of `treedb backup`, or collections from a dump of `treedb dump` or mongodump
#[derive(Debug, Args)]
#[command(after_help = "\
A backup becomes a new database in DIR. A dump, a directory with BSON files, is loaded into DIR or a server: collections that are not
there are created with their options, then come documents, indexes and views. Documents and indexes that are refused are reported,
and the exit status is 1 then.

With a key file the new database is encrypted with that key; a directory it is made from has the same key. Streams are
not encrypted.

Nothing is in DIR before everything is on the disk, and a damaged or cut stream restores nothing.

With --at the new database is what the backup was at an earlier time, as far back as it has recorded changes (serve
--change-hours). FROM can be the directory of a server that has been stopped.

With --oplog-file the changes that `treedb archive` has saved are applied after the backup: all of them, or up to the moment of --at or
--oplog-limit. A dump that was made with --oplog needs --oplog-replay, and can go on with --oplog-file. Changes that the backup has
already are skipped; if some are missing in between, nothing is restored. What was restored records its own changes from then on: make a
new backup and a new archive of it.

Examples:
  treedb restore /mnt/backups/monday --dir ./data
  treedb restore /mnt/backups/monday --dir ./data --at 2026-11-23T14:05:00Z
  treedb restore /mnt/backups/monday --dir ./data --oplog-file /mnt/archive
  treedb restore /mnt/backups/monday --dir ./data --oplog-file /mnt/archive --at 2026-11-24T09:30:00Z
  treedb restore /mnt/dump --uri mongodb://127.0.0.1:27017 --oplog-replay
  zstd -dc monday.treedb.zst | treedb restore - --dir ./data")]
pub(super) struct Restore {
    /// A directory, or a file with a stream; `-` reads a stream from standard input
    #[arg(value_name = "FROM")]
    from: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// As it was at this time (RFC 3339), which of a dump is not before its end; of a backup alone, also after a change of the change log
    /// (`change:NUMBER`)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<AsOf>,
    /// Of a dump: apply its oplog.bson, so that the collections are of the moment when the dump ended
    #[arg(long, alias = "oplogReplay")]
    oplog_replay: bool,
    /// Apply the changes in this file, or in the files of this directory (`treedb archive`); may be repeated
    #[arg(long, value_name = "PATH", alias = "oplogFile")]
    oplog_file: Vec<PathBuf>,
    /// Apply only the changes before this one, as mongorestore does: a limit inside a transaction applies only the changes before it, and of a
    /// dump one before its end leaves its collections of several moments
    #[arg(long, value_name = "SECONDS[:ORDINAL]", alias = "oplogLimit", value_parser = parse_time, conflicts_with = "at")]
    oplog_limit: Option<Timestamp>,
    /// Of a dump: only this database, or this collection of it
    #[arg(long, value_name = "DB[.COLL]")]
    only: Option<String>,
    /// Of a dump: drop collections that are there already
    #[arg(long)]
    drop: bool,
}

fn open(dir: &Path, key: &KeyArgs) -> Result<Store, Failure> {
    target::must_exist(dir)?;
    Store::open_with(dir, key.options()?).map_err(|error| match error {
        Error::InUse { .. } => Failure(format!("{error}; if that is a server, --uri has it make the copy")),
        error => failed(dir, error),
    })
}

fn failed(dir: &Path, error: Error) -> Failure {
    error_hints::directory(dir, &QueryError::from(error))
}

/// Copies a directory into another.
fn copy(from: &Path, to: &Path, key: &KeyArgs, done: &'static str) -> Result<(), Failure> {
    let store = open(from, key)?;
    let mut meter = Meter::new(done);
    let copied = store.backup_to(to, |copied| meter.at(copied.entries, copied.of));
    let copied = copied.map_err(|error| failed(to, error))?;
    meter.finish(copied.entries, &format!("to {}", to.display()));
    Ok(store.close()?)
}

/// Lets a server copy its database, and shows the progress.
fn copy_there(uri: &Uri, to: &Path) -> Result<(), Failure> {
    if to.as_os_str() == "-" {
        let message = "a server copies into a directory, not into a stream: name a directory, and make a stream of that \
                    with treedb backup --dir";
        return Err(Failure(message.to_owned()));
    }
    let to = std::path::absolute(to)?;
    let Some(name) = to.to_str() else {
        return Err(Failure(format!("{}: a name that goes over the wire has to be UTF-8", to.display())));
    };
    let (mut worker, mut watcher) = (MongoClient::connect(uri)?, MongoClient::connect(uri)?);
    let command = rawdoc! { "backupTo": name, "$db": "admin" };
    let (sender, done) = mpsc::channel();
    // The thread ends with the server's answer, or with the process.
    std::thread::spawn(move || sender.send(worker.run(&command)));
    let mut meter = Meter::new("copied");
    let reply = loop {
        match done.recv_timeout(POLL_INTERVAL) {
            Ok(reply) => break reply?,
            Err(RecvTimeoutError::Timeout) => {
                if let Some((entries, of)) = progress(&mut watcher, name) {
                    meter.at(entries, of);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure(format!("{uri}: the wait for the server's answer was broken off")));
            }
        }
    };
    let entries = reply.get_i64("entries").ok().and_then(|entries| entries.try_into().ok());
    meter.finish(entries.unwrap_or_default(), &format!("to {name}"));
    Ok(())
}

/// How far the server is with the copy to `to`. What cannot be read is not worth an error: the copy has its own.
fn progress(watcher: &mut MongoClient, to: &str) -> Option<(u64, u64)> {
    let reply = watcher.run(&rawdoc! { "backupStatus": 1, "$db": "admin" }).ok()?;
    reply.get_array("backups").ok()?.into_iter().find_map(|job| {
        let job = job.ok()?.as_document().filter(|job| job.get_str("to").is_ok_and(|of| of == to))?;
        let figure = |name| u64::try_from(job.get_i64(name).ok()?).ok();
        // Before it has counted them, it knows of none.
        figure("entries").zip(figure("of")).filter(|(_, of)| *of > 0)
    })
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

    fn at(&mut self, entries: u64, of: u64) {
        self.progress.get_or_insert_with(|| Progress::of_entries(self.done, of)).at(entries, entries);
    }

    fn finish(self, entries: u64, whither: &str) {
        let progress = self.progress.unwrap_or_else(|| Progress::of_entries(self.done, entries));
        progress.finish(entries, whither);
    }
}

impl Backup {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let dir = match (self.source.dir, self.source.uri) {
            (_, Some(uri)) => {
                return copy_there(&self.user.of(&uri)?, &self.to).map(|()| ExitCode::SUCCESS);
            }
            (Some(dir), None) => dir,
            // clap requires one of the two.
            (None, None) => {
                return Err(Failure("say what to copy: --dir DIR or --uri mongodb://HOST:PORT".to_owned()));
            }
        };
        if self.to.as_os_str() != "-" {
            copy(&dir, &self.to, &self.key, "copied")?;
            return Ok(ExitCode::SUCCESS);
        }
        if io::stdout().is_terminal() {
            return Err(Failure("a backup is not for a terminal: send it to a file or a program".into()));
        }
        let store = open(&dir, &self.key)?;
        let mut meter = Meter::new("copied");
        let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
        let copied = store.backup(&mut out, |copied| meter.at(copied.entries, copied.of))?;
        meter.finish(copied.entries, "to standard output");
        store.close()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Restore {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let oplog = self.oplog_replay || !self.oplog_file.is_empty();
        let until = self.until(oplog)?;
        if is_dump(&self.from) {
            if self.at.is_some() && !oplog {
                return Err(Failure(
                    "--at is for backups: a dump has no recorded changes, unless --oplog-replay applies those of its oplog.bson"
                        .to_owned(),
                ));
            }
            if oplog && self.only.is_some() {
                return Err(Failure(
                    "changes are of all collections: restore without --only, or without them".to_owned(),
                ));
            }
            let dump = DumpRestore {
                from: &self.from,
                place: &self.place,
                only: self.only.as_deref(),
                drop: self.drop,
                oplog,
                oplog_files: &self.oplog_file,
                until,
            };
            return dump.run();
        }
        if self.from.is_dir() && !self.from.join("pages").is_file() {
            return Err(Failure(format!(
                "{}: neither a dump, which has files DATABASE/COLLECTION.bson, nor a database that treedb backup has copied",
                self.from.display()
            )));
        }
        if self.oplog_replay && self.oplog_file.is_empty() {
            return Err(Failure(
                "--oplog-replay is for dumps, which have an oplog.bson: name the archive of changes with --oplog-file"
                    .to_owned(),
            ));
        }
        if self.drop || self.only.is_some() {
            return Err(Failure(
                "--drop and --only are for dumps: a backup is restored as a whole".to_owned(),
            ));
        }
        let Some(dir) = self.place.dir() else {
            return Err(Failure("a backup becomes a directory: use --dir DIR, and serve it".to_owned()));
        };
        let bring = |database: &Database, dir: &Path| match self.at {
            Some(at) if !oplog => rewind::rewind(database, dir, at).map(|()| false),
            _ => forward(database, dir, &self.oplog_file, until),
        };
        let incomplete = match oplog || self.at.is_some() {
            true => rewind::restore(dir, &self.place.key, &|dir| self.restore(dir), &bring)?,
            false => self.restore(dir).map(|()| false)?,
        };
        Ok(if incomplete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Which changes of an oplog are to be applied.
    fn until(&self, oplog: bool) -> Result<Option<Until>, Failure> {
        match (self.oplog_limit, self.at) {
            (Some(_), _) if !oplog => Err(Failure(
                "--oplog-limit is for the changes that --oplog-replay or --oplog-file applies".to_owned(),
            )),
            (None, Some(AsOf::Change(_))) if oplog => Err(Failure(
                "changes of an oplog have no such numbers: name a time with --at, or an entry with --oplog-limit"
                    .to_owned(),
            )),
            (Some(limit), _) => Ok(Some(Until::Before(limit))),
            (None, Some(AsOf::Time(time))) => Ok(Some(Until::At(time))),
            (None, _) => Ok(None),
        }
    }

    /// Makes a database of the backup.
    fn restore(&self, dir: &Path) -> Result<(), Failure> {
        if self.from.is_dir() {
            return copy(&self.from, dir, &self.place.key, "restored");
        }
        let name = self.from.display().to_string();
        let input: Box<dyn io::Read> = if name == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.from).map_err(|error| Failure(format!("{name}: {error}")))?)
        };
        let mut input = BufReader::with_capacity(BUFFER, input);
        let other = match input.fill_buf().map_err(|error| Failure(format!("{name}: {error}")))? {
            [0x6d, 0xe2, 0x99, 0x81, ..] => {
                "an archive of mongodump: load it by mongorestore --archive, or dump into a directory (mongodump --out DIR)"
            }
            [0x1f, 0x8b, ..] => "compressed: unpack it first, gzip -dc FILE | treedb restore - --dir DIR",
            _ => "",
        };
        if !other.is_empty() {
            return Err(Failure(format!("{name}: {other}")));
        }
        let mut meter = Meter::new("restored");
        let options = self.place.key.options()?;
        let restored =
            Store::restore(&mut input, dir, &options, |copied| meter.at(copied.entries, copied.of));
        let restored = restored.map_err(|error| failed(dir, error))?;
        meter.finish(restored.entries, &format!("to {}", dir.display()));
        Ok(())
    }
}
