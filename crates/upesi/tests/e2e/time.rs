//! Time as DFSPs and operators see it: a clock that jumps, and reservations that an operator ends.

use serde_json::{Value, json};

use crate::common::World;
use crate::common::dfsp::{Client, request};
use crate::common::message::{Message, Terms};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const EXPIRED: &str = r#"{"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}}"#;

/// The part of `/health` about the clock, on the FSPIOP port and on the admin port. Both answer 200.
fn clock_health(world: &World) -> [Value; 2] {
    let own = Client::connect(world.fspiop()).exchange(&request(
        "GET /health",
        &[("host".to_owned(), "hub".to_owned())],
        b"",
    ));
    assert_eq!(own.status, 200, "{own:?}");
    let own: Value = serde_json::from_str(&own.body).unwrap();
    [own, world.operate("GET", "/health", "")].map(|health| {
        assert_eq!(health["status"], "OK", "{health}");
        let services = health["services"].as_array().unwrap();
        services.iter().find(|service| service["name"] == "clock").unwrap().clone()
    })
}

fn is_down(world: &World) -> bool {
    clock_health(world).iter().all(|clock| clock["status"] == "DOWN")
}

/// A prepare by DFSPs whose clocks have this offset.
fn prepare(world: &World, amount: &str, dfsps_ahead_ms: i64) -> String {
    let id = world.new_id();
    let now = world.clock.unset().plus_ms(dfsps_ahead_ms);
    world.deliver(Message::prepare(&Terms { amount: amount.into(), ..Terms::new(&id, now) }));
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    id
}

