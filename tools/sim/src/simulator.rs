//! Starting, inspecting and stopping a set of simulated DFSPs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::mpsc;
use upesi_http::{BindError, Limits, Server, ServerTls, ServerTlsOptions, UrlError, Workers};
use upesi_types::{Currency, FspId, TransferId};

use crate::books::{ExpectedPosition, IncomingState, OutgoingState};
use crate::condition::Secret;
use crate::counters::Counters;
use crate::dfsp::{Dfsp, DfspReport};
use crate::ids::Orders;
use crate::lookups::currency_list;
use crate::metrics::SimMetrics;
use crate::originating::OriginatorOptions;
use crate::party::DFSPS_MAX;
use crate::payer::Originator;
use crate::rounds::Rounds;
use crate::secured::{Signing, SimSecurity};
use crate::service::SimService;
use crate::settings::{DfspSettings, SettingsError};
use crate::shared::{PayeeFxTransfers, SimulatorState};
use crate::sockets::SocketServer;
use crate::table::{AnswerMemory, Bulks, Table};
use crate::upstream::{Route, Upstream};
use crate::watch::{Channels, MessageWatch, SeenMessage};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of unfinished handshakes: a hub, or all DFSPs together, open their connections at once.
const HANDSHAKES_MAX: usize = 4_096;

/// The configuration of simulated DFSPs.
#[derive(Clone, Debug)]
pub struct SimConfig {
    pub dfsps: Vec<(FspId, DfspSettings)>,
    /// The address where the DFSPs listen, each with its name as base path; port 0 for any free port.
    pub listen: SocketAddr,
    /// The address where load scripts open their web sockets; `None` for no such port.
    pub socket_listen: Option<SocketAddr>,
    pub upstream: Upstream,
    /// The currencies of parties; the first 16 are used.
    pub currencies: Vec<Currency>,
    /// The settings of payees that convert the money that they receive; `None` if they keep it. This requires a hub:
    /// without one, payees do not learn the outcome.
    pub payee_fx_transfers: Option<PayeeFxTransfers>,
    /// The secret for conditions and fulfilments, which payers and payees share.
    pub secret: Vec<u8>,
    pub seed: u64,
    /// Maximum number of connections to each address of the upstream.
    pub connections_max: usize,
    /// Maximum time for the upstream to answer a request.
    pub request_timeout: Duration,
    /// Maximum number of times that a payee sends its fulfilment to a hub that does not answer, or answers 5xx.
    pub answer_attempts_max: u32,
    /// The channel that receives every message; `None` for no watcher.
    pub watch: Option<mpsc::Sender<SeenMessage>>,
    /// Whether to measure messages, for users of Mojaloop's load scripts, and to show the metrics at `GET /metrics`.
    /// Only then do answers carry another time in `tracestate`.
    pub metrics: bool,
    /// The authentication of the DFSPs.
    pub security: SimSecurity,
}

impl SimConfig {
    /// Well-behaved DFSPs named `dfsp-1` to `dfsp-N` on any free loopback port.
    pub fn new(dfsp_count: usize, upstream: Upstream) -> Self {
        let name = |number| FspId::parse(&format!("dfsp-{number}"));
        Self {
            dfsps: (1..=dfsp_count).filter_map(name).map(|name| (name, DfspSettings::default())).collect(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            socket_listen: None,
            upstream,
            currencies: ["XXX", "XTS"].into_iter().filter_map(Currency::parse).collect(),
            payee_fx_transfers: None,
            secret: b"simulated DFSPs share this secret".to_vec(),
            seed: 1,
            connections_max: 512,
            request_timeout: Duration::from_secs(20),
            answer_attempts_max: 8,
            watch: None,
            metrics: false,
            security: SimSecurity::default(),
        }
    }
}

/// Simulated DFSPs that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    #[error("the DFSPs must be 1 to {DFSPS_MAX} with different names")]
    Dfsps,
    #[error("{dfsp}: {source}")]
    Settings { dfsp: FspId, source: SettingsError },
    #[error("the hub's address: {0}")]
    Upstream(#[from] UrlError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("cannot listen for web sockets on {address}: {source}")]
    Socket { address: SocketAddr, source: std::io::Error },
}

/// The number of transfers in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCounts {
    /// POSTs without an answer so far.
    pub sent: u64,
    /// Transfers that the hub accepted and that have no outcome.
    pub accepted: u64,
    pub committed: u64,
    pub aborted: u64,
    /// Incoming transfers whose fulfilment was sent, or that wait for a PATCH.
    pub incoming_open: u64,
    pub incoming_committed: u64,
    /// Payees' FX transfers without an outcome.
    pub sales_open: u64,
}

