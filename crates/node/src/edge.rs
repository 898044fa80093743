//! The parts that a hub opens once, whatever its role: ports, TLS, signatures, rate limits, client identities,
//! admission. The role (standalone, leader, follower) changes behind them, and no connection closes.

use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_admin::{
    Access, AdminContext, AdminPort, AuditKey, Holders, MetricsService, MetricsText, Protections,
};
use upesi_engine::{Clock, EngineHandle, SharedParticipants};
use upesi_gateway::nodes::{NodePort, RequestForwarder};
use upesi_gateway::{
    FollowerHealth, FollowerRole, FollowerState, Gateway, GatewayContext, HubRole, HubRoles, LargeBodies,
    Rates,
};
use upesi_http::{BoundServer, Guard, Outbound, ProxyProtocol, Server, Workers};
use upesi_keys::{Keys, Secret};
use upesi_settings::{Requirement, Settings};

use super::clock::HubClock;
use super::couriers;
use super::descriptors::Descriptors;
use super::error::HubError;
use super::issuers::Providers;
use super::metrics::{self, Metrics, RoleMetrics};
use super::node::Node;
use super::ports::{BoundPorts, OpenPorts, Servers, are_leaders_only};
use super::process::ProcessMetrics;
use super::resources::Handlers;
use super::signatures::Signatures;
use super::tls::Tls;
use super::{keys, options};
use crate::logging::LogControl;

/// The parts that a hub opens once.
pub(super) struct Edge {
    pub(super) settings: Settings,
    log: LogControl,
    /// The hub's time, by the engine of the current role.
    pub(super) clock: Arc<HubClock>,
    pub(super) tls: Arc<Tls>,
    pub(super) signatures: Arc<Signatures>,
    providers: Providers,
    access: Access,
    pub(super) audit_key: Option<Arc<AuditKey>>,
    pub(super) outbound: Outbound,
    pub(super) participants: SharedParticipants,
    pub(super) rates: Arc<Rates>,
    /// Connections, and the callbacks of the current role.
    workers: Workers,
    /// Separate thread for operators' requests and metrics, so that they are served while the other workers are busy.
    admin_workers: Workers,
    descriptors: Descriptors,
    /// Present on a node of a cluster.
    pub(super) node: Option<Node>,
    /// Forwards requests to the leader, on a node that can.
    pub(super) forwarder: Option<RequestForwarder>,
    pub(super) roles: HubRoles<Handlers>,
    pub(super) admin: AdminPort,
    pub(super) metrics: Arc<Metrics>,
    /// The text of the metrics, which is not rendered for each request.
    text: MetricsText,
    gateway: Arc<Gateway<Handlers>>,
    large_bodies: LargeBodies,
    balancers: Option<ProxyProtocol>,
    pub(super) ports: OpenPorts,
}

/// Workers for the tasks of a role, which end with the role.
pub(super) struct RoleWorkers {
    pub(super) edge: Workers,
    pub(super) admin: Workers,
}

impl RoleWorkers {
    /// Ends the tasks and waits for them.
    pub(super) fn shutdown(&self) {
        self.edge.shutdown();
        self.admin.shutdown();
    }
}

