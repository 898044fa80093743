//! The registry of oracles: selects the oracle for a type and currency.
//!
//! # What operators can rely on
//! - An oracle is registered for a party identifier type, with a currency or without. Without one it answers for every
//!   currency that has no oracle of its own.
//! - For each type and currency (or no currency) there is at most one active oracle. A second one is rejected, because
//!   two sources for the owner of a number would be dangerous for a scheme. To move an oracle, change the address of
//!   the existing one.
//! - A lookup with a currency uses the oracle of type and currency, otherwise the one of the type without currency. A
//!   lookup without a currency uses an oracle of the type: one marked as default before others, then the one without
//!   currency, then the oldest.
//! - If no external oracle matches, the built-in directory answers if it is enabled. So registering an oracle for a
//!   type replaces the built-in directory for that type immediately, and deleting the oracle restores it. Entries of
//!   the built-in directory are retained meanwhile, but not used.
//! - A deleted oracle is retained, marked as deleted, and never used; its type and currency are free again.
//! - Every change is durable before it is answered and applies to the next lookup: nothing is cached.

mod error;
mod oracles;
mod stored;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use upesi_http::{Schemes, Target, check_address};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table};
use upesi_types::{Currency, Timestamp};

pub use self::error::OracleError;
pub use self::oracles::{Oracle, OracleKind, Oracles};
use self::stored::{decode_oracle, encode_oracle, oracle_key};
use crate::party::PartyIdType;

/// Maximum number of active oracles. All of them are in memory, and every lookup searches them.
pub const ORACLES_MAX: usize = 256;
/// Maximum length of an oracle's address, in characters.
pub const URL_CHARS_MAX: usize = 512;

pub(crate) const TABLE: &str = "oracles";
/// Number of records per read when the registry is opened.
const PAGE_RECORDS: usize = 1024;

/// An operator's specification of an oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleSpec {
    /// Type of the identifiers that the oracle knows.
    pub kind: PartyIdType,
    /// Its currency; `None`: all currencies without an oracle of their own.
    pub currency: Option<Currency>,
    /// Base of its address, `http://` or `https://`.
    pub url: Box<str>,
    /// Whether it is preferred for lookups without a currency.
    pub is_default: bool,
}

/// Changes of a specification; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OracleChange {
    /// Type of the identifiers that it knows.
    pub kind: Option<PartyIdType>,
    /// Its currency. An oracle with a currency cannot become one without.
    pub currency: Option<Currency>,
    /// Base of its address.
    pub url: Option<Box<str>>,
    /// Whether it is preferred for lookups without a currency.
    pub is_default: Option<bool>,
}

/// The registry. Cheap to clone; all clones share its state.
#[derive(Clone, Debug)]
pub struct OracleRegistry {
    store: Store,
    table: Table,
    views: Arc<Views>,
    schemes: Schemes,
}

/// The same oracles at two moments.
#[derive(Debug)]
struct Views {
    /// With every change that was decided; used only by the store's writer.
    decided: Mutex<Oracles>,
    /// With every durable change.
    durable: RwLock<Arc<Oracles>>,
    /// Called for every durable change.
    watchers: Mutex<Vec<Watcher>>,
}

