//! Start of a hub: first files and ports, then the data directory, then the services.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::interval;
use upesi_admin::{AdminContext, AdminService, AuditKey, AuditPort, DirectoryHandle, log_checkpoints};
use upesi_delivery::Handler;
use upesi_delivery::lanes::Courier;
use upesi_delivery::owed::{CourierEffects, OutboxBacklog};
use upesi_engine::{
    Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, SharedParticipants, StartError,
};
use upesi_gateway::nodes::{Couriers, NodePort};
use upesi_gateway::{Gateway, GatewayContext, LargeBodies, Rates};
use upesi_http::{BoundServer, Outbound, Server, Workers};
use upesi_keys::{Keys, Secret};
use upesi_offline::reserve::Kept;
use upesi_offline::{backup, reserve};
use upesi_settings::Settings;

use super::clock::HubClock;
use super::cluster::config::{expect_alone, number_of};
use super::cluster::topic::TopicKeeper;
use super::couriers::start_courier;
use super::descriptors::Descriptors;
use super::error::HubError;
use super::hub::Hub;
use super::issuers::Providers;
use super::metrics::{MetricsText, Ports};
use super::node::Node;
use super::ports::{PORTS_PATIENCE, bind, serve_admin, serve_fspiop, serve_metrics};
use super::process::ProcessMetrics;
use super::resources::Resources;
use super::retention::Retention;
use super::signatures::Signatures;
use super::standby::Elected;
use super::tls::{Servers, Tls};
use super::{couriers, keys, metrics, options};
use crate::logging::LogControl;

/// Interval at which positions are read for the metrics.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);
/// Resources acquired before recovery: keys, listeners, threads.
struct Base {
    clock: Arc<HubClock>,
    tls: Arc<Tls>,
    signatures: Arc<Signatures>,
    fspiop: BoundServer,
    admin: BoundServer,
    metrics: Option<BoundServer>,
    /// The port for other nodes of a cluster.
    nodes: Option<BoundServer>,
    workers: Workers,
    /// Separate thread for operators' requests and metrics, so that they are served while the other workers are busy.
    admin_workers: Workers,
    descriptors: Descriptors,
    outbound: Outbound,
    participants: SharedParticipants,
    audit_key: Option<Arc<AuditKey>>,
    people_secret: Option<Secret>,
    node: Option<Node>,
}

/// The engine and the courier of its callbacks.
struct Core {
    registry: Registry,
    metrics: EngineMetrics,
    engine: Engine,
    handle: EngineHandle,
    courier: Courier,
}

impl Base {
    fn open(settings: &Settings, clock: &Arc<dyn Clock>, node: Option<Node>) -> Result<Self, HubError> {
        backup::check_accepted(&settings.data.dir).map_err(HubError::NotAccepted)?;
        let patience = if node.is_some() { PORTS_PATIENCE } else { Duration::ZERO };
        let bind = |setting, address| bind(setting, address, patience);
        let keys = keys::open(settings)?;
        let tls = Arc::new(Tls::load(settings, &keys)?);
        let participants = SharedParticipants::default();
        let clock = Arc::new(HubClock::new(Arc::clone(clock)));
        let signatures = Signatures::load(settings, &keys, &participants, &(Arc::clone(&clock) as _))?;
        let signatures = Arc::new(signatures);
        let audit_key = audit_key(settings)?;
        let people_secret = people_secret(settings, &keys)?;
        let fspiop = bind("fspiop.listen", settings.fspiop.listen)?;
        let admin = bind("admin.listen", settings.admin.listen)?;
        let metrics = settings.metrics.listen.map(|address| bind("metrics.listen", address)).transpose()?;
        let nodes = settings.cluster.listen.map(|address| bind("cluster.listen", address)).transpose()?;
        let workers = options::start_edges(settings)?;
        let descriptors = Descriptors::of(settings, workers.count()).map_err(HubError::Descriptors)?;
        descriptors.tell(settings);
        let guard = options::guard(settings);
        let own = [Some(&fspiop), Some(&admin), metrics.as_ref(), nodes.as_ref()].into_iter().flatten();
        guard.keep_from(own.map(|bound| bound.local_addr().port()).collect());
        let outbound = Outbound::bounded(options::size(descriptors.outbound)).guarded(guard);
        let admin_workers = Workers::start(1, "upesi-admin")?;
        Ok(Self {
            clock,
            tls,
            signatures,
            fspiop,
            admin,
            metrics,
            nodes,
            workers,
            admin_workers,
            descriptors,
            outbound,
            participants,
            audit_key,
            people_secret,
            node,
        })
    }

