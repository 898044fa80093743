//! Oracles, parties and imports over real sockets.

use crate::common::{Hub, refusal};
use upesi_types::ErrorCode;

/// The body of an error: standard text and detail, truncated if it is too long.
fn told(code: &str, detail: &str) -> String {
    let code = ErrorCode::from_number(code.parse().unwrap()).unwrap();
    refusal(code.number(), &code.describe_within(detail, 4_096).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Runs rows `METHOD path [body] => status [body]`, in order.
async fn check(hub: &Hub, table: &str) {
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (request, expected) = row.split_once(" => ").unwrap();
        let mut request = request.splitn(3, ' ');
        let mut next = || request.next().unwrap_or_default();
        let (method, path, body) = (next(), next(), next());
        let (status, expected) = expected.split_once(' ').unwrap_or((expected, ""));
        let (found, answer) = hub.call(method, path, body).await;
        let expected = match expected.split_once(' ') {
            Some((code, detail)) if code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_digit()) => {
                told(code, detail)
            }
            _ => expected.to_owned(),
        };
        assert_eq!((found.to_string().as_str(), answer), (status, expected), "{row}");
    }
}

#[tokio::test]
async fn oracles_are_created_changed_and_deleted() {
    let hub = Hub::with_dfsps(&[]).await;
    check(
        &hub,
        r#"
        GET /oracles => 200 []
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://oracle:3000","endpointType":"URL"},"currency":"USD","isDefault":true} => 201
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://oracle:3000","endpointType":"URL"}} => 201
        POST /oracles {"oracleIdType":"IBAN","endpoint":{"value":"http://iban","endpointType":"URL"}} => 201
        GET /oracles?currency=USD => 200 [{"oracleId":1,"oracleIdType":"MSISDN","endpoint":{"value":"http://oracle:3000","endpointType":"URL"},"currency":"USD","isDefault":1}]
        GET /oracles?type=IBAN => 200 [{"oracleId":3,"oracleIdType":"IBAN","endpoint":{"value":"http://iban","endpointType":"URL"},"isDefault":0}]
        PUT /oracles/1 {"oracleId":1,"oracleIdType":"MSISDN","endpoint":{"value":"http://new:1","endpointType":"URL"},"currency":"USD","isDefault":true} => 204
        PUT /oracles/2 {"isDefault":1} => 204
        GET /oracles?type=MSISDN => 200 [{"oracleId":1,"oracleIdType":"MSISDN","endpoint":{"value":"http://new:1","endpointType":"URL"},"currency":"USD","isDefault":1},{"oracleId":2,"oracleIdType":"MSISDN","endpoint":{"value":"http://oracle:3000","endpointType":"URL"},"isDefault":1}]
        PUT /oracles/2 {"currency":"USD"} => 400 3003 Oracle 1 is already active for MSISDN in USD
        POST /oracles {"oracleIdType":"IBAN","endpoint":{"value":"http://x","endpointType":"URL"}} => 400 3003 Oracle 3 is already active for IBAN without a currency
        DELETE /oracles/3 => 204
        DELETE /oracles/3 => 400 3003 Oracle not found
        PUT /oracles/9 {"isDefault":true} => 400 3003 Oracle not found
        DELETE /oracles/one => 400 3003 Oracle not found
        POST /oracles {"oracleIdType":"IBAN","endpoint":{"value":"http://x","endpointType":"URL"}} => 201
        GET /oracles?type=IBAN => 200 [{"oracleId":4,"oracleIdType":"IBAN","endpoint":{"value":"http://x","endpointType":"URL"},"isDefault":0}]
        "#,
    )
    .await;
}

