//! The public keys of the hub, and the rules for participants' public keys.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use upesi_jws::KeyView;
use upesi_types::{Timestamp, hex};

use crate::json::Instant;

/// Number of characters in a line of PEM.
const PEM_LINE: usize = 64;

/// Rules and files of such keys, in addition to the ledger.
#[derive(Clone)]
pub struct SignatureKeyRules {
    /// Whether keys on P-256 are accepted.
    pub allows_es256: bool,
    /// Returns the current keys in files.
    pub in_files: Arc<dyn Fn() -> Vec<KeyView> + Send + Sync>,
}

impl Default for SignatureKeyRules {
    fn default() -> Self {
        Self { allows_es256: false, in_files: Arc::new(Vec::new) }
    }
}

/// State of a key of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HubKeyState {
    /// Will sign next.
    Next,
    /// Signs now.
    Current,
    /// Signed before.
    Previous,
}

/// A public key of the hub.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HubKey {
    pub state: HubKeyState,
    pub algorithm: &'static str,
    pub sha256: String,
    public_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Instant>,
}

/// Returns the current public keys of the hub.
pub type HubKeys = Arc<dyn Fn() -> Vec<HubKey> + Send + Sync>;

impl HubKey {
    /// A key by its X.509 `SubjectPublicKeyInfo`, and the time until which it is shown.
    pub fn new(
        state: HubKeyState,
        algorithm: &'static str,
        public_key: &[u8],
        until: Option<Timestamp>,
    ) -> Self {
        let sha256 = hex(&Sha256::digest(public_key));
        let until = until.map(Instant);
        Self { state, algorithm, sha256, public_key: pem(public_key), until, ends: None }
    }

    /// Sets the first instant after its certificate's validity.
    #[must_use]
    pub fn ending_at(self, end: Option<Timestamp>) -> Self {
        Self { ends: end.map(Instant), ..self }
    }
}

/// A `SubjectPublicKeyInfo` in PEM.
pub(crate) fn pem(public_key: &[u8]) -> String {
    let (text, mut pem) = (STANDARD.encode(public_key), "-----BEGIN PUBLIC KEY-----\n".to_owned());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END PUBLIC KEY-----\n");
    pem
}
