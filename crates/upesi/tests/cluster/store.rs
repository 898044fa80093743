//! The directory of a cluster. DFSPs register parties and an operator imports a file while leaders end. Every later
//! leader knows the oracles and every acknowledged party.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::support_crash::scene::World;
use crate::brokers::shared;
use crate::common::dfsp::Client;
use crate::support_crash::hub::{Hub, PATIENCE, SERVING, upesi};
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::support_registrations::{Told, are_there, operate, start};
use crate::{end, follows, follows_again, makes_topic, metrics, nodes, stops, told};

/// One change of leader of each kind, and one more, so that each node has been the leader twice.
const TAKE_OVERS: u64 = 4;
/// Acknowledged registrations between two changes of the leader.
const REGISTRATIONS: u64 = 60;
/// Parties of the file, which are several chunks.
const IMPORTED: u64 = 45_000;
const IMPORTS_MAX: u32 = 5;
const ORACLE: &str =
    r#"{"oracleIdType":"ALIAS","endpoint":{"value":"http://127.0.0.1:9","endpointType":"URL"}}"#;

fn write_parties(file: &Path) {
    let mut text = String::from("partyIdType,partyIdentifier,fspId\n");
    for number in 0..IMPORTED {
        let _ = writeln!(text, "MSISDN,2609{number:06},dfsp-2");
    }
    std::fs::write(file, text).unwrap();
}

fn import(world: &World, file: &Path) -> Child {
    let mut command = upesi();
    command.args(["directory", "import", "--admin", &format!("http://{}", world.ports[1])]).arg(file);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for an import. An import that was interrupted continues from there, as it reports.
fn imported(mut child: Child, world: &World, file: &Path) {
    for _ in 0..IMPORTS_MAX {
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            return;
        }
        println!("import: {}", String::from_utf8_lossy(&output.stderr));
        child = import(world, file);
    }
    panic!("the import does not end");
}

