//! A broker stops responding, and then both nodes are told to stop.

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::broker::{Broker, brokers};
use crate::{follows, makes_topic, nodes, stops};

/// The time in which a node must stop, even if no broker responds.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// A paused broker. It continues when this value is dropped, because a paused process cannot be stopped in order.
struct Paused<'a>(&'a Path);

impl<'a> Paused<'a> {
    fn new(directory: &'a Path) -> Self {
        signal(directory, "STOP");
        Self(directory)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

fn signal(directory: &Path, name: &str) {
    let kafka = directory.join("kafka");
    brokers(&["signal", kafka.to_str().unwrap(), "1", name], "");
}

#[test]
fn nodes_stop_in_time_while_the_broker_does_not_respond() {
    let directory = TempDir::new().unwrap();
    let broker = Broker::start(directory.path());
    let worlds = nodes(directory.path(), &broker);
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let follower = follows(&worlds[1]);
    let _paused = Paused::new(directory.path());
    for (role, hub) in [("leader", leader), ("follower", follower)] {
        let begun = Instant::now();
        stops(hub);
        assert!(begun.elapsed() < STOPS_WITHIN, "the {role} took {:?}", begun.elapsed());
    }
}
