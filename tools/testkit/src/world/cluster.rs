//! Two or three nodes that share a log: the current leader, the other nodes meanwhile, and a leader that freezes and
//! resumes.
//!
//! `World` holds the machine of the node that is or becomes leader. The other machines are here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use upesi_cluster::{Claim, ClusterId, Incarnation, NodeId, StandbyTimeouts};
use upesi_engine::{SharedParticipants, StandbyEngine};
use upesi_journal::sim_disk::{Random, SimDisk, SurvivingData};
use upesi_journal::{Disk, EmbeddedLog, Options};
use upesi_replication::{Clock as _, Copies, CopyOf, NodeSettings, ReplicatedLog, StandbyOutcome, stand_by};

use super::World;
use super::event::Event;
use super::phase::Phase;
use super::process::draw_kept;
use crate::archive::SimArchive;
use crate::clock::ClockKeeper;
use crate::hub::{CourierTrouble, Hub, Output};
use crate::message;
use crate::shared_log::{NodeClock, SharedLog};

/// Sets the random stream of the nodes apart from a seed's other streams.
const NODES: u64 = 0x6e6f_6465_735f_6f6e;
const CLUSTER: ClusterId = ClusterId(0x5eed);
/// Maximum offset between the machines' clocks.
const APART_US: u64 = 600_000;
/// Maximum duration of a node's attempt to become leader, before another node may try.
const ELECTION_MAX: Duration = Duration::from_secs(60);
/// Time that a node follows once there is nothing to read.
const FOLLOWING: Duration = Duration::from_millis(500);
const FOLLOW_MOST_US: u64 = 1_500_000;
/// Maximum duration of one assignment of callbacks to nodes.
const COURIERS_MOST_US: u64 = 2_000_000;
const REPORTS_LOST_PERCENT: u64 = 20;
/// Maximum duration of a frozen leader.
const FROZEN_MOST_US: u64 = 6_000_000;
/// Number of turns for a former leader to notice that it has lost leadership.
const TURNS_MAX: u32 = 40;
/// Offset of a former leader's callback numbers from the leader's numbers.
const FORMER: u64 = 1 << 40;

/// The machine of a node while another node is leader.
struct Machine {
    node: u32,
    disk: SimDisk,
    store: SimDisk,
    archive: Arc<SimArchive>,
    clock: ClockKeeper,
}

struct FrozenLeader {
    machine: Machine,
    hub: Hub,
}

pub(super) struct Cluster {
    random: Random,
    count: u32,
    log: SharedLog,
    /// The node that is or becomes leader, and the disk of its store.
    node: u32,
    store: SimDisk,
    others: Vec<Machine>,
    frozen: Option<FrozenLeader>,
    /// Number of node starts so far. With it, claims of different lives of a node differ.
    starts: u64,
    /// The node that was leader when the process ended.
    led: u32,
    /// Whether the leader changed so early that the new leader's clock may have been before the world's start.
    changed_early: bool,
}

impl Cluster {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed ^ NODES);
        let count = 2 + random.below(2) as u32;
        let others = (1..count).map(|node| {
            let mut clock = ClockKeeper::new();
            clock.jump(0, random.below(APART_US) as i64 - APART_US as i64 / 2);
            let (disk, store) = (SimDisk::new(random.bits()), SimDisk::new(random.bits()));
            Machine { node, disk, store, archive: Arc::default(), clock }
        });
        let others = others.collect();
        let store = SimDisk::new(random.bits());
        let log = SharedLog::new(Random::new(random.bits()), count);
        Self {
            random,
            count,
            log,
            node: 0,
            store,
            others,
            frozen: None,
            starts: 0,
            led: 0,
            changed_early: false,
        }
    }

    fn settings(&mut self, node: u32, may_claim: bool) -> NodeSettings {
        self.starts += 1;
        let (incarnation, address) = (Incarnation(self.starts), format!("node-{node}"));
        NodeSettings {
            cluster: CLUSTER,
            node: NodeId(node),
            claim: Claim { incarnation, level: 1, address },
            patience: StandbyTimeouts::of_rank(node),
            may_claim,
            is_promoted: Arc::default(),
            is_unfit: Arc::default(),
            report_every: Duration::from_secs(1),
        }
    }
}

/// The places of a machine's copies.
fn copies(disk: Arc<dyn Disk>, store: &SimDisk) -> Copies {
    let options = Options { segment_bytes: 8 * 1024, identity: 9, ..Options::default() };
    let store: Arc<dyn Disk> = Arc::new(store.clone());
    Copies { journal: CopyOf { disk, options: options.clone() }, store: CopyOf { disk: store, options } }
}

