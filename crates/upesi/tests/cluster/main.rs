//! Two nodes of a cluster on a real broker, under load. Several times, the leader is killed, stopped in order or
//! ordered to hand over. The other node takes over, and no acknowledged transfer is lost.
//!
//! Both nodes have the same ports, like a service with one address: a node listens only while it is the leader.
//! `UPESI_CLUSTER_TAKE_OVERS` sets the number of changes of the leader. `UPESI_CRASH_SEED` repeats the amounts and
//! parties.

#![allow(clippy::print_stdout, reason = "readers of the test's output need the seed")]

mod brokers;
mod callbacks;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod handover;
mod losses;
mod packaged;
mod repair;
mod secured;
mod serving;
mod sites;
mod split;
mod stopping;
mod store;
#[path = "../support_crash/mod.rs"]
mod support_crash;
#[path = "../support_registrations/mod.rs"]
mod support_registrations;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support_crash::hub::{Hub, PATIENCE, SERVING, free_ports, upesi};
use support_crash::scene::block_on;
use support_crash::{setting, verdict};
use tempfile::TempDir;

use self::brokers::{shared, topic};
use self::support_crash::scene::World;

const TAKE_OVERS: u64 = 4;
const FOLLOWS: &str = "following the cluster's log";
/// Setting of the port that a node also has while it is a follower.
const METRICS: &str = "metrics.listen=";
const HANDED_OVER: &str = "leadership handed over: this node no longer serves";
/// Number of lines printed from each log if a test fails.
const LINES_TOLD: usize = 100;
/// Transfers between two changes of the leader.
const TRANSFERS: u64 = 150;

fn node(directory: &Path, brokers: &str, number: usize) -> World {
    let text = |text: String| -> &'static str { text.leak() };
    let data = directory.join(format!("node-{number}"));
    std::fs::create_dir(&data).unwrap();
    let mut world = World { log: Some(directory.join(format!("node-{number}.log"))), ..World::new(&data) };
    world.settings = vec![
        "cluster.log=kafka",
        "cluster.id=00112233445566778899aabbccddeeff",
        "cluster.replicas=1",
        text(format!("cluster.node={number}")),
        text(format!("cluster.rank={number}")),
        text(format!("cluster.address=http://node-{number}")),
        text(format!("cluster.brokers={brokers}")),
        text(format!("cluster.topic={}", topic(directory))),
        text(format!("{METRICS}{}", free_ports()[0])),
    ];
    world
}

/// Two nodes with these brokers.
fn nodes(directory: &Path, brokers: &str) -> [World; 2] {
    let mut worlds = [0, 1].map(|number| node(directory, brokers, number));
    worlds[1].ports = worlds[0].ports;
    worlds
}

/// The output of a command with a node's settings.
fn told(world: &World, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = upesi();
    command.args(arguments).arg("--data").arg(&world.data);
    let output = command.args(world.settings.iter().flat_map(|setting| ["--set", setting])).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

/// Prints the ends of the logs of nodes and brokers if the test fails, because their directory is removed.
struct Logs<'a>(&'a Path);

impl Drop for Logs<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let names = (0..3)
            .map(|node| format!("node-{node}.log"))
            .chain((1..4).map(|broker| format!("kafka/{broker}/log")));
        for name in names {
            let log = std::fs::read(self.0.join(&name)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            println!("{name}:\n{}", lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n"));
        }
    }
}

