//! Services of a follower: requests of DFSPs, which it forwards to the leader, and metrics.

mod admin;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;
use tokio::time::Instant;
use upesi_engine::Clock;
use upesi_gateway::nodes::HandOn;
use upesi_gateway::{FollowerState, Gateway, GatewayContext, Rates};
use upesi_http::{BoundServer, Guard, Outbound, Server, WorkerHandle, Workers};
use upesi_process::exposition::gauge;
use upesi_settings::Settings;

use self::admin::StandbyAdmin;
use super::couriers::FollowerCallbacks;
use super::descriptors::Descriptors;
use super::error::HubError;
use super::follower_state::Read;
use super::issuers::Providers;
use super::node::write_couriers;
use super::ports::{PORTS_PATIENCE, bind, serve_admin, serve_fspiop, serve_metrics};
use super::process::write_follower;
use super::signatures::Signatures;
use super::tls::{Servers, Tls};
use super::{couriers, keys, lane_metrics, options};
use crate::logging::LogControl;

/// The ports of a follower.
pub(super) struct Following {
    edge: Option<Edge>,
    admin: Option<Arc<Server>>,
    metrics: Option<Arc<Server>>,
    workers: Workers,
    tls: Arc<Tls>,
    /// Kept alive so that waiting requests see leadership changes.
    read: Read,
}

/// The FSPIOP port of a follower.
struct Edge {
    server: Arc<Server>,
    workers: Workers,
    signatures: Arc<Signatures>,
    providers: Providers,
}

impl Following {
    /// Opens the metrics port, if there is one. Opens the FSPIOP and admin ports only if nodes can forward requests,
    /// because otherwise another node on the same machine may use the same ports.
    pub(super) fn open(settings: &Settings, read: &Read, log: LogControl) -> Result<Option<Self>, HubError> {
        let metrics = settings.metrics.listen;
        let hands_on = settings.cluster.listen.is_some();
        if metrics.is_none() && !hands_on {
            return Ok(None);
        }
        let tls = Arc::new(Tls::load(settings, &keys::open(settings)?)?);
        let bind = |setting, address| bind(setting, address, PORTS_PATIENCE);
        let metrics = metrics.map(|address| bind("metrics.listen", address)).transpose()?;
        let fspiop = hands_on.then(|| bind("fspiop.listen", settings.fspiop.listen)).transpose()?;
        let admin = hands_on.then(|| bind("admin.listen", settings.admin.listen)).transpose()?;
        let workers = Workers::start(1, "upesi-admin")?;
        let mut registry = Registry::default();
        let worker = workers.get(0);
        let own = [fspiop.as_ref(), admin.as_ref(), metrics.as_ref()].into_iter().flatten();
        let nodes = settings.cluster.listen;
        let guard = options::guard(settings);
        let own = own.map(|bound| bound.local_addr().port());
        guard.keep_from(own.chain(nodes.map(|address| address.port())).collect());
        let edge = fspiop
            .map(|bound| Edge::serve(settings, (bound, guard), (&tls, read, worker), &mut registry))
            .transpose()?;
        let text = text(settings, read, registry, (edge.as_ref(), &tls));
        let admin = admin.zip(edge.as_ref()).map(|(bound, edge)| {
            let shown = (&*edge.signatures, &edge.providers);
            let service = StandbyAdmin::new(settings, read, shown, (text.clone(), log));
            serve_admin(settings, bound, &workers, service, &tls)
        });
        let metrics = metrics.map(|bound| serve_metrics(settings, bound, &workers, text, &tls));
        let servers = Servers {
            fspiop: edge.as_ref().map(|edge| Arc::clone(&edge.server)),
            admin: admin.clone(),
            metrics: metrics.clone(),
            ..Servers::default()
        };
        worker.spawn(Arc::clone(&tls).keep(servers, read.participants.clone()));
        Ok(Some(Self { edge, admin, metrics, workers, tls, read: read.clone() }))
    }

    /// Reads certificates, keys, authorities and lists again immediately.
    pub(super) fn reload_keys(&self) {
        self.tls.reload_soon();
        if let Some(edge) = &self.edge {
            edge.signatures.reload_soon();
        }
    }

    /// Leaves the ports to the hub that starts. Requests that wait for a leader are forwarded to that hub's port for
    /// other nodes.
    pub(super) async fn leave(self, patience: Duration) {
        self.leave_metrics().await;
        let edge = self.edge.as_ref().map(|edge| &edge.server);
        edge.into_iter().chain(&self.admin).for_each(|server| server.begin_shutdown());
        let ended = thread::Builder::new().name("upesi-leave".to_owned()).spawn(move || {
            let runtime = Builder::new_current_thread().enable_time().build();
            match runtime {
                Ok(runtime) => runtime.block_on(self.finish(patience)).stop(),
                Err(_) => self.stop(),
            }
        });
        if ended.is_err() {
            tracing::error!("waiting requests were aborted: cannot start a thread for them");
        }
    }

    /// Lets requests in flight finish, then stops.
    pub(super) async fn close(self, patience: Duration) {
        self.leave_metrics().await;
        let following = self.finish(patience).await;
        if tokio::task::spawn_blocking(move || following.stop()).await.is_err() {
            tracing::error!("the ports of the node did not shut down cleanly");
        }
    }

