//! The registry of oracles: who is asked for the parties of a type and currency.
//!
//! # What an operator may expect
//! - An oracle is registered for a party-id type, with a currency or without one. Without one it answers for every
//!   currency that has no oracle of its own.
//! - For each type and currency (or lack of one) there is one active oracle at most. A second one is refused: two
//!   places that both say who owns a number are a scheme's worst day. To move, change the address of the one that is
//!   there.
//! - A lookup that names a currency asks the oracle of type and currency, else the one of the type without currency. A
//!   lookup that names none asks an oracle of the type: one marked as default before others, then the one without
//!   currency, then the oldest.
//! - Where no external oracle fits, the built-in directory answers if it is enabled. So registering an oracle for a
//!   type takes that type over from the built-in directory at once, and deleting the oracle gives it back. Entries of
//!   the built-in directory stay meanwhile, unasked.
//! - A deleted oracle is kept, marked, and never asked; its place is free again.
//! - Every change is durable before it is answered and holds for the next lookup: nothing is cached.

mod error;
mod record;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use upesi_http::{Schemes, Target, check_address};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table};
use upesi_types::{Currency, Timestamp};

pub use error::OracleError;
pub use snapshot::{Oracle, OracleKind, Oracles};

use crate::party::PartyIdType;

/// Oracles that may be active: all of them are in memory, and looked through at every lookup.
pub const ORACLES_MAX: usize = 256;
/// Longest address of an oracle, in characters.
pub const URL_CHARS_MAX: usize = 512;

const TABLE: &str = "oracles";
/// Records read at once when the registry is opened.
const PAGE_RECORDS: usize = 1024;

/// What an operator says about an oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleSpec {
    /// Whose parties it knows.
    pub kind: PartyIdType,
    /// The currency it is for; `None`: all that have none of their own.
    pub currency: Option<Currency>,
    /// Base of its address, `http://` or `https://`.
    pub url: Box<str>,
    /// Whether it is asked when a lookup names no currency and several would fit.
    pub is_default: bool,
}

/// The part of a specification that an operator changes; `None`: stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OracleChange {
    /// Whose parties it knows.
    pub kind: Option<PartyIdType>,
    /// The currency it is for. One that has a currency keeps having one.
    pub currency: Option<Currency>,
    /// Base of its address.
    pub url: Option<Box<str>>,
    /// Whether it is asked when several would fit.
    pub is_default: Option<bool>,
}

/// The registry. Cheap to clone; all clones are the same one.
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
    /// With every change that was decided; touched by the store's writer only.
    decided: Mutex<Oracles>,
    /// With every change that is durable.
    durable: RwLock<Arc<Oracles>>,
    /// Told of every change that is durable.
    watchers: Mutex<Vec<Watcher>>,
}

/// What is told of changes; must be quick.
struct Watcher(Box<dyn Fn(&Oracles) + Send + Sync>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

impl OracleRegistry {
    /// The registry in a store. `builtin_enabled`: whether the built-in directory answers where no oracle fits;
    /// `schemes`: the rule for addresses that are registered from now on.
    pub fn open(store: &Store, builtin_enabled: bool, schemes: Schemes) -> Result<Self, TablesError> {
        let table = store.table(TABLE)?;
        let mut oracles = Oracles::new([], builtin_enabled);
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = table.scan(&[], after.as_deref(), PAGE_RECORDS)?;
            for (key, value) in &page {
                oracles.set(record::decode(key, value).ok_or_else(|| TablesError::content("an oracle"))?);
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

    /// The oracles as of now; to be kept no longer than a request.
    pub fn oracles(&self) -> Arc<Oracles> {
        Arc::clone(&self.views.durable.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls a function after every change from now on, on the store's thread: it must be quick.
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

    /// Changes an oracle that is active. What is not given stays.
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

    /// Deletes an oracle that is active: it stays on record and is not asked any more.
    pub async fn delete(&self, id: u32) -> Result<(), OracleError> {
        let oracle = self.change(move |oracles| {
            let before = oracles.get(id).ok_or(OracleError::NotFound { id })?;
            Ok(Oracle { is_active: false, ..before.clone() })
        });
        oracle.await.map(drop)
    }

    /// Decides a change after all changes before it, stores it, and shows it to lookups once it is durable.
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
            transaction.put(&table, &record::key(oracle.id), &record::encode(&oracle))?;
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
    /// What becomes of an oracle by it.
    pub fn applied_to(self, before: &OracleSpec) -> OracleSpec {
        OracleSpec {
            kind: self.kind.unwrap_or(before.kind),
            currency: self.currency.or(before.currency),
            url: self.url.unwrap_or_else(|| before.url.clone()),
            is_default: self.is_default.unwrap_or(before.is_default),
        }
    }
}

/// What must hold for an oracle beside the others. An oracle is no duplicate of itself.
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

/// A base that paths are appended to and that can be called, so that whoever registers it hears at once what would fail
/// every lookup later.
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
            demand.unwrap_or("is no URL that can be called; write it as http://host:port")
        }
    };
    Err(OracleError::BadUrl { reason })
}
