//! A backup that is brought forward by the entries of an archive, up to a moment.

use std::path::{Path, PathBuf};

use bson::DateTime;
use treedb_collections::{Database, FindRequest};
use treedb_storage::Durability;

use super::oplog::{Until, shown};
use super::replay::{Replay, Target};
use crate::cli::local::Local;
use crate::cli::{Failure, rewind};

/// When the last change was committed that a database knows of; `None` if it does not record changes.
fn last_change(database: &Database) -> Result<Option<DateTime>, Failure> {
    let sort = Some(bson::rawdoc! { "ts": -1 });
    let last = database.oplog(&FindRequest { sort, limit: 1, ..FindRequest::default() }, false)?.next();
    last.transpose()?.map(|entry| entry.get_datetime("wall").map_err(Failure::from)).transpose()
}

/// Applies the entries in `files` that are later than the last change of `database`, which is in the directory `dir`. Of a moment
/// before that change it makes the database what it was then. Returns whether something was not applied, which was said.
pub(in crate::cli) fn forward(
    database: &Database,
    dir: &Path,
    files: &[PathBuf],
    until: Option<Until>,
) -> Result<bool, Failure> {
    let (Some(position), Some(last)) = (database.operation_time()?, last_change(database)?) else {
        return Err(Failure(
            "the backup has no change log, so that it is not known with which entry to go on: switch the log on (treedb serve \
             --change-log on) and make another"
                .to_owned(),
        ));
    };
    match until {
        Some(Until::At(moment)) if moment < last => {
            return rewind::rewind(database, dir, treedb_collections::AsOf::Time(moment)).map(|()| false);
        }
        Some(Until::Before(limit)) if limit <= position => {
            return Err(Failure(format!(
                "the backup has changes up to {}, which is not before the limit: take an earlier backup, or name a time with --at, \
                 which goes back too",
                shown(position)
            )));
        }
        _ => {}
    }
    let local = Local::new(database.clone(), dir, Durability::Relaxed)?;
    let mut replay = Replay::of_backup(Target::Directory(local), (position, last), until);
    replay.files(files)?;
    Ok(replay.finish()?.incomplete)
}
