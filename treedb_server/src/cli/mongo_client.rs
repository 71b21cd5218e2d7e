//! A minimal client of MongoDB's wire protocol: one connection, one command at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};

use super::Failure;
use crate::mongo::op_msg;
use crate::mongo::wire::{HEADER_BYTES, Header, OP_MSG};

/// MongoDB's default port.
const PORT: u16 = 27017;
/// Timeout of connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a server is: the host and port of a `mongodb://HOST[:PORT][/...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uri {
    host: String,
    port: u16,
}

impl std::str::FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Uri, String> {
        let form = || "expected mongodb://HOST:PORT, such as mongodb://127.0.0.1:27017".to_owned();
        let rest = text.strip_prefix("mongodb://").ok_or_else(form)?;
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        if host.contains('@') {
            return Err("this version has no authentication: leave out user and password".to_owned());
        }
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
        Ok(Uri { host: name.to_owned(), port })
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

/// A connection.
pub(super) struct MongoClient {
    stream: TcpStream,
    at: Uri,
    sent: i32,
}

impl MongoClient {
    /// Connects.
    pub(super) fn connect(at: &Uri) -> Result<MongoClient, Failure> {
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
                    return Ok(MongoClient { stream, at: at.clone(), sent: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Runs a command, which names its database (`$db`), and waits for its reply without a timeout.
    pub(super) fn run(&mut self, command: &RawDocument) -> Result<RawDocumentBuf, Failure> {
        let reply = self.exchange(command).map_err(|error| Failure(format!("{}: {error}", self.at)))?;
        if reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) {
            return Ok(reply);
        }
        let message = reply.get_str("errmsg").unwrap_or("the server reported an error without a message");
        Err(Failure(format!("{}: {message}", self.at)))
    }

    fn exchange(&mut self, command: &RawDocument) -> std::io::Result<RawDocumentBuf> {
        let wrong = |what: &str| std::io::Error::new(ErrorKind::InvalidData, what.to_owned());
        self.sent = self.sent.wrapping_add(1);
        self.stream.write_all(&op_msg::message(self.sent, 0, command))?;
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let header = Header::parse(header).map_err(|error| wrong(&error.to_string()))?;
        let mut body = vec![0; header.length - HEADER_BYTES];
        self.stream.read_exact(&mut body)?;
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
            ("mongodb://me:secret@h", "no authentication"),
            ("mongodb://a,b", "one server"),
        ] {
            let error = text.parse::<Uri>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
