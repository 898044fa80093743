use super::{assert_refusal, refusal, with};
use crate::body::*;
use alloc::format;
use alloc::string::{String, ToString};
use upesi_types::AmountError;

/// The members of a valid `POST /transfers`, not in the schema's order.
const PREPARE: [(&str, &str); 7] = [
    ("transferId", r#""5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d""#),
    ("payerFsp", r#""greenbank""#),
    ("payeeFsp", r#""bluewallet""#),
    ("amount", r#"{"currency":"KES","amount":"125.5"}"#),
    ("ilpPacket", r#""AYICexampleilppacket0123""#),
    ("condition", r#""zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s""#),
    ("expiration", r#""2031-04-01T12:00:30.000Z""#),
];

#[test]
fn a_prepare_is_read() {
    let body = with(&PREPARE, &[("extensionList", r#"{"extension":[ {"value":"v","key":"k"} ]}"#)]);
    let prepare = parse_prepare(body.as_bytes()).unwrap();
    assert_eq!(prepare.transfer_id.to_string(), "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d");
    assert_eq!((prepare.payer.as_str(), prepare.payee.as_str()), ("greenbank", "bluewallet"));
    assert_eq!(prepare.currency.as_str(), "KES");
    assert_eq!(prepare.amount.unwrap().units(), 1_255_000);
    assert!(matches!(prepare.ilp_packet, alloc::borrow::Cow::Borrowed("AYICexampleilppacket0123")));
    assert_eq!(prepare.condition.unwrap()[..2], [0xce, 0x43]);
    assert_eq!(prepare.expiration.to_string(), "2031-04-01T12:00:30.000Z");
    assert_eq!(prepare.extensions.as_deref(), Some(r#"[{"key":"k","value":"v"}]"#));
}

#[test]
fn valid_variants_of_a_prepare_are_accepted() {
    for (what, changes) in [
        ("extra members", [("more", r#"{"deep":[1,2,{"x":null}]}"#)]),
        ("escapes", [("payerFsp", r#""gre\u0065nbank""#)]),
        ("boolean name", [("payerFsp", "true")]),
        ("numeric name", [("payerFsp", "1234567890123456789012345678901")]),
        ("padding", [("ilpPacket", r#""AYI==""#)]),
        ("offset", [("expiration", r#""2031-04-01T12:00:30.000-19:59""#)]),
        ("ulid", [("transferId", r#""01ARZ3NDEKTSV4RRFFQ69G5FAV""#)]),
        ("zero", [("amount", r#"{"amount":"0","currency":"XTS","more":0}"#)]),
    ] {
        let body = with(&PREPARE, &changes);
        assert!(parse_prepare(body.as_bytes()).is_ok(), "{what}: {:?}", parse_prepare(body.as_bytes()));
        let spaced = format!(" \n{}\t\r\n", body.replace(':', " : ").replace(',', " ,\n"));
        if what != "offset" && !body.contains("T12:") {
            assert!(parse_prepare(spaced.as_bytes()).is_ok(), "{what}");
        }
    }
    let escaped_key = with(&PREPARE, &[("payerFsp", ""), (r"payer\u0046sp", r#""x""#)]);
    assert_eq!(parse_prepare(escaped_key.as_bytes()).unwrap().payer.as_str(), "x");
}

#[test]
fn amounts_out_of_range_are_left_to_the_ledger() {
    for (amount, error) in
        [("100000000000000", AmountError::Precision), ("999999999999999999.9999", AmountError::Precision)]
    {
        let json = format!(r#"{{"currency":"KES","amount":"{amount}"}}"#);
        let body = with(&PREPARE, &[("amount", &json)]);
        let refused = parse_prepare(body.as_bytes()).unwrap().amount.unwrap_err();
        assert_eq!((refused.error, refused.text.as_ref()), (error, amount));
    }
}

#[test]
fn condition_with_spare_bits_is_left_to_the_ledger() {
    let stray = r#""zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51t""#;
    let body = with(&PREPARE, &[("condition", stray)]);
    assert_eq!(parse_prepare(body.as_bytes()).unwrap().condition, None);
}

#[test]
fn missing_members_are_named_in_the_order_of_the_schema() {
    let order = ["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"];
    for (index, name) in order.iter().enumerate() {
        let gone: alloc::vec::Vec<(&str, &str)> = order[index..].iter().map(|name| (*name, "")).collect();
        // An earlier invalid value is not reported first.
        let mut changes = gone.clone();
        if index > 0 {
            changes.push(("transferId", "[]"));
        }
        let got = refusal(parse_prepare(with(&PREPARE, &changes).as_bytes()));
        let text = format!("Missing mandatory element - /requestBody must have required property '{name}'");
        assert_refusal(&got, 3102, &text, name);
    }
    for absent in ["", " \r\n\t", "{}"] {
        let text = "Missing mandatory element - /requestBody must have required property 'transferId'";
        assert_refusal(&refusal(parse_prepare(absent.as_bytes())), 3102, text, absent);
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_values_are_rejected_with_their_code_and_text() {
    let long_name = format!("\"{}\"", "n".repeat(33));
    let long_packet = format!("\"{}\"", "A".repeat(32_769));
    for (name, json, code, description) in [
        ("transferId", "{}", 3101, "Malformed syntax - /requestBody/transferId must be string"),
        ("transferId", "[]", 3101, "Malformed syntax - /requestBody/transferId must be string"),
        (
            "transferId",
            "null",
            3100,
            "Generic validation error - /requestBody/transferId must match pattern: a UUID in lower case, or a ULID",
        ),
        ("transferId", "7", 3100, "Generic validation error - /requestBody/transferId must match pattern…"),
        (
            "transferId",
            r#""5B1C7D0E-2F34-4A6B-9C8D-0E1F2A3B4C5D""#,
            3100,
            "Generic validation error - /requestBody/transferId must match pattern…",
        ),
        ("payeeFsp", "{}", 3101, "Malformed syntax - /requestBody/payeeFsp must be string"),
        (
            "payeeFsp",
            r#""""#,
            3100,
            "Generic validation error - /requestBody/payeeFsp must NOT have fewer than 1 characters",
        ),
        (
            "payeeFsp",
            "null",
            3100,
            "Generic validation error - /requestBody/payeeFsp must NOT have fewer than 1 characters",
        ),
        (
            "payerFsp",
            &long_name,
            3100,
            "Generic validation error - /requestBody/payerFsp must NOT have more than 32 characters",
        ),
        (
            "payerFsp",
            r#""bänk""#,
            3100,
            "Generic validation error - /requestBody/payerFsp must match pattern: 1 to 32 printable ASCII characters",
        ),
        ("payerFsp", r#""\ud800""#, 3101, "Malformed syntax - /requestBody/payerFsp is not a valid text: …"),
        ("amount", r#""100""#, 3101, "Malformed syntax - /requestBody/amount must be object"),
        ("amount", "null", 3101, "Malformed syntax - /requestBody/amount must be object"),
        ("amount", "[]", 3101, "Malformed syntax - /requestBody/amount must be object"),
        (
            "amount",
            "{}",
            3102,
            "Missing mandatory element - /requestBody/amount must have required property 'currency'",
        ),
        (
            "amount",
            r#"{"currency":"KES"}"#,
            3102,
            "Missing mandatory element - /requestBody/amount must have required property 'amount'",
        ),
        (
            "amount",
            r#"{"currency":"kes","amount":"-"}"#,
            3100,
            "Generic validation error - /requestBody/amount/currency must be equal to one of the allowed values: ISO 4217 codes…",
        ),
        (
            "amount",
            r#"{"currency":[],"amount":"1"}"#,
            3101,
            "Malformed syntax - /requestBody/amount/currency must be string",
        ),
        (
            "amount",
            r#"{"currency":"KES","amount":100}"#,
            3101,
            "Malformed syntax - /requestBody/amount/amount must be string",
        ),
        (
            "amount",
            r#"{"currency":"KES","amount":null}"#,
            3101,
            "Malformed syntax - /requestBody/amount/amount must be string",
        ),
        (
            "amount",
            r#"{"currency":"KES","amount":{}}"#,
            3101,
            "Malformed syntax - /requestBody/amount/amount must be string",
        ),
        (
            "amount",
            r#"{"currency":"KES","amount":"1.50"}"#,
            3100,
            "Generic validation error - /requestBody/amount/amount must match pattern: no trailing zeros, such as 12.5",
        ),
        (
            "ilpPacket",
            r#""""#,
            3100,
            "Generic validation error - /requestBody/ilpPacket must NOT have fewer than 1 characters",
        ),
        (
            "ilpPacket",
            &long_packet,
            3100,
            "Generic validation error - /requestBody/ilpPacket must NOT have more than 32768 characters",
        ),
        (
            "ilpPacket",
            r#""AY+I""#,
            3100,
            "Generic validation error - /requestBody/ilpPacket must match pattern: base64url",
        ),
        (
            "ilpPacket",
            r#""==""#,
            3100,
            "Generic validation error - /requestBody/ilpPacket must match pattern…",
        ),
        (
            "ilpPacket",
            r#""A===""#,
            3100,
            "Generic validation error - /requestBody/ilpPacket must match pattern…",
        ),
        (
            "condition",
            r#""short""#,
            3100,
            "Generic validation error - /requestBody/condition must match pattern: 43 characters of base64url, no padding",
        ),
        (
            "condition",
            r#""zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s=""#,
            3100,
            "Generic validation error - /requestBody/condition must match pattern…",
        ),
        (
            "condition",
            r#""zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s======""#,
            3100,
            "Generic validation error - /requestBody/condition must NOT have more than 48 characters",
        ),
        (
            "expiration",
            r#""2031-04-01T12:00:30Z""#,
            3100,
            "Generic validation error - /requestBody/expiration must match pattern: a time that exists, such as 2031-04-01T10:00:00.000Z",
        ),
        (
            "expiration",
            r#""0031-04-01T12:00:30.000Z""#,
            3100,
            "Generic validation error - /requestBody/expiration must match pattern…",
        ),
        (
            "expiration",
            r#""2031-04-01T12:00:30.000+20:00""#,
            3100,
            "Generic validation error - /requestBody/expiration must match pattern…",
        ),
        (
            "expiration",
            r#""2031-02-29T12:00:30.000Z""#,
            3100,
            "Generic validation error - /requestBody/expiration must match pattern…",
        ),
        (
            "expiration",
            "1932811230000",
            3100,
            "Generic validation error - /requestBody/expiration must match pattern…",
        ),
        ("extensionList", "null", 3101, "Malformed syntax - /requestBody/extensionList must be object"),
        ("extensionList", "[]", 3101, "Malformed syntax - /requestBody/extensionList must be object"),
        (
            "extensionList",
            "{}",
            3102,
            "Missing mandatory element - /requestBody/extensionList must have required property 'extension'",
        ),
        (
            "extensionList",
            r#"{"extension":{}}"#,
            3101,
            "Malformed syntax - /requestBody/extensionList/extension must be array",
        ),
        (
            "extensionList",
            r#"{"extension":[]}"#,
            3100,
            "Generic validation error - /requestBody/extensionList/extension must NOT have fewer than 1 items",
        ),
        (
            "extensionList",
            r#"{"extension":[1]}"#,
            3101,
            "Malformed syntax - /requestBody/extensionList/extension/0 must be object",
        ),
        (
            "extensionList",
            r#"{"extension":[{"key":"k","value":"v"},{"value":"v"}]}"#,
            3102,
            "Missing mandatory element - /requestBody/extensionList/extension/1 must have required property 'key'",
        ),
        (
            "extensionList",
            r#"{"extension":[{"key":"k"}]}"#,
            3102,
            "Missing mandatory element - /requestBody/extensionList/extension/0 must have required property 'value'",
        ),
        (
            "extensionList",
            r#"{"extension":[{"key":"","value":"v"}]}"#,
            3100,
            "Generic validation error - /requestBody/extensionList/extension/0/key must NOT have fewer than 1 characters",
        ),
        (
            "extensionList",
            r#"{"extension":[{"key":"k","value":[]}]}"#,
            3101,
            "Malformed syntax - /requestBody/extensionList/extension/0/value must be string",
        ),
    ] {
        let body = with(&PREPARE, &[(name, json)]);
        assert_refusal(
            &refusal(parse_prepare(body.as_bytes())),
            code,
            description,
            &format!("{name} {json}"),
        );
    }
}

#[test]
fn first_invalid_value_in_schema_order_is_reported() {
    let order = [
        "transferId",
        "payeeFsp",
        "payerFsp",
        "amount",
        "ilpPacket",
        "condition",
        "expiration",
        "extensionList",
    ];
    for index in 0..order.len() {
        let changes: alloc::vec::Vec<(&str, &str)> =
            order[index..].iter().rev().map(|name| (*name, "[]")).collect();
        let got = refusal(parse_prepare(with(&PREPARE, &changes).as_bytes()));
        let path = format!("Malformed syntax - /requestBody/{} must be …", order[index]);
        assert_refusal(&got, 3101, &path, order[index]);
    }
}

#[test]
fn body_that_is_not_a_json_object_is_malformed() {
    let valid = with(&PREPARE, &[]);
    let nested =
        |depth: usize| with(&PREPARE, &[("more", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)))]);
    assert!(parse_prepare(nested(JSON_DEPTH_MAX - 1).as_bytes()).is_ok());
    for (body, description) in [
        ("[]".to_string(), "Malformed syntax - /requestBody must be object"),
        ("\"text\"".to_string(), "Malformed syntax - /requestBody must be object"),
        ("null".to_string(), "Malformed syntax - /requestBody must be object"),
        ("17".to_string(), "Malformed syntax - /requestBody must be object"),
        ("[1,".to_string(), "Malformed syntax - /requestBody is not valid JSON: …"),
        ("{".to_string(), "Malformed syntax - /requestBody is not valid JSON: …"),
        ("not json".to_string(), "Malformed syntax - /requestBody is not valid JSON: …"),
        ("<xml/>".to_string(), "Malformed syntax - /requestBody is not valid JSON: …"),
        ("\u{feff}{}".to_string(), "Malformed syntax - /requestBody is not valid JSON: …"),
        (valid[..valid.len() - 1].to_string(), "Malformed syntax - /requestBody is not valid JSON: …"),
        (format!("{valid}x"), "Malformed syntax - /requestBody is not valid JSON: …"),
        (format!("{valid}{valid}"), "Malformed syntax - /requestBody is not valid JSON: …"),
        (valid.replace("\"KES\"", "KES"), "Malformed syntax - /requestBody is not valid JSON: …"),
        (
            valid.replace("\"payerFsp\"", "\"amount\""),
            "Malformed syntax - /requestBody is not valid JSON: property 'amount' occurs twice…",
        ),
        (
            valid.replace("\"KES\"", "\"KES\",\"amount\":\"1\""),
            "Malformed syntax - /requestBody is not valid JSON: property 'amount' occurs twice…",
        ),
        (nested(JSON_DEPTH_MAX), "Malformed syntax - /requestBody is nested deeper than 128 levels"),
        (nested(2_000_000), "Malformed syntax - /requestBody is nested deeper than 128 levels"),
    ] {
        let what = body.chars().take(80).collect::<String>();
        assert_refusal(&refusal(parse_prepare(body.as_bytes())), 3101, description, &what);
    }
    let mut bytes = with(&PREPARE, &[("more", "\"?\"")]).into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
    bytes[at] = 0xff;
    assert_refusal(
        &refusal(parse_prepare(&bytes)),
        3101,
        "Malformed syntax - /requestBody is not valid UTF-8",
        "",
    );
}

#[test]
fn extensions_are_rendered_again_within_their_limit() {
    let list = |json: &str| {
        let body = format!(r#"{{"transferState":"COMMITTED","extensionList":{{"extension":{json}}}}}"#);
        parse_fulfil(body.as_bytes()).map(|fulfil| fulfil.extensions.unwrap())
    };
    for (json, rendered) in [
        (r#"[{"key":"a","value":"b"}]"#, r#"[{"key":"a","value":"b"}]"#),
        ("[ {\n\"value\" : \"b\" , \"key\":\"a\",\"more\":[1]} ]", r#"[{"key":"a","value":"b"}]"#),
        (
            r#"[{"key":1,"value":true},{"key":"\u0041","value":"\""}]"#,
            r#"[{"key":"1","value":"true"},{"key":"A","value":"\""}]"#,
        ),
    ] {
        assert_eq!(list(json).as_deref(), Ok(rendered));
    }
    let items = |count| format!("[{}]", ["{\"key\":\"k\",\"value\":\"v\"}"].repeat(count).join(","));
    assert_eq!(list(&items(16)).unwrap(), items(16));
    let got = refusal(list(&items(17)));
    assert_refusal(
        &got,
        3100,
        "Generic validation error - /requestBody/extensionList/extension must NOT have more than 16 items",
        "17",
    );
    let widest = format!(r#"[{{"key":"{}","value":"{}"}}]"#, "é".repeat(32), "é".repeat(128));
    assert_eq!(list(&widest).unwrap(), widest);
    assert!(list(&format!(r#"[{{"key":"{}","value":"v"}}]"#, "é".repeat(33))).is_err());
    assert!(list(&format!(r#"[{{"key":"k","value":"{}"}}]"#, "é".repeat(129))).is_err());
}
