//! Who is served where connections are short, and by which names operators call.

use crate::common::World;
use crate::common::client::{Client, request};
use crate::common::message::{Message, Terms};

/// An exchange that makes a connection one of a participant's.
fn pay(world: &World, client: &mut Client) {
    let sent = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
    assert_eq!(client.exchange(&sent.bytes()).status, 202);
}

fn ask(client: &mut Client, line: &str) -> u16 {
    client.exchange(&request(line, &[("host".to_owned(), "localhost".to_owned())], b"")).status
}

#[test]
fn those_who_carried_a_payment_stay_where_a_crowd_comes() {
    let world = World::new(&[("fspiop.connections_max", "12")]);
    let connect = || Client::connect(world.fspiop());
    let mut payers = [connect(), connect(), connect()];
    for payer in &mut payers {
        pay(&world, payer);
    }
    let mut asking = connect();
    assert_eq!(ask(&mut asking, "GET /health"), 200);
    let mut unknown = connect();
    let sent = Message::get(&world.new_id(), "nobody").into_sent();
    assert!(unknown.exchange(&sent.bytes()).status >= 200);
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(connect());
        // Who comes now is served at once.
        pay(&world, &mut connect());
    }
    for payer in &mut payers {
        pay(&world, payer);
    }
    // Health and an unknown name make nobody known.
    assert!(asking.answer().is_none() && unknown.answer().is_none(), "both made room");
    assert_eq!(world.metric("upesi_http_connections_refused_total"), 0);
    assert!(world.metric("upesi_http_connections_made_way_total") > 80);
}

#[test]
fn the_admin_port_answers_to_hosts_that_are_allowed() {
    let world = World::bare(&[("admin.allowed_hosts", "ops.example, 192.0.2.7")]);
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:4001", 200),
        ("OPS.example:4001", 200),
        ("192.0.2.7", 200),
        ("evil.example", 421),
        ("192.0.2.8", 421),
    ] {
        let line = request("GET /participants", &[("host".to_owned(), host.to_owned())], b"");
        let answer = Client::connect(world.hub().admin_address()).exchange(&line);
        assert_eq!(answer.status, status, "{host}: {answer:?}");
        assert_eq!(answer.body.contains("admin.allowed_hosts"), status == 421, "{answer:?}");
    }
    // The port of the DFSPs is called by any name.
    let line = request("GET /health", &[("host".to_owned(), "evil.example".to_owned())], b"");
    assert_eq!(Client::connect(world.fspiop()).exchange(&line).status, 200);
}
