//! The topic of a cluster is kept short: what every node has leaves it, a node that sleeps holds it back until it is
//! removed, and comes back then by a backup of another one.

use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::broker::Broker;
use crate::support_crash::hub::{PATIENCE, SERVING, upesi};
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::support_crash::world::World;
use crate::{follows, makes_topic, nodes, stops, told};

/// Between two looks at what has left.
const TRANSFERS: u64 = 60;

/// Asks for the status until it is so.
fn status_when(world: &World, is_so: impl Fn(&Value) -> bool) -> Value {
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

/// The directory of the second node, made anew from a backup of the first one, which serves.
fn restore(worlds: &[World; 2], backup: &str) {
    std::fs::remove_dir_all(&worlds[1].data).unwrap();
    for (command, from, data) in [("backup", "--to", &worlds[0].data), ("restore", "--from", &worlds[1].data)]
    {
        let output = upesi().args([command, from, backup, "--data"]).arg(data).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_every_node_has_leaves_the_topic_and_a_node_that_lacks_it_does_not_serve() {
    let directory = TempDir::new().unwrap();
    let broker = Broker::start(directory.path());
    let mut worlds = nodes(directory.path(), &broker);
    for world in &mut worlds {
        world.settings.extend(["cluster.keep_hours=0", "cluster.trim_interval_s=1"]);
    }
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let mut load = block_on(worlds[0].load(1));
    let standby = follows(&worlds[1]);
    load.start();
    load.wait_for_accepted(TRANSFERS);
    status_when(&worlds[0], |status| begin(status) > 0);
    stops(standby);

    // It sleeps.
    let slept = need(&status_when(&worlds[0], |_| true), "1");
    assert!(slept > 0);
    load.wait_for_accepted(TRANSFERS);
    let status = status_when(&worlds[0], |status| need(status, "0") > need(status, "1") + 20);
    load.wait_for_accepted(TRANSFERS);
    let status = status_when(&worlds[0], |later| need(later, "0") > need(&status, "0") + 20);
    assert!(begin(&status) <= need(&status, "1"), "{status}");

    let (code, text) = told(&worlds[0], &["cluster", "remove", "7"]);
    assert_eq!((code, text.contains("knows of no node 7")), (Some(66), true), "{text}");
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

    // From now on what is younger than an hour stays: a backup is older than what the leader needs.
    stops(leader);
    worlds[0].settings.push("cluster.keep_hours=1");
    leader = worlds[0].start();
    leader.serves();
    restore(&worlds, directory.path().join("backup").to_str().unwrap());
    let mut standby = follows(&worlds[1]);
    load.wait_for_accepted(TRANSFERS);
    leader.kill();
    assert!(standby.logs(SERVING), "{}", standby.log.join("\n"));
    load.wait_for_accepted(TRANSFERS);
    let (accepted, refused) = load.end();
    assert!(refused.is_empty(), "{refused:?}");
    block_on(verdict::all_agree(&worlds[1].admin(), &load, &accepted));
    stops(standby);
    verdict::journal_agrees(&worlds[1].data, &accepted);
    verdict::audit_is_clean(&worlds[1].data);
}
