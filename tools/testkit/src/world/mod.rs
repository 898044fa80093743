//! A world: the events of one hub, one by one.

mod ambush;
mod bulks;
mod calls;
mod change_sets;
mod cluster;
mod converting;
mod describe;
mod dfsp;
mod event;
mod operator;
mod phase;
mod process;
mod retention;
mod rot;
mod safety;
mod treasury;
mod trouble;
mod values;

use std::collections::BTreeMap;
use std::fmt::{Arguments, Write as _};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use describe::Counts;
use phase::Phase;
use tokio::time::Instant;
use upesi_journal::Disk;
use upesi_journal::sim_disk::{Random, SimDisk};
use upesi_types::TransferId;

use self::bulks::BulkTraffic;
use self::calls::Call;
use self::change_sets::ChangeSets;
use self::cluster::Cluster;
use self::converting::Exchange;
use self::dfsp::Dfsp;
use self::event::{Event, Schedule};
use self::operator::Operator;
use self::process::Tuning;
use self::retention::Retention;
use self::treasury::SettlementTraffic;
use crate::archive::SimArchive;
use crate::auditor::{Auditor, ObservedRequest};
use crate::clock::ClockKeeper;
use crate::hub::Hub;
use crate::message::{Request, Spec};
use crate::plan::{Bug, Plan};
use crate::remote::Remote;

/// Maximum number of events of a world. If it is exceeded, the world does not come to rest.
const EVENTS_MAX: u64 = 2_000_000;
/// Separates the second random stream of a seed from the first.
const MISCHANCE: u64 = 0x6d69_7363_6861_6e63;

/// The result of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed that determined everything.
    pub seed: u64,
    /// The auditor's findings, in sentences; empty if there are none.
    pub findings: Vec<String>,
    /// A hash of the event log. One seed and plan produce the same hash on every machine.
    pub log_hash: u64,
    pub events: u64,
    /// Simulated duration in microseconds.
    pub simulated_us: u64,
    pub counts: Counts,
    /// The event log, if the plan keeps it.
    pub log: Vec<String>,
}

impl Outcome {
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Runs one seed.
///
/// Panics if the hub panics: an assertion of the ledger is a finding, too, and its message names the place.
pub fn run(seed: u64, plan: &Plan) -> Outcome {
    let mut world = World::new(seed, plan.clone());
    while world.step() {}
    world.outcome()
}

/// A world that runs event by event.
pub struct World {
    seed: u64,
    plan: Plan,
    random: Random,
    /// A separate random stream, for later additions: without them, a seed produces the same events as before.
    mischance: Random,
    log: Log,
    now_us: u64,
    schedule: Schedule,
    events: u64,
    counts: Counts,
    auditor: Auditor,
    clock: ClockKeeper,
    epoch: Instant,
    /// Whether the hub's time began with a clock that counts as right.
    trusts_clock: bool,
    // The hub and its machine.
    disk: SimDisk,
    archive: Arc<SimArchive>,
    tuning: Tuning,
    hub: Option<Hub>,
    life: u64,
    next_sending: u64,
    turn_due: bool,
    lanes_due_us: Option<u64>,
    /// Whether the disk has lost or changed written data.
    is_rotten: bool,
    /// Records in frames with a flipped bit.
    records_rotten: Vec<RangeInclusive<u64>>,
    /// Records that the disk had lied about when a start was cut off. The start may have overwritten their remains.
    lies_at_start: Vec<std::ops::RangeInclusive<u64>>,
    /// Number of false writes of the disk that were handled here so far.
    deceptions_seen: usize,
    /// The disk operation that cuts off this start, or the time directly after it.
    start_cut_at: Option<u64>,
    // Safety.
    /// Number of operations hit by a fault that were noticed here so far.
    befallen: u64,
    /// Number of operations and reads hit by a fault of the disk that were counted so far.
    strikes_seen: usize,
    faults_unchecked: u64,
    // The participants outside the hub.
    /// The DFSPs of this scheme, and the DFSPs of another scheme behind one of them.
    dfsps: Vec<Dfsp>,
    remote: Option<Remote>,
    operator: Operator,
    /// Amount of the withdrawal that is being ended, in ten-thousandths.
    operator_amount: Option<i128>,
    specs: Vec<Spec>,
    calls: BTreeMap<u64, Call>,
    next_call: u64,
    /// Earlier requests, for replays: the hub's life, the sender, the request and its meaning.
    history: Vec<(u64, usize, Arc<Request>, ObservedRequest)>,
    phase: Phase,
    retention: Retention,
    treasury: SettlementTraffic,
    change_sets: ChangeSets,
    exchange: Exchange,
    payroll: BulkTraffic,
    /// The other nodes, in a cluster.
    cluster: Option<Cluster>,
}

impl World {
    /// A world before its first event: a hub with its participants, and the planned faults.
    pub fn new(seed: u64, plan: Plan) -> Self {
        let mut random = Random::new(seed);
        let locals = plan.dfsps.clamp(2, 16);
        let remote = Remote::draw(seed, &plan, locals);
        let dfsps = locals + remote.map_or(0, |remote| remote.count);
        let tuning = Tuning::draw(&mut random);
        let mut world = Self {
            seed,
            mischance: Random::new(seed ^ MISCHANCE),
            log: Log::new(plan.keep_log),
            now_us: 0,
            schedule: Schedule::default(),
            events: 0,
            counts: Counts::default(),
            auditor: Auditor::new(plan.faults.rot),
            clock: ClockKeeper::new(),
            epoch: Instant::now(),
            trusts_clock: true,
            disk: SimDisk::new(random.bits()),
            archive: Arc::new(SimArchive::forgetting(plan.bug == Some(Bug::ForgetsFinished))),
            tuning,
            hub: None,
            life: 0,
            next_sending: 0,
            turn_due: false,
            lanes_due_us: None,
            is_rotten: false,
            records_rotten: Vec::new(),
            lies_at_start: Vec::new(),
            deceptions_seen: 0,
            start_cut_at: None,
            befallen: 0,
            strikes_seen: 0,
            faults_unchecked: 0,
            operator_amount: None,
            dfsps: (0..dfsps).map(|_| Dfsp::default()).collect(),
            remote,
            operator: Operator::default(),
            specs: Vec::new(),
            calls: BTreeMap::new(),
            next_call: 0,
            history: Vec::new(),
            phase: Phase::Trouble,
            retention: Retention::new(seed, &plan),
            treasury: SettlementTraffic::new(seed, &plan),
            change_sets: ChangeSets::new(seed),
            exchange: Exchange::new(seed, &plan),
            payroll: BulkTraffic::new(seed, &plan),
            cluster: plan.faults.nodes.then(|| Cluster::draw(seed)),
            random,
            plan,
        };
        world.start_process();
        world.onboard();
        world.plan_trouble();
        world
    }

