//! The hub: gateway, engine, courier and admin API put together.

mod descriptors;
mod metrics;
mod options;
mod process;
mod resources;
mod retention;
mod serve;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::{Instant, interval};
use upesi_admin::{AdminContext, AdminService, DirectoryHandle};
use upesi_delivery::lanes::Courier;
use upesi_delivery::owed::{CallbackRenderer, CourierEffects, OutboxBacklog};
use upesi_engine::{
    Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, SharedParticipants, StartError, StopReason,
    SystemClock,
};
use upesi_gateway::Gateway;
use upesi_http::{BindError, BoundServer, Outbound, Server, Workers, WorkersError};
use upesi_quoting::QuotingError;
use upesi_tables::TablesError;

use self::descriptors::{Descriptors, TooFewDescriptors};
use self::metrics::{MetricsText, Ports};
use self::process::ProcessMetrics;
use self::resources::Resources;
use self::retention::Retention;
use crate::config::Settings;
use crate::exit::Exit;
use crate::logging::LogControl;
use crate::reserve::{self, Kept};

pub use descriptors::raise_limit;
pub use serve::serve;

/// How often positions are read for the metrics.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);

/// Why a hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A port cannot be listened on.
    #[error("{setting}: {source}")]
    Bind {
        /// The setting that names the port.
        setting: &'static str,
        /// What is wrong.
        source: BindError,
    },
    /// Worker threads cannot be started.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Engine(#[from] StartError),
    /// The store in the data directory cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
    /// The system allows too few files and connections.
    #[error("{0}")]
    Descriptors(TooFewDescriptors),
    /// Settings contradict themselves.
    #[error("{0}")]
    Settings(String),
}

impl From<QuotingError> for HubError {
    fn from(error: QuotingError) -> Self {
        match error {
            QuotingError::Store(error) => Self::Store(error),
            error @ QuotingError::NoStore => Self::Settings(error.to_string()),
        }
    }
}

impl HubError {
    /// The exit code of a process that cannot start for this reason.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Bind { .. } => Exit::Unavailable,
            Self::Workers(_) | Self::Descriptors(_) => Exit::Temporary,
            Self::Settings(_) => Exit::Usage,
            Self::Store(
                TablesError::Damaged { .. } | TablesError::Format { .. } | TablesError::Content { .. },
            ) => Exit::Data,
            Self::Store(TablesError::InUse { .. }) => Exit::Temporary,
            Self::Store(_) => Exit::InputOutput,
            Self::Engine(error) => exit_of(error),
        }
    }
}

/// How a command ends that cannot bring the state of a data directory back.
pub(crate) fn exit_of(error: &StartError) -> Exit {
    use upesi_journal::{DataDirectoryError, JournalError};
    match error {
        StartError::Data(DataDirectoryError::Locked { .. }) => Exit::Temporary,
        StartError::Data(DataDirectoryError::UnknownFormat { .. } | DataDirectoryError::NoFormat(_)) => {
            Exit::Data
        }
        StartError::Data(_) => Exit::CannotCreate,
        StartError::Journal(JournalError::Damaged { .. }) => Exit::Data,
        StartError::Journal(_) | StartError::Thread(_) => Exit::InputOutput,
        StartError::Archive(upesi_tables::TablesError::InUse { .. }) => Exit::Temporary,
        StartError::Archive(upesi_tables::TablesError::Io { .. }) => Exit::InputOutput,
        StartError::Archive(_)
        | StartError::Record { .. }
        | StartError::Snapshot { .. }
        | StartError::EndOfTime(_)
        | StartError::ArchiveLost(_) => Exit::Data,
    }
}

/// A running hub.
pub struct Hub {
    engine: Engine,
    handle: EngineHandle,
    courier: Courier,
    resources: Resources,
    retention: Option<Retention>,
    fspiop: Arc<Server>,
    admin: Arc<Server>,
    workers: Workers,
    admin_workers: Workers,
}

