//! From a request about anything but transfers to what a conversation takes, or to the error that it is answered with at
//! once.

use bytes::Bytes;
use http::request::Parts;
use upesi_delivery::relayed::Received;
use upesi_engine::Payload;
use upesi_fspiop::body::parse_authorization_query;
use upesi_fspiop::headers::{check_headers, check_parties};
use upesi_fspiop::{Message, Method, Resource, Route, SyncError};

use crate::authenticator::Authenticator;
use crate::config::GatewayConfig;
use crate::headers::{Lookup, payload, refuse_repeated};

/// Checks a request in the same order as one about transfers: repeated headers, the form of the headers, who sent it, the
/// body, the path and the query, the parties.
pub(crate) fn receive(
    route: Route<'_>,
    parts: &Parts,
    body: Bytes,
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
) -> Result<Received, SyncError> {
    let (method, resource) = (route.operation.method(), route.resource());
    if !route.operation.is_served() {
        return Err(SyncError::not_implemented());
    }
    let headers = Lookup(&parts.headers);
    refuse_repeated(&parts.headers)?;
    check_headers(method, resource, &headers, &config.headers)?;
    authenticator.authenticate(parts, &body)?;
    let content = Message::read(route.operation, &body)?;
    route.segments.check(resource, config.extended_party_id_types)?;
    if (resource, method) == (Resource::Authorizations, Method::Get) {
        parse_authorization_query(parts.uri.query().unwrap_or_default())?;
    }
    let parties = check_parties(resource, &headers)?;
    let Payload { headers, body } = payload(&parts.headers, body);
    Ok(Received {
        method,
        resource,
        path: parts.uri.path().into(),
        query: parts.uri.query().map(Into::into),
        source: parties.source,
        destination: parties.destination,
        headers,
        body,
        content,
    })
}
