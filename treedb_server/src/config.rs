//! The configuration of a server: addresses and limits.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use treedb_collections::{ChangeLogOptions, Key};
use treedb_storage::Durability;

pub use crate::mongo::compression::Compressors;
use crate::tls::TlsFiles;

/// Largest message on either protocol, in bytes, header included: the value that `hello` reports to MongoDB's drivers.
pub const MAX_MESSAGE_BYTES: usize = treedb_protocol::frame::MAX_FRAME;

/// Bytes of a message, on either protocol, that are read before its part of the budget is asked for; and the longest
/// answer that is sent without. What is sent slowly or never holds nothing.
pub(crate) const FREE_BYTES: usize = 64 * 1024;

/// How long a client that has not authenticated may send nothing, where clients have to. Monitoring connections of drivers never
/// do, but send something every ten seconds.
pub(crate) const UNAUTHENTICATED_IDLE: Duration = Duration::from_secs(120);

/// A server's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the database; created if missing.
    pub dir: PathBuf,
    /// The key of an encrypted database.
    pub key: Option<Key>,
    /// Maximal bytes of pages in memory; `None` leaves it to the system, or for encrypted databases to their default.
    pub cache_bytes: Option<u64>,
    /// Maximal bytes of the copies of vector indexes in memory, and of the graphs of those that are being built; `None` for the default of
    /// [`treedb_collections::Database::set_vector_memory`].
    pub vector_memory: Option<u64>,
    /// Threads that build a vector index; `None` for as many as there are cores.
    pub vector_build_threads: Option<usize>,
    /// Whether stopping saves the copies of vector indexes in files.
    pub save_vector_images: bool,
    /// The durability of writes that do not specify one.
    pub durability: Durability,
    /// Whether changes are recorded, for change streams.
    pub changes: Changes,
    /// Where MongoDB's drivers connect.
    pub mongo: Address,
    /// The name of the replica set of which the server is the only member, for drivers; `None`: it is a standalone.
    pub replica_set: Option<String>,
    /// The address that drivers are told of, as the member of that replica set; `None`: where it listens.
    pub advertised: Option<String>,
    /// Commands that make others fail, for tests of drivers.
    pub test_commands: bool,
    /// Compressors that are offered to MongoDB's drivers.
    pub compressors: Compressors,
    /// Where native clients connect.
    pub native: Option<Address>,
    /// Where `/livez`, `/readyz` and `/metrics` answer.
    pub admin: Option<Address>,
    /// Whether there is the web page too; `None`: if clients have to authenticate.
    pub web_page: Option<bool>,
    /// Certificate and key: clients of `mongo`, `native` and `admin` have to use TLS then.
    pub tls: Option<TlsFiles>,
    /// Whether clients have to authenticate.
    pub authentication: bool,
    /// Name and password of the user that is created with the role `root` if there is no user.
    pub first_user: Option<(String, Password)>,
    /// Listeners that may be used without authentication from other machines.
    pub allow_unprotected: Vec<Unprotected>,
    /// Limits.
    pub limits: Limits,
}

/// A password, which is not shown.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// A password.
    pub fn new(password: impl Into<String>) -> Password {
        Password(password.into())
    }

    /// As it is.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Whether changes are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Changes {
    /// As stored in the database; a new database records them.
    #[default]
    Unspecified,
    /// No; recorded changes are removed.
    Off,
    /// Yes, and kept within these limits.
    On(ChangeLogOptions),
}

/// The limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections over all listeners except the admin port. Further ones are closed at once.
    pub connections: usize,
    /// Bytes of requests in progress and of unread answers, over all connections. Further requests wait, unread.
    /// At least [`MAX_MESSAGE_BYTES`].
    pub inflight_bytes: usize,
    /// Commands executed at a time: threads that may wait for the disk. Half as many more writes may wait for open transactions. All but a
    /// sixteenth of these threads may wait for the next message of a connection.
    pub blocking_threads: usize,
    /// How long a peer may take to send each 1 MiB of a message, or to read it of an answer, or what is left of them.
    pub stall: Duration,
    /// How long a cursor may be idle before it is closed; it pins a snapshot.
    pub cursor_idle: Duration,
    /// Open cursors.
    pub cursors: usize,
    /// Open transactions of the Mongo protocol.
    pub transactions: usize,
    /// Bytes of changes that all of them together may hold; one may hold [`treedb_collections::MAX_TRANSACTION_BYTES`].
    pub transaction_bytes: usize,
    /// How long a transaction may take before it is aborted; it pins a snapshot.
    pub transaction_life: Duration,
    /// Sessions that have started a transaction or sent a retryable write.
    pub sessions: usize,
    /// How long running commands get to finish when the server stops.
    pub shutdown_grace: Duration,
    /// How long a command has to take to be logged as slow, until `profile` or `setParameter` says something else.
    pub slow: Duration,
}

