//! A whole hub that verifies the signatures of its DFSPs, and signs its own messages.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use upesi_admin::make_bootstrap;
use upesi_jws::{KeyRing, PrivateKey, SIGNATURE};
use upesi_pki::{KeyKind, SigningKey};

use crate::common::World;
use crate::common::dfsp::{Answer, Client, request};
use crate::common::message::{Message, Terms, family, media_type};
use crate::common::secure::Pki;
use crate::common::signed::{Keys, is_genuine, signed_by};

fn is_refused(answer: &Answer, reason: &str) {
    let expected = format!(
        r#"{{"errorInformation":{{"errorCode":"3105","errorDescription":"Invalid signature - {reason}"}}}}"#
    );
    assert_eq!((answer.status, &*answer.body), (400, &*expected));
}

fn faults(world: &World, fsp: &str, reason: &str, mode: &str) -> u64 {
    world.metric(&format!("upesi_jws_faults_total{{fsp=\"{fsp}\",reason=\"{reason}\",mode=\"{mode}\"}}"))
}

/// A payment whose messages are all signed.
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
    // The hub's own messages, a state and an error, have its signature.
    world.deliver(Message::get(&id, "greenbank").without(SIGNATURE));
    let state = world.dfsp("greenbank").next(&id);
    assert_eq!((state.header("fspiop-source"), is_genuine(&state, &keys.ring())), (Some("Hub"), Ok(())));
    let other = world.new_id();
    let broke = Terms { amount: "1000000".to_owned(), ..Terms::new(&other, world.now()) };
    world.deliver(signed_by(Message::prepare(&broke), &keys.of("greenbank")));
    let error = world.dfsp("greenbank").next(&other);
    assert!(error.path.ends_with("/error"), "{}", error.path);
    assert_eq!((error.header("fspiop-source"), is_genuine(&error, &keys.ring())), (Some("Hub"), Ok(())));
    // A receiver would detect another key, and another body.
    let mut altered = error.clone();
    altered.body = [&altered.body[..], b" "].concat().into();
    assert_eq!(is_genuine(&altered, &keys.ring()), Err("the signature does not match".to_owned()));
    world.stop_and_audit();
}

/// The messages of all routes that change something, with the sender's headers.
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
fn message_not_signed_by_its_sender_changes_nothing() {
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
        refused(moved, "FSPIOP-URI of the protected header differs from the message");
        let mut altered = signed_by(fresh.clone(), &green);
        altered.body.push(b' ');
        refused(altered, "the signature does not match");
        let swapped = signed_by(fresh, &keys.of("bluewallet")).header("fspiop-source", "bluewallet");
        refused(swapped, "fspiop-source of the protected header differs from the message");
    }
    // Queries need no signature, but a wrong one is rejected.
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
    // The age of a message is judged by the hub's time, so a jump of the wall clock makes no message too old.
    for hour_ms in [3_600_000, -3_600_000] {
        world.clock.jump(hour_ms);
        world.until(&true, || world.operate("GET", "/clock", "")["jumpMs"] != 0);
        is_taken(register(Some(&world.clock.unset().http_date().to_string())));
        world.clock.jump(-hour_ms);
        world.until(&true, || world.operate("GET", "/clock", "")["jumpMs"] == 0);
    }
}