    fn start_engine(
        &self,
        settings: &Settings,
        clock: Arc<dyn Clock>,
        elected: Option<Elected>,
    ) -> Result<Core, HubError> {
        let engine_slot = Arc::new(OnceLock::new());
        let courier = start_courier(
            settings,
            (&self.outbound, self.tls.outbound(), self.signatures.signer()),
            &self.workers,
            (&self.participants, &self.clock),
            OutboxBacklog { engine: Arc::clone(&engine_slot), reports: None },
        )?;
        if self.node.is_some() {
            // Nothing is delivered before it is known to whom.
            courier.deliver_to(BTreeSet::new());
        }
        let effects = CourierEffects {
            outlet: courier.outlet(),
            courier: courier.clone(),
            participants: self.participants.clone(),
        };
        let mut registry = Registry::default();
        let metrics =
            EngineMetrics { records_metrics: settings.metrics.record, ..EngineMetrics::new(&mut registry) };
        let options = EngineOptions { clock, ..options::engine(settings) };
        let (engine, handle) = match elected {
            None => Engine::start(options, metrics.clone(), Box::new(effects))?,
            Some(Elected { log, standby, .. }) => {
                let options = EngineOptions { log: Some(log), ..options };
                Engine::take_over(standby, options, metrics.clone(), Box::new(effects))?
            }
        };
        let _ = engine_slot.set(handle.clone());
        self.clock.follow(handle.clock());
        let (data, noted) = (settings.data.dir.clone(), handle.clone());
        self.admin_workers.get(0).spawn(async move { backup::enter_in_the_trail(&data, &noted).await });
        Ok(Core { registry, metrics, engine, handle, courier })
    }

    /// Starts the lanes, applies the blocks of participants, and continues change sets that were approved before the
    /// start.
    fn begin(&self, courier: &Courier, handle: &EngineHandle) {
        let participants = self.participants.get();
        match &self.node {
            None => participants.ids().for_each(|target| courier.open(target)),
            Some(node) => {
                couriers::share(node.number, courier, &self.participants, self.admin_workers.get(0))
            }
        }
        self.tls.block(&participants);
        self.admin_workers.get(0).spawn(upesi_admin::continue_change_sets(handle.clone()));
    }

    /// The metrics and their cached text, which is not rendered for each request.
    fn metrics_text(
        &self,
        settings: &Settings,
        (metrics, registry): (EngineMetrics, Registry),
        (handle, courier): (&EngineHandle, &Courier),
        resources: &Resources,
    ) -> (Arc<MetricsText>, upesi_admin::MetricsText) {
        let text = Arc::new(MetricsText::new(
            ProcessMetrics::new(settings, &self.descriptors),
            metrics,
            registry,
            handle.clone(),
            courier.clone(),
            self.participants.clone(),
            resources.store.clone(),
        ));
        let (rendered, interval) = (Arc::clone(&text), settings.metrics.interval_ms);
        (text, upesi_admin::MetricsText::new(interval, move || rendered.render()))
    }

    fn gateway(
        &self,
        settings: &Settings,
        registry: &mut Registry,
        handle: &EngineHandle,
        (resources, rates, providers): (&Resources, Arc<Rates>, &Providers),
    ) -> Gateway<impl Handler + use<>> {
        let handlers = resources.handlers(handle.clone());
        let config = options::gateway(settings);
        let mut context = GatewayContext::new(handle.clone(), handlers);
        context.endpoint_cache = Box::new(resources.clear_caches());
        context.participants = self.participants.clone();
        context.rates = rates;
        context.provider = providers.of_clients.clone();
        if let Some(authenticator) = self.signatures.authenticator() {
            context.authenticator = Box::new(authenticator);
        }
        Gateway::new(context, config, registry)
    }

    /// Serves the port on which other nodes forward requests, if there is one, with the handlers of the gateway.
    fn serve_nodes(
        &mut self,
        settings: &Settings,
        handle: &EngineHandle,
        (resources, bodies): (&Resources, LargeBodies),
    ) -> Option<Arc<Server>> {
        let couriers = Arc::<Couriers>::default();
        if self.node.is_some() {
            let (own, participants) = (couriers::own(settings), self.participants.clone());
            let keep = couriers::keep_nodes(Arc::clone(&couriers), own, handle.clone(), participants);
            self.admin_workers.get(0).spawn(keep);
        }
        let bound = self.nodes.take()?;
        let (handlers, config) = (resources.handlers(handle.clone()), options::gateway(settings));
        let (handle, participants) = (handle.clone(), self.participants.clone());
        let port = NodePort::new(handle, handlers, participants, (config, bodies), couriers);
        let limits = options::node_limits(settings);
        Some(Arc::new(Server::serve_with(bound, limits, &self.workers, Arc::new(port), self.tls.nodes())))
    }
}

