//! The entries of an oplog: of a place, and in files.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use treedb_collections::FindRequest;

use super::file::BsonFile;
use super::place::{Place, read_all};
use crate::cli::Failure;

/// The name of the file in a dump.
pub(super) const FILE: &str = "oplog.bson";

/// Reads the time of an entry, `SECONDS[:ORDINAL]`.
pub(in crate::cli) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let (seconds, ordinal) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| text.parse::<u32>().ok();
    let ordinal = if ordinal.is_empty() { Some(0) } else { number(ordinal) };
    match (number(seconds), ordinal) {
        (Some(time), Some(increment)) => Ok(Timestamp { time, increment }),
        _ => Err("the time of an entry is SECONDS[:ORDINAL], the seconds since 1970 and the number of the entry, such as \
                  1790000000:12"
            .to_owned()),
    }
}

/// The time of an entry as [`parse_time`] reads it.
pub(super) fn shown(time: Timestamp) -> String {
    format!("{}:{}", time.time, time.increment)
}

/// Which entries are replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cli) enum Until {
    /// Those before this one.
    Before(Timestamp),
    /// Those that were not later.
    At(DateTime),
}

impl Until {
    /// Whether an entry, and those after it, are not replayed.
    pub(super) fn is_past(self, entry: &Entry) -> bool {
        match self {
            Until::Before(limit) => entry.time >= limit,
            Until::At(moment) => entry.wall > moment,
        }
    }
}

/// Where an entry is.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    path: Rc<Path>,
    /// Its first byte; of a compressed file, in its content.
    at: u64,
    time: Timestamp,
}

impl Origin {
    pub(super) fn failed(&self, what: &dyn std::fmt::Display) -> Failure {
        let Origin { path, at, time } = self;
        Failure(format!("{}: the entry at byte {at}, of {}: {what}", path.display(), shown(*time)))
    }
}

/// An entry in a file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) time: Timestamp,
    /// When it was written, to the second if it does not say more.
    pub(super) wall: DateTime,
    pub(super) document: RawDocumentBuf,
    pub(super) origin: Origin,
}

/// A file with entries.
pub(super) struct OplogFile {
    file: BsonFile,
    path: Rc<Path>,
}

/// What a dump's own entries say of it, before anything is restored.
#[derive(Debug, Default)]
pub(super) struct Extent {
    /// The last one.
    pub(super) end: Option<Timestamp>,
    /// Whether there are some that would not be replayed.
    pub(super) is_cut: bool,
}

impl OplogFile {
    /// Reads the file to its end.
    pub(super) fn extent(path: &Path, until: Option<Until>) -> Result<Extent, Failure> {
        let (mut file, mut extent) = (OplogFile::open(path)?, Extent::default());
        while let Some(entry) = file.next()? {
            extent.is_cut |= until.is_some_and(|until| until.is_past(&entry));
            extent.end = Some(entry.time);
        }
        Ok(extent)
    }

    pub(super) fn open(path: &Path) -> Result<OplogFile, Failure> {
        Ok(OplogFile { file: BsonFile::open(path)?, path: Rc::from(path) })
    }

    /// Bytes of entries that were read.
    pub(super) fn position(&self) -> u64 {
        self.file.position()
    }

    /// The next entry; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Failure> {
        let at = self.file.position();
        let Some(document) = self.file.next()? else { return Ok(None) };
        let time = match document.get("ts") {
            Ok(Some(RawBsonRef::Timestamp(time))) => time,
            _ => {
                return Err(Failure(format!(
                    "{}: the document at byte {at} is no entry of an oplog: it has no timestamp 'ts'",
                    self.path.display()
                )));
            }
        };
        let wall = match document.get("wall") {
            Ok(Some(RawBsonRef::DateTime(wall))) => wall,
            _ => DateTime::from_millis(i64::from(time.time) * 1000),
        };
        let origin = Origin { path: Rc::clone(&self.path), at, time };
        Ok(Some(Entry { time, wall, document, origin }))
    }
}