impl Edge {
    /// Reads the files that the settings name, and binds the ports. No port is served before [`Self::serve`].
    pub(super) fn open(
        settings: &Settings,
        log: LogControl,
        machine: Arc<dyn Clock>,
        node: Option<Node>,
    ) -> Result<(Arc<Self>, BoundPorts), HubError> {
        let keys = keys::open(settings)?;
        let tls = Arc::new(Tls::load(settings, &keys)?);
        let participants = SharedParticipants::default();
        let clock = Arc::new(HubClock::new(machine));
        let signatures = Signatures::load(settings, &keys, &participants, &(Arc::clone(&clock) as _))?;
        let signatures = Arc::new(signatures);
        let audit_key = audit_key(settings)?;
        let people_secret = people_secret(settings, &keys)?;
        let bound = BoundPorts::open(settings)?;
        let workers = options::start_edges(settings)?;
        let descriptors = Descriptors::of(settings, workers.count()).map_err(HubError::Descriptors)?;
        descriptors.tell(settings);
        let guard = guard(settings, &bound);
        let outbound = Outbound::bounded(options::size(descriptors.outbound)).guarded(guard);
        let admin_workers = Workers::start(1, "upesi-admin")?;
        let providers = Providers::start(settings, &outbound, admin_workers.get(0))?;
        let access = options::access(settings, providers.issuers.clone(), people_secret);
        let rates = Arc::new(Rates::new(options::rates(settings), participants.clone()));
        let roles = HubRoles::new(HubRole::Starting);
        let forwarder = node.as_ref().and_then(|node| forwarder(settings, node, &tls, &participants));
        let mut registry = Registry::default();
        let context = gateway_context(&clock, &roles, &participants, &rates, &providers, &signatures);
        let gateway = Arc::new(Gateway::new(context, options::gateway(settings), &mut registry));
        let (ports, balancers) = (OpenPorts::default(), options::proxy_protocol(settings));
        let metrics = Arc::new(Metrics {
            registry,
            process: ProcessMetrics::new(settings, &descriptors),
            clock: Arc::clone(&clock),
            participants: participants.clone(),
            ports: ports.clone(),
            outbound: outbound.clone(),
            tls: Arc::clone(&tls),
            signatures: Arc::clone(&signatures),
            providers: providers.clone(),
            access: access.clone(),
            balancers: balancers.as_ref().map(|balancers| Arc::clone(&balancers.counts)),
            break_glass_file: metrics::watched_break_glass(settings),
            node: node.clone(),
            role: RoleMetrics::Starting.into(),
        });
        let rendered = Arc::clone(&metrics);
        let text = MetricsText::new(settings.metrics.interval_ms, move || rendered.render());
        let edge = Self {
            settings: settings.clone(),
            log,
            clock,
            tls,
            signatures,
            providers,
            access,
            audit_key,
            outbound,
            participants,
            rates,
            workers,
            admin_workers,
            descriptors,
            node,
            forwarder,
            roles,
            admin: AdminPort::default(),
            metrics,
            text,
            large_bodies: gateway.large_bodies(),
            gateway,
            balancers,
            ports,
        };
        edge.keep_keys();
        Ok((Arc::new(edge), bound))
    }

    /// Reads certificates, keys, authorities and lists again at their interval.
    fn keep_keys(&self) {
        let worker = self.admin_workers.get(0);
        worker.spawn(Arc::clone(&self.tls).keep(self.ports.clone(), self.participants.clone()));
        worker.spawn(Arc::clone(&self.signatures).keep());
    }

    /// Serves ports that were bound.
    pub(super) fn serve(&self, bound: BoundPorts) {
        let BoundPorts { fspiop, admin, metrics, nodes } = bound;
        let fspiop = fspiop.map(|bound| self.serve_fspiop(bound));
        let admin = admin.map(|bound| self.serve_admin(bound));
        let metrics = metrics.map(|bound| self.serve_metrics(bound));
        let nodes = nodes.map(|bound| self.serve_nodes(bound));
        let mut open = self.ports.lock();
        open.fspiop = fspiop.or(open.fspiop.take());
        open.admin = admin.or(open.admin.take());
        open.metrics = metrics.or(open.metrics.take());
        open.nodes = nodes.or(open.nodes.take());
    }

    fn serve_fspiop(&self, bound: BoundServer) -> Arc<Server> {
        let limits = options::limits(&self.settings, self.descriptors.inbound);
        let (gateway, balancers) = (Arc::clone(&self.gateway), self.balancers.clone());
        Arc::new(Server::serve_behind(bound, limits, &self.workers, gateway, self.tls.fspiop(), balancers))
    }

    fn serve_admin(&self, bound: BoundServer) -> Arc<Server> {
        let settings = &self.settings;
        warn_of_open_admin_port(&bound, &self.tls, settings.admin.authentication == Requirement::Required);
        let limits = options::admin_limits(settings, settings.admin.connections_max);
        let service = Arc::new(self.admin.clone());
        Arc::new(Server::serve_with(bound, limits, &self.admin_workers, service, self.tls.admin()))
    }

    /// Serves the metrics port. It expects two scrapers and a user at a time.
    fn serve_metrics(&self, bound: BoundServer) -> Arc<Server> {
        let limits = options::admin_limits(&self.settings, options::METRICS_CONNECTIONS_MAX);
        let service = MetricsService::new(self.text.clone(), options::metrics_hosts(&self.settings));
        let secured = self.tls.metrics();
        Arc::new(Server::serve_with(bound, limits, &self.admin_workers, Arc::new(service), secured))
    }