/// The payee answers, with its completion time.
fn complete(world: &World, id: &str, dfsps_ahead_ms: i64) {
    let completed = world.clock.unset().plus_ms(dfsps_ahead_ms);
    let fulfil = Message::fulfil(id, "COMMITTED");
    let body = String::from_utf8(fulfil.body.clone()).unwrap();
    let body = body.replacen('{', &format!(r#"{{"completedTimestamp":"{completed}","#), 1);
    world.deliver(fulfil.body(body));
    assert_eq!(world.dfsp("greenbank").next(id).method, "PUT");
}

#[test]
fn clock_jump_stops_and_expires_no_payment() {
    let mut world = World::new(&[]);
    let waiting = prepare(&world, "12.5", 0);
    for (jump, dfsps_ahead_ms) in [(DAY_MS, 0), (-DAY_MS, 0), (2 * DAY_MS, 2 * DAY_MS)] {
        world.clock.jump(jump);
        world.until(&true, || is_down(&world));
        let clock = world.operate("GET", "/clock", "");
        assert!((clock["jumpMs"].as_i64().unwrap() - jump).abs() < 1_000, "{clock}");
        assert!(clock["detail"].as_str().unwrap().starts_with("the wall clock jumped "), "{clock}");
        let metrics = world.admin("GET", "/metrics", "").body;
        let jumped = metrics.lines().find_map(|line| line.strip_prefix("upesi_clock_jump_seconds "));
        let jumped: f64 = jumped.unwrap().parse().unwrap();
        assert!((jumped as i64 - jump / 1_000).abs() <= 1, "{jumped}");
        let id = prepare(&world, "1", dfsps_ahead_ms);
        complete(&world, &id, dfsps_ahead_ms);
        world.clock.jump(-jump);
        world.until(&false, || is_down(&world));
    }
    complete(&world, &waiting, 0);
    assert_eq!(world.position("greenbank"), "15.5");
    world.stop_and_audit();
}

#[test]
fn accepted_clock_jump_sets_the_time() {
    let mut world = World::new(&[]);
    world.clock.jump(DAY_MS);
    world.until(&true, || is_down(&world));
    let refused = world.admin("POST", "/clock/accept", "{}");
    assert_eq!((refused.status, refused.error_code()), (400, Some("3101")));
    let due = prepare(&world, "12.5", 0);
    let accepted = world.operate("POST", "/clock/accept", r#"{"reason":"it was a day behind"}"#);
    assert_eq!(accepted["jumpMs"], 0, "{accepted}");
    assert!(!is_down(&world));
    for name in ["greenbank", "bluewallet"] {
        assert_eq!(world.dfsp(name).next(&due).text(), EXPIRED, "by the new time it is past");
    }
    let id = prepare(&world, "2", DAY_MS);
    complete(&world, &id, DAY_MS);

    // The clock was wrong and is set back, so the journal is a day ahead. Payments continue, also after a restart.
    world.clock.jump(-DAY_MS);
    world.restart();
    world.until(&true, || is_down(&world));
    let clock = world.operate("GET", "/clock", "");
    assert_eq!(clock["jumpMs"], 0);
    assert!(clock["journalAheadMs"].as_i64().unwrap() > DAY_MS - 600_000, "{clock}");
    let id = prepare(&world, "4", 0);
    complete(&world, &id, 0);
    let transfer = world.operate("GET", &format!("/transfers/{id}"), "");
    let completed = upesi_types::Timestamp::parse_iso(transfer["completedDate"].as_str().unwrap()).unwrap();
    assert!(completed.ms_since(world.clock.unset()).abs() < 600_000, "{transfer}");
    let due = prepare(&world, "8", 0);
    world.clock.advance(31_000);
    for name in ["greenbank", "bluewallet"] {
        assert_eq!(world.dfsp(name).next(&due).text(), EXPIRED);
    }
    assert_eq!(world.position("greenbank"), "6");
    world.stop_and_audit();
}

/// Sends an answer with a completion time of a correct clock.
fn is_refused_as_completed(world: &World, id: &str, why: &str) {
    let fulfil = Message::fulfil(id, "COMMITTED");
    let body = String::from_utf8(fulfil.body.clone()).unwrap();
    let body = body.replacen('{', &format!(r#"{{"completedTimestamp":"{}","#, world.clock.unset()), 1);
    let (answer, _) = world.send(fulfil.body(body));
    assert_eq!((answer.status, answer.error_code()), (400, Some("3100")), "{answer:?}");
    assert!(answer.body.contains(why), "{answer:?}");
}

#[test]
fn start_with_a_wrong_clock_rejects_contradicting_times() {
    let mut world = World::new(&[]);
    // An hour ahead: transfers that DFSPs let expire within that hour have expired. Transfers with a later expiration
    // continue.
    world.clock.jump(HOUR_MS);
    world.restart();
    assert!(!is_down(&world), "the hub cannot know that the clock is wrong");
    let short = world.new_id();
    world.deliver(Message::prepare(&Terms::new(&short, world.clock.unset())));
    let refused = world.dfsp("greenbank").next(&short).text().to_owned();
    assert!(
        refused.contains(r#""errorCode":"3100""#) && refused.contains("already in the past"),
        "{refused}"
    );
    let long = prepare(&world, "2", 2 * HOUR_MS);
    is_refused_as_completed(&world, &long, "exceeded the maximum timeout duration");
    world.deliver(Message::fulfil(&long, "COMMITTED"));
    assert_eq!(world.dfsp("greenbank").next(&long).method, "PUT");
    // The clock is correct again. The journal is an hour ahead, which is reported until the clock has caught up;
    // payments continue.
    world.clock.jump(-HOUR_MS);
    world.restart();
    world.until(&true, || is_down(&world));
    let ahead = world.operate("GET", "/clock", "")["journalAheadMs"].as_i64().unwrap();
    assert!((HOUR_MS - 600_000..=HOUR_MS).contains(&ahead), "{ahead}");
    let id = prepare(&world, "4", 0);
    complete(&world, &id, 0);
    // An hour behind: nothing expires too early, and completion times of DFSPs are an hour in the future.
    world.clock.jump(-HOUR_MS);
    world.restart();
    let id = prepare(&world, "8", 0);
    is_refused_as_completed(&world, &id, "future timestamp");
    world.deliver(Message::fulfil(&id, "COMMITTED"));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    assert_eq!(world.position("greenbank"), "14");
    world.clock.jump(HOUR_MS);
    world.restart();
    world.stop_and_audit();
}

#[test]
fn reservation_of_an_absent_payee_is_ended_by_an_operator() {
    let mut world = World::new(&[("hub.transfer_validity_max_s", "3153600000")]);
    let id = world.new_id();
    let expires = world.now().plus_ms(20 * 365 * DAY_MS);
    world.deliver(Message::prepare(&Terms {
        expires,
        amount: "12.5".into(),
        ..Terms::new(&id, world.now())
    }));
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    assert_eq!(world.position("greenbank"), "12.5");
    let end = r#"{"action":"expire","reason":"bluewallet has closed"}"#;
    for _ in 0..2 {
        let ended = world.operate("PUT", &format!("/transfers/{id}"), end);
        assert_eq!(ended["internalState"], "EXPIRED_RESERVED");
        assert_eq!(ended["operatorReason"], "bluewallet has closed");
    }
    for name in ["greenbank", "bluewallet"] {
        assert_eq!(world.dfsp(name).next(&id).text(), EXPIRED);
    }
    assert_eq!(world.position("greenbank"), "0");
    world.deliver(Message::fulfil(&id, "COMMITTED"));
    let late = world.dfsp("bluewallet").next(&id).text().to_owned();
    assert!(late.contains(r#""errorCode":"3100""#) && late.contains("non-RESERVED transfer state"), "{late}");
    world.deliver(Message::get(&id, "greenbank"));
    let state: Value = serde_json::from_str(world.dfsp("greenbank").next(&id).text()).unwrap();
    assert_eq!(state["transferState"], json!("ABORTED"));
    assert_eq!(state["extensionList"]["extension"][0]["value"], json!("3303: Transfer expired"));
    world.stop_and_audit();
}
