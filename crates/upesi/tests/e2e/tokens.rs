//! A whole hub whose private keys are in a PKCS #11 token, and none in a file.

use crate::common;
use std::fs;

use crate::common::World;
use crate::common::client::Answer;
use crate::common::message::{Message, Terms};
use crate::common::secure::Pki;
use crate::softhsm::{PIN, SoftHsm};
use upesi_jws::{Freshness, KeyRing, Request, SIGNATURE, verify};
use upesi_pki::{KeyKind, Usage};
use upesi_types::Timestamp;

/// What reaches the tokens of a test.
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
    let Some(hsm) =
        SoftHsm::of_test("tokens::keys_in_a_token_sign_messages_and_handshakes_in_both_directions")
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
        // The state of a transfer is made by the hub, which signs it.
        let question = Message::get(&id, "greenbank").into_sent();
        assert_eq!(world.wait(callers[0].send(&question)).unwrap().status, 202);
        let state = world.dfsp("greenbank").next(&id);
        assert_eq!(genuine(&world, &state), Ok(()));
    }
    assert_eq!(&*world.position("greenbank"), "17.5");
    assert!(world.dfsp("greenbank").peers().iter().all(|name| name == "hub-client"));
    // A reload asks the token again, and keeps the key.
    world.hub().reload_keys();
    world.until(&0, || world.metric("upesi_jws_reload_failing"));
    drop(callers);
    world.stop_and_audit();
}

/// Whether what a DFSP received is the hub's, by the key that its operators see.
fn genuine(world: &World, seen: &common::dfsp::Seen) -> Result<(), String> {
    let directory = tempfile::TempDir::new().unwrap();
    let keys = public_keys(&world.admin("GET", "/signatures/keys", ""));
    assert_eq!((keys.len(), &*keys[0].0), (1, "current"));
    fs::write(directory.path().join("Hub.pem"), &keys[0].1).unwrap();
    let ring = KeyRing::load(directory.path(), false).unwrap();
    let uri = seen.header("fspiop-uri").unwrap().parse().unwrap();
    let method = seen.header("fspiop-http-method").unwrap().parse().unwrap();
    let pair = |(name, value): &(String, String)| (name.parse().unwrap(), value.parse().unwrap());
    let headers: upesi_http::HeaderMap = seen.headers.iter().map(pair).collect();
    assert!(headers.contains_key(SIGNATURE));
    let request = Request { method: &method, uri: &uri, headers: &headers, body: &seen.body, base_path: "" };
    let now = Timestamp::parse_iso("2031-01-01T00:00:00.000Z").unwrap();
    verify(request, &ring, Freshness::Any, now).map_err(|fault| fault.to_string())
}

#[test]
fn a_hub_whose_token_has_not_its_keys_does_not_start() {
    let Some(hsm) = SoftHsm::of_test("tokens::a_hub_whose_token_has_not_its_keys_does_not_start") else {
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
        ("fspiop_tls.key_file", "pkcs11:token=hub;object=other", "is not that of the certificate of"),
        ("fspiop_tls.key_file", "pkcs11:token=none;object=other", "the token none: is no token"),
        ("pkcs11.module", "/nowhere/module.so", "pkcs11.module: /nowhere/module.so: is no PKCS #11 module"),
    ] {
        let refused = World::refused(&borrowed(&settings(setting, place)));
        assert!(refused.contains(expected), "{setting} = {place}: {refused}");
    }
}
