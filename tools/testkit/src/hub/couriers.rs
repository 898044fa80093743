//! Followers that deliver callbacks in addition to the leader. They have their own lanes, and their reports may be
//! lost.
//!
//! They read released callbacks from the leader's state: a follower has the same state a moment later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upesi_delivery::lanes::{ParticipantId, SteppedLane};
use upesi_delivery::owed::{OutboxBacklog, Reports, Share};
use upesi_journal::sim_disk::Random;
use upesi_ledger::Command;

use super::Hub;

/// A node and a participant: the node has a lane to this participant. The leader is node 0.
pub(super) type LaneId = (u32, ParticipantId);

/// Interval at which nodes update the set of participants that they deliver to, and send reports.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Trouble of the nodes that deliver callbacks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CourierTrouble {
    /// From now on, the nodes in this mask deliver. Bit 0 is the leader.
    Share(u32),
    /// A node stops and starts again with empty memory.
    Ends(u32),
}

/// A node's part in the delivery.
struct DeliveringNode {
    share: Share,
    backlog: OutboxBacklog,
    /// Set for a follower.
    reports: Option<Arc<Reports>>,
}

pub(super) struct Couriers {
    seats: BTreeMap<u32, DeliveringNode>,
    random: Random,
    /// Percentage of lost reports: on the way, or with a node that accepted them.
    lost_percent: u64,
}

impl DeliveringNode {
    fn new(node: u32, backlog: &OutboxBacklog) -> Self {
        let reports = (node > 0).then(Arc::<Reports>::default);
        let backlog = OutboxBacklog { reports: reports.clone(), ..backlog.clone() };
        Self { share: Share::new(node, node == 0), backlog, reports }
    }
}

impl Couriers {
    pub(super) fn new(backlog: OutboxBacklog, nodes: u32, seed: u64) -> Self {
        let seats = (0..=nodes).map(|node| (node, DeliveringNode::new(node, &backlog))).collect();
        Self { seats, random: Random::new(seed), lost_percent: 0 }
    }

    pub(super) fn backlog(&self, node: u32) -> &OutboxBacklog {
        &self.seats[&node].backlog
    }

    fn are_shared(&self) -> bool {
        self.seats.len() > 1
    }
}

impl Hub {
    pub(super) fn open(&mut self, target: ParticipantId) {
        for node in self.couriers.seats.keys() {
            self.lanes.entry((*node, target)).or_insert_with(|| {
                let seed = self.courier.seed ^ u64::from(target.number()) ^ u64::from(*node) << 32;
                let mut lane = SteppedLane::new(self.courier.clone(), seed);
                if self.couriers.are_shared() {
                    lane.leave();
                }
                lane
            });
        }
    }

    /// The lanes of all nodes to a participant.
    pub(super) fn lanes_to(&mut self, target: ParticipantId) -> impl Iterator<Item = &mut SteppedLane> {
        self.lanes.iter_mut().filter(move |((_, to), _)| *to == target).map(|(_, lane)| lane)
    }

    /// Nodes update the set of participants that they deliver to, and report the outcomes of callbacks. Returns the
    /// time of the next call.
    pub(super) fn share(&mut self, now: Instant) -> Option<Instant> {
        if !self.couriers.are_shared() {
            return None;
        }
        let participants = self.renderer.participants.get();
        for target in participants.ids() {
            self.open(target);
        }
        let mut changed = Vec::new();
        for (node, seat) in &mut self.couriers.seats {
            changed.extend(seat.share.look(&participants, now).map(|ours| (*node, ours)));
        }
        for (node, ours) in changed {
            self.deliver_to(node, &ours);
        }
        self.report(now);
        Some(now + LOOK_EVERY)
    }

    fn deliver_to(&mut self, node: u32, ours: &BTreeSet<ParticipantId>) {
        for ((of, target), lane) in &mut self.lanes {
            match (lane.is_elsewhere(), ours.contains(target)) {
                (true, true) if *of == node => lane.begin(),
                (false, false) if *of == node => lane.leave(),
                _ => {}
            }
        }
    }

    fn report(&mut self, now: Instant) {
        for (node, seat) in &self.couriers.seats {
            let Some(reports) = &seat.reports else { continue };
            let is_lost = |random: &mut Random, percent| random.below(100) < percent;
            let report = reports.next(*node, true);
            if is_lost(&mut self.couriers.random, self.couriers.lost_percent) {
                reports.keep(report);
            } else {
                reports.told(report.clone(), now);
                if !is_lost(&mut self.couriers.random, self.couriers.lost_percent) {
                    for command in report.commands() {
                        let _ = self.handle.submit_quietly(command);
                    }
                }
            }
            // Decisions that are not durable yet are not visible here. An extra report does no harm.
            reports.report_again(reports.take_old(now).missing(self.engine.ledger()));
        }
    }

    /// Sets the percentage of reports that are lost from now on.
    pub(crate) const fn lose_reports(&mut self, percent: u64) {
        self.couriers.lost_percent = percent;
    }

    /// Causes trouble of the nodes that deliver.
    pub(crate) fn trouble_couriers(&mut self, trouble: CourierTrouble) {
        match trouble {
            CourierTrouble::Share(mask) => {
                let nodes = self.couriers.seats.keys().copied().filter(|node| mask >> node & 1 == 1);
                let _ = self.handle.submit_quietly(Command::SetCouriers(nodes.collect()));
            }
            CourierTrouble::Ends(node) => {
                if let Some(seat) = self.couriers.seats.get_mut(&node) {
                    *seat = DeliveringNode::new(node, &seat.backlog);
                    self.lanes.retain(|(of, _), _| *of != node);
                    self.sendings.retain(|_, ((of, _), _)| *of != node);
                    self.pages.retain(|((of, _), _)| *of != node);
                    self.scans.retain(|((of, _), _)| *of != node);
                    self.loads.retain(|((of, _), _, _)| *of != node);
                }
            }
        }
    }
}
