//! Verification of a request's sender.

use http::request::Parts;
use upesi_fspiop::{Operation, SyncError};

/// Verifies the sender of a request. It is called after the check of the headers' form and before the check of the body
/// (FSPIOP API v1.1, Signature §4). So a malformed header is reported as such, and not as a wrong signature.
pub trait Authenticator: Send + Sync + 'static {
    /// Verifies one request by its operation, its head and the exact bytes of its body. `is_sender_proven`: a
    /// certificate, a token or a gateway has already authenticated the sender.
    ///
    /// Errors: the answer for the sender; for signatures 400 with 3105.
    fn authenticate(
        &self,
        operation: Operation,
        parts: &Parts,
        body: &[u8],
        is_sender_proven: bool,
    ) -> Result<(), SyncError>;
}

/// Accepts every request; for hubs behind a gateway that authenticates, and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustEveryone;

impl Authenticator for TrustEveryone {
    fn authenticate(&self, _: Operation, _: &Parts, _: &[u8], _: bool) -> Result<(), SyncError> {
        Ok(())
    }
}
