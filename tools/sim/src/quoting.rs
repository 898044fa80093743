//! The payee's side of quotes: the terms, and the packet with the data for the fulfilment of the transfer.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use upesi_fspiop::ilp;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Amount, Currency, ErrorCode, Timestamp, TransferId};

use crate::condition::{Secret, encode};
use crate::counters::count;
use crate::ids::{fault_key, id};
use crate::message::{self, Family};
use crate::money::{amount_of, currency_of, push_amount};
use crate::reply::{Reply, ReplyContent};
use crate::settings::DfspSettings;
use crate::shared::SimulatorState;
use crate::{money, scan};

/// Validity of a quote's terms.
const QUOTE_LIFE_MS: i64 = 60_000;
/// Maximum number of quotes in a bulk quote (FSPIOP API v1.1 §6.9.3.1).
const BULK_QUOTES_MAX: usize = 1000;

/// The members of a `POST /quotes` that determine the terms, as they were received. Absent ones are empty.
#[derive(Clone, Copy, Debug, Default)]
struct QuoteMembers<'body> {
    quote_id: &'body [u8],
    transaction_id: &'body [u8],
    payer: &'body [u8],
    payee: &'body [u8],
    amount_type: &'body [u8],
    amount: &'body [u8],
    transaction_type: &'body [u8],
    note: &'body [u8],
}

impl<'body> QuoteMembers<'body> {
    fn read(body: &'body [u8]) -> Self {
        let mut this = Self::default();
        for (name, value) in scan::members(body) {
            let place = match name {
                b"quoteId" => &mut this.quote_id,
                b"transactionId" => &mut this.transaction_id,
                b"payer" => &mut this.payer,
                b"payee" => &mut this.payee,
                b"amountType" => &mut this.amount_type,
                b"amount" => &mut this.amount,
                b"transactionType" => &mut this.transaction_type,
                b"note" => &mut this.note,
                _ => continue,
            };
            *place = value;
        }
        this
    }

    /// The terms; `None` if a required member is absent or unusable.
    fn terms(&self, settings: &DfspSettings) -> Option<TermsOffered> {
        let (currency, asked) = (currency_of(self.amount)?, amount_of(self.amount)?);
        let is_object = |value: &[u8]| value.first() == Some(&b'{');
        if !is_object(self.payer) || !is_object(self.payee) || !is_object(self.transaction_type) {
            return None;
        }
        scan::text(self.transaction_id)?;
        let fee = money::fee(asked, settings.fee_per_mille, currency);
        let (transfer, receive) = match scan::text(self.amount_type)? {
            b"SEND" => (asked, asked.checked_sub(fee)?),
            b"RECEIVE" => (asked.checked_add(fee)?, asked),
            _ => return None,
        };
        Some(TermsOffered { currency, transfer, receive, fee })
    }

