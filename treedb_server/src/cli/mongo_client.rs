//! A minimal client of MongoDB's wire protocol: one connection, one command at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc};
use treedb_client::{Tls, TlsStream};
use treedb_query::error::ErrorCode;

use super::{Failure, error_hints};
use crate::access::scram::{ClientExchange, Mechanism, Refused};
use crate::config::Password;
use crate::mongo::op_msg;
use crate::mongo::wire::{HEADER_BYTES, Header, OP_MSG};

/// MongoDB's default port.
const PORT: u16 = 27017;
/// Timeout of connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a server is, and who connects: `mongodb://[USER:PASSWORD@]HOST[:PORT][/[DATABASE][?authSource=DATABASE&..]]`.
#[derive(Debug, Clone)]
pub(super) struct Uri {
    host: String,
    port: u16,
    user: Option<User>,
    /// What it says after the host.
    database: Option<String>,
    /// The database that users belong to, if it says so.
    auth_source: Option<String>,
    /// File with the certificates that the server's has to be certified by, if it is connected to through TLS.
    authority: Option<PathBuf>,
}

/// Who connects.
#[derive(Debug, Clone)]
struct User {
    name: String,
    password: Password,
    database: String,
}

impl Uri {
    /// The same server, for another user: of a database, or of that which the URI says users belong to.
    pub(super) fn with_user(mut self, name: &str, password: Password, database: Option<&str>) -> Uri {
        let database = database.or(self.auth_source.as_deref()).unwrap_or("admin").to_owned();
        self.user = Some(User { name: name.to_owned(), password, database });
        self
    }

    /// Who connects, if a user does.
    pub(super) fn user_name(&self) -> Option<&str> {
        self.user.as_ref().map(|user| user.name.as_str())
    }

    /// Whether it is connected to through TLS.
    pub(super) fn is_through_tls(&self) -> bool {
        self.authority.is_some()
    }

    /// The database after the slash, if there is one.
    pub(super) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
}

/// A part of a URI without its `%`-escapes.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// An option of a URI, whose part after the host is `path`.
fn option<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let (_, options) = path.split_once('?')?;
    options.split('&').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}

/// The user of a URI, whose part after the host is `path`.
fn user(credentials: &str, path: &str) -> Option<User> {
    let (name, password) = credentials.split_once(':')?;
    let database = path.split('?').next().unwrap_or_default();
    let source = option(path, "authSource");
    let database = source.or(Some(database.trim_start_matches('/'))).filter(|name| !name.is_empty());
    Some(User {
        name: unescaped(name).filter(|name| !name.is_empty())?,
        password: Password::new(unescaped(password)?),
        database: unescaped(database.unwrap_or("admin"))?,
    })
}

impl std::str::FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Uri, String> {
        let form = || "expected mongodb://HOST:PORT, such as mongodb://127.0.0.1:27017".to_owned();
        let rest = text.strip_prefix("mongodb://").ok_or_else(form)?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = match host.rsplit_once('@') {
            Some((credentials, host)) => {
                let user = user(credentials, path)
                    .ok_or("expected USER:PASSWORD before the @; write / : @ % in them as %2F %3A %40 %25")?;
                (Some(user), host)
            }
            None => (None, host),
        };
        if host.contains(',') {
            return Err("name one server, the one whose database is to be copied".to_owned());
        }
        // The last colon, unless it is one inside the brackets of an IPv6 address.
        let (name, port) = match host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((name, port)) => (name, port.parse().map_err(|_| form())?),
            None => (host, PORT),
        };
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if name.is_empty() {
            return Err(form());
        }
        let authority = option(path, "tlsCAFile").and_then(unescaped).map(PathBuf::from);
        let tls = match option(path, "tls").or(option(path, "ssl")) {
            Some("true") => true,
            Some("false") => false,
            Some(other) => return Err(format!("tls is true or false, and not {other}")),
            // Who names certificates wants them to be asked for.
            None => authority.is_some(),
        };
        if tls && authority.is_none() {
            return Err(
                "tls=true needs tlsCAFile=FILE, with the certificates that the server's is certified by \
                        (those that Debian trusts are in /etc/ssl/certs/ca-certificates.crt)"
                    .to_owned(),
            );
        }
        let database = path.split('?').next().unwrap_or_default().trim_start_matches('/');
        let database = unescaped(database).filter(|name| !name.is_empty());
        let auth_source = option(path, "authSource").and_then(unescaped).filter(|name| !name.is_empty());
        Ok(Uri {
            host: name.to_owned(),
            port,
            user,
            database,
            auth_source,
            authority: authority.filter(|_| tls),
        })
    }
}

