//! The verifier of client certificates: limits of a chain, its signatures, its purpose, and blocks.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::blocked::Blocked;
use crate::chain;

/// Accepts clients that the library accepts, if their chains are within the limits and not blocked, and their
/// certificates are for clients.
#[derive(Debug)]
pub(crate) struct Callers {
    /// The library's verifier: signatures, validity, revocation lists.
    pub(crate) library: Arc<dyn ClientCertVerifier>,
    pub(crate) blocked: Blocked,
}

impl ClientCertVerifier for Callers {
    fn offer_client_auth(&self) -> bool {
        self.library.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.library.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.library.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        chain::check(own, others)?;
        let verified = self.library.verify_client_cert(own, others, now)?;
        chain::check_client(own)?;
        if std::iter::once(own).chain(others).any(|certificate| self.blocked.has(certificate)) {
            return Err(CertificateError::Revoked.into());
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.library.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.library.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.library.supported_verify_schemes()
    }
}
