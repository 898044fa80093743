//! DFSPs send requests to a follower, while leaders are killed, paused, stopped in order and ordered to hand over. Each
//! request that the follower answered with 202 is in all copies, once.
//!
//! `UPESI_CLUSTER_TAKE_OVERS` and `UPESI_CRASH_SEED` as in `main.rs`.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;
use upesi_pki::Usage;

use super::support_crash::scene::World;
use crate::brokers::shared;
use crate::common::secure::Pki;
use crate::support_crash::hub::{Hub, PATIENCE, SERVING, free_ports, upesi};
use crate::support_crash::load::Load;
use crate::support_crash::scene::block_on;
use crate::support_crash::{setting, verdict};
use crate::{
    FOLLOWS, TRANSFERS, answer, asked, end, follows, follows_again, freeze, goes_on, makes_topic, metrics,
    node, stops, told,
};

/// One change of leader of each kind.
const TAKE_OVERS: u64 = 4;
const TAKES_REQUESTS: &str = "accepting requests and forwarding them to the leader";
/// Header with the maximum age of a follower's answer.
pub const AGE: &str = "upesi-age-ms: ";
const LISTEN: &str = "cluster.listen=";

/// Nodes with different ports that forward requests to each other.
pub fn nodes(directory: &Path, brokers: &str, pki: &mut Pki, count: usize) -> Vec<World> {
    nodes_at(directory, brokers, pki, &vec![Ipv4Addr::LOCALHOST; count])
}

/// Like `nodes`, with these addresses.
pub fn nodes_at(directory: &Path, brokers: &str, pki: &mut Pki, hosts: &[Ipv4Addr]) -> Vec<World> {
    let text = |text: String| -> &'static str { text.leak() };
    let mut worlds: Vec<_> = (0..hosts.len()).map(|number| node(directory, brokers, number)).collect();
    for (world, host) in worlds.iter_mut().zip(hosts) {
        world.ports = world.ports.map(|port| (*host, port.port()).into());
    }
    let at = |host: &Ipv4Addr| SocketAddr::from((*host, free_ports()[0].port()));
    let ports: Vec<_> = hosts.iter().map(at).collect();
    let places: Vec<_> = ports.iter().enumerate().map(|(number, port)| format!("{number}={port}")).collect();
    let list = text(format!("cluster.nodes={}", places.join(",")));
    for (number, world) in worlds.iter_mut().enumerate() {
        let name = format!("node-{number}");
        pki.issue_for(&hosts[number].to_string(), Usage::Node, &name);
        let file = |name: &str| pki.file(name).display().to_string();
        world.settings.extend([
            list,
            text(format!("{LISTEN}{}", ports[number])),
            text(format!("cluster_tls.certificate_file={}", file(&format!("{name}.pem")))),
            text(format!("cluster_tls.key_file={}", file(&format!("{name}.key")))),
            text(format!("cluster_tls.anchors_file={}", file("ca.pem"))),
        ]);
    }
    worlds
}

/// Starts the first node as leader, the second as a follower that receives requests, and DFSPs that send to the
/// follower.
pub fn leader_and_edge(worlds: &[World]) -> (Hub, Hub, Load) {
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let edge = takes_requests(&worlds[1]);
    let load = block_on(callers(&worlds[1], &worlds[0]).load(1));
    (leader, edge, load)
}

/// DFSPs that send requests to a node, and operators that send requests to the leader.
pub fn callers(edge: &World, leader: &World) -> World {
    World { ports: [edge.ports[0], leader.ports[1]], ..World::new(&edge.data) }
}

/// Starts a follower like `follows`, and waits until it accepts requests.
pub fn takes_requests(world: &World) -> Hub {
    starts_to_take_requests(world.start())
}

/// Waits until a node that was just started accepts requests.
pub fn starts_to_take_requests(mut hub: Hub) -> Hub {
    assert!(hub.logs(TAKES_REQUESTS), "{}\n{}", hub.exit(), hub.log.join("\n"));
    assert!(hub.logs(FOLLOWS), "{}\n{}", hub.exit(), hub.log.join("\n"));
    hub
}

/// Pauses the leader until the other node is the leader.
fn frozen(mut leader: Hub, standby: &mut Hub) -> Hub {
    freeze(leader.pid());
    standby.serves();
    goes_on(leader.pid());
    assert!(leader.logs(FOLLOWS), "{}", leader.log.join("\n"));
    leader
}

