//! Whole payments from a telephone number to the money: typed by hand, and by simulated DFSPs with their own books.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use upesi_sim::{
    DfspSettings, ExchangeError, Flavour, OracleConfig, OracleSettings, OracleSimulator, Originator,
    OriginatorOptions, PaymentOptions, Phase,
};
use upesi_types::{Amount, Currency, ErrorCode};

use crate::common::dialogue::hold;
use crate::common::simulation::{DFSPS, Scene};
use crate::common::story::part;
use crate::common::{AMPLE, World};

/// Parties of each DFSP.
const PARTIES: u64 = 5;

#[test]
fn a_payment_message_by_message() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, part(include_str!("dialogues/payment.txt"), "payment"));
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("20".into(), "-20".into()));
    world.stop_and_audit();
}

fn scene(settings: &[(&str, &str)]) -> Scene {
    let scene = Scene::new(settings);
    for name in scene.simulator.names() {
        scene.world.set_all_endpoints(name.as_str(), &scene.simulator.base_url(&name));
    }
    scene
}

fn originator(scene: &Scene, nonce: u64) -> Originator {
    let options = OriginatorOptions {
        amount: Amount::parse_decimal("1.25").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        expiry: Duration::from_secs(60),
        seed: 7,
        nonce,
        trace: true,
        resends_max: 0,
    };
    let payments =
        PaymentOptions { callback_timeout: AMPLE, parties_per_dfsp: PARTIES, ..PaymentOptions::default() };
    Originator::new(&scene.simulator, options).with_payments(payments)
}

/// Outcomes of this many payments between all pairs, by phase and error; `None` for successful ones.
fn pay(scene: &Scene, nonce: u64, count: u64) -> BTreeMap<Option<(Phase, String)>, u64> {
    let reports = scene.run(originator(scene, nonce), count, |originator, number, payer, payee| async move {
        originator.payment(number, payer, payee, Instant::now()).await
    });
    let mut ends = BTreeMap::new();
    for report in reports {
        let end = report.result.err().map(|failure| {
            let text = match failure.error {
                ExchangeError::Code(code) => code.to_string(),
                other => other.to_string(),
            };
            (failure.phase, text)
        });
        *ends.entry(end).or_default() += 1;
    }
    ends
}

/// Every DFSP registers its parties with the hub.
fn register(scene: &Scene) {
    scene.run(originator(scene, 0), DFSPS as u64, |originator, _, dfsp, _| async move {
        let registered = originator.register(dfsp, 0, PARTIES).await.unwrap().answer(AMPLE).await;
        let registered = registered.result.unwrap();
        assert_eq!((registered.registered, registered.refused), (PARTIES as usize, 0));
    });
}

#[test]
fn simulated_dfsps_pay_over_the_built_in_directory() {
    let scene = scene(&[]);
    // No number is registered yet.
    let unknown = Some((Phase::Lookup, ErrorCode::PARTY_NOT_FOUND.to_string()));
    assert_eq!(pay(&scene, 1, 20), BTreeMap::from([(unknown, 20)]));
    register(&scene);
    assert_eq!(pay(&scene, 2, 200), BTreeMap::from([(None, 200)]));
    scene.all_are(DfspSettings { flavour: Flavour::Reserved, fee_per_mille: 20, ..DfspSettings::default() });
    assert_eq!(pay(&scene, 3, 200), BTreeMap::from([(None, 200)]));
    scene.check();
    assert_eq!(scene.simulator.transfer_counts().committed, 400);
    scene.end();
}

