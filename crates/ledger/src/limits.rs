//! How much a ledger holds, and how its limits relate, checked when it is compiled.

use upesi_types::FspId;

use crate::account::SEEDED_TYPES;
use crate::command::CONVERSIONS_PER_TRANSFER_MAX;

/// Most callbacks that one record may owe: their index is stored in a byte.
pub const CALLBACKS_PER_RECORD_MAX: usize = u8::MAX as usize + 1;

/// Callbacks that one transfer owes when it ends: payer, payee, and the payee's PATCH.
const CALLBACKS_PER_TRANSFER_MAX: usize = 3;

/// Callbacks that one conversion owes when it ends: initiator and FXP.
const CALLBACKS_PER_CONVERSION_MAX: usize = 2;

/// Callbacks of a transfer that takes its conversions along.
const CALLBACKS_PER_CONVERTED_MAX: usize =
    CALLBACKS_PER_TRANSFER_MAX + CONVERSIONS_PER_TRANSFER_MAX * CALLBACKS_PER_CONVERSION_MAX;

/// How many of each a ledger takes. Whatever would be one more is refused. A hub ships with [`Limits::SHIPPED`]; with
/// [`Limits::TINY`] simulated worlds come to every limit within a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Participants, the hub among them.
    pub participants: usize,
    /// Accounts of all participants.
    pub accounts: usize,
    /// Bindings of one participant.
    pub bindings: usize,
    /// Keys by which one participant signs, those that ended aside: the next one, the present one, the one of before.
    pub signature_keys: usize,
    /// Revoked keys of one participant.
    pub revoked_keys: usize,
    /// Certificates, keys and participants that are blocked.
    pub blocks: usize,
    /// Settlement models, those switched off included.
    pub settlement_models: usize,
    /// Ledger account types, the seeded ones included.
    pub ledger_account_types: usize,
    /// Deposits and withdrawals, finished ones included.
    pub funds_transfers: usize,
    /// Fee rules, ended ones included.
    pub fee_rules: usize,
    /// Fee rules that have not ended: each commit looks at them.
    pub fee_rules_live: usize,
    /// Settlement windows, settled ones included.
    pub windows: usize,
    /// Sums between two accounts that windows keep: those of settled windows are dropped first, and no window closes
    /// while those of unsettled ones are as many.
    pub pairs: usize,
    /// Settlements, ended ones included.
    pub settlements: usize,
    /// Accounts in all settlements.
    pub settlement_accounts: usize,
    /// Windows of one settlement.
    pub windows_per_settlement: usize,
    /// Transfers that one tick ends, so that a flood of deadlines cannot hold up the queue: the engine ticks again as
    /// long as something is due.
    pub expiries_per_tick: usize,
}

impl Limits {
    /// What a hub ships with.
    pub const SHIPPED: Self = Self {
        participants: 10_000,
        accounts: 1_000_000,
        bindings: 16,
        signature_keys: 3,
        revoked_keys: 1_000,
        blocks: 10_000,
        settlement_models: 1_000,
        ledger_account_types: 200,
        funds_transfers: 1_000_000,
        fee_rules: 1_000,
        fee_rules_live: 100,
        windows: 100_000,
        pairs: 1_000_000,
        settlements: 100_000,
        settlement_accounts: 1_000_000,
        windows_per_settlement: 1_000,
        expiries_per_tick: 64,
    }
    .related();

    /// Limits that a simulated day reaches.
    pub const TINY: Self = Self {
        participants: 16,
        accounts: 256,
        bindings: 2,
        signature_keys: 3,
        revoked_keys: 2,
        blocks: 2,
        settlement_models: 4,
        ledger_account_types: 8,
        funds_transfers: 20,
        fee_rules: 4,
        fee_rules_live: 2,
        windows: 8,
        pairs: 96,
        settlements: 6,
        settlement_accounts: 160,
        windows_per_settlement: 2,
        expiries_per_tick: 4,
    }
    .related();

    /// The same, if what one limit promises another can hold.
    const fn related(self) -> Self {
        // A tick ends most transfers of all commands, and every other command ends one at most.
        assert!(self.expiries_per_tick * CALLBACKS_PER_TRANSFER_MAX <= CALLBACKS_PER_RECORD_MAX);
        // While conversions are live, a tick ends as many transfers by their own deadlines as by those of conversions.
        assert!(
            2 * self.converted_expiries_per_tick() * CALLBACKS_PER_CONVERTED_MAX <= CALLBACKS_PER_RECORD_MAX
        );
        assert!(self.converted_expiries_per_tick() > 0);
        // An account type's number is a byte, and 0 is none.
        assert!(SEEDED_TYPES.len() <= self.ledger_account_types);
        assert!(self.ledger_account_types <= u8::MAX as usize);
        // The numbers of participants, accounts, models, windows and settlements are 32 bits, and 0 is none.
        assert!(self.participants < u32::MAX as usize);
        assert!(self.accounts < u32::MAX as usize);
        assert!(self.settlement_models < u32::MAX as usize);
        assert!(self.windows < u32::MAX as usize);
        assert!(self.settlements < u32::MAX as usize);
        // Each participant has room for accounts of every seeded type in one currency.
        assert!(self.participants * SEEDED_TYPES.len() <= self.accounts);
        // A settlement may take windows that one hub holds, and a live fee rule is one of all.
        assert!(self.windows_per_settlement <= self.windows);
        assert!(self.fee_rules_live <= self.fee_rules);
        self
    }

    /// Transfers that one tick ends while conversions are live: each end may take a transfer's conversions along.
    pub(crate) const fn converted_expiries_per_tick(&self) -> usize {
        self.expiries_per_tick / 4
    }
}

// Scheme policy that steers decisions. Recorded decisions never depend on it again.

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
    /// Whether fee rules with more decimals than their currency are refused.
    pub rejects_finer_amounts: bool,
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
            rejects_finer_amounts: false,
            transfer_validity_max_ms: i64::MAX,
            internal_transfer_validity_ms: 432_000_000,
            proposal_lifetime_ms: 86_400_000,
            limits: Limits::SHIPPED,
            hash_seed: 0,
        }
    }
}