/// The files with entries that are named, or in directories that are, in the order of their first entries.
pub(super) fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in named {
        let failed = |error: std::io::Error| Failure(format!("{}: {error}", path.display()));
        if !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let before = paths.len();
        for entry in fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if file.to_str().is_some_and(|name| name.ends_with(".bson") || name.ends_with(".bson.gz")) {
                paths.push(file);
            }
        }
        if paths.len() == before {
            return Err(Failure(format!("{}: there are no BSON files in it", path.display())));
        }
    }
    let mut found = Vec::new();
    for path in paths {
        if let Some(first) = OplogFile::open(&path)?.next()? {
            found.push((first.time, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Which end of an oplog.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    Oldest,
    Newest,
}

impl Place {
    /// The time of the oldest or the newest entry.
    pub(super) fn oplog_end(&mut self, end: End) -> Result<Timestamp, Failure> {
        let found = self.first_in_oplog(end, rawdoc! {})?;
        found.ok_or_else(|| {
            Failure("there is no oplog: changes are not recorded (treedb serve --change-log on)".to_owned())
        })
    }

    /// Whether there are entries of an earlier time.
    pub(super) fn oplog_is_older(&mut self, than: Timestamp) -> Result<bool, Failure> {
        Ok(self.first_in_oplog(End::Newest, rawdoc! { "ts": { "$lt": than } })?.is_some())
    }

    /// The time of the oldest or the newest entry that a filter matches.
    fn first_in_oplog(&mut self, end: End, filter: RawDocumentBuf) -> Result<Option<Timestamp>, Failure> {
        let direction = if end == End::Oldest { 1 } else { -1 };
        let mut found = None;
        let mut each = |entry: &RawDocument| {
            found = Some(entry.get_timestamp("ts")?);
            Ok(())
        };
        match self {
            Place::Directory(database) => {
                let sort = Some(rawdoc! { "ts": direction });
                let request = FindRequest { sort, limit: 1, ..FindRequest::filter(filter) };
                for entry in database.oplog(&request, false)? {
                    each(&entry?)?;
                }
            }
            Place::Server(client) => {
                let command = rawdoc! {
                    "find": "oplog.rs", "filter": filter, "sort": { "$natural": direction }, "limit": 1, "singleBatch": true,
                    "$db": "local",
                };
                read_all(client, "local", "oplog.rs", &command, &mut each)?;
            }
        }
        Ok(found)
    }

    /// The entries from the time `since` to `until`, both included.
    pub(super) fn oplog(
        &mut self,
        since: Timestamp,
        until: Timestamp,
        each: &mut dyn FnMut(&RawDocument) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = rawdoc! { "ts": { "$gte": since, "$lte": until } };
        match self {
            Place::Directory(database) => {
                for entry in database.oplog(&FindRequest::filter(filter), false)? {
                    each(&entry?)?;
                }
                Ok(())
            }
            Place::Server(client) => {
                let command =
                    rawdoc! { "find": "oplog.rs", "filter": filter, "noCursorTimeout": true, "$db": "local" };
                read_all(client, "local", "oplog.rs", &command, each)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_entry_is_seconds_and_an_ordinal() {
        let time = |time, increment| Ok(Timestamp { time, increment });
        assert_eq!(parse_time("12"), time(12, 0));
        assert_eq!(parse_time("12:"), time(12, 0));
        assert_eq!(parse_time("12:4294967295"), time(12, u32::MAX));
        assert_eq!(parse_time(&shown(Timestamp { time: 5, increment: 6 })), time(5, 6));
        for wrong in ["", ":", ":1", "1:2:3", "-1", "4294967296", "2026-01-01", "1:x"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_document_that_is_no_entry_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oplog.bson");
        let time = Timestamp { time: 1, increment: 2 };
        let entry = rawdoc! { "op": "n", "ts": time };
        for wrong in [rawdoc! {}, rawdoc! { "ts": 5 }, rawdoc! { "a": { "ts": time } }] {
            fs::write(&path, [entry.as_bytes(), wrong.as_bytes()].concat()).unwrap();
            let mut file = OplogFile::open(&path).unwrap();
            assert_eq!(file.next().ok().flatten().map(|entry| entry.time), Some(time));
            let error = file.next().err().unwrap().0;
            let place = format!("oplog.bson: the document at byte {}", entry.as_bytes().len());
            assert!(error.contains(&place), "{error}");
        }
    }
}