pub fn metric(world: &World, name: &str) -> u64 {
    let text = metrics(world);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not in {text}"))
}

/// Waits until a follower has all accepted records, then stops it.
pub fn stops_with_everything(hub: Hub, world: &World) {
    let since = Instant::now();
    loop {
        let (code, text) = told(world, &["cluster", "status", "--json"]);
        assert_eq!(code, Some(0), "{text}");
        let status: Value = serde_json::from_str(&text).unwrap();
        if status["copied"] == status["accepted"] {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{status}");
    }
    stops(hub);
}

#[test]
fn requests_accepted_by_a_follower_are_in_all_copies() {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let take_overs = setting("UPESI_CLUSTER_TAKE_OVERS").unwrap_or(TAKE_OVERS);
    println!("serving: seed {seed}, {take_overs} take-overs");
    let directory = TempDir::new().unwrap();
    let mut pki = Pki::new();
    let mut worlds = nodes(directory.path(), shared(), &mut pki, 3);
    worlds[2].settings.push("cluster.may_lead=false");
    makes_topic(&worlds[0]);
    refuses_authorities_of_dfsps(&worlds[2], &pki);

    let mut leader = worlds[0].start();
    leader.serves();
    let edge = takes_requests(&worlds[2]);
    strangers_are_not_heard(&worlds[0], &mut pki);
    let mut load = block_on(callers(&worlds[2], &worlds[0]).load(seed));
    let mut standby = follows(&worlds[1]);
    load.start();
    let begun = Instant::now();
    for number in 0..take_overs {
        load.wait_for_accepted(TRANSFERS);
        let leads = (number % 2) as usize;
        let ended = Instant::now();
        let former = if number % 4 == 3 {
            frozen(leader, &mut standby)
        } else {
            let former = end(leader, number % 4, [leads, 1 - leads], &worlds[leads]);
            assert!(standby.logs(SERVING), "nobody serves: {}", standby.log.join("\n"));
            follows_again(former, &worlds[leads])
        };
        println!(
            "{:6} ms  node {} took over within {} ms; {} accepted so far",
            begun.elapsed().as_millis(),
            1 - leads,
            ended.elapsed().as_millis(),
            load.accepted_count()
        );
        leader = std::mem::replace(&mut standby, former);
    }
    load.wait_for_accepted(TRANSFERS);

    let leads = &worlds[(take_overs % 2) as usize];
    let accepted = block_on(verdict::all_agree(&leads.admin(), &mut load));
    assert!(
        metric(&worlds[2], r#"upesi_cluster_handed_on_total{outcome="answered"}"#) >= accepted.len() as u64
    );
    assert!(
        metric(&worlds[2], "upesi_cluster_hand_on_repeats_total") > 0,
        "no attempt met a change of leadership"
    );
    assert!(
        metric(leads, "upesi_log_accept_seconds_count") > 0,
        "the brokers' part of a payment is not measured"
    );
    drop(load);
    stops(standby);
    stops(leader);
    for world in &worlds[..2] {
        let mut hub = world.start();
        hub.serves();
        stops(hub);
    }
    stops_with_everything(edge, &worlds[2]);
    for world in &worlds {
        verdict::copy_agrees(&world.data, &accepted);
    }
}

fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.into_iter().any(|found| found.trim() == name)
}

#[test]
fn node_that_forwards_requests_takes_over() {
    let directory = TempDir::new().unwrap();
    let mut pki = Pki::new();
    let mut worlds = nodes(directory.path(), shared(), &mut pki, 2);
    let exports = format!("archive.export_dir={}", directory.path().join("exports").display());
    worlds[1].settings.extend(["archive.keep_days=30", exports.leak()]);
    let (leader, mut edge, mut load) = leader_and_edge(&worlds);
    assert!(has_thread(edge.pid(), "upesi-retention"), "the follower exports nothing");
    load.start();
    load.wait_for_accepted(2 * TRANSFERS);
    operators_read_and_change_nothing(&worlds[1]);
    leader.kill();
    assert!(edge.logs(SERVING), "nobody serves: {}", edge.log.join("\n"));
    load.wait_for_accepted(2 * TRANSFERS);
    let text = answer(asked(worlds[1].ports[1], "/participants"));
    assert!(text.starts_with("HTTP/1.1 200") && !text.contains(AGE), "it leads: {text}");
    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    stops(edge);
    verdict::copy_agrees(&worlds[1].data, &accepted);
}

#[test]
fn node_with_may_lead_off_leads_after_promotion() {
    let directory = TempDir::new().unwrap();
    let mut pki = Pki::new();
    let mut worlds = nodes(directory.path(), shared(), &mut pki, 2);
    worlds[1].settings.push("cluster.may_lead=false");
    let (leader, mut other, mut load) = leader_and_edge(&worlds);
    load.start();
    load.wait_for_accepted(TRANSFERS);
    let promote = |world: &World| {
        let mut command = upesi();
        command.args(["cluster", "promote", "--admin", &format!("http://{}", world.ports[1])]);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), text)
    };
    let (code, text) = promote(&worlds[0]);
    assert!(code == Some(1) && text.contains("This node is already the leader"), "{code:?} {text}");
    leader.kill();
    let (code, text) = promote(&worlds[1]);
    let expected = "node 1 claims leadership: `upesi cluster status` shows the leader\n";
    assert!(code == Some(0) && text.starts_with(expected), "{code:?} {text}");
    assert!(other.logs(SERVING), "nobody serves: {}", other.log.join("\n"));
    load.wait_for_accepted(TRANSFERS);
    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    drop(load);
    stops(other);
    verdict::copy_agrees(&worlds[1].data, &accepted);
}

