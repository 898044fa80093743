//! A whole hub with TLS on its ports, and with TLS to its DFSPs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use upesi_http::SendError;
use upesi_jws::{KeyRing, SIGNATURE};
use upesi_pki::{KeyKind, Order, Usage};
use upesi_testsupport::softhsm::{PIN, SoftHsm};
use upesi_tls::{Protocols, present_s};

use crate::common;
use crate::common::World;
use crate::common::dfsp::{Answer, Client, Conduct, Dfsp, request};
use crate::common::message::{Message, Terms};
use crate::common::secure::{Caller, Pki};
use crate::common::signed::is_genuine;

const PAYERS: [&str; 2] = ["greenbank", "bluewallet"];

/// A hub with mutual TLS in both directions on the FSPIOP side, whose DFSPs listen with TLS.
fn secured(pki: &mut Pki, more: &[(&str, &str)]) -> World {
    pki.world(&PAYERS, more)
}

/// A payment from the first client to the second, each on its own connection.
fn pay(world: &World, callers: &[Caller; 2], amount: &str) {
    let id = world.new_id();
    let terms = Terms { amount: amount.to_owned(), ..Terms::new(&id, world.now()) };
    let prepare = Message::prepare(&terms).into_sent();
    let answer = world.wait(callers[0].send(&prepare)).unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    let forwarded = world.dfsp("bluewallet").next(&id);
    assert_eq!((&*forwarded.body, &*forwarded.path), (&*prepare.body, "/transfers"));
    let fulfil = Message::fulfil(&id, "COMMITTED").into_sent();
    let answer = world.wait(callers[1].send(&fulfil)).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = world.dfsp("greenbank").next(&id);
    assert_eq!(told.body, fulfil.body);
}

fn callers(world: &World, pki: &Pki) -> [Caller; 2] {
    PAYERS.map(|name| pki.caller(Some(name), world.fspiop()))
}

#[test]
fn payment_uses_mutual_tls_in_both_directions() {
    let mut pki = Pki::new();
    let mut world = secured(&mut pki, &[]);
    let callers = callers(&world, &pki);
    for amount in ["10", "7.5", "21"] {
        pay(&world, &callers, amount);
    }
    assert_eq!((&*world.position("greenbank"), &*world.position("bluewallet")), ("38.5", "-38.5"));
    let peers: Vec<_> = PAYERS.iter().map(|name| world.dfsp(name).peers()).collect();
    assert!(
        peers.iter().all(|peers| !peers.is_empty() && peers.iter().all(|name| name == "hub-client")),
        "{peers:?}"
    );
    let established = "upesi_tls_handshakes_total{port=\"fspiop\",outcome=\"established\"}";
    assert_eq!(world.metric(established), 2, "connections are kept");
    // Clients without a certificate or without TLS can change nothing.
    let prepare = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
    let refused = world.wait(pki.caller(None, world.fspiop()).send(&prepare));
    assert!(refused.is_err(), "{refused:?}");
    let (plain, _) = world.send(Message::prepare(&Terms::new(&world.new_id(), world.now())));
    assert_eq!((plain.status, &*plain.body), (400, "This port speaks TLS: begin the URL with https:\n"));
    assert_eq!(&*world.position("greenbank"), "38.5");
    // A client receives its rejection before the hub counts it.
    for outcome in ["no_certificate", "plaintext"] {
        let counted = format!("upesi_tls_handshakes_total{{port=\"fspiop\",outcome=\"{outcome}\"}}");
        world.until(&1, || world.metric(&counted));
    }
    drop(callers);
    world.stop_and_audit();
}