    /// Serves the port for requests that other nodes forward.
    fn serve_nodes(&self, bound: BoundServer) -> Arc<Server> {
        let settings = &self.settings;
        let port = NodePort::new(
            self.roles.clone(),
            Arc::clone(&self.clock) as _,
            self.participants.clone(),
            options::gateway(settings),
            self.large_bodies.clone(),
        );
        let limits = options::node_limits(settings);
        Arc::new(Server::serve_with(bound, limits, &self.workers, Arc::new(port), self.tls.nodes()))
    }

    /// Workers for the tasks of a role.
    pub(super) fn role_workers(&self) -> RoleWorkers {
        RoleWorkers { edge: self.workers.scope(), admin: self.admin_workers.scope() }
    }

    /// The part of the admin API that is the same in every role, with the engine of the current one.
    pub(super) fn admin_context(&self, engine: EngineHandle) -> AdminContext {
        let (settings, metrics) = (&self.settings, Arc::clone(&self.metrics));
        let mut context = AdminContext::new(engine);
        context.hostname = settings.admin.hostname.as_str().into();
        context.metrics = self.text.clone();
        context.profiling = settings.admin.profiling.then(|| Arc::new(move || metrics.holders()) as Holders);
        context.log_level = Arc::new(self.log.clone());
        context.schemes = options::schemes(settings, &self.outbound);
        context.allowed_hosts = Some(options::allowed_hosts(settings));
        context.allowed_origins = options::allowed_origins(settings);
        context.provider_of_clients = self.providers.of_clients.clone();
        context.hub_keys = self.signatures.hub_keys();
        context.signature_keys = self.signatures.participants_keys(settings);
        context.node = self.node.as_ref().map(|node| node.number);
        context.access = self.access.clone();
        context.protections = Protections {
            has_admin_tls: self.tls.admin().is_some(),
            has_fspiop_tls: self.tls.fspiop().is_some(),
            verifies_signatures: self.signatures.authenticator().is_some(),
        };
        context
    }

    /// Whether the ports for DFSPs and operators are open only while this node is the leader.
    pub(super) fn has_leaders_ports(&self) -> bool {
        are_leaders_only(&self.settings)
    }

    /// This node follows from now on: it forwards requests, if it can.
    pub(super) fn follow(&self) {
        self.access.end_sessions();
        self.admin.set(None);
        self.metrics.set_role(RoleMetrics::Follows(None));
        self.roles.set(match (&self.forwarder, &self.node) {
            (Some(forwarder), Some(node)) => {
                HubRole::Follows(FollowerRole { health: self.health_of(node), forwarder: forwarder.clone() })
            }
            _ => HubRole::Starting,
        });
    }

    fn health_of(&self, node: &Node) -> FollowerHealth {
        let (node, clock, participants) = (node.clone(), Arc::clone(&self.clock), self.participants.clone());
        Arc::new(move || FollowerState {
            is_current: node.metrics.is_current(clock.now()),
            clock: clock.state(),
            is_new: !participants.get().has_dfsps(),
        })
    }

    /// Reads certificates, keys, authorities and lists again now, instead of within `tls.reload_interval_s`.
    pub(super) fn reload_keys(&self) {
        self.tls.reload_soon();
        self.signatures.reload_soon();
    }

    /// Stops accepting connections. Open connections end after the request in flight.
    pub(super) fn begin_close(&self) {
        let Servers { fspiop, admin, metrics, nodes } = self.ports.get();
        [fspiop, admin, metrics, nodes].into_iter().flatten().for_each(|server| server.begin_shutdown());
    }

    /// Closes the ports for DFSPs and other nodes. Returns the number of connections that were closed at the deadline.
    pub(super) async fn close_requests(&self, deadline: Instant) -> usize {
        let mut cut_off = 0;
        let Servers { fspiop, nodes, .. } = self.ports.get();
        for server in [fspiop, nodes].into_iter().flatten() {
            cut_off += server.shutdown(deadline).await;
        }
        cut_off
    }

    /// Closes the ports for operators and metrics.
    pub(super) async fn close_operators(&self, deadline: Instant) {
        let Servers { admin, metrics, .. } = self.ports.get();
        for server in [admin, metrics].into_iter().flatten() {
            server.shutdown(deadline).await;
        }
    }

    /// Closes the ports that only a leader has.
    pub(super) async fn close_leaders(&self, deadline: Instant) {
        let (fspiop, admin) = {
            let mut open = self.ports.lock();
            (open.fspiop.take(), open.admin.take())
        };
        let servers: Vec<_> = [fspiop, admin].into_iter().flatten().collect();
        servers.iter().for_each(|server| server.begin_shutdown());
        for server in servers {
            server.shutdown(deadline).await;
        }
    }

