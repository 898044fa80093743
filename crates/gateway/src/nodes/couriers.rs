//! The nodes that deliver callbacks, known by their regular reports to the leader.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use tokio::sync::watch;
use tokio::time::Instant;
use upesi_delivery::owed::Report;
use upesi_engine::{EngineHandle, SubmitError};
use upesi_http::Full;

use super::{KnownLeader, Peers};

/// Path of the reports, on the leader's port for nodes.
pub(super) const PATH: &str = "/callback-reports";
/// Maximum interval between the reports of a node.
pub const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Time without a report after which other nodes take over a node's callbacks.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// Time that a new leader waits for the reports of nodes that delivered under its predecessor.
const GRACE: Duration = Duration::from_secs(3);
const REPORT_TAKES_MAX: Duration = Duration::from_secs(1);

/// The nodes that have reported to the leader, and the times of their last reports.
#[derive(Debug, Default)]
pub struct Couriers(Mutex<BTreeMap<u32, Instant>>);

impl Couriers {
    fn heard(&self, node: u32, delivers: bool, now: Instant) {
        match delivers {
            true => self.nodes().insert(node, now),
            false => self.nodes().remove(&node),
        };
    }

    /// The nodes that should deliver from now on: the nodes that report, and `own` if it may deliver. While the leader
    /// is new, this includes the nodes that delivered before. Empty if the leader has no node to share with.
    pub fn wanted(&self, own: Option<u32>, present: &[u32], led_for: Duration, now: Instant) -> Vec<u32> {
        let mut nodes = self.nodes();
        nodes.retain(|_, heard| now <= *heard + SILENCE_MAX);
        let before = present.iter().copied().filter(|_| led_for < GRACE);
        let mut wanted: Vec<_> = nodes.keys().copied().chain(own).chain(before).collect();
        drop(nodes);
        wanted.sort_unstable();
        wanted.dedup();
        if present.is_empty() && own.is_some_and(|own| wanted == [own]) { Vec::new() } else { wanted }
    }

    /// Submits a report to the engine without waiting for its record. A node repeats reports that were lost.
    pub(super) fn take(&self, report: Report, engine: &EngineHandle) -> Result<(), SubmitError> {
        self.heard(report.node, report.delivers, Instant::now());
        report.commands().into_iter().try_for_each(|command| engine.submit_quietly(command))
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u32, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends reports to the leader.
#[derive(Debug)]
pub struct ReportWay {
    leads: watch::Receiver<KnownLeader>,
    peers: Peers,
}

impl ReportWay {
    /// Follows the current leader by `leads`.
    pub const fn new(leads: watch::Receiver<KnownLeader>, peers: Peers) -> Self {
        Self { leads, peers }
    }

    /// Sends a report; false if no leader accepted it.
    pub async fn send(&self, report: &Report) -> bool {
        let lead = *self.leads.borrow();
        let Some(pool) = lead.node.and_then(|node| self.peers.0.get(&node)) else { return false };
        let mut request = Request::new(Full::new(Bytes::from(report.write())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(PATH);
        match pool.send(request, Instant::now() + REPORT_TAKES_MAX).await {
            Ok(answer) => answer.status == StatusCode::NO_CONTENT,
            Err(error) => {
                tracing::debug!(%error, "the leader did not accept a delivery report");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_delivers_as_long_as_it_reports() {
        let (couriers, now) = (Couriers::default(), Instant::now());
        let wanted = |present: &[u32], after| couriers.wanted(Some(1), present, GRACE, now + after);
        assert!(wanted(&[], Duration::ZERO).is_empty(), "no other node can deliver");
        couriers.heard(3, true, now);
        couriers.heard(2, true, now + Duration::from_secs(1));
        assert_eq!(wanted(&[], SILENCE_MAX), [1, 2, 3]);
        assert_eq!(wanted(&[1, 2, 3], SILENCE_MAX + Duration::from_millis(1)), [1, 2]);
        couriers.heard(2, false, now);
        assert_eq!(wanted(&[1, 2], SILENCE_MAX), [1], "the other node reported that it stops");
        assert!(couriers.wanted(None, &[1], GRACE, now).is_empty(), "then the leader delivers");
    }

    #[test]
    fn new_leader_waits_for_the_nodes_that_delivered_before() {
        let (couriers, now) = (Couriers::default(), Instant::now());
        let wanted = |led_for| couriers.wanted(Some(2), &[1, 2, 3], led_for, now);
        assert_eq!(wanted(GRACE - Duration::from_millis(1)), [1, 2, 3]);
        assert_eq!(wanted(GRACE), [2]);
    }
}
