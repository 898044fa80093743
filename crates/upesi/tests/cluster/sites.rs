//! A standalone hub becomes a cluster, although the oldest files of its journal are removed. A second site, whose node
//! only follows, continues with its own brokers when the first site is lost.

use std::time::Instant;

use tempfile::TempDir;
use upesi_testsupport::broker::Broker;

use super::support_crash::scene::World;
use crate::callbacks::shared_by;
use crate::common::secure::Pki;
use crate::serving::nodes;
use crate::store::{add, status_when};
use crate::support_crash::hub::PATIENCE;
use crate::support_crash::scene::block_on;
use crate::support_crash::{setting, verdict};
use crate::{makes_topic, stops, told};

const TRANSFERS: u64 = 100;
const SHORT: &str = "data.keep_segments=needed";

/// Starts a node that must fail with this exit code and message.
fn refuses(world: &World, code: i32, words: &str) {
    let mut hub = world.start();
    let status = hub.exit();
    let log = hub.log.join("\n");
    assert_eq!((status.code(), log.contains(words)), (Some(code), true), "{log}");
}

/// Fills an empty topic with the records of a stopped hub.
fn fills(world: &World) {
    for (arguments, words) in [
        (&["cluster", "repair"][..], "the log is empty: fill it from this node with --write\n"),
        (&["cluster", "repair", "--write"], "the log now has all records of this node: start the nodes\n"),
        (&["cluster", "repair"], "the log has all records of this node\n"),
    ] {
        let (code, text) = told(world, arguments);
        assert_eq!((code, text.ends_with(words)), (Some(0), true), "{text}");
    }
}

#[test]
fn standalone_hub_becomes_a_cluster_that_survives_the_loss_of_a_site() {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("sites: seed {seed}");
    let directory = TempDir::new().unwrap();
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    let broker = Broker::start(&first);
    let mut pki = Pki::new();
    let nodes = nodes(directory.path(), &broker.addresses, &mut pki, 2);
    let mut worlds: [World; 2] = nodes.try_into().ok().unwrap();
    // DFSPs know one address. It belongs in turn to the standalone hub, to the node that forwards requests, and to the
    // last leader.
    let alone = World { ports: worlds[1].ports, settings: vec![SHORT], ..World::new(&worlds[0].data) };
    for world in &mut worlds {
        world.settings.push(SHORT);
    }
    let mut hub = alone.start();
    hub.serves();
    let mut load = block_on(alone.load(seed));
    load.start();
    let since = Instant::now();
    while verdict::first_record(&alone.data) <= 1 {
        load.wait_for_accepted(TRANSFERS);
        assert!(since.elapsed() < PATIENCE, "the journal keeps its first segment");
    }
    stops(hub);

    makes_topic(&worlds[0]);
    refuses(&worlds[0], 64, "`upesi cluster repair --write` fills an empty topic with them");
    fills(&worlds[0]);
    refuses(&alone, 64, "is the copy of a node of a cluster");
    let mut leader = worlds[0].start();
    leader.serves();

    // The second site.
    worlds[1].settings.push("cluster.may_lead=false");
    refuses(&worlds[1], 65, "begins after record ");
    let other = add(&worlds, directory.path().join("backup").to_str().unwrap());
    load.wait_for_accepted(TRANSFERS);
    // The journal lists a node that will be lost as a delivering node.
    shared_by(&worlds[0], 2);
    // The second site has everything that was answered.
    stops(leader);
    status_when(&worlds[1], |status| status["copied"] == status["accepted"]);
    drop(broker);
    stops(other);

    let broker = Broker::start(&second);
    let brokers: &str = format!("cluster.brokers={}", broker.addresses).leak();
    worlds[1].settings.extend([brokers, "cluster.may_lead=true"]);
    makes_topic(&worlds[1]);
    fills(&worlds[1]);
    let mut leader = worlds[1].start();
    leader.serves();
    load.wait_for_accepted(TRANSFERS);
    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    drop(load);
    stops(leader);
    verdict::archive_has_all(&worlds[1].data, &accepted);
    verdict::audit_is_clean(&worlds[1].data);
}
