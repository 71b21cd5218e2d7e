//! The socket: plain, or through TLS.
//!
//! Reading waits; sending does not, whatever the socket would do: a connection has to read while it sends.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, send};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::error::{Error, Result};

/// Whom a client trusts, and which name the server's certificate has to be for.
#[derive(Debug, Clone)]
pub struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Tls {
    /// Trusts the certificates in a file (PEM), and servers that they certify to be `name`: a host's name or an address.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate; `name` cannot be a server's.
    pub fn with_roots(name: &str, file: impl AsRef<Path>) -> Result<Self> {
        let file = file.as_ref();
        let wrong = |what: String| Error::Tls(format!("{}: {what}", file.display()));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong("there is no certificate in it (PEM)".to_owned()));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::Tls(format!("{name:?} is no name of a server")))?;
        Ok(Tls { config: Arc::new(config), name })
    }
}

/// A connected socket.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<(ClientConnection, TcpStream)>),
}

/// Writes what there is room for.
struct Unwaiting<'s>(&'s TcpStream);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    /// Connects to one of the addresses. `timeout` bounds every wait from here on.
    pub(super) fn connect(
        address: impl ToSocketAddrs,
        timeout: Option<Duration>,
        tls: Option<&Tls>,
    ) -> Result<Self> {
        let io = |op| move |source| Error::Io { op, source };
        let mut stream = match timeout {
            None => TcpStream::connect(address).map_err(io("connect"))?,
            Some(timeout) => {
                let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
                let mut stream = None;
                for address in address.to_socket_addrs().map_err(io("look up"))? {
                    match TcpStream::connect_timeout(&address, timeout) {
                        Ok(connected) => {
                            stream = Some(connected);
                            break;
                        }
                        Err(error) => last = error,
                    }
                }
                stream.ok_or(last).map_err(io("connect"))?
            }
        };
        stream.set_nodelay(true).map_err(io("set up"))?;
        stream.set_read_timeout(timeout).map_err(io("set up"))?;
        let Some(tls) = tls else { return Ok(Transport::Plain(stream)) };
        let mut session = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone())
            .map_err(|error| Error::Tls(error.to_string()))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream).map_err(io("begin TLS"))?;
        }
        Ok(Transport::Tls(Box::new((session, stream))))
    }

    /// The socket, to wait for.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => &tls.1,
        }
    }

    /// Whether something that [`Self::send`] has taken is not sent yet: it goes on with a call without bytes.
    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.0.wants_write(),
        }
    }

    /// Sends some of `bytes`, and returns how many it has taken.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; the socket's.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => Unwaiting(stream).write(bytes),
            Transport::Tls(tls) => {
                let (session, stream) = &mut **tls;
                let taken = session.writer().write(bytes)?;
                while session.wants_write() {
                    match session.write_tls(&mut Unwaiting(stream)) {
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(taken)
            }
        }
    }

    /// Waits for bytes; 0 when the server has closed the connection.
    ///
    /// # Errors
    /// The socket's, and those of TLS.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(bytes),
            Transport::Tls(tls) => {
                let (session, stream) = &mut **tls;
                loop {
                    match session.reader().read(bytes) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        done => return done,
                    }
                    session.read_tls(stream)?;
                    session.process_new_packets().map_err(io::Error::other)?;
                }
            }
        }
    }
}
