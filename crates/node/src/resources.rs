//! The handlers of all resources: transfers, the directory with its oracles, quoting, and the store and the relay that
//! they use.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_admin::{FindQuote, MessageView, QuoteView};
use upesi_delivery::lanes::Courier;
use upesi_delivery::relayed::{Relay, RelayMetrics};
use upesi_directory::oracle::{BuiltInOracle, RegisteredOracles};
use upesi_directory::{Directory, DirectoryMetrics, OnMiss};
use upesi_engine::{Clock, EngineHandle, ResponseTimes, SharedParticipants};
use upesi_gateway::Rates;
use upesi_http::{ClientTls, Outbound, WorkerHandle};
use upesi_parties::builtin::{BuiltInDirectory, BuiltInOptions};
use upesi_parties::registry::OracleRegistry;
use upesi_quoting::{KeptMessage, KeptQuote, Quoting, QuotingMetrics};
use upesi_settings::Settings;
use upesi_tables::store::Store;
use upesi_transfers::Transfers;

use super::error::HubError;
use super::options;

/// The handlers of all resources. Register a new resource here.
pub(super) type Handlers = (Transfers, (Directory, Quoting));

/// The handlers of all requests except those about transfers, with the store and the relay that they use.
pub(super) struct Resources {
    pub(super) store: Store,
    pub(super) built_in: BuiltInDirectory,
    pub(super) oracles: OracleRegistry,
    pub(super) quoting: Quoting,
    pub(super) relay: Relay,
    pub(super) directory: Directory,
}

impl Resources {
    /// Opens the store, unless it is already open, and starts the handlers. The engine has locked the data directory,
    /// which contains the store.
    pub(super) fn start(
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
            None => Store::open(settings.data.dir.join(options::STORE), &options::store(settings))?,
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
        let rules = settings.quotes.rules_file.as_ref().map(|file| file.rules.clone()).unwrap_or_default();
        let quoting = Quoting::new(
            &options::quoting(settings),
            relay.clone(),
            Some(store.clone()),
            rules,
            QuotingMetrics::register(registry),
        )?;
        Ok(Self { store, built_in, oracles, quoting, relay, directory })
    }

    /// The handler of each resource.
    pub(super) fn handlers(&self, engine: EngineHandle) -> Handlers {
        (Transfers::new(engine), (self.directory.clone(), self.quoting.clone()))
    }

    /// Lookup of stored quotes for operators, if quotes are stored.
    pub(super) fn find_quotes(&self) -> Option<FindQuote> {
        let quoting = self.quoting.clone();
        quoting
            .keeps_quotes()
            .then(|| Arc::new(move |id: &str| Ok(quoting.find(id)?.map(quote_view))) as FindQuote)
    }

    /// Starts the timers: deadlines of lookups, retention of quotes.
    pub(super) fn keep(&self, worker: &WorkerHandle) {
        worker.spawn(self.directory.expiry());
        let quoting = self.quoting.clone();
        worker.spawn(async move { quoting.run_retention().await });
    }

    /// Waits until accepted requests are forwarded, or until the deadline; returns the number of remaining requests.
    pub(super) async fn drain(&self, deadline: Instant) -> usize {
        self.relay.drain(deadline).await
    }

    /// Stops the store's writer. Waits for the disk.
    pub(super) fn close(&self) {
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
