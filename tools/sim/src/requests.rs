//! The payer's side of transaction requests and authorizations (FSPIOP API v1.1 §6.4 and §6.6). It confirms the receipt
//! of a request, and returns a one-time password on demand.

use std::sync::Arc;

use bytes::Bytes;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::TransferId;

use crate::counters::count;
use crate::ids::{fault_key, id_of};
use crate::message::Family;
use crate::reply::{Reply, ReplyContent};
use crate::scan;
use crate::settings::mix;
use crate::shared::SimulatorState;

/// The password of every party.
const ONE_TIME_PASSWORD: &str = "160405";
const QR_CODE: &str = "UPESI-QR-160405";

/// Accepts a `POST /transactionRequests` and starts to answer it.
pub(crate) fn take(shared: &Arc<SimulatorState>, payer: u32, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let id = scan::member(body, b"transactionRequestId").and_then(scan::text);
    match id.and_then(|id| std::str::from_utf8(id).ok()) {
        Some(id) => take_again(shared, payer, headers, id),
        None => {
            count(&shared.dfsp(payer).counters.unreadable);
            StatusCode::BAD_REQUEST
        }
    }
}

/// Accepts a GET of a transaction request: the answer depends on the id only.
pub(crate) fn take_again(
    shared: &Arc<SimulatorState>,
    payer: u32,
    headers: &HeaderMap,
    id: &str,
) -> StatusCode {
    let counters = &shared.dfsp(payer).counters;
    let Some(parsed) = TransferId::parse(id) else {
        count(&counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&counters.requests_received);
    let key = fault_key(&parsed);
    let transaction_id = id_of(mix(key), mix(!key));
    let body =
        format!("{{\"transactionId\":\"{transaction_id}\",\"transactionRequestState\":\"RECEIVED\"}}").into();
    let path = format!("transactionRequests/{id}");
    Reply::new(shared, payer, Family::TransactionRequests, headers, path)
        .start(key, ReplyContent::Answer(body))
}

/// Accepts a `GET /authorizations/{ID}` and starts to answer it.
pub(crate) fn take_authorization(
    shared: &Arc<SimulatorState>,
    payer: u32,
    headers: &HeaderMap,
    id: &str,
    query: Option<&str>,
) -> StatusCode {
    count(&shared.dfsp(payer).counters.requests_received);
    let path = format!("authorizations/{id}");
    Reply::new(shared, payer, Family::Authorizations, headers, path)
        .start_unnumbered(ReplyContent::Answer(authorization(query.unwrap_or_default())))
}

fn authorization(query: &str) -> Bytes {
    let wants_code = query.split('&').any(|item| item == "authenticationType=QRCODE");
    let (kind, value) = if wants_code { ("QRCODE", QR_CODE) } else { ("OTP", ONE_TIME_PASSWORD) };
    format!(
        "{{\"authenticationInfo\":{{\"authentication\":\"{kind}\",\"authenticationValue\":\"{value}\"}},\
         \"responseType\":\"ENTERED\"}}"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_answer_has_the_requested_kind() {
        for (query, kind) in [
            ("authenticationType=OTP&retriesLeft=2", "OTP"),
            ("amount=1&authenticationType=QRCODE", "QRCODE"),
            ("", "OTP"),
        ] {
            let json: serde_json::Value = serde_json::from_slice(&authorization(query)).unwrap();
            assert_eq!(json["authenticationInfo"]["authentication"], kind, "{query}");
            assert_eq!(json["responseType"], "ENTERED");
        }
    }
}