#[tokio::test]
async fn oracles_with_invalid_values_are_rejected() {
    let hub = Hub::with_dfsps(&[]).await;
    check(
        &hub,
        r#"
        POST /oracles {"endpoint":{"value":"http://x","endpointType":"URL"}} => 400 3102 "oracleIdType" is required
        POST /oracles {"oracleIdType":"MSISDN"} => 400 3102 "endpoint" is required
        POST /oracles {"oracleIdType":"MSISDN","endpoint":"http://x"} => 400 3101 "endpoint" must be of type object
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"endpointType":"URL"}} => 400 3102 "endpoint.value" is required
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://x"}} => 400 3102 "endpoint.endpointType" is required
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://x","endpointType":"IP"}} => 400 3100 "endpoint.endpointType" must be one of [URL]
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"oracle","endpointType":"URL"}} => 400 3101 The oracle's address is not a URL that can be called; write it as http://host:port
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://#","endpointType":"URL"}} => 400 3101 The oracle's address must not have a fragment
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"https://oracle","endpointType":"URL"}} => 400 3101 The oracle's address must begin with http:// (https:// needs outbound_tls.anchors_file)
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://:3000","endpointType":"URL"}} => 400 3101 The oracle's address is not a URL that can be called; write it as http://host:port
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://x","endpointType":"URL"},"currency":"usd"} => 400 3100 "currency" must be a currency code in capital letters, such as USD
        POST /oracles {"oracleIdType":"PHONE","endpoint":{"value":"http://x","endpointType":"URL"}} => 400 3100 "oracleIdType" must be one of [MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE, ACCOUNT_ID, IBAN, ALIAS, CONSENT, THIRD_PARTY_LINK]
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://x","endpointType":"URL"},"isDefault":2} => 400 3101 "isDefault" must be a boolean
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://oracle:0","endpointType":"URL"}} => 400 3101 The oracle's address must have a port from 1 to 65535 without leading zeros, or none
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://127.1:3000","endpointType":"URL"}} => 400 3101 The oracle's address must have an IPv4 address as four decimal numbers, such as 192.0.2.1
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://oracle.example.","endpointType":"URL"}} => 400 3101 The oracle's address must have a host of letters, digits, dashes and single dots that does not end in a dot
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://[::ffff:127.0.0.1]","endpointType":"URL"}} => 400 3101 The oracle's address must have an IPv6 address in its shortest form, such as [2001:db8::1], without a zone
        POST /oracles {"oracleIdType":"MSISDN","endpoint":{"value":"http://x","endpointType":"URL"},"isdefault":true} => 400 3101 "isdefault" is not allowed
        GET /oracles?type=PHONE => 400 3100 "type" must be one of [MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE, ACCOUNT_ID, IBAN, ALIAS, CONSENT, THIRD_PARTY_LINK]
        GET /oracles?currency=usd => 400 3100 "currency" must be a currency code in capital letters, such as USD
        GET /oracles => 200 []
        "#,
    )
    .await;
}

