//! Applying the entries of an oplog, by the command `applyOps`.
//!
//! After a backup, which is of one moment, each entry has to find what it changes; those at or before that moment are skipped. The
//! collections of a dump are of several moments, and entries may find what a later one has made: an update finds no document that
//! is deleted later, an insert no collection that is dropped later. The last one decides, so that the result is that of one moment
//! again. Indexes are created after that, see [`Indexes`].
//!
//! MongoDB writes what a transaction has done as one or more entries of `applyOps`, which are applied with the last of them, or when its
//! commit is found.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;

use bson::raw::cstr;
use bson::{
    DateTime, Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, doc, rawdoc,
};
use treedb_query::error::ErrorCode;

use super::indexes::Indexes;
use super::oplog::{Entry, OplogFile, Origin, Until, files, shown};
use super::read::NO_OPTIONS;
use crate::cli::Failure;
use crate::cli::local::Local;
use crate::cli::mongo_client::MongoClient;
use crate::cli::progress::Progress;

/// Entries in one command.
const BATCH: usize = 500;
/// Bytes of entries in one command, but for one that is larger.
const BATCH_BYTES: usize = 8 << 20;
/// How deep entries may be in entries.
const DEEPEST: usize = 10;

/// What runs the commands.
pub(super) enum Target<'a> {
    Directory(Local),
    Server(&'a mut MongoClient),
}

impl Target<'_> {
    fn ask(&mut self, command: &RawDocumentBuf) -> Result<RawDocumentBuf, Failure> {
        match self {
            Target::Directory(local) => Ok(local.ask(command)),
            Target::Server(client) => client.ask(command),
        }
    }
}

/// Entries that are being applied.
pub(super) struct Replay<'a> {
    target: Target<'a>,
    /// The indexes of a dump; `None` after a backup.
    indexes: Option<Indexes>,
    /// The last entry that was applied, or need not be.
    position: Option<(Timestamp, DateTime)>,
    /// Which entries are wanted, and whether there was one that is not.
    until: Option<Until>,
    reached: bool,
    /// The changes of transactions whose last entry was not found yet.
    transactions: HashMap<Vec<u8>, Vec<RawDocumentBuf>>,
    batch: Vec<(RawDocumentBuf, Origin)>,
    bytes: usize,
    entries: u64,
    progress: Progress,
    /// Collections with entries that are not applied: MongoDB's own, and of a dump those that were renamed out of `local`.
    skipped: BTreeSet<String>,
}

/// What was replayed.
pub(super) struct Replayed {
    pub(super) indexes: Indexes,
    /// Something was not applied, and that was said.
    pub(super) incomplete: bool,
}