    /// The transaction object (FSPIOP API v1.1 §7.4.17), members in alphabetical order.
    fn transaction(&self, terms: &TermsOffered, expiration: Timestamp) -> String {
        let mut json = Vec::with_capacity(self.payer.len() + self.payee.len() + 384);
        push_amount(&mut json, "{\"amount\":", terms.transfer, terms.currency);
        // Writing into a Vec cannot fail, here and below.
        let _ = write!(json, ",\"expiration\":\"{expiration}\"");
        for (name, value) in [
            ("note", self.note),
            ("payee", self.payee),
            ("payer", self.payer),
            ("quoteId", self.quote_id),
            ("transactionId", self.transaction_id),
            ("transactionType", self.transaction_type),
        ] {
            if !value.is_empty() {
                let _ = write!(json, ",\"{name}\":");
                json.extend_from_slice(value);
            }
        }
        json.push(b'}');
        // The body was JSON and so UTF-8. If it was not, the packet is empty.
        String::from_utf8(json).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
struct TermsOffered {
    currency: Currency,
    transfer: Amount,
    receive: Amount,
    fee: Amount,
}

/// Writes the members of the terms, up to and including the condition.
fn push_terms(
    out: &mut Vec<u8>,
    secret: &Secret,
    question: &QuoteMembers<'_>,
    terms: &TermsOffered,
    expiration: Timestamp,
) {
    push_amount(out, "\"transferAmount\":", terms.transfer, terms.currency);
    push_amount(out, ",\"payeeReceiveAmount\":", terms.receive, terms.currency);
    if terms.fee != Amount::ZERO {
        push_amount(out, ",\"payeeFspFee\":", terms.fee, terms.currency);
    }
    let transaction = question.transaction(terms, expiration);
    let minor = money::minor_units(terms.transfer, terms.currency);
    let (packet, condition) = seal(secret, &transaction, minor, expiration);
    out.extend_from_slice(b",\"ilpPacket\":\"");
    out.extend_from_slice(packet.as_bytes());
    out.extend_from_slice(b"\",\"condition\":\"");
    out.extend_from_slice(&condition);
    out.push(b'"');
}

/// The packet of a transaction, and the condition that only the owner of the secret can answer.
fn seal(
    secret: &Secret,
    transaction: &str,
    minor_units: u64,
    expiration: Timestamp,
) -> (String, crate::condition::Text) {
    let condition = ilp::condition_of(&secret.fulfilment_of_transaction(transaction));
    (ilp::encode_packet_v4(minor_units, expiration, &condition, transaction), encode(&condition))
}

/// Accepts a `POST /quotes` and starts to answer it.
pub(crate) fn take_quote(
    shared: &Arc<SimulatorState>,
    payee: u32,
    headers: &HeaderMap,
    body: &[u8],
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let question = QuoteMembers::read(body);
    let settings = dfsp.settings();
    let (Some(id), Some(terms)) = (id(question.quote_id), question.terms(&settings)) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&dfsp.counters.quotes_received);
    let expiration = message::now().plus_ms(QUOTE_LIFE_MS);
    let mut answer = Vec::with_capacity(2 * body.len() + 640);
    answer.push(b'{');
    push_terms(&mut answer, &shared.secret, &question, &terms, expiration);
    let _ = write!(answer, ",\"expiration\":\"{expiration}\"}}");
    let answer = Bytes::from(answer);
    offer(shared, payee, Family::Quotes, headers, id, answer)
}

/// Keeps the terms for repeated requests, and starts to send them.
pub(crate) fn offer(
    shared: &Arc<SimulatorState>,
    payee: u32,
    family: Family,
    headers: &HeaderMap,
    id: TransferId,
    terms: Bytes,
) -> StatusCode {
    shared.remembered.keep(id, terms.clone());
    let reply = Reply::new(shared, payee, family, headers, format!("{}/{id}", family.as_str()));
    reply.start(fault_key(&id), ReplyContent::Answer(terms))
}

/// Accepts a `POST /bulkQuotes` and starts to answer it. Each of its quotes has its own terms.
pub(crate) fn take_bulk(
    shared: &Arc<SimulatorState>,
    payee: u32,
    headers: &HeaderMap,
    body: &[u8],
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    let bulk_id = scan::member(body, b"bulkQuoteId").and_then(id);
    let expiration = message::now().plus_ms(QUOTE_LIFE_MS);
    let answer = bulk_answer(&shared.secret, &dfsp.settings(), body, expiration);
    let (Some(id), Some(answer)) = (bulk_id, answer) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&dfsp.counters.bulk_quotes_received);
    offer(shared, payee, Family::BulkQuotes, headers, id, answer)
}

fn bulk_answer(
    secret: &Secret,
    settings: &DfspSettings,
    body: &[u8],
    expiration: Timestamp,
) -> Option<Bytes> {
    let payer = scan::member(body, b"payer")?;
    let quotes = scan::member(body, b"individualQuotes")?;
    let mut answer = b"{\"individualQuoteResults\":[".to_vec();
    for (index, quote) in scan::elements(quotes).enumerate() {
        if index >= BULK_QUOTES_MAX {
            return None;
        }
        let question = QuoteMembers { payer, ..QuoteMembers::read(quote) };
        scan::text(question.quote_id)?;
        let terms = question.terms(settings)?;
        answer.extend_from_slice(if index == 0 { b"{\"quoteId\":" } else { b",{\"quoteId\":" });
        answer.extend_from_slice(question.quote_id);
        answer.push(b',');
        push_terms(&mut answer, secret, &question, &terms, expiration);
        answer.push(b'}');
    }
    let _ = write!(answer, "],\"expiration\":\"{expiration}\"}}");
    Some(answer.into())
}

