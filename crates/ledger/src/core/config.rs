//! Scheme policy that influences decisions. Recorded decisions do not depend on it.

use upesi_types::FspId;

use crate::core::limits::Limits;

/// Scheme-wide settings of the ledger.
#[derive(Clone, Debug)]
pub struct LedgerConfig {
    /// Name of the hub as a participant and in `FSPIOP-Source`.
    pub hub_name: FspId,
    /// Whether payer and payee of a transfer may be the same participant.
    pub on_us_transfers: bool,
    /// Whether a payee that answered COMMITTED, or aborted, receives a confirmation from the hub.
    pub payee_confirmation: bool,
    /// Limit for withdrawals that lower a participant's cover.
    pub funds_out_guard: FundsOutGuard,
    /// The error that the sender of a fulfil or abort for an unknown transfer receives.
    pub unknown_transfer: UnknownTransfer,
    /// Whether fee rules with more decimals than their currency are rejected.
    pub rejects_finer_amounts: bool,
    /// Maximum time from now to the `expiration` of a prepare, in milliseconds.
    pub transfer_validity_max_ms: i64,
    /// Time from the preparation of a withdrawal until it expires, in milliseconds.
    pub internal_transfer_validity_ms: i64,
    /// Time from a proposal until it expires, in milliseconds.
    pub proposal_lifetime_ms: i64,
    /// Maximum numbers of objects in the ledger.
    pub limits: Limits,
    /// Seed of the hash tables, so that clients cannot choose colliding transfer ids.
    pub hash_seed: u64,
}

/// The condition that must hold after a withdrawal is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FundsOutGuard {
    /// The remaining cover is not below the participant's current position.
    Position,
    /// The settlement account stays in credit, whatever the position is (as in Mojaloop).
    SettlementAccount,
}

/// The error for a PUT about an unknown transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownTransfer {
    /// 2001, as Mojaloop answers; its clients may expect it.
    InternalError,
    /// 3208, as in the answer to a GET.
    NotFound,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            hub_name: FspId::parse("Hub").unwrap_or_else(|| unreachable!("a literal name")),
            on_us_transfers: false,
            payee_confirmation: true,
            funds_out_guard: FundsOutGuard::Position,
            unknown_transfer: UnknownTransfer::InternalError,
            rejects_finer_amounts: false,
            transfer_validity_max_ms: i64::MAX,
            internal_transfer_validity_ms: 432_000_000,
            proposal_lifetime_ms: 86_400_000,
            limits: Limits::SHIPPED,
            hash_seed: 0,
        }
    }
}