/// Mojaloop's library does not sign `DELETE`, and may leave `Date` unsigned. The hub accepts both only on a connection
/// whose certificate proves the sender.
#[test]
fn unsigned_parts_of_mojaloops_library_need_a_certificate() {
    let keys = Keys::new();
    let public = keys.path("public").display().to_string();
    // The answer to a lookup is signed for it; no lookup was made here.
    let settings = [("jws.mode", "enforce"), ("jws.keys_dir", &*public), ("relay.unasked_answers", "true")];
    let of_greenbank = |world: &World| {
        let date = world.now().http_date().to_string();
        let find = |method: &str, path: &str| {
            let all = messages(world).into_iter();
            let mut found = all.filter(|message| message.method == method && message.path == path);
            found.next().unwrap().header("date", &date)
        };
        let delete = find("DELETE", "/participants/MSISDN/26097").without(SIGNATURE);
        let answer = find("PUT", "/parties/MSISDN/26097").without("date");
        let undated = signed_by(answer, &keys.of("greenbank")).header("date", &date);
        [delete, undated]
    };
    let mut pki = Pki::new();
    let mut world = pki.world(&["greenbank", "bluewallet"], &settings);
    let caller = pki.caller(Some("greenbank"), world.fspiop());
    for message in of_greenbank(&world) {
        let sent = message.into_sent();
        let answer = world.wait(caller.send(&sent)).unwrap();
        assert_ne!(answer.error_code(), Some("3105"), "{} {}: {answer:?}", sent.method, sent.path);
        assert!(answer.status < 300, "{} {}: {answer:?}", sent.method, sent.path);
    }
    drop(caller);
    world.stop_and_audit();
    let world = keys.world(&[("jws.mode", "enforce")]);
    let reasons = ["FSPIOP-Signature is missing", "Date is not in the protected header"];
    for (message, reason) in of_greenbank(&world).into_iter().zip(reasons) {
        is_refused(&world.send(message).0, reason);
    }
}

#[test]
fn unsigned_messages_in_warn_mode_are_accepted_and_counted() {
    let keys = Keys::new();
    let mut world = keys.world(&[
        ("jws.mode", "enforce"),
        ("dfsp.GreenBank.signatures", "warn"),
        ("dfsp.bluewallet.signatures", "off"),
    ]);
    let id = world.new_id();
    let prepare = Message::prepare(&Terms::new(&id, world.now()));
    world.deliver(prepare.without(SIGNATURE));
    world.dfsp("bluewallet").next(&id);
    // The signature is not checked.
    world.deliver(Message::fulfil(&id, "COMMITTED"));
    world.dfsp("greenbank").next(&id);
    assert_eq!(&*world.position("greenbank"), "10");
    assert_eq!(faults(&world, "greenbank", "missing", "warn"), 1);
    let text = world.admin("GET", "/metrics", "").body;
    assert!(!text.contains("upesi_jws_faults_total{fsp=\"bluewallet\""), "{text}");
    world.stop_and_audit();
}

