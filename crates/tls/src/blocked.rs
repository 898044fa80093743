//! Certificates and keys that are refused at once, before a revocation list names them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::facts::Facts;
use crate::files::{Contents, TlsError};

/// Entries of a list at most.
const ENTRIES_MAX: usize = 100_000;
/// Bytes of a digest, in hexadecimal.
const DIGEST_DIGITS: usize = 64;

/// A list of digests: of keys (`spki-sha256:…`) and of whole certificates (`cert-sha256:…`).
#[derive(Debug, Default)]
pub(crate) struct Blocked(BTreeSet<String>);

impl Blocked {
    /// Reads a list: an entry a line, empty lines and what begins with `#` aside.
    pub(crate) fn load(file: &Path, contents: &mut Contents) -> Result<Self, TlsError> {
        let refused = |problem: String| TlsError::Content { file: file.to_owned(), problem };
        let text = String::from_utf8(contents.read(file)?);
        let text = text.map_err(|_| refused("is no text".to_owned()))?;
        let mut entries = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim().to_ascii_lowercase();
            if entry.is_empty() {
                continue;
            }
            let digest = entry.strip_prefix("spki-sha256:").or_else(|| entry.strip_prefix("cert-sha256:"));
            let is_digest = |digest: &str| {
                digest.len() == DIGEST_DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            if !digest.is_some_and(is_digest) {
                let line = number + 1;
                let problem =
                    format!("has a line {line} that is no spki-sha256: or cert-sha256: with 64 digits");
                return Err(refused(problem));
            }
            entries.insert(entry);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(refused(format!("has more than {ENTRIES_MAX} entries")));
        }
        Ok(Self(entries))
    }

    /// Whether a certificate, or its key, is on the list. One that cannot be read counts as if it were.
    fn has(&self, certificate: &[u8]) -> bool {
        let Ok(facts) = Facts::read(certificate) else { return true };
        self.0.contains(&format!("spki-sha256:{}", facts.spki_sha256))
            || self.0.contains(&format!("cert-sha256:{}", facts.certificate_sha256))
    }
}

/// Refuses, of the callers that another verifier lets in, those who are blocked, or whose authority on the way is.
#[derive(Debug)]
pub(crate) struct Blocking {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    pub(crate) blocked: Blocked,
}

impl ClientCertVerifier for Blocking {
    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(own, others, now)?;
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
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
