//! A public key as a participant submits it: PEM of a key or of a certificate, or a JSON Web Key.

use std::path::Path;

use serde::Deserialize;
use upesi_types::hex;

use crate::envelope::decode;
use crate::files::{self, KeyFileError, Section};
use crate::public_key::PublicKey;
use crate::spki;

/// Maximum length of the text of a key.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Length of a coordinate on P-256.
const COORDINATE_BYTES: usize = 32;

/// A valid public key for verifying signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedKey {
    /// X.509 `SubjectPublicKeyInfo` in DER. The same key always has the same bytes.
    pub public_key: Box<[u8]>,
    /// SHA-256 of the public key, in hexadecimal.
    pub sha256: String,
    /// The validity of its certificate, both ends in seconds since 1970.
    pub valid_s: Option<(i64, i64)>,
}

impl SubmittedKey {
    /// Reads one key, by the rules of keys in files. Keys on P-256 are rejected unless they are allowed.
    ///
    /// # Errors
    /// The fault, as the rest of a sentence.
    pub fn read(text: &str, allows_es256: bool) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let text = text.trim_start_matches('\u{feff}');
        let (key, valid_s) = match text.trim_start().starts_with('{') {
            true => (of_jwk(text)?, None),
            false => of_pem(text)?,
        };
        if key.is_elliptic() && !allows_es256 {
            return Err("is a P-256 key, and jws.es256 is off".to_owned());
        }
        Ok(Self { public_key: key.der().into(), sha256: hex(key.sha256()), valid_s })
    }
}

impl SubmittedKey {
    /// The first certificate of a PEM file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn load_certificate(path: &Path) -> Result<Self, KeyFileError> {
        let refused = |problem: String| KeyFileError::content(path, problem);
        let sections = files::sections(path, &files::read(path)?)?;
        let certificate = sections.into_iter().find_map(|section| match section {
            Section::Certificate(der) => Some(der),
            _ => None,
        });
        let none = || refused("has no certificate in PEM (BEGIN CERTIFICATE)".to_owned());
        let (key, valid_s) = PublicKey::from_certificate(&certificate.ok_or_else(none)?).map_err(refused)?;
        Ok(Self { public_key: key.der().into(), sha256: hex(key.sha256()), valid_s: Some(valid_s) })
    }
}

fn of_pem(text: &str) -> Result<(PublicKey, Option<(i64, i64)>), String> {
    if text.contains("PRIVATE KEY") {
        return Err(PRIVATE.to_owned());
    }
    let found = files::sections(Path::new(""), text.as_bytes()).map_err(|error| match error {
        KeyFileError::Content { problem, .. } => problem,
        KeyFileError::Read { .. } => "cannot be read".to_owned(),
    })?;
    let [section] = found.try_into().map_err(|_| {
        "must be one key: PEM (BEGIN PUBLIC KEY or BEGIN CERTIFICATE) or a JSON Web Key".to_owned()
    })?;
    match section {
        Section::Public(der) => Ok((PublicKey::from_der(&der)?, None)),
        Section::Certificate(der) => {
            let (key, valid_s) = PublicKey::from_certificate(&der)?;
            Ok((key, Some(valid_s)))
        }
        Section::Private(_) | Section::RsaPrivate(_) => Err(PRIVATE.to_owned()),
    }
}

const PRIVATE: &str = "is a private key, which must stay with its owner: create a new one";

/// The relevant members of RFC 7517 and RFC 7518. Others, such as `kid` and `alg`, are ignored, because the key
/// decides.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    // Present in private keys.
    d: Option<serde::de::IgnoredAny>,
    // Present in secret keys.
    k: Option<serde::de::IgnoredAny>,
}

fn of_jwk(text: &str) -> Result<PublicKey, String> {
    let jwk: Jwk = serde_json::from_str(text).map_err(|_| "is not a JSON Web Key".to_owned())?;
    if jwk.d.is_some() || jwk.k.is_some() {
        return Err(PRIVATE.to_owned());
    }
    if jwk.usage.is_some_and(|usage| usage != "sig") {
        return Err("is a JSON Web Key whose use is not sig".to_owned());
    }
    let member = |name: &str, text: Option<&String>| {
        let bytes = text.and_then(|text| decode(text));
        bytes.ok_or_else(|| format!("is a JSON Web Key without a valid \"{name}\""))
    };
    match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", None) => {
            let (n, e) = (member("n", jwk.n.as_ref())?, member("e", jwk.e.as_ref())?);
            PublicKey::from_der(&spki::of_rsa(&n, &e))
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (member("x", jwk.x.as_ref())?, member("y", jwk.y.as_ref())?);
            if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
                return Err("is a JSON Web Key whose \"x\" and \"y\" do not have 32 bytes".to_owned());
            }
            PublicKey::from_der(&spki::of_p256(&[&[4], &*x, &*y].concat()))
        }
        _ => Err("has a key that is neither RSA nor P-256".to_owned()),
    }
}
