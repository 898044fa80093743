//! The index of issued certificates.

use std::path::Path;

use serde::{Deserialize, Serialize};
use upesi_keys::read_limited;

use crate::PkiError;
use crate::files::failed;

/// Maximum size of the index, in bytes: more than 200,000 certificates.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// An issued certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// Serial number in hexadecimal.
    pub serial: String,
    /// Common name.
    pub name: String,
    /// `server` or `client`.
    pub usage: String,
    /// End of validity, in seconds since 1970.
    pub not_after_s: i64,
    /// SHA-256 of the public key, in hexadecimal, as in a participant's binding.
    pub spki_sha256: String,
    /// Time of its revocation, in seconds since 1970.
    pub revoked_at_s: Option<i64>,
}

impl IndexEntry {
    /// Whether it is neither expired nor revoked.
    pub const fn is_in_force(&self, now_s: i64) -> bool {
        self.revoked_at_s.is_none() && now_s <= self.not_after_s
    }
}

/// Content of `index.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    /// Number of the latest revocation list.
    pub(crate) crl_number: u64,
    pub(crate) certificates: Vec<IndexEntry>,
}

impl Index {
    pub(crate) fn read(file: &Path) -> Result<Self, PkiError> {
        let text = read_limited(file, INDEX_BYTES_MAX).map_err(|source| failed(file, source))?;
        serde_json::from_slice(&text)
            .map_err(|error| PkiError::Index { file: file.to_owned(), problem: error.to_string() })
    }

    pub(crate) fn to_json(&self) -> String {
        // The index contains only texts and numbers, so this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
