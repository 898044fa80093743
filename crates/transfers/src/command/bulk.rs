//! Converts a request about `/bulkTransfers` to a ledger command.

use upesi_delivery::Request;
use upesi_fspiop::body::{BulkItem, BulkItemResult, BulkTransferState, CompletionFault};
use upesi_fspiop::{Message, SyncError, fingerprint, message};
use upesi_ledger::command::{AbortBulk, BulkCommand, FulfilBulk, GetBulk, PrepareBulk};
use upesi_ledger::{
    AskedItem, BULK_ITEMS_MAX, Cause, Command, ItemResult, NewItems, PublicBulkState, Refusal, ResourceId,
};
use upesi_types::{BulkId, ErrorCode};

const _: () = assert!(upesi_fspiop::body::BULK_ITEMS_MAX == BULK_ITEMS_MAX, "a bulk transfer has one limit");

pub(super) fn prepare_bulk(request: Request<()>, body: &[u8]) -> Result<Command, SyncError> {
    let Message::BulkTransfer(asked) = request.message else { return Err(SyncError::not_implemented()) };
    let items = asked.items.into_iter().map(|(id, item)| (id, asked_item(item))).collect();
    // The parser has checked their number and ids.
    let items = NewItems::new(items).map_err(|_| SyncError::new(ErrorCode::VALIDATION, ""))?;
    Ok(Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: BulkId::new(asked.bulk_transfer_id),
        quote: asked.bulk_quote_id,
        source: request.parties.source,
        destination: request.parties.destination,
        payer: asked.payer,
        payee: asked.payee,
        items,
        expires_at: asked.expiration,
        fingerprint: fingerprint(body),
        extensions: asked.extensions,
    }))))
}

pub(super) fn about_bulk(request: Request<()>, bulk: ResourceId, body: &[u8]) -> Result<Command, SyncError> {
    let (source, destination) = (request.parties.source, request.parties.destination);
    Ok(Command::Bulk(match request.message {
        Message::BulkFulfil(fulfil) => BulkCommand::Fulfil(Box::new(FulfilBulk {
            bulk,
            source,
            destination,
            state: bulk_state(fulfil.state),
            fault: fulfil.fault.map(fault),
            results: fulfil.results.into_iter().map(|(id, result)| (id, item_result(result))).collect(),
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

fn asked_item(item: BulkItem) -> AskedItem {
    let BulkItem { amount, currency, ilp_packet, condition, extensions } = item;
    AskedItem { amount, currency, ilp_packet, condition, extensions }
}

const fn bulk_state(said: BulkTransferState) -> PublicBulkState {
    match said {
        BulkTransferState::Received => PublicBulkState::Received,
        BulkTransferState::Pending => PublicBulkState::Pending,
        BulkTransferState::Accepted => PublicBulkState::Accepted,
        BulkTransferState::Processing => PublicBulkState::Processing,
        BulkTransferState::Completed => PublicBulkState::Completed,
        BulkTransferState::Rejected => PublicBulkState::Rejected,
    }
}

const fn fault(found: CompletionFault) -> Refusal {
    match found {
        CompletionFault::InFuture => Refusal::CompletedInFuture,
        CompletionFault::LongAgo => Refusal::CompletedLongAgo,
    }
}

fn item_result(result: BulkItemResult) -> ItemResult {
    match result {
        BulkItemResult::Fulfil { fulfilment, extensions } => ItemResult::Fulfil { fulfilment, extensions },
        BulkItemResult::Error { code, description } => ItemResult::Abort(Cause::Payee { code, description }),
        BulkItemResult::FulfilmentInvalid => ItemResult::Abort(Refusal::FulfilmentInvalid.into()),
        BulkItemResult::Ambiguous => ItemResult::Abort(Refusal::BulkResultInvalid.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_states_and_faults_are_mapped() {
        for text in ["RECEIVED", "PENDING", "ACCEPTED", "PROCESSING", "COMPLETED", "REJECTED"] {
            let said = BulkTransferState::parse(text).unwrap();
            assert_eq!(bulk_state(said).as_str(), text);
        }
        assert_eq!(fault(CompletionFault::InFuture), Refusal::CompletedInFuture);
        assert_eq!(fault(CompletionFault::LongAgo), Refusal::CompletedLongAgo);
    }
}
