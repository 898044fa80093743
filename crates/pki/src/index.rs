//! The list of what was issued.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::PkiError;

/// A certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Serial number in hexadecimal.
    pub serial: String,
    /// Common name.
    pub name: String,
    /// `server` or `client`.
    pub usage: String,
    /// End of validity, in seconds since 1970.
    pub not_after_s: i64,
    /// SHA-256 of the public key, in hexadecimal: the binding of a participant.
    pub spki_sha256: String,
    /// Time of its revocation, in seconds since 1970.
    pub revoked_at_s: Option<i64>,
}

impl Entry {
    /// Whether it is neither expired nor revoked.
    pub const fn is_in_force(&self, now_s: i64) -> bool {
        self.revoked_at_s.is_none() && now_s <= self.not_after_s
    }
}

/// `index.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    /// Number of the latest revocation list.
    pub(crate) crl_number: u64,
    pub(crate) certificates: Vec<Entry>,
}

impl Index {
    pub(crate) fn read(file: &Path) -> Result<Self, PkiError> {
        let text = std::fs::read(file).map_err(|source| PkiError::File { file: file.to_owned(), source })?;
        serde_json::from_slice(&text)
            .map_err(|error| PkiError::Index { file: file.to_owned(), problem: error.to_string() })
    }

    pub(crate) fn to_json(&self) -> String {
        // Texts and numbers only.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