#[test]
fn simulated_dfsps_pay_over_an_oracle() {
    let scene = scene(&[("lookup.builtin_directory", "false")]);
    let oracle = OracleSimulator::start(OracleConfig::new(scene.simulator.names()), &scene.workers).unwrap();
    scene.world.operate(
        "POST",
        "/oracles",
        &format!(
            r#"{{"oracleIdType":"MSISDN","endpoint":{{"value":"{}","endpointType":"URL"}}}}"#,
            oracle.base_url()
        ),
    );
    assert_eq!(pay(&scene, 1, 100), BTreeMap::from([(None, 100)]));
    // The oracle names a DFSP that does not exist, which receives no request.
    oracle
        .set_settings(OracleSettings { unknown_dfsp_per_mille: 1000, ..OracleSettings::default() })
        .unwrap();
    let unknown = Some((Phase::Lookup, ErrorCode::PARTY_NOT_FOUND.to_string()));
    assert_eq!(pay(&scene, 2, 20), BTreeMap::from([(unknown, 20)]));
    oracle.set_settings(OracleSettings { not_found_per_mille: 1000, ..OracleSettings::default() }).unwrap();
    let not_found = Some((Phase::Lookup, ErrorCode::ID_NOT_FOUND.to_string()));
    assert_eq!(pay(&scene, 3, 20), BTreeMap::from([(not_found, 20)]));
    oracle.set_settings(OracleSettings::default()).unwrap();
    scene.check();
    scene.end();
}

/// Each payment ends in one of the ways that its faults allow, and the books agree.
#[test]
fn payments_among_dfsps_with_faults() {
    let scene = scene(&[
        ("lookup.deadline_ms", "3000"),
        ("oracles.deadline_ms", "500"),
        ("oracles.connect_timeout_ms", "500"),
    ]);
    register(&scene);
    scene.all_are(DfspSettings {
        abort_per_mille: 200,
        duplicate_per_mille: 300,
        wrong_fulfilment_per_mille: 200,
        ..DfspSettings::default()
    });
    let ends = pay(&scene, 1, 200);
    let allowed = [
        (Phase::Lookup, ErrorCode::PAYEE),
        (Phase::Quote, ErrorCode::PAYEE_REJECTED_QUOTE),
        (Phase::Transfer, ErrorCode::PAYEE_REJECTED_TRANSACTION),
        (Phase::Transfer, ErrorCode::VALIDATION),
    ];
    let allowed = allowed.map(|(phase, code)| Some((phase, code.to_string())));
    for end in allowed.iter().chain([&None]) {
        assert!(ends.contains_key(end), "{end:?} is not among {ends:?}");
    }
    assert_eq!(ends.len(), allowed.len() + 1, "{ends:?}");
    scene.check();
    // The hub answers lookups that no DFSP answers.
    scene.all_are(DfspSettings { drop_per_mille: 1000, ..DfspSettings::default() });
    let expired = Some((Phase::Lookup, ErrorCode::EXPIRED.to_string()));
    assert_eq!(pay(&scene, 2, 20), BTreeMap::from([(expired, 20)]));
    scene.all_are(DfspSettings::default());
    assert_eq!(pay(&scene, 3, 20), BTreeMap::from([(None, 20)]));
    scene.check();
    scene.end();
}

// Payments with DFSPs of another scheme, through their proxy, from a telephone number to the money.

