//! Three brokers and three nodes. Under load, hubs and brokers are killed, paused or stopped in order, one by one and
//! all at once. All acknowledged transfers are in all copies, once, and reads that a node marks as current are correct.
//!
//! `UPESI_CLUSTER_TAKE_OVERS` sets the number of losses. `UPESI_CLUSTER_LOSS` selects one kind of loss by its index in
//! the list. `UPESI_CRASH_SEED` repeats the amounts and parties.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use upesi_sim::TransferOutcome;

use super::support_crash::load::Load;
use super::support_crash::scene::World;
use crate::brokers::{ALL, Brokers};
use crate::common::secure::Pki;
use crate::serving::{AGE, callers, nodes, stops_with_everything, takes_requests};
use crate::support_crash::hub::{Hub, PATIENCE};
use crate::support_crash::scene::block_on;
use crate::support_crash::{setting, verdict};
use crate::{Logs, answer, freeze, goes_on, hand_over, makes_topic, stops, told, try_to_ask};

/// The kinds of loss, and the maximum time without an accepted request, in milliseconds, if there is a goal.
const LOSSES: [(Loss, &str, Option<u128>); 13] = [
    (Loss::LeaderKilled, "leaders killed", Some(3_500)),
    (Loss::LeaderFrozen, "leaders frozen", Some(4_000)),
    // Payers wait for some callbacks of this node. Another node sends them half a second later.
    (Loss::LeaderStopped, "leaders stopped in order", None),
    (Loss::HandOver, "hand-overs", Some(200)),
    (Loss::FollowerKilled, "brokers that follow killed", Some(4_000)),
    (Loss::FollowerFrozen, "brokers that follow frozen", None),
    (Loss::BrokerKilled, "brokers that lead killed", Some(4_000)),
    (Loss::BrokerFrozen, "brokers that lead frozen", None),
    (Loss::BrokerRestarted, "brokers that lead restarted in order", None),
    (Loss::BothKilled, "leaders killed with the broker that leads", None),
    (Loss::BothFrozen, "leaders frozen with the broker that leads", None),
    (Loss::BrokersFrozen, "times that all brokers were frozen", None),
    (Loss::AllKilled, "times that everything was killed", None),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    LeaderKilled,
    LeaderFrozen,
    LeaderStopped,
    HandOver,
    FollowerKilled,
    FollowerFrozen,
    BrokerKilled,
    BrokerFrozen,
    BrokerRestarted,
    BothKilled,
    BothFrozen,
    BrokersFrozen,
    AllKilled,
}

/// Transfers between two losses, and during a loss.
pub const TRANSFERS: u64 = 60;
/// The message of a node that replaces its Kafka client.
const STUCK: &str = "the Kafka client is stalled although the brokers respond; replacing it";
/// The node that receives requests of DFSPs and never becomes leader.
pub const EDGE: usize = 2;

/// Output of `upesi cluster status`.
pub struct Status {
    pub leader: usize,
    broker: u16,
    in_sync: usize,
}

impl Status {
    /// A broker that is not the leader of the partition.
    const fn follower(&self) -> u16 {
        self.broker % 3 + 1
    }
}

pub struct Cluster<'a> {
    pub brokers: &'a Brokers,
    pub worlds: &'a [World],
    pub load: &'a Load,
    pub hubs: [Option<Hub>; 3],
}