impl Hub {
    /// Binds both ports, recovers the data directory, and serves.
    pub fn start(settings: &Settings, log: LogControl) -> Result<Self, HubError> {
        Self::start_with_clock(settings, log, Arc::new(SystemClock))
    }

    /// Like [`Self::start`], by another clock than the machine's: deadlines of transfers and time stamps follow it,
    /// waits on the network do not.
    pub fn start_with_clock(
        settings: &Settings,
        log: LogControl,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, HubError> {
        let fspiop = bind("fspiop.listen", settings.fspiop.listen)?;
        let admin = bind("admin.listen", settings.admin.listen)?;
        let workers = options::start_edges(settings)?;
        let descriptors = Descriptors::of(settings, workers.count()).map_err(HubError::Descriptors)?;
        descriptors.tell(settings);
        let outbound = Outbound::bounded(options::size(descriptors.outbound));
        // Operators' requests and metrics have a thread of their own, so that they get through when the edges are busy.
        let admin_workers = Workers::start(1, "upesi-admin")?;
        let participants = SharedParticipants::default();
        let engine_slot = Arc::new(OnceLock::new());
        let courier = start_courier(settings, &outbound, &workers, &participants, &engine_slot)?;
        let effects = CourierEffects {
            outlet: courier.outlet(),
            courier: courier.clone(),
            participants: participants.clone(),
        };
        let mut registry = Registry::default();
        let metrics =
            EngineMetrics { records_metrics: settings.metrics.record, ..EngineMetrics::new(&mut registry) };
        let counted = metrics.clone();
        let (engine, handle) =
            Engine::start(EngineOptions { clock, ..options::engine(settings) }, metrics, Box::new(effects))?;
        let _ = engine_slot.set(handle.clone());
        let clock = handle.clock();
        let resources = Resources::start(
            settings,
            &mut registry,
            participants.clone(),
            courier.clone(),
            &outbound,
            Arc::clone(&clock) as _,
        )?;
        keep_reserve(settings);
        let retention = options::retention(settings)
            .map(|policy| Retention::start(policy, handle.clone(), Arc::clone(&clock) as _))
            .transpose()
            .map_err(StartError::Thread)?;
        let handlers = resources.handlers(handle.clone());
        let gateway =
            Gateway::new(handle.clone(), options::gateway(settings), &mut registry, clock, handlers)
                .with_endpoint_cache(resources.clear_caches())
                .with_participants(participants.clone());
        let text = Arc::new(MetricsText::new(
            ProcessMetrics::new(settings, &descriptors),
            counted,
            registry,
            handle.clone(),
            courier.clone(),
            participants.clone(),
            resources.store.clone(),
        ));
        let service = admin_service(settings, &handle, &resources, &courier, &text, log)?;
        keep_positions(&admin_workers, Arc::clone(&text));
        resources.keep(admin_workers.get(0));
        for target in participants.get().ids() {
            courier.open(target);
        }
        warn_of_open_admin_port(admin.local_addr());
        let limits = upesi_admin::limits(options::size(settings.admin.connections_max));
        let admin = Arc::new(Server::serve(admin, limits, &admin_workers, Arc::new(service)));
        let limits = options::limits(settings, &descriptors);
        let fspiop = Arc::new(Server::serve(fspiop, limits, &workers, Arc::new(gateway)));
        let _ = text.ports.set(Ports { outbound, fspiop: Arc::clone(&fspiop), admin: Arc::clone(&admin) });
        Ok(Self { engine, handle, courier, resources, retention, fspiop, admin, workers, admin_workers })
    }

    /// Where the FSPIOP API listens.
    pub fn fspiop_address(&self) -> SocketAddr {
        self.fspiop.local_addr()
    }

    /// Where the admin API listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.local_addr()
    }

    /// Lets transfers leave that are older than `archive.keep_days` now, rather than within the hour.
    pub fn apply_retention(&self) {
        if let Some(retention) = &self.retention {
            retention.look();
        }
    }

