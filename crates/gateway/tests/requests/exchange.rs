//! Accepted requests: the answer to the sender, the effect on the ledger, and the stored data.

use upesi_delivery::rejection;
use upesi_engine::{Payload, SubmitError};
use upesi_ledger::{CallbackContent, PublicState, ResourceId};
use upesi_testsupport::held::HeldEngine;
use upesi_types::{ErrorCode, TransferId};

use super::common::{name, position};
use crate::common::{
    Answer, ERROR_BODY, ID, NOW, Running, Settings, condition, fulfil_body, get, post, prepare_body, put,
    put_error, request,
};

const SOON: &str = "2031-04-01T12:00:30.000Z";
const OTHER: &str = "01563e3a-b5d3-4676-8c61-efb99302bd5b";

fn from_payee(id: &str, body: &str) -> Vec<u8> {
    put(id, &["fspiop-source: bluewallet", "fspiop-destination: greenbank", "-accept"], body)
}

fn state(running: &Running, id: &str) -> Option<PublicState> {
    let id = TransferId::parse(id).unwrap();
    running.wait(running.handle.transfer(id)).unwrap().map(|transfer| transfer.public_state())
}

#[test]
fn successes_are_empty() {
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
fn money_moves() {
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
fn refused_requests_leave_the_transfer_unharmed() {
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
fn the_request_is_kept_as_it_was_sent() {
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
fn unknown_ids_are_answered_under_the_path_that_was_asked() {
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
fn a_full_queue_is_busy_and_recovers() {
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
fn an_archive_that_cannot_be_read_is_the_hubs_own_fault() {
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
    assert_eq!(running.ask(&post(&[], prepare_body(OTHER))).status, 202, "other transfers go on");
}

#[test]
fn a_stopped_engine_is_unavailable() {
    let mut running = Running::plain();
    assert_eq!(running.ask(&request("GET /health", &[], "")).status, 200);
    running.engine.take().unwrap().shutdown();
    for request in [post(&[], prepare_body(ID)), get(ID, &[]), put_error(ID, &[], ERROR_BODY)] {
        let answer = running.ask(&request);
        assert_eq!((answer.status, answer.code()), (503, 2003), "{answer:?}");
        assert_eq!(answer.header("retry-after"), None);
    }
    let health = running.ask(&request("GET /health", &[], ""));
    assert_eq!(health.status, 502);
    assert!(health.body.contains(r#""status":"DOWN""#), "{health:?}");
    assert_eq!(running.ask(&request("GET /live", &[], "")).status, 200);
}

#[test]
fn operators_are_answered() {
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

// Data of requests in the journal: nothing of unknown senders, and no body of rejections and queries.

/// A prepare of more than 60 KB that exceeds the payer's funds.
fn refused_prepare(id: &str, filler: &str) -> String {
    let filler = format!(r#"{{"filler":"{}","#, filler.repeat(60_000));
    prepare_body(id).replacen("125.5", "4321.5", 1).replacen('{', &filler, 1)
}

fn last_payload(running: &Running) -> Payload {
    running.wait(running.handle.payload(running.last_seq())).unwrap().unwrap()
}

/// Content of the last callback to greenbank.
fn told(running: &Running) -> CallbackContent {
    let green = running.handle.read(|ledger| ledger.participant_id(&name("greenbank")).unwrap());
    let green = running.wait(green).unwrap();
    let pending = running.wait(running.handle.pending_callbacks(green, None, 100)).unwrap().callbacks;
    pending.last().unwrap().callback().content.clone()
}

fn error(content: &CallbackContent) -> Option<ErrorCode> {
    match content {
        CallbackContent::Error(cause) => Some(rejection::cause(cause).0),
        _ => None,
    }
}

fn is_refused(answer: &Answer) {
    assert_eq!((answer.status, answer.code()), (400, 3101), "{answer:?}");
    assert!(answer.body.contains("invalid fspiop-source header"), "{answer:?}");
}

#[test]
fn who_is_no_participant_is_refused_at_once_and_leaves_nothing() {
    let running = Running::plain();
    assert_eq!(running.ask(&post(&[], prepare_body(ID))).status, 202);
    let records = running.records();
    let mut client = running.connect();
    // Names of senders in another case are accepted only for PUTs.
    for stranger in ["fspiop-source: ghost", "fspiop-source: greenbanker", "fspiop-source: GREENBANK"] {
        is_refused(&client.exchange(&post(&[stranger], prepare_body(OTHER))));
        is_refused(&client.exchange(&post(&[stranger], prepare_body(OTHER).replace("greenbank", "ghost"))));
        // An unknown sender gets the same answer for an existing id and for an unknown one.
        for id in [ID, OTHER, "no-id"] {
            is_refused(&client.exchange(&get(id, &[stranger])));
        }
    }
    for stranger in ["fspiop-source: ghost", "fspiop-source: bluewalleter"] {
        for id in [ID, OTHER, "no-id"] {
            is_refused(&client.exchange(&put(id, &[stranger, "-accept"], fulfil_body())));
            is_refused(&client.exchange(&put_error(id, &[stranger, "-accept"], ERROR_BODY)));
        }
    }
    assert_eq!(running.records(), records);
    assert_eq!(running.wait(running.handle.transfer(TransferId::parse(OTHER).unwrap())).unwrap(), None);
    // An unknown sender also gets errors about its own mistakes, which have no effect either.
    assert_eq!(client.exchange(&post(&["fspiop-source: ghost"], "{}")).code(), 3102);
}

#[test]
fn a_refused_prepare_is_kept_by_its_fingerprint() {
    let running = Running::plain();
    let body = refused_prepare(ID, "x");
    assert_eq!(running.ask(&post(&["x-own: 1"], &body)).status, 202);
    assert_eq!(error(&told(&running)), Some(ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY));
    let kept = last_payload(&running);
    assert_eq!(kept.body, "");
    assert!(String::from_utf8_lossy(&kept.headers).contains("x-own: 1\r\n"), "for the callback");

    // It is nevertheless known again.
    assert_eq!(running.ask(&post(&[], &body)).status, 202);
    let CallbackContent::State(_, view) = told(&running) else { panic!("{:?}", told(&running)) };
    assert_eq!(view.state, PublicState::Aborted);
    assert_eq!(last_payload(&running).body, "", "nor is the body of a resend kept");
    assert_eq!(running.ask(&post(&[], refused_prepare(ID, "y"))).status, 202);
    assert_eq!(error(&told(&running)), Some(ErrorCode::MODIFIED_REQUEST));
    assert_eq!(last_payload(&running).body, "");
    assert_eq!(running.ask(&get(ID, &[])).status, 202);
    let CallbackContent::State(_, view) = told(&running) else { panic!("{:?}", told(&running)) };
    assert_eq!(view.state, PublicState::Aborted);
}

/// A bulk transfer and an FX transfer of more than 60 KB that are rejected as a whole: the payee is unknown, and no
/// provider has the currencies.
fn refused_others(long: &str) -> [Vec<u8>; 2] {
    let filler = format!(r#"{{"filler":"{}","#, "z".repeat(60_000));
    let item = format!(
        r#"{{"transferId":"{ID}","transferAmount":{{"currency":"KES","amount":"1"}},"ilpPacket":"AYIC","condition":"{}"}}"#,
        condition()
    );
    let bulk = format!(
        r#"{filler}"bulkTransferId":"{ID}","bulkQuoteId":"{ID}","payerFsp":"greenbank","payeeFsp":"nobody","individualTransfers":[{item}],"expiration":"{SOON}"}}"#
    );
    let conversion = format!(
        r#"{filler}"commitRequestId":"{ID}","initiatingFsp":"greenbank","counterPartyFsp":"bluewallet","amountType":"SEND","sourceAmount":{{"currency":"KES","amount":"1"}},"targetAmount":{{"currency":"USD","amount":"1"}},"condition":"{}","expiration":"{SOON}"}}"#,
        condition()
    );
    let of = |resource: &str, version: &str, body: &str| {
        let media = format!("application/vnd.interoperability.{resource}+json;version={version}");
        let edits = [&format!("content-type: {media}"), &format!("accept: {media}"), long];
        request(&format!("POST /{resource}"), &edits, body)
    };
    [of("bulkTransfers", "1.1", &bulk), of("fxTransfers", "2.0", &conversion)]
}

#[test]
fn nothing_long_is_kept_of_what_changes_nothing() {
    let running = Running::plain();
    let long = format!("x-long: {}", "y".repeat(20_000));
    let long_text = format!(r#"{{"filler":"{}"}}"#, "z".repeat(30_000));
    let from_payee = |edit| ["fspiop-source: bluewallet", "fspiop-destination: greenbank", "-accept", edit];
    let fulfil = fulfil_body().replacen('{', &format!(r#"{{"filler":"{}","#, "z".repeat(30_000)), 1);
    let [bulk, conversion] = refused_others(&long);
    for request in [
        bulk,
        conversion,
        post(&[&long], refused_prepare(ID, "x")),
        get(ID, &[&long]),
        get(OTHER, &[&long, &format!("content-length: {}", long_text.len())])
            .into_iter()
            .chain(long_text.bytes())
            .collect(),
        put(ID, &from_payee(&long), &fulfil),
        put_error(OTHER, &from_payee(&long), ERROR_BODY),
    ] {
        let before = running.last_seq();
        let answer = running.ask(&request);
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        assert_eq!(running.last_seq(), before + 1, "each is answered by a callback");
        assert_eq!(last_payload(&running), Payload::default());
    }
    // A request that changes a transfer is stored completely.
    let prepare = prepare_body(OTHER).replacen('{', &format!(r#"{{"filler":"{}","#, "z".repeat(30_000)), 1);
    for (request, body) in
        [(post(&[&long], &prepare), &prepare), (put(OTHER, &from_payee(&long), &fulfil), &fulfil)]
    {
        assert!(matches!(running.ask(&request).status, 200 | 202));
        let kept = last_payload(&running);
        assert_eq!(kept.body, *body);
        assert!(kept.headers.len() > 20_000);
    }
    let ended = running.wait(running.handle.transfer(TransferId::parse(OTHER).unwrap())).unwrap().unwrap();
    assert_eq!(ended.public_state(), PublicState::Committed);
}