impl Cluster<'_> {
    /// `None` while the brokers do not answer.
    fn status(&self) -> Option<Status> {
        let (code, text) = told(&self.worlds[EDGE], &["cluster", "status", "--json"]);
        let found: Value = (code == Some(0)).then(|| serde_json::from_str(&text).unwrap())?;
        let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
        Some(Status {
            leader: number(&found["leader"]["node"])?.into(),
            broker: number(&found["brokers"]["leader"])?,
            in_sync: found["brokers"]["inSync"].as_array()?.len(),
        })
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
        let since = Instant::now();
        loop {
            match self.status() {
                Some(status) if is_so(&status) => return status,
                _ => assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}"),
            }
        }
    }

    /// Waits until every broker has all entries, and a running node is the leader.
    pub fn whole(&self) -> Status {
        self.wait("all is well again", |status| status.in_sync == ALL.len() && status.leader != EDGE)
    }

    fn hub(&mut self, node: usize) -> Hub {
        self.hubs[node].take().expect("a node that runs")
    }

    fn pid(&self, node: usize) -> u32 {
        self.hubs[node].as_ref().map(Hub::pid).expect("a node that runs")
    }

    fn asked(&self, node: usize, port: usize, path: &str) -> String {
        answer(try_to_ask(self.worlds[node].ports[port], path).unwrap())
    }

    /// Waits until the health check of a node is negative.
    pub fn is_not_well(&self, node: usize) {
        let since = Instant::now();
        while !self.asked(node, 0, "/health").starts_with("HTTP/1.1 502") {
            assert!(since.elapsed() < PATIENCE, "node {node} accepts a request that it cannot answer");
        }
    }

    /// Like `is_not_well` for a leader, which rejects requests without delay.
    pub fn refuses(&self, node: usize) {
        self.is_not_well(node);
        let text = self.asked(node, 1, "/participants");
        assert!(text.starts_with("HTTP/1.1 503") && text.contains("2003"), "{text}");
    }

    fn start_again(&mut self, node: usize) {
        self.hubs[node] = Some(takes_requests(&self.worlds[node]));
    }

    /// The next loss. Returns its name, and the time without an accepted request.
    fn lose_next(&mut self, number: u64) -> (&'static str, Duration) {
        let (loss, what, _) = LOSSES[(number % LOSSES.len() as u64) as usize];
        let before = self.whole();
        self.load.longest_silence();
        self.lose(loss, &before);
        let silence = self.load.longest_silence();
        println!("{number:4} {what}: {} ms, {} accepted", silence.as_millis(), self.load.accepted_count());
        (what, silence)
    }

    /// Stops a part of the leading side, and starts it again when the others have continued without it.
    fn lose(&mut self, loss: Loss, before: &Status) {
        let Status { leader, broker, .. } = *before;
        let follower = before.follower();
        match loss {
            Loss::LeaderKilled => self.hub(leader).kill(),
            Loss::LeaderStopped => stops(self.hub(leader)),
            Loss::HandOver => hand_over(&self.worlds[leader], leader, 1 - leader),
            Loss::LeaderFrozen => freeze(self.pid(leader)),
            Loss::FollowerKilled => self.brokers.kill(&[follower]),
            Loss::BrokerKilled => self.brokers.kill(&[broker]),
            Loss::FollowerFrozen => self.brokers.signal(follower, "STOP"),
            Loss::BrokerFrozen => self.brokers.signal(broker, "STOP"),
            Loss::BrokerRestarted => self.brokers.signal(broker, "TERM"),
            Loss::BothKilled => {
                self.hub(leader).kill();
                self.brokers.kill(&[broker]);
            }
            Loss::BothFrozen => {
                freeze(self.pid(leader));
                self.brokers.signal(broker, "STOP");
            }
            Loss::BrokersFrozen => {
                ALL.into_iter().for_each(|broker| self.brokers.signal(broker, "STOP"));
                self.refuses(leader);
                ALL.into_iter().for_each(|broker| self.brokers.signal(broker, "CONT"));
            }
            Loss::AllKilled => {
                self.brokers.kill(&ALL);
                (0..3).for_each(|node| self.hub(node).kill());
                self.brokers.start_again(&ALL);
                (0..3).for_each(|node| self.start_again(node));
            }
        }
        self.load.wait_for_accepted(TRANSFERS);
        self.restore(loss, before);
    }

    fn restore(&mut self, loss: Loss, before: &Status) {
        let Status { leader, broker, .. } = *before;
        let follower = before.follower();
        match loss {
            Loss::LeaderKilled | Loss::LeaderStopped => self.start_again(leader),
            Loss::FollowerKilled => self.brokers.start_again(&[follower]),
            Loss::BrokerKilled | Loss::BrokerRestarted => self.brokers.start_again(&[broker]),
            Loss::LeaderFrozen => goes_on(self.pid(leader)),
            Loss::BothFrozen => {
                self.brokers.signal(broker, "CONT");
                goes_on(self.pid(leader));
            }
            Loss::FollowerFrozen => self.brokers.signal(follower, "CONT"),
            Loss::BrokerFrozen => self.brokers.signal(broker, "CONT"),
            Loss::BothKilled => {
                self.brokers.start_again(&[broker]);
                self.start_again(leader);
            }
            Loss::HandOver | Loss::BrokersFrozen | Loss::AllKilled => {}
        }
    }
}

/// Pause of a reader between two reads.
const PAUSE: Duration = Duration::from_millis(20);