impl<'a> Replay<'a> {
    /// After a backup, of whose last change these are the times.
    pub(super) fn of_backup(
        target: Target<'a>,
        position: (Timestamp, DateTime),
        until: Option<Until>,
    ) -> Replay<'a> {
        Replay::new(target, None, Some(position), until)
    }

    /// After the documents of a dump, which is to get these indexes.
    pub(super) fn of_dump(target: Target<'a>, indexes: Indexes, until: Option<Until>) -> Replay<'a> {
        Replay::new(target, Some(indexes), None, until)
    }

    fn new(
        target: Target<'a>,
        indexes: Option<Indexes>,
        position: Option<(Timestamp, DateTime)>,
        until: Option<Until>,
    ) -> Replay<'a> {
        Replay {
            target,
            indexes,
            position,
            until,
            reached: false,
            transactions: HashMap::new(),
            batch: Vec::new(),
            bytes: 0,
            entries: 0,
            progress: Progress::of_oplog("replayed", None),
            skipped: BTreeSet::new(),
        }
    }

    /// Applies the entries of the files, or of those in the directories, that are named, as far as they are later than those that were
    /// applied.
    pub(super) fn files(&mut self, named: &[PathBuf]) -> Result<(), Failure> {
        let paths = files(named)?;
        self.progress
            .of(paths.iter().map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).sum());
        let mut done = 0;
        for path in paths {
            if self.reached {
                break;
            }
            let mut file = OplogFile::open(&path)?;
            let mut first = None;
            // Whether the file has the entry that was applied last, so that nothing is missing between that and its next one.
            let mut goes_on = self.position.is_none();
            while let Some(entry) = file.next()? {
                let first = *first.get_or_insert(entry.time);
                if let Some((position, _)) = self.position {
                    if entry.time <= position {
                        goes_on |= entry.time == position;
                        continue;
                    }
                    if !goes_on {
                        return Err(gap(&path, position, first));
                    }
                }
                if self.until.is_some_and(|until| until.is_past(&entry)) {
                    self.reached = true;
                    break;
                }
                self.position = Some((entry.time, entry.wall));
                self.entries += 1;
                self.progress.at(done + file.position(), self.entries);
                let Entry { document, origin, .. } = entry;
                self.take(document, &origin, 0)?;
            }
            done += file.position();
        }
        self.flush()
    }

    /// Ends the replay, and says how far it came.
    pub(super) fn finish(self) -> Result<Replayed, Failure> {
        let Replay { target, indexes, position, until, reached, entries, progress, skipped, .. } = self;
        if let Target::Directory(local) = target {
            local.close()?;
        }
        if let (Some(Until::At(moment)), Some((_, last)), false) = (until, position, reached)
            && last < moment
        {
            progress.say(&format!("treedb: the last change that is known is of {last}"));
        }
        let mut incomplete = false;
        for namespace in skipped {
            incomplete |= !namespace.starts_with("admin.");
            progress.say(&format!("treedb: changes of {namespace} are not replayed"));
        }
        let up_to = position.map(|(at, _)| format!(", up to {}", shown(at))).unwrap_or_default();
        progress.finish(entries, &format!("of the oplog{up_to}"));
        Ok(Replayed { indexes: indexes.unwrap_or_default(), incomplete })
    }

    /// Takes an entry, `depth` entries deep in others.
    fn take(&mut self, entry: RawDocumentBuf, origin: &Origin, depth: usize) -> Result<(), Failure> {
        let wrong = |error: &dyn std::fmt::Display| origin.failed(error);
        let op = entry.get_str("op").map_err(|error| wrong(&error))?;
        let search_index = match op {
            "n" => SearchIndexChange::of(&entry).map_err(|error| wrong(&error))?,
            _ => None,
        };
        if op == "n" && search_index.is_none() {
            return Ok(());
        }
        let namespace = entry.get_str("ns").map_err(|error| wrong(&error))?;
        let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
        // Backups have the collections of `local`, which are recorded as others are; dumps have not, nor what becomes of them.
        if database == "local" && self.indexes.is_some() {
            let command = entry.get_document("o").map_err(|error| wrong(&error))?;
            if op == "c" && command.get_str("renameCollection").is_ok() {
                let to = command.get_str("to").ok().filter(|to| !to.starts_with("local."));
                self.skipped.extend(to.map(str::to_owned));
            }
            return Ok(());
        }
        if database == "config" {
            return Ok(());
        }
        if collection.starts_with("system.") {
            self.skipped.insert(namespace.to_owned());
            return Ok(());
        }
        if let Some(change) = search_index {
            return self.change_search_index(change, database, origin);
        }
        let entry = if op == "c" {
            let database = database.to_owned();
            let command = entry.get_document("o").map_err(|error| wrong(&error))?;
            let name = match command.iter().next() {
                Some(Ok((name, _))) => name.as_str().to_owned(),
                _ => return Err(wrong(&"a command that is empty or damaged")),
            };
            if let Some(own) = system_collection(&database, command, &name) {
                self.skipped.insert(own);
                return Ok(());
            }
            if matches!(name.as_str(), "applyOps" | "commitTransaction" | "abortTransaction") {
                return self.transaction(&entry, &name, origin, depth);
            }
            self.flush()?;
            let command = Document::try_from(command).map_err(|error| wrong(&error))?;
            let left = match &mut self.indexes {
                None => Some(command),
                Some(indexes) => define(indexes, &database, &name, command).map_err(|error| wrong(&error))?,
            };
            let Some(command) = left else { return Ok(()) };
            let mut bare = rawdoc! { "op": "c", "ns": namespace };
            bare.append(cstr!("o"), RawDocumentBuf::try_from(&command)?);
            bare
        } else {
            // Collections that are created by entries have other UUIDs, and nothing depends on when an entry was written.
            let mut bare = RawDocumentBuf::new();
            for field in &entry {
                let (name, value) = field.map_err(|error| wrong(&error))?;
                if matches!(name.as_str(), "op" | "ns" | "o" | "o2" | "b") {
                    bare.append(name, value);
                }
            }
            bare
        };
        let alone = op == "c";
        let size = entry.as_bytes().len();
        if self.bytes + size > BATCH_BYTES || self.batch.len() >= BATCH {
            self.flush()?;
        }
        self.bytes += size;
        self.batch.push((entry, origin.clone()));
        if alone { self.flush() } else { Ok(()) }
    }

    /// Creates or drops a search index, or does it with those that a dump is to get.
    fn change_search_index(
        &mut self,
        change: SearchIndexChange,
        database: &str,
        origin: &Origin,
    ) -> Result<(), Failure> {
        self.flush()?;
        let namespace = |collection: &str| format!("{database}.{collection}");
        let command = match (change, &mut self.indexes) {
            (SearchIndexChange::Create(collection, specs), Some(indexes)) => {
                specs.into_iter().for_each(|spec| indexes.add(&namespace(&collection), spec));
                return Ok(());
            }
            (SearchIndexChange::Drop(collection, name), Some(indexes)) => {
                indexes.drop_index(&namespace(&collection), &name);
                return Ok(());
            }
            (SearchIndexChange::Create(collection, specs), None) => {
                doc! { "createSearchIndexes": collection, "indexes": specs, "$db": database }
            }
            (SearchIndexChange::Drop(collection, name), None) => {
                doc! { "dropSearchIndex": collection, "name": name, "$db": database }
            }
        };
        let command = RawDocumentBuf::try_from(&command).map_err(|error| origin.failed(&error))?;
        let reply = self.target.ask(&command)?;
        let gone = [ErrorCode::NamespaceNotFound.number(), ErrorCode::IndexNotFound.number()];
        let is_gone = reply.get_i32("code").is_ok_and(|code| gone.contains(&code));
        match reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) || is_gone {
            true => Ok(()),
            false => {
                let message = reply.get_str("errmsg").unwrap_or("the command failed without a message");
                Err(origin.failed(&message))
            }
        }
    }

    /// Takes an entry with the changes of a transaction, or what became of it.
    fn transaction(
        &mut self,
        entry: &RawDocument,
        name: &str,
        origin: &Origin,
        depth: usize,
    ) -> Result<(), Failure> {
        let wrong = |error: &dyn std::fmt::Display| origin.failed(error);
        if depth >= DEEPEST {
            return Err(wrong(&"entries are nested too deep"));
        }
        let mut key = match entry.get("lsid") {
            Ok(Some(RawBsonRef::Document(session))) => session.as_bytes().to_vec(),
            _ => Vec::new(),
        };
        if let Ok(Some(RawBsonRef::Int64(number))) = entry.get("txnNumber") {
            key.extend(number.to_le_bytes());
        }
        let command = entry.get_document("o").map_err(|error| wrong(&error))?;
        if name == "commitTransaction" && !self.transactions.contains_key(&key) {
            return Err(wrong(&"the changes of the transaction that it commits are before the first entry"));
        }
        let mut changes = self.transactions.remove(&key).unwrap_or_default();
        if name == "applyOps" {
            for change in command.get_array("applyOps").map_err(|error| wrong(&error))? {
                match change.map_err(|error| wrong(&error))? {
                    RawBsonRef::Document(change) => changes.push(change.to_owned()),
                    _ => return Err(wrong(&"a change of a transaction that is no document")),
                }
            }
        }
        let is = |field| matches!(command.get(field), Ok(Some(RawBsonRef::Boolean(true))));
        if name == "abortTransaction" {
            return Ok(());
        }
        if name == "applyOps" && (is("partialTxn") || is("prepare")) {
            self.transactions.insert(key, changes);
            return Ok(());
        }
        changes.into_iter().try_for_each(|change| self.take(change, origin, depth + 1))
    }

    /// Applies what was taken.
    fn flush(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        let (mut at, mut together) = (0, batch.len());
        while at < batch.len() {
            let part = batch.get(at..(at + together).min(batch.len())).unwrap_or_default();
            let mut entries = RawArrayBuf::new();
            part.iter().for_each(|(entry, _)| entries.push(entry.as_ref() as &RawDocument));
            let command = rawdoc! { "applyOps": entries, "bypassDocumentValidation": true, "$db": "admin" };
            let reply = self.target.ask(&command)?;
            if reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) {
                at += part.len();
                continue;
            }
            let code = reply.get_i32("code").unwrap_or_default();
            let applied = reply.get_i32("applied").ok().and_then(|applied| usize::try_from(applied).ok());
            // Without a document to update, or with another error.
            let (failed, updates) = match applied {
                Some(applied) if applied >= part.len() && code == ErrorCode::UnknownError.number() => {
                    (reply.get_array("results").ok().and_then(first_false), true)
                }
                Some(applied) => (applied.checked_sub(1), false),
                // Refused before any was applied: which one shows when they come one by one.
                None if part.len() > 1 => {
                    together = 1;
                    continue;
                }
                None => (Some(0), false),
            };
            if self.indexes.is_some() {
                if updates {
                    at += part.len();
                    continue;
                }
                if let (Some(failed), true) = (failed, code == ErrorCode::NamespaceNotFound.number()) {
                    at += failed + 1;
                    continue;
                }
            }
            let message = reply.get_str("errmsg").unwrap_or("the command failed without a message");
            let message = match updates {
                true => "there is no document to update: the entries are not those of this database",
                false => message,
            };
            return Err(match failed.and_then(|failed| part.get(failed)) {
                Some((_, origin)) => origin.failed(&message),
                None => Failure(message.to_owned()),
            });
        }
        Ok(())
    }
}

