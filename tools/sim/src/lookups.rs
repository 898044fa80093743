//! The payee's side of lookups: the answer with a party's name and currencies.

use std::sync::Arc;

use bytes::Bytes;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Currency, ErrorCode, FspId};

use crate::counters::count;
use crate::message::Family;
use crate::party::{decoded, owner_of, quoted};
use crate::reply::{Reply, ReplyContent};
use crate::shared::SimulatorState;

const FIRST_NAMES: [&str; 8] = ["Amina", "Baraka", "Chausiku", "Daudi", "Esi", "Farida", "Gakuru", "Halima"];
const LAST_NAMES: [&str; 7] = ["Achieng", "Banda", "Chirwa", "Dlamini", "Eze", "Juma", "Otieno"];

/// First and last name of a party.
const fn name_of(number: u64) -> (&'static str, &'static str) {
    let (first, last) = (number % FIRST_NAMES.len() as u64, number % LAST_NAMES.len() as u64);
    (FIRST_NAMES[first as usize], LAST_NAMES[last as usize])
}

/// Maximum number of currencies in a party object (FSPIOP API v1.1 §7.4.11).
const CURRENCIES_MAX: usize = 16;

/// Accepts a `GET /parties` and starts to answer it. `path` is type, identifier and sub-identifier as received. If
/// `owns_it` is true, the owner of the party is not checked.
pub(crate) fn take(
    shared: &Arc<SimulatorState>,
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
        ReplyContent::Answer(body)
    } else {
        count(&dfsp.counters.parties_unknown);
        ReplyContent::Error(ErrorCode::PARTY_NOT_FOUND)
    };
    reply.start_unnumbered(saying)
}

/// A JSON list of currencies, cut to the maximum of a party object.
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
    let sub_id = sub_id.map_or(String::new(), |sub_id| format!(",\"partySubIdOrType\":{}", quoted(sub_id)));
    // The API does not allow an empty list.
    let currencies =
        if currencies == "[]" { String::new() } else { format!(",\"supportedCurrencies\":{currencies}") };
    let (kind, identifier, fsp) = (quoted(kind), quoted(identifier), quoted(fsp.as_str()));
    format!(
        "{{\"party\":{{\"partyIdInfo\":{{\"partyIdType\":{kind},\"partyIdentifier\":{identifier}{sub_id},\"fspId\":{fsp}}},\
         \"name\":\"{first} {last}\",\"personalInfo\":{{\"complexName\":{{\"firstName\":\"{first}\",\"lastName\":\"{last}\"}},\
         \"dateOfBirth\":\"1990-04-17\"}}{currencies}}}}}"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn party_answer_has_name_and_currencies() {
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
