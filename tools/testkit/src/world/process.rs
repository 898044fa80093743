//! The hub's process on its machine: its starts, its threads, its end.

use std::sync::Arc;
use std::time::Duration;

use upesi_delivery::lanes::CourierConfig;
use upesi_engine::{Clock, EngineOptions, StartError, Storage};
use upesi_journal::Disk;
use upesi_journal::sim_disk::{DiskFault, Random, SurvivingData};
use upesi_ledger::{Bulk, BulkState, ItemState, LedgerConfig, Limits};

use super::World;
use super::cluster::is_explained;
use super::event::Event;
use super::rot::names_damage;
use crate::archive::SimArchive;
use crate::clock::{ClockKeeper, true_time};
use crate::hub::{Hub, LyingDisk, Output, Setup};
use crate::plan::Bug;

/// Interval of the checks of deadlines.
const TICK_US: u64 = 100_000;
/// Approximate number of disk operations of a start and the time after it.
const STARTING_OPERATIONS: u64 = 16;

/// The settings of this hub: small limits, so that tests reach every limit.
#[derive(Clone, Debug)]
pub(super) struct Tuning {
    pub(super) courier: CourierConfig,
    engine: EngineOptions,
}

fn any<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

impl Tuning {
    pub(super) fn draw(random: &mut Random) -> Self {
        let courier = CourierConfig {
            concurrency_max: any(random, &[1, 2, 8]),
            queue_max: any(random, &[2, 8, 64]),
            retrying_max: any(random, &[1, 4, 16]),
            request_timeout: Duration::from_secs(1),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(1),
            deadline: Duration::from_secs(any(random, &[3, 10, 900])),
            breaker_threshold: any(random, &[2, 8]),
            breaker_pause_min: Duration::from_millis(200),
            breaker_pause_max: Duration::from_secs(2),
            report_items: any(random, &[1, 4, 64]),
            backlog_retry_wait: Duration::from_millis(100),
            seed: random.bits(),
            ..CourierConfig::default()
        };
        let hash_seed = random.bits();
        // In every second world, the ledger reaches its limits.
        let limits = if hash_seed & 1 == 0 { Limits::TINY } else { Limits::SHIPPED };
        let engine = EngineOptions {
            ledger: LedgerConfig { hash_seed, limits, ..LedgerConfig::default() },
            queue_commands_max: any(random, &[4, 64, 65_536]),
            batch_commands_max: any(random, &[1, 8, 4_096]),
            segment_bytes: 8 * 1024,
            batch_bytes_max: any(random, &[2 * 1024, 16 * 1024]),
            // From all to none of the batches go to the journal's thread.
            overlap_bytes_min: any(random, &[0, 0, 2_000, usize::MAX]),
            fold_every_records: any(random, &[1, 4, 16, 64]),
            snapshot_every_records: any(random, &[8, 32]),
            finished_transfers_max: any(random, &[2, 16, 1_000_000]),
            keep_segments: !random.one_in(3),
            ..EngineOptions::new("nowhere")
        };
        Self { courier, engine }
    }
}

/// Draws what survives a loss of power.
pub(super) fn draw_kept(random: &mut Random) -> SurvivingData {
    match random.below(3) {
        0 => SurvivingData::Everything,
        1 => SurvivingData::Nothing,
        _ => SurvivingData::Some(random.bits()),
    }
}

/// Boundary between a jump of some seconds, which the hub follows, and one of an hour, which it does not.
const CLOCK_JUMP_MAX: Duration = Duration::from_secs(3);