/// What became of a search index. MongoDB has no entries of that: those of TreeDB are of the kind that it passes over.
enum SearchIndexChange {
    /// The collection, and the specifications.
    Create(String, Vec<Document>),
    /// The collection, and the name.
    Drop(String, String),
}

impl SearchIndexChange {
    /// What an entry of the kind `n` says of a search index; `None` if it is about something else.
    fn of(entry: &RawDocument) -> Result<Option<SearchIndexChange>, bson::error::Error> {
        let Ok(command) = entry.get_document("o") else { return Ok(None) };
        if let Ok(collection) = command.get_str("createSearchIndexes") {
            let command = Document::try_from(command)?;
            let specs = command.get_array("indexes").ok().into_iter().flatten();
            let specs = specs.filter_map(|spec| spec.as_document().cloned()).collect();
            return Ok(Some(SearchIndexChange::Create(collection.to_owned(), specs)));
        }
        Ok(match (command.get_str("dropSearchIndex"), command.get_str("name")) {
            (Ok(collection), Ok(name)) => {
                Some(SearchIndexChange::Drop(collection.to_owned(), name.to_owned()))
            }
            _ => None,
        })
    }
}

/// The collection of MongoDB's own that a command is about: views are in one, and the buckets of a time series.
fn system_collection(database: &str, command: &RawDocument, name: &str) -> Option<String> {
    let given = |field| command.get_str(field).ok();
    let full = match name {
        "renameCollection" => {
            let mut names = [name, "to"].into_iter().filter_map(given);
            names
                .find(|full| full.split_once('.').is_some_and(|(_, of)| of.starts_with("system.")))?
                .to_owned()
        }
        _ => format!("{database}.{}", given(name).filter(|of| of.starts_with("system."))?),
    };
    Some(full)
}

