//! A standalone hub: its addresses and its shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upesi_engine::{Clock, StopReason};
use upesi_http::Server;
use upesi_settings::Settings;

use super::cluster::config::expect_alone;
use super::edge::Edge;
use super::error::HubError;
use super::leading::LeaderParts;
use crate::logging::LogControl;

/// A running standalone hub.
pub struct Hub {
    pub(super) edge: Arc<Edge>,
    pub(super) leading: LeaderParts,
}

impl Hub {
    /// Binds the ports, recovers the data directory, and serves. Deadlines of transfers and timestamps follow the given
    /// clock; network timeouts do not.
    pub fn start(settings: &Settings, log: LogControl, clock: Arc<dyn Clock>) -> Result<Self, HubError> {
        expect_alone(settings)?;
        let (edge, ports) = Edge::open(settings, log, clock, None)?;
        let leading = LeaderParts::start(&edge, None)?;
        edge.serve(ports);
        Ok(Self { edge, leading })
    }

    /// Address of the FSPIOP port.
    pub fn fspiop_address(&self) -> SocketAddr {
        address_of(self.edge.ports.get().fspiop)
    }

    /// Address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        address_of(self.edge.ports.get().admin)
    }

    /// Address of the separate metrics port, if there is one.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.edge.ports.get().metrics.map(|server| server.local_addr())
    }

    /// Removes transfers that are older than `archive.keep_days` now, instead of within the hour.
    pub fn apply_retention(&self) {
        if let Some(retention) = &self.leading.retention {
            retention.look();
        }
    }

    /// The reason why the last removal of old transfers failed, if it failed.
    pub fn retention_failure(&self) -> Option<String> {
        self.leading.retention.as_ref()?.failure()
    }

    /// Reads certificates, keys, authorities and lists again now, instead of within `tls.reload_interval_s`.
    pub fn reload_keys(&self) {
        self.edge.reload_keys();
    }

    /// Waits until the engine stops by itself, which happens only if the disk fails.
    pub async fn failed(&self) -> StopReason {
        self.leading.handle.stopped().await
    }

    /// Lets requests and callbacks in flight finish, then stops. Undelivered callbacks are sent after the next start.
    pub async fn shutdown(self, patience: Duration) {
        shut_down(self.edge, Some(self.leading), patience).await;
    }
}

fn address_of(server: Option<Arc<Server>>) -> SocketAddr {
    server.map_or_else(|| unreachable!("a hub has the port until its shutdown"), |server| server.local_addr())
}

/// Lets requests and callbacks in flight finish, then stops the whole process.
pub(super) async fn shut_down(edge: Arc<Edge>, leading: Option<LeaderParts>, patience: Duration) {
    let deadline = Instant::now() + patience;
    let connections = edge.close_requests(deadline).await;
    let (relays, callbacks) = match &leading {
        Some(leading) => leading.drain(deadline).await,
        None => (0, 0),
    };
    edge.close_operators(deadline).await;
    if connections + relays + callbacks > 0 {
        tracing::warn!(
            connections,
            relays,
            callbacks,
            "requests and callbacks aborted at the drain deadline"
        );
    }
    // The engine's threads and the workers are joined, which blocks.
    let stop = move || {
        if let Some(leading) = leading {
            leading.stop();
        }
        edge.stop();
    };
    if tokio::task::spawn_blocking(stop).await.is_err() {
        tracing::error!("the threads of the hub did not shut down cleanly");
    }
}
