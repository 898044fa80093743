//! Participants and parties.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use upesi_types::{ErrorCode, FspId, Present, Timestamp};

use super::{assert_refusal, assert_required, assert_table, changed, outcome, refusal, with};
use crate::PartyIdType;
use crate::body::object::JSON_VALUES_MAX;
use crate::body::*;

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
    let parties: Vec<(PartyIdType, &str, Option<&str>, Option<&str>)> = batch
        .parties
        .iter()
        .map(|party| {
            let fsp = party.fsp.as_ref().map(FspId::as_str);
            (*party.kind.as_ref().unwrap(), &*party.identifier, party.sub_id.as_deref(), fsp)
        })
        .collect();
    assert_eq!(
        parties,
        [
            (PartyIdType::Msisdn, "26097", Some("shop-7"), Some("greenbank")),
            (PartyIdType::Email, "a@b.cd", None, Some("bluebank"))
        ]
    );
}

/// An entry without a usable `fspId` does not affect the others.
#[test]
fn batch_entry_without_fsp_id_is_parsed() {
    let body = |fsp: &str| {
        format!(
            r#"{{"requestId":"01J8ZC5Y2T3V4W5X6Y7Z8A9B0C","partyList":[
            {{"partyIdType":"MSISDN","partyIdentifier":"1"{fsp}}},
            {{"partyIdType":"MSISDN","partyIdentifier":"2","fspId":"greenbank"}}]}}"#
        )
    };
    // By the schema, a value that is not a text makes the batch invalid.
    let refused = parse_participants_batch(body(r#","fspId":{}"#).as_bytes()).unwrap_err();
    assert_eq!(refused.code.number(), 3101);
    for fsp in ["", r#","fspId":"""#, r#","fspId":"123456789012345678901234567890123""#] {
        let body = body(fsp);
        let batch = parse_participants_batch(body.as_bytes()).unwrap();
        let names: Vec<_> = batch.parties.iter().map(|party| party.fsp.map(|fsp| fsp.to_string())).collect();
        assert_eq!(names, [None, Some("greenbank".to_string())], "{fsp}");
    }
}

#[test]
fn a_batch_follows_the_schema() {
    let parse = |body: &[u8]| outcome(parse_participants_batch(body));
    assert_required(BATCH, parse, "", &["requestId", "partyList"]);
    assert_required(BATCH, parse, "/partyList/0", &["partyIdType", "partyIdentifier"]);
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
fn body_with_too_many_values_is_rejected() {
    // Five in addition to those in the list: the body, two names, the DFSP, the list.
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
fn duplicate_property_or_invalid_json_is_rejected() {
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

const FULFIL: [(&str, &str); 3] = [
    ("fulfilment", r#""UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA""#),
    ("completedTimestamp", r#""2031-04-01T12:00:01.250Z""#),
    ("transferState", r#""RESERVED""#),
];

#[test]
fn a_fulfil_is_read() {
    let fulfil = parse_fulfil(with(&FULFIL, &[]).as_bytes()).unwrap();
    assert_eq!(fulfil.transfer_state, TransferState::Reserved);
    assert_eq!(fulfil.fulfilment.unwrap()[..2], [0x50, 0xd9]);
    assert_eq!(fulfil.completed_timestamp.unwrap().to_string(), "2031-04-01T12:00:01.250Z");
    assert_eq!(fulfil.extensions, None);
    for (text, state) in [
        ("RECEIVED", TransferState::Received),
        ("RESERVED", TransferState::Reserved),
        ("COMMITTED", TransferState::Committed),
        ("ABORTED", TransferState::Aborted),
    ] {
        let fulfil = parse_fulfil(format!(r#"{{"transferState":"{text}"}}"#).as_bytes()).unwrap();
        assert_eq!((fulfil.transfer_state, state.as_str()), (state, text));
        assert_eq!((fulfil.fulfilment, fulfil.completed_timestamp), (None, None));
    }
    let stray = r#""UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFB""#;
    let lenient = parse_fulfil(with(&FULFIL, &[("fulfilment", stray)]).as_bytes()).unwrap();
    assert_eq!(lenient.fulfilment, fulfil.fulfilment);
}

#[test]
fn a_wrong_fulfil_is_refused() {
    for (name, json, code, description) in [
        (
            "transferState",
            "",
            3102,
            "Missing mandatory element - /requestBody must have required property 'transferState'",
        ),
        (
            "transferState",
            r#""SETTLED""#,
            3100,
            "Generic validation error - /requestBody/transferState must be equal to one of the allowed values: COMMITTED, RESERVED…",
        ),
        (
            "transferState",
            "null",
            3100,
            "Generic validation error - /requestBody/transferState must be equal to one of the allowed values: COMMITTED, RESERVED…",
        ),
        ("transferState", "{}", 3101, "Malformed syntax - /requestBody/transferState must be string"),
        (
            "fulfilment",
            r#""short""#,
            3100,
            "Generic validation error - /requestBody/fulfilment must match pattern: 43 characters of base64url, no padding",
        ),
        ("fulfilment", "{}", 3101, "Malformed syntax - /requestBody/fulfilment must be string"),
        (
            "completedTimestamp",
            r#""now""#,
            3100,
            "Generic validation error - /requestBody/completedTimestamp must match pattern…",
        ),
        ("extensionList", "1", 3101, "Malformed syntax - /requestBody/extensionList must be object"),
    ] {
        let got = refusal(parse_fulfil(with(&FULFIL, &[(name, json)]).as_bytes()));
        assert_refusal(&got, code, description, &format!("{name} {json}"));
    }
    // The state of an FX transfer does not make a fulfil of a transfer: the path decides the kind of message.
    assert_eq!(refusal(parse_fulfil(br#"{"conversionState":"RESERVED"}"#)).0, 3102);
}

#[test]
fn an_error_body_is_read() {
    let body = r#"{"errorInformation":{"errorCode":"5104","errorDescription":"Payee rejected transaction - account frozen"}}"#;
    let error = parse_error_body(body.as_bytes()).unwrap();
    assert_eq!(error.code, ErrorCode::PAYEE_REJECTED_TRANSACTION);
    assert_eq!(error.description, "Payee rejected transaction - account frozen");
    let body = r#"{"errorInformation":{"errorCode":9999,"errorDescription":"d","extensionList":{"extension":[{"key":"k","value":"v"}]}}}"#;
    let error = parse_error_body(body.as_bytes()).unwrap();
    assert!(!error.code.is_known_to_api());
    assert_eq!(error.extensions.as_deref(), Some(r#"[{"key":"k","value":"v"}]"#));
}

#[test]
fn a_wrong_error_body_is_refused() {
    let long = format!(r#"{{"errorCode":"5104","errorDescription":"{}"}}"#, "é".repeat(129));
    for (information, code, description) in [
        ("", 3102, "Missing mandatory element - /requestBody must have required property 'errorInformation'"),
        ("[]", 3101, "Malformed syntax - /requestBody/errorInformation must be object"),
        (
            "{}",
            3102,
            "Missing mandatory element - /requestBody/errorInformation must have required property 'errorCode'",
        ),
        (
            r#"{"errorCode":"5104"}"#,
            3102,
            "Missing mandatory element - /requestBody/errorInformation must have required property 'errorDescription'",
        ),
        (
            r#"{"errorCode":"0104","errorDescription":"d"}"#,
            3100,
            "Generic validation error - /requestBody/errorInformation/errorCode must match pattern: four digits, the first not 0",
        ),
        (
            r#"{"errorCode":"51045","errorDescription":"d"}"#,
            3100,
            "Generic validation error - /requestBody/errorInformation/errorCode must match pattern…",
        ),
        (
            r#"{"errorCode":"+510","errorDescription":"d"}"#,
            3100,
            "Generic validation error - /requestBody/errorInformation/errorCode must match pattern…",
        ),
        (
            r#"{"errorCode":{},"errorDescription":"d"}"#,
            3101,
            "Malformed syntax - /requestBody/errorInformation/errorCode must be string",
        ),
        (
            r#"{"errorCode":"5104","errorDescription":""}"#,
            3100,
            "Generic validation error - /requestBody/errorInformation/errorDescription must NOT have fewer than 1 characters",
        ),
        (
            &long,
            3100,
            "Generic validation error - /requestBody/errorInformation/errorDescription must NOT have more than 128 characters",
        ),
        (
            r#"{"errorCode":"5104","errorDescription":"d","extensionList":{}}"#,
            3102,
            "Missing mandatory element - /requestBody/errorInformation/extensionList must have required property 'extension…",
        ),
    ] {
        let body = with(&[], &[("errorInformation", information)]);
        assert_refusal(&refusal(parse_error_body(body.as_bytes())), code, description, information);
    }
}

#[test]
fn completed_timestamp_must_be_recent_and_not_in_the_future() {
    let now = Timestamp::parse_iso("2031-04-01T12:00:00.000Z").unwrap();
    let check = |offset_ms: i64, proxied| {
        check_completed_timestamp(Some(now.plus_ms(offset_ms)), now.into(), 200, 300, proxied)
            .map_err(|error| (error.status, error.code.number(), error.description))
    };
    for offset_ms in [0, 200, -1, -300_000] {
        assert_eq!(check(offset_ms, false), Ok(()), "{offset_ms}");
    }
    let future = "Generic validation error - completedTimestamp fails because future timestamp was provided";
    let old = "Generic validation error - completedTimestamp fails because provided timestamp exceeded the maximum timeout duration";
    for (offset_ms, text) in [(201, future), (10_000_000, future), (-300_001, old), (-10_000_000_000, old)] {
        assert_eq!(check(offset_ms, false), Err((400, 3100, text.to_string())), "{offset_ms}");
        assert_eq!(check(offset_ms, true), Ok(()), "{offset_ms} through a proxy");
    }
    // While the hub's clocks disagree, a time that is valid by one of them is accepted.
    let present = Present { at: now, earliest: now.plus_ms(-86_400_000), latest: now.plus_ms(86_400_000) };
    for (offset_ms, passes) in
        [(86_400_200, true), (86_400_201, false), (-86_700_000, true), (-86_700_001, false), (0, true)]
    {
        let checked = check_completed_timestamp(Some(now.plus_ms(offset_ms)), present, 200, 300, false);
        assert_eq!(checked.is_ok(), passes, "{offset_ms}");
    }
    assert_eq!(check_completed_timestamp(None, now.into(), 200, 300, false), Ok(()));
    assert!(check_completed_timestamp(Some(Timestamp::MAX), now.into(), 200, 300, false).is_err());
}
