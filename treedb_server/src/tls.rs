//! TLS: the server's certificate and the authorities of its clients, read again when their files change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::stream::{Socket, Stream};

/// Time between two looks at the files.
const RELOAD: Duration = Duration::from_secs(5);

/// The files with a certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and those that certify it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authorities whose certificates MongoDB drivers are asked for; `None` asks for none.
    pub client_authorities: Option<PathBuf>,
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or does not hold what it should.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// The certificates of authorities cannot be used.
    #[error("{}: {why}", file.display())]
    Authorities {
        /// The file.
        file: PathBuf,
        /// What is wrong with them.
        why: String,
    },
    /// There is no certificate in the file.
    #[error("{}: there is no certificate in it (PEM)", .0.display())]
    NoCertificate(PathBuf),
    /// The certificate or the key cannot be used, or they do not belong together.
    #[error("{} and {}: {source}", files.certificate.display(), files.key.display())]
    Unusable {
        /// The files.
        files: Box<TlsFiles>,
        /// What is wrong with them.
        source: rustls::Error,
    },
}

/// TLS on the listeners of a server.
#[derive(Clone)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Arc<RwLock<Acceptors>>,
}

/// What connections are accepted with, from the files as they were last read. Each has sessions of its own, so that none is resumed of a
/// client whose authority is no longer trusted.
struct Acceptors {
    plain: TlsAcceptor,
    /// For connections of which a certificate may tell who they are.
    asking: TlsAcceptor,
}

/// The certificates in a file, of which there is one at least.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::File { file: file.to_owned(), source })?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(file.to_owned()));
    }
    Ok(all)
}

/// Reads the certificate and its key.
fn load(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let failed = |file: &Path| {
        let file = file.to_owned();
        |source| TlsError::File { file, source }
    };
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(failed(&files.key))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|source| TlsError::Unusable { files: Box::new(files.clone()), source })
}

impl Acceptors {
    /// TLS 1.2 and 1.3 with the certificate in these files.
    fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let certificate = Arc::new(SingleCertAndKey::from(load(files)?));
        let provider = Arc::new(ring::default_provider());
        let begin = || {
            ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .map_err(|source| TlsError::Unusable { files: Box::new(files.clone()), source })
        };
        let resolver = || Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>;
        let acceptor = |config| TlsAcceptor::from(Arc::new(config));
        let plain = acceptor(begin()?.with_no_client_auth().with_cert_resolver(resolver()));
        let asking = match &files.client_authorities {
            None => plain.clone(),
            Some(file) => {
                let unusable = |why: String| TlsError::Authorities { file: file.clone(), why };
                let mut roots = RootCertStore::empty();
                for authority in certificates(file)? {
                    roots.add(authority).map_err(|error| unusable(error.to_string()))?;
                }
                // One that has none may authenticate by a password.
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                        .allow_unauthenticated()
                        .build()
                        .map_err(|error| unusable(error.to_string()))?;
                acceptor(begin()?.with_client_cert_verifier(verifier).with_cert_resolver(resolver()))
            }
        };
        Ok(Acceptors { plain, asking })
    }
}

impl Tls {
    /// TLS 1.2 and 1.3 with a certificate.
    ///
    /// # Errors
    /// The files cannot be used; the message names them.
    pub(crate) fn new(files: TlsFiles) -> Result<Tls, TlsError> {
        let current = Arc::new(RwLock::new(Acceptors::load(&files)?));
        Ok(Tls { files, current })
    }

    /// Begins TLS on a connection; `asks` its peer for a certificate, if the server knows authorities of such.
    ///
    /// # Errors
    /// The peer does not, or not so that both understand; or it has a certificate of another authority.
    pub(crate) async fn accept(&self, stream: Socket, asks: bool) -> std::io::Result<Stream> {
        let acceptor = {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if asks { current.asking.clone() } else { current.plain.clone() }
        };
        Ok(Stream::Tls(Box::new(acceptor.accept(stream).await?)))
    }

    /// Reads the files again whenever one has changed. If one cannot be used, everything stays as it is.
    pub(crate) async fn reload(self) {
        let mut before = changed(&self.files);
        loop {
            tokio::time::sleep(RELOAD).await;
            let (files, last) = (self.files.clone(), before.clone());
            let Ok((now, loaded)) = tokio::task::spawn_blocking(move || {
                let now = changed(&files);
                let loaded = (now != last).then(|| Acceptors::load(&files));
                (now, loaded)
            })
            .await
            else {
                continue;
            };
            match loaded {
                None => continue,
                Some(Ok(loaded)) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                    tracing::info!(file = %self.files.certificate.display(), "certificate read again");
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "the changed certificates cannot be used: the former ones stay");
                }
            }
            before = now;
        }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The inode and the change time of each file, which also changes with its permissions.
fn changed(files: &TlsFiles) -> Vec<Option<(u64, i64, i64)>> {
    let all = [&files.certificate, &files.key].into_iter().chain(&files.client_authorities);
    all.map(|file| {
        let about = std::fs::metadata(file).ok()?;
        Some((about.ino(), about.ctime(), about.ctime_nsec()))
    })
    .collect()
}
