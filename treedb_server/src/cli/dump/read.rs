//! Restoring a dump: collections with their documents, then what the oplog has, then indexes, then views.
//!
//! A document or an index that is refused is reported, and the rest goes on; the exit status is 1 then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bson::Document;
use treedb_storage::Durability;

use super::file::{BsonFile, Metadata, Unfinished, unescaped};
use super::indexes::Indexes;
use super::oplog::{self, OplogFile, Until};
use super::place::{Load, Place, PlaceArgs};
use super::replay::{Replay, Target};
use super::write::is_wanted;
use crate::cli::Failure;
use crate::cli::local::Local;
use crate::cli::progress::Progress;

/// Failures that are printed; the rest are only counted.
const SHOWN: u64 = 20;
/// Options of `listCollections` that `create` does not take, or that mean nothing any more.
pub(super) const NO_OPTIONS: [&str; 6] = ["idIndex", "autoIndexId", "flags", "temp", "storageEngine", "uuid"];

/// What the files of a time series begin with in dumps of MongoDB: its documents, packed together.
const BUCKETS: &str = "system.buckets.";

/// What to restore, and where.
pub(in crate::cli) struct DumpRestore<'a> {
    pub(in crate::cli) from: &'a Path,
    pub(in crate::cli) place: &'a PlaceArgs,
    pub(in crate::cli) only: Option<&'a str>,
    pub(in crate::cli) drop: bool,
    /// Whether the entries of its oplog are applied, and of which other files.
    pub(in crate::cli) oplog: bool,
    pub(in crate::cli) oplog_files: &'a [PathBuf],
    pub(in crate::cli) until: Option<Until>,
}

/// The name of a dump's oplog, without its extensions.
const OPLOG: &str = "oplog";

/// The files of a collection.
#[derive(Debug, Default)]
struct Files {
    documents: Option<PathBuf>,
    metadata: Option<PathBuf>,
}

/// The name of a collection's file without its extensions, and whether it has documents; `None` for other files.
fn part(file: &str) -> Option<(&str, bool)> {
    let name = file.strip_suffix(".gz").unwrap_or(file);
    name.strip_suffix(".bson")
        .map(|name| (name, true))
        .or(name.strip_suffix(".metadata.json").map(|name| (name, false)))
}

/// Files and folders in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a directory is a dump, and not a database.
pub(in crate::cli) fn is_dump(dir: &Path) -> bool {
    let has_dump =
        |folder: &Path| entries(folder).is_ok_and(|files| files.iter().any(|(name, _)| part(name).is_some()));
    dir.is_dir()
        && !dir.join("pages").is_file()
        && (Unfinished::path(dir).exists()
            || has_dump(dir)
            || entries(dir).is_ok_and(|all| all.iter().any(|(_, path)| path.is_dir() && has_dump(path))))
}

/// A restore that runs.
struct Run<'a> {
    place: Place,
    progress: Progress,
    only: Option<&'a str>,
    drop: bool,
    /// The indexes to create.
    indexes: Indexes,
    restored: u64,
    /// Bytes of files that are done.
    position: u64,
    failures: u64,
}

