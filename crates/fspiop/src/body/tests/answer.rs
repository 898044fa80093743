use super::{assert_refusal, refusal, with};
use crate::body::*;
use alloc::format;
use alloc::string::ToString;
use upesi_types::{ErrorCode, Present, Timestamp};

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
    // A conversion's state makes no transfer's fulfil: the path says what a message is.
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
fn completion_must_be_recent_and_not_ahead() {
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
    // While the hub's clocks disagree, what is right by one of them passes.
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
