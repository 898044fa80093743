//! A simulated oracle: an external party directory that hubs query for the owner of an identifier, with faults on
//! demand.
//!
//! The oracle has the interface that Mojaloop hubs expect: `GET`, `POST`, `PUT` and `DELETE` of
//! `/participants/{Type}/{ID}` and `POST /participants` for batches, below any base path. Owners follow from rules (a
//! prefix of identifiers belongs to a DFSP), so that millions of parties need no memory. Registrations take precedence
//! over the rules.
//!
//! `GET /_sim/oracle` shows settings and counters, `PUT /_sim/oracle` replaces the settings, `GET /health` answers 200.

mod directory;
mod service;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use clap::Args;
use serde::{Deserialize, Serialize};
use service::OracleService;
use upesi_http::{BindError, Limits, Server, Workers};
use upesi_types::{Currency, FspId};

use self::directory::{Directory, Owner};
pub use self::directory::{OracleFull, PARTIES_MAX};
use crate::counters::counters;
use crate::party::{PartyId, prefix_of};
use crate::settings::{SettingsError, check};

/// A rule: all parties whose identifiers have this prefix belong to one DFSP. If several rules have the same prefix,
/// the parties have several owners. Among rules with different prefixes, the longest matching prefix applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleRule {
    /// The kind of identifier, such as `MSISDN`.
    pub kind: String,
    /// The prefix of the identifiers; empty for all.
    pub prefix: String,
    pub fsp: FspId,
    /// The currency of the accounts, if the owner has registered one.
    pub currency: Option<Currency>,
}

/// The configuration of a simulated oracle.
#[derive(Clone, Debug)]
pub struct OracleConfig {
    pub listen: SocketAddr,
    /// Rules for parties that are not registered.
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

/// An oracle that cannot start or change.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Bind(#[from] BindError),
}

counters! {
    /// The counts of an oracle since its start.
    OracleCounters, AtomicOracleCounters {
        /// Requests for the owner of a party.
        lookups,
        /// Requests whose answer named an owner, right or wrong.
        found,
        /// Parties registered, one by one or in batches.
        registered,
        /// Registrations rejected because the party was registered already, or the oracle was full.
        registrations_refused,
        changed,
        removed,
        /// Requests that could not be parsed.
        unreadable,
        /// Requests that a fault setting affected.
        faults,
    }
}

struct OracleState {
    directory: Directory,
    counters: AtomicOracleCounters,
    settings: RwLock<OracleSettings>,
    seed: u64,
}

impl OracleState {
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

/// A running oracle. If it is dropped, it still runs until the workers stop.
pub struct OracleSimulator {
    shared: Arc<OracleState>,
    server: Server,
}

impl OracleSimulator {
    /// Binds the port and starts to serve on the workers. Fails if a setting is out of range or the port is in use.
    pub fn start(config: OracleConfig, workers: &Workers) -> Result<Self, OracleError> {
        config.settings.validate()?;
        let bound = Server::bind(config.listen)?;
        let shared = Arc::new(OracleState {
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

    /// The URL to register with a hub as the endpoint of this oracle.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.local_addr())
    }

    /// Registers a party directly. Returns false if it is registered already. Fails if the oracle is full.
    pub fn register(
        &self,
        party: &PartyId,
        fsp: FspId,
        currency: Option<Currency>,
    ) -> Result<bool, OracleFull> {
        let owner = Owner { fsp, currency, sub_id: party.sub_id.clone() };
        self.shared.directory.register(&format!("{}/{}", party.kind, party.identifier), owner)
    }

    pub fn counters(&self) -> OracleCounters {
        self.shared.counters.snapshot()
    }

    /// Changes the behaviour. Fails, without any change, if a setting is out of range.
    pub fn set_settings(&self, settings: OracleSettings) -> Result<(), SettingsError> {
        settings.validate()?;
        self.shared.set_settings(settings);
        Ok(())
    }

    /// Stops accepting, and waits for requests in progress until the deadline. Returns the number of connections still
    /// open then.
    pub async fn shutdown(&self, deadline: tokio::time::Instant) -> usize {
        self.server.shutdown(deadline).await
    }
}

/// Behaviour of an oracle, which can be changed while it runs. By default it behaves correctly. Rates are per mille of
/// requests. A request has at most one fault, the first in the order below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "Behaviour of the simulated oracle")]
#[serde(default, deny_unknown_fields)]
pub struct OracleSettings {
    /// Delay between a request and its answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u32,
    /// Requests that are not answered within two minutes, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub hang_per_mille: u16,
    /// Requests answered with 404 and no body, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub not_found_per_mille: u16,
    /// Requests answered with 500 and no body, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub server_error_per_mille: u16,
    /// Requests answered with 503 and an error object with code 2003, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub unavailable_per_mille: u16,
    /// Requests answered with 200 and a body that is not JSON, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub garbage_per_mille: u16,
    /// Lookups whose answer names another DFSP in addition to the owner, per mille; none if only one DFSP is known.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub several_owners_per_mille: u16,
    /// Lookups whose answer names a DFSP that does not exist, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub unknown_dfsp_per_mille: u16,
}

impl OracleSettings {
    /// Checks every range. Fails with the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let rates = &[
            ("hang_per_mille", self.hang_per_mille),
            ("not_found_per_mille", self.not_found_per_mille),
            ("server_error_per_mille", self.server_error_per_mille),
            ("unavailable_per_mille", self.unavailable_per_mille),
            ("garbage_per_mille", self.garbage_per_mille),
            ("several_owners_per_mille", self.several_owners_per_mille),
            ("unknown_dfsp_per_mille", self.unknown_dfsp_per_mille),
        ];
        check(rates, &[("delay_ms", self.delay_ms)])
    }
}
