//! The user that a command authenticates as, and passwords from files or the terminal.

use std::path::{Path, PathBuf};

use clap::Args;
use treedb_client::Client;

use super::mongo_client::Uri;
use super::{Failure, terminal};
use crate::config::Password;

/// How a command that works through a server says who runs it. What is on a command line, also in a URI, everybody on the machine can read: so
/// passwords are not.
#[derive(Debug, Args)]
pub(super) struct UserArgs {
    /// User to authenticate as, of a server started with --auth; the password is asked for unless there is a file with it
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    user: Option<String>,
    /// Where the password is read from: the first line of the file
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Database that the user belongs to [default: that of the URI's authSource, or admin]
    #[arg(long, value_name = "DATABASE", requires = "user")]
    auth_database: Option<String>,
}

impl UserArgs {
    fn password(&self) -> Result<Password, Failure> {
        match &self.password_file {
            Some(file) => password(file),
            None => Ok(Password::new(terminal::ask_password().map_err(|why| Failure(why.to_string()))?)),
        }
    }

    /// Authenticates a connection to the native port, if a user is named.
    pub(super) fn authenticate(&self, client: &mut Client) -> Result<(), Failure> {
        let Some(user) = &self.user else { return Ok(()) };
        Ok(client.authenticate(
            self.auth_database.as_deref().unwrap_or("admin"),
            user,
            self.password()?.reveal(),
        )?)
    }

    /// The server of a URI, with the user that is named, in the place of one in the URI.
    pub(super) fn of(&self, uri: &Uri) -> Result<Uri, Failure> {
        let Some(user) = &self.user else { return Ok(uri.clone()) };
        Ok(uri.clone().with_user(user, self.password()?, self.auth_database.as_deref()))
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
