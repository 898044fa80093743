//! Addresses of callbacks, and the hub as an unauthenticated client sees it.

use crate::common::World;
use crate::common::dfsp::{Answer, Client, request};
use crate::common::message::{Message, Terms};

fn get(world: &World, line: &str) -> Answer {
    Client::connect(world.fspiop()).exchange(&request(line, &[("host".to_owned(), "hub".to_owned())], b""))
}

/// A hub that calls 127.0.0.1, the address of the tests' DFSPs, and otherwise only public addresses.
fn guarded() -> World {
    World::new(&[("outbound.addresses", "public"), ("outbound.networks", "127.0.0.1/32")])
}

#[test]
fn registration_of_private_addresses_is_rejected() {
    let world = guarded();
    for (url, demand) in [
        ("http://127.0.0.2:4000", "public host"),
        ("http://169.254.169.254", "public host"),
        ("http://10.0.0.1", "public host"),
        ("http://[::1]:8080", "public host"),
        ("http://[fd00:ec2::254]", "public host"),
        ("http://127.0.0.1:22", "outbound.ports"),
        ("http://dfsp.example:25", "outbound.ports"),
    ] {
        let endpoint = format!(
            r#"{{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"{url}/transfers/{{{{transferId}}}}"}}"#
        );
        let refused = world.admin("POST", "/participants/greenbank/endpoints", &endpoint);
        assert!(refused.status == 400 && refused.body.contains(demand), "{url}: {refused:?}");
        let oracle = format!(
            r#"{{"oracleIdType":"MSISDN","endpoint":{{"value":"{url}","endpointType":"URL"}},"isDefault":true}}"#
        );
        let refused = world.admin("POST", "/oracles", &oracle);
        assert!(refused.status == 400 && refused.body.contains(demand), "{url}: {refused:?}");
    }
    // Valid URLs, and names that cannot be resolved yet, are accepted.
    for url in ["http://dfsp.example:8443", "http://8.8.8.8", "http://localhost:8080"] {
        world.set_endpoint("greenbank", "TRANSFER_PUT", &format!("{url}/transfers/{{{{transferId}}}}"));
    }
}

#[test]
fn callbacks_do_not_reach_the_hubs_own_ports() {
    let mut world = guarded();
    let own = world.hub().admin_address().port();
    let before = world.operate("GET", "/participants", "");
    world.set_endpoint("bluewallet", "TRANSFER_POST", &format!("http://127.0.0.1:{own}/participants"));
    let sent = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
    assert_eq!(Client::connect(world.fspiop()).exchange(&sent.bytes()).status, 202);
    let shown = || world.operate("GET", "/callbacks", "").to_string();
    world.until(&true, || shown().contains("is a port of this hub"));
    assert_eq!(world.operate("GET", "/participants", ""), before);
    world.stop_and_audit();
}

