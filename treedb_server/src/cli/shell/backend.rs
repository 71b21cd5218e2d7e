//! What runs the commands: a server, or a directory that the shell opens itself. Both take the same commands, and running ones can be
//! stopped from another thread.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use treedb_collections::{Database, Options};

use crate::cli::local::Local;
use crate::cli::mongo_client::{HangUp, MongoClient, Uri};
use crate::cli::{Failure, error_hints};
use crate::mongo::connection::Session;

/// A server or a directory.
pub(super) enum Backend {
    Server(Box<Remote>),
    /// With its name.
    Directory(Box<Local>, String),
}

/// A server, to which the connection is made again if it was lost.
pub(super) struct Remote {
    uri: Uri,
    /// With the number that the server gives it.
    client: Option<(MongoClient, i32)>,
}

/// What Ctrl-C has to stop.
#[derive(Default)]
pub(super) struct Stop {
    running: Mutex<Option<Running>>,
}

enum Running {
    /// The command of this connection; the second time the connection itself.
    Remote {
        uri: Uri,
        connection: i32,
        hang_up: HangUp,
        asked: bool,
    },
    Local(Arc<Session>),
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        // Nothing panics while it is held.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the command that runs; false if none does. It does not wait for the server, which may hang: being called again has
    /// to end that.
    pub(super) fn stop(self: &Arc<Self>) -> bool {
        let remote = match self.lock().as_mut() {
            None => return false,
            Some(Running::Local(session)) => {
                session.kill_running();
                return true;
            }
            Some(Running::Remote { hang_up, asked: true, .. }) => {
                hang_up.hang_up();
                return true;
            }
            Some(Running::Remote { uri, connection, asked, .. }) => {
                *asked = true;
                (uri.clone(), *connection)
            }
        };
        let own = Arc::clone(self);
        let killer = move || {
            // Not while it is locked: the command may end meanwhile, and then there is nothing to be killed.
            if kill(&remote.0, remote.1).is_err()
                && let Some(Running::Remote { hang_up, asked: true, .. }) = own.lock().as_ref()
            {
                hang_up.hang_up();
            }
        };
        if std::thread::Builder::new().name("killer".to_owned()).spawn(killer).is_err()
            && let Some(Running::Remote { hang_up, .. }) = self.lock().as_ref()
        {
            hang_up.hang_up();
        }
        true
    }
}

/// Tells what a connection runs to stop, over another connection of the same user.
fn kill(uri: &Uri, connection: i32) -> Result<(), Failure> {
    let mut client = MongoClient::connect(uri)?;
    let wanted = rawdoc! { "currentOp": 1, "$ownOps": true, "connectionId": connection, "$db": "admin" };
    for found in client.run(&wanted)?.get_array("inprog")? {
        if let RawBsonRef::Document(operation) = found?
            && let Ok(op) = operation.get_i32("opid")
        {
            client.run(&rawdoc! { "killOp": 1, "op": op, "$db": "admin" })?;
        }
    }
    Ok(())
}

impl Backend {
    /// Connects to a server.
    pub(super) fn connect(uri: Uri) -> Result<Backend, Failure> {
        let mut remote = Remote { uri, client: None };
        remote.client()?;
        Ok(Backend::Server(Box::new(remote)))
    }

    /// Opens a directory.
    pub(super) fn open(dir: &Path, options: Options) -> Result<Backend, Failure> {
        let durability = options.durability;
        let database =
            Database::open_with(dir, options).map_err(|error| error_hints::directory(dir, &error))?;
        let local = Local::new(database, dir, durability)?;
        Ok(Backend::Directory(Box::new(local), dir.display().to_string()))
    }

    /// Whether a command would not have to connect first.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Backend::Server(remote) => remote.client.is_some(),
            Backend::Directory(..) => true,
        }
    }

    /// What the commands go to.
    pub(super) fn name(&self) -> String {
        match self {
            Backend::Server(remote) => match remote.uri.user_name() {
                Some(user) => format!("{} as {user}", remote.uri),
                None => remote.uri.to_string(),
            },
            Backend::Directory(_, name) => name.clone(),
        }
    }

    /// Goes on as another user, whose server it is.
    pub(super) fn log_in(&mut self, name: &str, password: &str, database: &str) -> Result<(), Failure> {
        match self {
            Backend::Server(remote) => {
                let password = crate::config::Password::new(password);
                let uri = remote.uri.clone().with_user(name, password, Some(database));
                let mut other = Remote { uri, client: None };
                other.client()?;
                **remote = other;
                Ok(())
            }
            Backend::Directory(..) => Err(Failure("a directory has no users to log in as".to_owned())),
        }
    }

    /// Runs a command, which names its database (`$db`), and returns its reply, error or not.
    pub(super) fn ask(&mut self, command: &RawDocumentBuf, stop: &Stop) -> Result<RawDocumentBuf, Failure> {
        match self {
            Backend::Directory(local, _) => {
                *stop.lock() = Some(Running::Local(Arc::clone(local.session())));
                let reply = local.ask(command);
                *stop.lock() = None;
                Ok(reply)
            }
            Backend::Server(remote) => {
                let uri = remote.uri.clone();
                let (client, connection) = remote.client()?;
                let hang_up = client.hang_up()?;
                *stop.lock() = Some(Running::Remote { uri, connection, hang_up, asked: false });
                let reply = client.ask(command);
                *stop.lock() = None;
                if reply.is_err() {
                    // Whatever else comes in is an answer to another question.
                    remote.client = None;
                }
                reply
            }
        }
    }

    /// Makes sure that everything written is on disk.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Backend::Directory(local, _) => local.close(),
            Backend::Server(_) => Ok(()),
        }
    }
}

impl Remote {
    /// The connection and its number at the server.
    fn client(&mut self) -> Result<(&mut MongoClient, i32), Failure> {
        let connected = match self.client.take() {
            Some(connected) => connected,
            None => {
                let mut client = MongoClient::connect(&self.uri)?;
                let about = rawdoc! {
                    "application": { "name": "treedb shell" },
                    "driver": { "name": "treedb", "version": env!("CARGO_PKG_VERSION") },
                    "os": { "type": std::env::consts::OS },
                };
                let hello = client.run(&rawdoc! { "hello": 1, "client": about, "$db": "admin" })?;
                (client, hello.get_i32("connectionId").unwrap_or_default())
            }
        };
        let (client, number) = self.client.insert(connected);
        Ok((client, *number))
    }
}