impl DumpRestore<'_> {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode, Failure> {
        let unfinished = Unfinished::path(self.from);
        if unfinished.exists() {
            return Err(Failure(format!(
                "{}: this dump was interrupted, or is being written: dump again, or remove that file to restore what there is",
                unfinished.display()
            )));
        }
        let oplog = self.oplog()?;
        let mut collections: BTreeMap<(String, String), Files> = BTreeMap::new();
        let mut bytes = 0;
        for (folder, path) in entries(self.from)? {
            if !path.is_dir() {
                if part(&folder).is_some_and(|(name, documents)| documents && name != OPLOG) {
                    let hint = "name the directory above, which has a directory for each database";
                    return Err(Failure(format!("{}: {hint}", path.display())));
                }
                continue;
            }
            let Some(database) = unescaped(&folder) else { continue };
            for (file, path) in entries(&path)? {
                let Some((name, documents)) = part(&file) else { continue };
                let files = collections.entry((database.clone(), name.to_owned())).or_default();
                let slot = if documents { &mut files.documents } else { &mut files.metadata };
                // A shortened name may be that of any collection.
                let wanted = unescaped(name).is_none_or(|name| is_wanted(self.only, &database, &name));
                if let (true, Some(other)) = (wanted, &*slot) {
                    return Err(Failure(format!(
                        "{} and {} are of two dumps: remove the files of this collection that end in .gz, or those that do not, \
                         whichever are older",
                        other.display(),
                        path.display()
                    )));
                }
                if documents {
                    bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
                }
                *slot = Some(path);
            }
        }
        let mut run = Run {
            place: self.place.open(true)?,
            progress: Progress::of_bytes("restored", Some(bytes)),
            only: self.only,
            drop: self.drop,
            indexes: Indexes::default(),
            restored: 0,
            position: 0,
            failures: 0,
        };
        let mut views = Vec::new();
        for ((database, name), files) in &collections {
            let name = unescaped(name);
            let metadata = match &files.metadata {
                Some(path) => Metadata::read(path, name)?,
                None => match name {
                    Some(name) => Metadata {
                        name,
                        kind: "collection".to_owned(),
                        uuid: None,
                        options: Document::new(),
                        indexes: Vec::new(),
                        search_indexes: Vec::new(),
                    },
                    None => continue,
                },
            };
            if let Some(of) = metadata.name.strip_prefix(BUCKETS) {
                if let (true, Some(path)) = (is_wanted(run.only, database, of), &files.documents) {
                    run.buckets(database, of, path)?;
                }
                continue;
            }
            if !is_wanted(run.only, database, &metadata.name) || metadata.name.starts_with("system.") {
                continue;
            }
            if metadata.options.contains_key("viewOn") {
                views.push((database.clone(), metadata));
            } else {
                run.collection(database, metadata, files.documents.as_deref())?;
            }
        }
        if let Some(oplog) = oplog {
            run.replay(self.place.dir(), oplog, self.oplog_files, self.until)?;
        }
        run.create_indexes();
        for (database, view) in views {
            run.create(&database, &view)?;
        }
        let Run { place, progress, restored, failures, .. } = run;
        if failures > SHOWN {
            progress.say(&format!("and {} more failures", failures - SHOWN));
        }
        progress.finish(restored, &format!("from {}", self.from.display()));
        place.close()?;
        Ok(if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The dump's own entries, if they are to be applied.
    fn oplog(&self) -> Result<Option<PathBuf>, Failure> {
        if !self.oplog {
            return Ok(None);
        }
        let files = [oplog::FILE.to_owned(), format!("{}.gz", oplog::FILE)].map(|name| self.from.join(name));
        match files.into_iter().find(|file| file.is_file()) {
            Some(own) => {
                self.check_extent(&own)?;
                Ok(Some(own))
            }
            None => Err(Failure(format!(
                "{}: there is no {} in it, so that it is not of one moment: dump with --oplog",
                self.from.display(),
                oplog::FILE
            ))),
        }
    }

    /// Checks the dump's own entries against what is to follow them: its collections are of one moment only after the last of them.
    fn check_extent(&self, own: &Path) -> Result<(), Failure> {
        let at = self.until.filter(|until| matches!(until, Until::At(_)));
        if at.is_none() && self.oplog_files.is_empty() {
            return Ok(());
        }
        let extent = OplogFile::extent(own, at)?;
        if extent.is_cut {
            return Err(Failure(format!(
                "{}: the dump ended after that time, and its collections are of later moments: name a later time, or restore a backup",
                self.from.display()
            )));
        }
        if extent.end.is_none() && !self.oplog_files.is_empty() {
            return Err(Failure(format!(
                "{}: there are no entries in it, so that it is not known with which one of the archive to go on: restore without \
                 --oplog-file",
                own.display()
            )));
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Applies the dump's own entries to the collections, and then those of other files that are later.
    fn replay(
        &mut self,
        dir: Option<&PathBuf>,
        own: PathBuf,
        others: &[PathBuf],
        until: Option<Until>,
    ) -> Result<(), Failure> {
        let target = match (&mut self.place, dir) {
            (Place::Server(client), _) => Target::Server(client),
            (Place::Directory(database), dir) => {
                let dir = dir.map(PathBuf::as_path).unwrap_or(Path::new(""));
                Target::Directory(Local::new(database.clone(), dir, Durability::Relaxed)?)
            }
        };
        let mut replay = Replay::of_dump(target, std::mem::take(&mut self.indexes), until);
        replay.files(&[own])?;
        replay.files(others)?;
        let replayed = replay.finish()?;
        self.indexes = replayed.indexes;
        self.failures += u64::from(replayed.incomplete);
        Ok(())
    }

    fn create_indexes(&mut self) {
        for (namespace, indexes) in std::mem::take(&mut self.indexes) {
            let Some((database, name)) = namespace.split_once('.') else { continue };
            for spec in indexes {
                if let Err(Failure(reason)) = self.place.create_index(database, name, &spec) {
                    let index = spec.get_str("name").unwrap_or("without a name");
                    self.failed(&format!("{namespace}: index {index}: {reason}"));
                }
            }
        }
    }

    fn failed(&mut self, what: &str) {
        self.failures += 1;
        if self.failures <= SHOWN {
            self.progress.say(what);
        }
    }

    /// Creates a collection or a view, unless there is one and it is not to be dropped.
    fn create(&mut self, database: &str, metadata: &Metadata) -> Result<(), Failure> {
        let exists = self.place.collections(database)?.iter().any(|listed| listed.name == metadata.name);
        if exists && !self.drop {
            return Ok(());
        }
        if exists {
            self.place.drop_collection(database, &metadata.name)?;
        }
        let mut options = metadata.options.clone();
        NO_OPTIONS.iter().for_each(|name| drop(options.remove(name)));
        if let Err(Failure(reason)) = self.place.create(database, &metadata.name, options) {
            let name = &metadata.name;
            return Err(Failure(format!("{database}.{name} cannot be created: {reason}")));
        }
        Ok(())
    }

    /// Reports the documents of a time series that MongoDB has packed into buckets, if there are any.
    fn buckets(&mut self, database: &str, name: &str, path: &Path) -> Result<(), Failure> {
        if BsonFile::open(path)?.next()?.is_some() {
            let file = path.display();
            self.failed(&format!(
                "{database}.{name}: {file} has the documents of a time series in a form that is not read: dump them with \
                 treedb dump --uri from the server that has them"
            ));
        }
        Ok(())
    }

    fn collection(
        &mut self,
        database: &str,
        metadata: Metadata,
        documents: Option<&Path>,
    ) -> Result<(), Failure> {
        self.create(database, &metadata)?;
        self.indexes.note_series(&format!("{database}.{}", metadata.name), &metadata.options);
        let name = metadata.name.as_str();
        if let Some(path) = documents {
            let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
            let mut file = BsonFile::open(path)?;
            let mut load = Load::default();
            while let Some(document) = file.next()? {
                if load.add(document) {
                    self.insert(database, name, &mut load)?;
                    self.progress.at(self.position, self.restored);
                }
            }
            self.insert(database, name, &mut load)?;
            self.position += length;
            self.progress.at(self.position, self.restored);
        }
        for mut spec in metadata.indexes.into_iter().chain(metadata.search_indexes) {
            // The first comes with the collection.
            if spec.get_str("name").is_ok_and(|name| name == "_id_")
                || spec.get_bool("clustered").unwrap_or(false)
            {
                continue;
            }
            spec.remove("ns");
            self.indexes.add(&format!("{database}.{name}"), spec);
        }
        Ok(())
    }

    fn insert(&mut self, database: &str, name: &str, load: &mut Load) -> Result<(), Failure> {
        let documents = load.take();
        if documents.is_empty() {
            return Ok(());
        }
        let refused = self.place.insert(database, name, &documents)?;
        self.restored += (documents.len() - refused.len()) as u64;
        for reason in refused {
            self.failed(&format!("{database}.{name}: {reason}"));
        }
        Ok(())
    }
}
