//! The parts of a hub that processes requests: engine, callbacks, store, retention. A standalone hub has them from its
//! start to its end, a node of a cluster while it is the leader.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::{Instant, interval};
use upesi_admin::{AdminService, AuditPort, DirectoryHandle, log_checkpoints};
use upesi_delivery::lanes::Courier;
use upesi_delivery::owed::{CourierEffects, OutboxBacklog};
use upesi_engine::{Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, StartError};
use upesi_gateway::nodes::Couriers;
use upesi_gateway::{self as gateway, HubRole};
use upesi_offline::reserve::ReserveOutcome;
use upesi_offline::{backup, reserve};
use upesi_settings::Settings;

use super::cluster::topic::TopicKeeper;
use super::couriers::{self, start_courier};
use super::edge::{Edge, RoleWorkers};
use super::error::HubError;
use super::metrics::{LeaderMetrics, RoleMetrics, Samples};
use super::options;
use super::ports::BoundPorts;
use super::resources::{Handlers, Resources};
use super::retention::Retention;
use super::standby::ElectedLeader;

/// Interval between reads of the positions for the metrics.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between a former leader's checks of whether its files are free.
const FREE_LOOK_EVERY: Duration = Duration::from_millis(5);
/// Maximum time until the files are free. A request of an operator may use them until its body arrives, at most 30 s.
const FREE_TAKES_MAX: Duration = Duration::from_secs(60);

/// The parts of a hub that processes requests.
pub(super) struct LeaderParts {
    pub(super) engine: Engine,
    pub(super) handle: EngineHandle,
    courier: Courier,
    resources: Resources,
    pub(super) retention: Option<Retention>,
    topic: Option<TopicKeeper>,
    workers: RoleWorkers,
}

/// The engine and the courier of its callbacks.
struct EngineAndCourier {
    registry: Registry,
    metrics: EngineMetrics,
    engine: Engine,
    handle: EngineHandle,
    courier: Courier,
}

impl LeaderParts {
    /// Recovers the data directory, or continues with the state of the follower that was elected, and lets the hub
    /// process requests.
    pub(super) fn start(edge: &Edge, mut elected: Option<ElectedLeader>) -> Result<Self, HubError> {
        let settings = &edge.settings;
        backup::check_accepted(&settings.data.dir).map_err(HubError::NotAccepted)?;
        let ports = edge.has_leaders_ports().then(|| BoundPorts::open_leaders(settings)).transpose()?;
        let followed = elected.as_mut().and_then(|elected| elected.retention.take());
        let store = elected.as_ref().map(|elected| elected.store.clone());
        let workers = edge.role_workers();
        let worker = workers.admin.get(0);
        let EngineAndCourier { mut registry, metrics, engine, handle, courier } =
            start_engine(edge, &workers, elected)?;
        let resources = Resources::start(
            settings,
            store,
            &mut registry,
            (edge.participants.clone(), &edge.rates, metrics.response_times.clone()),
            courier.clone(),
            (&edge.outbound, edge.tls.outbound()),
            handle.clock() as _,
        )?;
        check_machine(settings);
        let retention = start_retention(settings, &handle, handle.clock(), followed)?;
        let metrics = Arc::new(LeaderMetrics {
            registry,
            counted: metrics,
            engine: handle.clone(),
            courier: courier.clone(),
            participants: edge.participants.clone(),
            store: resources.store.clone(),
            transfers_held_s: retention.as_ref().map(Retention::held_s),
            samples: Samples::default(),
        });
        let service = admin_service(edge, &handle, &resources, &courier, &metrics)?;
        if let Some(key) = edge.audit_key.clone() {
            worker.spawn(log_checkpoints(handle.clone(), key));
        }
        worker.spawn(keep_positions(Arc::clone(&metrics)));
        resources.keep(worker);
        let node = edge.node.as_ref();
        let topic = node.map(|node| TopicKeeper::start(settings, &node.metrics)).transpose()?;
        let leading = Self { engine, handle, courier, resources, retention, topic, workers };
        leading.begin_callbacks(edge);
        let data = settings.data.dir.clone();
        let noted = leading.handle.clone();
        worker_of(&leading.workers).spawn(async move { backup::enter_in_the_trail(&data, &noted).await });
        edge.metrics.set_role(RoleMetrics::Leads(metrics));
        edge.admin.set(Some(service));
        edge.roles.set(leading.role(edge));
        if let Some(node) = node {
            node.leads_now();
        }
        if let Some(ports) = ports {
            edge.serve(ports);
        }
        Ok(leading)
    }

    /// Starts the lanes, applies the blocks of participants, and continues change sets that were approved before.
    fn begin_callbacks(&self, edge: &Edge) {
        let participants = edge.participants.get();
        let worker = worker_of(&self.workers);
        match &edge.node {
            None => participants.ids().for_each(|target| self.courier.open(target)),
            Some(node) => couriers::share(node.number, &self.courier, &edge.participants, worker),
        }
        edge.tls.block(&participants);
        worker.spawn(upesi_admin::continue_change_sets(self.handle.clone()));
    }

