//! Oracles: they know the DFSP that serves a party.

pub mod external;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use external::ExternalOracle;
use upesi_delivery::relayed::ErrorInformation;
use upesi_fspiop::{PartyIdType, PartyPath};
use upesi_http::Bytes;
use upesi_parties::builtin::{BuiltInDirectory, RegisterError};
use upesi_parties::party::{Entry, Owner};
use upesi_parties::registry::{OracleKind, OracleRegistry};
use upesi_tables::TablesError;
use upesi_types::{Currency, ErrorCode, FspId};

use crate::{DirectoryMetrics, OracleConfig};

/// A query or change about one party.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// The party.
    pub party: PartyPath<'a>,
    /// The currency; `None` for any.
    pub currency: Option<Currency>,
    /// The DFSP that sent the request.
    pub requester: FspId,
    /// The header block of its request, which is forwarded to external oracles.
    pub headers: &'a Bytes,
}

/// Parties of one type that a DFSP registers together.
#[derive(Clone, Copy, Debug)]
pub struct BatchInquiry<'a> {
    /// The identifier of the batch.
    pub request_id: &'a str,
    /// The currency; `None` for any.
    pub currency: Option<Currency>,
    /// The parties.
    pub entries: &'a [Entry],
    /// The DFSP that sent the request.
    pub requester: FspId,
    /// The header block of its request.
    pub headers: &'a Bytes,
}

/// An operation of an oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Find the DFSPs that serve a party.
    Find,
    /// Register the DFSP that serves a party.
    Register,
    /// Change the DFSP or the currency.
    Change,
    /// Remove the party.
    Remove,
    /// Register many parties.
    RegisterBatch,
}

impl Operation {
    /// All operations.
    pub(crate) const ALL: [Self; 5] =
        [Self::Find, Self::Register, Self::Change, Self::Remove, Self::RegisterBatch];

    /// Label of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Register => "register",
            Self::Change => "change",
            Self::Remove => "remove",
            Self::RegisterBatch => "register_batch",
        }
    }

    /// The code for an answer with this status that the oracle did not explain. Unless the oracle says so, the sender
    /// of a lookup is not at fault, as with answers of DFSPs.
    const fn code(self, status: u16) -> ErrorCode {
        match (self, status) {
            (Self::Find, 400..=499) => ErrorCode::CLIENT,
            (Self::Find, _) => ErrorCode::DESTINATION_COMMUNICATION,
            (Self::Register | Self::Change | Self::RegisterBatch, _) => ErrorCode::ADD_PARTY_INFORMATION,
            (Self::Remove, _) => ErrorCode::DELETE_PARTY_INFORMATION,
        }
    }
}

/// Reason why an oracle did not perform an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OracleFailure {
    /// It returned an error.
    #[error("{error}")]
    Told {
        /// The error.
        error: ErrorInformation,
        /// Whether it reported that there is no such party (404).
        is_not_found: bool,
    },
    /// It answered with another status than success, without an error.
    #[error("it answered {status}")]
    Refused {
        /// The status.
        status: u16,
    },
    /// It did not answer: it could not be reached, was too slow, or failed.
    #[error("{reason}")]
    Unusable {
        /// Description for operators.
        reason: String,
        /// Description for DFSPs, without internals of the network.
        detail: &'static str,
    },
    /// Its status is a success, but its body is invalid, incomplete or too large.
    #[error("its answer is not understood: {reason}")]
    NotUnderstood {
        /// Description for operators.
        reason: String,
    },
    /// The maximum number of requests to it is in progress; nothing was sent.
    #[error("too many questions are on their way to it")]
    Busy,
}

