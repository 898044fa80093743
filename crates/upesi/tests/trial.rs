//! Three commands create a secured hub and two DFSPs, as README and docs/tls.md show.

mod support_command;
mod support_trial;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use support_command::upesi;
use support_trial::{Running, call, free_port, text};
use upesi_pki::Trial;
use upesi_tls::ClientFiles;

#[test]
fn three_commands_make_a_secured_hub_and_two_dfsps() {
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
    let payment =
        r#"{"to":{"idType":"MSISDN","idValue":"260001000000001"},"amount":"12.5","currency":"KES"}"#;
    let register = r#"{"idType":"MSISDN","idValue":"260001000000001"}"#;
    let bluewallet = base.replace("greenbank", "bluewallet");
    let registered =
        call(Some(trial.dfsp("bluewallet")), &format!("{bluewallet}/parties"), register).unwrap();
    assert!(registered.status.is_success(), "{registered:?}");
    let paid = call(Some(trial.dfsp("greenbank")), &format!("{base}/payments"), payment).unwrap();
    let body = String::from_utf8_lossy(&paid.body);
    assert!(paid.status.is_success() && body.contains("COMMITTED"), "{} {body}", paid.status);
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