/// Running DFSPs. If this is dropped, they still run until the workers stop.
pub struct Simulator {
    shared: Arc<SimulatorState>,
    server: Server,
    sockets: Option<SocketServer>,
    is_secure: bool,
}

impl Simulator {
    /// Binds the ports and starts to serve on the workers. Fails if the configuration is unusable or a port is in use.
    pub fn start(config: SimConfig, workers: &Workers) -> Result<Self, SimError> {
        let (dfsps, by_name) = dfsps(&config)?;
        let bound = Server::bind(config.listen)?;
        let address = bound.local_addr();
        let SimSecurity { tls, signatures } = config.security;
        let (server_tls, client_tls) = match tls {
            None => (None, None),
            Some(tls) if tls.clients.len() == dfsps.len() => (Some(tls.server), Some(tls.clients)),
            Some(_) => return Err(SimError::Dfsps),
        };
        if signatures.as_ref().is_some_and(|signatures| signatures.keys.len() != dfsps.len()) {
            return Err(SimError::Dfsps);
        }
        let (connections_max, timeout) = (config.connections_max, config.request_timeout);
        let tls = client_tls.as_deref();
        let route = Route::new(&config.upstream, address, workers, connections_max, timeout, tls)?;
        let shared = Arc::new(SimulatorState {
            dfsps,
            by_name,
            table: Table::new(),
            bulks: Bulks::default(),
            remembered: AnswerMemory::new(),
            refused: AnswerMemory::new(),
            currencies: currency_list(&config.currencies),
            payee_fx_transfers: config.payee_fx_transfers,
            secret: Secret::new(&config.secret),
            seed: config.seed,
            orders: Orders::new(),
            channels: Channels::default(),
            answer_attempts_max: config.answer_attempts_max.max(1),
            rounds: Rounds::default(),
            watch: MessageWatch::new(config.watch),
            metrics: config.metrics.then(SimMetrics::new),
            signing: signatures.map(Signing::new),
            route,
        });
        let sockets = match config.socket_listen {
            None => None,
            Some(wanted) => Some(
                SocketServer::start(wanted, workers, &shared)
                    .map_err(|source| SimError::Socket { address: wanted, source })?,
            ),
        };
        let service = Arc::new(SimService::new(shared.clone()));
        let is_secure = server_tls.is_some();
        let secured = server_tls.map(|tls| secured(tls, workers));
        let server = Server::serve_with(bound, Limits::default(), workers, service, secured);
        Ok(Self { shared, server, sockets, is_secure })
    }

