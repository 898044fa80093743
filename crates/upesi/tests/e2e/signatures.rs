//! A whole hub that verifies the signatures of its DFSPs, and signs what it makes itself.

mod by_api;

use std::fs;
use std::path::PathBuf;

use crate::common::World;
use crate::common::client::Answer;
use crate::common::message::{Message, Terms, family, media_type};
use crate::common::signed::{Keys, is_genuine, signed_by};
use upesi_jws::{KeyRing, PrivateKey, SIGNATURE};
use upesi_pki::{KeyKind, SigningKey};

fn is_refused(answer: &Answer, reason: &str) {
    let expected = format!(
        r#"{{"errorInformation":{{"errorCode":"3105","errorDescription":"Invalid signature - {reason}"}}}}"#
    );
    assert_eq!((answer.status, &*answer.body), (400, &*expected));
}

fn faults(world: &World, fsp: &str, reason: &str, mode: &str) -> u64 {
    world.metric(&format!("upesi_jws_faults_total{{fsp=\"{fsp}\",reason=\"{reason}\",mode=\"{mode}\"}}"))
}

/// A payment of which every message is signed.
fn pay(world: &World, keys: &Keys, amount: &str) -> String {
    let id = world.new_id();
    let terms = Terms { amount: amount.to_owned(), ..Terms::new(&id, world.now()) };
    let prepare = world.deliver(signed_by(Message::prepare(&terms), &keys.of("greenbank")));
    let forwarded = world.dfsp("bluewallet").next(&id);
    assert_eq!((&*forwarded.body, is_genuine(&forwarded, &keys.ring())), (&*prepare.body, Ok(())));
    let fulfil = world.deliver(signed_by(Message::fulfil(&id, "COMMITTED"), &keys.of("bluewallet")));
    let told = world.dfsp("greenbank").next(&id);
    assert_eq!((&*told.body, is_genuine(&told, &keys.ring())), (&*fulfil.body, Ok(())));
    id
}

#[test]
fn signatures_are_verified_at_the_hub_and_by_the_receivers() {
    let keys = Keys::new();
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    let id = pay(&world, &keys, "10");
    pay(&world, &keys, "7.5");
    assert_eq!((&*world.position("greenbank"), &*world.position("bluewallet")), ("17.5", "-17.5"));
    assert_eq!(world.metric("upesi_jws_verified_total"), 4);
    // What the hub makes itself has its own signature: a state, and an error.
    world.deliver(Message::get(&id, "greenbank").without(SIGNATURE));
    let state = world.dfsp("greenbank").next(&id);
    assert_eq!((state.header("fspiop-source"), is_genuine(&state, &keys.ring())), (Some("Hub"), Ok(())));
    let other = world.new_id();
    let broke = Terms { amount: "1000000".to_owned(), ..Terms::new(&other, world.now()) };
    world.deliver(signed_by(Message::prepare(&broke), &keys.of("greenbank")));
    let error = world.dfsp("greenbank").next(&other);
    assert!(error.path.ends_with("/error"), "{}", error.path);
    assert_eq!((error.header("fspiop-source"), is_genuine(&error, &keys.ring())), (Some("Hub"), Ok(())));
    // A receiver would notice another key, and another body.
    let mut altered = error.clone();
    altered.body = [&altered.body[..], b" "].concat().into();
    assert_eq!(is_genuine(&altered, &keys.ring()), Err("the signature does not match".to_owned()));
    world.stop_and_audit();
}

/// The bodies of all routes that change something, with the sender's headers.
fn messages(world: &World) -> Vec<Message> {
    let id = world.new_id();
    let transfer = Message::prepare(&Terms::new(&id, world.now()));
    let of = |line: &str, body: &str| {
        let path = line.split(' ').nth(1).unwrap();
        let media = media_type(family(path), "1.1");
        let (method, base) = match line.split(' ').next().unwrap() {
            "POST" => ("POST", transfer.clone()),
            "DELETE" => ("DELETE", transfer.clone()),
            "PATCH" => ("PATCH", transfer.clone()),
            _ => ("PUT", transfer.clone()),
        };
        let message = Message { method, path: path.to_owned(), ..base };
        message.header("content-type", &media).header("accept", &media_type(family(path), "1")).body(body)
    };
    let party =
        r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}}}"#;
    let mut all = vec![
        transfer.clone(),
        Message::fulfil(&id, "COMMITTED").from("greenbank"),
        Message::abort(&id, "5103", "Limit").from("greenbank"),
        of("POST /participants/MSISDN/26097", r#"{"fspId":"greenbank","currency":"KES"}"#),
        of("DELETE /participants/MSISDN/26097", ""),
        of("PUT /parties/MSISDN/26097", party),
        of(
            "PUT /parties/MSISDN/26097/error",
            r#"{"errorInformation":{"errorCode":"3204","errorDescription":"x"}}"#,
        ),
    ];
    for path in ["/quotes", "/bulkQuotes", "/fxQuotes", "/transactionRequests"] {
        all.push(of(&format!("POST {path}"), "{}"));
        all.push(of(&format!("PUT {path}/{id}"), "{}"));
        all.push(of(&format!("PUT {path}/{id}/error"), "{}"));
    }
    all
}

