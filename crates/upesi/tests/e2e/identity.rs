//! Authentication of senders: certificates are bound to DFSPs, and no DFSP can act as another.

use std::fs;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use upesi_fspiop::Operation;
use upesi_pki::{Order, Usage};
use upesi_tls::{CertificateFacts, present_s};

use crate::common::World;
use crate::common::message::{Message, Terms};
use crate::common::secure::{
    Caller, Pki, answered, last_record, nothing_was_changed, of_every_operation, pay, source_of,
};

const DFSPS: [&str; 3] = ["greenbank", "bluewallet", "redmoney"];

/// A hub whose DFSPs are bound by their keys, with endpoints for messages of every kind.
fn bound(pki: &mut Pki, more: &[(&str, &str)]) -> World {
    let world = pki.world(&DFSPS, more);
    for name in DFSPS {
        world.set_all_endpoints(name, &world.dfsp(name).base_url());
    }
    world
}

/// A way to act as another DFSP: a certificate, a change of the message, and the answer.
struct Attack {
    certificate: &'static str,
    change: fn(Message) -> Message,
    answer: (u16, u16),
    /// Reason and participant in the metric; none if the request is only malformed.
    counted: Option<(&'static str, &'static str)>,
}

fn also_from(mut message: Message, source: &str) -> Message {
    message.headers.push(("fspiop-source".to_owned(), source.to_owned()));
    message
}

fn attacks() -> Vec<Attack> {
    let attack = |certificate, change, code, counted| Attack {
        certificate,
        change,
        answer: (403, code),
        counted: Some(counted),
    };
    let by_red = ("source", "redmoney");
    let mut attacks = vec![
        attack("stranger", |message| message, 3000, ("unbound", "")),
        attack("stranger", |message| message.from("stranger"), 3000, ("unbound", "")),
        attack("formerly", |message| message, 3000, ("unbound", "")),
        attack("twofold", |message| message, 3000, ("ambiguous", "")),
        attack("twofold", |message| message.from("redmoney"), 3000, ("ambiguous", "")),
        attack("redmoney", |message| message, 3100, by_red),
        attack("redmoney", |message| message.header("x-client-id", "redmoney"), 3100, by_red),
        attack("redmoney", |message| message.from(""), 3100, by_red),
        attack("redmoney", |message| message.from("RedMoney"), 3100, by_red),
        attack("redmoney", |message| message.from("Hub"), 3100, by_red),
        attack("redmoney", |message| message.from("nobody"), 3100, by_red),
        attack("redmoney", |message| message.header("fspiop-proxy", "redmoney"), 3100, ("proxy", "redmoney")),
        attack("redmoney", |message| message.header("fspiop-proxy", "bridge"), 3100, ("proxy", "redmoney")),
        attack("bridge", |message| message, 3100, ("source", "bridge")),
        attack("bridge", |message| message.header("fspiop-proxy", "bridge"), 3100, ("source", "bridge")),
        attack("bridge", |message| message.header("fspiop-proxy", "greenbank"), 3100, ("proxy", "bridge")),
    ];
    attacks.push(attack("redmoney", |message| also_from(message, "redmoney"), 3100, by_red));
    let padded = |message: Message| {
        let padded = format!("  {}\t", source_of(&message));
        message.from(&padded)
    };
    attacks.push(attack("redmoney", padded, 3100, by_red));
    let in_capitals = |message: Message| {
        let source = source_of(&message).to_uppercase();
        message.header("fspiop-proxy", "bridge").from(&source)
    };
    attacks.push(attack("bridge", in_capitals, 3100, ("source", "bridge")));
    // The DFSP's own name comes first. The second one is rejected as malformed by the resources that are served.
    let second = |message: Message| {
        let source = source_of(&message);
        also_from(message.from("redmoney"), &source)
    };
    attacks.push(Attack { certificate: "redmoney", change: second, answer: (400, 3101), counted: None });
    let unnamed = |message: Message| message.without("fspiop-source");
    attacks.push(Attack { certificate: "redmoney", change: unnamed, answer: (400, 3102), counted: None });
    attacks
}