/// Connections beyond the share of their certificate end with their first answer.
#[test]
fn connections_of_a_certificate_are_limited() {
    let mut pki = Pki::new();
    let mut world = secured(&mut pki, &[("fspiop.connections_per_dfsp_max", "2")]);
    let blue = pki.caller(Some("bluewallet"), world.fspiop());
    let ask = |caller: &Caller| {
        let prepare = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
        world.wait(caller.send(&prepare)).unwrap().status
    };
    let get = Message::get(&world.new_id(), "bluewallet").into_sent();
    assert_eq!(world.wait(blue.send(&get)).unwrap().status, 202);
    let green: Vec<_> = (0..6).map(|_| pki.caller(Some("greenbank"), world.fspiop())).collect();
    for caller in &green {
        assert_eq!(ask(caller), 202);
    }
    assert_eq!(world.wait(blue.send(&get)).unwrap().status, 202);
    assert_eq!(world.metric("upesi_http_connections_over_share_total"), 4);
    assert_eq!(world.metric("upesi_http_connections_made_way_total"), 0);
    let established = "upesi_tls_handshakes_total{port=\"fspiop\",outcome=\"established\"}";
    assert_eq!(world.metric(established), 7, "the other DFSP has kept its connection");
    drop((blue, green));
    world.stop_and_audit();
}

#[test]
fn payments_use_http_2_if_both_sides_offer_it() {
    const BOTH: Protocols = Protocols::Http2AndHttp1;
    for (hub, dfsps, expected) in
        [("true", BOTH, "HTTP/2.0"), ("true", Protocols::Http1, "HTTP/1.1"), ("false", BOTH, "HTTP/1.1")]
    {
        let mut pki = Pki::new();
        let more = [("tls.http2", hub), ("outbound_tls.http2", hub)];
        let mut world = pki.world_speaking(&PAYERS, dfsps, &more);
        let callers = PAYERS.map(|name| pki.caller_speaking(Some(name), world.fspiop(), dfsps));
        for amount in ["10", "7.5"] {
            pay(&world, &callers, amount);
        }
        assert_eq!(world.position("greenbank"), "17.5");
        let spoken = PAYERS.map(|name| world.dfsp(name).versions());
        assert_eq!(spoken, [vec![expected.to_owned()], vec![expected.to_owned()]], "{hub} {dfsps:?}");
        let is_shared = expected == "HTTP/2.0";
        assert_eq!(callers.each_ref().map(Caller::is_shared), [is_shared; 2], "{hub} {dfsps:?}");
        // A client is the participant of its certificate, and can send as no other, with any protocol.
        let prepare = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
        let answer = world.wait(callers[1].send(&prepare)).unwrap();
        assert!(answer.status == 403 && answer.body.contains("\"3100\""), "{answer:?}");
        drop(callers);
        world.stop_and_audit();
    }
}

