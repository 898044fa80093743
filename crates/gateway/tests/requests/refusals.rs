//! Every row of the tables of immediate errors, over a real socket.

use crate::common;
use crate::common::{
    Answer, ERROR_BODY, ID, Running, Settings, fulfil_body, get, post, prepare_body, put, put_error, request,
};
use upesi_fspiop::headers::HeaderRules;
use upesi_fspiop::{Operation, SyncError};
use upesi_gateway::{Authenticator, GatewayConfig};
use upesi_types::ErrorCode;

const MEDIA: &str = "application/vnd.interoperability.transfers+json";

/// A request, its status and code, and a part of the description.
type Row = (Vec<u8>, u16, u16, &'static str);

/// Sends every request on the same connection. An error does not end the connection, and has no record.
fn check(running: &Running, rows: &[Row]) {
    let before = running.records();
    let mut client = running.connect();
    for (index, (request, status, code, contains)) in rows.iter().enumerate() {
        let answer = client.exchange(request);
        let text = String::from_utf8_lossy(request);
        assert_eq!((answer.status, answer.code()), (*status, *code), "row {index}: {text}\n{answer:?}");
        assert!(answer.body.contains(contains), "row {index}: {text}\n{answer:?}");
    }
    assert_eq!(running.records(), before);
    assert_eq!(client.exchange(&post(&[], prepare_body(ID))).status, 202);
}

fn prepare_with(edits: &[&str]) -> Vec<u8> {
    post(edits, prepare_body(ID))
}

#[test]
fn paths_and_methods() {
    let running = Running::plain();
    check(
        &running,
        &[
            (request("GET /transfer", &[], ""), 404, 3002, "Unknown URI - Not Found"),
            (request("PUT /transfers/", &[], fulfil_body()), 404, 3002, "Unknown URI - Not Found"),
            (request("PUT /transfers//error", &[], ERROR_BODY), 404, 3002, "Unknown URI"),
            (request("PUT /transfers/x/mistake", &[], ERROR_BODY), 404, 3002, "Unknown URI"),
            (request("GET /health/x", &[], ""), 404, 3002, "Unknown URI"),
            (request("GET /transfers", &[], ""), 405, 3000, "Generic client error - Method Not Allowed"),
            (request("DELETE /transfers/x", &[], ""), 405, 3000, "Method Not Allowed"),
            (request("BREW /transfers/x", &[], ""), 405, 3000, "Method Not Allowed"),
            (request("GET /transfers/x/error", &[], ""), 405, 3000, "Method Not Allowed"),
            (request("POST /health", &[], ""), 405, 3000, "Method Not Allowed"),
            (request("PATCH /transfers/x", &[], fulfil_body()), 501, 2002, "Not implemented"),
            (request("PATCH /transfers/x", &["-date", "-accept"], ""), 501, 2002, "Not implemented"),
            (request("POST /quotes", &[], "{}"), 501, 2002, "Not implemented"),
            (request("GET /parties/MSISDN/123", &[], ""), 501, 2002, "Not implemented"),
            (request("GET /participants/MSISDN/123", &[], ""), 501, 2002, "Not implemented"),
            (request("PATCH /bulkTransfers/x", &[], "{}"), 405, 3000, "Method Not Allowed"),
        ],
    );
    let allow = |line: &str| running.ask(&request(line, &[], "")).header("allow").map(str::to_owned);
    assert_eq!(allow("GET /transfers").as_deref(), Some("post"));
    assert_eq!(allow("DELETE /transfers/x").as_deref(), Some("get, put, patch"));
    assert_eq!(allow("POST /transfers/x/error").as_deref(), Some("put"));
    assert_eq!(allow("PUT /live").as_deref(), Some("get, head"));
    assert_eq!(allow("GET /nowhere"), None);
}

#[test]
fn client_ids() {
    let source = "Generic validation error - Invalid fspiop-source header";
    let proxy = "Generic validation error - Invalid fspiop-proxy header";
    check(
        &Running::plain(),
        &[
            (prepare_with(&["x-client-id: bluewallet"]), 400, 3100, source),
            (prepare_with(&["x-client-id: bluewallet", "-fspiop-source"]), 400, 3100, source),
            (prepare_with(&["x-client-id: bridge", "fspiop-proxy: other"]), 400, 3100, proxy),
            (prepare_with(&["x-client-id: greenbank", "fspiop-proxy: greenbank"]), 400, 3100, proxy),
            (get(ID, &["x-client-id: Greenbank"]), 400, 3100, source),
            (put(ID, &["x-client-id: bluewallet"], fulfil_body()), 400, 3100, source),
        ],
    );
    let running = Running::plain();
    for edits in [&["x-client-id: greenbank"][..], &["x-client-id: bridge", "fspiop-proxy: bridge"]] {
        assert_eq!(running.ask(&prepare_with(edits)).status, 202, "{edits:?}");
    }
}

#[test]
fn accepts() {
    let version = "Unacceptable version requested - The Client requested an unsupported version, see extension list for supported version(s).";
    let invalid = "Malformed syntax - Invalid accept header";
    let accept = |value: &str| prepare_with(&[&format!("accept: {value}")]);
    check(
        &Running::plain(),
        &[
            (
                prepare_with(&["-accept"]),
                400,
                3102,
                "Missing mandatory element - /header must have required property 'accept'",
            ),
            (get(ID, &["-accept"]), 400, 3102, "Missing mandatory element - Accept is required"),
            (accept("*/*"), 400, 3101, invalid),
            (accept("application/json"), 400, 3101, invalid),
            (accept(""), 400, 3101, invalid),
            (accept("application/vnd.interoperability.quotes+json;version=1.1"), 400, 3101, invalid),
            (put(ID, &["accept: application/json"], fulfil_body()), 400, 3101, invalid),
            (accept(&format!("{MEDIA};version=3")), 406, 3001, version),
            (accept(&format!("{MEDIA};version=1.7")), 406, 3001, version),
            (get(ID, &[&format!("accept: {MEDIA};version=3.0")]), 406, 3001, version),
        ],
    );
    let running = Running::plain();
    for value in [
        MEDIA.to_owned(),
        format!("{MEDIA};version=1"),
        format!("{MEDIA};version=3,{MEDIA};version=1.1"),
        format!("{MEDIA};version=3 ,  {MEDIA};version=1.1"),
        format!("{MEDIA};version=3\r\naccept: {MEDIA};version=1.1"),
    ] {
        assert_eq!(running.ask(&accept(&value)).status, 202, "{value}");
    }
    for accept in ["-accept", "accept: */*"] {
        assert_eq!(running.ask(&put(ID, &[accept], fulfil_body())).status, 200, "{accept}");
    }
}

#[test]
fn version_errors_list_the_accepted_versions() {
    let list = r#""extensionList":{"extension":[{"key":"1","value":"0"},{"key":"1","value":"1"},{"key":"2","value":"0"}]}"#;
    let running = Running::plain();
    for header in ["accept", "content-type"] {
        let answer = running.ask(&prepare_with(&[&format!("{header}: {MEDIA};version=9.0")]));
        assert!(answer.status == 406 && answer.body.contains(list), "{answer:?}");
    }
    assert!(!running.ask(&prepare_with(&["-accept"])).body.contains("extensionList"));
}

#[test]
fn dates() {
    let invalid = "Malformed syntax - Invalid date header";
    let date = |value: &str| prepare_with(&[&format!("date: {value}")]);
    check(
        &Running::plain(),
        &[
            (prepare_with(&["-date"]), 400, 3102, "Missing mandatory element - Missing required date header"),
            (get(ID, &["-date"]), 400, 3102, "Missing required date header"),
            (date(""), 400, 3101, invalid),
            (date("2031-04-01T12:00:00.000Z"), 400, 3101, invalid),
            (date("Wed, 01 Apr 2031 12:00:00 GMT"), 400, 3101, invalid),
            (date("Tue, 1 Apr 2031 12:00:00 GMT"), 400, 3101, invalid),
            (date("Tue, 01 Apr 2031 12:00:00 UTC"), 400, 3101, invalid),
            (date("Tue, 31 Feb 2031 12:00:00 GMT"), 400, 3101, invalid),
        ],
    );
    // The age of the date is not checked.
    let running = Running::plain();
    assert_eq!(running.ask(&date("Thu, 01 Jan 1970 00:00:00 GMT")).status, 202);
    assert_eq!(running.ask(&date("Fri, 01 Jan 2100 00:00:00 GMT")).status, 202);
}

#[test]
fn content_types() {
    let invalid = "Malformed syntax - Invalid content-type header";
    let version = "Unacceptable version requested - Client supplied a protocol version which is not supported by the server";
    let content_type = |value: &str| prepare_with(&[&format!("content-type: {value}")]);
    check(
        &Running::plain(),
        &[
            (
                prepare_with(&["-content-type"]),
                400,
                3102,
                "Missing mandatory element - Content-type is required",
            ),
            (put(ID, &["-content-type"], fulfil_body()), 400, 3102, "Content-type is required"),
            (put_error(ID, &["-content-type"], ERROR_BODY), 400, 3102, "Content-type is required"),
            (content_type("application/json"), 400, 3101, invalid),
            (content_type("application/xml"), 400, 3101, invalid),
            (content_type(""), 400, 3101, invalid),
            (content_type(&format!("{MEDIA};version=1")), 400, 3101, invalid),
            (content_type(&format!("{MEDIA};version=1.1;charset=utf-8")), 400, 3101, invalid),
            (content_type("application/vnd.interoperability.quotes+json;version=1.1"), 400, 3101, invalid),
            (
                content_type("application/vnd.interoperability.iso20022.transfers+json;version=2.0"),
                400,
                3101,
                invalid,
            ),
            (get(ID, &["content-type: text/plain"]), 400, 3101, invalid),
            (content_type(&format!("{MEDIA};version=3.0")), 406, 3001, version),
            (content_type(&format!("{MEDIA};version=1.2")), 406, 3001, version),
        ],
    );
    let bare = get(ID, &["-content-type"]);
    let detail = "Missing mandatory element - Content-type is required";
    check(&Running::plain(), &[(bare.clone(), 400, 3102, detail)]);
    let headers = HeaderRules { content_type_required: false, ..HeaderRules::default() };
    let gateway = GatewayConfig { headers, ..GatewayConfig::default() };
    assert_eq!(Running::start(Settings { gateway, ..Settings::default() }).ask(&bare).status, 202);
}

#[test]
fn parties() {
    let long = "a".repeat(33);
    check(
        &Running::plain(),
        &[
            (
                prepare_with(&["-fspiop-source"]),
                400,
                3102,
                "Missing mandatory element - /header must have required property 'fspiop-source'",
            ),
            (get(ID, &["-fspiop-source"]), 400, 3102, "'fspiop-source'"),
            (put(ID, &["-fspiop-source"], fulfil_body()), 400, 3102, "'fspiop-source'"),
            (put_error(ID, &["-fspiop-source"], ERROR_BODY), 400, 3102, "'fspiop-source'"),
            (
                prepare_with(&["fspiop-source: "]),
                400,
                3100,
                "Generic validation error - /header/fspiop-source must NOT have fewer than 1 characters",
            ),
            (
                prepare_with(&[&format!("fspiop-source: {long}")]),
                400,
                3100,
                "Generic validation error - /header/fspiop-source must NOT have more than 32 characters",
            ),
            (
                prepare_with(&["fspiop-source: caf\u{e9}"]),
                400,
                3100,
                "/header/fspiop-source must match pattern",
            ),
            (
                prepare_with(&[&format!("fspiop-destination: {long}")]),
                400,
                3100,
                "/header/fspiop-destination must NOT have more than 32 characters",
            ),
            // A malformed body is reported before a missing source.
            (post(&["-fspiop-source"], "[]"), 400, 3101, "/requestBody must be object"),
        ],
    );
    let running = Running::plain();
    assert_eq!(running.ask(&prepare_with(&["-fspiop-destination"])).status, 202);
    let stranger = running.ask(&get(ID, &[&format!("fspiop-source: {}", "a".repeat(32))]));
    assert_eq!((stranger.status, stranger.code()), (400, 3101), "{stranger:?}");
    assert!(stranger.body.contains("invalid fspiop-source header"), "{stranger:?}");
}

#[test]
fn invalid_path_id_is_rejected() {
    let long = "x".repeat(129);
    check(
        &Running::plain(),
        &[
            (get(&long, &[]), 400, 3100, "/path/ID must NOT have more than 128 characters"),
            (put(&long, &[], fulfil_body()), 400, 3100, "/path/ID"),
            (put_error(&long, &[], ERROR_BODY), 400, 3100, "/path/ID"),
            (get("a%00b", &[]), 400, 3100, "/path/ID must be an identifier"),
            (get("%ff", &[]), 400, 3100, "/path/ID is not percent-encoded UTF-8"),
            (get("caf\u{e9}", &[]), 400, 3100, "/path/ID must be ASCII"),
            (put("%2e%2E", &[], fulfil_body()), 400, 3100, "/path/ID must be an identifier"),
            (put("..", &[], fulfil_body()), 404, 3002, "Unknown URI"),
        ],
    );
}

#[test]
fn repeated_headers() {
    let rows: Vec<Row> = [
        ("+content-type: a", "/header/content-type must occur only once"),
        ("+date: Tue, 01 Apr 2031 12:00:00 GMT", "/header/date must occur only once"),
        ("+fspiop-source: greenbank", "/header/fspiop-source must occur only once"),
        ("+fspiop-destination: other", "/header/fspiop-destination must occur only once"),
    ]
    .into_iter()
    .map(|(edit, contains)| (prepare_with(&[edit]), 400, 3101, contains))
    .collect();
    let running = Running::plain();
    check(&running, &rows);
    assert_eq!(running.ask(&prepare_with(&["+x-own: 1", "+x-own: 2"])).status, 202);
}

struct RefuseEveryone;

impl Authenticator for RefuseEveryone {
    fn authenticate(
        &self,
        _: Operation,
        _: &http::request::Parts,
        _: &[u8],
        _: bool,
    ) -> Result<(), SyncError> {
        Err(SyncError::new(ErrorCode::INVALID_SIGNATURE, "no key for this DFSP"))
    }
}

#[test]
fn signatures() {
    let dress = |context: &mut common::TestContext| context.authenticator = Box::new(RefuseEveryone);
    let running = Running::start(Settings { dress, ..Settings::default() });
    let description = "Invalid signature - no key for this DFSP";
    let refused = |answer: Answer, status: u16, code: u16, contains: &str| {
        assert_eq!((answer.status, answer.code()), (status, code));
        assert!(answer.body.contains(contains), "{answer:?}");
    };
    refused(running.ask(&prepare_with(&[])), 400, 3105, description);
    refused(running.ask(&post(&[], "[]")), 400, 3105, description);
    refused(running.ask(&put(ID, &[], fulfil_body())), 400, 3105, description);
    // Headers are checked first.
    refused(running.ask(&prepare_with(&["-date"])), 400, 3102, "date");
    assert_eq!(running.records(), 0);
}
