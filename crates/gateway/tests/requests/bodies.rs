//! Bodies that break the schema, over a real socket: code, text, and no effect on the ledger.

use crate::common::{ERROR_BODY, ID, Running, fulfil_body, post, prepare_body, put, put_error};

/// A body, its error code, and a part of the description.
type Row = (String, u16, &'static str);

fn check(running: &Running, rows: &[Row], send: fn(&str) -> Vec<u8>) {
    let before = running.records();
    let mut client = running.connect();
    for (body, code, contains) in rows {
        let answer = client.exchange(&send(body));
        assert_eq!((answer.status, answer.code()), (400, *code), "{body}\n{answer:?}");
        assert!(answer.body.contains(contains), "{body}\n{answer:?}");
    }
    assert_eq!(running.records(), before);
}

/// The body of a prepare with a replaced text, which must be in it.
fn changed(from: &str, to: &str) -> String {
    let body = prepare_body(ID);
    assert!(body.contains(from), "{from}");
    body.replacen(from, to, 1)
}

/// The text of a JSON member in the body of a prepare.
fn member(name: &str) -> String {
    let body = prepare_body(ID);
    let start = body.find(&format!("\"{name}\":")).unwrap();
    let value = start + name.len() + 3;
    let end = match body.as_bytes()[value] {
        b'{' => value + body[value..].find('}').unwrap() + 1,
        _ => value + 1 + body[value + 1..].find('"').unwrap() + 1,
    };
    body[start..end].to_owned()
}

const REQUIRED: [&str; 7] =
    ["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"];

#[test]
fn prepare_without_a_required_member_is_rejected() {
    let running = Running::plain();
    for name in REQUIRED {
        let body = prepare_body(ID).replacen(&format!("{},", member(name)), "", 1);
        let body = body.replacen(&format!(",{}", member(name)), "", 1);
        let answer = running.ask(&post(&[], &body));
        assert_eq!((answer.status, answer.code()), (400, 3102), "{body}");
        let text = format!("Missing mandatory element - /requestBody must have required property '{name}'");
        assert!(answer.body.contains(&text), "{answer:?}");
    }
    check(
        &running,
        &[
            (String::new(), 3102, "/requestBody must have required property 'transferId'"),
            ("{}".into(), 3102, "'transferId'"),
            (
                changed(r#""currency":"KES","#, ""),
                3102,
                "/requestBody/amount must have required property 'currency'",
            ),
            (
                changed(r#","amount":"125.5""#, ""),
                3102,
                "/requestBody/amount must have required property 'amount'",
            ),
        ],
        |body| post(&[], body),
    );
}

#[test]
fn prepare_with_wrong_types_is_rejected() {
    let running = Running::plain();
    for name in REQUIRED {
        for wrong in ["[]", "[1]"] {
            let answer = running.ask(&post(&[], changed(&member(name), &format!("\"{name}\":{wrong}"))));
            assert_eq!((answer.status, answer.code()), (400, 3101), "{name} {wrong}");
            let expected = if name == "amount" { "must be object" } else { "must be string" };
            assert!(answer.body.contains(&format!("/requestBody/{name} {expected}")), "{answer:?}");
        }
    }
    check(
        &running,
        &[
            ("[]".into(), 3101, "Malformed syntax - /requestBody must be object"),
            ("\"text\"".into(), 3101, "/requestBody must be object"),
            ("12".into(), 3101, "/requestBody must be object"),
            ("null".into(), 3101, "/requestBody must be object"),
            (
                changed(r#"{"currency":"KES","amount":"125.5"}"#, r#""125.5""#),
                3101,
                "/requestBody/amount must be object",
            ),
            (changed(r#""KES""#, "{}"), 3101, "/requestBody/amount/currency must be string"),
            (
                changed(r#""expiration""#, r#""extensionList":[],"expiration""#),
                3101,
                "/requestBody/extensionList must be object",
            ),
            (
                changed(r#""expiration""#, r#""extensionList":{"extension":{}},"expiration""#),
                3101,
                "/requestBody/extensionList/extension must be array",
            ),
        ],
        |body| post(&[], body),
    );
}

#[test]
fn prepare_that_violates_a_pattern_is_rejected() {
    let extensions = |items: &str| {
        changed(r#""expiration""#, &format!(r#""extensionList":{{"extension":[{items}]}},"expiration""#))
    };
    let seventeen = vec![r#"{"key":"k","value":"v"}"#; 17].join(",");
    check(
        &Running::plain(),
        &[
            (changed(ID, &ID.to_uppercase()), 3100, "/requestBody/transferId must match pattern"),
            (changed(ID, "x"), 3100, "Generic validation error - /requestBody/transferId must match pattern"),
            (
                changed(r#""greenbank""#, r#""""#),
                3100,
                "/requestBody/payerFsp must NOT have fewer than 1 characters",
            ),
            (
                changed("bluewallet", &"b".repeat(33)),
                3100,
                "/requestBody/payeeFsp must NOT have more than 32 characters",
            ),
            (
                changed("KES", "KEX"),
                3100,
                "/requestBody/amount/currency must be equal to one of the allowed values",
            ),
            (changed("125.5", "125.50"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed("125.5", "-1"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed("125.5", "01"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed("125.5", "1e3"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed(r#""125.5""#, "125.5"), 3101, "/requestBody/amount/amount must be string"),
            (changed(r#""125.5""#, "125"), 3101, "/requestBody/amount/amount must be string"),
            (changed(r#""125.5""#, "null"), 3101, "/requestBody/amount/amount must be string"),
            (changed("AYICexample", "not base64!"), 3100, "/requestBody/ilpPacket must match pattern"),
            (
                changed("AYICexample", &"A".repeat(32_769)),
                3100,
                "/requestBody/ilpPacket must NOT have more than 32768 characters",
            ),
            (
                changed(r#""condition":""#, r#""condition":"A"#),
                3100,
                "/requestBody/condition must match pattern",
            ),
            (changed("30.000Z", "30Z"), 3100, "/requestBody/expiration must match pattern"),
            (changed("2031-04-01", "2031-02-29"), 3100, "/requestBody/expiration must match pattern"),
            (extensions(""), 3100, "/requestBody/extensionList/extension must NOT have fewer than 1 items"),
            (extensions(&seventeen), 3100, "must NOT have more than 16 items"),
            (extensions(r#"{"key":"k","value":""}"#), 3100, "/requestBody/extensionList/extension/0/value"),
            (extensions(r#"{"key":"k"}"#), 3102, "must have required property 'value'"),
        ],
        |body| post(&[], body),
    );
}

#[test]
fn body_that_is_not_json_is_rejected() {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    check(
        &Running::plain(),
        &[
            ("{".into(), 3101, "Malformed syntax - /requestBody is not valid JSON"),
            (prepare_body(ID) + "}", 3101, "/requestBody is not valid JSON"),
            (prepare_body(ID).replace("\":\"", "\"=\""), 3101, "/requestBody is not valid JSON"),
            ("<transfer/>".into(), 3101, "/requestBody is not valid JSON"),
            (changed("greenbank", "green\0bank"), 3101, "Malformed syntax"),
            (changed("AYICexample", "\n"), 3101, "Malformed syntax"),
            (deep, 3101, "/requestBody is nested deeper than 128 levels"),
            ("[".repeat(60_000), 3101, "/requestBody is nested deeper than 128 levels"),
            (changed(r#""amount":{"#, r#""amount":{},"amount":{"#), 3101, "property 'amount' occurs twice"),
        ],
        |body| post(&[], body),
    );
    let running = Running::plain();
    let mut body = prepare_body(ID).into_bytes();
    body[20] = 0xff;
    let answer = running.ask(&post(&[], body));
    assert_eq!((answer.status, answer.code()), (400, 3101));
    assert!(answer.body.contains("/requestBody is not valid UTF-8"), "{answer:?}");
}

#[test]
fn unusual_valid_bodies_are_accepted() {
    let running = Running::plain();
    let nested = format!(r#""x":{}1{},"expiration""#, "[".repeat(126), "]".repeat(126));
    for body in [
        changed(r#""expiration""#, r#""extra":{"a":[1,null]},"expiration""#),
        changed(r#""expiration""#, &nested),
        prepare_body(ID).replace(',', " ,\r\n\t"),
        prepare_body("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        prepare_body(ID) + "\n",
    ] {
        assert_eq!(running.ask(&post(&[], &body)).status, 202, "{body}");
    }
}

#[test]
fn invalid_fulfils_are_rejected() {
    check(
        &Running::plain(),
        &[
            (String::new(), 3102, "/requestBody must have required property 'transferState'"),
            (r#"{"fulfilment":1}"#.into(), 3102, "'transferState'"),
            ("[]".into(), 3101, "/requestBody must be object"),
            (
                r#"{"transferState":"DONE"}"#.into(),
                3100,
                "/requestBody/transferState must be equal to one of",
            ),
            (r#"{"transferState":{}}"#.into(), 3101, "/requestBody/transferState must be string"),
            (
                r#"{"transferState":"COMMITTED","fulfilment":"short"}"#.into(),
                3100,
                "/requestBody/fulfilment must match pattern",
            ),
            (
                r#"{"transferState":"COMMITTED","completedTimestamp":"yesterday"}"#.into(),
                3100,
                "/requestBody/completedTimestamp must match pattern",
            ),
        ],
        |body| put(ID, &[], body),
    );
}

#[test]
fn invalid_aborts_are_rejected() {
    check(
        &Running::plain(),
        &[
            ("{}".into(), 3102, "/requestBody must have required property 'errorInformation'"),
            (ERROR_BODY.replace("errorCode", "code"), 3102, "must have required property 'errorCode'"),
            (
                ERROR_BODY.replace("errorDescription", "text"),
                3102,
                "must have required property 'errorDescription'",
            ),
            (r#"{"errorInformation":"5104"}"#.into(), 3101, "/requestBody/errorInformation must be object"),
            (
                ERROR_BODY.replace("5104", "51"),
                3100,
                "/requestBody/errorInformation/errorCode must match pattern",
            ),
            (ERROR_BODY.replace("5104", "0104"), 3100, "errorCode must match pattern"),
            (
                ERROR_BODY.replace("account frozen", &"x".repeat(129)),
                3100,
                "/requestBody/errorInformation/errorDescription must NOT have more than 128 characters",
            ),
        ],
        |body| put_error(ID, &[], body),
    );
}

#[test]
fn completed_timestamps() {
    let at = |time: &str| fulfil_body().replacen('{', &format!(r#"{{"completedTimestamp":"{time}","#), 1);
    let running = Running::plain();
    let future = "completedTimestamp fails because future timestamp was provided";
    let stale = "exceeded the maximum timeout duration";
    check(
        &running,
        &[
            (at("2031-04-01T12:00:00.201Z"), 3100, future),
            (at("2999-01-01T00:00:00.000Z"), 3100, future),
            (at("2031-04-01T11:54:59.999Z"), 3100, stale),
            (at("1999-01-01T00:00:00.000Z"), 3100, stale),
        ],
        |body| put(ID, &[], body),
    );
    for time in ["2031-04-01T12:00:00.200Z", "2031-04-01T11:55:00.000Z"] {
        assert_eq!(running.ask(&put(ID, &[], at(time))).status, 200, "{time}");
    }
    let proxied = put(ID, &["fspiop-proxy: bridge"], at("1999-01-01T00:00:00.000Z"));
    assert_eq!(running.ask(&proxied).status, 200);
}