    /// Waits for the threads.
    pub(super) fn stop(&self) {
        self.workers.shutdown();
        self.admin_workers.shutdown();
        self.tls.shutdown();
        self.signatures.shutdown();
    }
}

/// Forwards requests to the leader, if the node accepts requests as a follower.
fn forwarder(
    settings: &Settings,
    node: &Node,
    tls: &Tls,
    participants: &SharedParticipants,
) -> Option<RequestForwarder> {
    settings.cluster.listen.as_ref()?;
    let peers = couriers::peers(settings, tls.to_nodes());
    let counts = Arc::clone(&node.metrics.forwarded);
    Some(RequestForwarder::new(node.leads.subscribe(), peers, participants.clone(), counts))
}

fn gateway_context(
    clock: &Arc<HubClock>,
    roles: &HubRoles<Handlers>,
    participants: &SharedParticipants,
    rates: &Arc<Rates>,
    providers: &Providers,
    signatures: &Signatures,
) -> GatewayContext<Handlers> {
    let mut context = GatewayContext::of(Arc::clone(clock) as _, roles.clone());
    context.endpoint_cache = Box::new(clear_caches(roles.clone()));
    context.participants = participants.clone();
    context.rates = Arc::clone(rates);
    context.provider = providers.of_clients.clone();
    if let Some(authenticator) = signatures.authenticator() {
        context.authenticator = Box::new(authenticator);
    }
    context
}

/// Rejects connections to the hub's own ports.
fn guard(settings: &Settings, bound: &BoundPorts) -> Guard {
    let guard = options::guard(settings);
    // Ports that only a leader has are not bound yet.
    let later = [settings.fspiop.listen.port(), settings.admin.listen.port()];
    let later = later.into_iter().filter(|_| are_leaders_only(settings));
    guard.keep_from(bound.numbers().chain(later).collect());
    guard
}

/// Clears the cached answers of oracles, on a hub that processes requests.
fn clear_caches(roles: HubRoles<Handlers>) -> impl Fn() + Send + Sync {
    move || {
        if let HubRole::Leads(leading) = &*roles.get() {
            let (_, (directory, _)) = &leading.handler;
            directory.clear_caches();
        }
    }
}

fn warn_of_open_admin_port(bound: &BoundServer, tls: &Tls, is_asked: bool) {
    let address = bound.local_addr();
    if !address.ip().is_loopback() && !tls.requires_operator_certificates() && !is_asked {
        tracing::warn!(
            %address,
            "the admin port is open to other machines and has no authentication: any machine that can reach it can \
             move money; keep it on a private network, or set admin.authentication = required"
        );
    }
}

/// The key that signs checkpoints of the audit trail.
fn audit_key(settings: &Settings) -> Result<Option<Arc<AuditKey>>, HubError> {
    let Some(file) = &settings.admin.audit_key_file else { return Ok(None) };
    let key = AuditKey::load(file);
    let key = key.map_err(|error| HubError::Settings(format!("admin.audit_key_file: {error}")))?;
    expect_outside(settings, "admin.audit_key_file", file)?;
    Ok(Some(Arc::new(key)))
}

/// The secret that is mixed into the keys that encrypt second factors.
fn people_secret(settings: &Settings, keys: &Keys) -> Result<Option<Secret>, HubError> {
    let setting = "admin.people_key_file";
    let Some(place) = &settings.admin.people_key_file else { return Ok(None) };
    let secret = keys.secret(place, "second factors of people");
    let secret = secret.map_err(|source| HubError::PrivateKey { setting, source })?;
    if let Some(file) = place.file() {
        expect_outside(settings, setting, file)?;
    }
    Ok(Some(secret))
}

/// Rejects a key in the data directory. Anyone who can rewrite the journal could use it there, and every backup would
/// contain it.
fn expect_outside(settings: &Settings, setting: &str, file: &Path) -> Result<(), HubError> {
    let [real, data] = [file, &settings.data.dir].map(Path::canonicalize);
    match (real, data) {
        (Ok(real), Ok(data)) if real.starts_with(&data) => {
            let file = file.display();
            Err(HubError::Settings(format!(
                "{setting}: {file} is in the data directory: store it in another directory"
            )))
        }
        _ => Ok(()),
    }
}
