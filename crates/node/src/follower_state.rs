//! The state that a follower has read, shared with its services.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::watch;
use upesi_admin::Followed;
use upesi_engine::{Clock, EngineHandle, SharedParticipants, SystemClock};
use upesi_gateway::nodes::Lead;

use super::clock::HubClock;
use super::couriers::{CallbackState, FollowerCallbacks};
use super::node::NodeMetrics;

/// State that a follower has read, shared with its services. Cloning shares it.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) participants: SharedParticipants,
    pub(super) leads: Arc<watch::Sender<Lead>>,
    /// Number and address of the leader.
    pub(super) leader: Arc<Mutex<Option<(u32, String)>>>,
    /// Answers queries, once there is a state to read.
    pub(super) engine: Arc<OnceLock<EngineHandle>>,
    /// The clock of that engine.
    pub(super) clock: Arc<HubClock>,
    /// Set by an operator: this node should claim leadership.
    pub(super) is_promoted: Arc<AtomicBool>,
    /// Set when state, archive or store no longer follow: this node must not become leader.
    pub(super) is_unfit: Arc<AtomicBool>,
    /// The callbacks that this node delivers, if it delivers any.
    pub(super) callbacks: Arc<OnceLock<Arc<FollowerCallbacks>>>,
    pub(super) metrics: Arc<NodeMetrics>,
}

impl Read {
    pub(super) fn new(metrics: Arc<NodeMetrics>) -> Self {
        metrics.follows();
        Self {
            participants: SharedParticipants::default(),
            leads: Arc::default(),
            leader: Arc::default(),
            engine: Arc::default(),
            clock: Arc::new(HubClock::new(Arc::new(SystemClock))),
            is_promoted: Arc::default(),
            is_unfit: Arc::default(),
            callbacks: Arc::default(),
            metrics,
        }
    }

    /// The part that the delivery of callbacks needs.
    pub(super) fn for_callbacks(&self) -> CallbackState {
        CallbackState {
            participants: self.participants.clone(),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
            leads: self.leads.subscribe(),
        }
    }

    /// Notifies request forwarding of the new leader.
    pub(super) fn lead(&self, lead: Lead, address: Option<&str>) {
        let leader = lead.node.map(|node| (node, address.unwrap_or_default().to_owned()));
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
        self.leads.send_if_modified(|known| std::mem::replace(known, lead) != lead);
    }
}

impl Read {
    /// The position of this node, for operators.
    pub(super) fn now(&self) -> Followed {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let record = self.engine.get().map_or(0, |engine| engine.status().durable_seq);
        Followed { leader, age_ms: self.metrics.behind_ms(self.clock.now()), record }
    }
}
