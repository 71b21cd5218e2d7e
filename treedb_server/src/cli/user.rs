//! The user that a command authenticates as, and passwords from files.

use std::path::{Path, PathBuf};

use clap::Args;
use treedb_client::Client;

use super::Failure;
use crate::config::Password;

/// How a command says who runs it.
#[derive(Debug, Args)]
pub(super) struct UserArgs {
    /// User to authenticate as, of a server started with --auth
    #[arg(long, value_name = "NAME", requires = "password_file", conflicts_with = "dir")]
    user: Option<String>,
    /// Where the password is read from: the first line of the file
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Database that the user belongs to
    #[arg(long, value_name = "DATABASE", requires = "user", default_value = "admin")]
    auth_database: String,
}

impl UserArgs {
    /// Authenticates a connection, if a user is named.
    pub(super) fn authenticate(&self, client: &mut Client) -> Result<(), Failure> {
        let (Some(user), Some(file)) = (&self.user, &self.password_file) else { return Ok(()) };
        Ok(client.authenticate(&self.auth_database, user, password(file)?.reveal())?)
    }
}

/// The first line of a file.
pub(super) fn password(file: &Path) -> Result<Password, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Failure(format!("{name}: {error}")))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(Password::new(password)),
        _ => Err(Failure(format!("{name}: the first line, which is the password, is empty"))),
    }
}
