//! The `treedb` command.

use std::process::ExitCode;

use clap::Parser;
use treedb_server::cli::{self, Cli};

fn main() -> ExitCode {
    cli::run(Cli::parse())
}
