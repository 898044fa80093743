//! The side of a provider of currency conversions, an FXP: what the currency that a DFSP has is worth in the one it
//! needs.

use std::sync::Arc;

use bytes::Bytes;
use upesi_http::{HeaderMap, StatusCode};

use crate::condition::Secret;
use crate::dfsp::count;
use crate::message::Family;
use crate::money;
use crate::quoting::{self, amount_of, currency_of, id, push_amount};
use crate::scan;
use crate::simulator::Shared;

/// Takes a `POST /fxQuotes` in and starts to answer it.
pub(crate) fn take(shared: &Arc<Shared>, provider: u32, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let dfsp = shared.dfsp(provider);
    let request_id = scan::member(body, b"conversionRequestId").and_then(id);
    let terms = scan::member(body, b"conversionTerms");
    let answer = terms.and_then(|terms| answer_to(&shared.secret, dfsp.settings().fx_rate(), terms));
    let (Some(id), Some(answer)) = (request_id, answer) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&dfsp.counters.fx_quotes_received);
    quoting::offer(shared, provider, Family::FxQuotes, headers, id, answer)
}

/// The answer to conversion terms: the same terms with what the amount that is given is worth, whatever stood in its
/// place, and a condition; `None` when a member that this needs is absent or unusable. It depends on nothing else, so
/// that hubs see the answer to a repeated question as a repeated answer.
fn answer_to(secret: &Secret, rate_per_mille: u32, terms: &[u8]) -> Option<Bytes> {
    let conversion_id = id(scan::member(terms, b"conversionId")?)?;
    let (source, target) = (scan::member(terms, b"sourceAmount")?, scan::member(terms, b"targetAmount")?);
    let (sold, bought) = (currency_of(source)?, currency_of(target)?);
    let (told, amount, currency) = match scan::text(scan::member(terms, b"amountType")?)? {
        b"SEND" => (&b"targetAmount"[..], money::bought(amount_of(source)?, rate_per_mille, bought)?, bought),
        b"RECEIVE" => (&b"sourceAmount"[..], money::price(amount_of(target)?, rate_per_mille, sold)?, sold),
        _ => return None,
    };
    let mut body = Vec::with_capacity(terms.len() + 128);
    body.extend_from_slice(b"{\"condition\":\"");
    body.extend_from_slice(&secret.condition(&conversion_id));
    body.extend_from_slice(b"\",\"conversionTerms\":");
    for (index, (name, value)) in scan::members(terms).enumerate() {
        body.extend_from_slice(if index == 0 { b"{\"" } else { b",\"" });
        body.extend_from_slice(name);
        if name == told {
            push_amount(&mut body, "\":", amount, currency);
        } else {
            body.extend_from_slice(b"\":");
            body.extend_from_slice(value);
        }
    }
    body.extend_from_slice(b"}}");
    Some(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use upesi_fspiop::body::parse_fx_quote_response;
    use upesi_types::TransferId;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    fn money(currency: &str, amount: Option<&str>) -> Value {
        match amount {
            Some(amount) => json!({"currency": currency, "amount": amount}),
            None => json!({"currency": currency}),
        }
    }

    fn terms(amount_type: &str, source: Value, target: Value) -> Value {
        json!({"conversionId": ID, "determiningTransferId": ID, "initiatingFsp": "bluebank",
            "counterPartyFsp": "fxmaker", "amountType": amount_type, "sourceAmount": source, "targetAmount": target,
            "expiration": "2030-01-01T00:00:00.000Z", "ownMember": [1, {"a": "}\""}]})
    }

    fn offered(terms: &Value, rate_per_mille: u32) -> Option<Value> {
        let body = answer_to(&Secret::new(b"shared"), rate_per_mille, terms.to_string().as_bytes())?;
        assert!(parse_fx_quote_response(&body).is_ok(), "{body:?}");
        Some(serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn the_terms_come_back_with_the_other_amount() {
        for (amount_type, rate_per_mille, (sold, source), (bought, target), paid, got) in [
            ("SEND", 1500, ("XXX", Some("2")), ("XTS", None), "2", "3"),
            ("SEND", 1500, ("XXX", Some("2")), ("XTS", Some("9")), "2", "3"),
            ("SEND", 28_600, ("KES", Some("125.5")), ("UGX", None), "125.5", "3589"),
            ("RECEIVE", 1500, ("XXX", None), ("XTS", Some("3")), "2", "3"),
            ("RECEIVE", 1500, ("XXX", Some("9")), ("XTS", Some("1")), "0.67", "1"),
            ("RECEIVE", 28_600, ("KES", None), ("UGX", Some("3589")), "125.49", "3589"),
        ] {
            let asked = terms(amount_type, money(sold, source), money(bought, target));
            let answer = offered(&asked, rate_per_mille).unwrap();
            let expected = terms(amount_type, money(sold, Some(paid)), money(bought, Some(got)));
            assert_eq!(answer["conversionTerms"], expected, "{asked}");
        }
    }

    #[test]
    fn the_condition_is_that_of_the_conversion() {
        let answer = offered(&terms("SEND", money("XXX", Some("2")), money("XTS", None)), 1500).unwrap();
        let condition = answer["condition"].as_str().unwrap().as_bytes();
        let id = TransferId::parse(ID).unwrap();
        let secret = Secret::new(b"shared");
        assert_eq!(secret.answer(&id, condition), Some(secret.fulfilment(&id)));
    }

    #[test]
    fn questions_without_what_terms_need_are_refused() {
        let good = terms("SEND", money("XXX", Some("2")), money("XTS", Some("3")));
        for name in ["conversionId", "amountType", "sourceAmount", "targetAmount"] {
            let mut asked = good.clone();
            asked.as_object_mut().unwrap().remove(name);
            assert_eq!(offered(&asked, 1500), None, "{name}");
        }
        for (name, value) in [
            ("conversionId", json!("x")),
            ("amountType", json!("BOTH")),
            ("sourceAmount", money("XXX", None)),
            ("sourceAmount", money("XXX", Some("1.50"))),
            ("sourceAmount", money("xxx", Some("2"))),
            ("sourceAmount", json!("2")),
            ("targetAmount", json!({"amount": "3"})),
            // Worth more than an amount can be.
            ("sourceAmount", money("XXX", Some("99999999999999.9999"))),
        ] {
            let mut asked = good.clone();
            asked[name] = value;
            assert_eq!(offered(&asked, 1500), None, "{asked}");
        }
        let not_given = terms("RECEIVE", money("XXX", Some("2")), money("XTS", None));
        assert_eq!(offered(&not_given, 1500), None);
        for text in ["", "[]", "null", "{\"conversionId\":\""] {
            assert_eq!(answer_to(&Secret::new(b"shared"), 1500, text.as_bytes()), None, "{text}");
        }
    }
}
