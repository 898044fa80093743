//! Limits of a chain, checked before its signatures.
//!
//! The library searches for a path through all certificates with a matching name, and verifies up to a hundred
//! signatures on the way. So an unauthenticated peer could cost 100 ms of CPU with one handshake. A short chain without
//! two certificates of the same subject or key has at most one path.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Maximum number of certificates that a peer may send in addition to its own.
pub(crate) const INTERMEDIATES_MAX: usize = 4;

/// Reason why a chain is rejected before its verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum ChainFault {
    #[error("the chain has more than {INTERMEDIATES_MAX} intermediates")]
    TooLong,
    #[error("two certificates of the chain have the same subject")]
    SameSubject,
    #[error("two certificates of the chain have the same key")]
    SameKey,
}

impl From<ChainFault> for Error {
    fn from(fault: ChainFault) -> Self {
        CertificateError::Other(OtherError(Arc::new(fault))).into()
    }
}

pub(crate) fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
    rest.is_empty().then_some(parsed)
}

/// Checks length, subjects and keys. Verifies no signature.
pub(crate) fn check(own: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
    if others.len() > INTERMEDIATES_MAX {
        return Err(ChainFault::TooLong.into());
    }
    let chain: Option<Vec<_>> = std::iter::once(own).chain(others).map(parse).collect();
    let chain = chain.ok_or(CertificateError::BadEncoding)?;
    for (index, certificate) in chain.iter().enumerate() {
        for other in &chain[index + 1..] {
            if certificate.subject().as_raw() == other.subject().as_raw() {
                return Err(ChainFault::SameSubject.into());
            }
            if certificate.public_key().raw == other.public_key().raw {
                return Err(ChainFault::SameKey.into());
            }
        }
    }
    Ok(())
}

/// Checks that a certificate states that it is for clients and for signatures. The library checks the purpose only if
/// the certificate names one, and never checks the key usage.
pub(crate) fn check_client(own: &CertificateDer<'_>) -> Result<(), Error> {
    let certificate = parse(own).ok_or(CertificateError::BadEncoding)?;
    let usage = certificate.key_usage().map_err(|_| CertificateError::BadEncoding)?;
    let purposes = certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    let may_sign = usage.is_some_and(|usage| usage.value.digital_signature());
    let is_for_clients = purposes.is_some_and(|purposes| purposes.value.client_auth);
    if may_sign && is_for_clients { Ok(()) } else { Err(CertificateError::InvalidPurpose.into()) }
}

/// Verifies servers whose chains are within the limits.
#[derive(Debug)]
pub(crate) struct LimitedServers(pub(crate) Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for LimitedServers {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        check(own, others)?;
        self.0.verify_server_cert(own, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
