//! `GET /transactions/{id}`: the transaction inside a transfer's ILP packet. The id is the transfer's.

use axum::response::Response;
use serde_json::value::RawValue;
use upesi_fspiop::SyncError;
use upesi_fspiop::body::{parse_bulk_transfer, parse_prepare};
use upesi_fspiop::ilp::decode_transaction;
use upesi_ledger::Transfer;

use crate::call::Call;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::extract::{Segments, transfer_id};
use crate::json::ok;

pub(crate) async fn get(Call(context): Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    let id = transfer_id(&id)?;
    let not_found = || ApiError::not_found(&format!("There is no transfer {id}"));
    let transfer = context.engine.transfer(id).await?.ok_or_else(not_found)?;
    let packet = packet_of(&context, &transfer).await?;
    let transaction = decode_transaction(&packet).map_err(|error| unreadable(&error.to_string()))?;
    let transaction = RawValue::from_string(transaction)
        .map_err(|_| unreadable("the data of the ILP packet is not JSON"))?;
    ok(&transaction)
}

/// The packet as the request has it: the transfer's own, or that of the bulk that it is an item of.
async fn packet_of(context: &AdminContext, transfer: &Transfer) -> Result<String, ApiError> {
    let refuse = |error: SyncError| unreadable(&error.description);
    if let Some((bulk, place)) = context.engine.item_of(transfer.prepare_seq).await? {
        let bulk = context.engine.bulk(bulk).await?.ok_or_else(gone)?;
        let body = body_of(context, bulk.prepare_seq).await?;
        let request = parse_bulk_transfer(&body).map_err(refuse)?;
        let mut items = request.items.into_items();
        let item = items.nth(place as usize).filter(|(id, _)| *id == transfer.id);
        return item.map(|(_, item)| item.ilp_packet.into()).ok_or_else(|| unreadable("the bulk lacks it"));
    }
    let body = body_of(context, transfer.prepare_seq).await?;
    Ok(parse_prepare(&body).map_err(refuse)?.ilp_packet.into_owned())
}

/// The body of a request. Of refused ones the journal keeps none.
async fn body_of(context: &AdminContext, seq: u64) -> Result<Vec<u8>, ApiError> {
    let payload = context.engine.payload(seq).await?.ok_or_else(gone)?;
    if payload.body.is_empty() {
        return Err(ApiError::not_found("The journal keeps no bodies of refused requests"));
    }
    Ok(payload.body.into())
}

fn gone() -> ApiError {
    ApiError::not_found("The journal no longer holds the request of this transfer")
}

fn unreadable(what: &str) -> ApiError {
    ApiError::internal(&format!("The transaction of this transfer cannot be shown: {what}"))
}
