//! The hub: gateway, engine, courier and admin API put together.

mod clock;
pub mod cluster;
mod couriers;
mod descriptors;
mod following;
mod issuers;
mod lane_metrics;
mod metrics;
mod node;
mod options;
mod process;
mod response_metrics;
mod retention;
mod serve;
mod settlement_metrics;
mod signatures;
mod start;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_admin::{FindQuote, MessageView, QuoteView};
use upesi_delivery::Handler;
use upesi_delivery::lanes::Courier;
use upesi_delivery::relayed::{Relay, RelayMetrics};
use upesi_directory::oracle::{BuiltInOracle, RegisteredOracles};
use upesi_directory::{Directory, DirectoryMetrics, OnMiss};
use upesi_engine::{Clock, Engine, EngineHandle, ResponseTimes, SharedParticipants, StartError, StopReason};
use upesi_gateway::Rates;
use upesi_http::{BindError, ClientTls, Outbound, Server, WorkerHandle, Workers, WorkersError};
use upesi_jws::KeyFileError;
use upesi_keys::KeyError;
use upesi_parties::builtin::{BuiltInDirectory, BuiltInOptions};
use upesi_parties::registry::OracleRegistry;
use upesi_quoting::{KeptMessage, KeptQuote, Quoting, QuotingError, QuotingMetrics};
use upesi_tables::TablesError;
use upesi_tables::store::Store;
use upesi_tls::TlsError;
use upesi_transfers::Transfers;

use self::cluster::{ClusterError, TopicKeeper};
use self::descriptors::TooFewDescriptors;
use self::node::Node;
use self::retention::Retention;
use self::signatures::Signatures;
use self::tls::Tls;
use crate::config::{Settings, quote_rules};
use crate::exit::Exit;

pub use descriptors::raise_limit;
pub use serve::serve;

/// The reason why a hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A port cannot be listened on.
    #[error("{setting}: {source}")]
    Bind {
        /// Setting of the port.
        setting: &'static str,
        /// The error of the port.
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
    /// Certificates, keys or lists cannot be used.
    #[error("{section}: {source}")]
    Tls {
        /// Section of the settings that names the files.
        section: &'static str,
        /// The error of the files.
        source: TlsError,
    },
    /// Signing keys cannot be used.
    #[error("jws: {0}")]
    Keys(KeyFileError),
    /// The hub's own private key cannot be used.
    #[error("{setting}: {source}")]
    PrivateKey {
        /// Setting of the key, or of its token.
        setting: &'static str,
        /// The error of the key.
        source: KeyError,
    },
    /// The data directory was restored with findings about rules that have not been accepted.
    #[error("{0}")]
    NotAccepted(String),
    /// There is no ledger, and one must exist.
    #[error(
        "there is no ledger in {dir} (data.must_exist): mount its volume, or name the right directory; upesi init {dir} creates a new, empty ledger", dir = .0.display()
    )]
    NoLedger(PathBuf),
    /// Settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The node cannot follow its cluster's log.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
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
            Self::Settings(_) | Self::Tls { .. } | Self::Keys(_) | Self::PrivateKey { .. } => Exit::Usage,
            Self::NotAccepted(_) => Exit::Data,
            Self::NoLedger(_) => Exit::NoInput,
            Self::Store(error) => exit_of_store(error),
            Self::Engine(error) => exit_of(error),
            Self::Cluster(error) => error.exit(),
        }
    }
}

/// The exit code for an unusable store.
const fn exit_of_store(error: &TablesError) -> Exit {
    match error {
        TablesError::Damaged { .. } | TablesError::Format { .. } | TablesError::Content { .. } => Exit::Data,
        TablesError::InUse { .. } => Exit::Temporary,
        _ => Exit::InputOutput,
    }
}

