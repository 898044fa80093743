//! The value of `FSPIOP-Signature`, and the signed data.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::digest::{Context, Digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::public_key::Algorithm;

/// Size of a piece of a body; a multiple of three, so that pieces are encoded like the whole.
const PIECE_BYTES: usize = 768;

/// `{"signature":"…","protectedHeader":"…"}`, both in base64url.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Envelope {
    pub(crate) signature: String,
    pub(crate) protected_header: String,
}

impl Envelope {
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

/// The digest of the signed data: `protectedHeader.base64url(body)`.
pub(crate) fn digest(protected_header: &str, algorithm: Algorithm, body: &[u8]) -> Digest {
    let mut context = Context::new(algorithm.digest());
    context.update(protected_header.as_bytes());
    context.update(b".");
    let mut encoded = [0; PIECE_BYTES / 3 * 4];
    for piece in body.chunks(PIECE_BYTES) {
        // The buffer has space for every piece.
        let length = URL_SAFE_NO_PAD.encode_slice(piece, &mut encoded).unwrap_or(0);
        context.update(&encoded[..length]);
    }
    context.finish()
}

/// Decodes base64url without padding, strictly.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

// The protected header: a JSON object of texts.

/// Maximum length of a decoded protected header.
const BYTES_MAX: usize = 8 * 1024;
/// Members of JSON Web Signatures that locate a key, or change the signed data. None is accepted.
const REFUSED: [&str; 6] = ["crit", "b64", "jwk", "jku", "x5u", "x5c"];
/// Members of JSON Web Signatures that are not headers of the message.
const OF_JWS: [&str; 6] = ["alg", "kid", "typ", "cty", "x5t", "x5t#s256"];

/// The members, by their names in lower case.
#[derive(Debug)]
pub(crate) struct Protected(BTreeMap<String, String>);

impl Protected {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > BYTES_MAX {
            return Err(format!("the protected header is longer than {BYTES_MAX} bytes"));
        }
        let Ok(read) = serde_json::from_slice::<Self>(bytes) else {
            return Err("the protected header is not an object of texts, each once".to_owned());
        };
        match REFUSED.into_iter().find(|name| read.0.contains_key(*name)) {
            Some(name) => Err(format!("the protected header must not have {name}")),
            None => Ok(read),
        }
    }

    /// A member, by its name in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The members that are headers of the message.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| !OF_JWS.contains(name))
    }
}

impl<'de> Deserialize<'de> for Protected {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Protected;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Protected, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if members.insert(name.to_ascii_lowercase(), value).is_some() {
                        return Err(A::Error::custom("a member is there twice"));
                    }
                }
                Ok(Protected(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}
