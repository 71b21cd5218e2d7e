//! `treedb scan`.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use treedb_collections::{QueryError, Store};
use treedb_storage::{Reads, TableKind};

use super::key::KeyArgs;
use super::{Failure, error_hints, target};
use crate::native::TABLES;

/// List the tables of keys and values, or print what is in one
#[derive(Debug, Args)]
#[command(after_help = "\
Tables of keys and values are made by programs through the native protocol and by `treedb import --from`. Without a
TABLE their names, kinds and numbers of entries are printed; with one, a line for each entry: the key, a tab, the value.
Bytes that are not printable are written as \\n, \\t, \\\\ or \\x00.

Examples:
  treedb scan --dir ./data
  treedb scan --dir ./data users --prefix 'user:' --limit 10")]
pub(super) struct Scan {
    /// The table; all are listed without it
    #[arg(value_name = "TABLE")]
    table: Option<String>,
    /// The directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
    /// Only keys that begin so
    #[arg(long, value_name = "TEXT", default_value = "", requires = "table")]
    prefix: String,
    /// The most entries to print; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    limit: usize,
}

impl Scan {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        target::must_exist(&self.dir)?;
        let opened = Store::open_with(&self.dir, self.key.options()?);
        let store = opened.map_err(|error| error_hints::directory(&self.dir, &QueryError::from(error)))?;
        let read = store.begin_read()?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let Some(name) = &self.table else {
            for table in read.tables()? {
                let Some(name) = table.name().strip_prefix(TABLES) else { continue };
                let kind =
                    if table.kind() == TableKind::Dup { "many values a key" } else { "one value a key" };
                writeln!(out, "{name}\t{} entries\t{kind}", read.len(&table)?)?;
            }
            out.flush()?;
            return Ok(ExitCode::SUCCESS);
        };
        let table = read.table(&format!("{TABLES}{name}"))?;
        let table = table.ok_or_else(|| {
            Failure(format!("there is no table {name:?}: treedb scan --dir DIR lists them"))
        })?;
        let most = if self.limit == 0 { usize::MAX } else { self.limit };
        let mut put =
            |key: &[u8], value: &[u8]| writeln!(out, "{}\t{}", key.escape_ascii(), value.escape_ascii());
        if table.kind() == TableKind::Dup {
            let mut cursor = read.dup_cursor(&table)?;
            let mut on = cursor.seek(self.prefix.as_bytes())?;
            let mut left = most;
            while let Some((key, value)) = cursor.pair()?.filter(|_| on && left > 0) {
                if !key.starts_with(self.prefix.as_bytes()) {
                    break;
                }
                put(key, value)?;
                on = cursor.next()?;
                left -= 1;
            }
        } else {
            for entry in read.prefix(&table, self.prefix.as_bytes())?.take(most) {
                let (key, value) = entry?;
                put(&key, value)?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