/// The result of an audit for the store of a node.
fn store_of(world: &World) -> Value {
    let output = upesi().args(["audit", "--json"]).arg(&world.data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["store"].clone()
}

#[test]
fn every_leader_knows_the_parties() {
    let directory = TempDir::new().unwrap();
    let worlds = nodes(directory.path(), shared());
    let file = directory.path().join("parties.csv");
    write_parties(&file);
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    // Its simulated DFSPs receive the callbacks.
    let _dfsps = block_on(worlds[0].load(1));
    let mut standby = follows(&worlds[1]);
    let [fspiop, admin] = worlds[0].ports;
    operate(&mut Client::connect(admin), "POST", "/oracles", ORACLE);
    let acknowledged = Arc::new(Told::default());
    let mut importing = Some(import(&worlds[0], &file));
    for number in 0..TAKE_OVERS {
        let senders = start(fspiop, &acknowledged);
        acknowledged.wait_for_more(REGISTRATIONS);
        let leads = (number % 2) as usize;
        let former = end(leader, number, [leads, 1 - leads], &worlds[0]);
        for sender in senders {
            sender.join().unwrap();
        }
        assert!(standby.logs(SERVING), "nobody serves: {}", standby.log.join("\n"));
        let mut client = Client::connect(admin);
        are_there(&mut client, &acknowledged);
        assert!(operate(&mut client, "GET", "/oracles", "").contains("http://127.0.0.1:9"));
        leader = std::mem::replace(&mut standby, follows_again(former, &worlds[leads]));
        if number == 2 {
            imported(importing.take().unwrap(), &worlds[0], &file);
        }
    }
    let mut client = Client::connect(admin);
    for number in (0..IMPORTED).step_by(97).chain([IMPORTED - 1]) {
        let found = operate(&mut client, "GET", &format!("/directory/parties/MSISDN/2609{number:06}"), "");
        assert!(found.contains("dfsp-2"), "{number}: {found}");
    }
    // The new leader can also write.
    operate(&mut client, "POST", "/oracles", &ORACLE.replace("ALIAS", "EMAIL"));
    drop(client);
    shown(&worlds);
    agree(&worlds, [leader, standby].map(|hub| hub.stop().0.code()));
}

/// Waits until both nodes show the store's last record of the log.
fn shown(worlds: &[World; 2]) {
    let since = Instant::now();
    loop {
        let (code, text) = told(&worlds[1], &["cluster", "status", "--json"]);
        assert_eq!(code, Some(0), "{text}");
        let status: Value = serde_json::from_str(&text).unwrap();
        let line = format!("\nupesi_cluster_store_record {}\n", status["store"]["accepted"]);
        let texts = worlds.each_ref().map(metrics);
        if texts.iter().all(|text| text.contains(&line)) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{line} is not in {} and {}", texts[0], texts[1]);
    }
}

/// Both stores have the same content when each node has followed to the end.
fn agree(worlds: &[World; 2], ended: [Option<i32>; 2]) {
    assert_eq!(ended, [Some(0); 2]);
    for world in worlds {
        let mut hub = world.start();
        hub.serves();
        stops(hub);
        verdict::audit_is_clean(&world.data);
    }
    let stores = worlds.each_ref().map(store_of);
    assert_eq!(stores[0], stores[1]);
    assert!(stores[0]["entries"].as_u64() > Some(IMPORTED), "{}", stores[0]);
    let (code, text) = told(&worlds[1], &["cluster", "status", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["store"]["accepted"], stores[0]["record"], "{text}");
}

// Topic retention: entries that every node has leave the topic. A node that is stopped keeps entries in the topic until
// it is removed, and then returns with a backup of another node.

/// Transfers between two checks of the removed entries.
const TRANSFERS: u64 = 60;

/// Polls the status until the condition holds.
pub fn status_when(world: &World, is_so: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let (code, text) = told(world, &["cluster", "status", "--json"]);
        assert_eq!(code, Some(0), "{text}");
        let status: Value = serde_json::from_str(&text).unwrap();
        if is_so(&status) {
            return status;
        }
        assert!(since.elapsed() < PATIENCE, "{status}");
    }
}

fn need(status: &Value, node: &str) -> u64 {
    status["needs"][node].as_u64().unwrap_or_default()
}

fn begin(status: &Value) -> u64 {
    status["begin"].as_u64().unwrap()
}

/// Creates node 1 again from a backup of node 0, as a follower.
pub fn add(worlds: &[World; 2], backup: &str) -> Hub {
    let output = upesi().args(["backup", "--to", backup, "--data"]).arg(&worlds[0].data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The node may have reported its needs before it ended.
    told(&worlds[0], &["cluster", "remove", "1"]);
    let add = || told(&worlds[1], &["cluster", "add", "--from", backup]);
    let (code, text) = add();
    assert!(code == Some(73) && text.contains("is not empty"), "{code:?} {text}");
    std::fs::remove_dir_all(&worlds[1].data).unwrap();
    let (code, text) = add();
    assert!(code == Some(0) && text.ends_with(" records after it: start node 1\n"), "{code:?} {text}");
    let standby = follows(&worlds[1]);
    status_when(&worlds[0], |status| !status["needs"]["1"].is_null());
    let (code, text) = add();
    assert!(code == Some(64) && text.contains("node 1 already exists"), "{code:?} {text}");
    standby
}

#[test]
fn copied_entries_are_deleted_and_a_node_without_them_does_not_serve() {
    let directory = TempDir::new().unwrap();
    let mut worlds = nodes(directory.path(), shared());
    for world in &mut worlds {
        world.settings.extend(["cluster.keep_hours=0", "cluster.trim_interval_s=1"]);
    }
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    // The node follows before anything is deleted, and takes over only at the end.
    worlds[1].settings.push("cluster.may_lead=false");
    let standby = follows(&worlds[1]);
    worlds[1].settings.pop();
    leader.serves();
    let mut load = block_on(worlds[0].load(1));
    load.start();
    load.wait_for_accepted(TRANSFERS);
    status_when(&worlds[0], |status| begin(status) > 0);
    stops(standby);

    // The node is stopped.
    let slept = need(&status_when(&worlds[0], |_| true), "1");
    assert!(slept > 0);
    load.wait_for_accepted(TRANSFERS);
    let status = status_when(&worlds[0], |status| need(status, "0") > need(status, "1") + 20);
    load.wait_for_accepted(TRANSFERS);
    let status = status_when(&worlds[0], |later| need(later, "0") > need(&status, "0") + 20);
    assert!(begin(&status) <= need(&status, "1"), "{status}");

    let (code, text) = told(&worlds[0], &["cluster", "remove", "7"]);
    assert_eq!((code, text.contains("has no node 7")), (Some(66), true), "{text}");
    let (code, text) = told(&worlds[0], &["cluster", "remove", "1"]);
    assert_eq!(code, Some(0), "{text}");
    let needed = need(&status, "1");
    let status = status_when(&worlds[0], |status| begin(status) > needed);
    assert_eq!(status["needs"].as_object().unwrap().len(), 1, "{status}");
    let mut late = worlds[1].start();
    assert_eq!(late.exit().code(), Some(65), "{}", late.log.join("\n"));
    let log = late.log.join("\n");
    assert!(log.contains("`upesi backup` there, `upesi restore` here"), "{log}");
    assert!(!log.contains(SERVING), "{log}");

    // From now on, entries younger than an hour stay, so a backup may be older than the leader's needs.
    stops(leader);
    worlds[0].settings.push("cluster.keep_hours=1");
    leader = worlds[0].start();
    leader.serves();
    let mut standby = add(&worlds, directory.path().join("backup").to_str().unwrap());
    load.wait_for_accepted(TRANSFERS);
    leader.kill();
    assert!(standby.logs(SERVING), "{}", standby.log.join("\n"));
    load.wait_for_accepted(TRANSFERS);
    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    stops(standby);
    verdict::copy_agrees(&worlds[1].data, &accepted);
}
