//! TLS: whom a client trusts.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Error, Result};

/// Whom a client trusts, and which name the server's certificate has to be for.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
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

    /// A session of rustls with the server, which has not begun, for a connection that speaks another protocol. Its type is that of the
    /// version of rustls that this crate depends on.
    ///
    /// # Errors
    /// rustls cannot make one.
    pub fn session(&self) -> Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| Error::Tls(error.to_string()))
    }

    /// What begins sessions of asynchronous clients, and the server's name.
    #[cfg(feature = "async-tls")]
    pub(crate) fn connector(&self) -> (tokio_rustls::TlsConnector, ServerName<'static>) {
        (Arc::clone(&self.config).into(), self.name.clone())
    }
}
