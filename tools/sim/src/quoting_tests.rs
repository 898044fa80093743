use super::*;
use serde_json::{Value, json};

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
    let question = Question::read(body.as_bytes());
    let terms = question.terms(settings)?;
    let mut out = b"{".to_vec();
    push_terms(&mut out, &secret(), &question, &terms, expiration());
    out.push(b'}');
    Some(serde_json::from_slice(&out).unwrap())
}

#[test]
fn packet_and_condition_are_those_of_the_worked_example() {
    let (packet, condition) = seal(&secret(), TRANSACTION, 1250, expiration());
    assert_eq!((packet.as_str(), &condition[..]), (PACKET, CONDITION.as_bytes()));
    let fulfilment = secret().answer_packet(PACKET.as_bytes(), CONDITION.as_bytes()).unwrap();
    assert_eq!(&fulfilment[..], FULFILMENT.as_bytes());
}

#[test]
fn the_packet_holds_the_transaction_and_answers_the_condition() {
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
fn fees_are_taken_from_what_is_sent_and_put_on_what_is_received() {
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
        assert_eq!(answered.get("payeeFspFee"), fee.map(amount).as_ref(), "{amount_type} {fee_per_mille}");
    }
}

#[test]
fn questions_without_what_terms_need_are_refused() {
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
fn every_quote_of_a_bulk_has_terms_of_its_own() {
    let mut quotes = vec![quote("SEND", "1"), quote("RECEIVE", "2")];
    for quote in &mut quotes {
        quote.as_object_mut().unwrap().remove("payer");
    }
    let bulk = json!({"bulkQuoteId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b12", "payer": quote("SEND", "1")["payer"],
        "individualQuotes": quotes});
    let body =
        bulk_answer(&secret(), &DfspSettings::default(), bulk.to_string().as_bytes(), expiration()).unwrap();
    let json: Value = serde_json::from_slice(&body).unwrap();
    let results = json["individualQuoteResults"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (result, amount) in results.iter().zip(["1", "2"]) {
        assert_eq!(result["transferAmount"]["amount"], amount);
        assert_eq!(result["quoteId"], "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11");
        let packet = result["ilpPacket"].as_str().unwrap().as_bytes();
        assert!(secret().answer_packet(packet, result["condition"].as_str().unwrap().as_bytes()).is_some());
    }
    let broken = bulk.to_string().replace("RECEIVE", "BOTH");
    assert!(bulk_answer(&secret(), &DfspSettings::default(), broken.as_bytes(), expiration()).is_none());
}
