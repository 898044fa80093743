//! The place where a request proves who sent it.

use http::request::Parts;
use upesi_fspiop::{Operation, SyncError};

/// Decides whether a request comes from whom it says. Asked after the headers' form is checked and before the body's
/// (FSPIOP API v1.1, Signature §4), so that a malformed header is reported rather than the signature it spoils.
pub trait Authenticator: Send + Sync + 'static {
    /// Judges one request by what it asks for, by its head, which carries what the connection knows of its peer as
    /// extensions, and by the exact bytes of its body.
    ///
    /// Errors: what the sender is told, for signatures 400 with 3105.
    fn authenticate(&self, operation: Operation, parts: &Parts, body: &[u8]) -> Result<(), SyncError>;
}

/// Believes every request: for hubs behind a gateway that authenticates, and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustEveryone;

impl Authenticator for TrustEveryone {
    fn authenticate(&self, _operation: Operation, _parts: &Parts, _body: &[u8]) -> Result<(), SyncError> {
        Ok(())
    }
}
