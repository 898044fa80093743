//! Accepted requests: the answer to the sender, the effect on the ledger, and the stored data.

use upesi_delivery::rejection;
use upesi_engine::SubmitError;
use upesi_ledger::{CallbackContent, PublicState, ResourceId};
use upesi_testsupport::held::HeldEngine;
use upesi_types::{ErrorCode, TransferId};

use super::common::{name, position};
use crate::common::{
    ERROR_BODY, ID, NOW, Running, Settings, fulfil_body, get, post, prepare_body, put, put_error, request,
};

pub(super) const SOON: &str = "2031-04-01T12:00:30.000Z";
pub(super) const OTHER: &str = "01563e3a-b5d3-4676-8c61-efb99302bd5b";

pub(super) fn from_payee(id: &str, body: &str) -> Vec<u8> {
    put(id, &["fspiop-source: bluewallet", "fspiop-destination: greenbank", "-accept"], body)
}

fn state(running: &Running, id: &str) -> Option<PublicState> {
    let id = TransferId::parse(id).unwrap();
    running.wait(running.handle.transfer(id)).unwrap().map(|transfer| transfer.public_state())
}

#[test]
fn successful_answers_have_no_body() {
    let running = Running::plain();
    for (request, status) in [
        (post(&[], prepare_body(ID)), 202),
        (get(ID, &[]), 202),
        (put(ID, &[], fulfil_body()), 200),
        (put_error(ID, &[], ERROR_BODY), 200),
        // Unknown ids are answered by callback.
        (get(OTHER, &[]), 202),
        (get("any%20text", &[]), 202),
        (put(OTHER, &[], fulfil_body()), 200),
        (put_error("x", &[], ERROR_BODY), 200),
    ] {
        let answer = running.ask(&request);
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&request));
        assert_eq!((answer.header("content-length"), &*answer.body), (Some("0"), ""));
        assert_eq!(answer.header("content-type"), None);
        assert!(answer.header("date").is_some());
    }
}

#[test]
fn prepare_and_fulfil_move_money() {
    let running = Running::plain();
    let mut client = running.connect();
    assert_eq!(client.exchange(&post(&[], prepare_body(ID))).status, 202);
    assert_eq!(state(&running, ID), Some(PublicState::Reserved));
    assert_eq!(running.wait(position(&running.handle, "greenbank")), "125.5");
    assert_eq!(client.exchange(&from_payee(ID, &fulfil_body())).status, 200);
    assert_eq!(state(&running, ID), Some(PublicState::Committed));
    assert_eq!(running.wait(position(&running.handle, "bluewallet")), "-125.5");

    assert_eq!(client.exchange(&post(&[], prepare_body(OTHER))).status, 202);
    let abort = put_error(OTHER, &["fspiop-source: bluewallet", "fspiop-destination: greenbank"], ERROR_BODY);
    assert_eq!(client.exchange(&abort).status, 200);
    assert_eq!(state(&running, OTHER), Some(PublicState::Aborted));
    assert_eq!(running.wait(position(&running.handle, "greenbank")), "125.5");
}

