//! The participants that this node of a cluster serves, determined by the nodes in the journal, after a short
//! delay.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use upesi_engine::{Participants, SharedParticipants};
use upesi_ledger::{ParticipantId, courier_of};

use crate::lanes::Courier;

/// Delay before a node delivers to participants of another node. Most requests that the other node has in flight end
/// meanwhile, so they are not sent twice.
const WAIT: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The participants that one node delivers to.
#[derive(Debug)]
pub struct Share {
    node: u32,
    /// Whether it delivers to all while the journal names no nodes.
    leads: bool,
    /// The nodes at the last check.
    nodes: Option<Vec<u32>>,
    ours: BTreeSet<ParticipantId>,
    /// Participants of another node until now, and the time when this node begins to deliver to them.
    coming: BTreeMap<ParticipantId, Instant>,
}

impl Share {
    /// The share of a node. `leads`: whether it is the leader.
    pub fn new(node: u32, leads: bool) -> Self {
        Self { node, leads, nodes: None, ours: BTreeSet::new(), coming: BTreeMap::new() }
    }

    /// The participants to deliver to now, if they changed. At the first check, this node takes its participants
    /// without delay, because it has ended its earlier deliveries.
    pub fn look(&mut self, participants: &Participants, now: Instant) -> Option<BTreeSet<ParticipantId>> {
        let nodes = participants.couriers();
        let is_ours =
            |target: &ParticipantId| courier_of(nodes, *target).map_or(self.leads, |node| node == self.node);
        let mut ours: BTreeSet<_> = participants.ids().filter(is_ours).collect();
        self.coming.retain(|target, due| ours.contains(target) && *due > now);
        if self.nodes.as_deref().is_some_and(|known| known != nodes) {
            for target in ours.difference(&self.ours) {
                self.coming.entry(*target).or_insert(now + WAIT);
            }
        }
        if self.nodes.as_deref() != Some(nodes) {
            self.nodes = Some(nodes.to_vec());
        }
        ours.retain(|target| !self.coming.contains_key(target));
        if ours == self.ours {
            return None;
        }
        self.ours.clone_from(&ours);
        Some(ours)
    }

    /// Keeps the courier's participants current, as long as it is polled.
    pub async fn keep(mut self, courier: Courier, participants: SharedParticipants) {
        let mut seen = None;
        loop {
            let generation = participants.generation();
            if seen != Some(generation) || !self.coming.is_empty() {
                seen = Some(generation);
                if let Some(ours) = self.look(&participants.get(), Instant::now()) {
                    tracing::info!(participants = ours.len(), "this node delivers callbacks");
                    courier.deliver_to(ours);
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use upesi_ledger::Participant;
    use upesi_types::{FspId, Timestamp};

    use super::*;

    fn participants(count: u32, nodes: &[u32]) -> Participants {
        let participant = |number| {
            Participant::new(
                ParticipantId::new(number).unwrap(),
                FspId::parse(&format!("dfsp{number}")).unwrap(),
                Timestamp::EPOCH,
            )
        };
        Participants::new((1..=count).map(participant).collect(), &[]).delivered_by(nodes.to_vec())
    }

    fn numbers(ours: Option<BTreeSet<ParticipantId>>) -> Option<Vec<u32>> {
        ours.map(|ours| ours.into_iter().map(ParticipantId::number).collect())
    }

    #[test]
    fn leader_delivers_to_all_until_the_journal_names_nodes() {
        let (mut leader, mut follower) = (Share::new(1, true), Share::new(2, false));
        let now = Instant::now();
        assert_eq!(numbers(leader.look(&participants(12, &[]), now)), Some((1..=12).collect()));
        assert_eq!(numbers(follower.look(&participants(12, &[]), now)), None);
        let both = participants(12, &[1, 2]);
        let of_first = numbers(leader.look(&both, now)).unwrap();
        assert_eq!(numbers(follower.look(&both, now)), None, "the other one has some in flight");
        assert_eq!(numbers(follower.look(&both, now + WAIT / 2)), None);
        let of_second = numbers(follower.look(&both, now + WAIT)).unwrap();
        assert!(!of_first.is_empty() && !of_second.is_empty());
        let mut all = [of_first, of_second].concat();
        all.sort_unstable();
        assert_eq!(all, (1..=12).collect::<Vec<_>>());
    }

    #[test]
    fn participant_without_an_earlier_node_has_no_delay() {
        let (mut share, now) = (Share::new(2, false), Instant::now());
        assert_eq!(numbers(share.look(&participants(3, &[2]), now)), Some(vec![1, 2, 3]), "at a start");
        assert_eq!(numbers(share.look(&participants(4, &[2]), now)), Some(vec![1, 2, 3, 4]));
        assert_eq!(share.look(&participants(4, &[2]), now), None);
    }

    #[test]
    fn removed_participant_leaves_immediately_and_may_return() {
        let (mut share, now) = (Share::new(2, false), Instant::now());
        share.look(&participants(3, &[2]), now);
        assert_eq!(numbers(share.look(&participants(3, &[1]), now)), Some(vec![]));
        assert_eq!(share.look(&participants(3, &[2]), now), None);
        // Removed again before its time.
        assert_eq!(share.look(&participants(3, &[1]), now + WAIT / 2), None);
        assert_eq!(share.look(&participants(3, &[2]), now + WAIT), None, "it waits again");
        assert_eq!(numbers(share.look(&participants(3, &[2]), now + 2 * WAIT)), Some(vec![1, 2, 3]));
    }
}
