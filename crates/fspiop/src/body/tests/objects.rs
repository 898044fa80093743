//! The objects that occur in messages of several families.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::quoting::QUOTE;
use super::{Outcome, assert_required, assert_table, changed, outcome};
use crate::body::*;

fn parse(body: &[u8]) -> Outcome {
    outcome(parse_quote_request(body))
}

#[test]
fn parties_follow_the_schema() {
    assert_table(
        QUOTE,
        parse,
        r#"
        /payer                                ⇒ []          ⇒ 3101 /payer must be object
        /payer/partyIdInfo/partyIdType        ⇒ "NONE"      ⇒ 3100 /payer/partyIdInfo/partyIdType must be equal to one of the allowed values…
        /payer/partyIdInfo/partyIdType        ⇒ "CONSENT"   ⇒ ok
        /payer/partyIdInfo/partyIdentifier    ⇒ ""          ⇒ 3100 /payer/partyIdInfo/partyIdentifier must NOT have fewer than 1 characters
        /payer/partyIdInfo/partyIdentifier    ⇒ 26011       ⇒ ok
        /payer/partyIdInfo/partySubIdOrType   ⇒ ""          ⇒ 3100 /payer/partyIdInfo/partySubIdOrType must NOT have fewer…
        /payer/partyIdInfo/fspId              ⇒             ⇒ ok
        /payer/partyIdInfo/fspId              ⇒ "123456789012345678901234567890123" ⇒ 3100 /payer/partyIdInfo/fspId must NOT have more than 32 characters
        /payer/partyIdInfo/extensionList      ⇒ {"extension":[{"key":"k"}]} ⇒ 3102 /payer/partyIdInfo/extensionList/extension/0 must have required property 'v…
        /payer/merchantClassificationCode     ⇒ "1234"      ⇒ ok
        /payer/merchantClassificationCode     ⇒ "12345"     ⇒ 3100 /payer/merchantClassificationCode must match pattern: 1 to 4 digits
        /payer/merchantClassificationCode     ⇒ ""          ⇒ 3100 /payer/merchantClassificationCode must match pattern…
        /payer/name                           ⇒ ""          ⇒ 3100 /payer/name must NOT have fewer than 1 characters
        /payer/supportedCurrencies            ⇒ []          ⇒ ok
        /payer/supportedCurrencies            ⇒ "USD"       ⇒ 3101 /payer/supportedCurrencies must be array
        /payer/supportedCurrencies/1          ⇒ "ABC"       ⇒ 3100 /payer/supportedCurrencies/1 must be equal to one of the allowed values…
        /payer/personalInfo                   ⇒ {}          ⇒ ok
        /payer/personalInfo                   ⇒ {"kycInformation":""} ⇒ 3100 /payer/personalInfo/kycInformation must NOT have fewer…
        /payer/personalInfo                   ⇒ {"dateOfBirth":"1966-06-16"} ⇒ ok
        /payer/personalInfo                   ⇒ {"dateOfBirth":"2024-02-29"} ⇒ ok
        /payer/personalInfo                   ⇒ {"dateOfBirth":"2023-02-29"} ⇒ 3100 /payer/personalInfo/dateOfBirth must match pattern…
        /payer/personalInfo                   ⇒ {"dateOfBirth":"0966-06-16"} ⇒ 3100 /payer/personalInfo/dateOfBirth must match pattern…
        /payer/personalInfo                   ⇒ {"dateOfBirth":"1966-6-16"}  ⇒ 3100 /payer/personalInfo/dateOfBirth must match pattern…
        /payer/personalInfo                   ⇒ {"dateOfBirth":"19é6-06-1"}  ⇒ 3100 /payer/personalInfo/dateOfBirth must match pattern…
        /payer/personalInfo                   ⇒ {"complexName":{}} ⇒ ok
        /payer/personalInfo                   ⇒ {"complexName":{"firstName":"Henrik","middleName":"Johannes","lastName":"O'Karl-son Jr."}} ⇒ ok
        /payer/personalInfo                   ⇒ {"complexName":{"firstName":"អ៊ុន","lastName":"မြင့်"}} ⇒ ok
        /payer/personalInfo                   ⇒ {"complexName":{"firstName":"  "}}   ⇒ 3100 /payer/personalInfo/complexName/firstName must match pattern…
        /payer/personalInfo                   ⇒ {"complexName":{"lastName":"a<b"}}   ⇒ 3100 /payer/personalInfo/complexName/lastName must match pattern…
        /payer/personalInfo                   ⇒ {"complexName":{"middleName":"a\nb"}} ⇒ 3100 /payer/personalInfo/complexName/middleName must match pattern…
        "#,
    );
    let currencies = |count: usize| format!("[{}]", alloc::vec![r#""USD""#; count].join(","));
    assert_eq!(parse(changed(QUOTE, "/payer/supportedCurrencies", &currencies(16)).as_bytes()), Ok(()));
    let got = parse(changed(QUOTE, "/payer/supportedCurrencies", &currencies(17)).as_bytes()).unwrap_err();
    assert!(got.1.ends_with("/payer/supportedCurrencies must NOT have more than 16 items"), "{}", got.1);
}

#[test]
fn transaction_types_follow_the_schema() {
    assert_table(
        QUOTE,
        parse,
        r#"
        /transactionType/scenario          ⇒ "GIFT"        ⇒ 3100 /transactionType/scenario must be equal to one of the allowed values…
        /transactionType/scenario          ⇒ "REFUND"      ⇒ ok
        /transactionType/initiator         ⇒ "HUB"         ⇒ 3100 /transactionType/initiator must be equal to one of the allowed values: PAYER, PAYEE
        /transactionType/initiatorType     ⇒ "ROBOT"       ⇒ 3100 /transactionType/initiatorType must be equal to one of the allowed values…
        /transactionType/subScenario       ⇒ "A_B"         ⇒ ok
        /transactionType/subScenario       ⇒ "a_b"         ⇒ 3100 /transactionType/subScenario must match pattern: 1 to 32 capital letters and _
        /transactionType/subScenario       ⇒ "A1"          ⇒ 3100 /transactionType/subScenario must match pattern…
        /transactionType/subScenario       ⇒ "ABCDEFGHIJABCDEFGHIJABCDEFGHIJABC" ⇒ 3100 /transactionType/subScenario must match pattern…
        /transactionType/balanceOfPayments ⇒ "123"         ⇒ ok
        /transactionType/balanceOfPayments ⇒ "023"         ⇒ 3100 /transactionType/balanceOfPayments must match pattern…
        /transactionType/refundInfo        ⇒ {}            ⇒ 3102 /transactionType/refundInfo must have required property 'originalTransactionId'
        /transactionType/refundInfo        ⇒ {"originalTransactionId":"x"} ⇒ 3100 /transactionType/refundInfo/originalTransactionId must match…
        /transactionType/refundInfo        ⇒ {"originalTransactionId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","refundReason":""} ⇒ 3100 /transactionType/refundInfo/refundReason must NOT have fewer…
        /transactionType/refundInfo        ⇒ {"originalTransactionId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","refundReason":"r"} ⇒ ok
        "#,
    );
}

#[test]
fn geo_codes_are_valid_degrees() {
    let located = changed(QUOTE, "/geoCode", r#"{"latitude":"0","longitude":"0"}"#);
    assert_required(&located, parse, "/geoCode", &["latitude", "longitude"]);
    for (text, latitude, longitude) in [
        ("0", true, true),
        ("+45.4215", true, true),
        ("-75.000001", true, true),
        ("90", true, true),
        ("90.000000", true, true),
        ("90.1", false, true),
        ("91", false, true),
        ("180", false, true),
        ("-180.0", false, true),
        ("180.000001", false, false),
        ("181", false, false),
        ("999", false, false),
        ("01", false, false),
        ("1.", false, false),
        (".5", false, false),
        ("1.1234567", false, false),
        ("--1", false, false),
        ("1e1", false, false),
        ("", false, false),
    ] {
        for (name, passes) in [("latitude", latitude), ("longitude", longitude)] {
            let body = changed(&located, &format!("/geoCode/{name}"), &format!("\"{text}\""));
            let got = parse(body.as_bytes());
            assert_eq!(got.is_ok(), passes, "{name} {text}: {got:?}");
        }
    }
}

#[test]
fn extension_lists_have_1_to_16_items() {
    let list = |count: usize| {
        let items: Vec<String> = (0..count).map(|key| format!(r#"{{"key":"{key}","value":"v"}}"#)).collect();
        changed(QUOTE, "/extensionList", &format!(r#"{{"extension":[{}]}}"#, items.join(",")))
    };
    for (count, text) in [
        (0, Some("/extensionList/extension must NOT have fewer than 1 items")),
        (1, None),
        (16, None),
        (17, Some("/extensionList/extension must NOT have more than 16 items")),
    ] {
        let got = parse(list(count).as_bytes()).err();
        let text = text.map(|text| (3100, format!("Generic validation error - /requestBody{text}")));
        assert_eq!(got, text, "{count}");
    }
    let long = |length: usize| format!("\"{}\"", "k".repeat(length));
    for (name, max) in [("key", 32), ("value", 128)] {
        let pointer = format!("/extensionList/extension/0/{name}");
        assert_eq!(parse(changed(&list(1), &pointer, &long(max)).as_bytes()), Ok(()));
        assert_eq!(parse(changed(&list(1), &pointer, &long(max + 1)).as_bytes()).unwrap_err().0, 3100);
        assert_eq!(parse(changed(&list(1), &pointer, r#""""#).as_bytes()).unwrap_err().0, 3100);
    }
}
