//! A command replaces the keys of a DFSP. Meanwhile no message of the DFSP is rejected.

use std::fs;
use std::path::Path;

use serde_json::Value;
use upesi_pki::{KeyKind, SigningKey, Usage};

use super::{code, text};
use crate::common::World;
use crate::common::message::{Message, Terms};
use crate::common::secure::{Caller, Pki, answered, pay};
use crate::support_command::upesi;

/// Runs a command about greenbank. Returns its exit code, stdout and stderr.
fn run(world: &World, command: &str, file: &Path, more: &[&str]) -> (i32, String, String) {
    let (admin, file) = (world.admin_url(), file.display().to_string());
    let arguments = [&["dfsp", command, "greenbank", &file, "--admin", &admin], more].concat();
    let output = upesi(&arguments).output().unwrap();
    (code(&output), text(&output.stdout), text(&output.stderr))
}

/// The status of a prepare of greenbank.
fn status(world: &World, caller: &Caller) -> u16 {
    answered(world, caller, &Message::prepare(&Terms::new(&world.new_id(), world.now())).into_sent()).0
}

#[test]
fn certificate_is_replaced_with_an_overlap() {
    let mut pki = Pki::new();
    let mut world = pki.world(&["greenbank", "bluewallet"], &[]);
    let blue = pki.caller(Some("bluewallet"), world.fspiop());
    let old = pki.caller(Some("greenbank"), world.fspiop());
    pay(&world, &old, &blue, "1");
    let present = world.operate("GET", "/participants/greenbank/bindings", "");
    let former = format!("spki-sha256:{}", present[0]["value"].as_str().unwrap());
    let binding = pki.issue(Usage::Client, "greenbank");
    let new = pki.caller(Some("greenbank"), world.fspiop());
    assert_eq!(status(&world, &new), 403, "it is not bound");

    let (file, key) = (pki.file("greenbank.pem"), pki.file("greenbank.key"));
    let rotate = |more: &[&str]| run(&world, "rotate-certificate", &file, more);
    let (exit, _, error) = rotate(&["--finish"]);
    assert!(exit == 1 && error.contains("bind it first, without --finish"), "{exit} {error}");
    let (exit, output, error) = rotate(&[]);
    assert_eq!(exit, 0, "{error}");
    assert!(
        output.contains(&format!("bound         {binding}, until "))
            && output.contains(&format!("valid         {former}\n"))
            && output.contains("rotate-certificate greenbank "),
        "{output}"
    );
    pay(&world, &old, &blue, "1");
    pay(&world, &new, &blue, "1");
    let (exit, output, _) = rotate(&["--json"]);
    let shown: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((exit, &shown["state"], &shown["valid"][0]), (0, &"already bound".into(), &former.into()));

    let (exit, _, error) = rotate(&["--finish"]);
    assert!(exit == 75 && error.contains("used 2 certificates"), "{exit} {error}");
    pay(&world, &old, &blue, "1");
    let (exit, output, error) = rotate(&["--finish", "--force"]);
    assert!(exit == 0 && output.contains("removed       spki-sha256:"), "{error}{output}");
    pay(&world, &new, &blue, "1");
    assert_eq!(status(&world, &old), 403);
    for (file, problem) in [
        (&key, "contains a private key, which must stay with its owner"),
        (&pki.file("hub.pem"), "is not a client certificate"),
        (&pki.file("crl.pem"), "has no certificate in PEM"),
    ] {
        let (exit, _, error) = run(&world, "rotate-certificate", file, &[]);
        assert!(exit == 65 && error.contains(problem), "{exit} {error}");
    }
    drop((old, new, blue));
    world.stop_and_audit();
}

/// Works without force when the hub has seen only the new certificate. Bindings that are not of a certificate stay.
#[test]
fn earlier_bindings_are_removed_after_the_changeover() {
    let mut pki = Pki::new();
    let mut world = pki.world(&["greenbank", "bluewallet"], &[]);
    world.bind("greenbank", "san-dns:green.example");
    pki.issue(Usage::Client, "greenbank");
    let file = pki.file("greenbank.pem");
    let rotate = |more: &[&str]| run(&world, "rotate-certificate", &file, more);
    assert_eq!(rotate(&[]).0, 0);
    let (exit, _, error) = rotate(&["--finish"]);
    assert!(exit == 75 && error.contains("used no certificate"), "{exit} {error}");
    let new = pki.caller(Some("greenbank"), world.fspiop());
    let blue = pki.caller(Some("bluewallet"), world.fspiop());
    pay(&world, &new, &blue, "1");
    world.until(&true, || rotate(&["--finish"]).0 == 0);
    let left = world.operate("GET", "/participants/greenbank/bindings", "");
    let mut kinds: Vec<_> =
        left.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["san-dns", "spki-sha256"], "{left}");
    pay(&world, &new, &blue, "1");
    drop((new, blue));
    world.stop_and_audit();
}

#[test]
fn signing_key_is_replaced_with_an_overlap() {
    let mut world = World::new(&[]);
    let directory = tempfile::tempdir().unwrap();
    let [first, second] =
        ["first", "second"].map(|name| SigningKey::make(directory.path(), name, KeyKind::Rsa2048).unwrap());
    let add = |file: &Path, more: &[&str]| run(&world, "signing-key", file, more);
    let (exit, _, error) = add(&first.key_file, &[]);
    assert!(exit == 65 && error.contains("is a private key"), "{exit} {error}");
    let (exit, output, error) = add(&first.public_file, &[]);
    assert!(exit == 0 && output.starts_with("greenbank, added\n  current   sha256:"), "{error}{output}");
    let (exit, output, error) = add(&second.public_file, &["--overlap-hours", "48", "--json"]);
    assert_eq!(exit, 0, "{error}");
    let shown: Value = serde_json::from_str(&output).unwrap();
    let states: Vec<_> = shown["keys"].as_array().unwrap().iter().map(|key| &key["state"]).collect();
    assert_eq!(states, ["previous", "current"], "{shown}");
    let day = |time: &Value| upesi_types::Timestamp::parse_iso(time.as_str().unwrap()).unwrap();
    let overlap = day(&shown["keys"][0]["ends"]).since(day(&shown["keys"][1]["starts"]));
    assert_eq!(overlap.as_secs(), 48 * 3_600);
    let (exit, output, _) = add(&second.public_file, &[]);
    assert!(exit == 0 && output.starts_with("greenbank, already added\n  previous  sha256:"), "{output}");
    fs::write(&second.public_file, "no key").unwrap();
    assert_eq!(add(&second.public_file, &[]).0, 65);
    world.stop_and_audit();
}
