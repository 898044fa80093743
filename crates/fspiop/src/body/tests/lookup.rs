//! Participants and parties.

use super::{assert_required, assert_table, changed, outcome};
use crate::PartyIdType;
use crate::body::object::JSON_VALUES_MAX;
use crate::body::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const BATCH: &str = r#"{
    "requestId": "01J8ZC5Y2T3V4W5X6Y7Z8A9B0C",
    "currency": "USD",
    "partyList": [
        { "partyIdType": "MSISDN", "partyIdentifier": "26097", "fspId": "greenbank", "partySubIdOrType": "shop-7" },
        { "partyIdType": "EMAIL", "partyIdentifier": "a@b.cd", "fspId": "bluebank" }
    ]
}"#;

const PARTY: &str = r#"{"party":{
    "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "26097", "fspId": "greenbank" },
    "name": "Henrik Karlsson",
    "personalInfo": { "complexName": { "firstName": "Henrik" }, "dateOfBirth": "1966-06-16" },
    "merchantClassificationCode": "4321",
    "supportedCurrencies": ["USD"]
}}"#;

#[test]
fn a_participant_is_read() {
    let post = |body: &[u8]| outcome(parse_participant_post(body));
    let full =
        r#"{"fspId":"greenbank","currency":"USD","extensionList":{"extension":[{"key":"k","value":"v"}]}}"#;
    let read = parse_participant_post(full.as_bytes()).unwrap();
    assert_eq!((read.fsp.as_str(), read.currency.unwrap().as_str()), ("greenbank", "USD"));
    assert_eq!(parse_participant_post(br#"{"fspId":"greenbank"}"#).unwrap().currency, None);
    assert_required(full, post, "", &["fspId"]);
    for parse in [post as fn(&[u8]) -> super::Outcome, |body: &[u8]| outcome(parse_participant_put(body))] {
        assert_table(
            full,
            parse,
            r#"
            /more          ⇒ 1    ⇒ ok
            /fspId         ⇒ ""   ⇒ 3100 /fspId must NOT have fewer than 1 characters
            /fspId         ⇒ "123456789012345678901234567890123" ⇒ 3100 /fspId must NOT have more than 32 characters
            /fspId         ⇒ {}   ⇒ 3101 /fspId must be string
            /currency      ⇒ "US" ⇒ 3100 /currency must be equal to one of the allowed values…
            /extensionList ⇒ 1    ⇒ 3101 /extensionList must be object
            "#,
        );
    }
    for empty in [&b""[..], b"{}"] {
        let put = parse_participant_put(empty).unwrap();
        assert_eq!((put.fsp, put.currency), (None, None));
    }
    let put = parse_participant_put(full.as_bytes()).unwrap();
    assert_eq!((put.fsp.unwrap().as_str(), put.currency.unwrap().as_str()), ("greenbank", "USD"));
}

#[test]
fn a_batch_is_read() {
    let batch = parse_participants_batch(BATCH.as_bytes()).unwrap();
    assert_eq!(batch.request_id.to_string(), "01J8ZC5Y2T3V4W5X6Y7Z8A9B0C");
    assert_eq!(batch.currency.unwrap().as_str(), "USD");
    let parties: Vec<(PartyIdType, &str, Option<&str>, &str)> = batch
        .parties
        .iter()
        .map(|party| {
            (*party.kind.as_ref().unwrap(), &*party.identifier, party.sub_id.as_deref(), party.fsp.as_str())
        })
        .collect();
    assert_eq!(
        parties,
        [
            (PartyIdType::Msisdn, "26097", Some("shop-7"), "greenbank"),
            (PartyIdType::Email, "a@b.cd", None, "bluebank")
        ]
    );
}

#[test]
fn a_batch_follows_the_schema() {
    let parse = |body: &[u8]| outcome(parse_participants_batch(body));
    assert_required(BATCH, parse, "", &["requestId", "partyList"]);
    assert_required(BATCH, parse, "/partyList/0", &["partyIdType", "partyIdentifier", "fspId"]);
    assert_table(
        BATCH,
        parse,
        r#"
        /more                         ⇒ 1      ⇒ ok
        /partyList/0/more             ⇒ 1      ⇒ ok
        /requestId                    ⇒ "6f3ff9d4-2f0b-7bb2-9d3a-0f3f1c6a7b11" ⇒ ok
        /requestId                    ⇒ "6f3ff9d4-2f0b-8bb2-9d3a-0f3f1c6a7b11" ⇒ 3100 /requestId must match pattern…
        /requestId                    ⇒ "01j8zc5y2t3v4w5x6y7z8a9b0c" ⇒ 3100 /requestId must match pattern…
        /currency                     ⇒ "XX"   ⇒ 3100 /currency must be equal to one of the allowed values…
        /partyList                    ⇒ "x"    ⇒ 3101 /partyList must be array
        /partyList                    ⇒ []     ⇒ 3100 /partyList must NOT have fewer than 1 items
        /partyList/1                  ⇒ null   ⇒ 3101 /partyList/1 must be object
        /partyList/1/partyIdType      ⇒ "X"    ⇒ ok
        /partyList/1/partyIdType      ⇒ ""     ⇒ 3100 /partyList/1/partyIdType must NOT have fewer than 1 characters
        /partyList/1/partyIdType      ⇒ "123456789012345678901234567890123" ⇒ 3100 /partyList/1/partyIdType must NOT have more than 32 characters
        /partyList/1/partyIdType      ⇒ {}     ⇒ 3101 /partyList/1/partyIdType must be string
        /partyList/1/partyIdType      ⇒ "THIRD_PARTY_LINK" ⇒ ok
        /partyList/1/partyIdentifier  ⇒ ""     ⇒ 3100 /partyList/1/partyIdentifier must NOT have fewer than 1 characters
        /partyList/1/partySubIdOrType ⇒ ""     ⇒ 3100 /partyList/1/partySubIdOrType must NOT have fewer than 1 characters
        /partyList/1/fspId            ⇒ ""     ⇒ 3100 /partyList/1/fspId must NOT have fewer than 1 characters
        "#,
    );
    let party = r#"{"partyIdType":"MSISDN","partyIdentifier":"1","fspId":"g"}"#;
    for (count, passes) in [(BATCH_PARTIES_MAX, true), (BATCH_PARTIES_MAX + 1, false)] {
        let list = format!("[{}]", alloc::vec![party; count].join(","));
        let got = parse(changed(BATCH, "/partyList", &list).as_bytes());
        let text = "Generic validation error - /requestBody/partyList must NOT have more than 10000 items";
        assert_eq!(got, if passes { Ok(()) } else { Err((3100, text.into())) });
    }
}

#[test]
fn a_party_is_read() {
    let party = parse_party(PARTY.as_bytes()).unwrap();
    assert_eq!((party.id.kind, &*party.id.identifier), (PartyIdType::Msisdn, "26097"));
    assert_eq!(party.id.fsp.unwrap().as_str(), "greenbank");
    let currencies: Vec<String> = party.supported_currencies.iter().map(|c| c.to_string()).collect();
    assert_eq!(currencies, ["USD"]);
    let parse = |body: &[u8]| outcome(parse_party(body));
    assert_required(PARTY, parse, "", &["party"]);
    assert_required(PARTY, parse, "/party", &["partyIdInfo"]);
    assert_table(
        PARTY,
        parse,
        r#"
        /more              ⇒ 1    ⇒ ok
        /party/more        ⇒ 1    ⇒ ok
        /party             ⇒ []   ⇒ 3101 /party must be object
        /party/partyIdInfo ⇒ null ⇒ 3101 /party/partyIdInfo must be object
        /party/name        ⇒ {}   ⇒ 3101 /party/name must be string
        "#,
    );
}

#[test]
fn a_body_of_too_many_values_is_refused() {
    // Five beside those in the list: the body, two names, the DFSP, the list.
    for (count, passes) in [(JSON_VALUES_MAX - 5, true), (JSON_VALUES_MAX - 4, false)] {
        let body = format!(r#"{{"fspId":"a","own":[{}]}}"#, alloc::vec!["1"; count].join(","));
        match outcome(parse_participant_post(body.as_bytes())) {
            Ok(()) => assert!(passes),
            Err((code, description)) => {
                assert!(!passes && code == 3101 && description.contains("more than 1000000 values"));
            }
        }
    }
}

#[test]
fn a_property_twice_or_no_json_is_refused() {
    for (body, text) in [
        (&br#"{"fspId":"a","fspId":"b"}"#[..], "property 'fspId' occurs twice"),
        (br#"{"fspId":"a""#, "is not valid JSON"),
        (b"<fspId>a</fspId>", "is not valid JSON"),
        (b"\xff", "is not valid UTF-8"),
        (b"[]", "must be object"),
    ] {
        let (code, description) = outcome(parse_participant_post(body)).unwrap_err();
        assert_eq!(code, 3101);
        assert!(description.contains(text), "{description}");
    }
}