fn makes_topic(world: &World) {
    let (code, text) = told(world, &["cluster", "create-topic"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("the topic ") && text.ends_with(" has the required settings\n"), "{text}");
}

/// Stops a node in order.
fn stops(hub: Hub) {
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
}

/// In turn kills the leader, stops it, or lets it hand over. Returns the process if it is still running.
fn end(leader: Hub, number: u64, [from, to]: [usize; 2], world: &World) -> Option<Hub> {
    match number % 3 {
        0 => leader.kill(),
        1 => {
            let (status, log) = leader.stop();
            assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
            assert!(log.iter().any(|line| line.contains(HANDED_OVER)), "{}", log.join("\n"));
        }
        _ => {
            hand_over(world, from, to);
            return Some(leader);
        }
    }
    None
}

/// Asks the leader to hand leadership over to another node.
fn hand_over(world: &World, from: usize, to: usize) {
    let mut command = upesi();
    let url = format!("http://{}", world.ports[1]);
    let output =
        command.args(["cluster", "hand-over", "--admin", &url, "--to", &to.to_string()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("node {from} has handed over to node {to}\n"), "{:?}", output.stderr);
}

fn journal(world: &World) -> Vec<u8> {
    let output = upesi().args(["journal", "--json"]).arg(&world.data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn follows(world: &World) -> Hub {
    let mut hub = world.start();
    assert!(hub.logs(FOLLOWS), "the node does not follow: {}\n{}", hub.exit(), hub.log.join("\n"));
    hub
}

/// The former leader as a follower: in the same process after a handover, otherwise in a new one.
fn follows_again(former: Option<Hub>, world: &World) -> Hub {
    let Some(mut former) = former else { return follows(world) };
    assert!(former.logs(HANDED_OVER) && former.logs(FOLLOWS), "{}", former.log.join("\n"));
    former
}

#[test]
fn failover_loses_no_acknowledged_transfer() {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let take_overs = setting("UPESI_CLUSTER_TAKE_OVERS").unwrap_or(TAKE_OVERS);
    println!("cluster: seed {seed}, {take_overs} take-overs");
    let directory = TempDir::new().unwrap();
    let worlds = nodes(directory.path(), shared());
    refuses_what_is_wrong(&worlds[0]);

    let mut leader = worlds[0].start();
    leader.serves();
    let mut load = block_on(worlds[0].load(seed));
    let mut standby = follows(&worlds[1]);
    load.start();
    let begun = Instant::now();
    for number in 0..take_overs {
        load.wait_for_accepted(TRANSFERS);
        let leads = (number % 2) as usize;
        let ended = Instant::now();
        let former = end(leader, number, [leads, 1 - leads], &worlds[0]);
        assert!(standby.logs(SERVING), "nobody serves: {}", standby.log.join("\n"));
        println!(
            "{:6} ms  node {} took over within {} ms; {} accepted so far",
            begun.elapsed().as_millis(),
            1 - leads,
            ended.elapsed().as_millis(),
            load.accepted_count()
        );
        leader = std::mem::replace(&mut standby, follows_again(former, &worlds[leads]));
    }
    load.wait_for_accepted(TRANSFERS);
    another_cluster_is_refused(directory.path());

    let admin = worlds[0].admin();
    let accepted = block_on(verdict::all_agree(&admin, &mut load));
    drop(admin);
    let leads = (take_overs % 2) as usize;
    metrics_say(&worlds, leads);
    status_says(&worlds[1 - leads], leads);
    for hub in [standby, leader] {
        stops(hub);
    }
    // The former leader follows once more, so that its copy also has the last records of the leader.
    let last = worlds.iter().map(|world| journal(world).len()).max();
    for world in &worlds {
        let mut hub = world.start();
        hub.serves();
        stops(hub);
        assert!(journal(world).len() >= last.unwrap_or_default());
        verdict::copy_agrees(&world.data, &accepted);
    }
}

/// Sends a request without waiting for the answer.
fn asked(address: SocketAddr, path: &str) -> TcpStream {
    try_to_ask(address, path).unwrap()
}

fn try_to_ask(address: SocketAddr, path: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

/// Pauses a process. It takes some time until each of its threads has seen the signal.
fn freeze(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    let since = Instant::now();
    while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|task| is_stopped(task.unwrap())) {
        assert!(since.elapsed() < PATIENCE, "process {pid} goes on");
        std::thread::yield_now();
    }
}

/// Continues a paused process.
fn goes_on(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::CONT).unwrap();
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A connection that was closed without an answer is acceptable.
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn paused_leader_answers_nothing_after_a_failover() {
    let directory = TempDir::new().unwrap();
    let mut worlds = nodes(directory.path(), shared());
    worlds[1].ports = free_ports();
    makes_topic(&worlds[0]);
    let mut frozen = worlds[0].start();
    frozen.serves();
    let mut other = follows(&worlds[1]);
    freeze(frozen.pid());
    let question = asked(worlds[0].ports[1], "/participants");
    other.serves();
    let load = block_on(worlds[1].load(1));
    goes_on(frozen.pid());
    let text = answer(question);
    assert!(!text.starts_with("HTTP/1.1 200"), "it answered from its memory: {text}");
    assert!(frozen.logs("this node no longer serves"), "{}", frozen.log.join("\n"));
    assert!(frozen.logs(FOLLOWS), "{}", frozen.log.join("\n"));
    // Its copy has the records of the meantime, and it becomes leader again if necessary.
    drop(load);
    other.kill();
    frozen.serves();
    let text = answer(asked(worlds[0].ports[1], "/participants"));
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("dfsp-1"), "{text}");
}

/// A missing topic, a standalone hub on a node's directory, and a node without the settings of its cluster are
/// rejected.
fn refuses_what_is_wrong(world: &World) {
    let (code, text) = told(world, &["serve"]);
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("the topic ") && text.contains(" does not exist"), "{text}");
    makes_topic(world);
    let mut nameless = upesi();
    nameless.args(["serve", "--set", "cluster.log=kafka", "--set", "cluster.brokers=127.0.0.1:1", "--data"]);
    let output = nameless.arg(world.data.join("nothing")).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cluster.id"), "{output:?}");
}

/// A topic belongs to one cluster.
fn another_cluster_is_refused(directory: &Path) {
    let mut stranger = node(directory, shared(), 7);
    stranger.settings.push("cluster.id=ffeeddccbbaa99887766554433221100");
    let (code, text) = told(&stranger, &["serve"]);
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains(" has entries of another cluster"), "{text}");
}

/// A status command ends even if the brokers are stopped or do not answer.
#[test]
fn status_ends_without_broker() {
    let directory = TempDir::new().unwrap();
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("cluster.brokers={}", silent.local_addr().unwrap());
    for brokers in ["cluster.brokers=127.0.0.1:1", &silent] {
        let mut command = upesi();
        command.args(["cluster", "status", "--set", "cluster.log=kafka", "--set", brokers]);
        command
            .args(["--set", "cluster.id=00112233445566778899aabbccddeeff", "--data"])
            .arg(directory.path());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{text}");
        assert!(text.contains("the topic upesi-journal cannot be reached: check cluster.brokers"), "{text}");
    }
}

fn metrics(world: &World) -> String {
    let address = world.settings.iter().find_map(|setting| setting.strip_prefix(METRICS)).unwrap();
    answer(asked(address.parse().unwrap(), "/metrics"))
}

/// The metrics of a node show the leader, whether it is this node or another one.
fn metrics_say(worlds: &[World; 2], leader: usize) {
    for (number, world) in worlds.iter().enumerate() {
        let text = metrics(world);
        let leads = u8::from(number == leader);
        assert!(text.contains(&format!("\nupesi_cluster_leads {leads}\n")), "node {number}: {text}");
        for name in ["upesi_cluster_behind_seconds", "process_start_time_seconds", "upesi_disk_free_bytes"] {
            assert_eq!(text.matches(&format!("\n{name} ")).count(), 1, "{name} of node {number}: {text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}

fn status_says(world: &World, leader: usize) {
    let (code, text) = told(world, &["cluster", "status", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["leader"]["node"], leader, "{text}");
    assert!(status["accepted"].as_u64() >= status["copied"].as_u64(), "{text}");
    let mut alone = upesi();
    let output = alone.args(["serve", "--data"]).arg(&world.data).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the copy of a node of a cluster"),
        "{output:?}"
    );
}
