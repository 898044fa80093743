//! A node whose clock is wrong by an hour. As a leader, it would let all pending and new transfers expire. As a
//! follower, it forwards requests.

use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use tempfile::TempDir;
use upesi_engine::{Clock as _, SystemClock};

use super::support_crash::scene::World;
use crate::brokers::shared;
use crate::common::secure::Pki;
use crate::serving::{callers, nodes, takes_requests};
use crate::support_crash::hub::PATIENCE;
use crate::support_crash::scene::block_on;
use crate::support_crash::{compile, verdict};
use crate::{TRANSFERS, answer, asked, follows, makes_topic, metrics, node, stops};

const HOUR_S: &str = "3600";
/// The nodes' certificates become valid some time before they are issued. This is less than that time.
const BEHIND_S: i64 = 240;

#[test]
fn node_with_a_fast_clock_leaves_leadership_to_another() {
    let directory = TempDir::new().unwrap();
    let Some(library) = compile(directory.path(), "clock", include_str!("../support_crash/clock.c")) else {
        return;
    };
    let mut worlds: [World; 3] = [0, 1, 2].map(|number| node(directory.path(), shared(), number));
    (worlds[1].ports, worlds[2].ports) = (worlds[0].ports, worlds[0].ports);
    worlds[1].environment =
        vec![("LD_PRELOAD".into(), library.into()), ("CLOCK_AHEAD_S".into(), HOUR_S.into())];
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let mut load = block_on(worlds[0].load(1));
    let (mut ahead, mut other) = (follows(&worlds[1]), follows(&worlds[2]));
    load.start();
    load.wait_for_accepted(TRANSFERS);
    leader.kill();
    let says = "this node cannot become leader: its clock is ahead of the brokers'";
    assert!(ahead.logs(says), "{}", ahead.log.join("\n"));
    other.serves();
    load.wait_for_accepted(TRANSFERS);

    let accepted = block_on(verdict::all_agree(&worlds[2].admin(), &mut load));
    drop(load);
    ahead.kill();
    stops(other);
    verdict::copy_agrees(&worlds[2].data, &accepted);
}

/// Waits until the admin port and the metrics of a follower report this jump of its clock, or this lead of the journal
/// over the clock.
fn clock_becomes(world: &World, jump_s: i64, ahead_s: i64) {
    let is_near = |text: &str, name: &str, wanted_s: i64| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let seconds = value.and_then(|value| value.split('.').next()?.parse::<i64>().ok());
        seconds.is_some_and(|seconds| seconds.abs_diff(wanted_s) <= 30)
    };
    let status = if (jump_s, ahead_s) == (0, 0) { "OK" } else { "DOWN" };
    let part = format!(r#"{{"name":"clock","status":"{status}""#);
    let begun = Instant::now();
    loop {
        let (health, metrics) = (answer(asked(world.ports[0], "/health")), metrics(world));
        let is_shown = is_near(&metrics, "upesi_clock_jump_seconds ", jump_s)
            && is_near(&metrics, "upesi_clock_ahead_seconds ", ahead_s);
        if is_shown && health.starts_with("HTTP/1.1 200") && health.contains(&part) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{jump_s} s, {ahead_s} s: {health}\n{metrics}");
    }
}

/// The follower forwards a fulfil whose completion time is just past by a correct clock. The leader does not know its
/// sender.
fn takes_a_fulfil(address: SocketAddr) {
    let now = SystemClock.now();
    let body = format!(r#"{{"transferState":"ABORTED","completedTimestamp":"{now}"}}"#);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "PUT /transfers/b51ec534-ee48-4575-b6a9-ead2955b8069 HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\
         Content-Type: application/vnd.interoperability.transfers+json;version=1.1\r\n\
         Date: Tue, 01 Apr 2031 12:00:00 GMT\r\nFSPIOP-Source: stranger\r\nFSPIOP-Destination: dfsp-1\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let text = answer(stream);
    assert!(text.contains("no participant 'stranger'"), "{text}");
}

#[test]
fn follower_with_a_wrong_clock_forwards_requests() {
    let directory = TempDir::new().unwrap();
    let Some(library) = compile(directory.path(), "clock", include_str!("../support_crash/clock.c")) else {
        return;
    };
    let set = directory.path().join("ahead");
    let set_clock = |ahead_s: i64| {
        // Written in place, because the node has mapped the file.
        let file = File::options().create(true).truncate(false).write(true).open(&set).unwrap();
        file.write_all_at(&ahead_s.to_ne_bytes(), 0).unwrap();
    };
    set_clock(0);
    let mut pki = Pki::new();
    let mut worlds = nodes(directory.path(), shared(), &mut pki, 2);
    worlds[1].settings.push("cluster.may_lead=false");
    worlds[1].environment =
        vec![("LD_PRELOAD".into(), library.into()), ("CLOCK_AHEAD_FILE".into(), set.clone().into())];
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let edge = takes_requests(&worlds[1]);
    let mut load = block_on(callers(&worlds[1], &worlds[0]).load(1));
    load.start();
    for jump_s in [0, 3_600, 0, -3_600] {
        set_clock(jump_s);
        clock_becomes(&worlds[1], jump_s, 0);
        load.wait_for_accepted(TRANSFERS);
        takes_a_fulfil(worlds[1].ports[0]);
    }
    stops(edge);
    // A start trusts the clock. Because of certificates, the clock may be only slightly behind.
    set_clock(-BEHIND_S);
    let edge = takes_requests(&worlds[1]);
    clock_becomes(&worlds[1], 0, BEHIND_S);
    load.wait_for_accepted(TRANSFERS);
    takes_a_fulfil(worlds[1].ports[0]);
    let accepted = block_on(verdict::all_agree(&worlds[0].admin(), &mut load));
    drop(load);
    stops(edge);
    stops(leader);
    verdict::copy_agrees(&worlds[0].data, &accepted);
}