/// At a follower of node 0, reads report their age, and all other requests are answered with the leader's name.
fn operators_read_and_change_nothing(world: &World) {
    let address = world.ports[1];
    let text = answer(asked(address, "/participants"));
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("dfsp-1"), "{text}");
    assert!(
        text.contains(AGE) && text.contains("upesi-record: ") && text.contains("upesi-leader: 0"),
        "{text}"
    );
    let text = answer(asked(address, "/transfers?limit=1"));
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("transferId"), "{text}");
    let leads = "This node is a follower; the leader is node 0 at http://node-0";
    let text = answer(asked(address, "/oracles"));
    assert!(text.starts_with("HTTP/1.1 503") && text.contains(leads), "{text}");
    let text = answer(asked(address, "/health"));
    assert!(text.starts_with("HTTP/1.1 502") && text.contains("this node is a follower"), "{text}");
    let url = format!("http://{address}");
    let output = upesi().args(["cluster", "hand-over", "--admin", &url]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains(leads), "{text}");
    let output = upesi().args(["admin", "approvals", "--admin", &url]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("this node is a follower: its data may be"), "{text}");
}

/// Otherwise each DFSP could act for every other DFSP.
fn refuses_authorities_of_dfsps(world: &World, pki: &Pki) {
    let given = pki.listener("fspiop_tls").into_iter().map(|(key, value)| format!("{key}={value}"));
    let mut other = World { ports: world.ports, ..World::new(&world.data) };
    other.settings.clone_from(&world.settings);
    other.settings.extend(given.map(|setting| -> &'static str { setting.leak() }));
    let mut hub = other.start();
    assert_eq!(hub.exit().code(), Some(64), "{}", hub.log.join("\n"));
    let told = |line: &String| line.contains("use a separate authority for nodes");
    assert!(hub.log.iter().any(told), "{}", hub.log.join("\n"));
}

/// Clients without a node's certificate, with a certificate of another kind, or without TLS.
fn strangers_are_not_heard(leader: &World, pki: &mut Pki) {
    let address = leader.settings.iter().find_map(|setting| setting.strip_prefix(LISTEN)).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /transfers/x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let text = answer(stream);
    assert!(text.contains("This port speaks TLS"), "{text}");
    let mut others = Pki::new();
    others.issue(Usage::Node, "node-0");
    // The clients trust the port, but the port must not trust them.
    std::fs::copy(pki.file("ca.pem"), others.file("ca.pem")).unwrap();
    for caller in [pki.caller(None, address), others.caller(Some("node-0"), address)] {
        assert!(block_on(caller.get("/transfers/x")).is_err(), "it was answered");
    }
    let answered = block_on(pki.caller(Some("node-1"), address).get("/transfers/x")).unwrap();
    assert_eq!((answered.status, &answered.body[..4]), (400, "3102"), "{answered:?}");
}