impl Limits {
    /// Connections that clients of one address may have before they authenticate, on a server that asks for it: half of all. An
    /// application has some that never do, by which its driver watches the server.
    pub(crate) fn connections_of_strangers(&self) -> usize {
        self.connections.div_ceil(2)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1_000,
            inflight_bytes: 256 << 20,
            blocking_threads: 1_024,
            stall: Duration::from_secs(30),
            cursor_idle: Duration::from_secs(600),
            cursors: 10_000,
            transactions: 1_000,
            transaction_bytes: 1 << 30,
            transaction_life: Duration::from_secs(60),
            sessions: 100_000,
            shutdown_grace: Duration::from_secs(10),
            slow: Duration::from_millis(100),
        }
    }
}

impl Limits {
    /// Writes that may wait for open transactions at a time. Each has a thread.
    pub(crate) fn waiting_writes(&self) -> usize {
        self.blocking_threads / 2
    }

    /// Connections that may wait for their next message on a thread of their own: those beyond cost several wake-ups for each message. Also
    /// if all of them are busy, and as many writes wait as may, some threads are left for the commands of others.
    pub(crate) fn lingering_connections(&self) -> usize {
        self.blocking_threads.saturating_sub((self.blocking_threads / 16).max(1))
    }

    /// Threads that may block: however many writes wait, there are [`Self::blocking_threads`] for other commands, so that a transaction
    /// which is waited for can go on.
    pub(crate) fn threads(&self) -> usize {
        self.blocking_threads + self.waiting_writes()
    }
}

/// An address to listen on. Port 0 lets the system choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    socket: SocketAddr,
    is_loopback: bool,
}

impl Address {
    /// The address.
    pub fn socket(self) -> SocketAddr {
        self.socket
    }

    /// Whether only programs on the same machine can connect.
    pub fn is_loopback(self) -> bool {
        self.is_loopback
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all: Vec<SocketAddr> = text
            .to_socket_addrs()
            .map_err(|error| format!("expected HOST:PORT, such as 127.0.0.1:27017 ({error})"))?
            .collect();
        let is_loopback = all.iter().all(|address| address.ip().to_canonical().is_loopback());
        let socket = all.first().copied().ok_or_else(|| "the name has no address".to_owned())?;
        Ok(Address { socket, is_loopback })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

/// A listener that clients need not authenticate on, though other machines can connect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unprotected {
    /// MongoDB's drivers and native clients.
    Clients,
    /// `/livez`, `/readyz` and `/metrics`.
    Admin,
}

impl Config {
    /// The first listener that other machines can connect to without authentication, although that is not allowed.
    pub(crate) fn unprotected(&self) -> Option<(&'static str, Address, Unprotected)> {
        let clients = [("mongo", Some(self.mongo)), ("native", self.native)]
            .map(|(door, address)| (door, address, self.authentication, Unprotected::Clients));
        let admin = ("admin", self.admin, false, Unprotected::Admin);
        clients.into_iter().chain([admin]).find_map(|(door, address, protected, kind)| {
            let address = address.filter(|address| !address.is_loopback())?;
            (!protected && !self.allow_unprotected.contains(&kind)).then_some((door, address, kind))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_loopback_or_not() {
        for text in ["127.0.0.1:0", "127.9.9.9:27017", "localhost:1", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
            assert!(text.parse::<Address>().unwrap().is_loopback(), "{text}");
        }
        for text in ["0.0.0.0:27017", "[::]:27017", "10.0.0.1:27017"] {
            assert!(!text.parse::<Address>().unwrap().is_loopback(), "{text}");
        }
        assert!("27017".parse::<Address>().unwrap_err().contains("HOST:PORT"));
    }

    #[test]
    fn beyond_loopback_clients_authenticate_unless_that_is_allowed_explicitly() {
        let address = |text: &str| text.parse::<Address>().unwrap();
        let (here, everywhere) = (address("127.0.0.1:0"), address("0.0.0.0:0"));
        let config = |mongo, native, admin, authentication, allow_unprotected| Config {
            dir: PathBuf::new(),
            key: None,
            cache_bytes: None,
            vector_memory: None,
            vector_build_threads: None,
            save_vector_images: true,
            durability: Durability::Durable,
            changes: Changes::Off,
            mongo,
            replica_set: None,
            advertised: None,
            compressors: Compressors::ALL,
            test_commands: false,
            native,
            admin,
            web_page: None,
            tls: None,
            authentication,
            first_user: None,
            allow_unprotected,
            limits: Limits::default(),
        };
        let unprotected = |config: Config| config.unprotected().map(|(door, ..)| door);
        assert_eq!(unprotected(config(here, Some(here), Some(here), false, vec![])), None);
        assert_eq!(unprotected(config(everywhere, None, None, false, vec![])), Some("mongo"));
        assert_eq!(unprotected(config(everywhere, None, None, true, vec![])), None);
        assert_eq!(unprotected(config(everywhere, None, None, false, vec![Unprotected::Clients])), None);
        assert_eq!(unprotected(config(here, Some(everywhere), None, false, vec![])), Some("native"));
        assert_eq!(unprotected(config(here, None, Some(everywhere), true, vec![])), Some("admin"));
        assert_eq!(
            unprotected(config(here, None, Some(everywhere), true, vec![Unprotected::Clients])),
            Some("admin")
        );
        assert_eq!(unprotected(config(here, None, Some(everywhere), true, vec![Unprotected::Admin])), None);
    }
}
