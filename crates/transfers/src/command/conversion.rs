//! Converts a request about `/fxTransfers` to a ledger command.

use upesi_delivery::Request;
use upesi_fspiop::{Message, SyncError, fingerprint, message};
use upesi_ledger::command::{
    AbortConversion, AskedMoney, ConversionCommand, FulfilConversion, Fulfilment, GetConversion,
    PrepareConversion,
};
use upesi_ledger::{Command, ResourceId};
use upesi_types::ConversionId;

use super::state;

pub(super) fn prepare_conversion(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::Conversion(asked) = request.message else { return Err(SyncError::not_implemented()) };
    let money = |side: message::ConversionMoney| AskedMoney { amount: side.amount, currency: side.currency };
    Ok(Command::Conversion(ConversionCommand::Prepare(Box::new(PrepareConversion {
        id: ConversionId::new(asked.commit_request_id),
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

pub(super) fn about_conversion(
    request: Request<()>,
    conversion: ResourceId,
    body: &[u8],
) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(Command::Conversion(match request.message {
        Message::ConversionFulfil(fulfil) => ConversionCommand::Fulfil(FulfilConversion {
            conversion,
            source,
            destination,
            state: state(fulfil.conversion_state),
            fulfilment: fulfil.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
            fingerprint: fingerprint(body),
        }),
        Message::Abort(message::Abort { code, description }) => ConversionCommand::Abort(AbortConversion {
            conversion,
            source,
            destination,
            code,
            description,
            fingerprint: fingerprint(body),
        }),
        Message::Other => {
            ConversionCommand::Get(GetConversion { conversion, source, is_proxied: request.parties.proxied })
        }
        _ => return Err(SyncError::not_implemented()),
    }))
}
