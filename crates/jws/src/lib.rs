//! Signatures of messages (L1): the header `FSPIOP-Signature`. It is a JSON Web Signature over the bytes of a body,
//! with the URI, the method, the sender and the receiver of the message in its protected header (FSPIOP API v1.1,
//! Signature).
//!
//! - [`KeyRing`]: the public keys of participants, from a directory that may change while the hub runs.
//! - [`SubmittedKey`]: such a key as an operator submits it.
//! - [`verify`]: verifies a request by its head and the exact bytes of its body.
//! - [`PrivateKey`]: signs messages that the hub creates, with a key in a file or in a token (`upesi-keys`).
//!
//! Library: aws-lc. Rejected signatures and their tests: `docs/security.md`.

mod algorithm;
mod envelope;
mod files;
mod protected;
mod public_key;
mod ring;
mod sign;
mod spki;
mod submitted;
mod verify;

pub use files::KeyFileError;
pub use ring::{KeyRing, KeyView, RecordedKey, Records};
pub use sign::{Draft, Message, NotSigned, PrivateKey};
pub use submitted::SubmittedKey;
pub use upesi_keys::KeyError;
pub use verify::{Freshness, Request, SignatureFault, is_signature_object, verify};

pub const SIGNATURE: &str = "fspiop-signature";
