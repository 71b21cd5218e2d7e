//! `treedb export`.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use clap::Args;
use treedb_query::doc::json::to_json;

use super::Failure;
use super::progress::Progress;
use super::sync::sync_name;
use super::target::{Search, TargetArgs, json, match_all, namespace};

/// Write a collection as JSON lines
#[derive(Debug, Args)]
#[command(after_help = "\
One document a line, in MongoDB's relaxed extended JSON: plain JSON where that has the type, {\"$date\": ..} and the like where
it has not. All of it is of one moment. `--canonical` also keeps the kinds of numbers apart, so that `treedb import`
gives back the very same documents.

A file is written under a temporary name and renamed when all of it is on disk. A collection that does not exist is an error.
With --indexes a user who may not list search indexes (action listSearchIndexes) is told that they are left out; the exit status is 1 then.

Examples:
  treedb export shop.films films.jsonl --indexes films.indexes --dir ./data
  treedb export shop.films --uri mongodb://127.0.0.1:27017 --filter '{\"year\": {\"$lt\": 1990}}' | gzip >old.jsonl.gz")]
pub(super) struct Export {
    /// What to write: DATABASE.COLLECTION
    #[arg(value_name = "DB.COLL", value_parser = namespace)]
    namespace: String,
    /// Where to; `-` for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    target: TargetArgs,
    /// Only the documents that match this JSON filter
    #[arg(long, value_name = "FILTER", value_parser = json)]
    filter: Option<RawDocumentBuf>,
    /// Also write the indexes, search indexes included, to this file, one a line, for `treedb import --indexes`
    #[arg(long, value_name = "FILE")]
    indexes: Option<PathBuf>,
    /// Canonical extended JSON: every number says of which kind it is
    #[arg(long)]
    canonical: bool,
}

impl Export {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut target = self.target.open(false)?;
        target.must_have(&self.namespace)?;
        let filter = self.filter.clone().unwrap_or_else(match_all);
        let total = target.count(&self.namespace, &filter)?;
        let mut progress = Progress::of_documents("exported", total);
        let found = target.find(&self.namespace, Search { filter, ..Search::default() })?;
        let mut out = Output::open(&self.file)?;
        let mut documents = 0;
        for document in found {
            let line = self.line(&document?)?;
            if !out.line(&line)? {
                // The reader has closed the pipe.
                return Ok(ExitCode::SUCCESS);
            }
            documents += 1;
            if documents % 256 == 0 {
                progress.at(documents, documents);
            }
        }
        out.complete()?;
        let mut is_complete = true;
        if let Some(file) = &self.indexes {
            let mut out = Output::open(file)?;
            let found = target.index_specs(&self.namespace)?;
            for spec in found.specs {
                if !out.line(&to_json(&spec))? {
                    break;
                }
            }
            out.complete()?;
            if let Some(why) = found.left_out {
                progress.say(&format!("treedb: {why}"));
                is_complete = false;
            }
        }
        progress.finish(documents, &format!("from {}", self.namespace));
        target.close()?;
        Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn line(&self, document: &RawDocument) -> Result<String, Failure> {
        if !self.canonical {
            return Ok(to_json(document));
        }
        let document = Document::try_from(document)?;
        Ok(Bson::Document(document).into_canonical_extjson().to_string())
    }
}

/// The name that a file has until it is complete: in the same folder, and short, because its own may be as long as names can be.
pub(super) fn temporary_name(file: &Path) -> PathBuf {
    let mut hash = DefaultHasher::new();
    file.hash(&mut hash);
    file.with_file_name(format!(".{:016x}.{}.partial", hash.finish(), std::process::id()))
}

/// Where lines go.
pub(super) enum Output {
    Stream(BufWriter<StdoutLock<'static>>),
    File(Partial),
}

/// A file that is not complete.
pub(super) struct Partial {
    to: BufWriter<File>,
    /// The name under which it is written, until it is complete.
    temporary: Option<PathBuf>,
    /// The one that it gets then.
    file: PathBuf,
}

impl Output {
    /// A file, or standard output for `-`.
    pub(super) fn open(file: &Path) -> Result<Self, Failure> {
        if file == Path::new("-") {
            return Ok(Output::Stream(BufWriter::with_capacity(1 << 16, io::stdout().lock())));
        }
        let temporary = temporary_name(file);
        let to = File::create(&temporary).map_err(|error| Failure(format!("{}: {error}", file.display())))?;
        let to = BufWriter::with_capacity(1 << 20, to);
        Ok(Output::File(Partial { to, temporary: Some(temporary), file: file.to_owned() }))
    }

    /// Writes a line; false if the reader has closed the pipe.
    pub(super) fn line(&mut self, line: &str) -> Result<bool, Failure> {
        let to: &mut dyn Write = match self {
            Output::Stream(to) => to,
            Output::File(partial) => &mut partial.to,
        };
        let written = to.write_all(line.as_bytes()).and_then(|()| to.write_all(b"\n"));
        Self::read(written)
    }

    /// Writes what is still held back. A file gets its name when its content is on disk, and the name is on disk too then.
    pub(super) fn complete(self) -> Result<(), Failure> {
        match self {
            Output::Stream(mut to) => Self::read(to.flush()).map(drop),
            Output::File(partial) => partial.complete(),
        }
    }

    fn read(written: io::Result<()>) -> Result<bool, Failure> {
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure(format!("cannot write: {error}"))),
        }
    }
}

impl Partial {
    fn complete(mut self) -> Result<(), Failure> {
        let written = self.to.flush().and_then(|()| self.to.get_ref().sync_all());
        let named = written.and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.file),
            None => Ok(()),
        });
        named.map_err(|error| Failure(format!("{}: {error}", self.file.display())))?;
        self.temporary = None;
        sync_name(&self.file)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The export has failed, and that error is reported.
            let _ = fs::remove_file(temporary);
        }
    }
}
