//! The payee's side of lookups: telling who a party is.

use std::sync::Arc;

use bytes::Bytes;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Currency, ErrorCode, FspId};

use crate::dfsp::count;
use crate::message::Family;
use crate::party::{decoded, name_of, owner_of};
use crate::reply::{Reply, Saying};
use crate::simulator::Shared;

/// Most currencies that a party object may list (FSPIOP API v1.1 §7.4.11).
const CURRENCIES_MAX: usize = 16;

/// Takes a `GET /parties` in and starts to answer it. `path` is type, identifier and sub-identifier as received;
/// `owns_it` spares the look at who owns the party.
pub(crate) fn take(
    shared: &Arc<Shared>,
    payee: u32,
    headers: &HeaderMap,
    path: &str,
    owns_it: bool,
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    count(&dfsp.counters.lookups_received);
    let mut parts = path.splitn(3, '/').map(decoded);
    let (kind, identifier) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let sub_id = parts.next();
    let owner = owner_of(&kind, &identifier);
    let reply = Reply::new(shared, payee, Family::Parties, headers, format!("parties/{path}"));
    let owns_it = owns_it || owner.is_some_and(|(dfsp, _)| dfsp == payee as usize);
    let saying = if owns_it || dfsp.has_party(&decoded(path)) {
        let number = owner.map_or(0, |(_, number)| number);
        let body = party_body(&dfsp.name, &kind, &identifier, sub_id.as_deref(), number, &shared.currencies);
        Saying::Answer(body)
    } else {
        count(&dfsp.counters.parties_unknown);
        Saying::Error(ErrorCode::PARTY_NOT_FOUND)
    };
    reply.start_unnumbered(saying)
}

/// A JSON list of currencies, cut at what a party may list.
pub(crate) fn currency_list(currencies: &[Currency]) -> String {
    let quoted: Vec<_> = currencies.iter().take(CURRENCIES_MAX).map(|one| format!("\"{one}\"")).collect();
    format!("[{}]", quoted.join(","))
}

fn party_body(
    fsp: &FspId,
    kind: &str,
    identifier: &str,
    sub_id: Option<&str>,
    number: u64,
    currencies: &str,
) -> Bytes {
    let (first, last) = name_of(number);
    let mut body = Vec::with_capacity(384);
    let mut push = |piece: &str| body.extend_from_slice(piece.as_bytes());
    push("{\"party\":{\"partyIdInfo\":{\"partyIdType\":");
    push(&quoted(kind));
    push(",\"partyIdentifier\":");
    push(&quoted(identifier));
    if let Some(sub_id) = sub_id {
        push(",\"partySubIdOrType\":");
        push(&quoted(sub_id));
    }
    push(",\"fspId\":");
    push(&quoted(fsp.as_str()));
    push("},\"name\":\"");
    push(first);
    push(" ");
    push(last);
    push("\",\"personalInfo\":{\"complexName\":{\"firstName\":\"");
    push(first);
    push("\",\"lastName\":\"");
    push(last);
    push("\"},\"dateOfBirth\":\"1990-04-17\"}");
    // An empty list is no list for the API.
    if currencies != "[]" {
        push(",\"supportedCurrencies\":");
        push(currencies);
    }
    push("}}");
    body.into()
}

fn quoted(text: &str) -> String {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        return format!("\"{text}\"");
    }
    // Cannot fail: the value is a text.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_party_is_told_with_name_and_currencies() {
        let fsp = FspId::parse("dfsp-1").unwrap();
        let currencies = currency_list(&[Currency::parse("XXX").unwrap(), Currency::parse("XTS").unwrap()]);
        let body = party_body(&fsp, "ALIAS", "a\"b\\", Some("shop 7"), 9, &currencies);
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({"party": {
            "partyIdInfo": {"partyIdType": "ALIAS", "partyIdentifier": "a\"b\\", "partySubIdOrType": "shop 7",
                "fspId": "dfsp-1"},
            "name": "Baraka Chirwa",
            "personalInfo": {"complexName": {"firstName": "Baraka", "lastName": "Chirwa"}, "dateOfBirth": "1990-04-17"},
            "supportedCurrencies": ["XXX", "XTS"]}});
        assert_eq!(json, expected);
        let body = party_body(&fsp, "MSISDN", "1", None, 0, &currency_list(&[]));
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(json["party"].get("supportedCurrencies").is_none());
        assert!(json["party"]["partyIdInfo"].get("partySubIdOrType").is_none());
        assert_eq!(currency_list(&Currency::all().collect::<Vec<_>>()).matches(',').count(), 15);
    }
}
