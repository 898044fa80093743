//! The commands of README that make a first payment: with a hub without security, and with a secured one.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support_command::upesi;
use crate::support_trial::{Running, call, free_port, text};
use upesi_pki::Trial;
use upesi_tls::ClientFiles;

const PARTY: &str = "260001000000001";

/// A party of the payee is registered and paid, as in README.
fn pay(reach: &[&str], payer: &str, payee: &str) {
    let register = upesi(&["sim", "register", payee, PARTY]).args(reach).output().unwrap();
    let told = String::from_utf8(register.stdout).unwrap();
    assert_eq!(told, format!("MSISDN {PARTY} is a party of {payee}\n"), "{:?}", register.stderr);
    let paid = upesi(&["sim", "pay", payer, PARTY, "12.5", "KES"]).args(reach).output().unwrap();
    let told = String::from_utf8(paid.stdout).unwrap();
    assert!(
        told.starts_with(&format!("{payer} paid 12.5 KES to MSISDN {PARTY} in ")),
        "{told} {:?}",
        paid.stderr
    );
    assert!(paid.status.success() && told.ends_with(": COMMITTED\n"), "{told}");
}

#[test]
fn example_scheme_can_pay() {
    let directory = tempfile::tempdir().unwrap();
    let [fspiop, admin, sim] =
        [free_port(), free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let data = directory.path().join("data");
    let hub = upesi(&["serve", "--data", text(&data), "--fspiop", &fspiop, "--admin", &admin])
        .args(["--set", "data.reserve_bytes=0"])
        .stderr(Stdio::null())
        .spawn();
    let _hub = Running(hub.unwrap());
    let mut dfsps =
        upesi(&["sim", "--listen", &sim, "--currency", "KES", "--hub", &format!("http://{fspiop}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    // The first line comes when they listen.
    let said = BufReader::new(dfsps.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let _dfsps = Running(dfsps);
    assert_eq!(said, format!("dfsp-1 http://{sim}/dfsp-1"));
    let scheme = include_str!("../../../../examples/scheme.toml").replace("127.0.0.1:5000", &sim);
    let file = directory.path().join("scheme.toml");
    std::fs::write(&file, scheme).unwrap();
    let apply = ["scheme", "apply", text(&file), "--admin", &format!("http://{admin}")];
    let applied = upesi(&apply).output().unwrap();
    assert!(applied.status.success(), "{applied:?}");

    let url = format!("http://{sim}");
    let reach = ["--sim", url.as_str()];
    let unknown = upesi(&["sim", "pay", "dfsp-1", PARTY, "12.5", "KES"]).args(reach).output().unwrap();
    let told = String::from_utf8(unknown.stderr).unwrap();
    assert!(!unknown.status.success() && told.contains("the lookup failed: 3204 "), "{told}");
    assert!(told.ends_with("\n`upesi sim register` registers a party\n"), "{told}");
    let nobody = upesi(&["sim", "pay", "dfsp-9", PARTY, "12.5", "KES"]).args(reach).output().unwrap();
    let told = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!(told, format!("upesi: {url} has no simulated DFSP dfsp-9\n"));
    pay(&reach, "dfsp-1", "dfsp-2");
}

#[test]
fn three_commands_create_a_secured_hub_and_two_dfsps() {
    let directory = tempfile::tempdir().unwrap();
    let (dir, data) = (directory.path().join("trial"), directory.path().join("data"));
    let made = upesi(&["pki", "trial", "--dir", text(&dir), "greenbank", "bluewallet"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let ports = [free_port(), free_port()];
    let [fspiop, admin] = ports.map(|port| format!("127.0.0.1:{port}"));
    let hub = upesi(&["serve", "--config", text(&dir.join("hub.toml")), "--data", text(&data)])
        .args(["--fspiop", &fspiop, "--admin", &admin, "--set", "data.reserve_bytes=0"])
        .stderr(Stdio::null())
        .spawn();
    let _hub = Running(hub.unwrap());
    let mut dfsps = upesi(&["sim", "--trial", text(&dir), "--listen", "127.0.0.1:0", "--currency", "KES"])
        .args(["--hub", &format!("https://{fspiop}"), "--admin", &format!("https://{admin}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(dfsps.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let progress = BufReader::new(dfsps.stderr.take().unwrap()).lines().map_while(Result::ok);
    let dfsps = Running(dfsps);
    let base = said.strip_prefix("greenbank ").unwrap_or_else(|| panic!("{said}")).to_owned();
    // The scheme is applied when its last line, the count, is printed.
    let applied: Vec<String> = progress.take_while(|line| !line.contains("unchanged")).collect();
    let bindings = applied.iter().filter(|line| line.contains("binding")).count();
    assert_eq!(bindings, 2, "{applied:#?}");

    let trial = Trial::open(&dir).unwrap();
    let reach = ["--sim", base.strip_suffix("/greenbank").unwrap(), "--trial", text(&dir)];
    pay(&reach, "greenbank", "bluewallet");
    let accounts = format!("https://{admin}/participants/greenbank/positions?currency=KES");
    let position = call(Some(trial.operator()), &accounts, "").unwrap();
    assert!(String::from_utf8_lossy(&position.body).contains("12.5"), "{position:?}");

    // A DFSP is not an operator, an operator is not a DFSP, and a client without a certificate is neither.
    call(Some(trial.dfsp("greenbank")), &accounts, "").unwrap_err();
    call(Some(trial.operator()), &format!("https://{fspiop}/health"), "").unwrap_err();
    let stranger = ClientFiles { identity: None, ..trial.operator() };
    call(Some(stranger), &format!("https://{fspiop}/health"), "").unwrap_err();
    let clear = call(None, &format!("http://{fspiop}/transfers/1"), "").unwrap();
    assert_eq!(clear.status, 400);
    drop(dfsps);
}