/// A callback for changes; must be quick.
struct Watcher(Box<dyn Fn(&Oracles) + Send + Sync>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

impl OracleRegistry {
    /// Opens the registry in a store. `builtin_enabled`: whether the built-in directory answers if no oracle matches;
    /// `schemes`: the rule for addresses that are registered from now on.
    pub fn open(store: &Store, builtin_enabled: bool, schemes: Schemes) -> Result<Self, TablesError> {
        let table = store.table(TABLE)?;
        let mut oracles = Oracles::new([], builtin_enabled);
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = table.scan(&[], after.as_deref(), PAGE_RECORDS)?;
            for (key, value) in &page {
                oracles.set(decode_oracle(key, value).ok_or_else(|| TablesError::content("an oracle"))?);
            }
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => break,
            }
        }
        let durable = RwLock::new(Arc::new(oracles.clone()));
        let views = Arc::new(Views { decided: Mutex::new(oracles), durable, watchers: Mutex::default() });
        Ok(Self { store: store.clone(), table, views, schemes })
    }

    /// The current oracles. Do not keep the result longer than a request.
    pub fn oracles(&self) -> Arc<Oracles> {
        Arc::clone(&self.views.durable.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls a function after every later change, on the store's thread: it must be quick.
    pub fn watch(&self, told: impl Fn(&Oracles) + Send + Sync + 'static) {
        let watcher = Watcher(Box::new(told));
        self.views.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(watcher);
    }

    /// Registers an oracle and returns its number.
    pub async fn create(&self, spec: OracleSpec, now: Timestamp) -> Result<u32, OracleError> {
        let schemes = self.schemes.clone();
        let oracle = self.change(move |oracles| {
            if oracles.count() == ORACLES_MAX {
                return Err(OracleError::TooMany);
            }
            check(oracles, None, &spec, &schemes)?;
            Ok(Oracle { id: oracles.next_id(), spec, created_at: now, is_active: true })
        });
        Ok(oracle.await?.id)
    }

    /// Changes an active oracle. Missing fields remain unchanged.
    pub async fn update(&self, id: u32, change: OracleChange) -> Result<(), OracleError> {
        let schemes = self.schemes.clone();
        let oracle = self.change(move |oracles| {
            let before = oracles.get(id).ok_or(OracleError::NotFound { id })?;
            let spec = change.applied_to(&before.spec);
            check(oracles, Some(id), &spec, &schemes)?;
            Ok(Oracle { spec, ..before.clone() })
        });
        oracle.await.map(drop)
    }

    /// Deletes an active oracle: its record is retained, but the oracle is not used again.
    pub async fn delete(&self, id: u32) -> Result<(), OracleError> {
        let oracle = self.change(move |oracles| {
            let before = oracles.get(id).ok_or(OracleError::NotFound { id })?;
            Ok(Oracle { is_active: false, ..before.clone() })
        });
        oracle.await.map(drop)
    }

    /// Decides a change after all earlier changes, stores it, and shows it to lookups once it is durable.
    async fn change(
        &self,
        decide: impl FnOnce(&Oracles) -> Result<Oracle, OracleError> + Send + 'static,
    ) -> Result<Oracle, OracleError> {
        let (table, views) = (self.table.clone(), Arc::clone(&self.views));
        let changed = self.store.update(move |transaction| {
            let mut decided = views.decided.lock().unwrap_or_else(PoisonError::into_inner);
            let oracle = match decide(&decided) {
                Ok(oracle) => oracle,
                Err(refusal) => return Ok(Err(refusal)),
            };
            transaction.put(&table, &oracle_key(oracle.id), &encode_oracle(&oracle))?;
            decided.set(oracle.clone());
            let (now, views) = (Arc::new(decided.clone()), Arc::clone(&views));
            transaction.once_durable(move || {
                *views.durable.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&now);
                for watcher in &*views.watchers.lock().unwrap_or_else(PoisonError::into_inner) {
                    (watcher.0)(&now);
                }
            });
            Ok(Ok(oracle))
        });
        changed.await?
    }
}

impl OracleChange {
    /// The specification after this change.
    pub fn applied_to(self, before: &OracleSpec) -> OracleSpec {
        OracleSpec {
            kind: self.kind.unwrap_or(before.kind),
            currency: self.currency.or(before.currency),
            url: self.url.unwrap_or_else(|| before.url.clone()),
            is_default: self.is_default.unwrap_or(before.is_default),
        }
    }
}

/// Checks an oracle against the others. It is not a duplicate of itself.
fn check(
    oracles: &Oracles,
    itself: Option<u32>,
    spec: &OracleSpec,
    schemes: &Schemes,
) -> Result<(), OracleError> {
    check_url(&spec.url, schemes)?;
    let mut others = oracles.iter().filter(|other| Some(other.id) != itself);
    match others.find(|other| (other.spec.kind, other.spec.currency) == (spec.kind, spec.currency)) {
        Some(other) => Err(OracleError::Duplicate { id: other.id, kind: spec.kind, currency: spec.currency }),
        None => Ok(()),
    }
}

/// Checks that an address can be called and that paths can be appended to it. Otherwise, a fault of the address would
/// break every lookup.
fn check_url(text: &str, schemes: &Schemes) -> Result<(), OracleError> {
    let checked = Target::parse(text)
        .and_then(|target| check_address(text).map(|()| target))
        .and_then(|target| schemes.check(text).map(|()| target));
    let reason = match checked {
        _ if text.len() > URL_CHARS_MAX => "must have at most 512 characters",
        _ if text.contains(['?', '{', '}']) => {
            "must have neither query nor placeholders: paths are appended to it"
        }
        Ok(_) if text.bytes().all(|byte| byte.is_ascii_graphic()) => return Ok(()),
        parsed => {
            let demand = parsed.err().and_then(|error| error.demand());
            demand.unwrap_or("is not a URL that can be called; write it as http://host:port")
        }
    };
    Err(OracleError::BadUrl { reason })
}