/// bridge is a proxy; farbank and farwallet are behind it.
fn world() -> World {
    let mut world = World::with_lookups(&[]);
    world.join_proxy("bridge");
    let base_url = world.dfsp("bridge").base_url();
    world.set_all_endpoints("bridge", &base_url);
    for name in ["farbank", "farwallet"] {
        world.operate("POST", "/participants/bridge/proxied", &format!(r#"{{"name":"{name}"}}"#));
    }
    world
}

/// Positions of this scheme's payer or payee, and of the proxy.
fn positions(world: &World) -> [String; 3] {
    ["greenbank", "bluewallet", "bridge"].map(|name| world.position(name))
}

#[test]
fn payments_through_a_proxy_message_by_message() {
    let mut world = world();
    hold(&mut world, part(include_str!("dialogues/payment.txt"), "proxies"));
    // greenbank paid 10, 4, and 10 of a bulk transfer to DFSPs behind the proxy. They paid 10, and 10 of a bulk
    // transfer, to bluewallet, and 3 to greenbank.
    assert_eq!(positions(&world), ["21", "-20", "-1"]);
    let listed = world.operate("GET", "/participants/bridge/proxied", "");
    assert_eq!(listed.to_string(), r#"[{"isActive":1,"name":"farbank"},{"isActive":1,"name":"farwallet"}]"#);
    world.stop_and_audit();
}

/// bridge and bluewallet have both currencies; forex is another FXP of this scheme.
fn converting_world() -> World {
    let mut world = world();
    world.join("forex");
    let base_url = world.dfsp("forex").base_url();
    world.set_all_endpoints("forex", &base_url);
    world.open_account("bluewallet", "USD");
    for name in ["bridge", "forex"] {
        world.join_currency(name, "USD");
    }
    world
}

#[test]
fn fx_transfers_through_a_proxy_message_by_message() {
    let mut world = converting_world();
    hold(&mut world, part(include_str!("dialogues/fx_transfers.txt"), "proxied conversions"));
    // greenbank paid 130 KES twice. bluewallet received 1 USD each time: first by its payer's conversion, then by its
    // own.
    assert_eq!(positions(&world), ["260", "0", "-260"]);
    assert_eq!(
        (world.position_in("bridge", "USD"), world.position_in("bluewallet", "USD")),
        ("2".into(), "-2".into())
    );
    world.stop_and_audit();
}

/// `GET /lanes` and the metrics show which DFSP is slow, and whose requests fail.
#[test]
fn slow_and_failing_dfsps_are_visible() {
    const DELAY_MS: u32 = 1_000;
    let scene = scene(&[]);
    register(&scene);
    let slow = DfspSettings { delay_ms: DELAY_MS, ..DfspSettings::default() };
    assert!(scene.simulator.set_settings(1, slow).unwrap());
    assert_eq!(pay(&scene, 1, 40), BTreeMap::from([(None, 40)]));
    assert!(scene.simulator.set_settings(2, DfspSettings { abort_per_mille: 1_000, ..slow }).unwrap());
    // Each DFSP sends the third one a request, which fails.
    assert_eq!(pay(&scene, 2, 12).values().sum::<u64>(), 12);
    scene.check();
    let lanes = scene.world.operate("GET", "/lanes", "");
    let of = |dfsp: &str| {
        let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == dfsp);
        lane.unwrap()["responseTimes"].clone()
    };
    for kind in ["lookups", "quotes", "transfers"] {
        let [fast, slow] = ["dfsp-1", "dfsp-2"].map(|dfsp| of(dfsp)[kind]["p50Ms"].as_u64().unwrap());
        assert!(slow >= u64::from(DELAY_MS) * 4 / 5 && fast < slow, "{kind}: {fast} and {slow}\n{lanes:#}");
    }
    let failing = of("dfsp-3")["failuresByAsker"].as_array().unwrap().clone();
    assert_eq!(failing.len(), DFSPS - 1, "{lanes:#}");
    for pair in &failing {
        let [requests, failed] = ["requests", "failed"].map(|name| pair[name].as_u64().unwrap());
        assert!(failed > 0 && failed <= requests, "{pair}");
    }
    assert_eq!(of("dfsp-1")["failuresByAsker"], serde_json::json!([]));
    let seen = || {
        let text = scene.world.admin("GET", "/metrics", "").body;
        let has = |line: &str| text.lines().any(|found| found.starts_with(line));
        [
            has(r#"upesi_dfsp_response_seconds{fsp="dfsp-2",request="transfer",quantile="0.99"} 1."#),
            has(r#"upesi_pair_failed_requests{from="dfsp-1",to="dfsp-3"} "#),
            has(r#"upesi_pair_failed_requests{from="dfsp-3",to="dfsp-1"} "#),
        ]
    };
    scene.world.until(&[true, true, false], seen);
    scene.end();
}