    /// Runs the next event. Returns false when the world has ended.
    pub fn step(&mut self) -> bool {
        if self.phase == Phase::Over {
            return false;
        }
        if !self.auditor.findings.0.is_empty() {
            self.phase = Phase::Over;
            if self.pardon_rot() {
                // The auditor found it, in a record that the hub has not needed yet.
                self.judge_by_start();
            }
            return false;
        }
        let Some((now_us, event)) = self.schedule.next() else {
            self.auditor.findings.add("no event is left, but the world has not ended".to_owned());
            return false;
        };
        self.now_us = now_us;
        self.clock.at(now_us);
        self.events += 1;
        self.handle(event);
        self.watch_safety();
        self.watch_the_time();
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Turn { life } if life == self.life => self.turn(false),
            Event::Tick { life } if life == self.life => self.tick(),
            Event::Journal { life } if life == self.life => self.turn_journal(),
            Event::Archivist { life } if life == self.life => self.turn_archivist(),
            Event::Flush { life } if life == self.life => self.flush(),
            Event::Lanes { life } if life == self.life => self.after_hub(true),
            Event::CallbackAnswered { life, number, done } if life == self.life => {
                self.callback_answered(number, done);
            }
            Event::Turn { .. }
            | Event::Tick { .. }
            | Event::Journal { .. }
            | Event::Archivist { .. }
            | Event::Flush { .. }
            | Event::Lanes { .. }
            | Event::CallbackAnswered { .. } => {}
            Event::Start { life } => {
                if life == self.life && self.hub.is_none() {
                    self.start_process();
                }
            }
            Event::Arrive { call } => self.arrive(call),
            Event::Answered { call, status } => self.answered(call, status),
            Event::CallTimeout { call, attempt } => self.call_timed_out(call, attempt),
            Event::Callback { life, number, key, request } => self.callback(life, number, key, &request),
            Event::Pay => self.begin_transfer(),
            Event::Put { spec, by, ending, is_right } => self.send_put(spec, by, ending, is_right),
            Event::Convert => self.begin_fx_transfer(),
            Event::SendDetermining { spec, amount } => self.send_determining(spec, amount),
            Event::PutFxTransfer { fx_transfer, ending, is_right } => {
                self.send_fx_transfer_put(fx_transfer, ending, is_right);
            }
            Event::PayInBulk => self.begin_bulk(),
            Event::PutBulk { bulk, answer } => self.send_bulk_put(bulk, answer),
            Event::Mischief => {
                self.plan_mischief();
                self.mischief();
                self.fx_transfer_mischief();
                self.bulk_mischief();
            }
            Event::Operate => self.operate(),
            Event::Trouble => self.trouble(),
            Event::Ambush { life, moment } => {
                if life == self.life {
                    self.ambush(moment);
                }
            }
            Event::Decay => self.decay(),
            Event::LosePower => self.lose_power(),
            Event::EndAgain { more } => self.end_again(more),
            Event::Follow => self.follow(),
            Event::Thaw => self.thaw(),
            Event::Couriers => self.trouble_couriers(),
            Event::Relief(relief) => self.relieve(relief),
            Event::Heal => self.heal(),
            Event::Ask => self.ask(),
            Event::Retain => self.retain(),
            Event::Settle => self.settle(),
        }
    }

