//! From a request about anything but transfers to what a conversation takes, or to the error that it is answered with at
//! once.

use bytes::Bytes;
use http::request::Parts;
use upesi_engine::Payload;
use upesi_fspiop::body::{self, parse_error_body_of};
use upesi_fspiop::headers::{check_headers, check_parties};
use upesi_fspiop::{Operation, PartyOperation, Resource, Route, SyncError, check_path_id};
use upesi_relay::Received;
use upesi_types::ErrorCode;

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
    let (method, resource) = (route.method(), route.resource());
    if route == Route::ParticipantsBatchAnswer {
        return Err(SyncError::not_implemented());
    }
    let headers = Lookup(&parts.headers);
    refuse_repeated(&parts.headers)?;
    check_headers(method, resource, &headers, &config.versions)?;
    authenticator.authenticate(parts, &body)?;
    check_body(route, &body)?;
    check_path(route, config)?;
    if let Route::ById { resource: Resource::Authorizations, operation: Operation::Get(_) } = route {
        body::parse_authorization_query(parts.uri.query().unwrap_or_default())?;
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
    })
}

/// The schema of the body; what has none may bring anything.
fn check_body(route: Route<'_>, body: &[u8]) -> Result<(), SyncError> {
    match route {
        Route::ParticipantsBatch => body::parse_participants_batch(body).map(drop),
        Route::ParticipantsBatchAnswer => Err(SyncError::not_implemented()),
        Route::ByParty { resource, operation, .. } => match (resource, operation) {
            (_, PartyOperation::Get | PartyOperation::Delete) => Ok(()),
            (_, PartyOperation::PutError) => parse_error_body_of(resource, body).map(drop),
            (Resource::Parties, _) => body::parse_party(body).map(drop),
            (_, PartyOperation::Post) => body::parse_participant_post(body).map(drop),
            (_, PartyOperation::Put) => body::parse_participant_put(body).map(drop),
        },
        Route::ById { resource, operation } => match (resource, operation) {
            (_, Operation::Get(_)) => Ok(()),
            (_, Operation::PutError(_)) => parse_error_body_of(resource, body).map(drop),
            (Resource::Quotes, Operation::Create) => body::parse_quote_request(body).map(drop),
            (Resource::Quotes, Operation::Put(_)) => body::parse_quote_response(body).map(drop),
            (Resource::BulkQuotes, Operation::Create) => body::parse_bulk_quote_request(body).map(drop),
            (Resource::BulkQuotes, Operation::Put(_)) => body::parse_bulk_quote_response(body).map(drop),
            (Resource::FxQuotes, Operation::Create) => body::parse_fx_quote_request(body).map(drop),
            (Resource::FxQuotes, Operation::Put(_)) => body::parse_fx_quote_response(body).map(drop),
            (Resource::TransactionRequests, Operation::Create) => {
                body::parse_transaction_request(body).map(drop)
            }
            (Resource::TransactionRequests, Operation::Put(_)) => {
                body::parse_transaction_request_response(body).map(drop)
            }
            (Resource::Authorizations, Operation::Put(_)) => body::parse_authorization(body).map(drop),
            _ => Err(SyncError::new(ErrorCode::NOT_IMPLEMENTED, "")),
        },
    }
}

fn check_path(route: Route<'_>, config: &GatewayConfig) -> Result<(), SyncError> {
    match route {
        Route::ByParty { party, .. } => party.check(config.extended_party_id_types).map(drop),
        Route::ById {
            resource,
            operation: Operation::Get(id) | Operation::Put(id) | Operation::PutError(id),
        } => check_path_id(resource, id).map(drop),
        _ => Ok(()),
    }
}
