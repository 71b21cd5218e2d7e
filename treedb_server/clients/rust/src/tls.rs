//! TLS: whom a client trusts, and a socket through it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::certificate::Verifier;
use crate::error::{Error, Result};

/// Whom a client trusts, and which name the server's certificate has to be for.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Trusts the certificates in a file (PEM), and servers that they certify to be `name`: a host's name or an address. A server's certificate that
    /// is its own authority may be one of those in the file.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate; `name` cannot be a server's.
    pub fn with_roots(name: &str, file: impl AsRef<Path>) -> Result<Self> {
        let file = file.as_ref();
        let wrong = |what: String| Error::Tls(format!("{}: {what}", file.display()));
        let (mut roots, mut trusted) = (RootCertStore::empty(), Vec::new());
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
            trusted.push(certificate);
        }
        if roots.is_empty() {
            return Err(wrong("there is no certificate in it (PEM)".to_owned()));
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new(trusted, roots, Arc::clone(&provider));
        let verifier = verifier.map_err(|error| wrong(error.to_string()))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::Tls(format!("{name:?} is no name of a server")))?;
        Ok(Tls { config: Arc::new(config), name })
    }

    /// Begins TLS on a connected socket, for a protocol that is not this crate's: returns when the server's certificate was found to be right.
    ///
    /// # Errors
    /// The certificate is not one that is trusted, or is of another name; what answers does not speak TLS; the socket's.
    pub fn connect(&self, mut socket: TcpStream) -> Result<TlsStream> {
        let mut session = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| Error::Tls(error.to_string()))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).map_err(|source| Error::Io { op: "begin TLS", source })?;
        }
        Ok(TlsStream { session, socket })
    }

    /// What begins sessions of asynchronous clients, and the server's name.
    #[cfg(feature = "async-tls")]
    pub(crate) fn connector(&self) -> (tokio_rustls::TlsConnector, ServerName<'static>) {
        (Arc::clone(&self.config).into(), self.name.clone())
    }
}

/// A socket through TLS: what [`Tls::connect`] makes.
#[derive(Debug)]
pub struct TlsStream {
    pub(crate) session: ClientConnection,
    pub(crate) socket: TcpStream,
}

impl TlsStream {
    /// The socket below, for its timeouts, or to shut it down. What is read from it or written to it is not for the server.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl Read for TlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.session, &mut self.socket).read(bytes)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.session, &mut self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        rustls::Stream::new(&mut self.session, &mut self.socket).flush()
    }
}
