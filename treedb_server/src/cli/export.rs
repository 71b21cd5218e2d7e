//! `treedb export`.

use std::process::ExitCode;

use clap::Args;

use super::Failure;

/// Write a collection as JSON lines
#[derive(Debug, Args)]
pub(super) struct Export {}

impl Export {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        Ok(ExitCode::SUCCESS)
    }
}
