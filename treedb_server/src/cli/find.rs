//! `treedb find`.

use std::process::ExitCode;

use clap::Args;

use super::Failure;

/// Query a collection and print the documents as JSON lines
#[derive(Debug, Args)]
pub(super) struct Find {}

impl Find {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        Ok(ExitCode::SUCCESS)
    }
}