/// The exit code for a data directory whose state cannot be recovered.
pub(crate) fn exit_of(error: &StartError) -> Exit {
    use upesi_journal::{DataDirectoryError, JournalError};
    match error {
        StartError::Data(DataDirectoryError::Locked { .. }) => Exit::Temporary,
        StartError::Data(
            DataDirectoryError::UnknownFormat { .. }
            | DataDirectoryError::NoFormat(_)
            | DataDirectoryError::Foreign { .. },
        ) => Exit::Data,
        StartError::Data(_) => Exit::CannotCreate,
        StartError::Journal(JournalError::Damaged { .. }) => Exit::Data,
        StartError::HubName(_) => Exit::Usage,
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
    metrics: Option<Arc<Server>>,
    /// The port on which other nodes of a cluster forward requests.
    nodes: Option<Arc<Server>>,
    workers: Workers,
    admin_workers: Workers,
    tls: Arc<Tls>,
    signatures: Arc<Signatures>,
    node: Option<Node>,
    topic: Option<TopicKeeper>,
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

// The handlers of all resources put together: transfers, the directory with its oracles, quoting, and the store and
// the relay under them.

/// Directory of the store inside the data directory.
const STORE: &str = "store";

/// The handlers of all requests except those about transfers, with the store and the relay that they use.
struct Resources {
    store: Store,
    built_in: BuiltInDirectory,
    oracles: OracleRegistry,
    quoting: Quoting,
    relay: Relay,
    directory: Directory,
}

impl Resources {
    /// Opens the store, unless it is already open, and starts the handlers. The engine has locked the data directory,
    /// which contains the store.
    fn start(
        settings: &Settings,
        store: Option<Store>,
        registry: &mut Registry,
        (participants, rates, response_times): (SharedParticipants, &Arc<Rates>, ResponseTimes),
        courier: Courier,
        (outbound, tls): (&Outbound, Option<ClientTls>),
        clock: Arc<dyn Clock>,
    ) -> Result<Self, HubError> {
        let store = match store {
            Some(store) => store,
            None => Store::open(settings.data.dir.join(STORE), &options::store(settings))?,
        };
        let metrics = RelayMetrics::register(registry).with_response_times(response_times);
        let relay = Relay::new(options::relay(settings), participants, Arc::new(courier), clock, metrics);
        let built_in = BuiltInDirectory::open(
            &store,
            BuiltInOptions {
                ownership_check: settings.lookup.ownership_check,
                memory_bytes_max: settings.lookup.directory_memory_bytes_max,
            },
        )?;
        let schemes = options::schemes(settings, outbound);
        let oracles = OracleRegistry::open(&store, settings.lookup.builtin_directory, schemes)?;
        let config = options::directory(settings, outbound, tls);
        let metrics = DirectoryMetrics::register(registry);
        let source = RegisteredOracles::new(
            oracles.clone(),
            Arc::new(BuiltInOracle::new(built_in.clone())),
            config.oracle.clone(),
            metrics.clone(),
        );
        let directory = Directory::new(config, relay.clone(), Arc::new(source), metrics, on_miss(rates))
            .map_err(|mistakes| {
                let texts: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
                HubError::Settings(texts.join("; "))
            })?;
        let rules = quote_rules(&settings.quotes.rules_file).map_err(HubError::Settings)?;
        let quoting = Quoting::new(
            &options::quoting(settings),
            relay.clone(),
            Some(store.clone()),
            rules,
            QuotingMetrics::register(registry),
        )?;
        Ok(Self { store, built_in, oracles, quoting, relay, directory })
    }

    /// The handler of each resource. Register a new resource here.
    fn handlers(&self, engine: EngineHandle) -> impl Handler + use<> {
        (Transfers::new(engine), (self.directory.clone(), self.quoting.clone()))
    }

    /// Clears the cached answers of oracles.
    fn clear_caches(&self) -> impl Fn() + Send + Sync + use<> {
        let directory = self.directory.clone();
        move || directory.clear_caches()
    }

    /// Lookup of stored quotes for operators, if quotes are stored.
    fn find_quotes(&self) -> Option<FindQuote> {
        let quoting = self.quoting.clone();
        quoting
            .keeps_quotes()
            .then(|| Arc::new(move |id: &str| Ok(quoting.find(id)?.map(quote_view))) as FindQuote)
    }

    /// Starts the timers: deadlines of lookups, retention of quotes.
    fn keep(&self, worker: &WorkerHandle) {
        worker.spawn(self.directory.expiry());
        let quoting = self.quoting.clone();
        worker.spawn(async move { quoting.run_retention().await });
    }

    /// Waits until accepted requests are forwarded, or until the deadline; returns the number of remaining requests.
    async fn drain(&self, deadline: Instant) -> usize {
        self.relay.drain(deadline).await
    }

    /// Stops the store's writer. Waits for the disk.
    fn close(&self) {
        self.store.close();
    }
}

/// Counts lookups of unknown parties.
fn on_miss(rates: &Arc<Rates>) -> OnMiss {
    let rates = Arc::clone(rates);
    Arc::new(move |source| rates.missed(source))
}

/// A stored quote for operators.
fn quote_view(quote: KeptQuote) -> QuoteView {
    let message = |kept: KeptMessage| {
        MessageView::new(kept.at, kept.source, kept.destination, &kept.headers, kept.body)
    };
    let mut view = QuoteView::new(quote.resource, quote.id, quote.began_at, quote.wanted_until);
    view.request = quote.request.map(message);
    view.response = quote.response.map(message);
    view.error = quote.error.map(message);
    view
}
