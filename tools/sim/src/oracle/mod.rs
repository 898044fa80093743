//! A simulated oracle: an external party directory that hubs query for the owner of an identifier, with faults on
//! demand.
//!
//! It has the interface that Mojaloop hubs expect: `GET`, `POST`, `PUT` and `DELETE` of `/participants/{Type}/{ID}` and
//! `POST /participants` for batches, below any base path. Owners follow from rules (a prefix of identifiers belongs to
//! a DFSP), so that millions of parties need no memory. Registrations take precedence over the rules.
//!
//! `GET /_sim/oracle` shows settings and counters, `PUT /_sim/oracle` replaces the settings, `GET /health` answers 200.

mod service;

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use clap::Args;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use service::OracleService;
use upesi_http::{BindError, Limits, Server, Workers};
use upesi_types::{Currency, FspId};

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

/// A running oracle. If it is dropped, it still runs until the workers stop.
pub struct OracleSimulator {
    shared: Arc<Shared>,
    server: Server,
}

impl OracleSimulator {
    /// Binds the port and starts to serve on the workers. Fails if a setting is out of range or the port is in use.
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

// Owners of parties: registrations, and rules for all other parties.

/// Maximum number of registrations, without rules.
pub const PARTIES_MAX: usize = 10_000_000;
const SHARDS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    pub fsp: FspId,
    pub currency: Option<Currency>,
    pub sub_id: Option<String>,
}

/// The oracle has no space for another registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated oracle holds {PARTIES_MAX} parties, the most it can; use rules for more")]
pub struct OracleFull;

type ByKey = HashMap<String, Vec<Owner>, foldhash::fast::RandomState>;

/// Owners by `Type/Identifier`, not encoded.
struct Directory {
    hasher: foldhash::fast::RandomState,
    /// A party without owners was removed, although rules give it an owner.
    registered: Box<[Mutex<ByKey>]>,
    count: AtomicUsize,
    /// By `Type/Prefix`.
    rules: ByKey,
    /// The lengths of all prefixes, so that the longest is tried first.
    prefix_bytes: BTreeSet<usize>,
    fsps: Vec<FspId>,
}

