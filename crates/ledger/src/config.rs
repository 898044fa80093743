//! Scheme policy that steers decisions. Recorded decisions never depend on it again.

use upesi_types::FspId;

use crate::limits::Limits;

/// Scheme-wide settings of the ledger.
#[derive(Clone, Debug)]
pub struct LedgerConfig {
    /// Name under which the hub itself appears as a participant and as `FSPIOP-Source`.
    pub hub_name: FspId,
    /// Whether payer and payee of a transfer may be the same participant.
    pub on_us_transfers: bool,
    /// Whether a payee that answered COMMITTED, or aborted, gets a courtesy copy from the hub.
    pub payee_confirmation: bool,
    /// How far a withdrawal may lower a participant's cover.
    pub funds_out_guard: FundsOutGuard,
    /// What the sender of a fulfil or abort is told when nobody knows the transfer.
    pub unknown_transfer: UnknownTransfer,
    /// How far ahead the `expiration` of a prepare may lie, in milliseconds.
    pub transfer_validity_max_ms: i64,
    /// How long a prepared withdrawal holds the money before it is given back, in milliseconds.
    pub internal_transfer_validity_ms: i64,
    /// How long a change waits for a second person, in milliseconds.
    pub proposal_lifetime_ms: i64,
    /// How many of each the ledger takes.
    pub limits: Limits,
    /// Seed of the hash tables, so that nobody outside can choose colliding transfer ids.
    pub hash_seed: u64,
}

/// What must still hold after a withdrawal is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FundsOutGuard {
    /// The remaining cover is not below the participant's present position.
    Position,
    /// The settlement account alone stays in credit, whatever the position (as Mojaloop does).
    SettlementAccount,
}

/// The error for a PUT about a transfer that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownTransfer {
    /// 2001, as Mojaloop says and its clients may expect.
    InternalError,
    /// 3208, as a GET is answered.
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
            transfer_validity_max_ms: 86_400_000,
            internal_transfer_validity_ms: 432_000_000,
            proposal_lifetime_ms: 86_400_000,
            limits: Limits::SHIPPED,
            hash_seed: 0,
        }
    }
}