impl World {
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        if self.plan.bug == Some(Bug::SyncsNothing) {
            return Arc::new(LyingDisk(self.disk.clone()));
        }
        Arc::new(self.disk.clone())
    }

    pub(super) fn start_on(&self, disk: Arc<dyn Disk>) -> Result<Hub, StartError> {
        Hub::start(self.setup(disk), self.next_sending)
    }

    pub(super) fn setup(&self, disk: Arc<dyn Disk>) -> Setup {
        let options = self.engine_options(disk, &self.archive, &self.clock);
        let mut courier = self.tuning.courier.clone();
        courier.seed ^= self.life;
        Setup {
            options,
            courier,
            bug: self.plan.bug,
            lives: self.life,
            epoch: self.epoch,
            nodes: self.followers(),
        }
    }

    pub(super) fn engine_options(
        &self,
        disk: Arc<dyn Disk>,
        archive: &Arc<SimArchive>,
        clock: &ClockKeeper,
    ) -> EngineOptions {
        EngineOptions {
            clock: clock.clock() as Arc<dyn Clock>,
            clock_jump_max: match self.plan.bug {
                Some(Bug::FollowsJumps) => Duration::MAX,
                _ => CLOCK_JUMP_MAX,
            },
            storage: Some(Storage { disk, archive: Arc::clone(archive) as _ }),
            ..self.tuning.engine.clone()
        }
    }

    /// A process starts and recovers, and the auditor compares.
    pub(super) fn start_process(&mut self) {
        self.rot();
        self.counts.starts += 1;
        let (known, mut lies) = (self.auditor.last_seq(), std::mem::take(&mut self.lies_at_start));
        lies.extend(self.records_lied_about());
        let started = if self.is_of_nodes() {
            self.start_leading()
        } else {
            self.start_on(self.disk()).map_err(|error| error.to_string())
        };
        match started {
            Err(reason) => {
                self.lies_at_start = lies;
                self.say(format_args!("hub does not start: {reason}"));
                self.counts.starts_failed += 1;
                if self.is_rotten && names_damage(&reason) {
                    return self.refused();
                }
                self.explain(&reason);
                self.end_process();
            }
            Ok(hub) => {
                let (seq, life) = (hub.durable_seq(), self.life);
                self.counts.bulks_interrupted += u64::from(hub.ledger().live_bulks().any(is_midway));
                self.say(format_args!("hub starts at record {seq}"));
                self.judge_start(&hub, known, &lies);
                if self.counts.rot_unseen > 0 {
                    return;
                }
                let disk = Arc::new(self.disk.observer()) as Arc<dyn Disk>;
                self.auditor.read_journal(&disk, seq);
                self.hub = Some(hub);
                self.trusts_clock = self.clock.is_about_right(self.now_us);
                self.after_hub(true);
                self.compare(self.random.clone().one_in(4));
                self.after(TICK_US, Event::Tick { life });
                self.after(TICK_US / 10, Event::Archivist { life });
                self.ambush_after_start();
            }
        }
    }

    pub(super) fn turn(&mut self, ticks: bool) {
        self.turn_due = false;
        let Some(hub) = &mut self.hub else { return };
        let alive = hub.turn(ticks);
        let (flush, journal) = (self.random.below(300), self.random.below(3_000));
        let life = self.life;
        self.after(flush, Event::Flush { life });
        self.after(journal, Event::Journal { life });
        self.after_hub(alive);
    }

    pub(super) fn tick(&mut self) {
        let life = self.life;
        self.after(TICK_US, Event::Tick { life });
        self.turn(true);
    }

    pub(super) fn turn_journal(&mut self) {
        let Some(hub) = &mut self.hub else { return };
        if hub.turn_journal() {
            let (life, flush) = (self.life, self.random.below(300));
            self.after(flush, Event::Flush { life });
            self.after_hub(true);
        }
    }

    pub(super) fn turn_archivist(&mut self) {
        let (life, pause) = (self.life, self.between(1_000, 150_000));
        self.after(pause, Event::Archivist { life });
        let Some(hub) = &mut self.hub else { return };
        hub.turn_archivist();
        self.after_hub(true);
    }

    pub(super) fn flush(&mut self) {
        let now_us = self.now_us;
        let Some(hub) = &mut self.hub else { return };
        hub.flush(now_us);
        self.after_hub(true);
    }

    /// After each action of the hub: handles newly durable records, outgoing messages and the next events.
    pub(super) fn after_hub(&mut self, alive: bool) {
        let now_us = self.now_us;
        let mut out = Vec::new();
        let disk = Arc::new(self.disk.observer()) as Arc<dyn Disk>;
        let Some(hub) = &mut self.hub else { return };
        self.auditor.true_now = self.trusts_clock.then(|| true_time(now_us));
        self.auditor.read_journal(&disk, hub.durable_seq());
        hub.collect(&mut out);
        let wake_us = hub.pump(now_us, &mut out);
        self.next_sending = hub.next_sending();
        let stopped = hub.stop_reason();
        let waits = hub.waits();
        self.hand_out(out);
        if let Some(reason) = stopped {
            let reason = reason.to_string();
            self.say(format_args!("hub stops: {reason}"));
            self.counts.disk_stops += 1;
            self.explain(&reason);
            return self.end_process();
        }
        if !alive {
            self.auditor.findings.add("the engine stopped without a reason".to_owned());
        }
        let life = self.life;
        if let Some(wake_us) = wake_us {
            self.schedule_lanes(wake_us.max(now_us + 1));
        }
        if waits && !self.turn_due {
            self.turn_due = true;
            let delay = self.between(20, 400);
            self.after(delay, Event::Turn { life });
        }
    }

    /// Sends outgoing messages on their way.
    pub(super) fn hand_out(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Answer { number, outcome } => self.leave(number, outcome),
                Output::Told(reply) => self.operator_told(reply),
                Output::Removed { to_seq, outcome } => self.removed(to_seq, &outcome),
                Output::Callback { number, key, request } => self.callback_leaves(number, key, request),
            }
        }
    }

    fn schedule_lanes(&mut self, at_us: u64) {
        if self.lanes_due_us.is_some_and(|due| due > self.now_us && due <= at_us) {
            return;
        }
        self.lanes_due_us = Some(at_us);
        let life = self.life;
        self.schedule.add(at_us, Event::Lanes { life });
    }

    /// Reports an end or a failed start that no fault explains.
    fn explain(&mut self, reason: &str) {
        if self.is_rotten && names_damage(reason) {
            // The next start shows whether the damage is real.
            self.counts.rot_met += 1;
        } else if !(reason.contains("simulated") || self.is_of_nodes() && is_explained(reason)) {
            self.auditor.findings.add(format!("the hub ends without a fault: {reason}"));
        }
    }

    /// The process has ended, perhaps with the machine. It is started again.
    pub(super) fn end_process(&mut self) {
        let loses_power = self.random.one_in(2);
        self.end_process_so(loses_power);
    }

    /// Removes everything that ends with the process.
    pub(super) fn process_is_gone(&mut self) {
        self.start_cut_at = None;
        self.auditor.process_ended();
        self.operator_lost();
        self.life += 1;
        self.turn_due = false;
        self.lanes_due_us = None;
    }

    pub(super) fn end_process_so(&mut self, loses_power: bool) {
        self.note_strikes();
        self.hub = None;
        self.process_is_gone();
        if loses_power {
            let kept = draw_kept(&mut self.random);
            self.say(format_args!("power is lost, kept: {kept:?}"));
            self.counts.power_losses += 1;
            self.archive.crash();
            self.disk = self.disk.after_power_loss(kept);
            self.end_store(Some(kept));
        } else {
            self.say(format_args!("process is killed"));
            self.counts.kills += 1;
            if self.random.one_in(2) {
                self.archive.crash();
            } else {
                self.archive.survive();
            }
            self.disk = self.disk.after_kill();
            self.end_store(None);
        }
        self.lose_archive();
        self.change_node();
        if self.is_troubled() && self.plan.faults.crashes && self.random.one_in(4) {
            // The next start is cut off, too.
            let ordinal = self.random.below(STARTING_OPERATIONS);
            self.disk.inject(ordinal, DiskFault::Crash);
            self.start_cut_at = Some(ordinal);
        }
        let pause =
            if self.random.one_in(3) { self.between(100, 5_000) } else { self.between(5_000, 800_000) };
        let life = self.life;
        self.after(pause, Event::Start { life });
    }
}

/// Whether a bulk transfer is between two of its steps.
fn is_midway(bulk: &Bulk) -> bool {
    let decided = bulk.items.iter().filter(|item| item.state != ItemState::Waiting).count();
    match bulk.state {
        BulkState::Received => decided > 0 && decided < bulk.items.len(),
        BulkState::Processing => !bulk.results.is_empty() && bulk.results.len() < decided,
        _ => false,
    }
}
