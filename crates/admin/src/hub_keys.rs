//! `/signatures/keys`: the public keys of the hub, for those who verify what it signs.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use upesi_types::{Timestamp, hex};

use crate::call::Call;
use crate::error::ApiError;
use crate::json::{Instant, ok};

/// Characters of a line in PEM.
const LINE: usize = 64;

/// Whether a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HubKeyState {
    /// It will.
    Next,
    /// It does.
    Current,
    /// It did.
    Previous,
}

/// A public key of the hub.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HubKey {
    state: HubKeyState,
    algorithm: &'static str,
    sha256: String,
    public_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Instant>,
}

/// The public keys of the hub at a moment.
pub type HubKeys = Arc<dyn Fn() -> Vec<HubKey> + Send + Sync>;

#[derive(Serialize)]
struct HubKeysView {
    keys: Vec<HubKey>,
}

impl HubKey {
    /// A key by its X.509 `SubjectPublicKeyInfo`, and until when it is shown.
    pub fn new(
        state: HubKeyState,
        algorithm: &'static str,
        public_key: &[u8],
        until: Option<Timestamp>,
    ) -> Self {
        let sha256 = hex(&Sha256::digest(public_key));
        Self { state, algorithm, sha256, public_key: pem(public_key), until: until.map(Instant) }
    }
}

/// A `SubjectPublicKeyInfo` in PEM.
pub(crate) fn pem(public_key: &[u8]) -> String {
    let (text, mut pem) = (STANDARD.encode(public_key), "-----BEGIN PUBLIC KEY-----\n".to_owned());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END PUBLIC KEY-----\n");
    pem
}

pub(crate) async fn list(Call(context): Call) -> Result<Response, ApiError> {
    ok(&HubKeysView { keys: (context.hub_keys)() })
}