/// Reads transfers whose payers have received their outcome. An answer that the node marks as current must have this
/// outcome.
fn reads(world: &World, load: &Load, fresh: &AtomicU64, ends: &Receiver<()>) {
    while ends.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        let Some((id, outcome)) = load.newest_end() else { continue };
        // A paused node answers after it continues.
        let Ok(stream) = try_to_ask(world.ports[1], &format!("/transfers/{id}")) else { continue };
        let text = answer(stream);
        let is_told = text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.1 404");
        if is_told && !text.contains(AGE) {
            let state = if outcome == TransferOutcome::Committed { "\"COMMITTED\"" } else { "\"ABORTED\"" };
            assert!(text.contains(state), "{id} ended as {outcome:?}, and a node says as fresh: {text}");
            fresh.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn loss_of_any_part_loses_no_acknowledged_transfer() {
    let seed = setting("UPESI_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let count = setting("UPESI_CLUSTER_TAKE_OVERS").unwrap_or(LOSSES.len() as u64);
    println!("losses: seed {seed}, {count} losses");
    let directory = TempDir::new().unwrap();
    let brokers = Brokers::start(directory.path());
    let _logs = Logs(directory.path());
    let mut pki = Pki::new();
    let mut worlds = nodes(directory.path(), &brokers.addresses, &mut pki, 3);
    prepare(&mut worlds);
    let mut leader = worlds[0].start();
    leader.serves();
    let hubs = [leader, takes_requests(&worlds[1]), takes_requests(&worlds[EDGE])].map(Some);
    let mut load = block_on(callers(&worlds[EDGE], &worlds[0]).load(seed));
    load.start();
    let mut cluster = Cluster { brokers: &brokers, worlds: &worlds, load: &load, hubs };
    let fresh = AtomicU64::new(0);
    let silences = std::thread::scope(|threads| {
        // The processes are killed when this vector is dropped.
        let mut lives = Vec::new();
        for world in &worlds {
            let (life, ends) = channel();
            lives.push(life);
            let (load, fresh) = (&load, &fresh);
            threads.spawn(move || reads(world, load, fresh, &ends));
        }
        // The order depends on the seed.
        let kind = |number| setting("UPESI_CLUSTER_LOSS").unwrap_or(seed.wrapping_add(number));
        (0..count).map(|number| cluster.lose_next(kind(number))).collect::<Vec<_>>()
    });
    let (leads, hubs) = (cluster.whole().leader, cluster.hubs);
    let accepted = all_agree_and_end(hubs, &worlds, leads, load, |node| worlds[node].start());
    let fresh = fresh.into_inner();
    assert!(fresh > 0, "no node marked a read as current");
    for (_, what, goal) in LOSSES {
        tell(what, goal, &silences);
    }
    let logs = worlds.iter().map(|world| std::fs::read_to_string(world.log.as_ref().unwrap()).unwrap());
    let recreated: usize = logs.map(|log| log.matches(STUCK).count()).sum();
    println!("{recreated} times a stalled client of the brokers was recreated");
    println!("{fresh} reads marked as current, {accepted} accepted, all copies are equal");
}

/// Two nodes that may become leader, and one that receives the requests.
pub fn prepare(worlds: &mut [World]) {
    for world in worlds.iter_mut() {
        world.settings.push("cluster.replicas=3");
    }
    worlds[EDGE].settings.push("cluster.may_lead=false");
    makes_topic(&worlds[0]);
}

/// Ends the load, and stops the nodes when each has everything; `start` starts a node. DFSPs, the leader and the copies
/// must agree on the accepted transfers. Returns their number.
pub fn all_agree_and_end(
    hubs: [Option<Hub>; 3],
    worlds: &[World],
    leads: usize,
    mut load: Load,
    start: impl Fn(usize) -> Hub,
) -> usize {
    let accepted = block_on(verdict::all_agree(&worlds[leads].admin(), &mut load));
    drop(load);
    let [one, other, edge] = hubs.map(Option::unwrap);
    stops(one);
    stops(other);
    for node in 0..EDGE {
        let mut hub = start(node);
        hub.serves();
        stops(hub);
    }
    stops_with_everything(edge, &worlds[EDGE]);
    for world in worlds {
        verdict::copy_agrees(&world.data, &accepted);
    }
    accepted.len()
}

/// Prints how long no request was accepted after each loss of a kind.
fn tell(what: &str, goal: Option<u128>, silences: &[(&str, Duration)]) {
    let of_it = silences.iter().filter(|(kind, _)| *kind == what);
    let mut times: Vec<u128> = of_it.map(|(_, silence)| silence.as_millis()).collect();
    times.sort_unstable();
    let Some(most) = times.last() else { return };
    let (count, median) = (times.len(), times[times.len() / 2]);
    print!("{count} {what}: nothing accepted for {median} ms, {most} at most");
    if let Some(goal) = goal {
        print!("; {} later than the goal of {goal} ms", times.iter().filter(|time| **time > goal).count());
    }
    println!();
}