impl Hub {
    /// Binds both ports, recovers the data directory, and serves. Deadlines of transfers and timestamps follow the
    /// given clock; network timeouts do not.
    pub fn start(settings: &Settings, log: LogControl, clock: Arc<dyn Clock>) -> Result<Self, HubError> {
        expect_alone(settings)?;
        Self::start_on(settings, log, clock, None)
    }

    /// Like [`Self::start`], for the leader of a cluster.
    pub(super) fn start_on(
        settings: &Settings,
        log: LogControl,
        clock: Arc<dyn Clock>,
        mut elected: Option<Elected>,
    ) -> Result<Self, HubError> {
        let followed = elected.as_mut().and_then(|elected| elected.retention.take());
        let mut base = Base::open(settings, &clock, elected.as_ref().map(|elected| elected.node.clone()))?;
        let store = elected.as_ref().map(|elected| elected.store.clone());
        let Core { mut registry, metrics, engine, handle, courier } =
            base.start_engine(settings, clock, elected)?;
        let rates = Arc::new(Rates::new(options::rates(settings), base.participants.clone()));
        let resources = Resources::start(
            settings,
            store,
            &mut registry,
            (base.participants.clone(), &rates, metrics.response_times.clone()),
            courier.clone(),
            (&base.outbound, base.tls.outbound()),
            handle.clock() as _,
        )?;
        check_machine(settings);
        let retention = start_retention(settings, &handle, handle.clock(), followed)?;
        let providers = Providers::start(settings, &base.outbound, base.admin_workers.get(0))?;
        let gateway = base.gateway(settings, &mut registry, &handle, (&resources, rates, &providers));
        let (text, shown) = base.metrics_text(settings, (metrics, registry), (&handle, &courier), &resources);
        let callers = (&handle, &providers);
        let service = admin_service(settings, callers, &resources, &courier, (&text, &shown), log, &base)?;
        keep_positions(&base.admin_workers, Arc::clone(&text));
        resources.keep(base.admin_workers.get(0));
        base.begin(&courier, &handle);
        let nodes = base.serve_nodes(settings, &handle, (&resources, gateway.large_bodies()));
        let Base { tls, signatures, workers, admin_workers, descriptors, outbound, node, .. } = base;
        let (fspiop, admin, metrics) = (base.fspiop, base.admin, base.metrics);
        let admin = serve_admin(settings, admin, &admin_workers, service, &tls);
        let limits = options::limits(settings, descriptors.inbound);
        let (fspiop, balancers) = serve_fspiop(settings, (fspiop, limits), &workers, gateway, &tls);
        let metrics = metrics.map(|bound| serve_metrics(settings, bound, &admin_workers, shown, &tls));
        let servers = Servers {
            fspiop: Some(Arc::clone(&fspiop)),
            admin: Some(Arc::clone(&admin)),
            metrics: metrics.clone(),
            nodes: nodes.clone(),
        };
        admin_workers.get(0).spawn(Arc::clone(&tls).keep(servers, base.participants));
        admin_workers.get(0).spawn(Arc::clone(&signatures).keep());
        let _ = text.ports.set(Ports {
            outbound,
            fspiop: fspiop.clone(),
            admin: admin.clone(),
            tls: tls.clone(),
            signatures: signatures.clone(),
            balancers,
            providers,
            break_glass_file: metrics::watched_break_glass(settings),
            node: node.clone(),
            transfers_held_s: retention.as_ref().map(Retention::held_s),
        });
        let topic = node.as_ref().map(|node| TopicKeeper::start(settings, &node.metrics)).transpose()?;
        Ok(Self {
            engine,
            handle,
            courier,
            resources,
            retention,
            fspiop,
            admin,
            metrics,
            nodes,
            workers,
            admin_workers,
            tls,
            signatures,
            node,
            topic,
        })
    }
}

/// Whether a finished transfer may be removed while its prepare is still valid.
fn forgets_before_expiry(settings: &Settings) -> bool {
    const DAY_S: u64 = 24 * 60 * 60;
    let keep_days = settings.archive.keep_days;
    let kept = Duration::from_secs(keep_days.saturating_mul(DAY_S));
    keep_days > 0 && settings.transfer_validity_max().is_none_or(|validity| kept < validity)
}

