//! A database in this process and a server in another one, and the paths to a collection of either.

use bson::{RawDocumentBuf, rawdoc};

use super::client::{Client, Runs, Work, together};
#[cfg(feature = "mongo-driver")]
use super::driver::{Commands, Methods};
use super::library::Library;
use super::members::Members;
use super::mongo::Bare;
use super::native::{Plain, Shared, Statements, pipelined};
use crate::Result;
use crate::server::{Done, Process, Setup, Wire};

/// The database of all collections here.
pub(super) const DATABASE: &str = "paths";

/// How clients reach a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// By the library, in this process.
    Library,
    /// By the native protocol, with statements.
    Statements,
    /// By the native protocol, with whole requests.
    Plain,
    /// By the native protocol, with statements, on one connection that all clients share.
    Shared,
    /// By MongoDB's protocol, with a client that does as little as it can.
    Bare,
    /// The same with inserts that are not answered (`w: 0`).
    Unacknowledged,
    /// By MongoDB's driver for Rust, with commands.
    #[cfg(feature = "mongo-driver")]
    Commands,
    /// By MongoDB's driver for Rust, with the methods of a collection.
    #[cfg(feature = "mongo-driver")]
    Methods,
}

impl Path {
    /// All of them, the library first.
    pub(crate) const ALL: &[Path] = &[
        Path::Library,
        Path::Statements,
        Path::Plain,
        Path::Shared,
        Path::Bare,
        Path::Unacknowledged,
        #[cfg(feature = "mongo-driver")]
        Path::Commands,
        #[cfg(feature = "mongo-driver")]
        Path::Methods,
    ];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Path::Library => "TreeDB, library",
            Path::Statements => "TreeDB, native, prepared",
            Path::Plain => "TreeDB, native, plain",
            Path::Shared => "TreeDB, native, async",
            Path::Bare => "TreeDB, MongoDB's protocol",
            Path::Unacknowledged => "TreeDB, MongoDB's protocol, w: 0",
            #[cfg(feature = "mongo-driver")]
            Path::Commands => "TreeDB, Rust driver, commands",
            #[cfg(feature = "mongo-driver")]
            Path::Methods => "TreeDB, Rust driver",
        }
    }
}

/// A database and a server. Neither flushes its commits, and both record changes.
pub(crate) struct Stores {
    library: Library,
    server: Process,
}

fn namespace(collection: &str) -> String {
    format!("{DATABASE}.{collection}")
}

/// So many clients.
fn clients<C>(count: u64, connect: impl Fn() -> Result<C>) -> Result<Vec<C>> {
    (0..count).map(|_| connect()).collect()
}

impl Stores {
    /// Both without documents.
    ///
    /// # Errors
    /// From the file system; the server does not start.
    pub(crate) fn open() -> Result<Stores> {
        Ok(Stores { library: Library::open()?, server: Process::treedb(Setup::Relaxed)? })
    }

    /// The server.
    pub(crate) fn server(&self) -> &Process {
        &self.server
    }

    /// Runs a command of the server, with this name, on a collection.
    fn command(&self, name: &str, collection: &str, options: RawDocumentBuf) -> Result<RawDocumentBuf> {
        let mut command = RawDocumentBuf::new();
        command.append(bson::raw::CString::try_from(name)?, collection);
        for option in &options {
            let (name, value) = option?;
            command.append(name, value);
        }
        command.append(bson::raw::cstr!("$db"), DATABASE);
        Wire::connect(&self.server.mongo)?.command(&command)
    }

    /// Creates a collection where a path leads; with an index on `city` and a unique one on `email` if it is `indexed`.
    ///
    /// # Errors
    /// It exists.
    pub(crate) fn create(&self, path: Path, collection: &str, indexed: bool) -> Result<()> {
        if path == Path::Library {
            return if indexed { self.library.index(&namespace(collection)) } else { Ok(()) };
        }
        self.command("create", collection, rawdoc! {})?;
        if indexed {
            let (email, city) = (rawdoc! { "email": 1 }, rawdoc! { "city": 1 });
            let email = rawdoc! { "key": email, "name": "email_1", "unique": true };
            let city = rawdoc! { "key": city, "name": "city_1" };
            self.command("createIndexes", collection, rawdoc! { "indexes": [email, city] })?;
        }
        Ok(())
    }

    /// How many documents a collection has where a path leads.
    ///
    /// # Errors
    /// The library's or the server's.
    pub(crate) fn count(&self, path: Path, collection: &str) -> Result<u64> {
        if path == Path::Library {
            return Ok(self.library.collection(&namespace(collection))?.len()?);
        }
        Ok(self.command("count", collection, rawdoc! {})?.get_i32("n")?.try_into()?)
    }

    /// Drops a collection where a path leads.
    ///
    /// # Errors
    /// The library's or the server's.
    pub(crate) fn drop(&self, path: Path, collection: &str) -> Result<()> {
        if path == Path::Library {
            return self.library.drop(&namespace(collection));
        }
        self.command("drop", collection, rawdoc! {}).map(drop)
    }

    /// Lets so many clients work on a collection at once. Their connections are open before the time begins.
    ///
    /// # Errors
    /// A client's; a document that was found is not the one that was asked for.
    pub(crate) fn run(
        &self,
        path: Path,
        collection: &str,
        count: u64,
        members: &Members,
        work: Work,
    ) -> Result<Done> {
        let namespace = namespace(collection);
        let server = &self.server;
        match path {
            Path::Library => {
                let clients = clients(count, || self.library.collection(&namespace))?;
                together(None, Runs::Threads, clients, members, work)
            }
            Path::Statements => {
                let connect = || Statements::connect(server.native()?, &namespace);
                self.blocking(clients(count, connect)?, members, work)
            }
            Path::Plain => {
                let connect = || Plain::connect(server.native()?, &namespace);
                self.blocking(clients(count, connect)?, members, work)
            }
            Path::Bare | Path::Unacknowledged => {
                let connect = || Bare::connect(&server.mongo, collection, path == Path::Bare);
                self.blocking(clients(count, connect)?, members, work)
            }
            Path::Shared => {
                let shared = Shared::connect(server.native()?, &namespace)?;
                self.tasks(clients(count, || Ok(shared.clone()))?, members, work)
            }
            #[cfg(feature = "mongo-driver")]
            Path::Commands => {
                self.tasks(clients(count, || Commands::new(server, collection))?, members, work)
            }
            #[cfg(feature = "mongo-driver")]
            Path::Methods => self.tasks(clients(count, || Methods::new(server, collection))?, members, work),
        }
    }

    fn blocking<C: Client>(&self, clients: Vec<C>, members: &Members, work: Work) -> Result<Done> {
        together(Some(&self.server), Runs::Threads, clients, members, work)
    }

    fn tasks<C: Client>(&self, clients: Vec<C>, members: &Members, work: Work) -> Result<Done> {
        together(Some(&self.server), Runs::Tasks, clients, members, work)
    }

    /// Finds documents of the server by `_id` for some time, by the native protocol on one connection, without waiting for an answer before
    /// the next request.
    ///
    /// # Errors
    /// As [`Stores::run`].
    pub(crate) fn pipelined(
        &self,
        collection: &str,
        members: &Members,
        time: std::time::Duration,
        seed: u64,
    ) -> Result<Done> {
        pipelined(&self.server, &namespace(collection), members, time, seed)
    }
}
