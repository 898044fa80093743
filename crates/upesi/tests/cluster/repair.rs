//! All brokers lose their power and with it the end of the topic. Nodes stop, and `upesi cluster repair` restores all
//! acknowledged records.

use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::support_crash::scene::World;
use crate::brokers::{ALL, Brokers};
use crate::support_crash::hub::{PATIENCE, SERVING};
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::{follows, makes_topic, nodes, stops, told};

const TRANSFERS: u64 = 100;

/// Kills all brokers, truncates their topic, and starts them again.
fn lose_all_behind(brokers: &Brokers, bytes: u64) {
    brokers.kill(&ALL);
    for broker in ALL {
        let file = std::fs::File::options().write(true).open(brokers.log(broker)).unwrap();
        let before = file.metadata().unwrap().len();
        assert!(bytes * 5 < before * 4, "{bytes} of {before} would be left");
        file.set_len(bytes).unwrap();
    }
    brokers.start_again(&ALL);
}

fn stops_with_what_it_says(world: &World, words: &str) {
    let mut hub = world.start();
    let code = hub.exit().code();
    let log = hub.log.join("\n");
    assert_eq!((code, log.contains(words), log.contains(SERVING)), (Some(65), true, false), "{log}");
}

/// Starts a node, which stops, and waits until the brokers know the length of its copy. A node reports it at its start.
fn tells(number: usize, worlds: &[World; 2]) -> Value {
    let since = Instant::now();
    loop {
        stops_with_what_it_says(&worlds[number], "the log lost its end");
        let [own, found] = [number, 1 - number].map(|of| {
            let (code, text) = repair(&worlds[of], &["--json"]);
            serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{code:?}: {text}"))
        });
        if found["others"][number.to_string()] == own["here"] {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "{found}");
    }
}

fn repair(world: &World, arguments: &[&str]) -> (Option<i32>, String) {
    told(world, &[&["cluster", "repair"], arguments].concat())
}

fn number(found: &Value, part: &str) -> u64 {
    found[part]["record"].as_u64().unwrap()
}

#[test]
fn topic_that_lost_its_end_is_repaired() {
    let directory = TempDir::new().unwrap();
    let brokers = Brokers::start(directory.path());
    let mut worlds = nodes(directory.path(), &brokers.addresses);
    for world in &mut worlds {
        world.settings.push("cluster.replicas=3");
    }
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let mut load = block_on(worlds[0].load(1));
    let standby = follows(&worlds[1]);
    load.start();
    load.wait_for_accepted(TRANSFERS);
    let left =
        ALL.map(|broker| std::fs::metadata(brokers.log(broker)).unwrap().len()).into_iter().min().unwrap();
    load.wait_for_accepted(TRANSFERS);
    // The leader's copy now becomes longer than the copy of the standby.
    standby.kill();
    load.wait_for_accepted(TRANSFERS);
    leader.kill();
    lose_all_behind(&brokers, left);

    tells(0, &worlds);
    let found = tells(1, &worlds);
    let (code, text) = repair(&worlds[1], &["--write"]);
    assert_eq!((code, text.contains("node 0 reported record")), (Some(1), true), "{text}");
    assert_eq!((&found["lacking"], &found["repaired"]), (&true.into(), &false.into()), "{found}");
    assert!(number(&found["others"], "1") < number(&found, "here"), "{found}");
    // The attempt has changed nothing.
    stops_with_what_it_says(&worlds[1], "the log lost its end");
    let (code, text) = repair(&worlds[0], &["--write"]);
    assert_eq!((code, text.contains("now has all records of this node")), (Some(0), true), "{text}");
    let (code, text) = repair(&worlds[0], &[]);
    assert_eq!((code, text.contains("the log has all records")), (Some(0), true), "{text}");

    let hubs = [worlds[0].start(), worlds[1].start()];
    load.wait_for_accepted(TRANSFERS);
    // Both nodes have the same ports, so the leader answers.
    let accepted = block_on(verdict::all_agree(&worlds[0].admin(), &mut load));
    for hub in hubs {
        stops(hub);
    }
    for world in &worlds {
        let mut hub = world.start();
        hub.serves();
        stops(hub);
        verdict::copy_agrees(&world.data, &accepted);
    }
}