impl OracleFailure {
    /// The error for the DFSP: the oracle's own error if it returned one. For a lookup of an unknown party: 3200. If
    /// the oracle rejected the request: 3000, 3003 or 3040. Without an answer, or without a usable one to a lookup,
    /// such as a redirection, which the hub does not follow: 1001. If a registration's answer is not understood: 3003.
    /// If the oracle was not called: 2005.
    pub fn to_error(&self, operation: Operation) -> ErrorInformation {
        match self {
            Self::Told { error, .. } => error.clone(),
            Self::Refused { status: 404 } if operation == Operation::Find => {
                ErrorInformation::new(ErrorCode::ID_NOT_FOUND, "The oracle answered 404")
            }
            Self::Refused { status } => {
                let detail = format!("The oracle answered {status}");
                ErrorInformation::new(operation.code(*status), &detail)
            }
            Self::Unusable { detail, .. } => {
                ErrorInformation::new(ErrorCode::DESTINATION_COMMUNICATION, detail)
            }
            // For a registration, such an answer does not name the entries, so they are reported as not registered.
            Self::NotUnderstood { .. } => {
                ErrorInformation::new(operation.code(200), "The oracle's answer is not understood")
            }
            Self::Busy => {
                ErrorInformation::new(ErrorCode::SERVER_BUSY, "Too many requests for the same oracle")
            }
        }
    }

    /// All results of [`Self::outcome`].
    pub(crate) const OUTCOMES: [&'static str; 4] = ["not_found", "refused", "failed", "busy"];

    /// Label of metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Told { is_not_found: true, .. } | Self::Refused { status: 404 } => "not_found",
            Self::Told { .. } | Self::Refused { .. } => "refused",
            Self::Unusable { .. } | Self::NotUnderstood { .. } => "failed",
            Self::Busy => "busy",
        }
    }
}

/// A call to an oracle.
pub type OracleFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OracleFailure>> + Send + 'a>>;

/// The outcome of each entry of a batch, in their order.
pub type BatchOutcome = Vec<Result<(), ErrorInformation>>;

/// Knows the DFSP that serves a party. Calls are limited in time and in number.
pub trait Oracle: Send + Sync + 'static {
    /// Whether the hub itself stores registrations: a registration is then made before it is acknowledged, and durable
    /// when its future resolves.
    fn is_kept_by_hub(&self) -> bool;

    /// Whether another node of the cluster stores them by now: then a rejected registration is certainly not stored.
    fn has_moved(&self) -> bool {
        false
    }

    /// The owners of a party: one entry for each sub id and currency that matches; the oracle may return further sub
    /// ids. Without a currency the oldest registration comes first, if the oracle knows the order. Empty: no owner.
    fn find<'a>(&'a self, inquiry: &'a Inquiry<'a>) -> OracleFuture<'a, Vec<Owner>>;

    /// Registers `owner` as the DFSP that serves a party.
    fn register<'a>(&'a self, inquiry: &'a Inquiry<'a>, owner: FspId) -> OracleFuture<'a, ()>;

    /// Changes the DFSP that serves a party, or the currency.
    fn change<'a>(&'a self, inquiry: &'a Inquiry<'a>, owner: FspId) -> OracleFuture<'a, ()>;

    /// Removes a party.
    fn remove<'a>(&'a self, inquiry: &'a Inquiry<'a>) -> OracleFuture<'a, ()>;

    /// Registers many parties.
    fn register_batch<'a>(&'a self, batch: &'a BatchInquiry<'a>) -> OracleFuture<'a, BatchOutcome>;
}

/// Selects the oracle for a request.
pub trait OracleSource: Send + Sync + 'static {
    /// The current oracle for a type and currency; `None` if there is none.
    fn oracle(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<Arc<dyn Oracle>>;

    /// Drops the cached answers of oracles.
    fn clear_caches(&self);
}

// The built-in directory as an oracle.

/// Answers from the hub's store.
#[derive(Clone, Debug)]
pub struct BuiltInOracle(BuiltInDirectory);

impl BuiltInOracle {
    /// The oracle of this directory.
    pub const fn new(directory: BuiltInDirectory) -> Self {
        Self(directory)
    }
}

impl From<RegisterError> for OracleFailure {
    fn from(error: RegisterError) -> Self {
        Self::Told { error: told(&error), is_not_found: matches!(error, RegisterError::NotRegistered) }
    }
}

fn told(error: &RegisterError) -> ErrorInformation {
    match error {
        RegisterError::Store(TablesError::NotLeading { .. }) => {
            ErrorInformation::new(error.code(), "Another node of the hub takes over")
        }
        RegisterError::Store(failed) => {
            tracing::error!(error = %failed, "cannot change the built-in directory");
            ErrorInformation::new(error.code(), "The directory cannot be changed now")
        }
        error => ErrorInformation::new(error.code(), &error.to_string()),
    }
}

