//! Keys of any location, in the form of the TLS library.

use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use upesi_keys::{Hash, Key, KeyFamily, Scheme, ecdsa_signature};

/// Signature schemes of RSA keys in the order of preference.
const RSA: [(SignatureScheme, Scheme); 6] = [
    (SignatureScheme::RSA_PSS_SHA512, Scheme::Pss(Hash::Sha512)),
    (SignatureScheme::RSA_PSS_SHA384, Scheme::Pss(Hash::Sha384)),
    (SignatureScheme::RSA_PSS_SHA256, Scheme::Pss(Hash::Sha256)),
    (SignatureScheme::RSA_PKCS1_SHA512, Scheme::Pkcs1(Hash::Sha512)),
    (SignatureScheme::RSA_PKCS1_SHA384, Scheme::Pkcs1(Hash::Sha384)),
    (SignatureScheme::RSA_PKCS1_SHA256, Scheme::Pkcs1(Hash::Sha256)),
];
const P256: [(SignatureScheme, Scheme); 1] = [(SignatureScheme::ECDSA_NISTP256_SHA256, Scheme::P256)];

/// A key that signs handshakes, in any location.
#[derive(Debug)]
pub(super) struct HandshakeKey(pub(super) Arc<dyn Key>);

impl SigningKey for HandshakeKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let own: &[(SignatureScheme, Scheme)] = match self.0.kind() {
            KeyFamily::Rsa => &RSA,
            KeyFamily::P256 => &P256,
        };
        let (named, scheme) = own.iter().find(|(named, _)| offered.contains(named))?;
        Some(Box::new(OneSigner { key: Arc::clone(&self.0), named: *named, scheme: *scheme }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.0.public()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.0.kind() {
            KeyFamily::Rsa => SignatureAlgorithm::RSA,
            KeyFamily::P256 => SignatureAlgorithm::ECDSA,
        }
    }
}

/// Signs one handshake.
#[derive(Debug)]
struct OneSigner {
    key: Arc<dyn Key>,
    named: SignatureScheme,
    scheme: Scheme,
}

impl Signer for OneSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.key.sign(self.scheme, &self.scheme.hash().of(message));
        let signature = signature.map_err(|error| Error::General(error.to_string()))?;
        Ok(if self.scheme == Scheme::P256 { ecdsa_signature(&signature) } else { signature })
    }

    fn scheme(&self) -> SignatureScheme {
        self.named
    }
}
