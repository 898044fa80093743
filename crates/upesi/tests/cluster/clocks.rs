//! A node whose clock is an hour ahead: whatever is under way would run out if it led, and everything new with it.

use tempfile::TempDir;

use super::support_crash::scene::World;
use crate::broker::Broker;
use crate::support_crash::scene::block_on;
use crate::support_crash::{compile, verdict};
use crate::{TRANSFERS, follows, makes_topic, node, stops};

const HOUR_S: &str = "3600";

#[test]
fn a_node_whose_clock_is_an_hour_ahead_leaves_the_lead_to_another() {
    let directory = TempDir::new().unwrap();
    let Some(library) = compile(directory.path(), "clock", include_str!("../support_crash/clock.c")) else {
        return;
    };
    let broker = Broker::start(directory.path());
    let mut worlds: [World; 3] = [0, 1, 2].map(|number| node(directory.path(), &broker.addresses, number));
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
    let says = "this node does not lead: its clock is ahead of the brokers'";
    assert!(ahead.logs(says), "{}", ahead.log.join("\n"));
    other.serves();
    load.wait_for_accepted(TRANSFERS);

    let (accepted, refused) = load.end();
    assert!(refused.is_empty(), "{refused:?}");
    block_on(verdict::all_agree(&worlds[2].admin(), &load, &accepted));
    drop(load);
    ahead.kill();
    stops(other);
    verdict::journal_agrees(&worlds[2].data, &accepted);
    verdict::audit_is_clean(&worlds[2].data);
}