impl Oracle for BuiltInOracle {
    fn is_kept_by_hub(&self) -> bool {
        true
    }

    fn has_moved(&self) -> bool {
        self.0.store().is_superseded()
    }

    fn find<'a>(&'a self, inquiry: &'a Inquiry<'a>) -> OracleFuture<'a, Vec<Owner>> {
        let found = self.0.find_oldest_first(inquiry.party.kind, &inquiry.party.id_text());
        let found = found.map(|owners| in_currency(owners, inquiry.currency));
        Box::pin(std::future::ready(found.map_err(|error| {
            tracing::error!(%error, "cannot read the built-in directory");
            let error = ErrorInformation::new(error.code(), "The directory cannot be read now");
            OracleFailure::Told { error, is_not_found: false }
        })))
    }

    fn register<'a>(&'a self, inquiry: &'a Inquiry<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move { Ok(self.0.register(&entry(inquiry, owner)).await?) })
    }

    fn change<'a>(&'a self, inquiry: &'a Inquiry<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move { Ok(self.0.change(&entry(inquiry, owner), Some(&inquiry.requester)).await?) })
    }

    fn remove<'a>(&'a self, inquiry: &'a Inquiry<'a>) -> OracleFuture<'a, ()> {
        Box::pin(async move {
            let Inquiry { party, currency, requester, .. } = inquiry;
            let (id, sub_id) = (party.id_text(), party.sub_id_text());
            self.0.remove(party.kind, &id, sub_id.as_deref(), *currency, Some(requester)).await?;
            Ok(())
        })
    }

    fn register_batch<'a>(&'a self, batch: &'a BatchInquiry<'a>) -> OracleFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let outcomes = self.0.register_batch(batch.entries.to_vec()).await?;
            Ok(outcomes.into_iter().map(|outcome| outcome.map_err(|error| told(&error))).collect())
        })
    }
}

fn entry(inquiry: &Inquiry<'_>, fsp: FspId) -> Entry {
    let Inquiry { party, currency, .. } = inquiry;
    Entry {
        kind: party.kind,
        id: party.id_text().into(),
        sub_id: party.sub_id_text().map(Into::into),
        currency: *currency,
        fsp,
    }
}

/// The owners in a currency: for each sub id, the owner registered for this currency by name, otherwise the owner for
/// any currency. Without a currency all owners, in the given order.
fn in_currency(mut owners: Vec<Owner>, currency: Option<Currency>) -> Vec<Owner> {
    let Some(currency) = currency else { return owners };
    owners.retain(|owner| owner.currency.is_none_or(|of| of == currency));
    owners.sort_by(|one, other| (&one.sub_id, one.currency).cmp(&(&other.sub_id, other.currency)));
    // Ordered by sub id, owners for any currency first; such an owner is dropped if another one for the same sub id
    // follows.
    let mut fitting: Vec<Owner> = Vec::with_capacity(owners.len());
    for owner in owners {
        match fitting.last_mut() {
            Some(last) if last.sub_id == owner.sub_id => *last = owner,
            _ => fitting.push(owner),
        }
    }
    fitting
}

// The oracles that operators registered, and the built-in directory.

/// Finds oracles in the registry. An external oracle keeps its connections, breaker and cache while it is active with
/// the same address, and its metrics until it is deleted.
pub struct RegisteredOracles {
    registry: OracleRegistry,
    built_in: Arc<dyn Oracle>,
    config: OracleConfig,
    metrics: DirectoryMetrics,
    /// External oracles that were used, by number; at most as many as are active.
    external: Arc<Mutex<Asked>>,
}

/// External oracles by number.
type Asked = HashMap<u32, Arc<ExternalOracle>>;

impl RegisteredOracles {
    /// Uses this registry; `built_in` answers if the registry selects it.
    pub fn new(
        registry: OracleRegistry,
        built_in: Arc<dyn Oracle>,
        config: OracleConfig,
        metrics: DirectoryMetrics,
    ) -> Self {
        let external = Arc::<Mutex<Asked>>::default();
        let asked = Arc::downgrade(&external);
        registry.watch(move |oracles| {
            let Some(asked) = asked.upgrade() else { return };
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.retain(|id, oracle| {
                let is_active = oracles.get(*id).is_some();
                if !is_active {
                    oracle.end_series();
                }
                is_active
            });
        });
        Self { registry, built_in, config, metrics, external }
    }