fn warn_of_short_memory(settings: &Settings) {
    if forgets_before_expiry(settings) {
        tracing::warn!(
            keep_days = settings.archive.keep_days,
            transfer_validity_max_s =
                settings.transfer_validity_max().map_or(0, |validity| validity.as_secs()),
            "transfers may be removed before their prepare expires; a repeated prepare would then be paid again (archive.keep_days)"
        );
    }
}

/// Allocates the reserve. A failure is logged and otherwise ignored.
fn keep_reserve(settings: &Settings) {
    let (data, wanted_bytes) = (&settings.data.dir, settings.data.reserve_bytes);
    match reserve::keep(data, wanted_bytes, settings.store.free_bytes_min) {
        Ok(Kept::Whole) => {}
        Ok(Kept::NoRoom { free_bytes, needed_bytes }) => tracing::warn!(
            free_bytes,
            needed_bytes,
            "the volume has not enough space for the reserve of the data directory (data.reserve_bytes); the next start tries again"
        ),
        Err(error) => tracing::warn!(%error, "cannot allocate the reserve of the data directory"),
    }
}

/// Allocates the reserve, and warns if `archive.keep_days` is too short.
fn check_machine(settings: &Settings) {
    keep_reserve(settings);
    warn_of_short_memory(settings);
}

fn start_retention(
    settings: &Settings,
    engine: &EngineHandle,
    clock: Arc<dyn Clock>,
    before: Option<Retention>,
) -> Result<Option<Retention>, HubError> {
    let policy = options::retention(settings);
    let started = policy.map(|policy| Retention::start(policy, engine.clone(), clock, before)).transpose();
    Ok(started.map_err(StartError::Thread)?)
}

fn admin_service(
    settings: &Settings,
    (engine, providers): (&EngineHandle, &Providers),
    resources: &Resources,
    courier: &Courier,
    (text, shown): (&Arc<MetricsText>, &upesi_admin::MetricsText),
    log: LogControl,
    base: &Base,
) -> Result<AdminService, HubError> {
    let mut context = AdminContext::new(engine.clone());
    context.hostname = settings.admin.hostname.as_str().into();
    context.directory = Some(DirectoryHandle::new(resources.built_in.clone(), resources.oracles.clone())?);
    context.quotes = resources.find_quotes();
    context.lanes = Arc::new(courier.clone());
    context.response_times = text.response_times();
    context.metrics = shown.clone();
    context.profiling = settings.admin.profiling.then(|| {
        let text = Arc::clone(text);
        Arc::new(move || text.holders()) as upesi_admin::Holders
    });
    context.log_level = Arc::new(log);
    context.schemes = options::schemes(settings, &base.outbound);
    context.allowed_hosts = Some(options::allowed_hosts(settings));
    context.allowed_origins = options::allowed_origins(settings);
    context.provider_of_clients = providers.of_clients.clone();
    context.hub_keys = base.signatures.hub_keys();
    context.signature_keys = base.signatures.participants_keys(settings);
    context.node = number_of(settings);
    context.audit = AuditPort::new(base.audit_key.clone());
    if let Some(key) = base.audit_key.clone() {
        base.admin_workers.get(0).spawn(log_checkpoints(context.clone(), key));
    }
    let access = options::access(settings, providers.issuers.clone(), base.people_secret.clone());
    let _ = text.access.set(access.clone());
    Ok(AdminService::new(context.with_access(access)))
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

/// Rejects a key in the data directory, where it would be available to anyone who can rewrite the journal, and in every
/// backup.
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

fn keep_positions(workers: &Workers, text: Arc<MetricsText>) {
    workers.get(0).spawn(async move {
        let mut due = interval(POSITIONS_INTERVAL);
        loop {
            due.tick().await;
            text.refresh().await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_settings::Sources;

    #[test]
    fn transfers_are_kept_as_long_as_their_prepare_is_valid_or_it_is_said() {
        for (validity_s, keep_days, expected) in [
            ("172800", "2", false),
            ("172801", "2", true),
            ("172801", "0", false),
            ("86400", "1", false),
            ("0", "36500", true),
        ] {
            let flags = [("hub.transfer_validity_max_s", validity_s), ("archive.keep_days", keep_days)];
            let flags = flags.map(|(key, value)| ("test".to_owned(), key.to_owned(), value.to_owned()));
            let sources = Sources { flags: flags.into(), ..Sources::default() };
            let settings = upesi_settings::load(&sources).unwrap().settings;
            assert_eq!(forgets_before_expiry(&settings), expected, "{validity_s} {keep_days}");
        }
    }
}