#[test]
fn rejected_requests_do_not_change_the_transfer() {
    let running = Running::plain();
    let mut client = running.connect();
    assert_eq!(client.exchange(&post(&[], prepare_body(ID))).status, 202);
    let records = running.records();
    for (request, status) in [
        (put(ID, &["-date"], fulfil_body()), 400),
        (from_payee(ID, "{"), 400),
        (from_payee(ID, r#"{"transferState":"DONE"}"#), 400),
        (
            from_payee(
                ID,
                &fulfil_body().replacen('{', r#"{"completedTimestamp":"2031-04-01T11:00:00.000Z","#, 1),
            ),
            400,
        ),
        (put_error(ID, &[], "{}"), 400),
        (request(&format!("PATCH /transfers/{ID}"), &[], fulfil_body()), 501),
        (request(&format!("DELETE /transfers/{ID}"), &[], ""), 405),
    ] {
        assert_eq!(client.exchange(&request).status, status);
    }
    assert_eq!((running.records(), state(&running, ID)), (records, Some(PublicState::Reserved)));
    assert_eq!(client.exchange(&from_payee(ID, &fulfil_body())).status, 200);
    assert_eq!(state(&running, ID), Some(PublicState::Committed));
}

#[test]
fn payload_has_the_request_as_sent() {
    let running = Running::plain();
    let body = prepare_body(ID).replace(',', " ,\n");
    let edits = ["X-Own: Some Value", "+x-two: 1", "+x-two: 2", "tracestate: a=b"];
    assert_eq!(running.ask(&post(&edits, &body)).status, 202);
    let transfer = running.wait(running.handle.transfer(TransferId::parse(ID).unwrap())).unwrap().unwrap();
    let payload = running.wait(running.handle.payload(transfer.prepare_seq)).unwrap().unwrap();
    assert_eq!(payload.body, body);
    let block = String::from_utf8(payload.headers.to_vec()).unwrap();
    for line in ["fspiop-source: greenbank", "x-own: Some Value", "x-two: 1", "x-two: 2", "tracestate: a=b"] {
        assert!(block.contains(&format!("{line}\r\n")), "{line} in {block}");
    }
    for name in ["host:", "content-length:"] {
        assert!(!block.contains(name), "{name} in {block}");
    }
}

#[test]
fn unknown_ids_are_answered_under_the_requested_path() {
    let running = Running::plain();
    let encoded = ID.replacen('5', "%35", 1);
    for (request, status) in
        [(get("any%20text", &[]), 202), (get(&encoded, &[]), 202), (put("a%2Fb", &[], fulfil_body()), 200)]
    {
        assert_eq!(running.ask(&request).status, status);
    }
    let handle = &running.handle;
    let green = handle.read(|ledger| ledger.participant_id(&name("greenbank")).unwrap());
    let green = running.wait(green).unwrap();
    let pending = running.wait(handle.pending_callbacks(green, None, 10)).unwrap().callbacks;
    let told: Vec<_> = pending
        .into_iter()
        .map(|pending| match &pending.callback().content {
            CallbackContent::Error(why) => (pending.callback().subject.id.clone(), rejection::cause(why).0),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            (ResourceId::Text("any%20text".into()), ErrorCode::TRANSFER_NOT_FOUND),
            (ResourceId::Id(TransferId::parse(ID).unwrap()), ErrorCode::TRANSFER_NOT_FOUND),
            (ResourceId::Text("a%2Fb".into()), ErrorCode::INTERNAL),
        ]
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let running = Running::plain();
    let mut bytes = Vec::new();
    for request in [
        post(&[], prepare_body(ID)),
        post(&[], "{"),
        request("GET /nowhere", &[], ""),
        get(ID, &[]),
        put(ID, &[], fulfil_body()),
        request("GET /live", &[], ""),
        post(&["-date"], prepare_body(OTHER)),
        post(&[], prepare_body(OTHER)),
    ] {
        bytes.extend_from_slice(&request);
    }
    let mut client = running.connect();
    client.send(&bytes);
    let statuses: Vec<u16> = (0..8).map(|_| client.answer().status).collect();
    assert_eq!(statuses, [202, 400, 404, 202, 200, 200, 400, 202]);
}

#[test]
fn full_queue_answers_busy_and_recovers() {
    let running = Running::start(Settings { queue_commands_max: 1, ..Settings::default() });
    let held = HeldEngine::hold(&running.handle);
    for request in [post(&[], prepare_body(ID)), get(ID, &[]), put(ID, &[], fulfil_body())] {
        let answer = running.ask(&request);
        assert_eq!((answer.status, answer.code()), (503, 2005), "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    // Malformed requests still get their error.
    assert_eq!(running.ask(&post(&[], "{")).status, 400);
    held.release();
    // When a query finds space, the command before it has left the queue.
    while running.wait(running.handle.read(|_| ())) == Err(SubmitError::Busy) {
        std::thread::yield_now();
    }
    assert_eq!(running.ask(&post(&[], prepare_body(ID))).status, 202);
}

#[test]
fn unreadable_archive_is_a_server_error() {
    let running = Running::plain();
    let nonsense = vec![(TransferId::parse(ID).unwrap(), b"rotten".to_vec())];
    running.handle.archive().unwrap().apply(&nonsense, 0).unwrap();
    for request in [
        post(&[], prepare_body(ID)),
        get(ID, &[]),
        put(ID, &[], fulfil_body()),
        put_error(ID, &[], ERROR_BODY),
    ] {
        let answer = running.ask(&request);
        assert_eq!((answer.status, answer.code()), (500, 2001), "{answer:?}");
        // The detail of an internal error is not sent.
        assert!(answer.body.contains(r#""errorDescription":"Internal server error""#), "{answer:?}");
    }
    assert_eq!(running.records(), 0);
    assert_eq!(running.ask(&post(&[], prepare_body(OTHER))).status, 202, "other transfers continue");
}

#[test]
fn a_stopped_engine_is_unavailable() {
    let mut running = Running::plain();
    assert_eq!(running.ask(&request("GET /health", &[], "")).status, 200);
    running.engine.take().unwrap().shutdown();
    for request in [post(&[], prepare_body(ID)), get(ID, &[]), put_error(ID, &[], ERROR_BODY)] {
        let answer = running.ask(&request);
        assert_eq!((answer.status, answer.code()), (503, 2003), "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let health = running.ask(&request("GET /health", &[], ""));
    assert_eq!(health.status, 502);
    assert!(health.body.contains(r#""status":"DOWN""#), "{health:?}");
    assert_eq!(running.ask(&request("GET /live", &[], "")).status, 200);
}

#[test]
fn health_liveness_metadata_and_cache_requests_are_answered() {
    let running = Running::plain();
    let ask = |line: &str| running.ask(format!("{line} HTTP/1.1\r\nhost: hub\r\n\r\n").as_bytes());
    let health = ask("GET /health");
    assert_eq!(
        (health.status, health.header("content-type")),
        (200, Some("application/json; charset=utf-8"))
    );
    let expected = format!(r#"{{"status":"OK","uptime":0,"startTime":"{NOW}","versionNumber":""#);
    assert!(health.body.starts_with(&expected), "{health:?}");
    assert!(health.body.contains(r#"{"name":"journal","status":"OK"}"#), "{health:?}");
    let live = ask("GET /live");
    assert_eq!((live.status, &*live.body), (200, "OK"));
    let metadata = ask("GET /?x=1");
    assert!(metadata.status == 200 && metadata.body.contains(r#""/transfers":"POST""#), "{metadata:?}");
    let cache = ask("DELETE /endpointcache");
    assert_eq!((cache.status, cache.header("content-length")), (202, Some("0")));
}

#[test]
fn requests_are_counted() {
    let running = Running::plain();
    for request in [
        post(&[], prepare_body(ID)),
        post(&[], prepare_body(ID)),
        post(&[], "{"),
        put(ID, &[], fulfil_body()),
        put_error(ID, &["-date"], ERROR_BODY),
        get(ID, &[]),
        request("PATCH /transfers/x", &[], ""),
        request("BREW /coffee", &[], ""),
        request("POST /quotes", &[], ""),
    ] {
        running.ask(&request);
    }
    let metrics = running.metrics();
    for line in [
        r#"upesi_http_requests_total{method="POST",resource="transfers",status="202"} 2"#,
        r#"upesi_http_requests_total{method="POST",resource="transfers",status="400"} 1"#,
        r#"upesi_http_requests_total{method="PUT",resource="transfers/{ID}",status="200"} 1"#,
        r#"upesi_http_requests_total{method="PUT",resource="transfers/{ID}/error",status="400"} 1"#,
        r#"upesi_http_requests_total{method="GET",resource="transfers/{ID}",status="202"} 1"#,
        r#"upesi_http_requests_total{method="PATCH",resource="transfers/{ID}",status="501"} 1"#,
        r#"upesi_http_requests_total{method="other",resource="unknown",status="404"} 1"#,
        r#"upesi_http_requests_total{method="POST",resource="quotes",status="501"} 1"#,
        r#"upesi_http_request_duration_seconds_count{method="POST",resource="transfers"} 3"#,
        r#"upesi_fspiop_refusals_total{code="2002"} 2"#,
        r#"upesi_fspiop_refusals_total{code="3101"} 1"#,
        r#"upesi_fspiop_refusals_total{code="3102"} 1"#,
        r#"upesi_fspiop_refusals_total{code="3002"} 1"#,
        r#"moja_ml_transfer_prepare_count{serviceName="ml-service",success="true"} 2"#,
        r#"moja_ml_transfer_prepare_count{serviceName="ml-service",success="false"} 1"#,
        r#"moja_ml_transfer_prepare_bucket{serviceName="ml-service",le="0.01",success="#,
        r#"moja_ml_transfer_fulfil_count{serviceName="ml-service",success="true"} 1"#,
        r#"moja_ml_transfer_fulfil_error_count{serviceName="ml-service",success="false"} 1"#,
        r#"moja_ml_transfer_get_count{serviceName="ml-service",success="true"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
}
