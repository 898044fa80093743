//! From a request to the command that it asks for, or to the error that it is answered with at once.

use http::request::Parts;
use upesi_fspiop::body::{
    self, ErrorBody, FulfilBody, PrepareBody, RefusedAmount, TransferState, check_completed_timestamp,
};
use upesi_fspiop::headers::{Parties, check_headers, check_parties};
use upesi_fspiop::{Method, Operation, Resource, SyncError, Version, fingerprint};
use upesi_ledger::command::{Abort, Fulfil, FulfilState, Fulfilment, Get, Prepare};
use upesi_ledger::{Command, TransferRef};
use upesi_types::Present;

use crate::authenticator::Authenticator;
use crate::config::GatewayConfig;
use crate::headers::{Lookup, refuse_repeated};
use crate::path_id::parse_path_id;

/// Reads a request. Checks come in a fixed order, of which the first failure is the answer: repeated headers, the form
/// of the headers, who sent it, the body, the id in the path, the parties, the time of completion.
pub(crate) fn interpret(
    operation: Operation<'_>,
    parts: &Parts,
    body: &[u8],
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
    present: Present,
) -> Result<Command, SyncError> {
    let method = match operation {
        Operation::Create => Method::Post,
        Operation::Get(_) => Method::Get,
        Operation::Put(_) | Operation::PutError(_) => Method::Put,
        // Only hubs send it, to payees (FSPIOP API v1.1 §6.7.2.3).
        Operation::Patch(_) => return Err(SyncError::not_implemented()),
    };
    let headers = Lookup(&parts.headers);
    refuse_repeated(&parts.headers)?;
    let checked = check_headers(method, Resource::Transfers, &headers, &config.headers)?;
    authenticator.authenticate(parts, body)?;
    match operation {
        Operation::Create => {
            let message = body::parse_prepare(body)?;
            Ok(prepare(message, check_parties(Resource::Transfers, &headers)?, body))
        }
        Operation::Get(id) => {
            let transfer = parse_path_id(id)?;
            let Parties { source, proxied, .. } = check_parties(Resource::Transfers, &headers)?;
            Ok(Command::Get(Get { transfer, source, is_proxied: proxied }))
        }
        Operation::Put(id) => {
            let message = body::parse_fulfil(body)?;
            let transfer = parse_path_id(id)?;
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
        Operation::PutError(id) => {
            let message = body::parse_error_body(body)?;
            let transfer = parse_path_id(id)?;
            Ok(abort(message, transfer, check_parties(Resource::Transfers, &headers)?, body))
        }
        Operation::Patch(_) => Err(SyncError::not_implemented()),
    }
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
