//! `treedb archive`.
//!
//! The files of an archive are called `oplog-SECONDS-ORDINAL.bson`, by the time of their last entry, in ten digits each. Each begins with the
//! last entry of the one before: that is how gaps are noticed, when they are made and when they are replayed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bson::Timestamp;
use clap::Args;

use super::file::Sink;
use super::oplog::{End, parse_time, shown};
use super::place::PlaceArgs;
use crate::cli::Failure;
use crate::cli::progress::Progress;
use crate::cli::sync::{create_folder, sync_folder};

/// Save the changes since the last run, to be replayed after a backup or a dump
#[derive(Debug, Args)]
#[command(after_help = "\
Entries of the oplog go into a new BSON file in TO, as `mongodump -d local -c oplog.rs` has them. Each run goes on where the last file
ends, and writes nothing if nothing was changed; the first run begins with the oldest entry that there is. Run it from cron: what was
changed after the last run is not in the archive, so what a lost disk costs is the time between two runs.

The server keeps changes for a time (serve --change-hours, --change-bytes). If the entry at which the archive ends is there no longer,
or the database is another one (it was restored, say), that is an error: begin another archive in an empty directory, and make a
backup after its first run. No file is written then.

The changes have documents, collections and indexes, and not users, roles and views: these come from the
backup. Files that no backup needs any more can be deleted, the oldest first. With --uri the user needs the right to read the database local.
Files are not encrypted, even those of an encrypted database.

Examples:
  treedb archive --uri mongodb://127.0.0.1:27017 /mnt/archive
  treedb backup --uri mongodb://127.0.0.1:27017 /mnt/backups/monday
  treedb restore /mnt/backups/monday --dir ./data --oplog-file /mnt/archive
  treedb restore /mnt/backups/monday --dir ./data --oplog-file /mnt/archive --at 2026-11-23T14:05:00Z")]
pub(in crate::cli) struct Archive {
    /// The directory of the archive, created if missing
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// Begin the archive with the entry of this time, or the first after it
    #[arg(long, value_name = "SECONDS[:ORDINAL]", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Compress the file
    #[arg(long)]
    gzip: bool,
}

fn name(end: Timestamp) -> String {
    format!("oplog-{:010}-{:010}.bson", end.time, end.increment)
}

/// The time of the last entry of a file, by its name.
fn end_of(name: &str) -> Option<Timestamp> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let (seconds, ordinal) = name.strip_prefix("oplog-")?.strip_suffix(".bson")?.split_once('-')?;
    Some(Timestamp { time: seconds.parse().ok()?, increment: ordinal.parse().ok()? })
}

/// Where an archive ends; `None` if it has no file yet.
fn end(archive: &Path) -> Result<Option<Timestamp>, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", archive.display()));
    let mut last = None;
    for entry in std::fs::read_dir(archive).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        last = last.max(name.to_str().and_then(end_of));
    }
    Ok(last)
}

impl Archive {
    pub(in crate::cli) fn run(self) -> Result<ExitCode, Failure> {
        let mut place = self.place.open(false)?;
        create_folder(&self.to)?;
        let to = self.to.display();
        let last = end(&self.to)?;
        if let (Some(last), Some(_)) = (last, self.since) {
            return Err(Failure(format!(
                "{to}: this archive goes on at {}: --since is for the first run",
                shown(last)
            )));
        }
        let newest = place.oplog_end(End::Newest)?;
        let mut progress = Progress::of_oplog("archived", None);
        if last == Some(newest) {
            progress.finish(0, &format!("of the oplog to {to}: nothing was changed"));
            place.close()?;
            return Ok(ExitCode::SUCCESS);
        }
        // Others do not need the oldest entry, which cannot be read if it is of a dropped collection whose documents are kept no longer.
        let begin = match last.or(self.since) {
            Some(begin) => begin,
            None => place.oplog_end(End::Oldest)?,
        };
        let gap = |last: Timestamp, next: Option<Timestamp>| {
            let next = next.map(|next| format!(", the next one is {}", shown(next))).unwrap_or_default();
            Failure(format!(
                "{to}: the archive ends with {}, and the oplog, which ends with {}, has no such entry{next}: it does not reach back that \
                 far, or is of another database. What was changed since is not archived: begin another archive in an empty directory, \
                 make a backup after that, and keep changes for longer (treedb serve --change-hours, --change-bytes)",
                shown(last),
                shown(newest)
            ))
        };
        let mut sink = Sink::create(&self.to.join(name(newest)), self.gzip)?;
        let (mut entries, mut bytes) = (0, 0);
        let mut first = None;
        place.oplog(begin, newest, &mut |entry| {
            if first.is_none() {
                let at = entry.get_timestamp("ts")?;
                if let Some(last) = last.filter(|last| *last != at) {
                    return Err(gap(last, Some(at)));
                }
                first = Some(at);
            }
            sink.write(entry.as_bytes())?;
            entries += 1;
            bytes += entry.as_bytes().len() as u64;
            progress.at(bytes, entries);
            Ok(())
        })?;
        let Some(first) = first else {
            return Err(match last {
                Some(last) => gap(last, None),
                None => Failure(format!("there is no entry since {}", shown(begin))),
            });
        };
        // It may name a time between two entries.
        if self.since.is_some_and(|since| since < first) && !place.oplog_is_older(first)? {
            return Err(Failure(format!(
                "the oplog begins with {}, and no longer has what was changed since {}",
                shown(first),
                shown(begin)
            )));
        }
        sink.complete()?;
        sync_folder(&self.to)?;
        // The first of a later file is in the one before too.
        let new = entries - u64::from(last.is_some());
        progress.finish(new, &format!("of the oplog to {to}, up to {}", shown(newest)));
        place.close()?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_archive_is_in_the_name_of_its_last_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(end(dir.path()).ok(), Some(None));
        let last = Timestamp { time: 10, increment: 7 };
        let others =
            ["oplog-0000000009-0000000099.bson", "other.bson", "oplog-1-2.bson.partial", "oplog-x-1.bson"];
        for file in others.map(str::to_owned).into_iter().chain([name(last) + ".gz"]) {
            std::fs::write(dir.path().join(file), b"").unwrap();
        }
        assert_eq!(end(dir.path()).ok(), Some(Some(last)));
    }
}