    pub const fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// The address of the web sockets, if there is one.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        self.sockets.as_ref().map(SocketServer::local_addr)
    }

    /// The base URL of a DFSP; its callback endpoints are below it.
    pub fn base_url(&self, dfsp: &FspId) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}/{dfsp}", self.local_addr())
    }

    pub fn names(&self) -> impl Iterator<Item = FspId> {
        self.shared.dfsps.iter().map(|dfsp| dfsp.name)
    }

    /// Changes the behaviour of a DFSP. Returns false if no DFSP has that index. Fails, without any change, if a
    /// setting is out of range.
    pub fn set_settings(&self, index: usize, settings: DfspSettings) -> Result<bool, SettingsError> {
        settings.validate()?;
        let dfsp = self.shared.dfsps.get(index);
        Ok(dfsp.map(|dfsp| dfsp.set_settings(settings)).is_some())
    }

    pub fn reports(&self) -> Vec<DfspReport> {
        self.shared.dfsps.iter().map(Dfsp::report).collect()
    }

    /// The sum of the counters of all DFSPs.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.shared.dfsps.iter().for_each(|dfsp| sum += dfsp.counters.snapshot());
        sum
    }

    /// The hub's positions that follow from the DFSPs' own books, per DFSP and currency.
    pub fn expected_positions(&self) -> BTreeMap<FspId, BTreeMap<Currency, ExpectedPosition>> {
        self.shared.dfsps.iter().map(|dfsp| (dfsp.name, dfsp.book().expected())).collect()
    }

    /// Starts another round, unless a request or answer that started before the current round is still being repeated.
    /// Returns whether it did. Messages in progress then started at most one round ago.
    pub fn next_round(&self) -> bool {
        self.shared.rounds.next()
    }

    /// Number of transfers and FX transfers of a currency that their payers and initiators know to be committed.
    pub fn committed_in(&self, currency: Currency) -> u64 {
        self.shared.dfsps.iter().map(|dfsp| dfsp.book().committed_in(currency)).sum()
    }

    /// Number of transfers and FX transfers in each state, by the books of all DFSPs.
    pub fn transfer_counts(&self) -> TransferCounts {
        let mut counts = TransferCounts::default();
        for dfsp in &self.shared.dfsps {
            let book = dfsp.book();
            counts.sent += book.outgoing_count(OutgoingState::Sent);
            counts.accepted += book.outgoing_count(OutgoingState::Accepted);
            counts.committed += book.outgoing_count(OutgoingState::Committed);
            counts.aborted += book.outgoing_count(OutgoingState::Aborted);
            counts.incoming_open += book.incoming_count(IncomingState::Answered);
            counts.incoming_open += book.incoming_count(IncomingState::AwaitingPatch);
            counts.incoming_committed += book.incoming_count(IncomingState::Committed);
            counts.incoming_committed += book.incoming_count(IncomingState::Confirmed);
            counts.sales_open += book.sales_open();
        }
        counts
    }

    /// Transfers that the hub accepted and never finished, at most `count_max` of them.
    pub fn accepted_without_outcome(&self, count_max: usize) -> Vec<TransferId> {
        self.shared.table.accepted_without_outcome(count_max)
    }

    /// Number of messages that were not shown to the watcher because the channel was full.
    pub fn not_shown(&self) -> u64 {
        self.shared.watch.not_shown()
    }

    /// Stops accepting, and waits for requests in progress until the deadline. Returns the number of connections still
    /// open then.
    pub async fn shutdown(&self, deadline: tokio::time::Instant) -> usize {
        if let Some(sockets) = &self.sockets {
            sockets.stop();
        }
        self.server.shutdown(deadline).await
    }

    pub(crate) const fn shared(&self) -> &Arc<SimulatorState> {
        &self.shared
    }
}

/// TLS of a port; handshakes run on the last worker.
pub fn secured(tls: ServerTls, workers: &Workers) -> ServerTlsOptions {
    ServerTlsOptions {
        tls,
        worker: workers.get(workers.count().saturating_sub(1)).clone(),
        handshake_timeout: HANDSHAKE_TIMEOUT,
        handshakes_max: HANDSHAKES_MAX,
        counts: Arc::default(),
    }
}

type ByName = HashMap<String, u32, foldhash::fast::RandomState>;

fn dfsps(config: &SimConfig) -> Result<(Vec<Dfsp>, ByName), SimError> {
    if config.dfsps.is_empty() || config.dfsps.len() > DFSPS_MAX {
        return Err(SimError::Dfsps);
    }
    let mut by_name = ByName::default();
    let mut dfsps = Vec::with_capacity(config.dfsps.len());
    for (index, (name, settings)) in config.dfsps.iter().enumerate() {
        settings.validate().map_err(|source| SimError::Settings { dfsp: *name, source })?;
        if by_name.insert(name.to_string(), index as u32).is_some() {
            return Err(SimError::Dfsps);
        }
        dfsps.push(Dfsp::new(index, *name, *settings));
    }
    Ok((dfsps, by_name))
}

impl Originator {
    /// Prepares to send for the DFSPs of `simulator`.
    pub fn new(simulator: &Simulator, options: OriginatorOptions) -> Self {
        Self::over(simulator.shared().clone(), options)
    }
}
