//! The role of a hub, which changes while its ports stay open: it processes requests itself, or forwards them to the
//! leader of its cluster.
//!
//! 1. A port reads the role when it has a whole request, and keeps it until the answer. A slow client does not keep the
//!    files of an earlier role.
//! 2. If a leader loses its role before it has recorded anything of a request, the request is forwarded to the next
//!    leader. So clients of a former leader wait, as clients of other nodes do.

use std::sync::{Arc, PoisonError, RwLock};

use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::{Availability, Clock, ClockState, EngineHandle};
use upesi_fspiop::{Resource, SyncError};
use upesi_types::{ErrorCode, Present, Timestamp};

use crate::nodes::{Couriers, RequestForwarder};

/// How a hub handles the requests of DFSPs. `H` processes them.
pub enum HubRole<H> {
    /// The hub has not read its ledger yet.
    Starting,
    /// The hub processes requests: it is a standalone hub, or the leader of its cluster.
    Leads(LeaderRole<H>),
    /// The hub forwards requests to the leader of its cluster.
    Follows(FollowerRole),
}

/// The parts of a hub that processes requests.
pub struct LeaderRole<H> {
    pub engine: EngineHandle,
    /// Processes requests.
    pub handler: H,
    /// The nodes that deliver callbacks.
    pub couriers: Arc<Couriers>,
    /// Forwards requests that arrive when another node becomes leader; `None` on a standalone hub.
    pub forwarder: Option<RequestForwarder>,
}

/// State of a follower.
#[derive(Clone, Copy, Debug)]
pub struct FollowerState {
    /// Whether it has read the recent entries of the log. Then it forwards requests.
    pub is_current: bool,
    /// State of the hub's time compared with its clocks. A follower forwards requests in every state.
    pub clock: ClockState,
    /// Whether the state that it has read contains no DFSP.
    pub is_new: bool,
}

/// Returns the state of a follower.
pub type FollowerHealth = Arc<dyn Fn() -> FollowerState + Send + Sync>;

/// The parts of a follower.
pub struct FollowerRole {
    pub health: FollowerHealth,
    /// Forwards requests.
    pub forwarder: RequestForwarder,
}

/// The current role of a hub, shared by its ports. Clones share it.
pub struct HubRoles<H>(Arc<RwLock<Arc<HubRole<H>>>>);

impl<H> Clone for HubRoles<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H> HubRoles<H> {
    /// Begins with this role.
    pub fn new(role: HubRole<H>) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(role))))
    }

    /// The role of a standalone hub.
    pub fn alone(engine: EngineHandle, handler: H) -> Self {
        Self::new(HubRole::Leads(LeaderRole { engine, handler, couriers: Arc::default(), forwarder: None }))
    }

    /// The current role.
    pub fn get(&self) -> Arc<HubRole<H>> {
        self.read(Arc::clone)
    }

    /// Reads the current role for a moment, without the cost of a counted reference. No role can be set meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Arc<HubRole<H>>) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the role. Requests in flight keep the previous one.
    pub fn set(&self, role: HubRole<H>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(role);
    }
}

impl<H> HubRole<H> {
    pub(crate) fn is_good(&self) -> bool {
        match self {
            Self::Starting => false,
            Self::Leads(leading) => leading.engine.status().serving == Availability::Yes,
            Self::Follows(following) => (following.health)().is_current,
        }
    }

    /// Whether this node does not know the current participants and blocks.
    pub(crate) fn is_behind(&self) -> bool {
        match self {
            Self::Starting => true,
            Self::Leads(_) => false,
            Self::Follows(following) => !(following.health)().is_current,
        }
    }

    /// The time that instants in requests are compared with. A follower rejects none of them: the leader checks them
    /// again, by its own clock.
    pub(crate) fn present(&self, clock: &dyn Clock) -> Present {
        match self {
            Self::Leads(_) => clock.present(),
            Self::Starting | Self::Follows(_) => {
                Present { at: clock.now(), earliest: Timestamp::EPOCH, latest: Timestamp::MAX }
            }
        }
    }

    pub(crate) const fn leads(&self) -> bool {
        matches!(self, Self::Leads(_))
    }
}

impl<H: Handler> HubRole<H> {
    /// Whether the resource has a handler. The leader itself rejects the resources that it does not serve.
    pub(crate) fn serves(&self, resource: Resource) -> bool {
        match self {
            Self::Leads(leading) => leading.handler.serves(resource),
            Self::Starting | Self::Follows(_) => true,
        }
    }

    /// A copy of a request for the next leader, on a leader of a cluster, if the ledger knows the request by its id.
    pub(crate) fn copy_for_next(&self, request: &Request) -> Option<Box<RequestCopy>> {
        let Self::Leads(LeaderRole { forwarder: Some(forwarder), .. }) = self else { return None };
        let copy = || Box::new(RequestCopy { forwarder: forwarder.clone(), request: request.clone() });
        request.resource().moves_money().then(copy)
    }

    /// Whether a request was rejected because the engine stops, not because of a full disk or of brokers that do not
    /// acknowledge.
    pub(crate) fn stops(&self, rejection: &SyncError) -> bool {
        let Self::Leads(leading) = self else { return false };
        let serving = leading.engine.status().serving;
        rejection.code == ErrorCode::UNAVAILABLE
            && matches!(serving, Availability::Yes | Availability::Stopped(_))
    }
}

/// A copy of a request, for the next leader of the cluster.
pub(crate) struct RequestCopy {
    forwarder: RequestForwarder,
    request: Request,
}

impl RequestCopy {
    /// Forwards the request. The next leader knows every command that the former one recorded.
    pub(crate) async fn forward(self) -> Result<Accepted, SyncError> {
        self.forwarder.handle(self.request).await
    }
}