impl Directory {
    pub fn new(rules: Vec<OracleRule>) -> Self {
        let (mut by_prefix, mut prefix_bytes, mut fsps) =
            (ByKey::default(), BTreeSet::new(), BTreeSet::new());
        for OracleRule { kind, prefix, fsp, currency } in rules {
            prefix_bytes.insert(prefix.len());
            fsps.insert(fsp);
            by_prefix.entry(format!("{kind}/{prefix}")).or_default().push(Owner {
                fsp,
                currency,
                sub_id: None,
            });
        }
        Self {
            hasher: foldhash::fast::RandomState::default(),
            registered: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            rules: by_prefix,
            prefix_bytes,
            fsps: fsps.into_iter().collect(),
        }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, ByKey> {
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.registered[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn by_rule(&self, key: &str) -> &[Owner] {
        let start = key.find('/').map_or(key.len(), |slash| slash + 1);
        let prefixes = self.prefix_bytes.iter().rev().filter_map(|length| key.get(..start + length));
        prefixes.filter_map(|prefix| self.rules.get(prefix)).next().map_or(&[], Vec::as_slice)
    }

    /// Passes the owners of a party to `look`.
    pub fn look_up<R>(&self, key: &str, look: impl FnOnce(&[Owner]) -> R) -> R {
        let shard = self.shard(key);
        match shard.get(key) {
            Some(owners) => look(owners),
            None => {
                drop(shard);
                look(self.by_rule(key))
            }
        }
    }

    /// Adds an owner. Returns false if the party, with that sub-identifier and currency, is registered. Rules do not
    /// prevent this, and no longer apply to this party.
    pub fn register(&self, key: &str, owner: Owner) -> Result<bool, OracleFull> {
        let mut shard = self.shard(key);
        let owners = shard.get(key).map_or(&[][..], Vec::as_slice);
        if owners.iter().any(|one| one.sub_id == owner.sub_id && one.currency == owner.currency) {
            return Ok(false);
        }
        self.make_room()?;
        shard.entry_ref(key).or_default().push(owner);
        Ok(true)
    }

    /// Replaces the owner of the party with that sub-identifier. Returns false if there is none.
    pub fn change(&self, key: &str, owner: Owner) -> Result<bool, OracleFull> {
        let mut shard = self.shard(key);
        if let Some(owners) = shard.get_mut(key) {
            let fits = |one: &&mut Owner| one.sub_id == owner.sub_id && one.currency == owner.currency;
            return Ok(owners.iter_mut().find(fits).map(|one| *one = owner).is_some());
        }
        if self.by_rule(key).is_empty() {
            return Ok(false);
        }
        self.make_room()?;
        shard.insert(key.to_owned(), vec![owner]);
        Ok(true)
    }

    /// Removes the owners of a party: all, or those with that sub-identifier. Returns false if there was none.
    pub fn remove(&self, key: &str, sub_id: Option<&str>) -> Result<bool, OracleFull> {
        let mut shard = self.shard(key);
        let by_rule = !self.by_rule(key).is_empty();
        let Some(owners) = shard.get_mut(key) else {
            if !by_rule || sub_id.is_some() {
                return Ok(false);
            }
            self.make_room()?;
            shard.insert(key.to_owned(), Vec::new());
            return Ok(true);
        };
        let before = owners.len();
        owners.retain(|owner| sub_id.is_some() && owner.sub_id.as_deref() != sub_id);
        let removed = before - owners.len();
        self.count.fetch_sub(removed, Ordering::Relaxed);
        // A party without owners stays if a rule would give it an owner again.
        if owners.is_empty() && !by_rule {
            shard.remove(key);
        }
        Ok(removed > 0)
    }

    fn make_room(&self) -> Result<(), OracleFull> {
        if self.count.fetch_add(1, Ordering::Relaxed) < PARTIES_MAX {
            return Ok(());
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        Err(OracleFull)
    }

    /// A DFSP other than this one.
    pub fn other_than(&self, fsp: &FspId) -> Option<FspId> {
        self.fsps.iter().find(|one| *one != fsp).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fsp(name: &str) -> FspId {
        FspId::parse(name).unwrap()
    }

    fn owner(name: &str, sub_id: Option<&str>) -> Owner {
        Owner { fsp: fsp(name), currency: None, sub_id: sub_id.map(str::to_owned) }
    }

    fn directory() -> Directory {
        let rule = |kind: &str, prefix: &str, name| OracleRule {
            kind: kind.to_owned(),
            prefix: prefix.to_owned(),
            fsp: fsp(name),
            currency: None,
        };
        Directory::new(vec![
            rule("MSISDN", "26", "general"),
            rule("MSISDN", "2601", "special"),
            rule("MSISDN", "27", "one"),
            rule("MSISDN", "27", "two"),
            rule("ALIAS", "", "aliases"),
        ])
    }

    fn names(directory: &Directory, key: &str) -> Vec<String> {
        directory.look_up(key, |owners| owners.iter().map(|owner| owner.fsp.to_string()).collect())
    }

    #[test]
    fn the_longest_prefix_counts() {
        let directory = directory();
        for (key, expected) in [
            ("MSISDN/26097", &["general"][..]),
            ("MSISDN/260197", &["special"]),
            ("MSISDN/2601", &["special"]),
            ("MSISDN/26", &["general"]),
            ("MSISDN/2", &[]),
            ("MSISDN/271", &["one", "two"]),
            ("ALIAS/26", &["aliases"]),
            ("ALIAS/é", &["aliases"]),
            ("EMAIL/26", &[]),
            ("MSISDN", &[]),
        ] {
            assert_eq!(names(&directory, key), expected, "{key}");
        }
        for name in ["one", "two"] {
            assert!(directory.other_than(&fsp(name)).is_some_and(|other| other != fsp(name)));
        }
    }

    #[test]
    fn registrations_go_before_rules_and_can_be_changed_and_removed() {
        let directory = directory();
        let key = "MSISDN/26097";
        assert_eq!(directory.register(key, owner("bluebank", None)), Ok(true));
        assert_eq!(directory.register(key, owner("greenbank", None)), Ok(false));
        assert_eq!(directory.register(key, owner("greenbank", Some("till"))), Ok(true));
        assert_eq!(names(&directory, key), ["bluebank", "greenbank"]);
        assert_eq!(directory.change(key, owner("redbank", Some("till"))), Ok(true));
        assert_eq!(directory.change(key, owner("redbank", Some("shop"))), Ok(false));
        assert_eq!(names(&directory, key), ["bluebank", "redbank"]);
        assert_eq!(directory.remove(key, Some("till")), Ok(true));
        assert_eq!(directory.remove(key, Some("till")), Ok(false));
        assert_eq!(directory.remove(key, None), Ok(true));
        assert_eq!(names(&directory, key), [""; 0]);
        assert_eq!(directory.remove(key, None), Ok(false));
        assert_eq!(directory.register(key, owner("bluebank", None)), Ok(true));
    }

    #[test]
    fn parties_by_rule_can_be_changed_and_removed_too() {
        let directory = directory();
        assert_eq!(directory.remove("MSISDN/271", None), Ok(true));
        assert_eq!(names(&directory, "MSISDN/271"), [""; 0]);
        assert_eq!(directory.change("MSISDN/272", owner("three", None)), Ok(true));
        assert_eq!(names(&directory, "MSISDN/272"), ["three"]);
        for key in ["MSISDN/1", "EMAIL/x"] {
            assert_eq!(directory.change(key, owner("three", None)), Ok(false));
            assert_eq!(directory.remove(key, None), Ok(false));
        }
    }
}