#[tokio::test]
async fn directory_entries_are_shown_and_changed() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    check(
        &hub,
        r#"
        GET /directory/parties/MSISDN/26097 => 200 {"partyIdType":"MSISDN","partyIdentifier":"26097","entries":[]}
        PUT /directory/parties/MSISDN/26097 {"fspId":"green"} => 204
        PUT /directory/parties/MSISDN/26097 {"fspId":"blue","currency":"USD","partySubIdOrType":"shop-7"} => 204
        PUT /directory/parties/MSISDN/26097 {"fspId":"blue"} => 204
        GET /directory/parties/MSISDN/26097 => 200 {"partyIdType":"MSISDN","partyIdentifier":"26097","entries":[{"fspId":"blue"},{"fspId":"blue","currency":"USD","partySubIdOrType":"shop-7"}]}
        PUT /directory/parties/MSISDN/26097 {} => 400 3101 "fspId" is required
        PUT /directory/parties/MSISDN/26097 {"fspId":"nobody"} => 400 3200 Participant 'nobody' does not exist
        PUT /directory/parties/MSISDN/26097 {"fspId":"Hub"} => 400 3200 Participant 'Hub' does not exist
        PUT /directory/parties/MSISDN/26097 {"fspId":"green","fsp":1} => 400 3101 "fsp" is not allowed
        PUT /directory/parties/PHONE/26097 {"fspId":"green"} => 400 3101 "Type" must be one of [MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE, ACCOUNT_ID, IBAN, ALIAS, CONSENT, THIRD_PARTY_LINK]
        DELETE /directory/parties/MSISDN/26097?partySubIdOrType=shop-8 => 204
        DELETE /directory/parties/MSISDN/26097 => 204
        GET /directory/parties/MSISDN/26097 => 200 {"partyIdType":"MSISDN","partyIdentifier":"26097","entries":[{"fspId":"blue","currency":"USD","partySubIdOrType":"shop-7"}]}
        DELETE /directory/parties/MSISDN/26097?partySubIdOrType=shop-7&currency=USD => 204
        GET /directory/parties/MSISDN/26097 => 200 {"partyIdType":"MSISDN","partyIdentifier":"26097","entries":[]}
        PUT /directory/parties/ALIAS/a%2Fb%20 {"fspId":"green"} => 400 3101 Generic validation error - /path/ID must match pattern: no blanks and no braces
        PUT /directory/parties/ALIAS/caf%C3%A9 {"fspId":"green"} => 204
        GET /directory/parties/ALIAS/caf%C3%A9 => 200 {"partyIdType":"ALIAS","partyIdentifier":"café","entries":[{"fspId":"green"}]}
        "#,
    )
    .await;
    let summary = hub.get("/directory").await;
    assert!(summary.starts_with(r#"{"isEnabled":true,"partiesEstimate":"#), "{summary}");
}

#[tokio::test]
async fn interrupted_import_resumes_with_its_next_chunk() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let send = async |query: &str, body: &str| {
        hub.call_as("text/csv", "POST", &format!("/directory/imports/jan/chunks{query}"), body).await
    };
    check(&hub, r#"GET /directory/imports/jan => 200 {"importId":"jan","nextLine":1,"taken":0,"refused":0}"#)
        .await;
    let first = r#"{"importId":"jan","nextLine":5,"taken":1,"refused":2,"chunk":{"taken":1,"refused":2,"refusals":[{"line":3,"reason":"fspId \"nobody\" is not a participant"},{"line":4,"reason":"the party is registered by green"}]}}"#;
    let lines = "MSISDN,1,,,green\nMSISDN,2,,,nobody\nMSISDN,1,,,blue\n";
    for _ in 0..2 {
        assert_eq!(send("?from=2", lines).await, (200, first.to_owned()), "and the same when it comes again");
    }
    let gap = told("3100", "the import continues at line 5");
    assert_eq!(send("?from=6", "MSISDN,3,,,green").await, (409, gap));
    let second =
        send("?from=5&replace=true&columns=fspId,partyIdType,partyIdentifier", "blue,MSISDN,1").await;
    let answer = r#"{"importId":"jan","nextLine":6,"taken":2,"refused":2,"chunk":{"taken":1,"refused":0,"refusals":[]}}"#;
    assert_eq!(second, (200, answer.to_owned()));
    check(
        &hub,
        r#"
        GET /directory/imports/jan => 200 {"importId":"jan","nextLine":6,"taken":2,"refused":2}
        GET /directory/parties/MSISDN/1 => 200 {"partyIdType":"MSISDN","partyIdentifier":"1","entries":[{"fspId":"blue"}]}
        POST /directory/imports/jan/chunks?from=6 {} => 400 3101 "content-type" must be text/csv
        GET /directory/imports/jan.csv => 400 3101 "importId" must be 1 to 64 letters, digits, - and _
        "#,
    )
    .await;
    let too_many = "x\n".repeat(10_001);
    let mistakes = [
        ("", "x", "\"from\" must be a line's number, 1 or more"),
        ("?from=0", "x", "\"from\" must be a line's number, 1 or more"),
        (
            "?from=6&columns=a",
            "x",
            "\"columns\" is not a header: unknown column \"a\"; expected are partyIdType,partyIdentifier,partySubIdOrType,currency,fspId",
        ),
        ("?from=6", &too_many, "a chunk has 1 to 10000 lines, this one has 10001"),
    ];
    for (query, body, detail) in mistakes {
        assert_eq!(send(query, body).await, (400, told("3101", detail)), "{query}");
    }
}
