//! The process: health, metrics, log level, lanes, the catalogue of names, and HTTP itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use upesi_admin::{AdminContext, AdminPort, AdminService, BODY_BYTES_MAX, FollowerProgress};
use upesi_http::{Limits, Method, Server, Workers};
use upesi_types::ErrorCode;

use crate::common::people::with_admin;
use crate::common::{Hub, Settings, refusal};

#[tokio::test]
async fn health_names_every_part_and_its_failure() {
    let mut hub = Hub::start();
    let health = hub.get("/health").await;
    let (head, rest) = health.split_once(r#","uptime":"#).unwrap();
    assert_eq!(head, r#"{"status":"OK""#);
    let (uptime, rest) = rest.split_once(r#","startTime":""#).unwrap();
    let (seconds, ms) = uptime.split_once('.').unwrap();
    assert!(ms.len() == 3 && format!("{seconds}{ms}").bytes().all(|byte| byte.is_ascii_digit()), "{uptime}");
    let (start, rest) = rest.split_once(r#"","#).unwrap();
    assert!(upesi_types::Timestamp::parse_iso(start).is_some(), "{start}");
    let expected = format!(
        r#""versionNumber":"{}","ledger":"empty","services":[{{"name":"journal","status":"OK"}},{{"name":"archive","status":"OK"}},{{"name":"engine","status":"OK"}},{{"name":"clock","status":"OK"}},{{"name":"store","status":"OK"}},{{"name":"datastore","status":"OK"}},{{"name":"broker","status":"OK"}}]}}"#,
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(rest, expected);

    hub.engine.take().unwrap().shutdown();
    let down = hub.expect("GET", "/health", "", 502).await;
    assert!(down.starts_with(r#"{"status":"DOWN""#), "{down}");
    let parts = r#"{"name":"engine","status":"DOWN","detail":"shut down"},{"name":"clock","status":"OK"},{"name":"store","status":"OK"},{"name":"datastore","status":"OK"},{"name":"broker","status":"DOWN","detail":"shut down"}]}"#;
    assert!(down.ends_with(parts), "{down}");
    assert_eq!(hub.get("/live").await, r#"{"status":"OK"}"#);
    let refused = refusal(2003, "Service currently unavailable - the hub no longer accepts commands");
    assert_eq!(hub.call("GET", "/participants", "").await, (503, refused.clone()));
    let body = r#"{"name":"green","currency":"KES"}"#;
    assert_eq!(hub.call("POST", "/participants", body).await, (503, refused));
}

#[tokio::test]
async fn metrics_lanes_and_the_log_level_come_from_the_process() {
    let hub = Hub::start();
    let (head, body) = hub.exchange("GET /metrics HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n").await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert_eq!(body, "# EOF\n");
    assert_eq!(
        hub.get("/lanes").await,
        concat!(
            r#"[{"participant":"Hub","state":"probing","queued":1,"retrying":2,"retryingOnDisk":1,"refused":2,"inFlight":3,"bytes":4,"catchingUp":true,"#,
            r#""delivered":5,"failed":6,"parked":7,"relayed":8,"relayFailures":9,"lastError":"connection refused","oldestPending":null,"#,
            r#""responseTimes":{"minutes":5,"failuresByAsker":[]}}]"#
        )
    );
    let level = |level: &str| format!(r#"{{"level":"{level}","targets":["upesi_delivery","upesi_engine"]}}"#);
    assert_eq!(hub.get("/log-level").await, level("info"));
    assert_eq!(hub.expect("PUT", "/log-level", r#"{"level":"debug"}"#, 200).await, r#"{"level":"debug"}"#);
    assert_eq!(hub.get("/log-level").await, level("debug"));
    let refused = hub.expect("PUT", "/log-level", r#"{"level":"loud"}"#, 400).await;
    let sentence = r#"Malformed syntax - \"level\" is no level"#;
    assert_eq!(refused, refusal(3101, sentence));
    assert_eq!(*hub.levels.lock().unwrap(), ["debug"]);
    assert!(hub.get("/").await.starts_with(r#"{"name":"upesi admin","version":""#));
}

#[tokio::test]
async fn enums_have_the_numbers_that_portals_need() {
    let hub = Hub::start();
    let types = hub.get("/ledgerAccountTypes").await;
    let first = r#"[{"id":1,"name":"POSITION","description":"Typical accounts from which a DFSP provisions transfers","isActive":true,"isSettleable":true},"#;
    assert!(types.starts_with(first), "{types}");
    let fee = r#"{"name":"HUB_FEE","description":"Fees of the hub","isActive":true,"isSettleable":false}"#;
    assert_eq!(hub.expect("POST", "/ledgerAccountTypes", fee, 201).await, "");
    let added =
        r#"{"id":7,"name":"HUB_FEE","description":"Fees of the hub","isActive":true,"isSettleable":false}]"#;
    assert!(hub.get("/ledgerAccountTypes").await.ends_with(added));
    // The table of rejections contains the same call for a type that does not exist. Here the type exists.
    hub.expect("POST", "/participants/Hub/accounts", r#"{"currency":"KES","type":"HUB_FEE"}"#, 201).await;
    let enums = hub.get("/enums").await;
    for part in [
        r#""hubParticipant":{"participantId":1,"name":"Hub","isActive":1,"#,
        r#""ledgerAccountType":{"HUB_FEE":7,"HUB_MULTILATERAL_SETTLEMENT":4,"HUB_RECONCILIATION":3,"INTERCHANGE_FEE":5,"INTERCHANGE_FEE_SETTLEMENT":6,"POSITION":1,"SETTLEMENT":2}"#,
        r#""ledgerEntryType":{"HUB_FEE":3,"INTERCHANGE_FEE":2,"POSITION_DEPOSIT":4,"POSITION_WITHDRAWAL":5,"PRINCIPLE_VALUE":1,"RECORD_FUNDS_IN":9,"RECORD_FUNDS_OUT":10,"SETTLEMENT_NET_RECIPIENT":6,"SETTLEMENT_NET_SENDER":7,"SETTLEMENT_NET_ZERO":8}"#,
        r#""participantLimitType":{"NET_DEBIT_CAP":1}"#,
        r#""transferParticipantRoleType":{"COUNTER_PARTY_FSP":7,"DFSP_POSITION":5,"DFSP_SETTLEMENT":4,"HUB":3,"INITIATING_FSP":6,"PAYEE_DFSP":2,"PAYER_DFSP":1}"#,
        r#""FSPIOP_CALLBACK_URL_TRANSFER_POST":1"#,
        r#""ABORTED_REJECTED":"ABORTED_REJECTED""#,
        r#""ABORTED_REJECTED":"ABORTED""#,
        r#""bulkProcessingState":{"ABORTING":11,"#,
        r#""bulkTransferStateEnum":{"ABORTING":"PROCESSING","#,
    ] {
        assert!(enums.contains(part), "{part}: {enums}");
    }
}

#[tokio::test]
async fn requests_without_a_resource_get_errors_in_the_usual_form() {
    let hub = Hub::start();
    let body = r#"{"name":"green","currency":"KES"}"#;
    let wrong_method = refusal(3000, "Generic client error - This resource does not support this method");
    for (method, path, status, answer) in [
        ("GET", "/nothing", 404, refusal(3002, "Unknown URI")),
        ("GET", "/participants/", 404, refusal(3002, "Unknown URI")),
        ("POST", "/participants/Hub/nothing", 404, refusal(3002, "Unknown URI")),
        ("DELETE", "/participants", 405, wrong_method.clone()),
        ("PATCH", "/participants/Hub", 405, wrong_method.clone()),
        ("POST", "/log-level", 405, wrong_method),
    ] {
        assert_eq!(hub.call(method, path, "").await, (status, answer), "{method} {path}");
    }
    let content_type = refusal(3101, r#"Malformed syntax - \"content-type\" must be application/json"#);
    for kind in ["text/plain", "application/xml", "application/x-www-form-urlencoded"] {
        let answer = hub.call_as(kind, "POST", "/participants", body).await;
        assert_eq!(answer, (400, content_type.clone()), "{kind}");
    }
    assert_eq!(hub.call("POST", "/participants", "").await, (400, content_type));
    let (status, answer) = hub.call("POST", "/participants", "{\"name\":").await;
    assert!(status == 400 && answer.contains("the body is not JSON"), "{answer}");
    let deep = "[".repeat(10_000);
    let (status, answer) = hub.call("POST", "/participants", &deep).await;
    assert!(status == 400 && answer.contains("3101"), "{answer}");
    let (status, answer) = hub.call("GET", "/participants/%FF", "").await;
    assert!(status == 400 && answer.contains("3101"), "{answer}");
}

#[tokio::test]
async fn body_beyond_the_limit_is_rejected() {
    let hub = Hub::start();
    let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
    let (status, answer) = hub.call("POST", "/participants", &padded(BODY_BYTES_MAX)).await;
    assert_eq!((status, answer), (400, refusal(3101, r#"Malformed syntax - \"name\" is required"#)));
    let (status, answer) = hub.call("POST", "/participants", &padded(BODY_BYTES_MAX + 1)).await;
    let text = "Too large payload - Payload content length greater than maximum allowed: 1048576";
    assert_eq!((status, answer), (400, refusal(3104, text)));
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let hub = Hub::start();
    let one = "GET /live HTTP/1.1\r\nhost: hub\r\n\r\n";
    let last = "HEAD /live HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
    let (_, rest) = hub.exchange(&format!("{one}{one}{last}")).await;
    assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 2, "{rest}");
    assert_eq!(rest.matches(r#"{"status":"OK"}"#).count(), 2, "{rest}");
}

const SHORT: Duration = Duration::from_millis(40);
/// A time limit that a passing test never reaches.
const AMPLE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn head_that_never_ends_is_cut_off() {
    let hub = Hub::start_limited(Limits { head_deadline: SHORT, ..upesi_admin::limits(64) }, AMPLE);
    for part in ["G", "GET /live HTTP/1.1\r\n", "GET /live HTTP/1.1\r\nhost: hub\r\ndate: Tue"] {
        let mut stream = TcpStream::connect(hub.address).await.unwrap();
        stream.write_all(part.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.is_empty(), "{part}: {}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(hub.get("/live").await, r#"{"status":"OK"}"#);
}

#[tokio::test]
async fn body_that_never_ends_is_cut_off() {
    let hub = Hub::start_limited(upesi_admin::limits(64), SHORT);
    let head = "POST /participants HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\n";
    for rest in ["content-length: 34\r\n\r\n{\"name\":", "transfer-encoding: chunked\r\n\r\n5\r\n{\"nam\r\n"]
    {
        // Answered and closed, although the client keeps its connection.
        let (head, body) = hub.exchange(&format!("{head}{rest}")).await;
        assert!(head.starts_with("HTTP/1.1 408 ") && head.contains("connection: close"), "{head}");
        assert_eq!(body, refusal(2004, "Server timed out - the request body was not received in time"));
    }
    assert_eq!(hub.handle.status().durable_seq, 0);
}

#[tokio::test]
async fn encoded_body_is_rejected_before_it_is_read() {
    let hub = Hub::start_limited(upesi_admin::limits(64), AMPLE);
    let head = "POST /participants HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\ncontent-length: 34\r\n";
    for coding in ["gzip", "identity, br"] {
        let (head, body) = hub.exchange(&format!("{head}content-encoding: {coding}\r\n\r\n")).await;
        assert!(head.starts_with("HTTP/1.1 400 ") && head.contains("connection: close"), "{head}");
        let refused = ErrorCode::MALFORMED_SYNTAX.describe("/header/content-encoding must be identity");
        assert_eq!(body, refusal(3101, &refused));
    }
}

#[tokio::test]
async fn connection_beyond_the_limit_is_answered_busy() {
    let hub = Hub::start_limited(Limits { connections_max: 0, ..upesi_admin::limits(1) }, AMPLE);
    let (status, body) = hub.call("GET", "/live", "").await;
    assert_eq!((status, body), (503, refusal(2005, "Server busy - Too many connections")));
}

#[tokio::test]
async fn connection_of_an_operator_survives_many_unauthenticated_ones() {
    let (hub, admin) = with_admin().await;
    let asked = |lines: &str| format!("GET /live HTTP/1.1\r\nhost: hub\r\n{lines}\r\n");
    let of_operator = asked(&format!("authorization: Bearer {admin}\r\n"));
    let ask = async |stream: &mut TcpStream, request: &str| {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(br#"{"status":"OK"}"#) {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "it is closed");
        }
    };
    let mut operator = TcpStream::connect(hub.address).await.unwrap();
    ask(&mut operator, &of_operator).await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(hub.address).await.unwrap();
        ask(&mut stream, &asked("")).await;
        crowd.push(stream);
    }
    ask(&mut operator, &of_operator).await;
}

#[tokio::test]
async fn idle_and_slow_connections_do_not_block_operators() {
    let hub = Hub::start_limited(upesi_admin::limits(16), AMPLE);
    let slow_body = "POST /participants HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\ncontent-length: 34\r\n\r\n{";
    for sent in ["", "GET /li", slow_body, "GET /metrics HTTP/1.1\r\nhost: hub\r\n\r\n"] {
        let mut crowd = Vec::new();
        for _ in 0..40 {
            let mut stream = TcpStream::connect(hub.address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            crowd.push(stream);
            assert_eq!(hub.get("/live").await, r#"{"status":"OK"}"#, "{sent}");
        }
    }
}

#[tokio::test]
async fn requests_for_other_hosts_are_rejected() {
    let hub = Hub::start();
    for (hosts, status) in [
        ("host: hub", 200),
        ("host: HUB:4001", 200),
        ("host: localhost", 200),
        ("host: 127.0.0.1:4001", 200),
        ("host: [::1]:4001", 200),
        ("host: evil.example", 421),
        ("host: 192.0.2.7:4001", 421),
        ("host: hub.evil.example", 421),
    ] {
        let request = format!("GET /participants HTTP/1.1\r\n{hosts}\r\nconnection: close\r\n\r\n");
        let (found, body) = hub.raw(&request).await;
        assert_eq!(found, status, "{hosts}: {body}");
        if status == 421 {
            assert!(body.contains("3000") && body.contains("admin.allowed_hosts"), "{body}");
        }
    }
    let target = "GET http://evil.example/participants HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
    assert_eq!(hub.raw(target).await.0, 421);
    // Load balancers with HTTP/1.0 send no host; a page in a browser always does.
    assert_eq!(hub.raw("GET /live HTTP/1.0\r\n\r\n").await.0, 200);
}

#[tokio::test]
async fn leader_hands_over_and_accepts_no_further_changes() {
    let alone = Hub::start();
    alone.expect("POST", "/cluster/promote", "{}", 501).await;
    let refused = alone.expect("POST", "/cluster/hand-over", "{}", 501).await;
    assert_eq!(refused, refusal(2002, "Not implemented - This hub is not a node of a cluster"));
    let node = Hub::node(3);
    for (body, sentence) in [
        (r#"{"to":3}"#, r#"\"to\" must be a node other than the leader"#),
        (r#"{"to":-1}"#, r#"\"to\" must be a whole number from 0 to 1000000"#),
        (r#"{"after":1}"#, r#"\"after\" is not allowed"#),
    ] {
        let answer = node.expect("POST", "/cluster/hand-over", body, 400).await;
        assert_eq!(answer, refusal(3101, &format!("Malformed syntax - {sentence}")), "{body}");
    }
    let answer = node.expect("POST", "/cluster/hand-over", r#"{"to":1}"#, 200).await;
    assert_eq!(answer, r#"{"from":3,"to":1}"#);
    let (status, answer) = node.call("GET", "/participants", "").await;
    assert!(status == 503 && answer.contains("2003"), "{status} {answer}");
    let (status, answer) = node.call("POST", "/cluster/hand-over", "{}").await;
    assert!(status == 503 && answer.contains("2003"), "{status} {answer}");
}

// The API of a follower.

const LEADER: &str = "This node is a follower; the leader is node 2 at http://hub-2:4000";

fn hub(authentication: bool) -> (Hub, Arc<Mutex<FollowerProgress>>) {
    let leader = Some((2, "http://hub-2:4000".to_owned()));
    let at = Arc::new(Mutex::new(FollowerProgress { leader, age_ms: Some(412), record: 90 }));
    let shown = Arc::clone(&at);
    let followed: upesi_admin::FollowedNow = Arc::new(move || shown.lock().unwrap().clone());
    (Hub::launch(Settings { authentication, followed: Some(followed), ..Settings::default() }), at)
}

async fn head(hub: &Hub, path: &str) -> String {
    hub.exchange(&format!("GET {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n")).await.0
}

#[tokio::test]
async fn follower_reads_report_their_age_and_changes_name_the_leader() {
    let (hub, at) = hub(false);
    let refused = (503, refusal(2003, &format!("Service currently unavailable - {LEADER}")));
    for operation in hub.operations.clone() {
        let path = operation.path.replace(['{', '}'], "");
        let answered = hub.call(operation.method.as_str(), &path, "").await;
        let of_leader = ["/oracles", "/directory", "/quotes", "/sessions"];
        let is_read = operation.method == Method::GET
            && path != "/audit/checkpoint"
            && !of_leader.iter().any(|of| path.starts_with(of));
        let is_here = is_read || path == "/cluster/promote";
        assert_eq!(answered != refused, is_here, "{} {path}: {answered:?}", operation.method);
    }
    let told = head(&hub, "/participants").await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    for header in ["upesi-age-ms: 412", "upesi-record: 90", "upesi-leader: 2"] {
        assert!(told.contains(header), "{header} is not in {told}");
    }
    // The follower has read nothing yet, so it cannot answer.
    *at.lock().unwrap() = FollowerProgress::default();
    let nothing = "Service currently unavailable - This node has not read the log yet";
    assert_eq!(hub.call("GET", "/participants", "").await, (503, refusal(2003, nothing)));
    assert!(!head(&hub, "/live").await.contains("upesi-"));
    let nobody = "Service currently unavailable - This node is a follower, and the cluster has no leader";
    assert_eq!(hub.call("POST", "/participants", "{}").await, (503, refusal(2003, nobody)));
}

#[tokio::test]
async fn leader_is_named_only_to_operators() {
    let (hub, _) = hub(true);
    for (method, path) in [("POST", "/participants"), ("GET", "/participants")] {
        assert_eq!(hub.call(method, path, "").await.0, 401, "{method} {path}");
    }
}

#[tokio::test]
async fn standalone_hub_reports_no_age() {
    let told = head(&Hub::start(), "/participants").await;
    assert!(told.starts_with("HTTP/1.1 200") && !told.contains("upesi-"), "{told}");
}

/// The answer to a request on a connection that stays open.
async fn answered(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /participants HTTP/1.1\r\nhost: hub\r\n\r\n").await.unwrap();
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the connection is closed after {text:?}");
        text.push_str(str::from_utf8(&bytes[..count]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if length.is_none_or(|length: usize| body.len() >= length) {
            return text;
        }
    }
}

#[tokio::test]
async fn connection_stays_open_while_the_api_of_the_port_changes() {
    let (hub, other) = (Hub::start(), Hub::start());
    let (port, workers) = (AdminPort::default(), Workers::start(1, "port").unwrap());
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut stream = TcpStream::connect(bound.local_addr()).await.unwrap();
    let server = Server::serve(bound, upesi_admin::limits(16), &workers, Arc::new(port.clone()));
    let not_yet = "This node has not read its copy yet";
    let text = answered(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains(not_yet), "{text}");
    for hub in [&hub, &other] {
        port.set(Some(AdminService::new(AdminContext::new(hub.handle.clone()))));
        let text = answered(&mut stream).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"Hub\""), "{text}");
    }
    port.set(None);
    let text = answered(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains(not_yet), "{text}");
    server.begin_shutdown();
    workers.shutdown();
}
