//! Three zones, each with a broker and a hub, and a network that splits: into three parts, or one zone from the others.
//! DFSPs always reach all zones. No isolated node becomes leader, and all acknowledged transfers are in all copies.
//!
//! The test runs itself again in a network namespace of its own. Each zone is a namespace behind a bridge.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::support_crash::load::Load;
use super::support_crash::scene::World;
use crate::brokers::Brokers;
use crate::common::secure::Pki;
use crate::losses::{Cluster, EDGE, TRANSFERS, all_agree_and_end, prepare};
use crate::serving::{callers, nodes_at, starts_to_take_requests};
use crate::support_crash::hub::{Hub, upesi};
use crate::support_crash::leave_out;
use crate::support_crash::scene::block_on;

const NAME: &str = "split::network_split_loses_no_acknowledged_transfer";
const INSIDE: &str = "IN_A_NETWORK_OF_ITS_OWN";
const DFSPS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 254));
/// The namespaces have their names in `/run/netns`.
const SET_UP: &str = r#"set -e
mount -t tmpfs zones /run && mkdir /run/netns
ip link set lo up
ip link add zones type bridge
ip addr add 10.77.0.254/24 dev zones
ip link set zones up
for zone in 1 2 3; do
    ip netns add "zone$zone"
    ip link add "zone$zone" type veth peer name eth0 netns "zone$zone"
    ip link set "zone$zone" master zones up
    ip -n "zone$zone" addr add "10.77.0.$zone/24" dev eth0
    ip -n "zone$zone" link set eth0 up
    ip -n "zone$zone" link set lo up
done
echo ready >&2
exec "$@""#;

#[test]
fn network_split_loses_no_acknowledged_transfer() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", SET_UP, "sh"]);
    command.arg(std::env::current_exe().unwrap()).args(["--exact", NAME, "--nocapture"]);
    command.env(INSIDE, "1").env("ZONES", "zone:10.77.0").stdin(Stdio::null());
    match command.output() {
        Err(error) => leave_out(&format!("unshare (util-linux) cannot be run: {error}")),
        Ok(output) => {
            let [told, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
            if errors.contains("ready\n") {
                assert!(output.status.success(), "{told}\n{errors}");
            } else {
                leave_out(&format!(
                    "a network of namespaces (ip, of iproute2) is not allowed here: {errors}"
                ));
            }
        }
    }
}

/// A command in the namespace of a zone.
fn in_zone(node: usize) -> Command {
    let inner = upesi();
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &format!("zone{}", node + 1)])
        .arg(inner.get_program())
        .stdin(Stdio::null());
    inner.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
}

fn start(node: usize, world: &World) -> Hub {
    Hub::spawn(world.serve(in_zone(node)), world.log.clone())
}

/// An address that no machine has: packets to it are lost without an error.
const NOBODY: &str = "02:00:00:00:00:99";

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}");
}

/// Zones reach each other only if both are in `together`. Packets to other zones are lost without an error.
fn split(together: &[usize]) {
    for from in 0..3 {
        let zone = format!("zone{}", from + 1);
        ip(&["-n", &zone, "neigh", "flush", "nud", "permanent"]);
        let is_together = |node| together.contains(&node);
        for to in (0..3).filter(|to| *to != from && !(is_together(from) && is_together(*to))) {
            let host = format!("10.77.0.{}", to + 1);
            let lost =
                ["-n", &zone, "neigh", "replace", &host, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent"];
            ip(&lost);
        }
    }
}

fn inside() {
    let directory = TempDir::new().unwrap();
    let brokers = Brokers::start(directory.path());
    let hosts = [1, 2, 3].map(|zone| Ipv4Addr::new(10, 77, 0, zone));
    let mut pki = Pki::new();
    let mut worlds = nodes_at(directory.path(), &brokers.addresses, &mut pki, &hosts);
    prepare(&mut worlds);
    let mut leader = start(0, &worlds[0]);
    leader.serves();
    let others = [1, EDGE].map(|node| starts_to_take_requests(start(node, &worlds[node])));
    let [other, edge] = others;
    let callers = callers(&worlds[EDGE], &worlds[0]);
    let mut load = block_on(callers.onboarded(Load::listening(&callers.fspiop_url(), 1, DFSPS), 1));
    load.start();
    let hubs = [leader, other, edge].map(Some);
    let cluster = Cluster { brokers: &brokers, worlds: &worlds, load: &load, hubs };
    splits_three_ways(&cluster);
    loses_the_zone_that_leads(&cluster);
    loses_a_zone_that_follows(&cluster);
    let (leads, hubs) = (cluster.whole().leader, cluster.hubs);
    all_agree_and_end(hubs, &worlds, leads, load, |node| start(node, &worlds[node]));
}

fn splits_three_ways(cluster: &Cluster<'_>) {
    let before = cluster.whole();
    split(&[]);
    cluster.refuses(before.leader);
    // Followers receive nothing, and report this.
    (0..3).for_each(|node| cluster.is_not_well(node));
    split(&[0, 1, 2]);
    cluster.load.wait_for_accepted(TRANSFERS);
}

fn loses_the_zone_that_leads(cluster: &Cluster<'_>) {
    let leader = cluster.whole().leader;
    split(&[1 - leader, EDGE]);
    cluster.load.wait_for_accepted(TRANSFERS);
    cluster.refuses(leader);
    split(&[0, 1, 2]);
    assert_ne!(cluster.whole().leader, leader, "it led without the others");
}

fn loses_a_zone_that_follows(cluster: &Cluster<'_>) {
    let leader = cluster.whole().leader;
    split(&[leader, EDGE]);
    cluster.load.wait_for_accepted(TRANSFERS);
    split(&[0, 1, 2]);
    cluster.load.wait_for_accepted(TRANSFERS);
}
