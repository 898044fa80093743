//! Oracles: they know the DFSP that serves a party.

mod builtin;
pub mod external;
mod registered;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use external::ExternalOracle;
use upesi_delivery::relayed::ErrorInformation;
use upesi_fspiop::{PartyIdType, PartyPath};
use upesi_http::Bytes;
use upesi_parties::party::{DirectoryEntry, Owner};
use upesi_types::{Currency, ErrorCode, FspId};

pub use self::builtin::BuiltInOracle;
pub use self::registered::RegisteredOracles;

/// A query or change about one party.
#[derive(Clone, Copy, Debug)]
pub struct OracleRequest<'a> {
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
    pub request_id: &'a str,
    /// The currency; `None` for any.
    pub currency: Option<Currency>,
    pub entries: &'a [DirectoryEntry],
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
    /// The oracle returned an error.
    #[error("{error}")]
    Told {
        error: ErrorInformation,
        /// Whether the oracle reported that the party does not exist (404).
        is_not_found: bool,
    },
    /// The oracle answered with a status other than success, without an error.
    #[error("it answered {status}")]
    Refused { status: u16 },
    /// The oracle did not answer: it could not be reached, was too slow, or failed.
    #[error("{reason}")]
    Unusable {
        /// Description for operators.
        reason: String,
        /// Description for DFSPs, without internals of the network.
        detail: &'static str,
    },
    /// The oracle answered with success, but the body is invalid, incomplete or too large.
    #[error("its answer is not understood: {reason}")]
    NotUnderstood {
        /// Description for operators.
        reason: String,
    },
    /// The maximum number of requests to the oracle is in progress; nothing was sent.
    #[error("too many requests to it are in progress")]
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
    fn find<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, Vec<Owner>>;

    /// Registers `owner` as the DFSP that serves a party.
    fn register<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()>;

    /// Changes the DFSP that serves a party, or the currency.
    fn change<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()>;

    /// Removes a party.
    fn remove<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, ()>;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_the_dfsp_depends_on_the_oracles_failure() {
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
}