    /// The role of the gateway and of the port for other nodes.
    fn role(&self, edge: &Edge) -> HubRole<Handlers> {
        let couriers = Arc::<Couriers>::default();
        if edge.node.is_some() {
            let (own, participants) = (couriers::own(&edge.settings), edge.participants.clone());
            let keep = couriers::keep_nodes(Arc::clone(&couriers), own, self.handle.clone(), participants);
            worker_of(&self.workers).spawn(keep);
        }
        HubRole::Leads(gateway::LeaderRole {
            engine: self.handle.clone(),
            handler: self.resources.handlers(self.handle.clone()),
            couriers,
            forwarder: edge.forwarder.clone(),
        })
    }

    /// Lets accepted requests and callbacks in flight finish. Returns the numbers of requests and callbacks that had
    /// not finished at the deadline.
    pub(super) async fn drain(&self, deadline: Instant) -> (usize, usize) {
        (self.resources.drain(deadline).await, self.courier.drain(deadline).await)
    }

    /// Stops, and waits for threads and disks. Undelivered callbacks are sent after the next start.
    pub(super) fn stop(self) {
        let Self { engine, resources, retention, topic, workers, .. } = self;
        drop((retention, topic));
        engine.shutdown();
        resources.close();
        workers.shutdown();
    }

    /// Stops like [`Self::stop`], and waits until no request uses the files any longer, so that a follower can open
    /// them. The role of the hub must have changed.
    pub(super) fn release(self) {
        let deadline = Instant::now() + FREE_TAKES_MAX;
        let (handle, is_store_used) = (self.handle.clone(), self.resources.store.usage());
        self.stop();
        while (handle.archive().is_some() || is_store_used()) && Instant::now() < deadline {
            thread::sleep(FREE_LOOK_EVERY);
        }
    }
}

fn worker_of(workers: &RoleWorkers) -> &upesi_http::WorkerHandle {
    workers.admin.get(0)
}

fn start_engine(
    edge: &Edge,
    workers: &RoleWorkers,
    elected: Option<ElectedLeader>,
) -> Result<EngineAndCourier, HubError> {
    let settings = &edge.settings;
    let engine_slot = Arc::new(OnceLock::new());
    let courier = start_courier(
        settings,
        (&edge.outbound, edge.tls.outbound(), edge.signatures.signer()),
        &workers.edge,
        (&edge.participants, &edge.clock),
        OutboxBacklog { engine: Arc::clone(&engine_slot), reports: None },
    )?;
    if edge.node.is_some() {
        // Delivers nothing before the leader has assigned the DFSPs to nodes.
        courier.deliver_to(BTreeSet::new());
    }
    let effects = CourierEffects {
        outlet: courier.outlet(),
        courier: courier.clone(),
        participants: edge.participants.clone(),
    };
    let mut registry = Registry::default();
    let metrics =
        EngineMetrics { records_metrics: settings.metrics.record, ..EngineMetrics::new(&mut registry) };
    let options = EngineOptions { clock: edge.clock.machine(), ..options::engine(settings) };
    let (engine, handle) = match elected {
        None => Engine::start(options, metrics.clone(), Box::new(effects))?,
        Some(ElectedLeader { log, standby, .. }) => {
            let options = EngineOptions { log: Some(log), ..options };
            Engine::take_over(standby, options, metrics.clone(), Box::new(effects))?
        }
    };
    let _ = engine_slot.set(handle.clone());
    edge.clock.follow(handle.clock());
    Ok(EngineAndCourier { registry, metrics, engine, handle, courier })
}

fn admin_service(
    edge: &Edge,
    engine: &EngineHandle,
    resources: &Resources,
    courier: &Courier,
    metrics: &LeaderMetrics,
) -> Result<AdminService, HubError> {
    let mut context = edge.admin_context(engine.clone());
    context.directory = Some(DirectoryHandle::new(resources.built_in.clone(), resources.oracles.clone())?);
    context.quotes = resources.find_quotes();
    context.lanes = Arc::new(courier.clone());
    context.response_times = metrics.counted.response_times.clone();
    context.audit = AuditPort::new(edge.audit_key.clone());
    Ok(AdminService::with_pages(context, upesi_console::PAGES))
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
        Ok(ReserveOutcome::Whole) => {}
        Ok(ReserveOutcome::NoRoom { free_bytes, needed_bytes }) => tracing::warn!(
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

async fn keep_positions(metrics: Arc<LeaderMetrics>) {
    let mut due = interval(POSITIONS_INTERVAL);
    loop {
        due.tick().await;
        metrics.refresh().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_settings::Sources;

    #[test]
    fn retention_shorter_than_the_validity_of_prepares_is_logged() {
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
