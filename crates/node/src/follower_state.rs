//! The state that a follower has read, shared with its services.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use upesi_admin::FollowerProgress;
use upesi_engine::{Clock, EngineHandle, SharedParticipants};

use super::clock::HubClock;
use super::couriers::FollowerCallbacks;
use super::node::Node;

/// Called once there is a state to read from.
type OnState = Arc<dyn Fn(&EngineHandle) + Send + Sync>;

/// State that a follower has read, shared with its services. Cloning shares it.
#[derive(Clone)]
pub(super) struct FollowedState {
    pub(super) node: Node,
    /// The participants of the copy. They begin with the last snapshot.
    pub(super) participants: SharedParticipants,
    /// The participants that the ports know.
    known: SharedParticipants,
    /// The generation of the copy's participants that the ports know.
    published: Arc<AtomicU64>,
    /// Answers queries, once there is a state to read.
    engine: Arc<OnceLock<EngineHandle>>,
    /// The clock of that engine.
    clock: Arc<HubClock>,
    /// Set by an operator: this node should claim leadership.
    pub(super) is_promoted: Arc<AtomicBool>,
    /// Set when state, archive or store no longer follow: this node must not become leader.
    pub(super) is_unfit: Arc<AtomicBool>,
    /// The callbacks that this node delivers, if it delivers any.
    pub(super) callbacks: Option<Arc<FollowerCallbacks>>,
    on_state: Option<OnState>,
}

impl FollowedState {
    /// `known` are the participants that the ports know.
    pub(super) fn new(node: Node, known: SharedParticipants, clock: Arc<HubClock>) -> Self {
        Self {
            node,
            participants: SharedParticipants::default(),
            known,
            published: Arc::default(),
            engine: Arc::default(),
            clock,
            is_promoted: Arc::default(),
            is_unfit: Arc::default(),
            callbacks: None,
            on_state: None,
        }
    }

    /// Publishes the copy's current participants and blocks to the ports. A former leader calls this only from the last
    /// record of its leadership on: until then, the ports have newer ones.
    pub(super) fn publish(&self) {
        let generation = self.participants.generation();
        if self.published.swap(generation, Ordering::Relaxed) != generation {
            self.known.set(self.participants.get());
        }
    }

    /// Calls this once there is a state to read from.
    pub(super) fn on_state(self, on_state: impl Fn(&EngineHandle) + Send + Sync + 'static) -> Self {
        Self { on_state: Some(Arc::new(on_state)), ..self }
    }

    /// Announces that a state exists. This engine answers queries about it.
    pub(super) fn has_state(&self, engine: &EngineHandle) {
        self.clock.follow(engine.clock());
        if let Some(callbacks) = &self.callbacks {
            callbacks.begin(engine);
        }
        let _ = self.engine.set(engine.clone());
        if let Some(on_state) = &self.on_state {
            on_state(engine);
        }
    }

    /// The position of this node, for operators.
    pub(super) fn now(&self) -> FollowerProgress {
        let record = self.engine.get().map_or(0, |engine| engine.status().durable_seq);
        let age_ms = self.node.metrics.behind_ms(self.clock.now());
        FollowerProgress { leader: self.node.leader(), age_ms, record }
    }
}