    /// Waits until the engine stops by itself, which it does only when the disk fails.
    pub async fn failed(&self) -> StopReason {
        self.handle.stopped().await
    }

    /// Lets requests and callbacks in flight finish, then stops. What is undelivered is sent after the next start.
    pub async fn shutdown(self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let cut_off = self.fspiop.shutdown(deadline).await;
        let relays = self.resources.drain(deadline).await;
        let in_flight = self.courier.drain(deadline).await;
        self.admin.shutdown(deadline).await;
        if cut_off + relays + in_flight > 0 {
            let (connections, callbacks) = (cut_off, in_flight);
            tracing::warn!(connections, relays, callbacks, "these were cut off at the drain deadline");
        }
        // The engine's threads and the workers are joined, which blocks.
        let stop = move || {
            drop(self.retention);
            self.engine.shutdown();
            self.resources.close();
            self.workers.shutdown();
            self.admin_workers.shutdown();
        };
        if tokio::task::spawn_blocking(stop).await.is_err() {
            tracing::error!("the threads of the hub did not stop in order");
        }
    }
}

fn bind(setting: &'static str, address: SocketAddr) -> Result<BoundServer, HubError> {
    Server::bind(address).map_err(|source| HubError::Bind { setting, source })
}

/// Without it the hub serves as well.
fn keep_reserve(settings: &Settings) {
    let (data, wanted_bytes) = (&settings.data.dir, settings.data.reserve_bytes);
    match reserve::keep(data, wanted_bytes, settings.store.free_bytes_min) {
        Ok(Kept::Whole) => {}
        Ok(Kept::NoRoom { free_bytes, needed_bytes }) => tracing::warn!(
            free_bytes,
            needed_bytes,
            "the volume has no room for the reserve of the data directory (data.reserve_bytes): the next start tries again"
        ),
        Err(error) => tracing::warn!(%error, "there is no reserve in the data directory"),
    }
}

fn warn_of_open_admin_port(address: SocketAddr) {
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "the admin port is open to other machines and has no authentication: every machine that reaches it can \
             move money; keep it on a private network"
        );
    }
}

fn start_courier(
    settings: &Settings,
    outbound: &Outbound,
    workers: &Workers,
    participants: &SharedParticipants,
    engine: &Arc<OnceLock<EngineHandle>>,
) -> Result<Courier, HubError> {
    let renderer = CallbackRenderer {
        participants: participants.clone(),
        version: options::versions(settings).hub_made,
    };
    let backlog = OutboxBacklog(Arc::clone(engine));
    Courier::start(workers, options::courier(settings, outbound), Arc::new(backlog), Arc::new(renderer))
        .map_err(|mistakes| {
            let texts: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            HubError::Settings(texts.join("; "))
        })
}

fn admin_service(
    settings: &Settings,
    engine: &EngineHandle,
    resources: &Resources,
    courier: &Courier,
    text: &Arc<MetricsText>,
    log: LogControl,
) -> Result<AdminService, HubError> {
    let mut context = AdminContext::new(engine.clone());
    context.hostname = settings.admin.hostname.as_str().into();
    context.directory = Some(DirectoryHandle::new(resources.built_in.clone(), resources.oracles.clone())?);
    context.quotes = resources.find_quotes();
    context.lanes = Arc::new(courier.clone());
    let interval = Duration::from_millis(settings.metrics.interval_ms);
    let rendered = Arc::clone(text);
    context.metrics = upesi_admin::MetricsText::new(interval, move || rendered.render());
    context.profiling = settings.admin.profiling.then(|| {
        let text = Arc::clone(text);
        Arc::new(move || text.holders()) as upesi_admin::Holders
    });
    context.log_level = Arc::new(log);
    Ok(AdminService::new(context).with_allowed_hosts(options::allowed_hosts(settings)))
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