/// Whether an injected fault is the reason.
pub(super) fn is_explained(reason: &str) -> bool {
    reason.contains("simulated") || reason.contains("no space on the disk")
}

/// The outcome of a node's standby.
enum StandbyEnd {
    Leads(Box<(ReplicatedLog, StandbyEngine)>),
    /// The node did not become leader.
    Follows,
}

impl World {
    pub(super) const fn is_of_nodes(&self) -> bool {
        self.cluster.is_some()
    }

    pub(super) fn plan_nodes(&mut self) {
        if self.is_of_nodes() {
            self.after(FOLLOW_MOST_US / 2, Event::Follow);
            self.after(COURIERS_MOST_US / 2, Event::Couriers);
        }
    }

    /// Whether the hub's clock may have been before the start of the world.
    pub(super) fn began_again(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.changed_early)
    }

    /// Number of nodes beside the leader.
    pub(super) fn followers(&self) -> u32 {
        self.cluster.as_ref().map_or(0, |cluster| cluster.count - 1)
    }

    /// Changes the nodes that deliver callbacks, or ends one of them. Some reports are lost until the faults end.
    pub(super) fn trouble_couriers(&mut self) {
        let (is_troubled, followers) = (self.is_troubled(), self.followers());
        let (Some(cluster), Some(hub)) = (&mut self.cluster, &mut self.hub) else {
            return self.after(COURIERS_MOST_US / 4, Event::Couriers);
        };
        if !is_troubled {
            return hub.lose_reports(0);
        }
        let random = &mut cluster.random;
        let pause = 1 + random.below(COURIERS_MOST_US);
        let trouble = match random.below(3) {
            0 => CourierTrouble::Ends(random.below(u64::from(followers) + 1) as u32),
            _ => CourierTrouble::Share(random.below(1 << (followers + 1)) as u32),
        };
        hub.lose_reports(REPORTS_LOST_PERCENT);
        hub.trouble_couriers(trouble);
        self.counts.courier_troubles += 1;
        self.say(format_args!("delivering nodes: {trouble:?}"));
        self.after(pause, Event::Couriers);
    }

    /// A node follows the log until it becomes leader, if it may, or until its time has passed.
    fn stand(&mut self, machine: &Machine, may_claim: bool) -> Result<StandbyEnd, String> {
        let patience = if may_claim { ELECTION_MAX } else { FOLLOWING };
        machine.clock.at(self.now_us);
        let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
        let options = self.engine_options(Arc::clone(&disk), &machine.archive, &machine.clock);
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        let settings = cluster.settings(machine.node, may_claim);
        let (clock, stops) = (NodeClock::of(machine.clock.clock()), Arc::<AtomicBool>::default());
        let partition = cluster.log.client(machine.node, &clock, &stops, clock.now() + patience);
        let copy = EmbeddedLog::for_reading(&disk);
        let mut engine =
            StandbyEngine::open(&options, None, Arc::clone(&disk), &copy, SharedParticipants::default())
                .map_err(|error| error.to_string())?;
        let mut failed = None;
        let clock: Arc<dyn upesi_replication::Clock> = Arc::new(clock);
        let stood =
            stand_by(partition, copies(disk, &machine.store), &settings, &clock, &stops, &mut |progress| {
                if let (None, Err(error)) = (&failed, engine.follow_to(progress.position.seq)) {
                    failed = Some(error.to_string());
                    stops.store(true, Ordering::Release);
                }
            });
        match (failed, stood) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(error.to_string()),
            (None, Ok(StandbyOutcome::Stopped)) => Ok(StandbyEnd::Follows),
            (None, Ok(StandbyOutcome::Elected(log))) => Ok(StandbyEnd::Leads(Box::new((log, engine)))),
        }
    }

    /// The current node stands by until it becomes leader, and then serves.
    pub(super) fn start_leading(&mut self) -> Result<Hub, String> {
        let machine = self.put_aside();
        let stood = self.stand(&machine, true);
        self.take_up(machine);
        let StandbyEnd::Leads(leads) = stood? else {
            return Err("simulated: the node did not become leader".to_owned());
        };
        let (log, engine) = *leads;
        let mut setup = self.setup(self.disk());
        setup.options.log = Some(Arc::new(log));
        let hub = Hub::take_over(setup, engine, self.next_sending).map_err(|error| error.to_string())?;
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        if cluster.node != cluster.led {
            (cluster.led, self.counts.fail_overs) = (cluster.node, self.counts.fail_overs + 1);
            cluster.changed_early |= self.now_us < APART_US;
        }
        Ok(hub)
    }

    /// The current machine, as one of the others.
    fn put_aside(&mut self) -> Machine {
        let cluster = self.cluster.as_ref().expect("a world of nodes");
        Machine {
            node: cluster.node,
            disk: self.disk.clone(),
            store: cluster.store.clone(),
            archive: Arc::clone(&self.archive),
            clock: self.clock.clone(),
        }
    }

    fn take_up(&mut self, machine: Machine) {
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        (cluster.node, cluster.store) = (machine.node, machine.store);
        (self.disk, self.archive, self.clock) = (machine.disk, machine.archive, machine.clock);
        self.clock.at(self.now_us);
    }

    /// A process has ended. Perhaps another node is leader from now on.
    pub(super) fn change_node(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        if !cluster.others.is_empty() && !cluster.random.one_in(3) {
            self.leave_machine();
        }
    }

    /// Makes another machine the hub's machine.
    fn leave_machine(&mut self) {
        let machine = self.put_aside();
        self.replace_machine();
        self.cluster.as_mut().expect("a world of nodes").others.push(machine);
    }

    fn replace_machine(&mut self) {
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        let next = cluster.random.below(cluster.others.len() as u64) as usize;
        let next = cluster.others.swap_remove(next);
        self.take_up(next);
        self.befallen = self.disk.befallen() + self.archive.befallen();
        self.strikes_seen = self.disk.strikes().len();
        self.retention.forget_divisions();
    }

    /// The current machine has lost its power, or its process was killed.
    pub(super) fn end_store(&mut self, kept: Option<SurvivingData>) {
        if let Some(cluster) = &mut self.cluster {
            cluster.store = match kept {
                Some(kept) => cluster.store.after_power_loss(kept),
                None => cluster.store.after_kill(),
            };
        }
    }

    /// One of the other nodes follows for a moment. Then it may lose its power.
    pub(super) fn follow(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        let pause = 1 + cluster.random.below(FOLLOW_MOST_US);
        let count = cluster.others.len() as u64;
        let drawn = (count > 0).then(|| cluster.random.below(count) as usize);
        self.after(pause, Event::Follow);
        let (Some(drawn), true) = (drawn, self.phase != Phase::Over) else { return };
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        let mut machine = cluster.others.swap_remove(drawn);
        let stood = self.stand(&machine, false);
        self.counts.followed += 1;
        self.say(format_args!("node {} follows", machine.node));
        match stood {
            Ok(StandbyEnd::Follows) => {}
            Ok(StandbyEnd::Leads(..)) => {
                self.auditor.findings.add("a node became leader although it must not".to_owned())
            }
            Err(error) if is_explained(&error) => {}
            Err(error) => {
                self.auditor.findings.add(format!("node {} no longer follows: {error}", machine.node))
            }
        }
        let is_troubled = self.is_troubled();
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        if is_troubled && cluster.random.one_in(3) {
            machine.lose_power(&mut cluster.random);
        } else {
            machine.end();
        }
        if cluster.random.one_in(4) {
            cluster.log.delete_before_need();
        }
        cluster.others.push(machine);
    }

    /// Freezes the leader; another node takes over.
    pub(super) fn freeze(&mut self) {
        let cluster = self.cluster.as_ref().expect("a world of nodes");
        if cluster.frozen.is_some() || cluster.others.is_empty() || self.hub.is_none() {
            return;
        }
        self.note_strikes();
        let Some(mut hub) = self.hub.take() else { return };
        hub.number_from(FORMER * (self.life + 1));
        self.process_is_gone();
        self.say(format_args!("the leader freezes"));
        let machine = self.put_aside();
        self.replace_machine();
        let (start, thaw) = (self.between(5_000, 800_000), self.between(10_000, FROZEN_MOST_US));
        self.cluster.as_mut().expect("a world of nodes").frozen = Some(FrozenLeader { machine, hub });
        let life = self.life;
        self.after(start, Event::Start { life });
        self.after(thaw, Event::Thaw);
    }

    /// A frozen leader resumes, and must notice that another node is leader.
    pub(super) fn thaw(&mut self) {
        if self.hub.is_none() && self.is_troubled() {
            return self.after(FROZEN_MOST_US / 8, Event::Thaw);
        }
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        let Some(FrozenLeader { mut machine, mut hub }) = cluster.frozen.take() else { return };
        self.say(format_args!("node {} resumes", machine.node));
        machine.clock.at(self.now_us);
        if self.hub.is_some() {
            self.counts.former_leaders += 1;
            self.run_former(&mut hub);
        }
        drop(hub);
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        if cluster.random.one_in(2) {
            machine.lose_power(&mut cluster.random);
        } else {
            machine.end();
        }
        cluster.others.push(machine);
    }

    /// A former leader receives a query, and enough turns to notice that it must not answer.
    fn run_former(&mut self, hub: &mut Hub) {
        let question = u64::MAX;
        let cluster = self.cluster.as_mut().expect("a world of nodes");
        // A read records nothing; a DFSP's request does.
        let mut read = cluster.random.one_in(2).then(|| hub.last_record());
        if let (Some(spec), None) = (self.specs.last().copied(), &read) {
            let request = message::get(spec.id, spec.payer, crate::clock::true_time(self.now_us));
            let _ = hub.receive(question, &request);
        }
        let mut out = Vec::new();
        for turn in 0..TURNS_MAX {
            // Expiries are recorded, too.
            let is_running = hub.turn(turn > TURNS_MAX / 2);
            hub.turn_journal();
            hub.turn_archivist();
            hub.flush(self.now_us);
            hub.collect(&mut out);
            hub.pump(self.now_us, &mut out);
            if let Some(answer) = read.as_mut().and_then(|read| read()) {
                read = None;
                if answer.is_ok() {
                    self.auditor.findings.add("a former leader answers a read".to_owned());
                }
            }
            if !is_running {
                break;
            }
        }
        for output in out {
            match output {
                Output::Answer { number, outcome: Ok(()) } if number == question => {
                    self.auditor.findings.add("a former leader answers a query".to_owned());
                }
                Output::Answer { number, outcome } if number != question => self.leave(number, outcome),
                Output::Callback { key, request, .. } => self.former_calls(key, &request),
                Output::Answer { .. } | Output::Told(_) | Output::Removed { .. } => {}
            }
        }
        match hub.stop_reason().map(|reason| reason.to_string()) {
            Some(reason) if reason.contains("is now the leader") || is_explained(&reason) => {
                self.say(format_args!("the former leader stops: {reason}"));
            }
            Some(reason) => self.auditor.findings.add(format!("a former leader stops: {reason}")),
            None => self
                .auditor
                .findings
                .add("a former leader does not notice that another node is leader".to_owned()),
        }
    }

    /// The leader hands over leadership to another node, and shuts down.
    pub(super) fn hand_over(&mut self) {
        let Some(mut hub) = self.hub.take() else { return };
        let reason = hub.hand_over().to_string();
        self.counts.hand_overs += 1;
        self.say(format_args!("the leader hands over: {reason}"));
        let mut out = Vec::new();
        hub.collect(&mut out);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
        self.auditor.read_journal(&disk, hub.durable_seq());
        self.hand_out(out);
        hub.shutdown();
        self.end_process_so(false);
    }

    /// Frees space on the disks of the nodes that are not leader.
    pub(super) fn relieve_nodes(&mut self) {
        for machine in self.cluster.iter_mut().flat_map(|cluster| &mut cluster.others) {
            machine.disk.set_capacity(u64::MAX);
            machine.archive.set_full(false);
        }
    }

    /// Ends all faults of all nodes.
    pub(super) fn heal_nodes(&mut self) {
        if !self.is_of_nodes() {
            return;
        }
        self.thaw();
        let Some(cluster) = &mut self.cluster else { return };
        cluster.log.heal();
        for machine in &mut cluster.others {
            machine.clock.heal();
            machine.archive.heal();
            machine.disk.set_capacity(u64::MAX);
            machine.disk.clear_faults();
        }
    }

    /// At the end, checks that each node has the leader's data and reaches the same state.
    pub(super) fn compare_nodes(&mut self, ledger: &upesi_ledger::Ledger) {
        let Some(cluster) = &mut self.cluster else { return };
        (self.counts.entries_lost, self.counts.entries_late) = {
            let fates = cluster.log.fates();
            (fates.lost + fates.unacknowledged, fates.late + fates.twice)
        };
        self.counts.entries_deleted = cluster.log.deleted();
        for machine in std::mem::take(&mut cluster.others) {
            let disk: Arc<dyn Disk> = Arc::new(machine.disk.observer());
            match self.stand(&machine, false) {
                Ok(StandbyEnd::Follows) => self.auditor.compare_replay(&disk, ledger, false),
                Ok(StandbyEnd::Leads(..)) => {
                    self.auditor.findings.add("a node became leader at the end".to_owned())
                }
                Err(error) => self.auditor.findings.add(format!("node {} at the end: {error}", machine.node)),
            }
            self.counts.nodes_compared += 1;
            self.cluster.as_mut().expect("a world of nodes").others.push(machine);
        }
    }
}

impl Machine {
    fn end(&mut self) {
        (self.disk, self.store) = (self.disk.after_kill(), self.store.after_kill());
        self.archive.survive();
    }

    fn lose_power(&mut self, random: &mut Random) {
        let kept = draw_kept(random);
        (self.disk, self.store) = (self.disk.after_power_loss(kept), self.store.after_power_loss(kept));
        self.archive.crash();
    }
}