impl std::fmt::Display for Uri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A socket, plain or through TLS.
enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Socket {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Socket::Plain(stream) => stream.write_all(bytes),
            Socket::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn receive(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        match self {
            Socket::Plain(stream) => stream.read_exact(bytes),
            Socket::Tls(stream) => stream.read_exact(bytes),
        }
    }

    /// Begins TLS with a server whose certificate has to be certified by those in a file.
    fn secured(stream: TcpStream, at: &Uri, authority: &Path) -> Result<Socket, Failure> {
        let tls = Tls::with_roots(&at.host, authority)?;
        let stream = tls.connect(stream).map_err(|error| error_hints::tls(at, &error, authority))?;
        Ok(Socket::Tls(Box::new(stream)))
    }
}

/// Whether an error says that a client has to authenticate first.
pub(super) fn needs_user(reply: &RawDocument) -> bool {
    reply.get_i32("code").is_ok_and(|code| code == ErrorCode::Unauthorized.number())
        && reply.get_str("errmsg").is_ok_and(|message| message.ends_with("requires authentication"))
}

/// Ends a connection from another thread: who waits for a reply gets an error.
pub(super) struct HangUp(TcpStream);

impl HangUp {
    pub(super) fn hang_up(&self) {
        // If it has ended already, that is what was wanted.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// A connection.
pub(super) struct MongoClient {
    stream: Socket,
    at: Uri,
    sent: i32,
}

impl MongoClient {
    /// Connects, and authenticates as the user of the URI.
    pub(super) fn connect(at: &Uri) -> Result<MongoClient, Failure> {
        let mut client = MongoClient::open(at)?;
        if let Some(user) = &at.user {
            client.authenticate(user)?;
        }
        Ok(client)
    }

    fn authenticate(&mut self, user: &User) -> Result<(), Failure> {
        let at = self.at.to_string();
        let refused = |why: Refused| Failure(format!("{at}: {why}"));
        let binary =
            |message: &str| Binary { subtype: BinarySubtype::Generic, bytes: message.as_bytes().to_vec() };
        let payload = |reply: &RawDocument| {
            reply.get_binary("payload").map(|found| found.bytes.to_vec()).unwrap_or_default()
        };
        let mechanism = Mechanism::Sha256;
        let (mut exchange, first) =
            ClientExchange::new(mechanism, &user.name, user.password.reveal()).map_err(refused)?;
        let database = user.database.as_str();
        let reply = self.run(&rawdoc! {
            "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(&first),
            "options": { "skipEmptyExchange": true }, "$db": database,
        })?;
        let proof = exchange.answer(&payload(&reply)).map_err(refused)?;
        let id = reply.get_i32("conversationId").unwrap_or_default();
        let reply = self.run(&rawdoc! {
            "saslContinue": 1, "conversationId": id, "payload": binary(&proof), "$db": database,
        })?;
        exchange.verify(&payload(&reply)).map_err(refused)
    }

    fn open(at: &Uri) -> Result<MongoClient, Failure> {
        let failed = |error: std::io::Error| {
            let hint = match error.kind() {
                ErrorKind::ConnectionRefused => {
                    ": no server listens on that port: start one with treedb serve, or use the port of a running one"
                }
                _ => "",
            };
            Failure(format!("{at}: {error}{hint}"))
        };
        let mut last = ErrorKind::AddrNotAvailable.into();
        for address in (at.host.as_str(), at.port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(failed)?;
                    let stream = match &at.authority {
                        Some(authority) => Socket::secured(stream, at, authority)?,
                        None => Socket::Plain(stream),
                    };
                    return Ok(MongoClient { stream, at: at.clone(), sent: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// What ends the connection from another thread.
    pub(super) fn hang_up(&self) -> Result<HangUp, Failure> {
        let stream = match &self.stream {
            Socket::Plain(stream) => stream.try_clone(),
            Socket::Tls(stream) => stream.socket().try_clone(),
        };
        Ok(HangUp(stream?))
    }

    /// Runs a command, which names its database (`$db`), and waits for its reply without a timeout: of an error too.
    pub(super) fn ask(&mut self, command: &RawDocument) -> Result<RawDocumentBuf, Failure> {
        self.exchange(command).map_err(|error| error_hints::exchange(&self.at, &error, self.sent == 1))
    }

    /// Runs a command as [`Self::ask`] does, and makes errors of replies that are.
    pub(super) fn run(&mut self, command: &RawDocument) -> Result<RawDocumentBuf, Failure> {
        let reply = self.ask(command)?;
        self.checked(reply)
    }

    /// Runs a command as [`Self::run`] does; `None` if it fails because a collection does not exist.
    pub(super) fn run_on_existing(
        &mut self,
        command: &RawDocument,
    ) -> Result<Option<RawDocumentBuf>, Failure> {
        let reply = self.ask(command)?;
        let missing = reply.get_i32("code").is_ok_and(|code| code == ErrorCode::NamespaceNotFound.number());
        if missing { Ok(None) } else { self.checked(reply).map(Some) }
    }

    /// A reply that is no error.
    pub(super) fn checked(&self, reply: RawDocumentBuf) -> Result<RawDocumentBuf, Failure> {
        if reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) {
            return Ok(reply);
        }
        let message = reply.get_str("errmsg").unwrap_or("the server reported an error without a message");
        let hint = if needs_user(&reply) { ": say who you are with --user and --password-file" } else { "" };
        Err(Failure(format!("{}: {message}{hint}", self.at)))
    }

    fn exchange(&mut self, command: &RawDocument) -> std::io::Result<RawDocumentBuf> {
        let wrong = |what: &str| std::io::Error::new(ErrorKind::InvalidData, what.to_owned());
        self.sent = self.sent.wrapping_add(1);
        self.stream.send(&op_msg::message(self.sent, 0, command))?;
        let mut header = [0; HEADER_BYTES];
        self.stream.receive(&mut header)?;
        let header = Header::parse(header).map_err(|error| wrong(&error.to_string()))?;
        let mut body = vec![0; header.length - HEADER_BYTES];
        self.stream.receive(&mut body)?;
        match body.split_at_checked(5) {
            Some((_, document)) if header.opcode == OP_MSG => {
                RawDocumentBuf::from_bytes(document.to_vec()).map_err(|error| wrong(&error.to_string()))
            }
            _ => Err(wrong(
                "the answer is not a message of MongoDB's protocol: is it the port for MongoDB drivers?",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_read_from_a_uri() {
        for (text, expected) in [
            ("mongodb://ann:secret@h", ("ann", "secret", "admin")),
            ("mongodb://ann:p%40ss%3A@h:5/shop", ("ann", "p@ss:", "shop")),
            ("mongodb://ann:secret@h/shop?tls=false&authSource=users", ("ann", "secret", "users")),
            ("mongodb://ann:secret@h/?authSource=users", ("ann", "secret", "users")),
            ("mongodb://ann:secret@h/?directConnection=true", ("ann", "secret", "admin")),
        ] {
            let uri = text.parse::<Uri>().unwrap();
            assert!(!format!("{uri} {uri:?}").contains(expected.1));
            let user = uri.user.unwrap();
            assert_eq!((&*user.name, user.password.reveal(), &*user.database), expected);
        }
    }

    #[test]
    fn a_user_who_is_named_beside_a_uri_is_of_the_database_that_it_says_users_belong_to() {
        for (text, named, expected) in [
            ("mongodb://h/shop", None, "admin"),
            ("mongodb://h/shop?authSource=users", None, "users"),
            ("mongodb://h/shop?authSource=users", Some("shop"), "shop"),
        ] {
            let uri = text.parse::<Uri>().unwrap().with_user("ann", Password::new("secret"), named);
            assert_eq!(uri.user.unwrap().database, expected);
        }
    }

    #[test]
    fn an_address_is_read_from_a_uri_or_refused_with_what_to_write() {
        for (text, address) in [
            ("mongodb://localhost", "localhost:27017"),
            ("mongodb://127.0.0.1:27018/?directConnection=true", "127.0.0.1:27018"),
            ("mongodb://[::1]:5/admin", "[::1]:5"),
            ("mongodb://[::1]", "[::1]:27017"),
        ] {
            assert_eq!(text.parse::<Uri>().unwrap().to_string(), address);
        }
        for (text, message) in [
            ("127.0.0.1:27017", "mongodb://HOST:PORT"),
            ("mongodb://", "mongodb://HOST:PORT"),
            ("mongodb://h:port", "mongodb://HOST:PORT"),
            ("mongodb://me@h", "USER:PASSWORD"),
            ("mongodb://:secret@h", "USER:PASSWORD"),
            ("mongodb://me:%zz@h", "%40"),
            ("mongodb://a,b", "one server"),
            ("mongodb://h/?tls=true", "tlsCAFile"),
            ("mongodb://h/?tls=yes", "true or false"),
        ] {
            let error = text.parse::<Uri>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