/// Accepts a GET of a quote, bulk quote or FX quote, and repeats the earlier answer.
pub(crate) fn take_again(
    shared: &Arc<SimulatorState>,
    payee: u32,
    headers: &HeaderMap,
    family: Family,
    id: &str,
) -> StatusCode {
    count(&shared.dfsp(payee).counters.requests_received);
    let unknown = match family {
        Family::BulkQuotes => ErrorCode::BULK_QUOTE_NOT_FOUND,
        _ => ErrorCode::QUOTE_NOT_FOUND,
    };
    let found = TransferId::parse(id).and_then(|id| shared.remembered.find(&id));
    let reply = Reply::new(shared, payee, family, headers, format!("{}/{id}", family.as_str()));
    reply.start_unnumbered(found.map_or(ReplyContent::Error(unknown), ReplyContent::Answer))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TRANSACTION: &str = r#"{"amount":{"amount":"12.5","currency":"USD"},"expiration":"2030-01-01T00:00:00.000Z","payee":{"partyIdInfo":{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"26097"}},"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11"}"#;
    const CONDITION: &str = "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0";
    const FULFILMENT: &str = "-fcT-Kg4v1399VKeIKs7CCgndX3Vn_EWfaRahghA7Ys";
    const PACKET: &str = "DIIBeQAAAAAAAATiMjAzMDAxMDEwMDAwMDAwMDA5qZ8ZVext3aTw-IFyYKjnIWNkOKqmuH5hWPxgKGWyfQpnLm1vamFsb29wggEyZXlKaGJXOTFiblFpT25zaVlXMXZkVzUwSWpvaU1USXVOU0lzSW1OMWNuSmxibU41SWpvaVZWTkVJbjBzSW1WNGNHbHlZWFJwYjI0aU9pSXlNRE13TFRBeExUQXhWREF3T2pBd09qQXdMakF3TUZvaUxDSndZWGxsWlNJNmV5SndZWEowZVVsa1NXNW1ieUk2ZXlKbWMzQkpaQ0k2SW1keVpXVnVZbUZ1YXlJc0luQmhjblI1U1dSVWVYQmxJam9pVFZOSlUwUk9JaXdpY0dGeWRIbEpaR1Z1ZEdsbWFXVnlJam9pTWpZd09UY2lmWDBzSW5GMWIzUmxTV1FpT2lJMlpqTm1aamxrTkMweVpqQmlMVFJpWWpJdE9XUXpZUzB3WmpObU1XTTJZVGRpTVRFaWZR";

    fn expiration() -> Timestamp {
        Timestamp::parse_iso("2030-01-01T00:00:00.000Z").unwrap()
    }

    fn secret() -> Secret {
        Secret::new(b"worked-example-secret")
    }

    fn quote(amount_type: &str, amount: &str) -> Value {
        json!({
        "quoteId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11", "transactionId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60",
        "payer": {"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "26011", "fspId": "bluebank"}},
        "payee": {"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "26097", "fspId": "greenbank"},
            "personalInfo": {"complexName": {"firstName": "A\"}"}}},
        "amountType": amount_type, "amount": {"amount": amount, "currency": "USD"},
        "fees": {"amount": "9", "currency": "KES"},
        "transactionType": {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}})
    }

    fn answer(question: &Value, settings: &DfspSettings) -> Option<Value> {
        let body = question.to_string();
        let question = QuoteMembers::read(body.as_bytes());
        let terms = question.terms(settings)?;
        let mut out = b"{".to_vec();
        push_terms(&mut out, &secret(), &question, &terms, expiration());
        out.push(b'}');
        Some(serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn packet_and_condition_equal_the_worked_example() {
        let (packet, condition) = seal(&secret(), TRANSACTION, 1250, expiration());
        assert_eq!((packet.as_str(), &condition[..]), (PACKET, CONDITION.as_bytes()));
        let fulfilment = secret().answer_packet(PACKET.as_bytes(), CONDITION.as_bytes()).unwrap();
        assert_eq!(&fulfilment[..], FULFILMENT.as_bytes());
    }

    #[test]
    fn packet_contains_the_transaction_and_answers_the_condition() {
        let answered = answer(&quote("SEND", "12.5"), &DfspSettings::default()).unwrap();
        let (packet, condition) =
            (answered["ilpPacket"].as_str().unwrap(), answered["condition"].as_str().unwrap());
        let transaction: Value = serde_json::from_str(&ilp::decode_transaction(packet).unwrap()).unwrap();
        let mut expected = quote("SEND", "12.5");
        expected.as_object_mut().unwrap().retain(|name, _| name != "amountType" && name != "fees");
        expected["expiration"] = "2030-01-01T00:00:00.000Z".into();
        assert_eq!(transaction, expected);
        let fulfilment = secret().answer_packet(packet.as_bytes(), condition.as_bytes()).unwrap();
        let octets = upesi_fspiop::decode_octets(std::str::from_utf8(&fulfilment).unwrap()).unwrap();
        assert_eq!(&encode(&ilp::condition_of(&octets))[..], condition.as_bytes());
        assert_eq!(Secret::new(b"another").answer_packet(packet.as_bytes(), condition.as_bytes()), None);
    }

    #[test]
    fn fee_is_deducted_from_sent_and_added_to_received_amounts() {
        let amount = |text: &str| json!({"amount": text, "currency": "USD"});
        for (amount_type, fee_per_mille, transfer, receive, fee) in [
            ("SEND", 0, "12.5", "12.5", None),
            ("RECEIVE", 0, "12.5", "12.5", None),
            ("SEND", 40, "12.5", "12", Some("0.5")),
            ("RECEIVE", 40, "13", "12.5", Some("0.5")),
            ("SEND", 1000, "12.5", "0", Some("12.5")),
        ] {
            let settings = DfspSettings { fee_per_mille, ..DfspSettings::default() };
            let answered = answer(&quote(amount_type, "12.5"), &settings).unwrap();
            assert_eq!(answered["transferAmount"], amount(transfer), "{amount_type} {fee_per_mille}");
            assert_eq!(answered["payeeReceiveAmount"], amount(receive), "{amount_type} {fee_per_mille}");
            assert_eq!(
                answered.get("payeeFspFee"),
                fee.map(amount).as_ref(),
                "{amount_type} {fee_per_mille}"
            );
        }
    }

    #[test]
    fn quote_without_a_required_member_is_rejected() {
        let settings = DfspSettings::default();
        for name in ["transactionId", "payer", "payee", "amountType", "amount", "transactionType"] {
            let mut question = quote("SEND", "1");
            question.as_object_mut().unwrap().remove(name);
            assert!(answer(&question, &settings).is_none(), "{name}");
        }
        for (name, value) in [
            ("amountType", json!("BOTH")),
            ("amount", json!({"amount": "1.50", "currency": "USD"})),
            ("amount", json!({"amount": "1", "currency": "usd"})),
            ("payee", json!("greenbank")),
        ] {
            let mut question = quote("SEND", "1");
            question[name] = value;
            assert!(answer(&question, &settings).is_none(), "{name}");
        }
    }

    #[test]
    fn quotes_of_a_bulk_quote_have_separate_terms() {
        let mut quotes = vec![quote("SEND", "1"), quote("RECEIVE", "2")];
        for quote in &mut quotes {
            quote.as_object_mut().unwrap().remove("payer");
        }
        let bulk = json!({"bulkQuoteId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b12", "payer": quote("SEND", "1")["payer"],
        "individualQuotes": quotes});
        let body =
            bulk_answer(&secret(), &DfspSettings::default(), bulk.to_string().as_bytes(), expiration())
                .unwrap();
        let json: Value = serde_json::from_slice(&body).unwrap();
        let results = json["individualQuoteResults"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        for (result, amount) in results.iter().zip(["1", "2"]) {
            assert_eq!(result["transferAmount"]["amount"], amount);
            assert_eq!(result["quoteId"], "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11");
            let packet = result["ilpPacket"].as_str().unwrap().as_bytes();
            assert!(
                secret().answer_packet(packet, result["condition"].as_str().unwrap().as_bytes()).is_some()
            );
        }
        let broken = bulk.to_string().replace("RECEIVE", "BOTH");
        assert!(bulk_answer(&secret(), &DfspSettings::default(), broken.as_bytes(), expiration()).is_none());
    }
}
