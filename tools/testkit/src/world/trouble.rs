//! The faults of a world and their times.

use std::sync::Arc;

use upesi_journal::sim_disk::DiskFault;

use super::World;
use super::event::{Event, Relief};
use super::phase::Phase;

/// Maximum number of faults of the machine and of DFSPs in one world.
const FAULTS_MAX: u64 = 10;
/// Maximum number of process ends that follow each other quickly.
const RESTARTS_IN_A_ROW_MAX: u64 = 6;
const MISCHIEF_PAUSE_US: u64 = 600_000;
const OUTAGE_MOST_US: u64 = 5_000_000;
const CLOCK_FAULT_MOST_US: u64 = 3_000_000;
/// Maximum number of disk operations until a fault.
const OPERATIONS_AHEAD: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kill,
    PowerLoss,
    RestartsInARow,
    CrashAtOperation,
    BrokenOperation,
    FullDisk,
    BrokenArchive,
    BrokenReads,
    ClockJump,
    ClockDrift,
    ClockFreeze,
    DeadDfsp,
    SlowDfsp,
    FailingDfsp,
    Replay,
    HandOver,
    FrozenLeader,
}

impl World {
    /// Whether faults may still occur.
    pub(super) fn is_troubled(&self) -> bool {
        self.phase == Phase::Trouble
    }

    /// Plans everything that is known at the start.
    pub(super) fn plan_trouble(&mut self) {
        let trouble_us = self.plan.trouble_ms * 1_000;
        for _ in 0..self.plan.transfers {
            let at_us = self.random.below(trouble_us);
            self.schedule.add(at_us, Event::Pay);
        }
        let kinds = self.kinds();
        if !kinds.is_empty() {
            for _ in 0..1 + self.random.below(FAULTS_MAX) {
                let at_us = self.random.below(trouble_us);
                self.schedule.add(at_us, Event::Trouble);
            }
        }
        let first = self.random.below(MISCHIEF_PAUSE_US);
        self.schedule.add(first, Event::Mischief);
        self.schedule.add(first, Event::Operate);
        self.schedule.add(trouble_us, Event::Heal);
        self.plan_rot();
        self.plan_retention();
        self.plan_settlement();
        self.plan_fx_transfers();
        self.plan_bulks();
        self.plan_nodes();
    }

    fn kinds(&self) -> Vec<Kind> {
        let faults = &self.plan.faults;
        let groups: [(bool, &[Kind]); 6] = [
            (
                faults.crashes,
                &[
                    Kind::Kill,
                    Kind::PowerLoss,
                    Kind::RestartsInARow,
                    Kind::CrashAtOperation,
                    Kind::CrashAtOperation,
                    Kind::CrashAtOperation,
                ],
            ),
            (faults.disk, &[Kind::BrokenOperation, Kind::FullDisk, Kind::BrokenArchive, Kind::BrokenReads]),
            (faults.clock, &[Kind::ClockJump, Kind::ClockDrift, Kind::ClockFreeze]),
            (faults.outages, &[Kind::DeadDfsp, Kind::SlowDfsp, Kind::FailingDfsp]),
            (faults.network, &[Kind::Replay, Kind::Replay]),
            (
                faults.nodes,
                &[Kind::HandOver, Kind::HandOver, Kind::FrozenLeader, Kind::FrozenLeader, Kind::FrozenLeader],
            ),
        ];
        groups.iter().filter(|(is_on, _)| *is_on).flat_map(|(_, kinds)| kinds.iter().copied()).collect()
    }

    /// Causes a fault now.
    pub(super) fn trouble(&mut self) {
        if !self.is_troubled() {
            return;
        }
        let kinds = self.kinds();
        let kind = kinds[self.random.below(kinds.len() as u64) as usize];
        self.say(format_args!("fault: {kind:?}"));
        self.note_fault();
        match kind {
            Kind::Kill | Kind::PowerLoss => {
                self.ambush_before_crash();
                if self.hub.is_some() {
                    self.end_suddenly(kind == Kind::PowerLoss);
                }
            }
            Kind::RestartsInARow => {
                let more = self.between(2, RESTARTS_IN_A_ROW_MAX);
                self.end_again(more);
            }
            Kind::CrashAtOperation => {
                self.injure(DiskFault::Crash);
                self.ambush_before_operation();
            }
            Kind::BrokenOperation => self.injure(DiskFault::Broken),
            Kind::FullDisk => {
                self.counts.full_disks += 1;
                let room = self.random.below(64 * 1024);
                self.disk.set_capacity(self.disk.used_bytes() + room);
                self.archive.set_full(true);
                self.relief_after(Relief::Room, 2_000_000);
            }
            Kind::BrokenArchive => self.archive.break_once(),
            Kind::BrokenReads => {
                let ahead = self.random.below(20);
                self.disk.inject_read_error(self.disk.reads() + ahead);
            }
            Kind::ClockJump | Kind::ClockDrift | Kind::ClockFreeze => self.disturb_clock(kind),
            Kind::DeadDfsp | Kind::SlowDfsp | Kind::FailingDfsp => self.disturb_dfsp(kind),
            Kind::Replay => self.replay(),
            Kind::HandOver => self.hand_over(),
            Kind::FrozenLeader => self.freeze(),
        }
    }

