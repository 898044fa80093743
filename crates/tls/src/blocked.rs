//! Certificates and keys that are rejected at once, before a revocation list names them.

use std::collections::BTreeSet;
use std::path::Path;

use upesi_types::unhex;

use crate::facts::CertificateFacts;
use crate::files::{Contents, TlsError};

/// Maximum number of entries in a list.
const ENTRIES_MAX: usize = 100_000;

/// A key or a certificate, by SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockedDigest {
    /// SHA-256 of the public key: `spki-sha256:…`.
    Key([u8; 32]),
    /// SHA-256 of the whole certificate: `cert-sha256:…`.
    Certificate([u8; 32]),
}

impl BlockedDigest {
    /// Parses an entry of a list, in lower case.
    pub fn parse(entry: &str) -> Option<Self> {
        match entry.split_once(':')? {
            ("spki-sha256", digest) => unhex(digest).map(Self::Key),
            ("cert-sha256", digest) => unhex(digest).map(Self::Certificate),
            _ => None,
        }
    }
}

/// A list of keys and certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocked(BTreeSet<BlockedDigest>);

impl Blocked {
    /// Reads a list with an entry per line; empty lines and lines that begin with `#` are ignored.
    pub(crate) fn load(file: &Path, contents: &mut Contents) -> Result<Self, TlsError> {
        let refused = |problem: String| TlsError::Content { file: file.to_owned(), problem };
        let text = String::from_utf8(contents.read(file)?);
        let text = text.map_err(|_| refused("is not a text file".to_owned()))?;
        let mut entries = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim().to_ascii_lowercase();
            if entry.is_empty() {
                continue;
            }
            let digest = BlockedDigest::parse(&entry).ok_or_else(|| {
                let line = number + 1;
                refused(format!("has a line {line} that is not spki-sha256: or cert-sha256: with 64 digits"))
            })?;
            entries.insert(digest);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(refused(format!("has more than {ENTRIES_MAX} entries")));
        }
        Ok(Self(entries))
    }

    /// The union of this list and another one.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Whether a certificate, or its key, is on the list. A certificate that cannot be read counts as on any list that
    /// is not empty.
    pub(crate) fn has(&self, certificate: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Ok(facts) = CertificateFacts::read(certificate) else { return true };
        let (key, whole) = (facts.spki_sha256.0, facts.certificate_sha256.0);
        self.0.contains(&BlockedDigest::Key(key)) || self.0.contains(&BlockedDigest::Certificate(whole))
    }
}

impl FromIterator<BlockedDigest> for Blocked {
    fn from_iter<I: IntoIterator<Item = BlockedDigest>>(digests: I) -> Self {
        Self(digests.into_iter().collect())
    }
}