#[test]
fn unauthenticated_clients_see_only_whether_the_hub_serves() {
    let open = World::bare(&[]);
    let closed = World::bare(&[("fspiop.diagnostics", "false")]);
    assert!(get(&open, "GET /health").body.contains("versionNumber"));
    assert_eq!(get(&closed, "GET /health").body, r#"{"status":"OK"}"#);
    assert_eq!(get(&closed, "GET /live").status, 200);
    for line in ["GET /", "GET /docs", "GET /openapi.yaml", "DELETE /endpointcache"] {
        assert!(get(&open, line).status < 300, "{line}");
        let unknown = get(&closed, line);
        assert!(unknown.status == 404 && unknown.body.contains("3002"), "{line}: {unknown:?}");
    }
    for line in ["GET /metrics", "GET /debug/profile", "GET /participants", "PUT /log"] {
        assert!((400..500).contains(&get(&open, line).status), "{line}");
        assert!((400..500).contains(&get(&closed, line).status), "{line}");
    }
    // Operators see the health of every part.
    let health = closed.admin("GET", "/health", "");
    assert!(health.status == 200 && health.body.contains("versionNumber"), "{health:?}");
}

#[test]
fn dfsps_with_networks_may_call_only_from_these() {
    // Tests call from 127.0.0.1.
    let mut world = World::new(&[
        ("dfsp.greenbank.networks", "127.0.0.0/30"),
        ("dfsp.redmoney.networks", "192.0.2.0/24, 2001:db8:7::/48"),
    ]);
    let ask = |source: &str| {
        let mut client = Client::connect(world.fspiop());
        let answer = client.exchange(&Message::get(&world.new_id(), source).into_sent().bytes());
        (answer, client)
    };
    for source in ["greenbank", "bluewallet"] {
        assert_eq!(ask(source).0.status, 202, "{source}");
    }
    // A DFSP that the list contains calls from another address. The case of its name does not matter.
    world.until(&(0, 0), || world.undelivered());
    let records = world.journal().lines().count();
    for source in ["redmoney", "RedMoney"] {
        let (refused, mut client) = ask(source);
        assert!(refused.status == 403 && refused.body.contains("3000"), "{source}: {refused:?}");
        assert!(client.answer().is_none(), "the connection is closed");
    }
    assert_eq!(world.journal().lines().count(), records);
    // Counted under the name in the list, whatever the senders write.
    assert_eq!(world.metric(r#"upesi_auth_refused_total{reason="address",fsp="redmoney"}"#), 2);
    world.stop_and_audit();
}

#[test]
fn networks_apply_to_the_address_in_the_proxy_header() {
    let settings = [
        ("dfsp.greenbank.networks", "192.0.2.0/24, 2001:db8:7::/48"),
        ("fspiop.proxy_protocol_from", "127.0.0.0/8"),
    ];
    let mut world = World::new(&settings);
    let ask = |header: &str| {
        let mut client = Client::connect(world.fspiop());
        let sent = Message::get(&world.new_id(), "greenbank").into_sent();
        client.send(&[header.as_bytes(), &sent.bytes()].concat());
        client.answer().map(|answer| (answer.status, answer.error_code().map(str::to_owned)))
    };
    let refused = Some((403, Some("3000".to_owned())));
    for header in ["TCP4 192.0.2.7 198.51.100.1", "TCP6 ::ffff:192.0.2.7 ::1", "TCP6 2001:db8:7::1 ::1"] {
        assert_eq!(ask(&format!("PROXY {header} 12345 443\r\n")), Some((202, None)), "{header}");
    }
    world.until(&(0, 0), || world.undelivered());
    let records = world.journal().lines().count();
    for header in ["TCP4 192.0.3.7 198.51.100.1", "TCP6 ::ffff:192.0.3.7 ::1", "TCP6 2001:db8:8::1 ::1"] {
        assert_eq!(ask(&format!("PROXY {header} 12345 443\r\n")), refused, "{header}");
    }
    assert_eq!(ask("PROXY UNKNOWN\r\n"), refused, "it comes from the balancer itself");
    assert_eq!(ask(""), None, "no header, no answer");
    assert_eq!(world.metric(r#"upesi_auth_refused_total{reason="address",fsp="greenbank"}"#), 4);
    assert_eq!(world.metric(r#"upesi_proxy_protocol_refused_total{reason="malformed"}"#), 1);
    assert_eq!(world.journal().lines().count(), records);
    // This machine's address is no longer a load balancer's.
    world.restart_with(&[("fspiop.proxy_protocol_from", "10.0.3.0/24")]);
    let mut client = Client::connect(world.fspiop());
    let _ = client.try_send(b"PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n");
    assert!(client.answer().is_none());
    assert_eq!(world.metric(r#"upesi_proxy_protocol_refused_total{reason="unlisted"}"#), 1);
    world.stop_and_audit();
}

// Clients that are served when connections are scarce, and host names that operators may use.

/// An exchange that assigns a connection to a participant.
fn pay(world: &World, client: &mut Client) {
    let sent = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
    assert_eq!(client.exchange(&sent.bytes()).status, 202);
}

fn ask(client: &mut Client, line: &str) -> u16 {
    client.exchange(&request(line, &[("host".to_owned(), "localhost".to_owned())], b"")).status
}

#[test]
fn connections_of_participants_survive_many_new_ones() {
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
        // New clients are served at once.
        pay(&world, &mut connect());
    }
    for payer in &mut payers {
        pay(&world, payer);
    }
    // Health checks and an unknown name do not identify a participant.
    assert!(asking.answer().is_none() && unknown.answer().is_none(), "both made room");
    assert_eq!(world.metric("upesi_http_connections_refused_total"), 0);
    assert!(world.metric("upesi_http_connections_made_way_total") > 80);
}

#[test]
fn admin_port_answers_only_allowed_hosts() {
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
    // The FSPIOP port accepts any host name.
    let line = request("GET /health", &[("host".to_owned(), "evil.example".to_owned())], b"");
    assert_eq!(Client::connect(world.fspiop()).exchange(&line).status, 200);
}
