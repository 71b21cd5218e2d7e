//! `treedb restore` of a backup to a moment: as it was at an earlier time, or brought forward to a later one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::DateTime;
use treedb_collections::{AsOf, Database};

use super::key::KeyArgs;
use super::progress::Progress;
use super::sync::sync_name;
use super::{Failure, error_hints};

/// Longer than any restore takes.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The argument of `--at`.
pub(super) fn moment(text: &str) -> Result<AsOf, String> {
    if let Some(change) = text.strip_prefix("change:") {
        return change
            .parse()
            .map(AsOf::Change)
            .map_err(|_| format!("{change} is not the number of a change"));
    }
    DateTime::parse_rfc3339_str(text).map(AsOf::Time).map_err(|_| {
        "a time is written as 2026-11-23T14:05:00Z, or with another time zone as 2026-11-23T15:05:00+01:00; \
         a change as change:NUMBER"
            .to_owned()
    })
}

/// The directory beside `dir` in which the database is until it is complete.
fn partial(dir: &Path) -> Result<PathBuf, Failure> {
    let name = dir
        .file_name()
        .ok_or_else(|| Failure(format!("{}: a directory with a name is needed", dir.display())))?;
    let mut name = name.to_owned();
    name.push(".restoring");
    Ok(dir.with_file_name(name))
}

/// Removes a directory that is not complete.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // What is left says by its name what it is.
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Lets `restore` make a database in a directory and `bring` it to the moment that is wanted, and gives the directory its name. Returns
/// what `bring` returns.
pub(super) fn restore<T>(
    dir: &Path,
    key: &KeyArgs,
    restore: &dyn Fn(&Path) -> Result<(), Failure>,
    bring: &dyn Fn(&Database, &Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let is_free = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !is_free {
        return Err(Failure(format!(
            "{}: a database is restored into an empty or a new directory",
            dir.display()
        )));
    }
    let partial = partial(dir)?;
    if partial.exists() {
        return Err(Failure(format!("{}: left by an earlier restore: remove it", partial.display())));
    }
    let removed = Removed(&partial);
    restore(&partial)?;
    let failed = |error| error_hints::directory(dir, &error);
    // What was unfinished when the copy was made has not happened by then.
    let database = Database::open_copy(&partial, key.restore_options()?).map_err(failed)?;
    // Documents that have expired since are among those that were there.
    database.expire_every(NEVER);
    let brought = bring(&database, &partial)?;
    database.close().map_err(failed)?;
    fs::rename(&partial, dir)?;
    std::mem::forget(removed);
    sync_name(dir)?;
    Ok(brought)
}

/// Makes a database, which is in a directory, what it was.
pub(super) fn rewind(database: &Database, dir: &Path, at: AsOf) -> Result<(), Failure> {
    let mut progress: Option<Progress> = None;
    let done = database.rewind(at, &mut |done, of| {
        progress.get_or_insert_with(|| Progress::of_entries("rewound", of)).at(done, done);
    });
    let done = done.map_err(|error| error_hints::directory(dir, &error))?;
    let up_to =
        format!("of {} collections, to what there was after change {}", done.collections, done.change);
    progress
        .unwrap_or_else(|| Progress::of_entries("rewound", done.documents))
        .finish(done.documents, &up_to);
    for note in &done.notes {
        eprintln!("treedb: {note}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_with_its_zone_or_a_change() {
        let time = |text: &str| match moment(text) {
            Ok(AsOf::Time(time)) => time.timestamp_millis(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(time("1970-01-01T00:00:01Z"), 1_000);
        assert_eq!(time("1970-01-01T01:00:01.5+01:00"), 1_500);
        assert_eq!(moment("change:12"), Ok(AsOf::Change(12)));
        for wrong in ["", "yesterday", "2026-11-23", "2026-11-23T14:05:00", "change:", "change:-1"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }
}
