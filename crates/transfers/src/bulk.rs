//! From a request about `/bulkTransfers` to the ledger command that it asks for.

use upesi_delivery::Request;
use upesi_fspiop::{Message, SyncError, fingerprint, message};
use upesi_ledger::command::{AbortBulk, BulkCommand, FulfilBulk, GetBulk, PrepareBulk};
use upesi_ledger::{Command, ResourceId};
use upesi_types::BulkId;

pub(crate) fn prepare(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::BulkTransfer(asked) = request.message else { return Err(SyncError::not_implemented()) };
    Ok(Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: BulkId::new(asked.bulk_transfer_id),
        quote: asked.bulk_quote_id,
        source: request.parties.source,
        destination: request.parties.destination,
        payer: asked.payer,
        payee: asked.payee,
        items: asked.items,
        expires_at: asked.expiration,
        fingerprint: fingerprint(body),
        extensions: asked.extensions,
    }))))
}

pub(crate) fn about(request: Request<()>, bulk: ResourceId, body: &[u8]) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(Command::Bulk(match request.message {
        Message::BulkFulfil(fulfil) => BulkCommand::Fulfil(Box::new(FulfilBulk {
            bulk,
            source,
            destination,
            state: fulfil.state,
            results: fulfil.results,
            fingerprint: fingerprint(body),
            extensions: fulfil.extensions,
        })),
        Message::Abort(message::Abort { code, description }) => BulkCommand::Abort(AbortBulk {
            bulk,
            source,
            destination,
            code,
            description,
            fingerprint: fingerprint(body),
        }),
        Message::Other => BulkCommand::Get(GetBulk { bulk, source }),
        _ => return Err(SyncError::not_implemented()),
    }))
}