fn first_false(results: &bson::RawArray) -> Option<usize> {
    results.into_iter().position(|result| matches!(result, Ok(RawBsonRef::Boolean(false))))
}

/// A file does not have the entry with which it should go on.
fn gap(path: &std::path::Path, position: Timestamp, first: Timestamp) -> Failure {
    let (path, last, first_shown) = (path.display(), shown(position), shown(first));
    Failure(match first > position {
        true => format!(
            "{path}: it begins with {first_shown}, and what comes before ends with {last}: the changes in between are missing (a \
             file begins with the last entry of the one before)"
        ),
        false => format!(
            "{path}: it has entries before and after {last}, with which it should go on, and not that one: it is of another \
             database, or of this one before it was restored"
        ),
    })
}

/// What a command does to indexes, which are created later. Returns what is left of it to be applied.
fn define(
    indexes: &mut Indexes,
    database: &str,
    name: &str,
    mut command: Document,
) -> Result<Option<Document>, &'static str> {
    let collection = command.get_str(name).unwrap_or_default();
    let namespace = format!("{database}.{collection}");
    match name {
        "createIndexes" => {
            command.remove(name);
            indexes.add(&namespace, command);
            return Ok(None);
        }
        "commitIndexBuild" => {
            let Ok(specs) = command.get_array("indexes") else {
                return Err("an index build without indexes");
            };
            for spec in specs {
                let spec = spec.as_document().ok_or("an index that is no document")?;
                indexes.add(&namespace, spec.clone());
            }
            return Ok(None);
        }
        "startIndexBuild" | "abortIndexBuild" | "dbCheck" => return Ok(None),
        "dropIndexes" | "dropIndex" | "deleteIndexes" | "deleteIndex" => {
            indexes.drop_index(&namespace, command.get_str("index").unwrap_or_default());
            return Ok(None);
        }
        "collMod" => {
            if let Some(after) = command.get("expireAfterSeconds") {
                indexes.expire(&namespace, after);
            }
            if let Some(change) = command.remove("index") {
                indexes.modify(&namespace, change.as_document().ok_or("an index that is no document")?);
                return Ok((command.len() > 1).then_some(command));
            }
        }
        "create" => {
            indexes.note_series(&namespace, &command);
            NO_OPTIONS.iter().for_each(|option| drop(command.remove(option)));
        }
        "drop" => indexes.drop_collection(&namespace),
        "dropDatabase" => indexes.drop_database(database),
        "renameCollection" => {
            if let (Ok(from), Ok(to)) = (command.get_str(name), command.get_str("to")) {
                indexes.rename(from, to);
            }
        }
        _ => {}
    }
    Ok(Some(command))
}
