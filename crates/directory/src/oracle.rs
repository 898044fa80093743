//! Oracles: they know which DFSP serves a party.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use upesi_delivery::relayed::ErrorInformation;
use upesi_fspiop::{PartyIdType, PartyPath};
use upesi_http::Bytes;
use upesi_types::{Currency, ErrorCode, FspId};

use upesi_parties::party::{Entry, Owner};

mod builtin;
pub mod external;
mod registered;

pub use builtin::BuiltInOracle;
pub use external::ExternalOracle;
pub use registered::RegisteredOracles;

/// What an oracle is asked about one party.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// Which party.
    pub party: PartyPath<'a>,
    /// In which currency; `None`: in any.
    pub currency: Option<Currency>,
    /// The DFSP that asks.
    pub requester: FspId,
    /// The header block of its request, which external oracles get.
    pub headers: &'a Bytes,
}

/// Parties of one type that a DFSP registers together.
#[derive(Clone, Copy, Debug)]
pub struct BatchInquiry<'a> {
    /// The identifier of the batch.
    pub request_id: &'a str,
    /// In which currency; `None`: in any.
    pub currency: Option<Currency>,
    /// The parties.
    pub entries: &'a [Entry],
    /// The DFSP that asks.
    pub requester: FspId,
    /// The header block of its request.
    pub headers: &'a Bytes,
}

/// What an oracle is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Say who serves a party.
    Find,
    /// Note who serves a party.
    Register,
    /// Note that somebody else serves it, or in another currency.
    Change,
    /// Forget it.
    Remove,
    /// Note who serves many parties.
    RegisterBatch,
}

impl Operation {
    /// Every one.
    pub(crate) const ALL: [Self; 5] =
        [Self::Find, Self::Register, Self::Change, Self::Remove, Self::RegisterBatch];

    /// For metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Register => "register",
            Self::Change => "change",
            Self::Remove => "remove",
            Self::RegisterBatch => "register_batch",
        }
    }

    /// The code of an answer with this status that the oracle did not explain. Whoever looks a party up did nothing
    /// wrong where the oracle does not say so, as with answers of DFSPs.
    const fn code(self, status: u16) -> ErrorCode {
        match (self, status) {
            (Self::Find, 400..=499) => ErrorCode::CLIENT,
            (Self::Find, _) => ErrorCode::DESTINATION_COMMUNICATION,
            (Self::Register | Self::Change | Self::RegisterBatch, _) => ErrorCode::ADD_PARTY_INFORMATION,
            (Self::Remove, _) => ErrorCode::DELETE_PARTY_INFORMATION,
        }
    }
}

/// Why an oracle did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OracleFailure {
    /// It said why.
    #[error("{error}")]
    Told {
        /// What it said.
        error: ErrorInformation,
        /// Whether it said that there is no such party (404).
        is_not_found: bool,
    },
    /// It answered with a status that is no success and did not say why.
    #[error("it answered {status}")]
    Refused {
        /// The status.
        status: u16,
    },
    /// It gave no answer that can be used: it could not be reached, or not in time, or failed, or what it said is not
    /// what oracles say.
    #[error("{reason}")]
    Unusable {
        /// What went wrong, for operators.
        reason: String,
        /// What went wrong, for DFSPs: nothing of the network's inside.
        detail: &'static str,
    },
    /// As many questions as are allowed are on their way to it; nothing was asked.
    #[error("too many questions are on their way to it")]
    Busy,
}

impl OracleFailure {
    /// What the DFSP is told: the oracle's own error where it gave one; for a lookup 3200 where there is no such party;
    /// 3000, 3003 or 3040 where the oracle refused; 1001 where it gave no usable answer, such as a lookup's
    /// redirection, which is not followed; 2005 where it was not asked.
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
            Self::Busy => {
                ErrorInformation::new(ErrorCode::SERVER_BUSY, "Too many requests for the same oracle")
            }
        }
    }

    /// All that [`Self::outcome`] gives.
    pub(crate) const OUTCOMES: [&'static str; 4] = ["not_found", "refused", "failed", "busy"];

    /// For metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Told { is_not_found: true, .. } | Self::Refused { status: 404 } => "not_found",
            Self::Told { .. } | Self::Refused { .. } => "refused",
            Self::Unusable { .. } => "failed",
            Self::Busy => "busy",
        }
    }
}

/// What asking an oracle gives.
pub type OracleFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OracleFailure>> + Send + 'a>>;

/// What became of each entry of a batch, in their order.
pub type BatchOutcome = Vec<Result<(), ErrorInformation>>;

/// Knows which DFSP serves a party. Bounded in time and in number of questions at a time.
pub trait Oracle: Send + Sync + 'static {
    /// Whether the hub itself keeps what is registered: a registration is then made before it is acknowledged, and
    /// durable when its future resolves.
    fn is_kept_by_hub(&self) -> bool;

    /// Whether another node of the cluster keeps it by now: what was refused is known to be registered nowhere.
    fn has_moved(&self) -> bool {
        false
    }

    /// Who serves a party: one entry for each sub id and currency that fits; the oracle may give further sub ids.
    /// Empty: nobody.
    fn find<'a>(&'a self, inquiry: &'a Inquiry<'a>) -> OracleFuture<'a, Vec<Owner>>;

    /// Notes that `owner` serves a party.
    fn register<'a>(&'a self, inquiry: &'a Inquiry<'a>, owner: FspId) -> OracleFuture<'a, ()>;

    /// Notes that another DFSP serves a party, or in another currency.
    fn change<'a>(&'a self, inquiry: &'a Inquiry<'a>, owner: FspId) -> OracleFuture<'a, ()>;

    /// Forgets who serves a party.
    fn remove<'a>(&'a self, inquiry: &'a Inquiry<'a>) -> OracleFuture<'a, ()>;

    /// Notes who serves many parties.
    fn register_batch<'a>(&'a self, batch: &'a BatchInquiry<'a>) -> OracleFuture<'a, BatchOutcome>;
}

/// Says which oracle is asked.
pub trait OracleSource: Send + Sync + 'static {
    /// The oracle of a type and currency of this moment; `None`: there is none.
    fn oracle(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<Arc<dyn Oracle>>;

    /// Forgets what oracles answered.
    fn clear_caches(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dfsp_is_told_by_what_the_oracle_did() {
        use Operation::{Change, Find, Register, RegisterBatch, Remove};
        let told = ErrorInformation::new(ErrorCode::PAYEE_BLOCKED, "x");
        let told = OracleFailure::Told { error: told, is_not_found: true };
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
