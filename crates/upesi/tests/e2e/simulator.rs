//! A hub with simulated DFSPs, which have their own books. Whatever happens, hub and books agree at the end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::time::timeout;
use upesi_sim::{DfspSettings, Flavour, Originator, OriginatorOptions, TransferOutcome};
use upesi_types::{Amount, Currency};

use crate::common::dfsp::{Client, request};
use crate::common::message::media_type;
use crate::common::simulation::{Scene, SimProcess};
use crate::common::{AMPLE, World};

/// Sends this many transfers between all pairs, and waits for their outcomes. Returns the number of committed ones.
fn run(scene: &Scene, nonce: u64, count: u64, expiry: Duration) -> u64 {
    let options = OriginatorOptions {
        amount: Amount::parse_decimal("1.25").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        expiry,
        seed: 7,
        nonce,
        trace: true,
        resends_max: 0,
    };
    let originator = Originator::new(&scene.simulator, options);
    let outcomes = scene.run(originator, count, |originator, number, payer, payee| async move {
        let pending = originator.send(number, payer, payee).await.unwrap();
        timeout(AMPLE, pending.finished).await.expect("an outcome").unwrap().outcome
    });
    outcomes.iter().filter(|outcome| **outcome == TransferOutcome::Committed).count() as u64
}

#[test]
fn faultless_dfsps_of_both_flavours_agree_with_the_hub() {
    let scene = Scene::new(&[]);
    assert_eq!(run(&scene, 1, 200, Duration::from_secs(60)), 200);
    scene.check();
    scene.all_are(DfspSettings { flavour: Flavour::Reserved, ..DfspSettings::default() });
    assert_eq!(run(&scene, 2, 200, Duration::from_secs(60)), 200);
    scene.check();
    assert_eq!(scene.simulator.transfer_counts().committed, 400);
    scene.end();
}

#[test]
fn faulty_dfsps_agree_with_the_hub() {
    let scene = Scene::new(&[]);
    // The long timeout is much longer than an answer takes. The short one is for cases without an answer.
    let (long, short) = (Duration::from_secs(60), Duration::from_millis(300));
    for (nonce, flavour) in [(1, Flavour::Committed), (2, Flavour::Reserved)] {
        let plain = DfspSettings { flavour, ..DfspSettings::default() };
        for (phase, settings, count, expiry, none_commits) in [
            (1, DfspSettings { abort_per_mille: 1000, ..plain }, 40, long, true),
            (2, DfspSettings { wrong_fulfilment_per_mille: 1000, ..plain }, 40, long, true),
            (3, DfspSettings { drop_per_mille: 1000, ..plain }, 40, short, true),
            (4, DfspSettings { duplicate_per_mille: 1000, ..plain }, 40, long, false),
            // A mixture, and answers close to or after the deadline.
            (
                5,
                DfspSettings {
                    abort_per_mille: 150,
                    wrong_fulfilment_per_mille: 150,
                    drop_per_mille: 150,
                    duplicate_per_mille: 300,
                    slow_read_per_mille: 200,
                    slow_read_ms: 20,
                    ..plain
                },
                100,
                short,
                false,
            ),
            (6, DfspSettings { delay_ms: 300, ..plain }, 40, short, false),
        ] {
            scene.all_are(settings);
            let committed = run(&scene, 10 * nonce + phase, count, expiry);
            match phase {
                4 => assert_eq!(committed, count, "{settings:?}"),
                _ => assert!(!none_commits || committed == 0, "{settings:?}"),
            }
            scene.check();
        }
    }
    scene.end();
}