    fn end_suddenly(&mut self, loses_power: bool) {
        let counts = &mut self.counts;
        let count = if loses_power { &mut counts.sudden_power_losses } else { &mut counts.sudden_kills };
        *count += 1;
        self.end_process_so(loses_power);
    }

    /// Ends the process if it runs, either a moment after its start or during its work, and soon again.
    pub(super) fn end_again(&mut self, more: u64) {
        if !self.is_troubled() {
            return;
        }
        let mut left = more;
        if self.hub.is_some() {
            self.counts.quick_restarts += 1;
            self.end_process();
            left = more.saturating_sub(1);
        }
        if left > 0 {
            let soon = self.between(100, 60_000);
            self.after(soon, Event::EndAgain { more: left });
        }
    }

    fn injure(&mut self, fault: DiskFault) {
        let ordinal = self.disk.operations().len() as u64 + self.random.below(OPERATIONS_AHEAD);
        self.disk.inject(ordinal, fault);
    }

    fn relief_after(&mut self, relief: Relief, most_us: u64) {
        let delay = self.between(1_000, most_us);
        self.after(delay, Event::Relief(relief));
    }

    pub(super) fn relieve(&mut self, relief: Relief) {
        self.say(format_args!("relief: {relief:?}"));
        match relief {
            Relief::Room => {
                self.disk.set_capacity(u64::MAX);
                self.archive.set_full(false);
                self.relieve_nodes();
            }
            Relief::Clock => self.clock.heal(),
        }
    }

    fn disturb_clock(&mut self, kind: Kind) {
        let now_us = self.now_us;
        match kind {
            Kind::ClockFreeze => {
                self.counts.clock_freezes += 1;
                self.clock.freeze();
            }
            Kind::ClockDrift => {
                self.counts.clock_drifts += 1;
                let permille = self.random.below(1_000) as i64 - 500;
                self.clock.drift(now_us, permille);
            }
            _ => {
                self.counts.clock_jumps += 1;
                let span = [20_000, 2_000_000, 3_600_000_000][self.random.below(3) as usize];
                let by_us = self.random.below(2 * span) as i64 - span as i64;
                self.clock.jump(now_us, by_us);
            }
        }
        self.relief_after(Relief::Clock, CLOCK_FAULT_MOST_US);
    }

    fn disturb_dfsp(&mut self, kind: Kind) {
        let dfsp = self.random.below(self.dfsps.len() as u64) as usize;
        let until_us = self.now_us + self.between(100_000, OUTAGE_MOST_US);
        let dfsp = &mut self.dfsps[dfsp];
        let (until, count) = match kind {
            Kind::DeadDfsp => (&mut dfsp.dead_until_us, &mut self.counts.dead_dfsps),
            Kind::SlowDfsp => (&mut dfsp.slow_until_us, &mut self.counts.slow_dfsps),
            _ => (&mut dfsp.failing_until_us, &mut self.counts.failing_dfsps),
        };
        *until = until_us;
        *count += 1;
    }

    /// Some old requests are sent again, as faulty networks and DFSPs may do.
    fn replay(&mut self) {
        for _ in 0..1 + self.random.below(6) {
            let count = self.history.len() as u64;
            if count == 0 {
                return;
            }
            self.counts.replays += 1;
            let (life, from, request, seen) = &self.history[self.random.below(count) as usize];
            self.counts.replays_after_restart += u64::from(*life < self.life);
            let (from, request, seen) = (*from, Arc::clone(request), seen.clone());
            self.send_again(from, request, seen, 1);
        }
    }

    pub(super) fn plan_mischief(&mut self) {
        if self.is_troubled() && self.plan.faults.lies {
            let pause = self.between(1_000, MISCHIEF_PAUSE_US);
            self.after(pause, Event::Mischief);
        }
    }
}
