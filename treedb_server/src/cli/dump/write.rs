//! `treedb dump`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bson::Timestamp;
use clap::Args;
use treedb_collections::Namespace;

use super::file::{Metadata, Sink, Unfinished, escaped, remove};
use super::found_indexes::FoundIndexes;
use super::oplog::{self, End, shown};
use super::place::{Listed, Place, PlaceArgs};
use crate::cli::Failure;
use crate::cli::progress::Progress;
use crate::cli::sync::{create_folder, sync_folder};

/// Write databases as BSON files, which mongorestore and `treedb restore` read
#[derive(Debug, Args)]
#[command(after_help = "\
The layout is that of mongodump: TO/database/collection.bson with the documents, and collection.metadata.json with options and
indexes beside it. Each collection is of one moment, and several are of several moments, unless --oplog adds what was changed
meanwhile: then `treedb restore --oplog-replay` or `mongorestore --oplogReplay` makes of them what there was when the dump ended.
`treedb backup` copies everything as of one moment, users included, which a dump leaves out. What is changed after the dump can be
archived: see `treedb archive`.

Files are written under temporary names and renamed when they are on disk. Until all are, TO has a file dump.unfinished, by which
`treedb restore` refuses a dump that was interrupted. Those of an earlier dump of the same collections are replaced, compressed
or not; those of collections that are not dumped stay, dropped ones too, as mongodump leaves them, and would be restored: dump
into an empty directory for a copy of what there is now.

A user who may not list the search indexes of a collection (action listSearchIndexes) is told that they are left out; everything else is
dumped, and the exit status is 1.

Examples:
  treedb dump --dir ./data /mnt/dump
  treedb dump --uri mongodb://127.0.0.1:27017 --only shop --gzip /mnt/dump
  treedb restore /mnt/dump --uri mongodb://127.0.0.1:27018 --drop
  treedb dump --uri mongodb://127.0.0.1:27017 --oplog /mnt/dump
  treedb restore /mnt/dump --dir ./data --oplog-replay")]
pub(in crate::cli) struct Dump {
    /// Where to: a directory, created if missing
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// Only this database, or this collection of it
    #[arg(long, value_name = "DB[.COLL]")]
    only: Option<String>,
    /// Compress the files
    #[arg(long)]
    gzip: bool,
    /// Add oplog.bson, with what is changed during the dump. It fails if a collection is renamed meanwhile
    #[arg(long, conflicts_with = "only")]
    oplog: bool,
}

/// Whether a collection is wanted.
pub(super) fn is_wanted(only: Option<&str>, database: &str, collection: &str) -> bool {
    match only.map(|only| only.split_once('.').unwrap_or((only, ""))) {
        None => true,
        Some((wanted, "")) => wanted == database,
        Some((wanted, name)) => wanted == database && name == collection,
    }
}

impl Dump {
    pub(in crate::cli) fn run(self) -> Result<ExitCode, Failure> {
        let mut place = self.place.open(false)?;
        let only = self.only.as_deref();
        let since = self.oplog.then(|| place.oplog_end(End::Newest)).transpose()?;
        let mut wanted: Vec<(String, Listed, u64)> = Vec::new();
        for database in place.databases()? {
            for listed in place.collections(&database)? {
                if is_wanted(only, &database, &listed.name) {
                    // Another server's names become names of files, and of collections when they are restored.
                    Namespace::new(&database, &listed.name)?;
                    let count = if listed.is_view() { 0 } else { place.count(&database, &listed.name)? };
                    wanted.push((database.clone(), listed, count));
                }
            }
        }
        if let (true, Some(only)) = (wanted.is_empty(), only) {
            return Err(Failure(format!("there is nothing called {only}")));
        }
        let total = wanted.iter().map(|(.., count)| count).sum();
        let mut progress = Progress::of_documents("dumped", total);
        let mut documents = 0;
        let mut is_complete = true;
        let mut folders = BTreeSet::new();
        create_folder(&self.to)?;
        let unfinished = Unfinished::mark(&self.to)?;
        // That of an earlier dump says nothing of this one.
        remove(&self.to.join(oplog::FILE))?;
        for (database, listed, _) in wanted {
            let folder = self.to.join(escaped(&database));
            create_folder(&folder)?;
            is_complete &=
                self.collection(&mut place, &folder, &database, listed, &mut documents, &mut progress)?;
            folders.insert(folder);
        }
        if let Some(since) = since {
            self.oplog(&mut place, since)?;
            folders.insert(self.to.clone());
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))?;
        unfinished.complete()?;
        progress.finish(documents, &format!("to {}", self.to.display()));
        place.close()?;
        Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Writes what was changed since the dump began.
    fn oplog(&self, place: &mut Place, since: Timestamp) -> Result<(), Failure> {
        let until = place.oplog_end(End::Newest)?;
        let mut sink = Sink::named(self.to.join(oplog::FILE), self.gzip)?;
        let mut first = None;
        place.oplog(since, until, &mut |entry| {
            first = first.or(Some(entry.get_timestamp("ts")?));
            let renamed = entry.get_document("o").is_ok_and(|o| o.get_str("renameCollection").is_ok());
            if renamed && entry.get_str("op").is_ok_and(|op| op == "c") {
                return Err(Failure(
                    "a collection was renamed during the dump, which may have it under neither name: dump again"
                        .to_owned(),
                ));
            }
            sink.write(entry.as_bytes())
        })?;
        if first != Some(since) {
            return Err(Failure(format!(
                "the oplog no longer has the changes since the dump began, at {}: keep them for longer (treedb serve --change-hours, \
                 --change-bytes)",
                shown(since)
            )));
        }
        sink.complete()
    }

    /// Writes a collection or a view. False if something was left out, which was said.
    fn collection(
        &self,
        place: &mut Place,
        folder: &Path,
        database: &str,
        listed: Listed,
        documents: &mut u64,
        progress: &mut Progress,
    ) -> Result<bool, Failure> {
        let name = escaped(&listed.name);
        let is_view = listed.is_view();
        let kind = match () {
            () if is_view => "view",
            () if listed.options.contains_key("timeseries") => "timeseries",
            () => "collection",
        };
        let found = if is_view { FoundIndexes::default() } else { place.indexes(database, &listed.name)? };
        if let Some(why) = &found.left_out {
            progress.say(&format!("treedb: {why}"));
        }
        let data = folder.join(format!("{name}.bson"));
        if !is_view {
            let mut sink = Sink::create(&data, self.gzip)?;
            place.read(database, &listed.name, &mut |document| {
                sink.write(document.as_bytes())?;
                *documents += 1;
                if documents.is_multiple_of(256) {
                    progress.at(*documents, *documents);
                }
                Ok(())
            })?;
            sink.complete()?;
        }
        let metadata = Metadata {
            name: listed.name,
            kind: kind.to_owned(),
            uuid: listed.uuid,
            options: listed.options,
            indexes: found.ordinary,
            search_indexes: found.search,
        };
        let mut sink = Sink::create(&folder.join(format!("{name}.metadata.json")), self.gzip)?;
        sink.write(metadata.to_json().as_bytes())?;
        sink.complete()?;
        // A collection may have been called that before.
        if is_view {
            remove(&data)?;
        }
        Ok(found.left_out.is_none())
    }
}
