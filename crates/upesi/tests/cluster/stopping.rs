//! A broker stops responding, and then both nodes are stopped.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use upesi_testsupport::broker::{Broker, brokers};

use crate::{follows, makes_topic, nodes, stops};

/// Maximum time for a node to stop, even if no broker responds.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn nodes_stop_in_time_while_the_broker_does_not_respond() {
    let directory = TempDir::new().unwrap();
    let broker = Broker::start(directory.path());
    let worlds = nodes(directory.path(), &broker.addresses);
    makes_topic(&worlds[0]);
    let mut leader = worlds[0].start();
    leader.serves();
    let follower = follows(&worlds[1]);
    let kafka = directory.path().join("kafka");
    brokers(&["signal", kafka.to_str().unwrap(), "1", "STOP"], "");
    for (role, hub) in [("leader", leader), ("follower", follower)] {
        let begun = Instant::now();
        stops(hub);
        assert!(begun.elapsed() < STOPS_WITHIN, "the {role} took {:?}", begun.elapsed());
    }
}