#[test]
fn dfsp_with_own_authority_is_not_reached_by_the_shared_one() {
    let mut pki = Pki::new();
    let own = pki.file("own");
    fs::create_dir(&own).unwrap();
    // Issued by the authority that greenbank made for itself.
    let mut green = Pki::new();
    green.issue(Usage::Server, "greenbank-server");
    green.issue(Usage::Client, "hub-at-greenbank");
    fs::copy(green.file("ca.pem"), own.join("greenbank.anchors.pem")).unwrap();
    fs::copy(green.file("hub-at-greenbank.pem"), own.join("greenbank.pem")).unwrap();
    fs::copy(green.file("hub-at-greenbank.key"), own.join("greenbank.key")).unwrap();
    let directory = own.display().to_string();
    let more = [("outbound_tls.own_directory", &*directory), ("tls.reload_interval_s", "3600")];
    let mut world = secured(&mut pki, &more);
    let callers = callers(&world, &pki);
    // greenbank listens with a certificate of the scheme's authority, which is not valid for it.
    let id = world.new_id();
    let prepare = Message::prepare(&Terms::new(&id, world.now())).into_sent();
    assert_eq!(world.wait(callers[0].send(&prepare)).unwrap().status, 202);
    assert_eq!(world.dfsp("bluewallet").next(&id).body, prepare.body, "others are called as ever");
    let fulfil = Message::fulfil(&id, "COMMITTED").into_sent();
    assert_eq!(world.wait(callers[1].send(&fulfil)).unwrap().status, 200);
    world.until(&true, || world.metric("upesi_lane_failed_total{fsp=\"greenbank\"}") > 0);
    assert_eq!(world.dfsp("greenbank").count(), 0);
    // Now greenbank presents a certificate of its own authority.
    let honest = Dfsp::start_secured("greenbank", green.server("greenbank-server"));
    world.set_endpoints("greenbank", &honest.base_url());
    assert_eq!(honest.next(&id).body, fulfil.body);
    assert!(honest.peers().iter().all(|name| name == "hub-at-greenbank"), "{:?}", honest.peers());
    assert!(world.dfsp("bluewallet").peers().iter().all(|name| name == "hub-client"));
    // Without files of its own, the scheme's authority applies again, from the next connection on.
    for ending in ["anchors.pem", "pem", "key"] {
        fs::remove_file(own.join(format!("greenbank.{ending}"))).unwrap();
    }
    world.hub().reload_keys();
    world.until(&1, || world.metric("upesi_tls_reloads_total"));
    let failed = world.metric("upesi_lane_failed_total{fsp=\"greenbank\"}");
    let id = world.new_id();
    let prepare = Message::prepare(&Terms::new(&id, world.now())).into_sent();
    assert_eq!(world.wait(callers[0].send(&prepare)).unwrap().status, 202);
    world.dfsp("bluewallet").next(&id);
    let fulfil = Message::fulfil(&id, "COMMITTED").into_sent();
    assert_eq!(world.wait(callers[1].send(&fulfil)).unwrap().status, 200);
    world.until(&true, || world.metric("upesi_lane_failed_total{fsp=\"greenbank\"}") > failed);
    let scheme = world.dfsp("greenbank").base_url();
    world.set_endpoints("greenbank", &scheme);
    assert_eq!(world.dfsp("greenbank").next(&id).body, fulfil.body);
    drop((callers, honest));
    world.stop_and_audit();
}

/// A lookup by greenbank at the scheme's only oracle. Returns the outcome.
fn looked_up(world: &World, caller: &Caller) -> (String, String) {
    let number = world.new_number();
    let lookup =
        Message::of("GET", &format!("/participants/MSISDN/{number}"), "greenbank", None, "").into_sent();
    assert_eq!(world.wait(caller.send(&lookup)).unwrap().status, 202);
    let told = world.dfsp("greenbank").next_attempt(&format!("MSISDN/{number}"));
    (told.path.clone(), told.text().to_owned())
}