#[test]
fn nothing_that_failed_authentication_changes_anything() {
    let mut pki = Pki::new();
    let mut world = bound(&mut pki, &[]);
    let red = pki.issue(Usage::Client, "twofold");
    world.bind("redmoney", &red);
    world.bind("bluewallet", "subject:CN=twofold;issuer=CN=Scheme");
    let formerly = pki.issue(Usage::Client, "formerly");
    world.bind("redmoney", &formerly);
    world.unbind("redmoney", &formerly);
    pki.issue(Usage::Client, "stranger");
    world.operate("POST", "/participants", r#"{"name":"bridge","currency":"KES","isProxy":true}"#);
    let bridge = pki.issue(Usage::Client, "bridge");
    world.bind("bridge", &bridge);
    let [green, blue, red] = DFSPS.map(|name| pki.caller(Some(name), world.fspiop()));
    // A transfer is reserved and waits for its fulfil.
    let terms = |amount: &str| Terms {
        amount: amount.into(),
        expires: world.now().plus_ms(600_000),
        ..Terms::new(&world.new_id(), world.now())
    };
    let reserved = terms("12.5");
    assert_eq!(answered(&world, &green, &Message::prepare(&reserved).into_sent()), (202, 0));
    world.dfsp("bluewallet").next_attempt(&reserved.id);
    world.until(&(0, 0), || world.undelivered());
    let new = terms("3.25");
    let before = last_record(&world, 900);
    let parties = world.operate("GET", "/directory", "").to_string();
    let mut refused = std::collections::BTreeMap::new();
    // Group B of the matrix; group A is `matrix_tls` of `upesi-http`.
    assert!(attacks().len() >= 21 && Operation::all().count() >= 40, "{} routes", Operation::all().count());
    for attack in attacks() {
        let caller = pki.caller(Some(attack.certificate), world.fspiop());
        for message in of_every_operation(&reserved.id, &new) {
            let is_own = attack.counted.is_none();
            let sent = (attack.change)(message).into_sent();
            let found = answered(&world, &caller, &sent);
            // Messages that only hubs send are not checked further.
            let is_expected = found == attack.answer || (is_own && found == (501, 2002));
            assert!(is_expected, "{} {} with {}: {found:?}", sent.method, sent.path, attack.certificate);
            if let Some((reason, fsp)) = attack.counted {
                *refused
                    .entry(format!("upesi_auth_refused_total{{reason=\"{reason}\",fsp=\"{fsp}\"}}"))
                    .or_insert(0) += 1;
            }
        }
    }
    assert_eq!(last_record(&world, 901), before + 1, "nothing but the operator's change");
    assert_eq!(world.operate("GET", "/directory", "").to_string(), parties);
    for (series, count) in refused {
        assert_eq!(world.metric(&series), count, "{series}");
    }
    nothing_was_changed(&world, [&green, &blue], &reserved.id, &new);
    // A client whose requests were rejected can still send its own.
    let get = Message::get(&new.id, "redmoney").into_sent();
    assert_eq!(answered(&world, &red, &get).0, 202);
    drop((green, blue, red));
    world.stop_and_audit();
}

#[test]
fn certificates_are_bound_by_key_certificate_name_and_subject() {
    let mut pki = Pki::new();
    let world = bound(&mut pki, &[]);
    let payee = pki.caller(Some("bluewallet"), world.fspiop());
    for (certificate, hosts, binding) in [
        ("by-key", &[][..], None),
        ("by-certificate", &[][..], None),
        ("by-name", &["pay.green.example"][..], Some("san-dns:Pay.Green.example".to_owned())),
        ("by-subject", &[][..], Some("subject:CN=by-subject;issuer=CN=Scheme".to_owned())),
    ] {
        let order = Order::new(certificate, Usage::Client, present_s()).with_hosts(hosts);
        let issued = pki.authority.issue(&order).unwrap();
        let pem = fs::read_to_string(issued.certificate_file).unwrap();
        let facts = CertificateFacts::read(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let binding = binding.unwrap_or_else(|| match certificate {
            "by-key" => format!("spki-sha256:{}", facts.spki_sha256.to_string().to_uppercase()),
            _ => format!("cert-sha256:{}", facts.certificate_sha256),
        });
        let payer = pki.caller(Some(certificate), world.fspiop());
        let prepare = Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent();
        assert_eq!(answered(&world, &payer, &prepare), (403, 3000), "{certificate}");
        world.bind("greenbank", &binding);
        // On the same connection.
        pay(&world, &payer, &payee, "2.5");
        world.unbind("greenbank", &binding);
        assert_eq!(answered(&world, &payer, &prepare), (403, 3000), "{certificate}");
    }
    assert_eq!(world.position("greenbank"), "10");
}

#[test]
fn keys_are_changed_during_payments_and_removed_ones_end() {
    let mut pki = Pki::new();
    let mut world = bound(&mut pki, &[]);
    let payee = pki.caller(Some("bluewallet"), world.fspiop());
    let old = pki.caller(Some("greenbank"), world.fspiop());
    pay(&world, &old, &payee, "1");
    let old_key = pki.authority.entries().iter().find(|entry| entry.name == "greenbank").unwrap();
    let old_key = format!("spki-sha256:{}", old_key.spki_sha256);
    let new_key = pki.issue(Usage::Client, "greenbank-2");
    world.bind("greenbank", &new_key);
    let new = pki.caller(Some("greenbank-2"), world.fspiop());
    // The old and the new certificate are valid.
    pay(&world, &old, &payee, "2");
    pay(&world, &new, &payee, "4");
    pay(&world, &old, &payee, "8");
    world.unbind("greenbank", &old_key);
    let get = Message::get(&world.new_id(), "greenbank").into_sent();
    let refused = world.wait(old.send(&get)).unwrap();
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.head.contains("connection: close\n"), "{refused:?}");
    pay(&world, &new, &payee, "16");
    // From now on it belongs to another participant, but the earlier connection does not.
    world.unbind("greenbank", &new_key);
    world.bind("redmoney", &new_key);
    let own = Message::get(&world.new_id(), "redmoney").into_sent();
    assert_eq!(answered(&world, &new, &own), (403, 3000));
    assert_eq!(answered(&world, &new, &own).0, 202, "by a new connection");
    assert_eq!(world.metric("upesi_auth_refused_total{reason=\"rebound\",fsp=\"\"}"), 2);
    assert_eq!(world.position("greenbank"), "31");
    drop((old, new, payee));
    world.stop_and_audit();
}

#[test]
fn participant_is_blocked_immediately_and_unblocked() {
    let mut pki = Pki::new();
    let mut world = bound(&mut pki, &[]);
    let [green, blue, red] = DFSPS.map(|name| pki.caller(Some(name), world.fspiop()));
    let ask = |world: &World, caller: &Caller, source| {
        answered(world, caller, &Message::get(&world.new_id(), source).into_sent())
    };
    pay(&world, &green, &blue, "2");
    let body = r#"{"kind":"participant","value":"greenbank"}"#;
    world.operate("POST", "/blocks", body);
    // On its open connection, which is closed, and on a new one.
    for _ in 0..2 {
        assert_eq!(ask(&world, &green, "greenbank"), (403, 3000));
    }
    assert_eq!(ask(&world, &blue, "bluewallet").0, 202);
    // A DFSP that names the blocked one does not learn of the block.
    assert_eq!(ask(&world, &red, "greenbank"), (403, 3100));
    let counted = "upesi_auth_refused_total{reason=\"blocked\",fsp=\"greenbank\"}";
    assert_eq!(world.metric(counted), 2);
    world.restart();
    let [green, blue] = ["greenbank", "bluewallet"].map(|name| pki.caller(Some(name), world.fspiop()));
    assert_eq!(ask(&world, &green, "greenbank"), (403, 3000));
    world.operate("DELETE", "/blocks?kind=participant&value=greenbank", "");
    pay(&world, &green, &blue, "3");
    world.stop_and_audit();
}

#[test]
fn blocked_key_is_rejected_on_open_and_new_connections() {
    let mut pki = Pki::new();
    let mut world = bound(&mut pki, &[("tls.reload_interval_s", "3600")]);
    let entry = |name: &str| pki.authority.entries().iter().find(|entry| entry.name == name).unwrap().clone();
    let green_key = entry("greenbank").spki_sha256;
    let [green, blue] = ["greenbank", "bluewallet"].map(|name| pki.caller(Some(name), world.fspiop()));
    pay(&world, &green, &blue, "2");
    let asks = |world: &World, caller: &Caller, source| {
        let sent = Message::get(&world.new_id(), source).into_sent();
        world.wait(caller.send(&sent)).is_ok_and(|answer| answer.status == 202)
    };
    let body = format!(r#"{{"kind":"spki-sha256","value":"{}"}}"#, green_key.to_uppercase());
    world.operate("POST", "/blocks", &body);
    world.until(&false, || asks(&world, &green, "greenbank"));
    assert!(!asks(&world, &pki.caller(Some("greenbank"), world.fspiop()), "greenbank"));
    assert!(asks(&world, &blue, "bluewallet"));
    world.restart();
    assert!(!asks(&world, &pki.caller(Some("greenbank"), world.fspiop()), "greenbank"), "from the start on");
    let [green, blue] = ["greenbank", "bluewallet"].map(|name| pki.caller(Some(name), world.fspiop()));
    world.operate("DELETE", &format!("/blocks?kind=spki-sha256&value={green_key}"), "");
    world.until(&true, || asks(&world, &green, "greenbank"));
    pay(&world, &green, &blue, "3");
    world.stop_and_audit();
}

#[test]
fn clients_can_be_bound_one_by_one() {
    let mut pki = Pki::new();
    let world = bound(&mut pki, &[("fspiop_tls.bindings_required", "false")]);
    pki.issue(Usage::Client, "stranger");
    let key = pki.authority.entries().iter().find(|entry| entry.name == "greenbank").unwrap();
    let key = format!("spki-sha256:{}", key.spki_sha256);
    let stranger = pki.caller(Some("stranger"), world.fspiop());
    let ask = |source| answered(&world, &stranger, &Message::get(&world.new_id(), source).into_sent());
    for source in DFSPS {
        assert_eq!(ask(source), (403, 3100), "{source} is bound");
    }
    world.unbind("greenbank", &key);
    assert_eq!((ask("greenbank").0, ask("bluewallet")), (202, (403, 3100)));
    world.bind("greenbank", &key);
    assert_eq!(ask("greenbank"), (403, 3100));
    let green = pki.caller(Some("greenbank"), world.fspiop());
    let own = Message::get(&world.new_id(), "greenbank").into_sent();
    assert_eq!(answered(&world, &green, &own).0, 202);
}
