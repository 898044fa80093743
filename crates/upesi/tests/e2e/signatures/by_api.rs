//! Keys that come by the admin API, beside those in files.

use super::*;
use crate::common::client::{Client, request};
use serde_json::{Value, json};
use upesi_hub::make_bootstrap;

const HOUR_MS: i64 = 3_600_000;

fn pem(keys: &Keys, name: &str) -> String {
    fs::read_to_string(keys.path("own").join(format!("{name}.pem"))).unwrap()
}

/// SHA-256 over a key, as operators write it.
fn digest(keys: &Keys, name: &str) -> String {
    let file = keys.path(&format!("ring-of-{name}"));
    fs::create_dir_all(&file).unwrap();
    fs::write(file.join("one.pem"), pem(keys, name)).unwrap();
    let ring = KeyRing::load(&file, false).unwrap();
    upesi_types::hex(&ring.views().next().unwrap().sha256)
}

/// What comes of a prepare of greenbank that one of the keys signed.
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

const PATH: &str = "/participants/greenbank/signatureKeys";

/// The state and the source of each key of greenbank, by the names of the keys.
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
fn keys_overlap_until_their_time_whichever_source_they_have() {
    let keys = Keys::new();
    for name in ["second", "third"] {
        keys.make(name);
    }
    let mut world = keys.world(&[("jws.mode", "enforce")]);
    is_taken(&world, &keys, "greenbank");
    is_wrong(&world, &keys, "second");
    let add = |world: &World, body: Value| world.admin("POST", PATH, &body.to_string());
    // From now on; the file's key counts for an hour more.
    let added = add(&world, json!({"publicKey": pem(&keys, "second"), "overlapHours": 1}));
    assert_eq!(added.body, json!({"sha256": digest(&keys, "second")}).to_string());
    let names = ["greenbank", "second", "third"];
    is_taken(&world, &keys, "second");
    is_taken(&world, &keys, "greenbank");
    assert_eq!(listed(&world, &keys, &names), ["second current ledger", "greenbank previous file"]);
    // The next one is announced, and counts already.
    let starts = world.now().plus_ms(2 * HOUR_MS).to_string();
    let third = json!({"publicKey": pem(&keys, "third"), "starts": starts, "overlapHours": 1});
    assert_eq!(add(&world, third).status, 201);
    is_taken(&world, &keys, "third");
    world.clock.advance(HOUR_MS + 60_000);
    is_wrong(&world, &keys, "greenbank");
    is_taken(&world, &keys, "second");
    let expected = ["second current ledger", "third next ledger", "greenbank retired file"];
    assert_eq!(listed(&world, &keys, &names), expected);
    // As the files say it, too: they are over for this participant.
    world.hub().reload_keys();
    world.restart();
    is_wrong(&world, &keys, "greenbank");
    is_taken(&world, &keys, "second");
    is_taken(&world, &keys, "third");
    world.clock.advance(2 * HOUR_MS);
    is_wrong(&world, &keys, "second");
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
fn what_is_no_key_of_the_participant_is_refused() {
    let keys = Keys::new();
    keys.make("second");
    // Without files at all.
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
    refused(&world, other, &pem(&keys, "second"), "3000", "Participant 'greenbank' signs by this key");
    let unknown = world.admin("DELETE", &format!("{PATH}/{}", digest(&keys, "greenbank")), "");
    assert_eq!(unknown.error_code(), Some("3200"), "{unknown:?}");
    // A key in a file is that participant's.
    let public = keys.path("public").display().to_string();
    world.restart_with(&[("jws.keys_dir", &public), ("jws.es256", "true")]);
    refused(
        &world,
        PATH,
        &pem(&keys, "bluewallet"),
        "3000",
        "Participant 'bluewallet' has this key in its file",
    );
    // In another form, with the setting.
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
fn two_people_add_a_key_and_one_revokes_it_at_once_and_for_good() {
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
    // One person, without overlap, also of the key in the file.
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
    assert!(again.body.contains("This key was revoked, which is for good"), "{again:?}");
    // Who did it is in the trail.
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
