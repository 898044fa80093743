//! External oracles: queries, answers and failures.

use crate::common;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::common::dfsp::Conduct;
use crate::common::dialogue::{error_body, hold};
use crate::common::message::{Message, Terms};
use crate::common::oracle::{Expected, Place, check};
use crate::common::{AMPLE, World};

/// A pause after failures would only slow these tests down.
const NEVER_PAUSES: (&str, &str) = ("oracles.breaker_threshold", "1000000");

fn world(settings: &[(&str, &str)]) -> World {
    let mut world = World::with_lookups(settings);
    world.add_oracle("MSISDN");
    world
}

fn says(status: u16, body: &str) -> Conduct {
    Conduct::Says(status, body.to_owned().into())
}

/// Greenbank looks up a new number. Returns the path.
fn look_up(world: &World) -> String {
    let path = format!("/parties/MSISDN/{}", world.new_number());
    world.deliver(Message::of("GET", &path, "greenbank", None, ""));
    path
}

/// Greenbank looks up the owner of a new number, and receives this error.
fn expect_error(world: &World, family: &str, code: &str, text: &str) {
    let number = world.new_number();
    let path = format!("/{family}/MSISDN/{number}");
    let since = world.now();
    let sent = world.deliver(Message::of("GET", &path, "greenbank", None, ""));
    let greenbank = world.dfsp("greenbank");
    let seen = greenbank.next_attempt(&format!("MSISDN/{number}"));
    let (host, path) = (greenbank.address.to_string(), format!("{path}/error"));
    let place = Place {
        receiver: "greenbank",
        host,
        method: "PUT",
        path: &path,
        added: None,
        since,
        now: world.now(),
    };
    let body = error_body(code, text);
    check(&seen, &Expected::Made(Some(&sent), &body), &place).unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn oracle_dialogues() {
    // The check would query the owner before each change. It has its own test.
    let unchecked = ("lookup.external_ownership_check", "false");
    hold(&mut world(&[NEVER_PAUSES, unchecked]), include_str!("dialogues/oracles.txt"));
}

/// Whatever an oracle does, the payer receives an answer, for lookups of both kinds.
#[test]
fn oracle_failures_are_answered_with_errors() {
    let mut world =
        world(&[NEVER_PAUSES, ("oracles.deadline_ms", "1000"), ("oracles.connect_timeout_ms", "1000")]);
    let unreachable = "Destination communication error - The oracle cannot be reached";
    let not_understood = "Destination communication error - The oracle's answer is not understood";
    let told = error_body("3204", "no such number");
    let endless = format!(r#"{{"partyList":[{{"fspId":"bluewallet"}}],"own":"{}"}}"#, "x".repeat(128 << 10));
    for (conduct, code, text) in [
        (says(404, ""), "3200", "Generic ID not found - The oracle answered 404"),
        (says(404, &told), "3204", "no such number"),
        (says(400, &told), "3204", "no such number"),
        (says(500, &told), "3204", "no such number"),
        (says(400, ""), "3000", "Generic client error - The oracle answered 400"),
        (says(403, "<html>"), "3000", "Generic client error - The oracle answered 403"),
        (says(302, ""), "1001", "Destination communication error - The oracle answered 302"),
        (says(500, ""), "1001", "Destination communication error - The oracle failed"),
        (says(503, "<html>"), "1001", "Destination communication error - The oracle failed"),
        (says(200, ""), "1001", not_understood),
        (says(200, "<html>"), "1001", not_understood),
        (says(200, "[]"), "1001", not_understood),
        (says(200, r#"{"partyList":null}"#), "1001", not_understood),
        (says(200, r#"{"partyList":[{"fsp":"bluewallet"}]}"#), "1001", not_understood),
        (says(200, r#"{"partyList":[{"fspId":"bluewallet"}]"#), "1001", not_understood),
        (says(200, &endless), "1001", not_understood),
        (Conduct::FallsSilent, "1001", unreachable),
    ] {
        world.dfsp("oracle").conduct(conduct);
        expect_error(&world, "parties", code, text);
        expect_error(&world, "participants", code, text);
    }
    world.dfsp("oracle").conduct(says(200, r#"{"partyList":[]}"#));
    world.dfsp_mut("oracle").die();
    expect_error(&world, "parties", "1001", unreachable);
    world.dfsp_mut("oracle").revive();
    expect_error(&world, "participants", "3204", "Party not found");
}

/// An oracle that does not speak HTTP, or stops in the middle of an answer. Its answers are these bytes, followed by
/// silence or by the end of the connection.
fn raw_oracle(answers: Vec<(Vec<u8>, bool)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut open = Vec::new();
        for (bytes, is_held) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let _ = stream.read(&mut question);
            stream.write_all(&bytes).unwrap();
            if is_held {
                open.push(stream);
            }
        }
        // Connections that are held stay open while the test runs.
        thread::park();
    });
    url
}

#[test]
fn truncated_answer_of_an_oracle_is_an_error() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let unreachable = "Destination communication error - The oracle cannot be reached";
    let not_understood = "Destination communication error - The oracle's answer is not understood";
    let answers = [
        (String::new(), false, unreachable),
        ("SSH-2.0-oracle\r\n".into(), false, unreachable),
        ("HTTP/1.1 200".into(), false, unreachable),
        (format!("{head}content-length: 100\r\n\r\n{{\"partyList\":"), false, not_understood),
        (format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n"), false, not_understood),
        (format!("{head}transfer-encoding: chunked\r\n\r\n10\r\n{{\"partyList\":"), false, not_understood),
        // An answer that never ends runs into the deadline.
        ("HTTP/1.1 200".into(), true, unreachable),
        (format!("{head}content-length: 100\r\n\r\n{{\"partyList\":"), true, not_understood),
    ];
    let sent = answers.iter().map(|(text, is_held, _)| (text.as_bytes().to_vec(), *is_held));
    let url = raw_oracle(sent.collect());
    let world = World::with_lookups(&[
        NEVER_PAUSES,
        ("oracles.deadline_ms", "500"),
        ("oracles.connect_timeout_ms", "500"),
    ]);
    let body = format!(r#"{{"oracleIdType":"MSISDN","endpoint":{{"value":"{url}","endpointType":"URL"}}}}"#);
    world.operate("POST", "/oracles", &body);
    for (_, _, text) in &answers {
        expect_error(&world, "parties", "1001", text);
    }
    world.expect_silence();
}

/// The hub sends it no queries for a while. Then a single query probes it.
#[test]
fn failing_oracle_is_paused() {
    let mut world = world(&[
        ("oracles.breaker_threshold", "3"),
        ("oracles.breaker_pause_min_ms", "50"),
        ("oracles.breaker_pause_max_ms", "50"),
    ]);
    let unreachable = "Destination communication error - The oracle cannot be reached";
    world.dfsp_mut("oracle").die();
    for _ in 0..6 {
        expect_error(&world, "parties", "1001", unreachable);
    }
    world.dfsp_mut("oracle").revive();
    world.dfsp("oracle").conduct(says(200, r#"{"partyList":[{"fspId":"bluewallet"}]}"#));
    world.until(&true, || {
        let path = format!("/participants/MSISDN/{}", world.new_number());
        world.deliver(Message::of("GET", &path, "greenbank", None, ""));
        let answer = world.dfsp("greenbank").next_attempt(path.trim_start_matches("/participants/"));
        answer.text() == r#"{"fspId":"bluewallet"}"#
    });
}

/// An oracle that never answers uses its whole limit. Further lookups fail at once, and transfers are not affected.
#[test]
fn slow_oracle_does_not_delay_others() {
    let world = world(&[
        ("oracles.in_flight_max", "4"),
        ("relay.sender_share_percent", "100"),
        ("oracles.deadline_ms", "600000"),
        ("lookup.deadline_ms", "600000"),
    ]);
    world.dfsp("oracle").conduct(Conduct::FallsSilent);
    let waiting: Vec<_> = (0..4).map(|_| look_up(&world)).collect();
    for path in &waiting {
        world.dfsp("oracle").next_attempt(path.trim_start_matches("/parties/"));
    }
    let busy = "Server busy - Too many requests for the same oracle";
    for _ in 0..20 {
        expect_error(&world, "parties", "2005", busy);
        expect_error(&world, "participants", "2005", busy);
    }
    // Meanwhile there are other lookups and transfers.
    for _ in 0..20 {
        let alias = format!("/parties/ALIAS/{}", world.new_number());
        world.deliver(Message::of("GET", &alias, "greenbank", Some("bluewallet"), ""));
        world.dfsp("bluewallet").next_attempt(alias.trim_start_matches("/parties/"));
        let id = world.new_id();
        world.deliver(Message::prepare(&Terms { amount: "1".into(), ..Terms::new(&id, world.now()) }));
        assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
        world.deliver(Message::fulfil(&id, "COMMITTED"));
        assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    }
    assert_eq!(world.position("greenbank"), "20");
    // The four lookups still wait.
    assert_eq!(world.metric("upesi_relay_in_flight"), 4);
    let [oracle, payer] = ["oracle", "greenbank"].map(|name| world.dfsp(name).count());
    assert_eq!((oracle, payer), (4, 40 + 20));
}

#[test]
fn answers_are_cached_if_configured() {
    let world = world(&[("oracles.cache_ttl_ms", "600000")]);
    let number = world.new_number();
    let about = format!("MSISDN/{number}");
    let ask = |name: &str, body: &str| {
        world.deliver(Message::of("GET", &format!("/participants/{about}"), name, None, ""));
        assert_eq!(world.dfsp(name).next_attempt(&about).text(), body);
    };
    let questions = || world.dfsp("oracle").count();
    world.dfsp("oracle").conduct(says(200, r#"{"partyList":[{"fspId":"bluewallet"}]}"#));
    ask("greenbank", r#"{"fspId":"bluewallet"}"#);
    world.dfsp("oracle").conduct(says(201, r#"{"partyList":[{"fspId":"redmoney"}]}"#));
    ask("redmoney", r#"{"fspId":"bluewallet"}"#);
    assert_eq!(questions(), 1);
    // After a registration through the hub, or a command of an operator, the hub queries again.
    let message =
        Message::of("POST", &format!("/participants/{about}"), "redmoney", None, r#"{"fspId":"redmoney"}"#);
    world.deliver(message);
    world.dfsp("redmoney").next_attempt(&about);
    ask("greenbank", r#"{"fspId":"redmoney"}"#);
    assert_eq!(questions(), 3);
    world.dfsp("oracle").conduct(says(200, r#"{"partyList":[{"fspId":"greenbank"}]}"#));
    ask("greenbank", r#"{"fspId":"redmoney"}"#);
    let (answer, _) = world.send(Message::of("DELETE", "/endpointcache", "greenbank", None, ""));
    assert_eq!(answer.status, 202);
    ask("greenbank", r#"{"fspId":"greenbank"}"#);
    assert_eq!(questions(), 4);
}

#[test]
fn stale_party_is_removed_if_configured() {
    let mut world = world(&[("lookup.remove_stale_parties", "true")]);
    hold(
        &mut world,
        r#"
        dialogue The oracle names a DFSP that no longer exists
          oracle answers 200 {"partyList":[{"fspId":"gone"},{"fspId":"bluewallet"}]}
          greenbank GET /parties/MSISDN/<n>
          → oracle GET /participants/MSISDN/<n>
          → bluewallet GET sent
          → oracle DELETE /participants/MSISDN/<n>
          greenbank GET /parties/MSISDN/<n> to=gone
          → greenbank ERROR 3204 Party not found - No proxy found to start inter-scheme discovery flow
          → oracle DELETE /participants/MSISDN/<n>
        "#,
    );
}

#[test]
fn parties_of_an_oracle_belong_to_their_dfsps() {
    let mut world = world(&[]);
    hold(
        &mut world,
        r#"
        dialogue Only the owner may change a party
          oracle answers 200 {"partyList":[{"fspId":"bluewallet"}]}
          redmoney PUT /participants/MSISDN/<n> {"fspId":"redmoney"}
          → oracle GET /participants/MSISDN/<n>
          → redmoney ERROR 3003 Add Party information error - The party is registered by another DFSP
          bluewallet PUT /participants/MSISDN/<n> {"currency":"KES"}
          → oracle GET /participants/MSISDN/<n>
          → oracle PUT /participants/MSISDN/<n> {"fspId":"bluewallet","currency":"KES"}
          → bluewallet PUT {"currency":"KES","partyList":[{"fspId":"bluewallet","partyIdType":"MSISDN","partyIdentifier":"<n>"}]}

        dialogue Only the owner may remove a party
          oracle answers 200 {"partyList":[{"fspId":"bluewallet"}]}
          redmoney DELETE /participants/MSISDN/<n>
          → oracle GET /participants/MSISDN/<n>
          → redmoney ERROR 3040 Delete Party information error - The party is registered by another DFSP
          bluewallet DELETE /participants/MSISDN/<n>
          → oracle GET /participants/MSISDN/<n>
          → oracle DELETE /participants/MSISDN/<n>
          → bluewallet PUT {"fspId":"bluewallet"}
        "#,
    );
}

/// `/oracles` of the admin port decides which oracle is queried, from the next lookup on and after a restart.
#[test]
fn operators_choose_the_oracle() {
    let mut world = world(&[]);
    let oracles = world.operate("GET", "/oracles?type=MSISDN", "");
    let id = oracles[0]["oracleId"].clone();
    assert_eq!(oracles[0]["endpoint"]["value"], world.dfsp("oracle").base_url());
    let finds = |world: &World, about: &str, body: &str| {
        world.deliver(Message::of("GET", &format!("/participants/{about}"), "greenbank", None, ""));
        assert_eq!(world.dfsp("greenbank").next_attempt(about).text(), body);
    };
    let nobody = error_body("3204", "Party not found");
    world.dfsp("oracle").conduct(says(200, r#"{"partyList":[{"fspId":"bluewallet"}]}"#));
    let number = format!("MSISDN/{}", world.new_number());
    finds(&world, &number, r#"{"fspId":"bluewallet"}"#);
    // A second oracle for the same type is rejected; with a currency it is accepted.
    let second = common::dfsp::Dfsp::start("second");
    let body = |currency: &str| {
        let url = second.base_url();
        format!(
            r#"{{"oracleIdType":"MSISDN","endpoint":{{"value":"{url}","endpointType":"URL"}}{currency}}}"#
        )
    };
    let refused = world.admin("POST", "/oracles", &body(""));
    assert!((400..600).contains(&refused.status), "{refused:?}");
    world.operate("POST", "/oracles", &body(r#","currency":"KES""#));
    second.conduct(says(200, r#"{"partyList":[{"fspId":"redmoney"}]}"#));
    for _ in 0..2 {
        world.deliver(Message::of(
            "GET",
            &format!("/participants/{number}?currency=KES"),
            "greenbank",
            None,
            "",
        ));
        assert_eq!(world.dfsp("greenbank").next_attempt(&number).text(), r#"{"fspId":"redmoney"}"#);
        finds(&world, &number, r#"{"fspId":"bluewallet"}"#);
        world.restart();
    }
    // The oracle is moved, then deleted: the built-in directory answers.
    let moved = format!(r#"{{"endpoint":{{"value":"{}","endpointType":"URL"}}}}"#, second.base_url());
    world.operate("PUT", &format!("/oracles/{id}"), &moved);
    finds(&world, &number, r#"{"fspId":"redmoney"}"#);
    for oracle in world.operate("GET", "/oracles", "").as_array().unwrap() {
        world.operate("DELETE", &format!("/oracles/{}", oracle["oracleId"]), "");
    }
    finds(&world, &number, &nobody);
    world.stop(AMPLE);
}