    async fn leave_metrics(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.shutdown(Instant::now()).await;
        }
    }

    async fn finish(self, patience: Duration) -> Self {
        if let Some(edge) = &self.edge {
            let cut_off = edge.server.shutdown(Instant::now() + patience).await;
            if cut_off > 0 {
                tracing::warn!(connections = cut_off, "connections closed at the drain deadline");
            }
        }
        if let Some(admin) = &self.admin {
            admin.shutdown(Instant::now()).await;
        }
        if let Some(callbacks) = self.read.callbacks.get() {
            let cut_off = callbacks.finish(Instant::now() + patience).await;
            if cut_off > 0 {
                tracing::warn!(callbacks = cut_off, "callbacks aborted at the drain deadline");
            }
        }
        self
    }

    /// Waits for threads.
    fn stop(self) {
        if let Some(edge) = self.edge {
            edge.workers.shutdown();
            edge.signatures.shutdown();
        }
        self.workers.shutdown();
        if let Some(callbacks) = self.read.callbacks.get() {
            callbacks.stop();
        }
        self.tls.shutdown();
        drop(self.read);
    }
}

impl Edge {
    fn serve(
        settings: &Settings,
        (bound, guard): (BoundServer, Guard),
        (tls, read, worker): (&Arc<Tls>, &Read, &WorkerHandle),
        registry: &mut Registry,
    ) -> Result<Self, HubError> {
        let clock: Arc<dyn Clock> = Arc::clone(&read.clock) as _;
        let keys = keys::open(settings)?;
        let signatures = Arc::new(Signatures::load(settings, &keys, &read.participants, &clock)?);
        let workers = options::start_edges(settings)?;
        let descriptors = Descriptors::of(settings, workers.count()).map_err(HubError::Descriptors)?;
        let outbound = Outbound::bounded(options::size(descriptors.outbound)).guarded(guard);
        let providers = Providers::start(settings, &outbound, worker)?;
        if let Some(node) = couriers::own(settings) {
            let outward = (&outbound, tls.outbound(), signatures.signer());
            let peers = couriers::peers(settings, tls.to_nodes());
            let started = FollowerCallbacks::start(
                settings,
                node,
                read.for_callbacks(),
                outward,
                peers,
                (&workers, worker),
            );
            let _ = read.callbacks.set(started?);
        }
        let (node, time) = (Arc::clone(&read.metrics), Arc::clone(&read.clock));
        let participants = read.participants.clone();
        let health = Box::new(move || FollowerState {
            is_current: node.is_current(time.now()),
            clock: time.state(),
            is_new: !participants.get().has_dfsps(),
        });
        let peers = couriers::peers(settings, tls.to_nodes());
        let counts = Arc::clone(&read.metrics.handed_on);
        let hand_on = HandOn::new(read.leads.subscribe(), peers, read.participants.clone(), counts);
        let mut context = GatewayContext::following(health, clock, hand_on);
        context.participants = read.participants.clone();
        context.rates = Arc::new(Rates::new(options::rates(settings), read.participants.clone()));
        context.provider = providers.of_clients.clone();
        if let Some(authenticator) = signatures.authenticator() {
            context.authenticator = Box::new(authenticator);
        }
        let gateway = Gateway::new(context, options::gateway(settings), registry);
        worker.spawn(Arc::clone(&signatures).keep());
        let limits = options::limits(settings, descriptors.inbound);
        let (server, _) = serve_fspiop(settings, (bound, limits), &workers, gateway, tls);
        tracing::info!(fspiop = %server.local_addr(), "accepting requests and forwarding them to the leader");
        Ok(Self { server, workers, signatures, providers })
    }
}

/// The metrics of a follower.
fn text(
    settings: &Settings,
    read: &Read,
    registry: Registry,
    (edge, tls): (Option<&Edge>, &Arc<Tls>),
) -> upesi_admin::MetricsText {
    let (data, node, tls) = (settings.data.dir.clone(), Arc::clone(&read.metrics), Arc::clone(tls));
    let (callbacks, participants) = (Arc::clone(&read.callbacks), read.participants.clone());
    let clock = Arc::clone(&read.clock);
    let edge = edge.map(|edge| (Arc::clone(&edge.server), Arc::clone(&edge.signatures)));
    let render = move || {
        let mut text = String::new();
        if let Some((server, signatures)) = &edge {
            // Writing into a String does not fail.
            let _ = encode(&mut text, &registry);
            text.truncate(text.strip_suffix("# EOF\n").map_or(text.len(), str::len));
            let connections = server.connections() as u64;
            gauge(&mut text, "upesi_http_connections", "Open connections on the FSPIOP port", connections);
            signatures.write(&mut text);
        }
        if let Some(callbacks) = callbacks.get() {
            lane_metrics::write(&mut text, &callbacks.courier, &participants.get());
            let help = "Completed callbacks that the leader has not recorded yet, as far as this node has read the log";
            gauge(&mut text, "upesi_cluster_unrecorded_ends", help, callbacks.reports.len() as u64);
        }
        write_couriers(&mut text, &participants);
        tls.write(&mut text);
        node.write(&mut text, clock.now(), None);
        write_follower(&data, clock.state(), &mut text);
        text.push_str("# EOF\n");
        text
    };
    upesi_admin::MetricsText::new(settings.metrics.interval_ms, render)
}
