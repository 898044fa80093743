//! The ports of a hub: bound at the start of the process, and served in every role.
//!
//! A node of a cluster without a port for other nodes (`cluster.listen`) cannot forward requests. It opens the ports
//! for DFSPs and operators only while it is the leader: another node on the same machine may use the same ports.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use upesi_http::{BindError, BoundServer, Server};
use upesi_settings::Settings;

use super::cluster::config::number_of;
use super::error::HubError;

/// Time that a node of a cluster waits for its ports, which another node on the same machine may still use.
const PORTS_PATIENCE: Duration = Duration::from_secs(5);
const PORTS_LOOK_EVERY: Duration = Duration::from_millis(5);

/// The ports that are served.
#[derive(Clone, Default)]
pub(super) struct Servers {
    pub(super) fspiop: Option<Arc<Server>>,
    pub(super) admin: Option<Arc<Server>>,
    pub(super) metrics: Option<Arc<Server>>,
    /// The port for other nodes of a cluster.
    pub(super) nodes: Option<Arc<Server>>,
}

/// The ports that are currently served. Cloning shares it.
#[derive(Clone, Default)]
pub(super) struct OpenPorts(Arc<Mutex<Servers>>);

impl OpenPorts {
    pub(super) fn get(&self) -> Servers {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Servers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ports that are bound and not served yet: connections wait in the system.
#[derive(Default)]
pub(super) struct BoundPorts {
    pub(super) fspiop: Option<BoundServer>,
    pub(super) admin: Option<BoundServer>,
    pub(super) metrics: Option<BoundServer>,
    pub(super) nodes: Option<BoundServer>,
}

impl BoundPorts {
    /// Binds the ports that are open in every role.
    pub(super) fn open(settings: &Settings) -> Result<Self, HubError> {
        let mut ports =
            if are_leaders_only(settings) { Self::default() } else { Self::open_leaders(settings)? };
        let bind = |setting, address| bind(setting, address, patience(settings));
        ports.metrics = settings.metrics.listen.map(|address| bind("metrics.listen", address)).transpose()?;
        ports.nodes = settings.cluster.listen.map(|address| bind("cluster.listen", address)).transpose()?;
        Ok(ports)
    }

    /// Binds the ports for DFSPs and operators.
    pub(super) fn open_leaders(settings: &Settings) -> Result<Self, HubError> {
        let patience = patience(settings);
        Ok(Self {
            fspiop: Some(bind("fspiop.listen", settings.fspiop.listen, patience)?),
            admin: Some(bind("admin.listen", settings.admin.listen, patience)?),
            ..Self::default()
        })
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> {
        let all = [&self.fspiop, &self.admin, &self.metrics, &self.nodes];
        all.into_iter().flatten().map(|bound| bound.local_addr().port())
    }
}

/// Whether the ports for DFSPs and operators are open only while this node is the leader.
pub(super) fn are_leaders_only(settings: &Settings) -> bool {
    number_of(settings).is_some() && settings.cluster.listen.is_none()
}

fn patience(settings: &Settings) -> Duration {
    if number_of(settings).is_some() { PORTS_PATIENCE } else { Duration::ZERO }
}

/// Listens on an address as soon as it is free.
fn bind(setting: &'static str, address: SocketAddr, patience: Duration) -> Result<BoundServer, HubError> {
    let until = Instant::now() + patience;
    loop {
        match Server::bind(address) {
            Err(BindError::InUse { .. }) if Instant::now() < until => thread::sleep(PORTS_LOOK_EVERY),
            bound => return bound.map_err(|source| HubError::Bind { setting, source }),
        }
    }
}
