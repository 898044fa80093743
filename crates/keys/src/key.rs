//! The interface of a private key.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::digest::{Digest, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};

/// The family of a key: its algorithm, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFamily {
    /// RSA, 2,048 to 8,192 bits.
    Rsa,
    /// ECDSA on P-256.
    P256,
}

/// Digest of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    pub fn of(self, message: &[u8]) -> Digest {
        digest(self.algorithm(), message)
    }

    pub(crate) fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// Form of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// RSA with PKCS #1 v1.5.
    Pkcs1(Hash),
    /// RSA-PSS, with a salt as long as the digest.
    Pss(Hash),
    /// ECDSA on P-256 with SHA-256: two numbers of 32 bytes.
    P256,
}

impl Scheme {
    /// Hash of the signed digest.
    pub const fn hash(self) -> Hash {
        match self {
            Self::Pkcs1(hash) | Self::Pss(hash) => hash,
            Self::P256 => Hash::Sha256,
        }
    }
}

/// Nothing was signed: the key has another type, its token does not answer, or the library failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key did not sign")]
pub struct NotSigned;

/// A private key. Its debug output contains no secret.
pub trait Key: fmt::Debug + Send + Sync {
    /// Its type.
    fn kind(&self) -> KeyFamily;

    /// Its public key as an X.509 `SubjectPublicKeyInfo`.
    fn public(&self) -> &[u8];

    /// Signs a digest, which must be of the scheme's kind. May take milliseconds.
    ///
    /// # Errors
    /// Nothing was signed.
    fn sign(&self, scheme: Scheme, digest: &Digest) -> Result<Vec<u8>, NotSigned>;
}

/// Whether a key's own public key verifies its signatures.
pub(crate) fn signs(key: &dyn Key) -> bool {
    const TRIAL: &[u8] = b"a trial message, signed to check a key";
    let (scheme, algorithm): (_, &'static dyn VerificationAlgorithm) = match key.kind() {
        KeyFamily::Rsa => (Scheme::Pkcs1(Hash::Sha256), &RSA_PKCS1_2048_8192_SHA256),
        KeyFamily::P256 => (Scheme::P256, &ECDSA_P256_SHA256_FIXED),
    };
    let Ok(signature) = key.sign(scheme, &scheme.hash().of(TRIAL)) else { return false };
    let public = ParsedPublicKey::new(algorithm, key.public());
    public.is_ok_and(|public| public.verify_sig(TRIAL, &signature).is_ok())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

    use super::*;

    /// A key that signs as one, and shows another one's public key.
    #[derive(Debug)]
    struct Pretender {
        pair: EcdsaKeyPair,
        public: Vec<u8>,
    }

    impl Key for Pretender {
        fn kind(&self) -> KeyFamily {
            KeyFamily::P256
        }

        fn public(&self) -> &[u8] {
            &self.public
        }

        fn sign(&self, _: Scheme, digest: &Digest) -> Result<Vec<u8>, NotSigned> {
            Ok(self.pair.sign_digest(digest).map_err(|_| NotSigned)?.as_ref().to_vec())
        }
    }

    #[test]
    fn key_is_usable_after_a_verified_trial_signature() {
        let [own, other] = [0, 1].map(|_| EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
        let public = |pair: &EcdsaKeyPair| pair.public_key().as_ref().to_vec();
        let (true_one, false_one) = (public(&own), public(&other));
        assert!(!signs(&Pretender { pair: other, public: true_one.clone() }));
        assert!(!signs(&Pretender { pair: own, public: false_one }));
        let broken = Pretender {
            pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            public: Vec::new(),
        };
        assert!(!signs(&broken));
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let public = public(&pair);
        assert!(signs(&Pretender { pair, public }));
    }
}
