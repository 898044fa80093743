//! Secrets derived from a key: for the same purpose always the same bytes, even with a token that never reveals its
//! key.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};

use crate::key::{Hash, Key, Scheme};

/// Prefix of the signed text; no other message begins with it.
const WORDS: &str = "upesi secret for ";

/// Bytes that only the key's owner can derive. They print as a mask.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The digest of a deterministic signature; `None` if the key makes none.
    pub(crate) fn of(key: &dyn Key, purpose: &str) -> Option<Self> {
        let (scheme, words) = (Scheme::Pkcs1(Hash::Sha256), format!("{WORDS}{purpose}"));
        let sign = || key.sign(scheme, &scheme.hash().of(words.as_bytes())).ok();
        let (first, second) = (sign()?, sign()?);
        let bytes = digest(&SHA256, &first).as_ref().try_into().ok()?;
        (first == second).then_some(Self(bytes))
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
