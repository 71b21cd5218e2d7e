//! `treedb import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::Failure;
use super::input::{Batch, Batches, CsvOptions, Field, Format, records};
use super::progress::Progress;
use super::target::{Target, TargetArgs, namespace};

/// Bad lines that are printed; the rest are only counted.
const SHOWN: u64 = 20;

/// Load a file of JSON or CSV into a collection, or the tables of another key/value database
#[derive(Debug, Args)]
#[command(after_help = "\
JSON: one document a line, or an array of documents, as JSON or MongoDB's extended JSON ({\"$oid\": ..}, {\"$date\": ..});
empty lines are skipped. Documents without an `_id` get one. The collection is created if it does not exist.

CSV and TSV: one document a row. The first row names the fields, unless --fields does; dots lead into documents
(address.city). A field may have a type, `NAME:TYPE`, there or in --types: auto (a number if it is written as one, otherwise a
text), string, int, long, double, decimal, bool, date, objectid, json. An empty cell is an empty text, and no field if it has another
type or with --ignore-blanks.

A bad line is not a document, or is a document that is refused (a duplicate key, an invalid `_id`). Each is reported
with its number and the reason. With `--on-error stop` the lines before the first bad one are in the collection, those
after it are not, and the exit status is 1.

With `--from`, every table of an LMDB, MDBX or LevelDB database becomes a table of keys and values, which the native
protocol and `treedb scan` read; one with many values under a key becomes a dup table. Entries outside of named tables
go to the table `main`. Keys and values are copied unchanged. The tables must not exist yet.

Examples:
  treedb import shop.films films.jsonl --uri mongodb://127.0.0.1:27017
  treedb import shop.films films.jsonl --indexes films.indexes --native 127.0.0.1:27117
  treedb import shop.films films.csv --types year:int,seen:date --dir ./data
  zcat films.jsonl.gz | treedb import shop.films - --dir ./data --on-error skip
  treedb import --from lmdb ./old --dir ./data")]
pub(super) struct Import {
    /// Where the documents go: DATABASE.COLLECTION
    #[arg(value_name = "DB.COLL", value_parser = namespace, required_unless_present = "from")]
    namespace: Option<String>,
    /// A file; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "from")]
    file: Option<String>,
    /// Another program's database instead: `lmdb`, `mdbx` or `leveldb`, and where it is. It is not changed
    #[arg(long, num_args = 2, value_names = ["KIND", "PATH"], conflicts_with_all = ["namespace", "file"])]
    from: Option<Vec<String>>,
    #[command(flatten)]
    target: TargetArgs,
    /// What the file is [default: by its name, .csv or .tsv; otherwise JSON, an array or lines]
    #[arg(long = "type", value_enum, value_name = "TYPE", conflicts_with = "from")]
    format: Option<Format>,
    /// The fields of the cells of a row, in their order, if the first row does not name them
    #[arg(long, value_name = "NAME[:TYPE]", value_delimiter = ',', conflicts_with = "from")]
    fields: Vec<Field>,
    /// Types of fields that the first row names
    #[arg(long, value_name = "NAME:TYPE", value_delimiter = ',', conflicts_with_all = ["from", "fields"])]
    types: Vec<Field>,
    /// Empty cells are no fields, instead of empty texts
    #[arg(long, conflicts_with = "from")]
    ignore_blanks: bool,
    /// Documents stored at a time: each batch is one transaction
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// Create the indexes in this file, which `treedb export --indexes` wrote, when the documents are there
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    indexes: Option<PathBuf>,
    /// What to do about a bad line
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Stop the import
    Stop,
    /// Report it and continue
    Skip,
}

