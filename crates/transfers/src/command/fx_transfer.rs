//! Converts a request about `/fxTransfers` to a ledger command.

use upesi_delivery::Request;
use upesi_fspiop::{Message, SyncError, fingerprint, message};
use upesi_ledger::command::{
    AbortFxTransfer, AskedMoney, FulfilFxTransfer, Fulfilment, FxTransferCommand, GetFxTransfer,
    PrepareFxTransfer,
};
use upesi_ledger::{Command, ResourceId};
use upesi_types::FxTransferId;

use super::state;

pub(super) fn prepare_fx_transfer(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::FxTransfer(asked) = request.message else { return Err(SyncError::not_implemented()) };
    let money = |side: message::FxTransferMoney| AskedMoney { amount: side.amount, currency: side.currency };
    Ok(Command::FxTransfer(FxTransferCommand::Prepare(Box::new(PrepareFxTransfer {
        id: FxTransferId::new(asked.commit_request_id),
        determining_transfer: asked.determining_transfer_id,
        source: request.parties.source,
        destination: request.parties.destination,
        initiator: asked.initiating_fsp,
        counter_party: asked.counter_party_fsp,
        source_amount: money(asked.source),
        target_amount: money(asked.target),
        condition: asked.condition,
        expires_at: asked.expires_at,
        fingerprint: fingerprint(body),
    }))))
}

pub(super) fn about_fx_transfer(
    request: Request<()>,
    fx_transfer: ResourceId,
    body: &[u8],
) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(Command::FxTransfer(match request.message {
        Message::FxTransferFulfil(fulfil) => FxTransferCommand::Fulfil(FulfilFxTransfer {
            fx_transfer,
            source,
            destination,
            state: state(fulfil.conversion_state),
            fulfilment: fulfil.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
            fingerprint: fingerprint(body),
        }),
        Message::Abort(message::Abort { code, description }) => FxTransferCommand::Abort(AbortFxTransfer {
            fx_transfer,
            source,
            destination,
            code,
            description,
            fingerprint: fingerprint(body),
        }),
        Message::Other => {
            FxTransferCommand::Get(GetFxTransfer { fx_transfer, source, is_proxied: request.parties.proxied })
        }
        _ => return Err(SyncError::not_implemented()),
    }))
}
