//! Transaction requests and authorizations.

use alloc::format;
use alloc::string::ToString;

use super::{assert_required, assert_table, outcome};
use crate::body::*;
use crate::{PartyIdType, Resource};

pub(super) const REQUEST: &str = r#"{
    "transactionRequestId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11",
    "payee": { "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "26097", "fspId": "greenbank" } },
    "payer": { "partyIdType": "ALIAS", "partyIdentifier": "henrik", "fspId": "bluebank" },
    "amount": { "amount": "12.5", "currency": "USD" },
    "transactionType": { "scenario": "PAYMENT", "initiator": "PAYEE", "initiatorType": "AGENT" }
}"#;

const AUTHORIZATION: &str = r#"{
    "responseType": "ENTERED",
    "authenticationInfo": { "authentication": "OTP", "authenticationValue": "1234" }
}"#;

#[test]
fn a_transaction_request_is_read() {
    let request = parse_transaction_request(REQUEST.as_bytes()).unwrap();
    assert_eq!(request.transaction_request_id.to_string(), "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11");
    assert_eq!((request.payer.kind, &*request.payer.identifier), (PartyIdType::Alias, "henrik"));
    assert_eq!(request.payee.id.fsp.unwrap().as_str(), "greenbank");
    assert_eq!((&*request.amount.amount, request.expiration), ("12.5", None));
    let parse = |body: &[u8]| outcome(parse_transaction_request(body));
    assert_required(
        REQUEST,
        parse,
        "",
        &["transactionRequestId", "payee", "payer", "amount", "transactionType"],
    );
    assert_table(
        REQUEST,
        parse,
        r#"
        /more               ⇒ 1       ⇒ ok
        /transactionRequestId ⇒ "x"   ⇒ 3100 /transactionRequestId must match pattern…
        /payer/partyIdType  ⇒ "X"     ⇒ 3100 /payer/partyIdType must be equal to one of the allowed values…
        /payee/partyIdInfo  ⇒         ⇒ 3102 /payee must have required property 'partyIdInfo'
        /note               ⇒ ""      ⇒ 3100 /note must NOT have fewer than 1 characters
        /geoCode            ⇒ {}      ⇒ 3102 /geoCode must have required property 'latitude'
        /authenticationType ⇒ "QRCODE" ⇒ ok
        /authenticationType ⇒ "PIN"   ⇒ 3100 /authenticationType must be equal to one of the allowed values…
        /expiration         ⇒ "soon"  ⇒ 3100 /expiration must match pattern…
        /extensionList      ⇒ []      ⇒ 3101 /extensionList must be object
        "#,
    );
}

