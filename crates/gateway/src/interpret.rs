//! From a request to the command that it asks for, or to the error that it is answered with at once.

use http::request::Parts;
use upesi_fspiop::body::{
    self, ErrorBody, FulfilBody, PrepareBody, RefusedAmount, TransferState, check_completed_timestamp,
};
use upesi_fspiop::headers::{Parties, check_headers, check_parties};
use upesi_fspiop::{Action, PathId, Resource, Route, Segments, SyncError, Version, fingerprint};
use upesi_ledger::command::{Abort, Fulfil, FulfilState, Fulfilment, Get, Prepare};
use upesi_ledger::{Command, TransferRef};
use upesi_types::Present;

use crate::authenticator::Authenticator;
use crate::config::GatewayConfig;
use crate::headers::{Lookup, refuse_repeated};

/// Reads a request. Checks come in a fixed order, of which the first failure is the answer: repeated headers, the form
/// of the headers, who sent it, the body, the id in the path, the parties, the time of completion.
pub(crate) fn interpret(
    route: Route<'_>,
    parts: &Parts,
    body: &[u8],
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
    present: Present,
) -> Result<Command, SyncError> {
    // A PATCH is only for payees, from hubs (FSPIOP API v1.1 §6.7.2.3).
    if !route.operation.is_served() {
        return Err(SyncError::not_implemented());
    }
    let method = route.operation.method();
    let headers = Lookup(&parts.headers);
    refuse_repeated(&parts.headers)?;
    let checked = check_headers(method, Resource::Transfers, &headers, &config.headers)?;
    authenticator.authenticate(parts, body)?;
    let Segments::Id(id) = route.segments else {
        let message = body::parse_prepare(body)?;
        return Ok(prepare(message, check_parties(Resource::Transfers, &headers)?, body));
    };
    match route.operation.action() {
        Action::Get => {
            let transfer = transfer_ref(id)?;
            let Parties { source, proxied, .. } = check_parties(Resource::Transfers, &headers)?;
            Ok(Command::Get(Get { transfer, source, is_proxied: proxied }))
        }
        Action::Put => {
            let message = body::parse_fulfil(body)?;
            let transfer = transfer_ref(id)?;
            let parties = check_parties(Resource::Transfers, &headers)?;
            check_completed_timestamp(
                message.completed_timestamp,
                present,
                config.completed_timestamp_lag_ms,
                config.completed_timestamp_age_s_max,
                parties.proxied,
            )?;
            let may_reserve = checked.content_type.is_some_and(Version::allows_reserved);
            Ok(fulfil(message, transfer, parties, may_reserve, body))
        }
        Action::PutError => {
            let message = body::parse_error_body(body)?;
            let transfer = transfer_ref(id)?;
            Ok(abort(message, transfer, check_parties(Resource::Transfers, &headers)?, body))
        }
        _ => Err(SyncError::not_implemented()),
    }
}

fn transfer_ref(segment: &str) -> Result<TransferRef, SyncError> {
    Ok(match PathId::read(Resource::Transfers, segment)? {
        PathId::Plain(id) | PathId::Text { id: Some(id), .. } => TransferRef::Id(id),
        PathId::Text { text, id: None } => TransferRef::Text(text),
    })
}

fn prepare(message: PrepareBody<'_>, parties: Parties, body: &[u8]) -> Command {
    let amount = message.amount.map_err(|RefusedAmount { error, text }| (error, text.into()));
    Command::Prepare(Prepare {
        id: message.transfer_id,
        source: parties.source,
        destination: parties.destination,
        payer: message.payer,
        payee: message.payee,
        amount,
        currency: message.currency,
        condition: message.condition,
        expires_at: message.expiration,
        fingerprint: fingerprint(body),
        extensions: message.extensions.map(String::into_boxed_str),
    })
}

fn fulfil(
    message: FulfilBody,
    transfer: TransferRef,
    parties: Parties,
    may_reserve: bool,
    body: &[u8],
) -> Command {
    Command::Fulfil(Fulfil {
        transfer,
        source: parties.source,
        destination: parties.destination,
        state: match message.transfer_state {
            TransferState::Received => FulfilState::Received,
            TransferState::Reserved => FulfilState::Reserved,
            TransferState::Committed => FulfilState::Committed,
            TransferState::Aborted => FulfilState::Aborted,
        },
        may_reserve,
        fulfilment: message.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
        fingerprint: fingerprint(body),
        extensions: message.extensions.map(String::into_boxed_str),
    })
}

fn abort(message: ErrorBody<'_>, transfer: TransferRef, parties: Parties, body: &[u8]) -> Command {
    Command::Abort(Abort {
        transfer,
        source: parties.source,
        destination: parties.destination,
        code: message.code,
        description: message.description.into(),
        fingerprint: fingerprint(body),
    })
}

#[cfg(test)]
mod tests;