#[test]
fn key_files_are_reloaded_and_unusable_ones_change_nothing() {
    let keys = Keys::new();
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    pay(&world, &keys, "10");
    let send = |key: &PrivateKey| {
        let message = Message::prepare(&Terms::new(&world.new_id(), world.now()));
        world.send(signed_by(message, key)).0
    };
    // A third DFSP's key replaces greenbank's, as after a rotation.
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

/// The hub's keys as operators see them: whether each signs, and which public file it has.
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
fn key_of_the_hub_is_replaced_after_the_next_one_was_shown() {
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
    // Without the file, the hub has no next key.
    shown(&[("current", "first")]);
    fs::rename(keys.path("made").join("second.key"), &next).unwrap();
    shown(&[("next", "second"), ("current", "first")]);
    signs_by("first");
    fs::rename(&next, keys.path("own").join("Hub.key")).unwrap();
    shown(&[("current", "second"), ("previous", "first")]);
    signs_by("second");
    // If the file cannot be used, the key stays in use and the alarm is raised.
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
fn unusable_key_file_stops_only_its_dfsp_or_the_hub() {
    let keys = Keys::new();
    fs::write(keys.path("public").join("bluewallet.pem"), "nonsense").unwrap();
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    assert_eq!(world.metric("upesi_jws_key_file_unusable{fsp=\"bluewallet\"}"), 1);
    assert_eq!(world.metric("upesi_jws_reload_failing"), 1);
    let id = world.new_id();
    world.deliver(signed_by(Message::prepare(&Terms::new(&id, world.now())), &keys.of("greenbank")));
    world.dfsp("bluewallet").next(&id);
    let (answer, _) = world.send(signed_by(Message::fulfil(&id, "COMMITTED"), &keys.of("bluewallet")));
    is_refused(&answer, "the sender's key file cannot be used");
    assert_eq!(faults(&world, "bluewallet", "key_file", "enforce"), 1);
    keys.publish("bluewallet");
    world.hub().reload_keys();
    world.until(&0, || world.metric("upesi_jws_reload_failing"));
    world.deliver(signed_by(Message::fulfil(&id, "COMMITTED"), &keys.of("bluewallet")));
    world.dfsp("greenbank").next(&id);
    world.stop_and_audit();
    let refused = World::refused(&[("jws.mode", "warn"), ("jws.keys_dir", "/nowhere")]);
    assert!(refused.contains("jws: /nowhere: "), "{refused}");
    let refused = World::refused(&[("jws.signing_key_file", "/nowhere/hub.key")]);
    assert!(refused.contains("jws.signing_key_file: /nowhere/hub.key: "), "{refused}");
}

// Keys from the admin API, in addition to those in files.

const HOUR_MS: i64 = 3_600_000;

fn pem(keys: &Keys, name: &str) -> String {
    fs::read_to_string(keys.path("own").join(format!("{name}.pem"))).unwrap()
}

/// SHA-256 of a key, as operators write it.
fn digest(keys: &Keys, name: &str) -> String {
    let file = keys.path(&format!("ring-of-{name}"));
    fs::create_dir_all(&file).unwrap();
    fs::write(file.join("one.pem"), pem(keys, name)).unwrap();
    let ring = KeyRing::load(&file, false).unwrap();
    upesi_types::hex(&ring.views().next().unwrap().sha256)
}

/// The answer to a prepare of greenbank that one of the keys signed.
fn send(world: &World, keys: &Keys, name: &str) -> Answer {
    let message = Message::prepare(&Terms::new(&world.new_id(), world.now()));
    world.send(signed_by(message, &keys.of(name))).0
}

fn is_taken(world: &World, keys: &Keys, name: &str) {
    let answer = send(world, keys, name);
    assert_eq!(answer.status, 202, "{name}: {answer:?}");
}

fn is_wrong(world: &World, keys: &Keys, name: &str) {
    is_refused(&send(world, keys, name), "the signature does not match");
}

fn has_expired(world: &World, keys: &Keys, name: &str) {
    is_refused(&send(world, keys, name), "the sender's key or its certificate has expired");
}

const PATH: &str = "/participants/greenbank/signatureKeys";

/// State and source of each key of greenbank, by the names of the keys.
fn listed(world: &World, keys: &Keys, names: &[&str]) -> Vec<String> {
    let listing = world.operate("GET", PATH, "");
    let name = |key: &Value| {
        let is_it = |name: &&&str| key["sha256"] == digest(keys, name).as_str();
        names.iter().find(is_it).map_or("?", |name| name).to_owned()
    };
    let entry = |key: &Value| {
        format!("{} {} {}", name(key), key["state"].as_str().unwrap(), key["source"].as_str().unwrap())
    };
    listing["keys"].as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn keys_of_both_sources_overlap_until_their_end() {
    let keys = Keys::new();
    for name in ["second", "third"] {
        keys.make(name);
    }
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    is_taken(&world, &keys, "greenbank");
    is_wrong(&world, &keys, "second");
    let add = |world: &World, body: Value| world.admin("POST", PATH, &body.to_string());
    // Valid from now on. The file's key is accepted for another hour.
    let added = add(&world, json!({"publicKey": pem(&keys, "second"), "overlapHours": 1}));
    assert_eq!(added.body, json!({"sha256": digest(&keys, "second")}).to_string());
    let names = ["greenbank", "second", "third"];
    is_taken(&world, &keys, "second");
    is_taken(&world, &keys, "greenbank");
    assert_eq!(listed(&world, &keys, &names), ["second current ledger", "greenbank previous file"]);
    // The next key is announced, and already accepted.
    let starts = world.now().plus_ms(2 * HOUR_MS).to_string();
    let third = json!({"publicKey": pem(&keys, "third"), "starts": starts, "overlapHours": 1});
    assert_eq!(add(&world, third).status, 201);
    is_taken(&world, &keys, "third");
    world.clock.advance(HOUR_MS + 60_000);
    has_expired(&world, &keys, "greenbank");
    is_taken(&world, &keys, "second");
    let expected = ["second current ledger", "third next ledger", "greenbank retired file"];
    assert_eq!(listed(&world, &keys, &names), expected);
    // The keys are revoked for this participant even if files contain them.
    world.hub().reload_keys();
    world.restart();
    has_expired(&world, &keys, "greenbank");
    is_taken(&world, &keys, "second");
    is_taken(&world, &keys, "third");
    world.clock.advance(2 * HOUR_MS);
    has_expired(&world, &keys, "second");
    is_taken(&world, &keys, "third");
    assert_eq!(listed(&world, &keys, &names)[..2], ["second retired ledger", "third current ledger"]);
    let all = world.operate("GET", "/signatures/participants", "");
    let all = all["participants"].as_array().unwrap();
    let names: Vec<_> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["greenbank", "bluewallet"]);
    assert_eq!(all[0]["keys"].as_array().unwrap().len(), 1);
    assert_eq!(all[0]["keys"][0]["publicKey"].as_str().unwrap(), pem(&keys, "third"));
    world.stop_and_audit();
}

#[test]
fn key_of_another_participant_or_form_is_rejected() {
    let keys = Keys::new();
    keys.make("second");
    // Without any files.
    let mut world = World::new(&[("jws.mode", "enforce")]);
    is_refused(&send(&world, &keys, "second"), "no key of the sender is known");
    let refused = |world: &World, path: &str, key: &str, code: &str, text: &str| {
        let body = json!({"publicKey": key}).to_string();
        let answer = world.admin("POST", path, &body);
        assert_eq!((answer.status, answer.error_code()), (400, Some(code)), "{answer:?}");
        assert!(answer.body.contains(text), "{text}: {answer:?}");
    };
    let private = fs::read_to_string(keys.path("own").join("second.key")).unwrap();
    refused(&world, PATH, &private, "3101", "is a private key, which must stay with its owner");
    refused(&world, PATH, "nonsense", "3101", "must be one key");
    let two = format!("{}{}", pem(&keys, "second"), pem(&keys, "greenbank"));
    refused(&world, PATH, &two, "3101", "must be one key");
    let elliptic = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    refused(&world, PATH, elliptic, "3101", "is a P-256 key, and jws.es256 is off");
    refused(
        &world,
        "/participants/Hub/signatureKeys",
        &pem(&keys, "second"),
        "3100",
        "own keys are in files",
    );
    let body = json!({"publicKey": pem(&keys, "second")}).to_string();
    world.operate("POST", PATH, &body);
    is_taken(&world, &keys, "second");
    let other = "/participants/bluewallet/signatureKeys";
    refused(&world, other, &pem(&keys, "second"), "3000", "Participant 'greenbank' has this signing key");
    let unknown = world.admin("DELETE", &format!("{PATH}/{}", digest(&keys, "greenbank")), "");
    assert_eq!(unknown.error_code(), Some("3200"), "{unknown:?}");
    // A key in a file belongs to that participant.
    let public = keys.path("public").display().to_string();
    world.restart_with(&[("jws.keys_dir", &public), ("jws.es256", "true")]);
    refused(
        &world,
        PATH,
        &pem(&keys, "bluewallet"),
        "3000",
        "Participant 'bluewallet' has this key in its file",
    );
    // The key is a JSON Web Key, and the setting allows P-256.
    let jwk: Value = serde_json::from_str(elliptic).unwrap();
    world.operate("POST", PATH, &json!({"publicKey": jwk}).to_string());
    is_taken(&world, &keys, "second");
    world.stop_and_audit();
}

/// A call of an operator.
fn call(world: &World, token: &str, line: &str, body: &str) -> Answer {
    let headers = [
        ("host", "localhost".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("authorization", format!("Bearer {token}")),
        ("upesi-reason", "as greenbank asked".to_owned()),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    Client::connect(world.hub().admin_address()).exchange(&request(line, &headers, body.as_bytes()))
}

fn operator(world: &World, admin: &str, name: &str, roles: &[&str]) -> String {
    let made = call(world, admin, "POST /operators", &json!({"name": name, "roles": roles}).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let token = call(world, admin, &format!("POST /operators/{name}/tokens"), "{}");
    let token: Value = serde_json::from_str(&token.body).unwrap();
    token["token"].as_str().unwrap().to_owned()
}

#[test]
fn key_is_added_by_two_operators_and_revoked_by_one() {
    let keys = Keys::new();
    keys.make("second");
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    world.restart_with(&[("admin.authentication", "required")]);
    let bootstrap = make_bootstrap(world.data()).unwrap();
    let admin = operator(&world, &bootstrap, "ines", &["iam-admin"]);
    let maker = operator(&world, &admin, "sam", &["security-officer"]);
    let checker = operator(&world, &admin, "omar", &["operations-approver"]);
    let viewer = operator(&world, &admin, "vera", &["viewer"]);
    let body = json!({"publicKey": pem(&keys, "second")}).to_string();
    let post = format!("POST {PATH}");
    for token in [&checker, &viewer] {
        assert_eq!(call(&world, token, &post, &body).status, 403);
    }
    let waiting = call(&world, &maker, &post, &body);
    let waiting: Value = serde_json::from_str(&waiting.body).unwrap();
    assert_eq!((&waiting["state"], &waiting["action"]), (&json!("pending"), &json!("jws.add")));
    is_wrong(&world, &keys, "second");
    let approve = format!("POST /approvals/{}/approve", waiting["approvalId"]);
    assert_eq!(call(&world, &maker, &approve, "{}").status, 403);
    is_wrong(&world, &keys, "second");
    assert_eq!(call(&world, &checker, &approve, "{}").status, 200);
    is_taken(&world, &keys, "second");
    is_taken(&world, &keys, "greenbank");
    // A single operator may revoke a key. The key ends immediately, even if it is in a file.
    let revoke = |world: &World, name: &str| {
        let answer = call(world, &maker, &format!("DELETE {PATH}/{}", digest(&keys, name)), "");
        assert_eq!(answer.status, 204, "{answer:?}");
    };
    revoke(&world, "greenbank");
    is_wrong(&world, &keys, "greenbank");
    is_taken(&world, &keys, "second");
    revoke(&world, "second");
    is_refused(&send(&world, &keys, "second"), "no key of the sender is known");
    world.restart();
    is_refused(&send(&world, &keys, "second"), "no key of the sender is known");
    is_refused(&send(&world, &keys, "greenbank"), "no key of the sender is known");
    let again = call(&world, &maker, &post, &body);
    assert_eq!(again.error_code(), Some("3100"), "{again:?}");
    assert!(again.body.contains("This key was revoked, which is permanent"), "{again:?}");
    // The trail names the operator.
    let trail = call(&world, &maker, "GET /audit", "").body;
    let trail: Value = serde_json::from_str(&trail).unwrap();
    let entries = trail["entries"].as_array().unwrap().iter().filter(|entry| entry["outcome"] == "done");
    let about_second = |entry: &&Value| {
        entry["object"].as_str().is_some_and(|object| object.contains(&digest(&keys, "second")))
    };
    let told: Vec<_> = entries
        .filter(about_second)
        .map(|entry| (entry["operator"].clone(), entry["onBehalfOf"].clone(), entry["after"] == "revoked"))
        .collect();
    let expected = [
        (json!("sam"), Value::Null, false),
        (json!("omar"), json!("sam"), false),
        (json!("sam"), Value::Null, true),
    ];
    assert_eq!(told, expected, "{trail:#}");
    world.stop_and_audit();
}
