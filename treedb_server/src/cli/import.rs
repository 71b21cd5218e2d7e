//! `treedb import`.

use std::process::ExitCode;

use clap::Args;

use super::Failure;

/// Load a file of JSON lines into a collection
#[derive(Debug, Args)]
pub(super) struct Import {}

impl Import {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        Ok(ExitCode::SUCCESS)
    }
}
