//! The key of an encrypted database, from a file.

use std::path::{Path, PathBuf};

use clap::Args;
use treedb_collections::{Durability, Key, Options};

use super::Failure;

/// How a command says the key.
#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    /// File with the key of an encrypted database: 32 bytes, or 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// The key in a file.
pub(super) fn key(file: &Path) -> Result<Key, Failure> {
    let name = file.display();
    let contents = std::fs::read(file).map_err(|error| Failure(format!("{name}: {error}")))?;
    Key::parse(&contents).ok_or_else(|| {
        Failure(format!(
            "{name}: a key file has 32 bytes or 64 hexadecimal digits, this one has {} bytes: \
             make one with `openssl rand -hex 32`",
            contents.len()
        ))
    })
}

impl KeyArgs {
    /// The key, if a file is named.
    pub(super) fn key(&self) -> Result<Option<Key>, Failure> {
        self.key_file.as_deref().map(key).transpose()
    }

    /// Options for a database that is restored: what is written is on disk when it is closed, and not with every change.
    pub(super) fn restore_options(&self) -> Result<Options, Failure> {
        let mut options = self.options()?;
        options.durability = Durability::Relaxed;
        Ok(options)
    }

    /// The default options, with the key.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        options.key = self.key()?;
        Ok(options)
    }
}
