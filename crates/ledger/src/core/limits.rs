//! Limits of the ledger's size and the relations between them, which are checked at compile time.

use crate::money::account::SEEDED_TYPES;
use crate::money::fx_transfer::FX_TRANSFERS_PER_TRANSFER_MAX;

/// Maximum number of callbacks that one record may owe. Their index is stored in a byte.
pub const CALLBACKS_PER_RECORD_MAX: usize = u8::MAX as usize + 1;

/// Maximum number of callbacks that one transfer owes when it ends: payer, payee, and the payee's PATCH.
const CALLBACKS_PER_TRANSFER_MAX: usize = 3;

/// Maximum number of callbacks that one FX transfer owes when it ends: initiator and FXP.
const CALLBACKS_PER_FX_TRANSFER_MAX: usize = 2;

/// Maximum number of callbacks of a transfer that ends together with its FX transfers.
const CALLBACKS_PER_CONVERTED_MAX: usize =
    CALLBACKS_PER_TRANSFER_MAX + FX_TRANSFERS_PER_TRANSFER_MAX * CALLBACKS_PER_FX_TRANSFER_MAX;

/// Maximum numbers of objects in a ledger. Anything beyond a limit is rejected. A hub ships with [`Limits::SHIPPED`].
/// With [`Limits::TINY`], simulated worlds reach every limit within a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Participants, including the hub.
    pub participants: usize,
    /// Accounts of all participants.
    pub accounts: usize,
    /// Bindings of one participant.
    pub bindings: usize,
    /// Keys of one participant, not counting ended ones: the next, the current and the previous key.
    pub signature_keys: usize,
    /// Revoked keys of one participant.
    pub revoked_keys: usize,
    /// Blocked certificates, keys and participants.
    pub blocks: usize,
    /// Settlement models, including inactive ones.
    pub settlement_models: usize,
    /// Ledger account types, including the seeded ones.
    pub ledger_account_types: usize,
    /// Deposits and withdrawals, including finished ones.
    pub funds_transfers: usize,
    /// Fee rules, including ended ones.
    pub fee_rules: usize,
    /// Fee rules that have not ended. Each commit checks all of them.
    pub fee_rules_live: usize,
    /// Settlement windows, including settled ones.
    pub windows: usize,
    /// Sums between two accounts that windows store. Sums of settled windows are dropped first. No window can be closed
    /// while unsettled windows have this many sums.
    pub pairs: usize,
    /// Settlements, including ended ones.
    pub settlements: usize,
    pub settlement_accounts: usize,
    pub windows_per_settlement: usize,
    /// Transfers that one tick ends, so that many simultaneous deadlines cannot block the queue. The engine ticks again
    /// while something is due.
    pub expiries_per_tick: usize,
}

impl Limits {
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

    /// Returns the limits unchanged after checking the relations between them.
    const fn related(self) -> Self {
        // A tick ends more transfers than any other command; every other command ends at most one.
        assert!(self.expiries_per_tick * CALLBACKS_PER_TRANSFER_MAX <= CALLBACKS_PER_RECORD_MAX);
        // While FX transfers are live, a tick ends up to this many transfers by their own deadlines, and as many by the
        // deadlines of their FX transfers.
        assert!(
            2 * self.converted_expiries_per_tick() * CALLBACKS_PER_CONVERTED_MAX <= CALLBACKS_PER_RECORD_MAX
        );
        assert!(self.converted_expiries_per_tick() > 0);
        // The number of an account type is a byte, and 0 means none.
        assert!(SEEDED_TYPES.len() <= self.ledger_account_types);
        assert!(self.ledger_account_types <= u8::MAX as usize);
        // The numbers of participants, accounts, models, windows and settlements have 32 bits, and 0 means none.
        assert!(self.participants < u32::MAX as usize);
        assert!(self.accounts < u32::MAX as usize);
        assert!(self.settlement_models < u32::MAX as usize);
        assert!(self.windows < u32::MAX as usize);
        assert!(self.settlements < u32::MAX as usize);
        // Each participant can have accounts of every seeded type in one currency.
        assert!(self.participants * SEEDED_TYPES.len() <= self.accounts);
        // A settlement cannot contain more windows than the hub has, and live fee rules are part of all fee rules.
        assert!(self.windows_per_settlement <= self.windows);
        assert!(self.fee_rules_live <= self.fee_rules);
        self
    }

    /// Transfers that one tick ends while FX transfers are live. Each end may also end the transfer's FX transfers.
    pub(crate) const fn converted_expiries_per_tick(&self) -> usize {
        self.expiries_per_tick / 4
    }
}
