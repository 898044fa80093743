//! The contents of a certificate.

use std::fmt;
use std::fmt::{Debug, Display, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::hex;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};

use crate::issuer::VerifiedIssuer;

/// Parts of a subject that name the DFSP in some schemes, and their object identifiers.
const SUBJECT_PARTS: [(&str, &str); 3] =
    [("CN", "2.5.4.3"), ("OU", "2.5.4.11"), ("UID", "0.9.2342.19200300.100.1.1")];

/// The bytes are not an X.509 certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an X.509 certificate")]
pub struct NotACertificate;

/// A SHA-256 digest. Shown in lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Display for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Debug for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// The parts of a certificate that operators and bindings use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The whole subject, such as `CN=greenbank, O=Green Bank`.
    pub subject: String,
    /// The subject's common name, if it has one.
    pub common_name: Option<String>,
    /// Common name, unit and user id of the subject with their attribute names, each if it occurs exactly once.
    pub subject_parts: Vec<(&'static str, String)>,
    /// Whether it has subject alternative names of any kind.
    pub has_alternative_names: bool,
    /// The issuer's whole name.
    pub issuer: String,
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// Start of validity, in seconds since 1970.
    pub not_before_s: i64,
    /// End of validity, in seconds since 1970.
    pub not_after_s: i64,
    /// SHA-256 of the whole certificate.
    pub certificate_sha256: Fingerprint,
    /// SHA-256 of the public key (`SubjectPublicKeyInfo`).
    pub spki_sha256: Fingerprint,
    /// DNS names of the subject alternative name.
    pub dns: Vec<String>,
    /// URIs of the subject alternative name.
    pub uris: Vec<String>,
    /// The issuer by its key; `None` unless the certificate was verified.
    pub verified_issuer: Option<VerifiedIssuer>,
}

impl CertificateFacts {
    /// Parses a certificate in DER. Nothing is verified.
    pub fn read(der: &[u8]) -> Result<Self, NotACertificate> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| NotACertificate)?;
        if !rest.is_empty() {
            return Err(NotACertificate);
        }
        let (mut dns, mut uris) = (Vec::new(), Vec::new());
        let alternative_names = certificate.subject_alternative_name().map_err(|_| NotACertificate)?;
        if let Some(names) = &alternative_names {
            for name in &names.value.general_names {
                match name {
                    GeneralName::DNSName(name) => dns.push((*name).to_owned()),
                    GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                    _ => {}
                }
            }
        }
        let part = |(attribute, identifier): (&'static str, &str)| {
            let is_it = |value: &&AttributeTypeAndValue<'_>| value.attr_type().to_id_string() == identifier;
            let mut values = certificate.subject().iter_attributes().filter(is_it);
            let value = values.next().filter(|_| values.next().is_none())?;
            Some((attribute, value.as_str().ok()?.to_owned()))
        };
        let common_name = certificate.subject().iter_common_name().next();
        Ok(Self {
            subject: certificate.subject().to_string(),
            common_name: common_name.and_then(|name| name.as_str().ok()).map(str::to_owned),
            subject_parts: SUBJECT_PARTS.into_iter().filter_map(part).collect(),
            has_alternative_names: alternative_names.is_some(),
            issuer: certificate.issuer().to_string(),
            serial: number_in_hexadecimal(certificate.raw_serial()),
            not_before_s: certificate.validity().not_before.timestamp(),
            not_after_s: certificate.validity().not_after.timestamp(),
            certificate_sha256: Fingerprint(Sha256::digest(der).into()),
            spki_sha256: Fingerprint(Sha256::digest(certificate.public_key().raw).into()),
            dns,
            uris,
            verified_issuer: None,
        })
    }
}

/// A number in lower-case hexadecimal, without the zero byte that keeps it positive.
pub(crate) fn number_in_hexadecimal(bytes: &[u8]) -> String {
    match bytes {
        [0, rest @ ..] if !rest.is_empty() => hex(rest),
        _ => hex(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_keep_leading_zeros_and_serial_numbers_do_not() {
        assert_eq!(
            (hex(&[0, 1, 0xab]), number_in_hexadecimal(&[0, 1, 0xab])),
            ("0001ab".into(), "01ab".into())
        );
        assert_eq!(
            (number_in_hexadecimal(&[0]), number_in_hexadecimal(&[0x80]), number_in_hexadecimal(&[])),
            ("00".into(), "80".into(), "".into())
        );
    }
}
