//! Delivery of callbacks when DFSPs, endpoints or the hub itself fail.

use std::thread;
use std::time::Duration;

use crate::common;
use crate::common::dfsp::{Client, Conduct, Seen};
use crate::common::message::{Message, Terms};
use crate::common::{AMPLE, World};

/// Long pauses of a lane would only slow these tests down.
const NEVER_PAUSES: (&str, &str) = ("callbacks.breaker_threshold", "1000000");

fn prepare(world: &World) -> String {
    let id = world.new_id();
    world.deliver(Message::prepare(&Terms::new(&id, world.now())));
    id
}

/// Commits a prepared transfer, and waits for the payer's callback.
fn commit(world: &World, id: &str) {
    world.deliver(Message::fulfil(id, "RESERVED"));
    assert_eq!(world.dfsp("greenbank").next(id).header("fspiop-http-method"), Some("PUT"));
}

/// The message without its answer.
fn unanswered(seen: &Seen) -> Seen {
    Seen { status: None, ..seen.clone() }
}

fn redeliver(world: &World, body: &str) -> String {
    world.operate("POST", "/callbacks/redeliver", body).to_string()
}

#[test]
fn rejected_callback_is_repeated_byte_for_byte() {
    // Backoffs are long enough that callbacks with few attempts are not parked before the DFSP accepts them.
    let world = World::new(&[("callbacks.backoff_max_ms", "1000")]);
    let payee = world.dfsp("bluewallet");
    for status in [500, 503, 404, 400, 302] {
        payee.conduct(Conduct::Answers(status));
        let id = prepare(&world);
        let attempts = payee.attempts(&id, 3);
        payee.conduct(Conduct::Answers(204));
        let delivered = payee.next(&id);
        assert_eq!((attempts[0].status, delivered.status), (Some(status), Some(204)));
        for attempt in &attempts {
            assert_eq!(unanswered(attempt), unanswered(&delivered));
        }
        payee.conduct(Conduct::Answers(200));
        commit(&world, &id);
        // The copy of the outcome is also delivered before the payee rejects callbacks again.
        world.until(&(0, 0), || world.undelivered());
    }
    let deliveries = |success: &str| {
        let name = "moja_ml_notification_event_delivery_count";
        let labels =
            format!(r#"serviceName="ml-handler-notification",success="{success}",dest="bluewallet""#);
        world.metric(&format!("{name}{{{labels}}}"))
    };
    // Per transfer: the prepare, the copy of the outcome, and at least three rejected attempts.
    assert_eq!(deliveries("true"), 10);
    assert!(deliveries("false") >= 15, "{}", deliveries("false"));
}

/// Operators must repair a wrong endpoint, or a signature that the DFSP does not accept.
#[test]
fn permanent_failures_are_parked_after_a_few_attempts() {
    let world = World::new(&[]);
    let payee = world.dfsp("bluewallet");
    let said = br#"{"errorInformation":{"errorCode":"3105","errorDescription":"Invalid signature"}}"#;
    for (conduct, reason) in [
        (Conduct::Answers(404), "answered 404 Not Found"),
        (
            Conduct::Says(400, said.as_slice().into()),
            "answered 400 Bad Request with 3105: the DFSP does not accept the signature",
        ),
    ] {
        payee.conduct(conduct);
        let id = prepare(&world);
        world.until(&(0, 1), || world.undelivered());
        assert_eq!(payee.attempts(&id, 5).len(), 5);
        let parked = &world.operate("GET", "/callbacks?state=parked", "")["callbacks"][0];
        assert_eq!((&parked["reason"], &parked["attempts"]), (&reason.into(), &5.into()), "{parked}");
        payee.conduct(Conduct::Answers(200));
        assert_eq!(redeliver(&world, r#"{"all":true}"#), r#"{"redelivered":1,"remaining":0}"#);
        assert_eq!(payee.next(&id).status, Some(200));
        world.until(&(0, 0), || world.undelivered());
    }
}

/// The prepare can no longer be fulfilled, and another callback reports this to the payee.
#[test]
fn rejected_prepare_is_not_repeated_after_its_expiration() {
    let world = World::new(&[]);
    let payee = world.dfsp("bluewallet");
    payee.conduct(Conduct::Answers(500));
    let id = world.new_id();
    let expires = world.now().plus_ms(500);
    world.deliver(Message::prepare(&Terms { expires, ..Terms::new(&id, world.now()) }));
    assert!(world.dfsp("greenbank").next(&id).text().contains("3303"));
    // The prepare is parked, and the hub still tries the later callbacks.
    world.until(&(1, 1), || world.undelivered());
    let parked = &world.operate("GET", "/callbacks?state=parked", "")["callbacks"][0];
    assert_eq!(parked["message"], "POST /transfers");
    let reason = "answered 500 Internal Server Error; the transfer has expired";
    assert_eq!(parked["reason"], reason, "{parked}");
    payee.conduct(Conduct::Answers(200));
    assert_eq!(payee.next(&id).method, "PUT");
    world.until(&(0, 1), || world.undelivered());
}

/// Rejected callbacks are visible while they are retried: on the lane, and with each callback.
#[test]
fn lane_shows_rejected_callbacks() {
    let world = World::new(&[("callbacks.concurrency_max", "1"), ("callbacks.breaker_threshold", "1")]);
    let payee = world.dfsp("bluewallet");
    let state = || {
        let lanes = world.operate("GET", "/lanes", "");
        let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == "bluewallet").cloned();
        lane.unwrap()["state"].as_str().unwrap().to_owned()
    };
    payee.conduct(Conduct::Answers(503));
    let id = prepare(&world);
    payee.attempts(&id, 3);
    assert_eq!(state(), "refused");
    let pending = &world.operate("GET", "/callbacks?state=pending", "")["callbacks"][0];
    assert_eq!(pending["reason"], "answered 503 Service Unavailable", "{pending}");
    assert!(pending["attempts"].as_u64().is_some_and(|attempts| attempts >= 2), "{pending}");
    assert_eq!(pending["transferId"], id.as_str());
    payee.conduct(Conduct::Answers(200));
    payee.next(&id);
    world.until(&(0, 0), || world.undelivered());
    assert_eq!(state(), "sending");
}

#[test]
fn any_success_is_a_delivery() {
    let world = World::new(&[]);
    for status in [200, 201, 202, 204, 299] {
        world.dfsp("bluewallet").conduct(Conduct::Answers(status));
        let id = prepare(&world);
        assert_eq!(world.dfsp("bluewallet").next(&id).status, Some(status));
        world.until(&(0, 0), || world.undelivered());
        assert_eq!(world.dfsp("bluewallet").attempts(&id, 1).len(), 1);
    }
}

#[test]
fn unreachable_payee_later_gets_everything_in_order() {
    let mut world = World::new(&[]);
    world.dfsp_mut("bluewallet").die();
    let ids: Vec<_> = (0..20).map(|_| prepare(&world)).collect();
    // Meanwhile the payer asks for the transfers, and gets answers.
    for id in &ids {
        world.deliver(Message::get(id, "greenbank"));
        assert_eq!(world.dfsp("greenbank").next(id).text(), r#"{"transferState":"RESERVED"}"#);
    }
    world.dfsp_mut("bluewallet").revive();
    for id in &ids {
        assert_eq!(world.dfsp("bluewallet").next(id).method, "POST");
        commit(&world, id);
        assert_eq!(world.dfsp("bluewallet").next(id).method, "PATCH");
    }
    world.until(&(0, 0), || world.undelivered());
    assert_eq!(world.position("greenbank"), "200");
    world.stop_and_audit();
}

#[test]
fn unreachable_payee_later_gets_expiries_in_order() {
    let mut world = World::new(&[]);
    world.dfsp_mut("bluewallet").die();
    let ids: Vec<_> = (0..20)
        .map(|_| {
            let id = world.new_id();
            let expires = world.now().plus_ms(1_500);
            world.deliver(Message::prepare(&Terms { expires, ..Terms::new(&id, world.now()) }));
            id
        })
        .collect();
    for id in &ids {
        assert!(world.dfsp("greenbank").next(id).text().contains("3303"));
    }
    world.dfsp_mut("bluewallet").revive();
    for id in &ids {
        let told = [0; 2].map(|_| world.dfsp("bluewallet").next(id).method);
        assert_eq!(told, ["POST", "PUT"]);
    }
    world.until(&(0, 0), || world.undelivered());
    assert_eq!(world.position("greenbank"), "0");
    world.stop_and_audit();
}

/// Far more callbacks than a lane holds, in number and in bytes. The rest waits in the outbox, also over a restart.
#[test]
fn lane_beyond_its_limits_catches_up_from_the_outbox() {
    let mut world = World::new(&[
        ("callbacks.queue_max", "16"),
        ("callbacks.concurrency_max", "4"),
        ("callbacks.retrying_max", "8"),
        ("callbacks.queue_bytes_max", "65536"),
        ("fspiop.body_bytes_max", "65536"),
    ]);
    world.dfsp_mut("bluewallet").die();
    let mut ids = Vec::new();
    let mut prepare_many = |world: &World| {
        for number in 0..60 {
            let id = world.new_id();
            let terms = Terms { amount: "1".into(), ..Terms::new(&id, world.now()) };
            let body = terms.body().replace('☕', &"x".repeat(number * 500));
            world.deliver(Message::prepare(&terms).body(body));
            ids.push(id);
        }
    };
    prepare_many(&world);
    world.restart();
    prepare_many(&world);
    let lanes = world.operate("GET", "/lanes", "");
    let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == "bluewallet").unwrap();
    assert_eq!(lane["catchingUp"], true, "{lane}");
    world.dfsp_mut("bluewallet").revive();
    for id in &ids {
        assert_eq!(world.dfsp("bluewallet").next(id).method, "POST");
        commit(&world, id);
    }
    for id in &ids {
        assert_eq!(world.dfsp("bluewallet").next(id).method, "PATCH");
        assert_eq!(world.dfsp("bluewallet").attempts(id, 2).len(), 2, "each once");
    }
    world.until(&(0, 0), || world.undelivered());
    assert_eq!(world.position("greenbank"), "120");
    world.stop_and_audit();
}

#[test]
fn unreachable_dfsp_does_not_delay_others() {
    let mut world = World::new(&[]);
    world.dfsp_mut("redmoney").die();
    // A payee that accepts messages and never answers also does not delay other DFSPs.
    world.dfsp("bluewallet").conduct(Conduct::FallsSilent);
    let terms = |world: &World, payee: &str| {
        let id = world.new_id();
        let terms = Terms { payee: payee.into(), ..Terms::new(&id, world.now()) };
        world.deliver(Message::prepare(&terms));
        id
    };
    for _ in 0..50 {
        terms(&world, "redmoney");
        terms(&world, "bluewallet");
    }
    world.join("orangepay");
    for _ in 0..50 {
        let id = terms(&world, "orangepay");
        assert_eq!(world.dfsp("orangepay").next(&id).method, "POST");
        world.deliver(Message::fulfil(&id, "COMMITTED").from("orangepay"));
        assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    }
    let lanes = world.operate("GET", "/lanes", "");
    let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == "redmoney").unwrap();
    assert_eq!(lane["delivered"], 0);
    assert!(lane["lastError"].as_str().is_some_and(|error| error.contains("cannot connect")), "{lane}");
    let (pending, parked) = world.undelivered();
    assert!(pending >= 100 && parked == 0, "{pending} {parked}");
}

#[test]
fn corrected_endpoint_is_used_by_the_next_attempt() {
    let mut world = World::new(&[]);
    // After its stop it listens on another port.
    world.dfsp_mut("bluewallet").die();
    let id = prepare(&world);
    let elsewhere = common::dfsp::Dfsp::start("bluewallet");
    world.set_endpoints("bluewallet", &elsewhere.base_url());
    let seen = elsewhere.next(&id);
    assert_eq!((&*seen.method, &*seen.path), ("POST", "/transfers"));
    assert_eq!(seen.header("host"), Some(&*elsewhere.address.to_string()));
    world.until(&(0, 0), || world.undelivered());
}

#[test]
fn undeliverable_callback_is_parked_shown_and_redelivered() {
    let world = World::new(&[
        ("callbacks.deadline_s", "1"),
        ("callbacks.request_timeout_ms", "500"),
        ("callbacks.connect_timeout_ms", "500"),
        NEVER_PAUSES,
    ]);
    let payee = world.dfsp("bluewallet");
    payee.conduct(Conduct::Answers(503));
    let ids = [prepare(&world), prepare(&world)];
    world.until(&(0, 2), || world.undelivered());
    let page = world.operate("GET", "/callbacks?state=parked&fsp=bluewallet", "");
    let parked = page["callbacks"].as_array().unwrap();
    assert_eq!(parked.len(), 2);
    for (callback, id) in parked.iter().zip(&ids) {
        assert_eq!(callback["message"], "POST /transfers");
        assert_eq!(callback["transferId"], **id);
        assert_eq!(callback["state"], "parked");
        assert!(callback["reason"].as_str().unwrap().contains("503"), "{callback}");
        // The callback is parked at its deadline, after many attempts.
        let attempts = callback["attempts"].as_u64().unwrap();
        assert!(attempts > 3 && attempts as usize == payee.attempts(id, 1).len(), "{callback}");
    }
    payee.conduct(Conduct::Answers(200));
    let key = &parked[0]["key"];
    let again = redeliver(&world, &format!(r#"{{"keys":[{key}]}}"#));
    assert_eq!(again, r#"{"redelivered":1,"remaining":0}"#);
    let seen = payee.next(&ids[0]);
    assert_eq!(unanswered(&seen), unanswered(&payee.attempts(&ids[0], 1)[0]), "the same bytes again");
    world.until(&(0, 1), || world.undelivered());
    assert_eq!(redeliver(&world, r#"{"all":true,"fsp":"bluewallet"}"#), r#"{"redelivered":1,"remaining":0}"#);
    assert_eq!(payee.next(&ids[1]).method, "POST");
    world.until(&(0, 0), || world.undelivered());
    assert_eq!(redeliver(&world, r#"{"all":true}"#), r#"{"redelivered":0,"remaining":0}"#);
}

#[test]
fn parked_callbacks_stay_parked_after_a_restart() {
    let mut world = World::new(&[
        ("callbacks.deadline_s", "1"),
        ("callbacks.request_timeout_ms", "500"),
        ("callbacks.connect_timeout_ms", "500"),
    ]);
    world.dfsp("bluewallet").conduct(Conduct::Answers(410));
    let id = prepare(&world);
    world.until(&(0, 1), || world.undelivered());
    let attempts = world.dfsp("bluewallet").attempts(&id, 1).len();
    world.dfsp("bluewallet").conduct(Conduct::Answers(200));
    world.restart();
    // A later callback is delivered.
    let later = prepare(&world);
    assert_eq!(world.dfsp("bluewallet").next(&later).method, "POST");
    world.until(&(0, 1), || world.undelivered());
    assert_eq!(world.dfsp("bluewallet").attempts(&id, 1).len(), attempts);
    redeliver(&world, r#"{"all":true}"#);
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    world.until(&(0, 0), || world.undelivered());
    world.stop_and_audit();
}

#[test]
fn callbacks_without_endpoint_are_parked() {
    let mut world = World::new(&[]);
    world.onboard("newcomer");
    let id = world.new_id();
    let terms = Terms { payee: "newcomer".into(), ..Terms::new(&id, world.now()) };
    world.deliver(Message::prepare(&terms));
    world.until(&(0, 1), || world.undelivered());
    let page = world.operate("GET", "/callbacks?fsp=newcomer", "");
    let reason = page["callbacks"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("FSPIOP_CALLBACK_URL_TRANSFER_POST"), "{reason}");
    let newcomer = common::dfsp::Dfsp::start("newcomer");
    world.set_endpoints("newcomer", &newcomer.base_url());
    redeliver(&world, r#"{"all":true,"fsp":"newcomer"}"#);
    assert_eq!(newcomer.next(&id).method, "POST");
    world.until(&(0, 0), || world.undelivered());
    world.stop_and_audit();
}

#[test]
fn restart_resumes_undelivered_callbacks_with_the_same_bytes() {
    let mut world = World::new(&[NEVER_PAUSES]);
    world.dfsp("bluewallet").conduct(Conduct::Answers(503));
    let ids: Vec<_> = (0..10).map(|_| prepare(&world)).collect();
    let before: Vec<_> = ids.iter().map(|id| world.dfsp("bluewallet").attempts(id, 1).remove(0)).collect();
    world.stop(AMPLE);
    world.dfsp("bluewallet").conduct(Conduct::Answers(200));
    world.start();
    for (id, before) in ids.iter().zip(&before) {
        assert_eq!(unanswered(&world.dfsp("bluewallet").next(id)), unanswered(before));
        commit(&world, id);
    }
    world.stop_and_audit();
}

#[test]
fn transfers_ended_before_a_restart_are_answered_from_the_archive() {
    let mut world = World::new(&[]);
    let (payer, payee) = ("greenbank", "bluewallet");
    let (id, refused) = (world.new_id(), world.new_id());
    let now = world.now();
    let first = Message::prepare(&Terms::new(&id, now));
    let too_much = Message::prepare(&Terms { amount: "3001".into(), ..Terms::new(&refused, now) });
    let fulfil = Message::fulfil(&id, "COMMITTED");
    world.deliver(first.clone());
    world.deliver(too_much.clone());
    world.deliver(fulfil.clone());
    let [forwarded, error] = [world.dfsp(payer).next(&id), world.dfsp(payer).next(&refused)];
    assert_eq!((forwarded.method, error.path.ends_with("/error")), ("PUT".into(), true));
    assert_eq!(world.dfsp(payee).next(&id).method, "POST");
    assert_eq!(world.dfsp(payee).next(&id).method, "PUT");
    for _ in 0..2 {
        world.restart();
        world.deliver(first.clone());
        let state = world.dfsp(payer).next(&id);
        assert!(state.text().ends_with(r#""transferState":"COMMITTED"}"#), "{}", state.text());
        world.deliver(fulfil.clone());
        assert_eq!(world.dfsp(payee).next(&id).body, state.body, "the payee receives the same");
        world.deliver(too_much.clone());
        let text = world.dfsp(payer).next(&refused).text().to_owned();
        assert!(text.contains("4001: Payer FSP insufficient liquidity"), "{text}");
        let modified = Terms { amount: "11".into(), ..Terms::new(&id, now) };
        world.deliver(Message::prepare(&modified));
        assert!(world.dfsp(payer).next(&id).text().contains(r#""errorCode":"3106""#));
        world.deliver(Message::get(&id, payee));
        assert_eq!(world.dfsp(payee).next(&id).body, state.body);
        world.deliver(Message::get(&id, "redmoney"));
        assert!(world.dfsp("redmoney").next(&id).text().contains(r#""errorCode":"3000""#));
        assert_eq!(world.position(payer), "10");
    }
    world.stop_and_audit();
}

#[test]
fn expiries_during_downtime_are_notified_after_the_start() {
    let mut world = World::new(&[]);
    let id = prepare(&world);
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    world.stop(AMPLE);
    world.clock.advance(31_000);
    world.start();
    for name in ["greenbank", "bluewallet"] {
        let text = world.dfsp(name).next(&id).text().to_owned();
        assert_eq!(
            text,
            r#"{"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}}"#
        );
    }
    assert_eq!(world.position("greenbank"), "0");
    world.stop_and_audit();
}

/// Senders that never stop while the hub is stopping.
#[test]
fn stop_under_load_loses_no_acknowledged_transfer() {
    let mut world = World::new(&[]);
    let address = world.fspiop();
    let now = world.now();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let ids: Vec<_> = (0..2_000).map(|_| world.new_id()).collect();
            thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut acknowledged = Vec::new();
                for id in ids {
                    let message = Message::prepare(&Terms { amount: "0.01".into(), ..Terms::new(&id, now) });
                    if client.try_send(&message.into_sent().bytes()).is_err() {
                        break;
                    }
                    match client.answer() {
                        Some(answer) if answer.status == 202 => acknowledged.push(id),
                        Some(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                        None => break,
                    }
                }
                acknowledged
            })
        })
        .collect();
    // In the middle of the load.
    let deadline = std::time::Instant::now() + AMPLE;
    while world.dfsp("bluewallet").count() < 200 {
        assert!(std::time::Instant::now() < deadline);
        thread::yield_now();
    }
    world.stop(Duration::from_secs(10));
    let acknowledged: Vec<String> = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
    assert!(acknowledged.len() >= 200);
    world.start();
    world.clock.advance(31_000);
    for id in &acknowledged {
        assert_eq!(world.dfsp("bluewallet").attempts(id, 1)[0].method, "POST");
        assert!(world.dfsp("greenbank").next(id).text().contains(r#""errorCode":"3303""#));
    }
    world.until(&"0".to_owned(), || world.position("greenbank"));
    world.stop_and_audit();
}

// One DFSP of eight becomes unreachable: its connections are accepted and never answered. The other DFSPs are not
// affected. When it is back, it receives everything, in order for each transfer.

/// The eighth DFSP is the unreachable one.
const DFSPS: [&str; 8] =
    ["greenbank", "bluewallet", "redmoney", "orangepay", "whitecash", "blacktill", "greypurse", "lostbank"];
const LOST: &str = "lostbank";
const ROUNDS: usize = 6;
const LONG_MS: i64 = 3_600_000;

/// Short delays, and small limits for a lane that is stuck.
const SETTINGS: &[(&str, &str)] = &[
    ("callbacks.connect_timeout_ms", "200"),
    ("callbacks.request_timeout_ms", "200"),
    ("callbacks.concurrency_max", "4"),
    ("callbacks.queue_max", "16"),
    ("callbacks.retrying_max", "8"),
];

struct Transfer {
    id: String,
    payer: &'static str,
    payee: &'static str,
}

fn prepare_to(world: &World, payer: &'static str, payee: &'static str) -> Transfer {
    let id = world.new_id();
    // Nothing expires here, even on a slow machine.
    let expires = world.now().plus_ms(LONG_MS);
    let terms = Terms {
        payer: payer.into(),
        payee: payee.into(),
        amount: "1".into(),
        expires,
        ..Terms::new(&id, world.now())
    };
    world.deliver(Message::prepare(&terms));
    Transfer { id, payer, payee }
}

fn fulfil(world: &World, transfer: &Transfer) {
    world.deliver(Message::fulfil(&transfer.id, "RESERVED").from(transfer.payee).to(transfer.payer));
}

/// From the prepare to the last notification, as payer and payee see them.
fn complete(world: &World, transfer: &Transfer) {
    assert_eq!(world.dfsp(transfer.payee).next(&transfer.id).method, "POST");
    fulfil(world, transfer);
    assert_eq!(world.dfsp(transfer.payer).next(&transfer.id).method, "PUT");
    assert_eq!(world.dfsp(transfer.payee).next(&transfer.id).method, "PATCH");
}

fn lane(world: &World, name: &str) -> serde_json::Value {
    let lanes = world.operate("GET", "/lanes", "");
    lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == name).unwrap().clone()
}

#[test]
fn silent_dfsp_delays_no_other_and_later_gets_everything() {
    let mut world = World::bare(SETTINGS);
    world.prepare_scheme();
    DFSPS.iter().for_each(|name| world.join(name));
    let others = &DFSPS[..7];
    world.dfsp(LOST).conduct(Conduct::FallsSilent);
    // Each of the other DFSPs has transfers to and from the unreachable one, far more than its lane holds.
    let mut lost = Vec::new();
    for round in 0..ROUNDS {
        for (index, payer) in others.iter().enumerate() {
            lost.push(prepare_to(&world, payer, LOST));
            // Its own transfers end while it cannot receive callbacks.
            let sent = prepare_to(&world, LOST, payer);
            assert_eq!(world.dfsp(payer).next(&sent.id).method, "POST");
            fulfil(&world, &sent);
            assert_eq!(world.dfsp(payer).next(&sent.id).method, "PATCH");
            lost.push(sent);
            // Transfers among the others continue, to the last message.
            let payee = others[(index + 1 + round % 6) % 7];
            complete(&world, &prepare_to(&world, payer, payee));
        }
    }
    let stuck = lane(&world, LOST);
    assert_eq!((&stuck["delivered"], &stuck["catchingUp"]), (&0.into(), &true.into()), "{stuck}");
    let (pending, parked) = world.undelivered();
    assert!(pending >= lost.len() as u64 && parked == 0, "{pending} pending, {parked} parked");

    world.dfsp(LOST).conduct(Conduct::Answers(200));
    for transfer in &lost {
        if transfer.payee == LOST {
            complete(&world, transfer);
        } else {
            assert_eq!(world.dfsp(LOST).next(&transfer.id).method, "PUT");
        }
    }
    world.until(&(0, 0), || world.undelivered());
    // This DFSP sent as much as it received.
    assert_eq!(world.position(LOST), "0");
    let mut world = world;
    world.stop(AMPLE);
}