    fn external(&self, id: u32, url: &str) -> Arc<ExternalOracle> {
        let mut external = self.lock();
        if let Some(oracle) = external.get(&id).filter(|oracle| oracle.base() == url) {
            return oracle.clone();
        }
        let oracle = ExternalOracle::new(id.to_string(), url, self.config.clone(), self.metrics.clone());
        let oracle = Arc::new(oracle);
        // An oracle that was just deleted is used once more but not stored.
        if self.registry.oracles().get(id).is_some() {
            external.insert(id, oracle.clone());
        }
        oracle
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OracleSource for RegisteredOracles {
    fn oracle(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<Arc<dyn Oracle>> {
        let oracles = self.registry.oracles();
        Some(match oracles.select(kind, currency)? {
            OracleKind::BuiltIn => self.built_in.clone(),
            OracleKind::External(oracle) => self.external(oracle.id, &oracle.spec.url),
        })
    }

    fn clear_caches(&self) {
        let external: Vec<_> = self.lock().values().cloned().collect();
        for oracle in external {
            oracle.clear_cache();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dfsp_is_told_by_what_the_oracle_did() {
        use Operation::{Change, Find, Register, RegisterBatch, Remove};
        let told = ErrorInformation::new(ErrorCode::PAYEE_BLOCKED, "x");
        let told = OracleFailure::Told { error: told, is_not_found: true };
        let not_understood = OracleFailure::NotUnderstood { reason: "10.0.0.7 said x".into() };
        let unusable = OracleFailure::Unusable { reason: "10.0.0.7 hung up".into(), detail: "Network error" };
        for (failure, operations, code) in [
            (told, &[Find, Register, Change, Remove, RegisterBatch][..], 5400),
            (OracleFailure::Refused { status: 404 }, &[Find], 3200),
            (OracleFailure::Refused { status: 400 }, &[Find], 3000),
            (OracleFailure::Refused { status: 302 }, &[Find], 1001),
            (OracleFailure::Refused { status: 302 }, &[Register, Change, RegisterBatch], 3003),
            (OracleFailure::Refused { status: 200 }, &[Register, Change, RegisterBatch], 3003),
            (OracleFailure::Refused { status: 404 }, &[Register, Change, RegisterBatch], 3003),
            (OracleFailure::Refused { status: 404 }, &[Remove], 3040),
            (unusable, &[Find, Register, Change, Remove, RegisterBatch], 1001),
            (not_understood.clone(), &[Find], 1001),
            (not_understood, &[RegisterBatch], 3003),
            (OracleFailure::Busy, &[Find, Register, Change, Remove, RegisterBatch], 2005),
        ] {
            for operation in operations {
                let error = failure.to_error(*operation);
                assert_eq!(error.code.number(), code, "{failure} {operation:?}");
                assert!(!error.description.contains("10.0.0.7"));
            }
        }
    }

    #[test]
    fn a_currency_prefers_who_is_registered_for_it() {
        let owner = |fsp: &str, currency: &str, sub_id: &str| Owner {
            fsp: FspId::parse(fsp).unwrap(),
            currency: Currency::parse(currency),
            sub_id: (!sub_id.is_empty()).then(|| sub_id.into()),
        };
        let owners = vec![
            owner("any", "", ""),
            owner("kes", "KES", ""),
            owner("usd", "USD", ""),
            owner("shop-any", "", "shop"),
            owner("till-kes", "KES", "till"),
        ];
        let names = |currency| {
            let found = in_currency(owners.clone(), Currency::parse(currency));
            found.into_iter().map(|owner| owner.fsp.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("USD"), ["usd", "shop-any"]);
        assert_eq!(names("KES"), ["kes", "shop-any", "till-kes"]);
        assert_eq!(names("EUR"), ["any", "shop-any"]);
        assert_eq!(names("").len(), 5);
    }
}
