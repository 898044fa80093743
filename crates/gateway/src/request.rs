//! From head and body to a typed request, or to the error that it is answered with at once.

use bytes::Bytes;
use http::request::Parts;
use upesi_delivery::Request;
use upesi_fspiop::body::{check_completed_timestamp, parse_authorization_query};
use upesi_fspiop::headers::{check_headers, check_parties};
use upesi_fspiop::{Message, Method, Resource, Route, SyncError, Unroutable};
use upesi_types::Present;

use crate::authenticator::Authenticator;
use crate::config::GatewayConfig;
use crate::headers::{Lookup, beside_headers, refuse_repeated};

/// Reads a whole request, head and body, as the gateway does. The present is asked for only if a check needs it.
///
/// Errors: the answer that the sender gets at once.
pub fn read_request(
    parts: &Parts,
    body: Bytes,
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
    present: impl FnOnce() -> Present,
) -> Result<Request, SyncError> {
    let route = Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path());
    read(route.map_err(Unroutable::to_error)?, parts, body, config, authenticator, present)
}

/// Checks a request in a fixed order, of which the first failure is the answer: repeated headers, the form of the
/// headers, the sender's proof, the body, the path and the query, the parties, the time of completion.
pub(crate) fn read(
    Route { operation, segments }: Route<'_>,
    parts: &Parts,
    body: Bytes,
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
    present: impl FnOnce() -> Present,
) -> Result<Request, SyncError> {
    if !operation.is_served() {
        return Err(SyncError::not_implemented());
    }
    let (method, resource) = (operation.method(), operation.resource());
    let headers = Lookup(&parts.headers);
    refuse_repeated(&parts.headers)?;
    let checked = check_headers(method, resource, &headers, &config.headers)?;
    authenticator.authenticate(operation, parts, &body)?;
    let message = Message::read(operation, &body)?;
    let ids = segments.check(resource, config.extended_party_id_types)?;
    if (resource, method) == (Resource::Authorizations, Method::Get) {
        parse_authorization_query(parts.uri.query().unwrap_or_default())?;
    }
    let parties = check_parties(resource, &headers)?;
    let completed = match &message {
        Message::Fulfil(fulfil) => fulfil.completed_timestamp,
        Message::ConversionFulfil(fulfil) => fulfil.completed_timestamp,
        Message::BulkFulfil(fulfil) => fulfil.completed_timestamp,
        _ => None,
    };
    if completed.is_some() {
        check_completed_timestamp(
            completed,
            present(),
            config.completed_timestamp_lag_ms,
            config.completed_timestamp_age_s_max,
            parties.proxied,
        )?;
    }
    let query = parts.uri.query().map(Into::into);
    let (headers, body) = beside_headers(&parts.headers, body);
    Ok(Request { operation, ids, query, parties, version: checked.content_type, message, headers, body })
}

#[cfg(test)]
mod tests;
