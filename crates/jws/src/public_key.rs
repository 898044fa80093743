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

use crate::algorithm::Algorithm;
use crate::spki::{RSA, SEQUENCE, bits, element, of_p256, of_rsa, significant};

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
        let unusable = |_| "has a key that the library rejects".to_owned();
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
