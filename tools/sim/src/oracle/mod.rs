//! A simulated oracle: an external party directory that hubs ask who owns an identifier, with faults on demand.
//!
//! It offers the interface that hubs of this kind expect: `GET`, `POST`, `PUT` and `DELETE` of
//! `/participants/{Type}/{ID}` and `POST /participants` for batches, below any base path. Owners follow from rules (a
//! prefix of identifiers belongs to a DFSP), so that millions of parties need no memory; what is registered goes before
//! the rules.
//!
//! `GET /_sim/oracle` shows settings and counters, `PUT /_sim/oracle` replaces the settings, `GET /health` answers 200.

mod directory;
mod service;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use clap::Args;
use serde::{Deserialize, Serialize};
use upesi_http::{BindError, Limits, Server, Workers};
use upesi_types::{Currency, FspId};

use crate::dfsp::counters;
use crate::party::{PartyId, prefix_of};
use crate::settings::{DELAY_MS_MAX, PER_MILLE_MAX, SettingsError};
use directory::Directory;
pub use directory::{OracleFull, PARTIES_MAX};
use service::OracleService;

/// All parties whose identifiers begin alike belong to one DFSP. Where several rules have the same prefix, the parties
/// have several owners; of rules with different prefixes the longest that fits counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleRule {
    /// The kind of identifier, such as `MSISDN`.
    pub kind: String,
    /// How the identifiers begin; empty for all.
    pub prefix: String,
    pub fsp: FspId,
    /// The currency of the accounts, where the owner has registered one.
    pub currency: Option<Currency>,
}

#[derive(Clone, Debug)]
pub struct OracleConfig {
    pub listen: SocketAddr,
    /// Who owns what without having been registered.
    pub rules: Vec<OracleRule>,
    pub settings: OracleSettings,
    pub seed: u64,
}

impl OracleConfig {
    /// A well-behaved oracle on any free loopback port that knows the parties of these simulated DFSPs
    /// ([`crate::party_of`]), in the order of the simulator.
    pub fn new(names: impl IntoIterator<Item = FspId>) -> Self {
        let rule = |(index, fsp)| OracleRule {
            kind: "MSISDN".to_owned(),
            prefix: prefix_of(index),
            fsp,
            currency: None,
        };
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            rules: names.into_iter().enumerate().map(rule).collect(),
            settings: OracleSettings::default(),
            seed: 1,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Bind(#[from] BindError),
}

counters! {
    /// What an oracle counted since its start.
    OracleCounters, AtomicOracleCounters {
        /// Requests for the owner of a party.
        lookups,
        /// Of these, the ones whose answer named an owner, right or wrong.
        found,
        /// Parties registered, one by one or in batches.
        registered,
        /// Registrations refused because the party was registered already, or for lack of room.
        registrations_refused,
        changed,
        removed,
        /// Requests that could not be understood.
        unreadable,
        /// Requests spoilt by a fault setting.
        faults,
    }
}

struct Shared {
    directory: Directory,
    counters: AtomicOracleCounters,
    settings: RwLock<OracleSettings>,
    seed: u64,
}

impl Shared {
    fn settings(&self) -> OracleSettings {
        *self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_settings(&self, settings: OracleSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

#[derive(Serialize)]
struct OracleReport {
    settings: OracleSettings,
    counters: OracleCounters,
}

/// A running oracle. Dropping it leaves it running until the workers stop.
pub struct OracleSimulator {
    shared: Arc<Shared>,
    server: Server,
}

impl OracleSimulator {
    /// Binds the port and starts to serve on the workers. Fails when a setting is out of range or the port is taken.
    pub fn start(config: OracleConfig, workers: &Workers) -> Result<Self, OracleError> {
        config.settings.validate()?;
        let bound = Server::bind(config.listen)?;
        let shared = Arc::new(Shared {
            directory: Directory::new(config.rules),
            counters: AtomicOracleCounters::default(),
            settings: RwLock::new(config.settings),
            seed: config.seed,
        });
        let service = Arc::new(OracleService::new(shared.clone()));
        Ok(Self { shared, server: Server::serve(bound, Limits::default(), workers, service) })
    }

    pub const fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// What to register with a hub as the endpoint of this oracle.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.local_addr())
    }

    /// Registers a party directly; false when it has been registered. Fails when there is no more room.
    pub fn register(
        &self,
        party: &PartyId,
        fsp: FspId,
        currency: Option<Currency>,
    ) -> Result<bool, OracleFull> {
        let owner = directory::Owner { fsp, currency, sub_id: party.sub_id.clone() };
        self.shared.directory.register(&format!("{}/{}", party.kind, party.identifier), owner)
    }

    pub fn counters(&self) -> OracleCounters {
        self.shared.counters.snapshot()
    }

    /// Changes its behaviour. Fails when a setting is out of range; then nothing changes.
    pub fn set_settings(&self, settings: OracleSettings) -> Result<(), SettingsError> {
        settings.validate()?;
        self.shared.set_settings(settings);
        Ok(())
    }

    /// Stops accepting and waits for the requests in flight until the deadline; gives the connections still open then.
    pub async fn shutdown(&self, deadline: tokio::time::Instant) -> usize {
        self.server.shutdown(deadline).await
    }
}

/// The behaviour of an oracle, changeable while it runs. The default is a well-behaved one. Rates are in per mille of
/// requests; a request suffers the first fault that hits it, in the order below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "Behaviour of the simulated oracle")]
#[serde(default, deny_unknown_fields)]
pub struct OracleSettings {
    /// Time between a request and its answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u32,
    /// Requests that are never answered, which is to say not within two minutes.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub hang_per_mille: u16,
    /// Requests answered with 404 and no body.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub not_found_per_mille: u16,
    /// Requests answered with 500 and no body.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub server_error_per_mille: u16,
    /// Requests answered with 503 and an error object with code 2003.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub unavailable_per_mille: u16,
    /// Requests answered with 200 and a body that is not JSON.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub garbage_per_mille: u16,
    /// Lookups whose answer names another DFSP beside the owner; none where only one DFSP is known.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub several_owners_per_mille: u16,
    /// Lookups whose answer names a DFSP that does not exist.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub unknown_dfsp_per_mille: u16,
}

impl OracleSettings {
    /// Checks every range. Errors: the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let rates = [
            ("hang_per_mille", self.hang_per_mille),
            ("not_found_per_mille", self.not_found_per_mille),
            ("server_error_per_mille", self.server_error_per_mille),
            ("unavailable_per_mille", self.unavailable_per_mille),
            ("garbage_per_mille", self.garbage_per_mille),
            ("several_owners_per_mille", self.several_owners_per_mille),
            ("unknown_dfsp_per_mille", self.unknown_dfsp_per_mille),
        ];
        if let Some((name, _)) = rates.iter().find(|(_, rate)| *rate > PER_MILLE_MAX) {
            return Err(SettingsError::Rate(name));
        }
        if self.delay_ms > DELAY_MS_MAX {
            return Err(SettingsError::Delay("delay_ms"));
        }
        Ok(())
    }
}
