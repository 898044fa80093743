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

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use upesi_http::{Schemes, Target, check_address};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table};
use upesi_types::{Currency, ErrorCode, Timestamp};

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
    /// Type of the identifiers that it knows.
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

    /// Deletes an active oracle: its record is retained, but it is no longer used.
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

/// Checks that an address is a base to which paths can be appended and that can be called. So the operator learns at
/// once of a fault that would break every lookup.
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

// Errors of the registry of oracles.

/// Reason why a change of the registry was rejected. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OracleError {
    /// Another oracle is active for this type and currency.
    #[error("Oracle {id} is active for {kind}{} already", for_currency(.currency))]
    Duplicate {
        /// Number of the other oracle.
        id: u32,
        /// Its type.
        kind: PartyIdType,
        /// Its currency.
        currency: Option<Currency>,
    },
    /// There is no such active oracle.
    #[error("Oracle not found")]
    NotFound {
        /// The requested number.
        id: u32,
    },
    /// The address cannot be called.
    #[error("The oracle's address {reason}")]
    BadUrl {
        /// Description of the fault.
        reason: &'static str,
    },
    /// The registry is full.
    #[error("There are {} oracles, which is the most; delete one first", ORACLES_MAX)]
    TooMany,
    /// The store failed or was busy.
    #[error(transparent)]
    Store(#[from] TablesError),
}

fn for_currency(currency: &Option<Currency>) -> String {
    currency.map_or_else(|| " without a currency".to_owned(), |currency| format!(" in {currency}"))
}

impl OracleError {
    /// The code of the answer; the error's text is the detail. Errors that the operator can correct are 4xx.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Duplicate { .. } | Self::NotFound { .. } | Self::TooMany => {
                ErrorCode::ADD_PARTY_INFORMATION
            }
            Self::BadUrl { .. } => ErrorCode::MALFORMED_SYNTAX,
            Self::Store(error) => error.code(),
        }
    }
}

// Storage of an oracle: by its number, as readable JSON.

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored<'a> {
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    currency: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    url: std::borrow::Cow<'a, str>,
    is_default: bool,
    created_at_ms: i64,
    is_active: bool,
}

fn oracle_key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

fn encode_oracle(oracle: &Oracle) -> Vec<u8> {
    let stored = Stored {
        kind: oracle.spec.kind.as_str().into(),
        currency: oracle.spec.currency.as_ref().map(|currency| currency.as_str().into()),
        url: (&*oracle.spec.url).into(),
        is_default: oracle.spec.is_default,
        created_at_ms: oracle.created_at.as_ms(),
        is_active: oracle.is_active,
    };
    // Serialization of texts, numbers and flags cannot fail.
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// Decodes an oracle; `None` if [`encode_oracle`] did not create it.
fn decode_oracle(oracle_key: &[u8], value: &[u8]) -> Option<Oracle> {
    let id = u32::from_be_bytes(oracle_key.try_into().ok()?);
    let stored: Stored<'_> = serde_json::from_slice(value).ok()?;
    let currency = match &stored.currency {
        Some(text) => Some(Currency::parse(text)?),
        None => None,
    };
    let spec = OracleSpec {
        kind: PartyIdType::parse(&stored.kind)?,
        currency,
        url: stored.url.into(),
        is_default: stored.is_default,
    };
    let created_at = Timestamp::from_ms(stored.created_at_ms);
    Some(Oracle { id, spec, created_at, is_active: stored.is_active })
}

// The oracles at one moment, and the selection of one.

/// A registered oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oracle {
    /// Its number, assigned at registration and never reused.
    pub id: u32,
    /// The operator's specification.
    pub spec: OracleSpec,
    /// Time of registration.
    pub created_at: Timestamp,
    /// Whether it is used; `false` once deleted.
    pub is_active: bool,
}

/// The source of answers for a type and currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleKind<'a> {
    /// The built-in directory.
    BuiltIn,
    /// An external oracle.
    External(&'a Oracle),
}

/// The active oracles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oracles {
    by_id: BTreeMap<u32, Oracle>,
    next_id: u32,
    builtin_enabled: bool,
}

impl Oracles {
    /// The active ones of all oracles that were ever registered.
    pub fn new(oracles: impl IntoIterator<Item = Oracle>, builtin_enabled: bool) -> Self {
        let mut all = Self { by_id: BTreeMap::new(), next_id: 1, builtin_enabled };
        oracles.into_iter().for_each(|oracle| all.set(oracle));
        all
    }

    /// The source for a party of this type; `None` if there is none, which a lookup answers with 3003.
    pub fn select(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<OracleKind<'_>> {
        let of_kind = self.by_id.values().filter(|oracle| oracle.spec.kind == kind);
        let chosen = match currency {
            Some(_) => of_kind
                .filter(|oracle| oracle.spec.currency.is_none() || oracle.spec.currency == currency)
                .max_by_key(|oracle| oracle.spec.currency.is_some()),
            None => of_kind.max_by_key(|oracle| {
                (oracle.spec.is_default, oracle.spec.currency.is_none(), Reverse(oracle.id))
            }),
        };
        let built_in = self.builtin_enabled.then_some(OracleKind::BuiltIn);
        chosen.map(OracleKind::External).or(built_in)
    }

    /// The active oracles in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Oracle> {
        self.by_id.values()
    }

    /// An active oracle.
    pub fn get(&self, id: u32) -> Option<&Oracle> {
        self.by_id.get(&id)
    }

    /// Number of active oracles.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the built-in directory answers if no oracle matches.
    pub fn builtin_enabled(&self) -> bool {
        self.builtin_enabled
    }

    fn next_id(&self) -> u32 {
        self.next_id
    }

    fn set(&mut self, oracle: Oracle) {
        self.next_id = self.next_id.max(oracle.id.saturating_add(1));
        match oracle.is_active {
            true => drop(self.by_id.insert(oracle.id, oracle)),
            false => drop(self.by_id.remove(&oracle.id)),
        }
    }
}