#[test]
fn nothing_that_is_not_its_senders_changes_anything() {
    let keys = Keys::new();
    keys.make("redmoney");
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    let before = world.journal();
    let (green, red) = (keys.of("greenbank"), keys.of("redmoney"));
    for message in messages(&world) {
        let what = format!("{} {}", message.method, message.path);
        let refused = |message: Message, reason: &str| {
            let (answer, _) = world.send(message);
            assert!(answer.body.contains(&format!("Invalid signature - {reason}")), "{what}: {answer:?}");
            is_refused(&answer, reason);
        };
        refused(message.clone().without(SIGNATURE), "FSPIOP-Signature is missing");
        let date = world.now().http_date().to_string();
        let fresh = message.clone().header("date", &date);
        refused(signed_by(fresh.clone(), &red), "the signature does not match");
        let moved = signed_by(fresh.clone(), &green);
        let moved = Message { path: format!("{}?a=b", moved.path), ..moved };
        refused(moved, "FSPIOP-URI of the protected header is not that of the message");
        let mut altered = signed_by(fresh.clone(), &green);
        altered.body.push(b' ');
        refused(altered, "the signature does not match");
        let swapped = signed_by(fresh, &keys.of("bluewallet")).header("fspiop-source", "bluewallet");
        refused(swapped, "fspiop-source of the protected header is not that of the message");
    }
    // Questions need no signature, but must not have a wrong one.
    let (answer, _) = world.send(signed_by(Message::get(&world.new_id(), "greenbank"), &red));
    is_refused(&answer, "the signature does not match");
    world.expect_silence();
    assert_eq!(world.journal(), before, "nothing was recorded");
    assert_eq!(faults(&world, "greenbank", "missing", "enforce"), messages(&world).len() as u64);
    world.stop_and_audit();
}

#[test]
fn registrations_and_answers_to_lookups_must_be_recent() {
    let keys = Keys::new();
    let world = keys.world(&[("jws.mode", "enforce")]);
    let register = |date: Option<&str>| {
        let base =
            messages(&world).into_iter().find(|message| message.path.starts_with("/participants/")).unwrap();
        let dated = match date {
            Some(date) => base.header("date", date),
            None => base,
        };
        world.send(signed_by(dated, &keys.of("greenbank"))).0
    };
    let now = world.now();
    is_refused(&register(None), "the date is not recent");
    is_refused(&register(Some(&now.plus_ms(-302_000).http_date().to_string())), "the date is not recent");
    is_refused(&register(Some(&now.plus_ms(62_000).http_date().to_string())), "the date is not recent");
    let is_taken = |answer: Answer| assert_ne!(answer.error_code(), Some("3105"), "{answer:?}");
    is_taken(register(Some(&now.plus_ms(-200_000).http_date().to_string())));
    // Recent is what is recent by the hub's time: a wall clock that jumps makes no message too old.
    for hour_ms in [3_600_000, -3_600_000] {
        world.clock.jump(hour_ms);
        world.until(&true, || world.operate("GET", "/clock", "")["jumpMs"] != 0);
        is_taken(register(Some(&world.clock.unset().http_date().to_string())));
        world.clock.jump(-hour_ms);
        world.until(&true, || world.operate("GET", "/clock", "")["jumpMs"] == 0);
    }
}

#[test]
fn who_is_only_warned_pays_on_and_is_counted() {
    let keys = Keys::new();
    let mut world =
        keys.world(&[("jws.mode", "enforce"), ("jws.exceptions", "GreenBank=warn, bluewallet=off")]);
    let id = world.new_id();
    let prepare = Message::prepare(&Terms::new(&id, world.now()));
    world.deliver(prepare.without(SIGNATURE));
    world.dfsp("bluewallet").next(&id);
    // Not looked at.
    world.deliver(Message::fulfil(&id, "COMMITTED"));
    world.dfsp("greenbank").next(&id);
    assert_eq!(&*world.position("greenbank"), "10");
    assert_eq!(faults(&world, "greenbank", "missing", "warn"), 1);
    let text = world.admin("GET", "/metrics", "").body;
    assert!(!text.contains("upesi_jws_faults_total{fsp=\"bluewallet\""), "{text}");
    world.stop_and_audit();
}

