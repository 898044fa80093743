//! The value of `FSPIOP-Signature`, and the signed data.

use aws_lc_rs::digest::{Context, Digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;

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