    fn watch_the_time(&mut self) {
        let end_us = (self.plan.trouble_ms + self.plan.patience_ms) * 1_000;
        if self.phase != Phase::Over && (self.now_us > end_us || self.events > EVENTS_MAX) {
            let unfinished = self.unfinished();
            self.auditor.findings.add(format!("liveness: {unfinished}"));
        }
    }

    /// The hub's disk, and the last durable record. For a world with one hub.
    pub fn durable(&self) -> (Arc<dyn Disk>, u64) {
        (Arc::new(self.disk.observer()), self.auditor.last_seq())
    }

    /// The outcome, or the state so far.
    pub fn outcome(&self) -> Outcome {
        let mut counts = self.counts;
        (counts.committed, counts.aborted, counts.expired) = self.auditor.totals();
        counts.broken_archives = self.archive.broken();
        let settled = self.auditor.settled();
        (counts.windows_closed, counts.settlements) = (settled.windows, settled.settlements);
        (counts.settled, counts.settlements_aborted) = (settled.settled, settled.aborted);
        (counts.caps_raised, counts.caps_lowered) = (settled.caps_raised, settled.caps_lowered);
        (counts.stages_in_pieces, counts.settled_at_once) = (settled.pieces, settled.settled_at_once);
        counts.fees = settled.fees;
        counts.committed_through_proxy = self.auditor.committed_through_proxy();
        let converted = self.auditor.converted();
        (counts.fx_transfers_committed, counts.fx_transfers_aborted) =
            (converted.committed, converted.aborted);
        (counts.fx_transfers_expired, counts.fx_transfers_of_payees) =
            (converted.expired, converted.of_payees);
        let bulks = self.auditor.bulks();
        (counts.bulks_completed, counts.bulks_rejected) = (bulks.completed, bulks.rejected);
        (counts.bulks_in_part, counts.bulks_in_slices) = (bulks.in_part, bulks.in_slices);
        (counts.items_committed, counts.items_expired) = (bulks.items_committed, bulks.items_expired);
        Outcome {
            seed: self.seed,
            findings: self.auditor.findings.0.clone(),
            log_hash: self.log.hash(),
            events: self.events,
            simulated_us: self.now_us,
            counts,
            log: self.log.lines().to_vec(),
        }
    }

    /// The event log so far, if the plan keeps it.
    pub fn log(&self) -> &[String] {
        self.log.lines()
    }

    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The next event as text.
    pub fn next_event(&self) -> String {
        self.schedule.peek().map_or_else(
            || "nothing".to_owned(),
            |(at_us, event)| format!("{:>4}.{:06} {event:?}", at_us / 1_000_000, at_us % 1_000_000),
        )
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        self.log.add(self.now_us, what);
    }

    fn after(&mut self, delay_us: u64, event: Event) {
        self.schedule.add(self.now_us + delay_us, event);
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below(most - least + 1)
    }

    fn new_id(&mut self) -> TransferId {
        random_id(&mut self.random)
    }
}

fn random_id(random: &mut Random) -> TransferId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random.bits().to_be_bytes());
    bytes[8..].copy_from_slice(&random.bits().to_be_bytes());
    TransferId::from_random_bytes(bytes)
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("seed", &self.seed)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

const HASH_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// The events that happened, in order.
#[derive(Debug)]
pub(crate) struct Log {
    line: String,
    hash: u64,
    lines: u64,
    kept: Option<Vec<String>>,
}

impl Log {
    pub(crate) fn new(keep: bool) -> Self {
        Self { line: String::new(), hash: HASH_OFFSET, lines: 0, kept: keep.then(Vec::new) }
    }

    /// Adds a line: the time in microseconds, and the event.
    pub(crate) fn add(&mut self, now_us: u64, what: Arguments<'_>) {
        self.line.clear();
        let _ = write!(self.line, "{:>4}.{:06} {what}", now_us / 1_000_000, now_us % 1_000_000);
        for byte in self.line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(HASH_PRIME);
        }
        self.lines += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(self.line.clone());
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, if they are kept.
    pub(crate) fn lines(&self) -> &[String] {
        self.kept.as_deref().unwrap_or_default()
    }
}
