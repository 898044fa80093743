//! A provider's public keys (RFC 7517), and their algorithms.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, EcdsaVerificationAlgorithm,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of keys of a set that are read.
const KEYS_MAX: usize = 32;
/// Length of an RSA modulus in bytes: 2048 to 4096 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;
/// The exponent that every provider uses. Small exponents are weak if padding is checked badly.
const EXPONENT: &[u8] = &[1, 0, 1];

/// A supported signature algorithm. None of them uses a shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

use Algorithm as A;

impl Algorithm {
    const NAMES: [(&'static str, Self); 10] = [
        ("RS256", A::Rs256),
        ("RS384", A::Rs384),
        ("RS512", A::Rs512),
        ("PS256", A::Ps256),
        ("PS384", A::Ps384),
        ("PS512", A::Ps512),
        ("ES256", A::Es256),
        ("ES384", A::Es384),
        ("EdDSA", A::EdDsa),
        ("Ed25519", A::EdDsa),
    ];

    /// The algorithm with a name; case matters.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    fn of_rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            A::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            A::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            A::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            A::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            A::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            A::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            A::Es256 | A::Es384 | A::EdDsa => return None,
        })
    }

    fn of_curve(self) -> Option<&'static EcdsaVerificationAlgorithm> {
        match self {
            A::Es256 => Some(&ECDSA_P256_SHA256_FIXED),
            A::Es384 => Some(&ECDSA_P384_SHA384_FIXED),
            _ => None,
        }
    }
}

enum Public {
    Rsa(Vec<u8>),
    /// The curve's algorithm and the point.
    Ec(Algorithm, Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key.
pub(crate) struct Key {
    public: Public,
    /// The only algorithm that the key allows, if it names one.
    only: Option<Algorithm>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("only", &self.only).finish_non_exhaustive()
    }
}

impl Key {
    /// Whether an algorithm is allowed for this key.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        let is_of_kind = match &self.public {
            Public::Rsa(_) => algorithm.of_rsa().is_some(),
            Public::Ec(own, _) => algorithm == *own,
            Public::Ed25519(_) => algorithm == A::EdDsa,
        };
        is_of_kind && self.only.is_none_or(|only| only == algorithm)
    }

    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            Public::Rsa(modulus) => algorithm.of_rsa().is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n: &**modulus, e: EXPONENT };
                key.verify(parameters, message, signature).is_ok()
            }),
            Public::Ec(own, point) => own
                .of_curve()
                .is_some_and(|curve| UnparsedPublicKey::new(curve, point).verify(message, signature).is_ok()),
            Public::Ed25519(point) => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature).is_ok()
            }
        }
    }
}

#[derive(Deserialize)]
struct Set<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn bytes(part: Option<&String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part?).ok()
}

impl Jwk {
    /// The key, if it is for signatures and of a supported type.
    fn key(&self) -> Option<Key> {
        let is_for_signatures = self.r#use.as_deref().is_none_or(|used| used == "sig")
            && self.key_ops.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"));
        if !is_for_signatures {
            return None;
        }
        let public = match (&*self.kty, self.crv.as_deref()) {
            ("RSA", _) => {
                let modulus = bytes(self.n.as_ref()).filter(|n| MODULUS_BYTES.contains(&n.len()))?;
                let is_usual = bytes(self.e.as_ref()).is_some_and(|exponent| exponent == EXPONENT);
                is_usual.then_some(Public::Rsa(modulus))?
            }
            ("EC", Some("P-256")) => Public::Ec(A::Es256, self.point(32)?),
            ("EC", Some("P-384")) => Public::Ec(A::Es384, self.point(48)?),
            ("OKP", Some("Ed25519")) => Public::Ed25519(bytes(self.x.as_ref()).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        let only = match self.alg.as_deref() {
            None => None,
            Some(name) => Some(Algorithm::parse(name)?),
        };
        let key = Key { public, only };
        only.is_none_or(|only| key.fits(only)).then_some(key)
    }

    /// An uncompressed point.
    fn point(&self, length: usize) -> Option<Vec<u8>> {
        let (x, y) = (bytes(self.x.as_ref())?, bytes(self.y.as_ref())?);
        (x.len() == length && y.len() == length).then(|| [&[4], &*x, &*y].concat())
    }
}

#[derive(Debug, Default)]
pub(crate) struct KeySet(BTreeMap<String, Key>);

impl KeySet {
    /// Parses a set. Keys of other types, without an id or with a duplicate one are ignored; `None` if it is not a set
    /// or no key is left.
    pub(crate) fn read(json: &[u8]) -> Option<Self> {
        let set: Set<'_> = serde_json::from_slice(json).ok()?;
        let mut keys = BTreeMap::new();
        let mut repeated = Vec::new();
        for item in set.keys.into_iter().take(KEYS_MAX) {
            let Ok(jwk) = serde_json::from_str::<Jwk>(item.get()) else { continue };
            let (Some(key), Some(id)) = (jwk.key(), jwk.kid) else { continue };
            if keys.insert(id.clone(), key).is_some() {
                repeated.push(id);
            }
        }
        repeated.iter().for_each(|id| drop(keys.remove(id)));
        (!keys.is_empty()).then_some(Self(keys))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Key> {
        self.0.get(id)
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rsa(bytes: usize, exponent: &[u8]) -> serde_json::Value {
        let (n, e) = (URL_SAFE_NO_PAD.encode(vec![0xc1; bytes]), URL_SAFE_NO_PAD.encode(exponent));
        json!({"kty": "RSA", "kid": "k", "n": n, "e": e})
    }

    fn with(name: &str, value: serde_json::Value) -> serde_json::Value {
        let mut key = rsa(256, EXPONENT);
        key[name] = value;
        key
    }

    #[test]
    fn weak_or_unsuitable_keys_are_ignored() {
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        let ec = |crv: &str, y: &str| json!({"kty": "EC", "crv": crv, "kid": "k", "x": x, "y": y});
        for (key, is_taken) in [
            (rsa(256, EXPONENT), true),
            (rsa(512, EXPONENT), true),
            (rsa(128, EXPONENT), false),
            (rsa(513, EXPONENT), false),
            (rsa(256, &[3]), false),
            (rsa(256, &[1]), false),
            (with("use", json!("sig")), true),
            (with("use", json!("enc")), false),
            (with("key_ops", json!(["verify"])), true),
            (with("key_ops", json!(["encrypt"])), false),
            (with("alg", json!("PS384")), true),
            (with("alg", json!("ES256")), false),
            (with("alg", json!("none")), false),
            (with("kid", json!(null)), false),
            (ec("P-256", &x), true),
            (ec("P-384", &x), false),
            (ec("P-521", &x), false),
            (ec("P-256", "AA"), false),
            (json!({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}), true),
            (json!({"kty": "OKP", "crv": "X25519", "kid": "k", "x": x}), false),
            (json!({"kty": "oct", "kid": "k", "k": x}), false),
            (json!("k"), false),
        ] {
            let set = json!({"keys": [key]}).to_string();
            assert_eq!(KeySet::read(set.as_bytes()).is_some(), is_taken, "{set}");
        }
        let twice = json!({"keys": [rsa(256, EXPONENT), rsa(257, EXPONENT)]}).to_string();
        assert!(KeySet::read(twice.as_bytes()).is_none());
        assert!(KeySet::read(b"[]").is_none() && KeySet::read(b"").is_none());
    }
}
