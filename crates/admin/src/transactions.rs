//! `GET /transactions/{id}`: the transaction inside a transfer's ILP packet. The id is the transfer's.

use axum::response::Response;
use serde_json::value::RawValue;
use upesi_fspiop::body::parse_prepare;
use upesi_fspiop::ilp::decode_transaction;

use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Segments, transfer_id};
use crate::json::ok;

pub(crate) async fn get(Call(context): Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    let id = transfer_id(&id)?;
    let not_found = || ApiError::not_found(&format!("There is no transfer {id}"));
    let transfer = context.engine.transfer(id).await?.ok_or_else(not_found)?;
    let payload = context
        .engine
        .payload(transfer.prepare_seq)
        .await?
        .ok_or_else(|| ApiError::not_found("The journal no longer holds the request of this transfer"))?;
    let unreadable =
        |what: &str| ApiError::internal(&format!("The transaction of this transfer cannot be shown: {what}"));
    let prepare = parse_prepare(&payload.body).map_err(|error| unreadable(&error.description))?;
    let transaction =
        decode_transaction(&prepare.ilp_packet).map_err(|error| unreadable(&error.to_string()))?;
    let transaction = RawValue::from_string(transaction)
        .map_err(|_| unreadable("the data of the ILP packet is not JSON"))?;
    ok(&transaction)
}