/// A web socket as load scripts open it. The simulator knows it when it answers the handshake.
fn channel(address: SocketAddr, name: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(AMPLE)).unwrap();
    let handshake = format!(
        "GET /{name} HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    );
    socket.write_all(handshake.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    socket
}

/// The only text that a channel receives: a frame of less than 126 bytes (RFC 6455 §5.2).
fn told(mut socket: TcpStream) -> String {
    let mut frame = [0; 2];
    socket.read_exact(&mut frame).unwrap();
    assert!(frame[0] == 0x81 && frame[1] < 126, "{frame:?}");
    let mut text = vec![0; frame[1].into()];
    socket.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// An iteration of Mojaloop's load scripts: a channel of the payer's simulator, named by trace, method and path; the
/// request; the channel's text.
fn iterate(world: &World, sockets: SocketAddr, trace: &str, method: &str, family: &str, id: &str) -> String {
    let socket = channel(sockets, &format!("{trace}/PUT/{family}/{id}"));
    let now = world.now();
    let [expiration, date] = [now.plus_ms(30_000).to_string(), now.http_date().to_string()];
    let (version, body) = match family {
        "transfers" => (
            "1.1",
            format!(
                r#"{{"transferId":"{id}","payerFsp":"dfsp-1","payeeFsp":"dfsp-2","amount":{{"amount":"2","currency":"KES"}},"expiration":"{expiration}","ilpPacket":"AYIDBQAAAAAAAADIIWcucGF5ZWU","condition":"GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA"}}"#
            ),
        ),
        _ => (
            "2.0",
            format!(
                r#"{{"conversionRequestId":"{id}","conversionTerms":{{"conversionId":"{id}","initiatingFsp":"dfsp-1","counterPartyFsp":"dfsp-2","amountType":"SEND","sourceAmount":{{"amount":"2","currency":"KES"}},"targetAmount":{{"amount":"3","currency":"XTS"}},"expiration":"{expiration}"}}}}"#
            ),
        ),
    };
    let mut headers = vec![
        ("Host", "hub".to_owned()),
        ("User-Agent", "k6/1.0.0 (https://k6.io/)".into()),
        ("Accept", media_type(family, version)),
        ("Content-Type", media_type(family, version)),
        ("Date", date),
        ("FSPIOP-Source", "dfsp-1".into()),
        ("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")),
        ("tracestate", format!("tx_end2end_start_ts={}", now.as_ms())),
    ];
    // The hub answers for transfers, and the provider for its quotes.
    if method == "POST" || family == "fxQuotes" {
        headers.push(("FSPIOP-Destination", "dfsp-2".into()));
    }
    let (path, body) = match method {
        "POST" => (format!("/{family}"), &*body),
        _ => (format!("/{family}/{id}"), ""),
    };
    let headers: Vec<_> = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let answer = Client::connect(world.fspiop()).exchange(&request(
        &format!("{method} {path}"),
        &headers,
        body.as_bytes(),
    ));
    assert_eq!(answer.status, 202, "{answer:?}");
    told(socket)
}

/// The texts that scripts receive for a successful request, for a query about it, and for a request that is answered
/// with an error.
fn hear(world: &World, sockets: SocketAddr, family: &str, set_abort_per_mille: impl Fn(u16)) {
    // Ids in the form of the scripts: hexadecimal digits in capitals, with the length of a ULID.
    let (first, second) = ("0192F3A9B2C4D00112233445AB", "0192F3A9B2C5D00112233445AC");
    let (success, error) = ("SUCCESS_CALLBACK_RECEIVED", "ERROR_CALLBACK_RECEIVED");
    for (trace, method, id, abort_per_mille, expected) in [
        ("4bf92f3577b34da6a3ce929d0e0e4736", "POST", first, 0, success),
        ("4bf92f3577b34da6a3ce929d0e0e4737", "GET", first, 0, success),
        ("4bf92f3577b34da6a3ce929d0e0e4738", "POST", second, 1000, error),
    ] {
        set_abort_per_mille(abort_per_mille);
        let told = iterate(world, sockets, trace, method, family, id);
        assert_eq!(told, expected, "{method} {family}");
    }
}

#[test]
fn load_scripts_of_mojaloop_receive_their_callbacks() {
    let scene = Scene::new(&[]);
    // The second one also provides currency conversions.
    scene.world.open_account("dfsp-2", "XTS");
    for name in scene.simulator.names() {
        scene.world.set_endpoint(name.as_str(), "FX_QUOTES", &scene.simulator.base_url(&name));
    }
    for family in ["transfers", "fxQuotes"] {
        hear(&scene.world, scene.simulator.socket_addr().unwrap(), family, |abort_per_mille| {
            scene.all_are(DfspSettings { abort_per_mille, ..DfspSettings::default() });
        });
    }
    scene.world.until(&0, || scene.world.metric("upesi_relay_in_flight"));
    assert_eq!(scene.simulator.counters().answers_unasked, 0);
    scene.world.until(&(0, 0), || scene.world.undelivered());
    assert_eq!(scene.world.position("dfsp-1"), "2");
    scene.end();
}

/// Number of durations in a simulator's histogram of an operation.
fn durations(simulator: &SimProcess, histogram: &str, operation: &str) -> u64 {
    let series = format!("{histogram}_count{{operation=\"{operation}\"}}");
    simulator.metrics().samples.get(&series).map_or(0, |count| count.parse().unwrap())
}

#[test]
fn simulator_metrics_fit_dashboards_of_mojaloop() {
    let mut world = World::bare(&[]);
    let simulator = SimProcess::start(2, world.fspiop());
    world.prepare_scheme();
    for name in ["dfsp-1", "dfsp-2"] {
        let base_url = format!("http://{}/{name}", simulator.address);
        world.onboard(name);
        world.set_endpoints(name, &base_url);
        world.set_endpoint(name, "FX_QUOTES", &base_url);
    }
    world.open_account("dfsp-2", "XTS");
    for family in ["transfers", "fxQuotes"] {
        hear(&world, simulator.sockets, family, |abort_per_mille| {
            simulator.set("dfsp-2", &format!(r#"{{"abort_per_mille":{abort_per_mille}}}"#));
        });
    }
    // Scripts are notified after the callback was counted. For transfers the hub answers the query itself.
    for (operation, expected) in [
        ("transfers_end2end", 3),
        ("transfers_request", 2),
        ("transfers_response", 2),
        ("fxQuotes_end2end", 3),
        ("fxQuotes_request", 3),
        ("fxQuotes_response", 3),
    ] {
        assert_eq!(durations(&simulator, "cbs_tx_cb_perf", operation), expected, "{operation}");
    }
    // These durations may be counted later: one after the notification, the other after its answer. The payee receives
    // a copy of each of its answers.
    for (histogram, operation, expected) in [
        ("cbs_ing_callbackHandler", "post_transfers", 2),
        ("cbs_ing_callbackHandler", "put_transfers", 5),
        ("cbs_ing_callbackHandler", "post_fxQuotes", 2),
        ("cbs_ing_callbackHandler", "get_fxQuotes", 1),
        ("cbs_ing_callbackHandler", "put_fxQuotes", 3),
        ("cbs_egress_callbackHandler", "put_transfers", 2),
        ("cbs_egress_callbackHandler", "put_fxQuotes", 3),
    ] {
        world.until(&(operation, expected), || (operation, durations(&simulator, histogram, operation)));
    }
    let metrics = simulator.metrics();
    let took: f64 = metrics.value(r#"cbs_tx_cb_perf_sum{operation="transfers_end2end"}"#).parse().unwrap();
    assert!(took > 0.0, "{took} seconds for three exchanges");
    for (counter, expected) in [("prepares_received", "2"), ("aborts_sent", "1"), ("unreadable", "0")] {
        let series = format!(r#"upesi_sim_counted_total{{dfsp="dfsp-2",counter="{counter}"}}"#);
        assert_eq!(metrics.value(&series), expected, "{counter}");
    }
    world.until(&0, || world.metric("upesi_relay_in_flight"));
    world.until(&(0, 0), || world.undelivered());
    world.stop_and_audit();
}
