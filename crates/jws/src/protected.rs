//! The protected header: a JSON object of texts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

/// Maximum length of a decoded protected header.
const BYTES_MAX: usize = 8 * 1024;
/// Members of JSON Web Signatures that locate a key, or change the signed data. None is accepted.
const REFUSED: [&str; 6] = ["crit", "b64", "jwk", "jku", "x5u", "x5c"];
/// Members of JSON Web Signatures that are not headers of the message.
const OF_JWS: [&str; 6] = ["alg", "kid", "typ", "cty", "x5t", "x5t#s256"];

/// The members, by their names in lower case.
#[derive(Debug)]
pub(crate) struct ProtectedHeader(BTreeMap<String, String>);

impl ProtectedHeader {
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

impl<'de> Deserialize<'de> for ProtectedHeader {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = ProtectedHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProtectedHeader, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if members.insert(name.to_ascii_lowercase(), value).is_some() {
                        return Err(A::Error::custom("a member occurs twice"));
                    }
                }
                Ok(ProtectedHeader(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}
