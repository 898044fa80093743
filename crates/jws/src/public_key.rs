//! A participant's public key.

use aws_lc_rs::digest;
use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, VerificationAlgorithm,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Minimum number of bits of a modulus.
const RSA_BITS_MIN: usize = 2_048;
const RSA_BITS_MAX: usize = 8_192;
/// Length of a point with both coordinates.
const P256_POINT_BYTES: usize = 65;

/// A key that verifies signatures. Its type determines the family of algorithms.
#[derive(Debug)]
pub(crate) struct PublicKey {
    family: Family,
    /// The canonical encoding of the key.
    der: Vec<u8>,
    sha256: [u8; 32],
}

#[derive(Debug)]
enum Family {
    /// The same key for each digest.
    Rsa([ParsedPublicKey; 3]),
    P256(ParsedPublicKey),
}

impl PublicKey {
    /// From an X.509 `SubjectPublicKeyInfo`, or from an `RSAPublicKey` (PKCS #1).
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, String> {
        let unreadable = |_| "has a key that cannot be read";
        if let Ok((_, spki)) = SubjectPublicKeyInfo::from_der(der) {
            return Self::of(&spki);
        }
        let wrapped = element(SEQUENCE, &[RSA, &bits(der)].concat());
        let (_, spki) = SubjectPublicKeyInfo::from_der(&wrapped).map_err(unreadable)?;
        Self::of(&spki)
    }

    /// The key of a certificate, and its validity, both ends in seconds since 1970. The certificate need not be
    /// trusted, because the owner of the directory vouches for it.
    pub(crate) fn from_certificate(der: &[u8]) -> Result<(Self, (i64, i64)), String> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|_| "has a certificate that cannot be read")?;
        let usage =
            certificate.key_usage().map_err(|_| "has a certificate whose key usage cannot be read")?;
        if usage.is_some_and(|usage| !usage.value.digital_signature()) {
            return Err("has a certificate whose key must not sign (digitalSignature)".to_owned());
        }
        let validity = certificate.validity();
        let valid_s = (validity.not_before.timestamp(), validity.not_after.timestamp());
        Ok((Self::of(certificate.public_key())?, valid_s))
    }

    fn of(spki: &SubjectPublicKeyInfo<'_>) -> Result<Self, String> {
        let unusable = |_| "has a key that the library refuses".to_owned();
        let (family, der) = match spki.parsed().map_err(|_| "has a key that cannot be read")? {
            Parsed::RSA(key) => {
                let bits = significant_bits(key.modulus);
                if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
                    return Err(format!(
                        "has an RSA key of {bits} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} are needed"
                    ));
                }
                let der = of_rsa(key.modulus, key.exponent);
                let algorithms: [&'static dyn VerificationAlgorithm; 3] =
                    [&RSA_PKCS1_2048_8192_SHA256, &RSA_PKCS1_2048_8192_SHA384, &RSA_PKCS1_2048_8192_SHA512];
                let [sha256, sha384, sha512] =
                    algorithms.map(|algorithm| ParsedPublicKey::new(algorithm, &der).map_err(unusable));
                (Family::Rsa([sha256?, sha384?, sha512?]), der)
            }
            Parsed::EC(point) if point.data().len() == P256_POINT_BYTES => {
                let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point.data());
                (Family::P256(key.map_err(unusable)?), of_p256(point.data()))
            }
            _ => return Err("has a key that is neither RSA nor P-256".to_owned()),
        };
        let digest = digest::digest(&digest::SHA256, &der);
        let sha256 = digest.as_ref().try_into().map_err(|_| "has a key without a digest".to_owned())?;
        Ok(Self { family, der, sha256 })
    }

    /// The key as an X.509 `SubjectPublicKeyInfo`.
    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// SHA-256 of [`Self::der`].
    pub(crate) const fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }

    /// Whether its signatures may use this algorithm.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        self.is_elliptic() == (algorithm == Algorithm::Es256)
    }

    /// Whether it is an elliptic-curve key, which a scheme must allow.
    pub(crate) const fn is_elliptic(&self) -> bool {
        matches!(self.family, Family::P256(_))
    }

    /// Whether it made the signature over this digest. The digest must have the algorithm's kind.
    pub(crate) fn verifies(&self, algorithm: Algorithm, digest: &Digest, signature: &[u8]) -> bool {
        match (&self.family, algorithm) {
            (Family::Rsa([key, _, _]), Algorithm::Rs256)
            | (Family::Rsa([_, key, _]), Algorithm::Rs384)
            | (Family::Rsa([_, _, key]), Algorithm::Rs512)
            | (Family::P256(key), Algorithm::Es256) => key.verify_digest_sig(digest, signature).is_ok(),
            _ => false,
        }
    }
}

/// Number of bits without leading zeros.
fn significant_bits(number: &[u8]) -> usize {
    let number = significant(number);
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

// The algorithms of signatures. The key decides which are possible; the protected header only selects one of them.

/// An algorithm of RFC 7518.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
}

impl Algorithm {
    /// The algorithm with a name. All other names are unknown, in particular `none` and the MACs.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Es256].into_iter().find(|known| known.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
        }
    }

    pub(crate) fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Rs256 | Self::Es256 => &digest::SHA256,
            Self::Rs384 => &digest::SHA384,
            Self::Rs512 => &digest::SHA512,
        }
    }
}

// The canonical encoding in which a public key is stored and identified: an X.509 `SubjectPublicKeyInfo` in DER.

/// The algorithm identifier of RSA keys, with its empty parameters.
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The algorithm identifier of keys on P-256.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// An RSA key, from its modulus and exponent as big-endian numbers.
pub(crate) fn of_rsa(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = element(SEQUENCE, &[number(modulus), number(exponent)].concat());
    element(SEQUENCE, &[RSA, &bits(&key)].concat())
}

/// A key on P-256, from its point.
pub(crate) fn of_p256(point: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[P256, &bits(point)].concat())
}

/// A number without its leading zeros.
fn significant(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

/// A number that is not negative.
fn number(value: &[u8]) -> Vec<u8> {
    let value = significant(value);
    let sign: &[u8] = if value.first().is_none_or(|first| first & 0x80 != 0) { &[0] } else { &[] };
    element(INTEGER, &[sign, value].concat())
}

/// A bit string of whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let bytes = length.to_be_bytes();
    let bytes = significant(&bytes);
    let mut all = vec![tag];
    match length {
        0..=0x7f => all.push(length as u8),
        _ => {
            all.push(0x80 | bytes.len() as u8);
            all.extend_from_slice(bytes);
        }
    }
    all.extend_from_slice(content);
    all
}