#[test]
fn the_state_of_a_transaction_request_is_read() {
    for (text, state) in [
        ("RECEIVED", TransactionRequestState::Received),
        ("PENDING", TransactionRequestState::Pending),
        ("ACCEPTED", TransactionRequestState::Accepted),
        ("REJECTED", TransactionRequestState::Rejected),
    ] {
        let body = format!(r#"{{"transactionRequestState":"{text}"}}"#);
        let response = parse_transaction_request_response(body.as_bytes()).unwrap();
        assert_eq!((response.state, response.transaction_id), (state, None));
    }
    let full = r#"{"transactionRequestState":"ACCEPTED","transactionId":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}"#;
    let parse = |body: &[u8]| outcome(parse_transaction_request_response(body));
    assert!(parse_transaction_request_response(full.as_bytes()).unwrap().transaction_id.is_some());
    assert_required(full, parse, "", &["transactionRequestState"]);
    assert_table(
        full,
        parse,
        r#"
        /transactionRequestState ⇒ "DONE" ⇒ 3100 /transactionRequestState must be equal to one of the allowed values…
        /transactionId           ⇒ "x"    ⇒ 3100 /transactionId must match pattern…
        "#,
    );
}

#[test]
fn an_authorization_is_read() {
    for (text, outcome) in [
        ("ENTERED", AuthorizationOutcome::Entered),
        ("REJECTED", AuthorizationOutcome::Rejected),
        ("RESEND", AuthorizationOutcome::Resend),
    ] {
        let body = format!(r#"{{"responseType":"{text}"}}"#);
        assert_eq!(parse_authorization(body.as_bytes()), Ok(outcome));
    }
    let parse = |body: &[u8]| outcome(parse_authorization(body));
    assert_required(AUTHORIZATION, parse, "", &["responseType"]);
    assert_required(AUTHORIZATION, parse, "/authenticationInfo", &["authentication", "authenticationValue"]);
    assert_table(
        AUTHORIZATION,
        parse,
        r#"
        /responseType                            ⇒ "YES"  ⇒ 3100 /responseType must be equal to one of the allowed values…
        /authenticationInfo/authentication       ⇒ "U2F"  ⇒ ok
        /authenticationInfo/authentication       ⇒ "PIN"  ⇒ 3100 /authenticationInfo/authentication must be equal to one of the allowed values…
        /authenticationInfo/authenticationValue  ⇒ "https://example.org/pay?x=1" ⇒ ok
        /authenticationInfo/authenticationValue  ⇒ ""     ⇒ 3100 /authenticationInfo/authenticationValue must match pattern…
        /authenticationInfo/authenticationValue  ⇒ "a b"  ⇒ 3100 /authenticationInfo/authenticationValue must match pattern…
        /authenticationInfo/authenticationValue  ⇒ []     ⇒ 3101 /authenticationInfo/authenticationValue must be string
        /authenticationInfo/authenticationValue  ⇒ {"pinValue":"1234","counter":"7"} ⇒ ok
        /authenticationInfo/authenticationValue  ⇒ {"pinValue":"1234","counter":7}   ⇒ ok
        /authenticationInfo/authenticationValue  ⇒ {"pinValue":"1234","counter":"0"} ⇒ 3100 /authenticationInfo/authenticationValue/counter must match pattern…
        /authenticationInfo/authenticationValue  ⇒ {"pinValue":"1 2","counter":"1"}  ⇒ 3100 /authenticationInfo/authenticationValue/pinValue must match pattern…
        /authenticationInfo/authenticationValue  ⇒ {"pinValue":"1234"} ⇒ 3102 /authenticationInfo/authenticationValue must have required property 'counter'
        "#,
    );
}

#[test]
fn invalid_json_is_rejected_with_its_own_text() {
    type Parse = fn(&[u8]) -> super::Outcome;
    let parsers: [Parse; 5] = [
        |body| outcome(parse_transaction_request(body)),
        |body| outcome(parse_transaction_request_response(body)),
        |body| outcome(parse_authorization(body)),
        |body| outcome(parse_error_body_of(Resource::TransactionRequests, body)),
        |body| outcome(parse_error_body_of(Resource::Authorizations, body)),
    ];
    for parse in parsers {
        for body in [&b"{"[..], b"<a/>", b"\xff", br#"{"a":1,}"#, br#"{"responseType":"#] {
            let text = "Generic client error - Invalid request payload JSON format";
            assert_eq!(parse(body), Err((3000, text.into())));
        }
        assert_eq!(parse(b"[]"), Err((3101, "Malformed syntax - /requestBody must be object".into())));
        assert_eq!(parse(b"").unwrap_err().0, 3102);
        assert_eq!(parse(b"{}").unwrap_err().0, 3102);
    }
    let twice = br#"{"responseType":"ENTERED","responseType":"REJECTED"}"#;
    assert_eq!(outcome(parse_authorization(twice)).unwrap_err().0, 3101);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn the_query_of_an_authorization_is_read() {
    let read =
        parse_authorization_query("authenticationType=OTP&retriesLeft=2&amount=102&currency=USD").unwrap();
    assert_eq!((read.authentication_type, &*read.retries_left), (AuthenticationType::Otp, "2"));
    assert_eq!((&*read.money.amount, read.money.currency.as_str()), ("102", "USD"));
    for (query, verdict) in [
        ("currency=USD&amount=1.5&retriesLeft=1&authenticationType=QRCODE&x=%zz", None),
        ("authenticationType=%4FTP&retriesLeft=1&amount=1&currency=USD", None),
        (
            "",
            Some((
                3102,
                "Missing mandatory element - /query must have required property 'authenticationType'",
            )),
        ),
        (
            "authenticationType=OTP&amount=1&currency=USD",
            Some((3102, "Missing mandatory element - /query must have required property 'retriesLeft'")),
        ),
        (
            "authenticationType=X&retriesLeft=1&currency=USD",
            Some((3102, "Missing mandatory element - /query must have required property 'amount'")),
        ),
        (
            "authenticationType=OTP&retriesLeft=1&amount=1&Currency=USD",
            Some((3102, "Missing mandatory element - /query must have required property 'currency'")),
        ),
        (
            "authenticationType=U2F&retriesLeft=1&amount=1&currency=USD",
            Some((
                3100,
                "Generic validation error - /query/authenticationType must be equal to one of the allowed values: OTP, QRCODE",
            )),
        ),
        (
            "authenticationType=OTP&retriesLeft=g&amount=1&currency=USD",
            Some((3101, "Malformed syntax - /query/retriesLeft must be integer")),
        ),
        (
            "authenticationType=OTP&retriesLeft=&amount=1&currency=USD",
            Some((3101, "Malformed syntax - /query/retriesLeft must be integer")),
        ),
        (
            "authenticationType=OTP&retriesLeft=1.5&amount=1&currency=USD",
            Some((3101, "Malformed syntax - /query/retriesLeft must be integer")),
        ),
        (
            "authenticationType=OTP&retriesLeft=-1&amount=1&currency=USD",
            Some((
                3100,
                "Generic validation error - /query/retriesLeft must match pattern: a whole number above 0, no leading zeros",
            )),
        ),
        (
            "authenticationType=OTP&retriesLeft=0&amount=1&currency=USD",
            Some((
                3100,
                "Generic validation error - /query/retriesLeft must match pattern: a whole number above 0, no leading zeros",
            )),
        ),
        (
            "authenticationType=OTP&retriesLeft=1&amount=1.0&currency=USD",
            Some((
                3100,
                "Generic validation error - /query/amount must match pattern: no trailing zeros, such as 12.5",
            )),
        ),
        (
            "authenticationType=OTP&retriesLeft=1&amount=1&currency=usd",
            Some((
                3100,
                "Generic validation error - /query/currency must be equal to one of the allowed values: ISO 4217 codes such as KES",
            )),
        ),
        (
            "authenticationType=OTP&retriesLeft=1&amount=%ff&currency=USD",
            Some((3100, "Generic validation error - /query/amount is not percent-encoded UTF-8")),
        ),
    ] {
        let got = outcome(parse_authorization_query(query)).err();
        assert_eq!(got, verdict.map(|(code, text)| (code, text.into())), "{query}");
    }
}
