//! Whether a server's certificate is to be trusted.
//!
//! It has to be certified by one that is trusted, as on the web. An authority's certificate can also be a server's: `openssl req -x509` makes one that is
//! both. webpki refuses it as a server's, since what an authority has certified is meant to be another certificate; OpenSSL and
//! MongoDB's drivers accept it, and so is it here: a certificate that is one of the trusted, byte for byte, is certified by being so. It must
//! be valid now, and be for the server's name, as others have to. What else it says of its use (extended key usage, name constraints) is not looked at:
//! whoever has its key could certify any.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, VerifierBuilderError};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};

/// Decides by the certificates that are trusted.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// Checks what they certify.
    certified: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Trusts `trusted`, which are in `roots` too.
    ///
    /// # Errors
    /// `roots` is empty.
    pub(crate) fn new(
        trusted: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let certified = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Verifier { certified, trusted })
    }

    fn is_trusted(&self, certificate: &CertificateDer<'_>) -> bool {
        self.trusted.iter().any(|trusted| trusted.as_ref() == certificate.as_ref())
    }
}

/// Whether a certificate was refused because it is an authority's, which webpki says only of one that it has found valid now.
fn is_authority(refused: &Error) -> bool {
    match refused {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => {
            matches!(why.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.certified.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(refused) if is_authority(&refused) && self.is_trusted(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.certified.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.certified.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.certified.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.certified.root_hint_subjects()
    }
}
