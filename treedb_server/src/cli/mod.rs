//! The `treedb` command: one file per subcommand, each with its flags and what it does.

mod backup;
mod check;
mod check_server;
mod compact;
mod drivers;
mod dump;
mod error_hints;
mod export;
mod find;
mod foreign_flags;
mod import;
#[cfg(feature = "importers")]
mod import_tables;
mod input;
mod key;
mod local;
mod mongo_client;
mod progress;
mod rewind;
mod scan;
mod serve;
mod shell;
mod sync;
mod target;
mod terminal;
mod user;

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const FIRST_STEPS: &str = "\
First steps:
  treedb serve --dir ./data                                      a server for MongoDB's drivers, on 127.0.0.1:27017
  treedb shell                                                   what mongosh understands, without JavaScript
  treedb restore ./dump --uri mongodb://127.0.0.1:27017          what mongodump has written
  treedb import shop.films films.jsonl --uri mongodb://127.0.0.1:27017
  treedb backup --uri mongodb://127.0.0.1:27017 /mnt/backups/monday

treedb help COMMAND has examples of each.";

/// TreeDB: a document database, its server and its tools.
#[derive(Debug, Parser)]
#[command(
    name = "treedb",
    version,
    propagate_version = true,
    args_override_self = true,
    after_help = FIRST_STEPS,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Import(import::Import),
    Export(export::Export),
    Find(find::Find),
    Shell(shell::Shell),
    Scan(scan::Scan),
    Check(check::Check),
    Compact(compact::Compact),
    Dump(dump::Dump),
    Archive(dump::Archive),
    Backup(backup::Backup),
    Restore(backup::Restore),
}

/// The error message of a subcommand. It ends the process with status 1.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

/// The command line. One that is wrong ends the process with status 2, and says what to write instead.
pub fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| match foreign_flags::hint(&error) {
        Some(hint) => {
            let _ = error.print();
            eprintln!("\nhere: {hint}");
            std::process::exit(2)
        }
        None => error.exit(),
    })
}

/// Runs the command. Failures go to standard error as `treedb: ...`.
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Import(import) => import.run(),
        Command::Export(export) => export.run(),
        Command::Find(find) => find.run(),
        Command::Shell(shell) => shell.run(),
        Command::Scan(scan) => scan.run(),
        Command::Check(check) => check.run(),
        Command::Compact(compact) => compact.run(),
        Command::Dump(dump) => dump.run(),
        Command::Archive(archive) => archive.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("treedb: {failure}");
            ExitCode::FAILURE
        }
    }
}
