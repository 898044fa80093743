//! Three nodes share the delivery of callbacks. Under load, followers are killed, paused and stopped, and the leader is
//! killed. All callbacks are delivered, and each transfer ends.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;
use upesi_ledger::{ParticipantId, courier_of};

use super::support_crash::scene::World;
use crate::brokers::shared;
use crate::common::message::Message;
use crate::common::recorder::Recorder;
use crate::common::secure::Pki;
use crate::serving::{callers, leader_and_edge, metric, nodes, stops_with_everything, takes_requests};
use crate::support_crash::hub::{PATIENCE, SERVING};
use crate::support_crash::load::Load;
use crate::support_crash::scene::block_on;
use crate::support_crash::{setting, verdict};
use crate::{TRANSFERS, answer, asked, freeze, goes_on, makes_topic, metrics, stops};

const COURIERS: &str = "upesi_cluster_couriers";
const UNRECORDED: &str = "upesi_cluster_unrecorded_ends";

/// Polls until the condition holds.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}: not so after {PATIENCE:?}");
    }
}

/// Waits until this many nodes deliver, according to the leader's record.
pub fn shared_by(world: &World, count: u64) {
    wait_until(&format!("{count} nodes deliver"), || metric(world, COURIERS) == count);
}

/// The DFSPs that have received callbacks from a node.
fn delivered_by(world: &World) -> BTreeSet<String> {
    let text = metrics(world);
    let lines = text.lines().filter_map(|line| line.strip_prefix("upesi_lane_delivered_total{fsp=\""));
    let of = lines.filter_map(|line| line.split_once("\"} ")).filter(|(_, count)| *count != "0");
    of.map(|(name, _)| name.to_owned()).collect()
}

/// `GET /lanes` of a node.
fn lanes(world: &World) -> Vec<Value> {
    let text = answer(asked(world.ports[1], "/lanes"));
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Each node shows its own lanes. All nodes name the same delivering nodes, according to the hash of the journal's
/// list.
fn lanes_are_shared(worlds: &[World], numbers: &[u32], names: &[String]) {
    let owner = |index: usize| courier_of(numbers, ParticipantId::new(index as u32 + 2).unwrap());
    for number in numbers {
        let lanes = lanes(&worlds[*number as usize]);
        for (index, name) in names.iter().enumerate() {
            let Some(lane) = lanes.iter().find(|lane| lane["participant"] == **name) else { continue };
            assert_eq!(lane["node"].as_u64(), owner(index).map(u64::from), "{name} at node {number}: {lane}");
            assert_eq!(lane["state"] == "elsewhere", owner(index) != Some(*number), "{lane}");
        }
        let own: BTreeSet<_> = (0..).zip(names).filter(|(index, _)| owner(*index) == Some(*number)).collect();
        let delivered = delivered_by(&worlds[*number as usize]);
        for (_, name) in own {
            assert!(delivered.contains(name), "node {number} delivered nothing to {name}: {delivered:?}");
        }
    }
}

/// No callback is undelivered, and the follower knows this.
fn all_is_delivered(leader: &World, follower: &World) {
    wait_until("nothing is owed", || metric(leader, "upesi_callbacks_undelivered") == 0);
    wait_until("the leader has recorded every end", || metric(follower, UNRECORDED) == 0);
}

#[test]
fn callbacks_are_delivered_although_any_node_is_lost() {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("callbacks: seed {seed}");
    let directory = TempDir::new().unwrap();
    let mut pki = Pki::new();
    let mut worlds = nodes(directory.path(), shared(), &mut pki, 3);
    worlds[2].settings.push("cluster.may_lead=false");
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let (other, edge) = (takes_requests(&worlds[1]), takes_requests(&worlds[2]));
    let mut load = block_on(callers(&worlds[2], &worlds[0]).load(seed));
    let names = load.names();
    let more = |load: &Load| load.wait_for_accepted(TRANSFERS);
    shared_by(&worlds[0], 3);
    load.start();
    more(&load);
    more(&load);
    lanes_are_shared(&worlds, &[0, 1, 2], &names);

    other.kill();
    shared_by(&worlds[0], 2);
    more(&load);
    lanes_are_shared(&worlds, &[0, 2], &names);

    let mut other = takes_requests(&worlds[1]);
    shared_by(&worlds[0], 3);
    freeze(other.pid());
    shared_by(&worlds[0], 2);
    more(&load);
    goes_on(other.pid());
    shared_by(&worlds[0], 3);

    stops(other);
    assert!(metric(&worlds[0], COURIERS) < 3, "the node did not say that it stops");
    other = takes_requests(&worlds[1]);
    shared_by(&worlds[0], 3);
    more(&load);

    leader.kill();
    assert!(other.logs(SERVING), "nobody serves: {}", other.log.join("\n"));
    shared_by(&worlds[1], 2);
    more(&load);
    lanes_are_shared(&worlds, &[1, 2], &names);

    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    all_is_delivered(&worlds[1], &worlds[2]);
    drop(load);
    stops_with_everything(edge, &worlds[2]);
    stops(other);
    for world in &worlds[1..] {
        verdict::copy_agrees(&world.data, &accepted);
    }
}

/// The answer comes from the leader, through the node that received the request. The callback comes from any node, 50
/// ms later. On an overloaded machine an answer may take longer than 50 ms, so only one of several rounds must be in
/// order. Without the 50 ms, some of a hundred callbacks come first in each round.
#[test]
fn answer_of_another_node_precedes_its_callback() {
    const QUESTIONS: usize = 100;
    const ROUNDS: usize = 5;
    let directory = TempDir::new().unwrap();
    let mut pki = Pki::new();
    let worlds = nodes(directory.path(), shared(), &mut pki, 2);
    let (leader, edge, load) = leader_and_edge(&worlds);
    shared_by(&worlds[0], 2);
    let admin = worlds[0].admin();
    // Each of the two nodes delivers a part of them.
    let names = load.names();
    let owners: BTreeSet<_> = (2..)
        .zip(&names)
        .map(|(number, _)| courier_of(&[0, 1], ParticipantId::new(number).unwrap()))
        .collect();
    assert_eq!(owners.len(), 2, "one node has all DFSPs");
    for name in &names {
        let mut recorder = Recorder::asking(worlds[1].ports[0]);
        for (kind, path) in [("TRANSFER_ERROR", "/transfers/{{transferId}}/error"), ("QUOTES", "")] {
            let url = format!("{}{path}", recorder.url());
            let endpoint = format!(r#"{{"type":"FSPIOP_CALLBACK_URL_{kind}","value":"{url}"}}"#);
            block_on(admin.create(&format!("/participants/{name}/endpoints"), endpoint)).unwrap();
        }
        let question = |round: usize, number: usize| {
            let id = format!("01563e3a-b5d3-4676-8c61-{round:04x}{number:08x}");
            let (path, to) = match number % 2 {
                0 => (format!("/transfers/{id}"), "Hub"),
                _ => (format!("/quotes/{id}"), "nobody"),
            };
            (Message::of("GET", &path, name, Some(to), ""), 202, format!("PUT {path}/error"))
        };
        let overtaken: Vec<_> = (0..ROUNDS)
            .map(|round| recorder.overtaken((0..QUESTIONS).map(|number| question(round, number)).collect()))
            .inspect(|overtaken| {
                println!("{name}: {overtaken} of {QUESTIONS} callbacks came before the answer")
            })
            .take_while(|overtaken| *overtaken > 0)
            .collect();
        assert!(overtaken.len() < ROUNDS, "{name}: so many callbacks came before the answers: {overtaken:?}");
    }
    drop(load);
    stops(edge);
    stops(leader);
}