#[test]
fn oracle_with_own_authority_is_not_reached_by_the_shared_one() {
    let mut pki = Pki::new();
    let own = pki.file("own");
    fs::create_dir(&own).unwrap();
    let directory = own.display().to_string();
    let more = [
        ("outbound_tls.own_directory", &*directory),
        ("tls.reload_interval_s", "3600"),
        ("oracles.breaker_threshold", "1000000"),
    ];
    let mut world = secured(&mut pki, &more);
    for name in PAYERS {
        world.set_all_endpoints(name, &world.dfsp(name).base_url());
    }
    let caller = pki.caller(Some("greenbank"), world.fspiop());
    // The oracle's own authority; the scheme's authority; an authority with the same name as the oracle's; a
    // certificate for another name.
    let mut oracles = Pki::new();
    for name in ["oracle", "hub-at-oracle"] {
        let usage = if name == "oracle" { Usage::Server } else { Usage::Client };
        oracles.issue(usage, name);
    }
    let elsewhere = Order::new("elsewhere", Usage::Server, present_s()).with_hosts(&["127.0.0.2"]);
    oracles.authority.issue(&elsewhere).unwrap();
    let mut imposters = Pki::new();
    imposters.issue(Usage::Server, "oracle");
    pki.issue(Usage::Server, "oracle");
    let right = Dfsp::start_secured("oracle", oracles.server("oracle"));
    right.conduct(Conduct::Says(200, r#"{"partyList":[{"fspId":"bluewallet"}]}"#.into()));
    let body = |url: &str| format!(r#"{{"endpoint":{{"value":"{url}","endpointType":"URL"}}}}"#);
    let made = format!(r#"{{"oracleIdType":"MSISDN","isDefault":true,{}"#, &body(&right.base_url())[1..]);
    world.operate("POST", "/oracles", &made);
    let id = world.operate("GET", "/oracles", "")[0]["oracleId"].to_string();
    let (is_found, is_not) = ("{\"fspId\":\"bluewallet\"}", "The oracle cannot be reached");
    let expect = |world: &World, what: &str, text: &str| {
        let (path, told) = looked_up(world, &caller);
        assert!(told.contains(text), "{what}: {path} {told}");
    };
    // The scheme's authority did not issue its certificate.
    expect(&world, "without files of its own", is_not);
    let put = |name: &str| {
        fs::copy(oracles.file("ca.pem"), own.join(format!("oracle-{id}.anchors.pem"))).unwrap();
        if !name.is_empty() {
            for ending in ["pem", "key"] {
                let made = oracles.file(&format!("{name}.{ending}"));
                fs::copy(made, own.join(format!("oracle-{id}.{ending}"))).unwrap();
            }
        }
        let before = world.metric("upesi_tls_reloads_total");
        world.hub().reload_keys();
        world.until(&true, || world.metric("upesi_tls_reloads_total") > before);
    };
    // The hub shows its general certificate, which is not of the oracle's authority.
    put("");
    expect(&world, "with the scheme's client certificate", is_not);
    assert_eq!(right.count(), 0);
    put("hub-at-oracle");
    expect(&world, "with all of its own", is_found);
    assert!(right.peers().iter().all(|name| name == "hub-at-oracle"), "{:?}", right.peers());
    let count = right.count();
    for (what, tls) in [
        ("of the scheme's authority", pki.server("oracle")),
        ("of an authority of the same name", imposters.server("oracle")),
        ("of another name", oracles.server("elsewhere")),
    ] {
        let wrong = Dfsp::start_secured("oracle", tls);
        world.operate("PUT", &format!("/oracles/{id}"), &body(&wrong.base_url()));
        expect(&world, what, is_not);
        assert_eq!(wrong.count(), 0, "{what}");
    }
    world.operate("PUT", &format!("/oracles/{id}"), &body(&right.base_url()));
    expect(&world, "the right one again", is_found);
    assert_eq!(right.count(), count + 1);
    drop((caller, right));
    world.stop_and_audit();
}

#[test]
fn admin_port_requires_a_certificate() {
    let mut pki = Pki::new();
    pki.issue(Usage::Client, "operator");
    let given = pki.listener("admin_tls");
    let settings: Vec<(&str, &str)> = given.iter().map(|(key, value)| (&**key, &**value)).collect();
    let world = World::bare(&settings);
    let admin = world.hub().admin_address();
    let answer = world.wait(pki.caller(Some("operator"), admin).get("/participants")).unwrap();
    assert!(answer.status == 200 && answer.body.contains("\"Hub\""), "{answer:?}");
    let metrics = world.wait(pki.caller(Some("operator"), admin).get("/metrics")).unwrap().body;
    assert!(
        metrics.contains("upesi_tls_handshakes_total{port=\"admin\",outcome=\"established\"} 2\n"),
        "{metrics}"
    );
    assert!(!metrics.contains("port=\"fspiop\""), "that port is plain");
    assert!(world.wait(pki.caller(None, admin).get("/participants")).is_err());
    assert_eq!(world.admin("GET", "/participants", "").status, 400, "in the clear");
}

/// Runs the command against an admin port. Returns exit code, stdout and stderr.
fn upesi(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_upesi")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn operators_commands_use_tls() {
    let mut pki = Pki::new();
    pki.issue(Usage::Client, "operator");
    let given = pki.listener("admin_tls");
    let settings: Vec<(&str, &str)> = given.iter().map(|(key, value)| (&**key, &**value)).collect();
    let world = World::bare(&settings);
    let admin = format!("https://127.0.0.1:{}", world.hub().admin_address().port());
    let file = |name: &str| pki.file(name).display().to_string();
    let (scheme, parties) = (file("scheme.toml"), file("parties.csv"));
    let dfsp = "name = \"greenbank\"\nbindings = [\"san-dns:green.example\"]\naccounts.KES = { net_debit_cap = 12.5 }";
    let dfsp = dfsp.replace("12.5", "\"12.5\"");
    let model = "name = \"DEFERREDNETKES\"\ncurrency = \"KES\"";
    let text = format!("name = \"test\"\ncurrencies = [\"KES\"]\n[[model]]\n{model}\n[[dfsp]]\n{dfsp}\n");
    fs::write(&scheme, text).unwrap();
    fs::write(&parties, "partyIdType,partyIdentifier,fspId\nMSISDN,254711000001,greenbank\n").unwrap();
    let (anchors, certificate, key) = (file("ca.pem"), file("operator.pem"), file("operator.key"));
    let with = |command: &[&str], files: &[&str]| upesi(&[command, &["--admin", &admin], files].concat());
    let all = ["--anchors", &anchors, "--certificate", &certificate, "--key", &key];
    let apply = ["scheme", "apply", &scheme, "--wait", "0"];
    // The command has no anchors, no certificate, or only a part of one.
    let (exit, _, error) = with(&apply, &[]);
    assert!(exit == Some(64) && error.contains("--anchors FILE"), "{error}");
    let (exit, _, error) = with(&apply, &all[..2]);
    assert!(exit == Some(69) && error.contains("--certificate FILE"), "{error}");
    let (exit, _, error) = with(&apply, &all[..4]);
    assert!(exit == Some(64) && error.contains("its private key: --key"), "{exit:?} {error}");
    assert_eq!(with(&apply, &["--anchors", &key]).0, Some(64));
    let (exit, output, error) = with(&["scheme", "apply", &scheme, "--wait", "5"], &all);
    assert_eq!(exit, Some(0), "{error}");
    assert!(
        output.contains("+ limit greenbank KES 12.5")
            && output.contains("+ binding greenbank san-dns:green.example\n")
    );
    let (exit, output, error) = with(&["directory", "import", &parties, "--wait", "5"], &all);
    assert!(exit == Some(0) && output.ends_with("1 lines accepted, 0 rejected\n"), "{output} {error}");
    let (exit, output, _) = with(&["directory", "get", "MSISDN", "254711000001"], &all);
    assert_eq!((exit, &*output), (Some(0), "greenbank\t-\t-\n"));
    let (exit, output, error) = with(&["settlement", "show"], &all);
    assert!(exit == Some(0) && output.contains("OPEN"), "{output} {error}");
}

#[test]
fn certificates_and_revocations_are_reloaded_during_payments() {
    let mut pki = Pki::new();
    let mut world = secured(&mut pki, &[("tls.reload_interval_s", "3600")]);
    let callers = callers(&world, &pki);
    pay(&world, &callers, "10");
    pki.issue(Usage::Client, "redmoney");
    let red = pki.caller(Some("redmoney"), world.fspiop());
    assert_eq!(world.wait(red.get("/live")).unwrap().status, 200);
    // The hub's own certificates are renewed, and one client's certificate is revoked.
    let serial = |world: &World| {
        let text = world.admin("GET", "/metrics", "").body;
        let line =
            text.lines().find(|line| line.contains("place=\"fspiop\",kind=\"certificate\",name=\"CN=hub\""));
        line.unwrap().to_owned()
    };
    let before = serial(&world);
    pki.issue(Usage::Server, "hub");
    pki.issue(Usage::Client, "hub-client");
    pki.revoke("redmoney");
    world.hub().reload_keys();
    world.until(&1, || world.metric("upesi_tls_connections_untrusted_total"));
    assert_ne!(serial(&world), before);
    let refused = world.wait(red.get("/live"));
    assert!(
        matches!(refused, Err(SendError::Connect { .. } | SendError::Closed { .. } | SendError::Tls(_))),
        "{refused:?}"
    );
    pay(&world, &callers, "11");
    // A file that cannot be used changes nothing, and is reported.
    let key = fs::read(pki.file("hub.key")).unwrap();
    fs::write(pki.file("hub.key"), "nonsense").unwrap();
    world.hub().reload_keys();
    world.until(&1, || world.metric("upesi_tls_reload_failing"));
    pay(&world, &callers, "12");
    fs::write(pki.file("hub.key"), key).unwrap();
    world.hub().reload_keys();
    world.until(&0, || world.metric("upesi_tls_reload_failing"));
    assert_eq!(world.metric("upesi_tls_reload_failures_total"), 1);
    assert_eq!(world.position("greenbank"), "33");
    drop((callers, red));
    world.stop_and_audit();
}

#[test]
fn dfsp_with_another_certificate_receives_nothing() {
    let mut pki = Pki::new();
    let mut world = secured(&mut pki, &[]);
    let callers = callers(&world, &pki);
    // The same authority's name with another key.
    let mut others = Pki::new();
    others.issue(Usage::Server, "bluewallet-server");
    let imposter = Dfsp::start_secured("bluewallet", others.server("bluewallet-server"));
    world.set_endpoints("bluewallet", &imposter.base_url());
    let id = world.new_id();
    let prepare = Message::prepare(&Terms::new(&id, world.now())).into_sent();
    assert_eq!(world.wait(callers[0].send(&prepare)).unwrap().status, 202);
    world.until(&true, || world.metric("upesi_lane_failed_total{fsp=\"bluewallet\"}") > 0);
    let lanes = world.operate("GET", "/lanes", "").to_string();
    assert!(lanes.contains("UnknownIssuer") || lanes.contains("BadSignature"), "{lanes}");
    assert_eq!(imposter.count(), 0);
    let honest = world.dfsp("bluewallet").base_url();
    world.set_endpoints("bluewallet", &honest);
    assert_eq!(world.dfsp("bluewallet").next(&id).body, prepare.body);
    drop(callers);
    world.stop_and_audit();
}

#[test]
fn address_schemes_follow_the_settings() {
    let endpoint = |world: &World, scheme: &str| {
        let value = format!("{scheme}://127.0.0.1:9/transfers");
        let body = format!(r#"{{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"{value}"}}"#);
        let answer = world.admin("POST", "/participants/greenbank/endpoints", &body);
        (answer.status, answer.body)
    };
    let oracle = |world: &World, scheme: &str, kind: &str| {
        let body = format!(
            r#"{{"oracleIdType":"{kind}","endpoint":{{"value":"{scheme}://127.0.0.1:9","endpointType":"URL"}}}}"#
        );
        let answer = world.admin("POST", "/oracles", &body);
        (answer.status, answer.body)
    };
    let pki = Pki::new();
    let outbound = pki.outbound();
    let mut allowing: Vec<(&str, &str)> = outbound.iter().map(|(key, value)| (&**key, &**value)).collect();
    for (settings, plain, secure) in [
        (vec![], true, false),
        (allowing.clone(), true, true),
        (
            {
                allowing.push(("outbound_tls.https_only", "true"));
                allowing
            },
            false,
            true,
        ),
    ] {
        let world = World::bare(&settings);
        world.prepare_scheme();
        world.onboard("greenbank");
        for (scheme, kind, allowed, setting) in [
            ("http", "MSISDN", plain, "outbound_tls.https_only"),
            ("https", "IBAN", secure, "outbound_tls.anchors_file"),
        ] {
            for (status, body) in [endpoint(&world, scheme), oracle(&world, scheme, kind)] {
                assert_eq!(status, if allowed { 201 } else { 400 }, "{scheme} {settings:?} {body}");
                assert_eq!(body.contains(setting), !allowed, "{body}");
            }
        }
    }
}

#[test]
fn hub_with_unusable_files_does_not_start() {
    let pki = Pki::new();
    fs::set_permissions(pki.file("hub.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let given = pki.listener("fspiop_tls");
    let settings: Vec<(&str, &str)> = given.iter().map(|(key, value)| (&**key, &**value)).collect();
    let error = World::refused(&settings);
    assert!(error.contains("fspiop_tls: ") && error.contains("chmod 600"), "{error}");
}

#[test]
fn metrics_port_serves_only_metrics() {
    let pki = Pki::new();
    let mut given = pki.listener("metrics_tls");
    given.push(("metrics.listen".to_owned(), "127.0.0.1:0".to_owned()));
    let settings: Vec<(&str, &str)> = given.iter().map(|(key, value)| (&**key, &**value)).collect();
    let mut world = World::bare(&settings);
    let address = world.hub().metrics_address().unwrap();
    let scraper = pki.caller(Some("hub-client"), address);
    let metrics = world.wait(scraper.get("/metrics")).unwrap();
    assert!(metrics.status == 200 && metrics.body.ends_with("# EOF\n"), "{metrics:?}");
    assert!(metrics.head.contains("openmetrics-text"), "{metrics:?}");
    let own = r#"upesi_tls_handshakes_total{port="metrics",outcome="established"} 1"#;
    assert!(metrics.body.contains(own), "{}", metrics.body);
    for path in ["/", "/health", "/participants", "/docs", "/debug/profile", "/metrics/x"] {
        assert_eq!(world.wait(scraper.get(path)).unwrap().status, 404, "{path}");
    }
    world.wait(pki.caller(None, address).get("/metrics")).unwrap_err();
    // Without TLS, it answers that the port requires TLS. A plain port answers the request.
    let line = |host: &str| request("GET /metrics", &[("host".to_owned(), host.to_owned())], b"");
    assert_eq!(Client::connect(address).exchange(&line("localhost")).status, 400);
    world.stop_and_audit();
    let plain = World::bare(&[("metrics.listen", "127.0.0.1:0")]);
    let address = plain.hub().metrics_address().unwrap();
    let answer = Client::connect(address).exchange(&line("localhost"));
    assert!(answer.status == 200 && answer.body.ends_with("# EOF\n"), "{answer:?}");
    // A page in an operator's browser sends its own host. Monitoring often sends an address that only a network knows.
    assert_eq!(Client::connect(address).exchange(&line("evil.example")).status, 421);
    assert_eq!(Client::connect(address).exchange(&line("10.244.1.7:4002")).status, 200);
    assert_eq!(World::bare(&[]).hub().metrics_address(), None);
}

// A whole hub with all private keys in a PKCS #11 token, and none in a file.

/// Settings to reach the tokens of a test.
fn tokens(hsm: &SoftHsm) -> Vec<(String, String)> {
    let setting = |name: &str, value: String| (format!("pkcs11.{name}"), value);
    vec![
        setting("module", SoftHsm::module().display().to_string()),
        setting("pin_file", hsm.pin_file(PIN).display().to_string()),
        setting("sessions_max", "2".to_owned()),
    ]
}

fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(key, value)| (&**key, &**value)).collect()
}

fn public_keys(answer: &Answer) -> Vec<(String, String)> {
    let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let text = |key: &serde_json::Value, name: &str| key[name].as_str().unwrap().to_owned();
    let keys = value["keys"].as_array().unwrap().iter();
    keys.map(|key| (text(key, "state"), text(key, "publicKey"))).collect()
}

#[test]
fn keys_in_a_token_sign_messages_and_handshakes_in_both_directions() {
    let Some(hsm) = SoftHsm::of_test("tls::keys_in_a_token_sign_messages_and_handshakes_in_both_directions")
    else {
        return;
    };
    let mut pki = Pki::new();
    hsm.make_token("hub");
    hsm.make_key("hub", "signing", "01", KeyKind::Rsa2048);
    for (object, id) in [("hub", "02"), ("hub-client", "03")] {
        let file = pki.file(&format!("{object}.key"));
        hsm.import("hub", object, id, &file);
        fs::remove_file(file).unwrap();
    }
    let mut settings = tokens(&hsm);
    for (setting, object) in [
        ("fspiop_tls.key_file", "hub"),
        ("outbound_tls.key_file", "hub-client"),
        ("jws.signing_key_file", "signing"),
    ] {
        settings.push((setting.to_owned(), format!("pkcs11:token=hub;object={object}")));
    }
    let mut world = pki.world(&["greenbank", "bluewallet"], &borrowed(&settings));
    let callers = ["greenbank", "bluewallet"].map(|name| pki.caller(Some(name), world.fspiop()));
    for amount in ["10", "7.5"] {
        let id = world.new_id();
        let terms = Terms { amount: amount.to_owned(), ..Terms::new(&id, world.now()) };
        let answer = world.wait(callers[0].send(&Message::prepare(&terms).into_sent())).unwrap();
        assert_eq!(answer.status, 202, "{answer:?}");
        world.dfsp("bluewallet").next(&id);
        let answer = world.wait(callers[1].send(&Message::fulfil(&id, "COMMITTED").into_sent())).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        world.dfsp("greenbank").next(&id);
        // The hub makes the message with the state of a transfer, and signs it.
        let question = Message::get(&id, "greenbank").into_sent();
        assert_eq!(world.wait(callers[0].send(&question)).unwrap().status, 202);
        let state = world.dfsp("greenbank").next(&id);
        assert_eq!(genuine(&world, &state), Ok(()));
    }
    assert_eq!(&*world.position("greenbank"), "17.5");
    assert!(world.dfsp("greenbank").peers().iter().all(|name| name == "hub-client"));
    // A reload queries the token again, and keeps the key.
    world.hub().reload_keys();
    world.until(&0, || world.metric("upesi_jws_reload_failing"));
    drop(callers);
    world.stop_and_audit();
}

/// Verifies by the key that operators see that a received message is the hub's.
fn genuine(world: &World, seen: &common::dfsp::Seen) -> Result<(), String> {
    let directory = tempfile::TempDir::new().unwrap();
    let keys = public_keys(&world.admin("GET", "/signatures/keys", ""));
    assert_eq!((keys.len(), &*keys[0].0), (1, "current"));
    fs::write(directory.path().join("Hub.pem"), &keys[0].1).unwrap();
    assert!(seen.header(SIGNATURE).is_some());
    is_genuine(seen, &KeyRing::load(directory.path(), false).unwrap())
}

#[test]
fn hub_whose_token_lacks_its_keys_does_not_start() {
    let Some(hsm) = SoftHsm::of_test("tls::hub_whose_token_lacks_its_keys_does_not_start") else {
        return;
    };
    let mut pki = Pki::new();
    pki.issue(Usage::Server, "other");
    hsm.make_token("hub");
    hsm.import("hub", "other", "01", &pki.file("other.key"));
    let settings = |setting: &str, place: &str| {
        let given = [pki.listener("fspiop_tls"), tokens(&hsm)].concat();
        let given = given.into_iter().filter(|(key, _)| key != setting);
        given.chain([(setting.to_owned(), place.to_owned())]).collect::<Vec<_>>()
    };
    for (setting, place, expected) in [
        ("jws.signing_key_file", "pkcs11:token=hub;object=signing", "object=signing: is not in the token"),
        ("fspiop_tls.key_file", "pkcs11:token=hub;object=other", "does not belong to the certificate in"),
        ("fspiop_tls.key_file", "pkcs11:token=none;object=other", "the token none: is not a token"),
        (
            "pkcs11.module",
            "/nowhere/module.so",
            "pkcs11.module: /nowhere/module.so: cannot be loaded as a PKCS #11 module",
        ),
    ] {
        let refused = World::refused(&borrowed(&settings(setting, place)));
        assert!(refused.contains(expected), "{setting} = {place}: {refused}");
    }
}