impl Import {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(from) = &self.from {
            return self.run_tables(from);
        }
        // clap requires both.
        let (Some(namespace), Some(file)) = (&self.namespace, &self.file) else {
            return Err(Failure("an import needs DB.COLL and FILE".into()));
        };
        let (input, size) = open(file)?;
        let format = self.format.unwrap_or_else(|| Format::of(file));
        let options = CsvOptions {
            fields: self.fields.clone(),
            types: self.types.clone(),
            ignore_blanks: self.ignore_blanks,
        };
        if !format.has_cells()
            && (options.ignore_blanks || !options.fields.is_empty() || !options.types.is_empty())
        {
            return Err(Failure("--fields, --types and --ignore-blanks are for --type csv and tsv".into()));
        }
        let records = records(input, format, options).map_err(|error| Failure(format!("{file}: {error}")))?;
        let target = self.target.open(true)?;
        let batches = Batches::read(records, self.batch as usize);
        let mut load = Load {
            target,
            namespace,
            stop: self.on_error == OnError::Stop,
            progress: Progress::of_bytes("imported", size),
            imported: 0,
            bad: 0,
        };
        let mut ended = Ok(());
        for batch in batches {
            ended = match batch {
                Ok(batch) => load.store(batch),
                Err(error) => Err(Failure(format!("{file}: {error}"))),
            };
            if ended.is_err() {
                break;
            }
        }
        let Load { mut target, progress, imported, bad, .. } = load;
        if let (Ok(()), Some(file)) = (&ended, &self.indexes) {
            ended = create_indexes(&mut target, namespace, file);
        }
        if bad > SHOWN {
            progress.say(&format!("and {} more bad lines", bad - SHOWN));
        }
        progress.finish(imported, &format!("into {namespace}"));
        if bad > 0 && ended.is_ok() {
            eprintln!("skipped {bad} bad lines");
        }
        target.close()?;
        ended.map(|()| ExitCode::SUCCESS)
    }
}

impl Import {
    #[cfg(feature = "importers")]
    fn run_tables(&self, from: &[String]) -> Result<ExitCode, Failure> {
        if let ([kind, path], true) = (from, self.target.is_directory())
            && let Target::Directory(database) = self.target.open(true)?
        {
            return super::import_tables::run(kind, std::path::Path::new(path), database);
        }
        Err(Failure("--from works on a directory: use --dir DIR".into()))
    }

    #[cfg(not(feature = "importers"))]
    fn run_tables(&self, _from: &[String]) -> Result<ExitCode, Failure> {
        let how = "build it with `cargo build --release -p treedb_server --features importers`";
        Err(Failure(format!("this treedb was built without --from: {how}")))
    }
}

/// Creates the indexes that a file describes, one on each line.
fn create_indexes(target: &mut Target, namespace: &str, file: &Path) -> Result<(), Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure(format!("{}: {error}", file.display())))?;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let created = treedb_query::doc::json::from_json(line)
            .map_err(|error| Failure(error.message))
            .and_then(|spec| target.create_index(namespace, &spec));
        created.map_err(|Failure(reason)| {
            Failure(format!("{}, line {}: {reason}; the documents are imported", file.display(), at + 1))
        })?;
    }
    Ok(())
}

/// The input, and its length if that is known.
fn open(file: &str) -> Result<(Box<dyn BufRead + Send>, Option<u64>), Failure> {
    if file == "-" {
        return Ok((Box::new(BufReader::with_capacity(1 << 20, io::stdin())), None));
    }
    let name = |error: io::Error| Failure(format!("{file}: {error}"));
    let input = File::open(file).map_err(name)?;
    let metadata = input.metadata().map_err(name)?;
    if metadata.is_dir() {
        return Err(Failure(format!("{file}: is a directory")));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 20, input)), size))
}

/// A running import.
struct Load<'a> {
    target: Target,
    namespace: &'a str,
    stop: bool,
    progress: Progress,
    imported: u64,
    bad: u64,
}

impl Load<'_> {
    /// Stores a batch and reports its bad lines. An error ends the import.
    fn store(&mut self, mut batch: Batch) -> Result<(), Failure> {
        if self.stop
            && let Some(first) = batch.bad.first()
        {
            batch.documents.truncate(first.documents_before);
        }
        // Bad lines of both kinds, to be reported in the order of the file.
        let mut bad: Vec<(u64, String)> = Vec::new();
        if !batch.documents.is_empty() {
            let (inserted, refused) = self.target.insert(self.namespace, &batch.documents, self.stop)?;
            self.imported += inserted;
            let number = |at: usize| batch.numbers.get(at).copied().unwrap_or_default();
            bad.extend(refused.into_iter().map(|(at, reason)| (number(at), reason)));
        }
        bad.extend(batch.bad.into_iter().map(|line| (line.number, line.reason)));
        bad.sort_by_key(|(number, _)| *number);
        self.progress.at(batch.position, self.imported);
        for (number, reason) in bad {
            let line = format!("line {number}: {reason}");
            if self.stop {
                return Err(Failure(format!(
                    "{line}; neither this line nor any after it was imported (--on-error skip continues)"
                )));
            }
            self.bad += 1;
            if self.bad <= SHOWN {
                self.progress.say(&line);
            }
        }
        Ok(())
    }
}
