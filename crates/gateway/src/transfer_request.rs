//! A request about transfers without the server around it.

use bytes::Bytes;
use http::request::Parts;
use upesi_engine::Payload;
use upesi_fspiop::{Resource, SyncError};
use upesi_ledger::Command;
use upesi_types::Present;

use crate::authenticator::Authenticator;
use crate::config::GatewayConfig;
use crate::headers::payload;
use crate::interpret::interpret;
use crate::route::{self, Endpoint};

/// Reads a whole request about transfers, head and body, as the gateway does: what the engine is given of it.
///
/// Errors: what the sender is told at once; 501 with 2002 for other resources.
pub fn read_transfer_request(
    parts: &Parts,
    body: Bytes,
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
    present: impl Into<Present>,
) -> Result<(Command, Payload), SyncError> {
    let route = match route::resolve(&parts.method, parts.uri.path()) {
        Ok(Endpoint::Api(route)) if route.resource() == Resource::Transfers => route,
        Ok(_) => return Err(SyncError::not_implemented()),
        Err(no_endpoint) => return Err(no_endpoint.error),
    };
    let command = interpret(route, parts, &body, config, authenticator, present.into())?;
    Ok((command, payload(&parts.headers, body)))
}
