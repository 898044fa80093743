//! A running hub: its addresses, its handover, its shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use upesi_delivery::lanes::Courier;
use upesi_engine::{Engine, EngineHandle, StopReason};
use upesi_http::{Server, Workers};

use super::cluster::topic::TopicKeeper;
use super::node::Node;
use super::resources::Resources;
use super::retention::Retention;
use super::signatures::Signatures;
use super::tls::Tls;

/// A running hub.
pub struct Hub {
    pub(super) engine: Engine,
    pub(super) handle: EngineHandle,
    pub(super) courier: Courier,
    pub(super) resources: Resources,
    pub(super) retention: Option<Retention>,
    pub(super) fspiop: Arc<Server>,
    pub(super) admin: Arc<Server>,
    pub(super) metrics: Option<Arc<Server>>,
    /// The port on which other nodes of a cluster forward requests.
    pub(super) nodes: Option<Arc<Server>>,
    pub(super) workers: Workers,
    pub(super) admin_workers: Workers,
    pub(super) tls: Arc<Tls>,
    pub(super) signatures: Arc<Signatures>,
    pub(super) node: Option<Node>,
    pub(super) topic: Option<TopicKeeper>,
}

impl Hub {
    /// Address of the FSPIOP port.
    pub fn fspiop_address(&self) -> SocketAddr {
        self.fspiop.local_addr()
    }

    /// Address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.local_addr()
    }

    /// Address of the separate metrics port, if there is one.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|server| server.local_addr())
    }

    /// Removes transfers that are older than `archive.keep_days` now, instead of within the hour.
    pub fn apply_retention(&self) {
        if let Some(retention) = &self.retention {
            retention.look();
        }
    }

    /// The reason why the last removal of old transfers failed, if it failed.
    pub fn retention_failure(&self) -> Option<String> {
        self.retention.as_ref()?.failure()
    }

    /// Reads certificates, keys, authorities and lists again now, instead of within `tls.reload_interval_s`.
    pub fn reload_keys(&self) {
        self.tls.reload_soon();
        self.signatures.reload_soon();
    }

    /// Waits until the engine stops by itself, which happens only if the disk fails or another node becomes leader.
    pub async fn failed(&self) -> StopReason {
        self.handle.stopped().await
    }

    /// Hands leadership over to another node of the cluster; see [`EngineHandle::hand_over`]. The ports are free soon
    /// afterwards, because another node on this machine may use the same ports.
    pub async fn hand_over(&self) -> StopReason {
        let reason = self.handle.hand_over(None).await;
        self.leave_ports();
        reason
    }

    /// Stops waiting for brokers that do not respond. Requests that they have not acknowledged are not answered.
    pub fn leave_brokers(&self) {
        if let Some(node) = &self.node {
            node.stops.store(true, Ordering::Release);
        }
    }

    /// Stops accepting connections. Open connections end after the request in flight.
    pub fn leave_ports(&self) {
        let own = [Some(&self.fspiop), Some(&self.admin), self.metrics.as_ref(), self.nodes.as_ref()];
        own.into_iter().flatten().for_each(|server| server.begin_shutdown());
    }

    /// Lets requests and callbacks in flight finish, then stops. Undelivered callbacks are sent after the next start.
    pub async fn shutdown(self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut cut_off = self.fspiop.shutdown(deadline).await;
        if let Some(nodes) = &self.nodes {
            cut_off += nodes.shutdown(deadline).await;
        }
        let relays = self.resources.drain(deadline).await;
        let in_flight = self.courier.drain(deadline).await;
        self.admin.shutdown(deadline).await;
        if let Some(metrics) = &self.metrics {
            metrics.shutdown(deadline).await;
        }
        if cut_off + relays + in_flight > 0 {
            let (connections, callbacks) = (cut_off, in_flight);
            tracing::warn!(
                connections,
                relays,
                callbacks,
                "requests and callbacks aborted at the drain deadline"
            );
        }
        // The engine's threads and the workers are joined, which blocks.
        let stop = move || {
            drop((self.retention, self.topic));
            self.engine.shutdown();
            self.resources.close();
            self.workers.shutdown();
            self.admin_workers.shutdown();
            self.tls.shutdown();
            self.signatures.shutdown();
        };
        if tokio::task::spawn_blocking(stop).await.is_err() {
            tracing::error!("the threads of the hub did not shut down cleanly");
        }
    }
}