#[test]
fn keys_are_read_again_and_unusable_ones_change_nothing() {
    let keys = Keys::new();
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    pay(&world, &keys, "10");
    let send = |key: &PrivateKey| {
        let message = Message::prepare(&Terms::new(&world.new_id(), world.now()));
        world.send(signed_by(message, key)).0
    };
    // A third DFSP's key takes greenbank's place: as after a rotation.
    let old = keys.of("greenbank");
    fs::remove_file(keys.path("own").join("greenbank.key")).unwrap();
    fs::remove_file(keys.path("own").join("greenbank.pem")).unwrap();
    keys.make("greenbank");
    is_refused(&send(&keys.of("greenbank")), "the signature does not match");
    keys.publish("greenbank");
    world.hub().reload_keys();
    world.until(&400, || u64::from(send(&old).status));
    assert_eq!(send(&keys.of("greenbank")).status, 202);
    let file = keys.path("public").join("bluewallet.pem");
    let sound = fs::read(&file).unwrap();
    fs::write(&file, "nonsense").unwrap();
    world.hub().reload_keys();
    world.until(&1, || world.metric("upesi_jws_reload_failing"));
    assert_eq!(send(&keys.of("greenbank")).status, 202);
    fs::write(&file, sound).unwrap();
    world.hub().reload_keys();
    world.until(&0, || world.metric("upesi_jws_reload_failing"));
    assert_eq!(world.metric("upesi_jws_participants"), 2);
    world.stop_and_audit();
}

/// What operators see of the hub's keys: whether each signs, and which file of public keys it is.
fn hub_keys(world: &World, files: &[(&str, PathBuf)]) -> Vec<(String, String)> {
    let answer = world.admin("GET", "/signatures/keys", "");
    let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let keys = value["keys"].as_array().unwrap().iter();
    let name = |pem: &str| {
        let is_it = |(_, file): &&(&str, PathBuf)| fs::read_to_string(file).unwrap().trim() == pem.trim();
        files.iter().find(is_it).map_or("?", |(name, _)| name).to_owned()
    };
    keys.map(|key| {
        let text = |name: &str| key[name].as_str().unwrap();
        (text("state").to_owned(), name(text("publicKey")))
    })
    .collect()
}

#[test]
fn the_hubs_key_is_replaced_after_the_next_one_was_shown() {
    let keys = Keys::new();
    let next = keys.path("next.key");
    let mut world = keys.world(&[("jws.next_key_file", next.to_str().unwrap())]);
    SigningKey::make(&keys.path("made"), "second", KeyKind::Rsa2048).unwrap();
    let files = [("first", keys.path("first.pem")), ("second", keys.path("made").join("second.pem"))];
    fs::copy(keys.path("own").join("Hub.pem"), &files[0].1).unwrap();
    let shown = |expected: &[(&str, &str)]| {
        let expected: Vec<_> =
            expected.iter().map(|(state, key)| ((*state).to_owned(), (*key).to_owned())).collect();
        world.hub().reload_keys();
        world.until(&expected, || hub_keys(&world, &files));
    };
    let signs_by = |name: &str| {
        let ring = keys.path(&format!("ring-{name}"));
        fs::create_dir_all(&ring).unwrap();
        let (_, file) = files.iter().find(|(known, _)| *known == name).unwrap();
        fs::copy(file, ring.join("Hub.pem")).unwrap();
        let id = world.new_id();
        world.deliver(Message::get(&id, "greenbank").without(SIGNATURE));
        let seen = world.dfsp("greenbank").next(&id);
        assert_eq!(is_genuine(&seen, &KeyRing::load(&ring, false).unwrap()), Ok(()), "by {name}");
    };
    // A file that is not there yet is no next key.
    shown(&[("current", "first")]);
    fs::rename(keys.path("made").join("second.key"), &next).unwrap();
    shown(&[("next", "second"), ("current", "first")]);
    signs_by("first");
    fs::rename(&next, keys.path("own").join("Hub.key")).unwrap();
    shown(&[("current", "second"), ("previous", "first")]);
    signs_by("second");
    // A file that cannot be used keeps the key, and raises the alarm.
    let file = keys.path("own").join("Hub.key");
    let sound = fs::read(&file).unwrap();
    for unusable in [&b"nonsense"[..], &[]] {
        fs::write(&file, unusable).unwrap();
        world.hub().reload_keys();
        world.until(&1, || world.metric("upesi_jws_reload_failing"));
        signs_by("second");
        fs::write(&file, &sound).unwrap();
        world.hub().reload_keys();
        world.until(&0, || world.metric("upesi_jws_reload_failing"));
    }
    world.clock.advance(24 * 60 * 60 * 1_000 + 1);
    shown(&[("current", "second")]);
    world.stop_and_audit();
}

#[test]
fn a_hub_without_usable_keys_does_not_start() {
    let keys = Keys::new();
    let file = keys.path("public").join("bluewallet.pem");
    fs::write(&file, "nonsense").unwrap();
    let public = keys.path("public").display().to_string();
    let refused = World::refused(&[("jws.mode", "warn"), ("jws.keys_dir", &public)]);
    let expected = format!("jws: {} has no public key in PEM", file.display());
    assert!(refused.contains(&expected), "{refused}");
    let refused = World::refused(&[("jws.signing_key_file", "/nowhere/hub.key")]);
    assert!(refused.contains("jws.signing_key_file: /nowhere/hub.key: "), "{refused}");
}
