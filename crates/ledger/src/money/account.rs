//! Accounts: one balance per participant, currency and ledger account type.

use alloc::boxed::Box;

use upesi_types::{Amount, Currency, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::base::stored::stored_struct;

/// A ledger account type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerAccountType {
    pub id: LedgerAccountTypeId,
    /// Name, 2–30 word characters.
    pub name: Box<str>,
    /// Free text.
    pub description: Box<str>,
    /// Whether the type may be used.
    pub is_active: bool,
    /// Whether settlement models may settle it.
    pub is_settleable: bool,
}

/// The types that exist from the start: name, description, settleable.
pub(crate) const SEEDED_TYPES: [(&str, &str, bool); 6] = [
    ("POSITION", "Typical accounts from which a DFSP provisions transfers", true),
    ("SETTLEMENT", "Reflects the individual DFSP Settlement Accounts as held at the Settlement Bank", false),
    ("HUB_RECONCILIATION", "A single account for each currency with which the hub operates", false),
    ("HUB_MULTILATERAL_SETTLEMENT", "A single account for each currency with which the hub settles", false),
    ("INTERCHANGE_FEE", "Fees owed between participants", true),
    ("INTERCHANGE_FEE_SETTLEMENT", "Mirror of the funds for the settlement of fees", false),
];

/// An account with its balance. A positive balance is owed by the owner, a negative balance is owed to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Identifier, unique across participants.
    pub id: AccountId,
    pub participant: ParticipantId,
    /// Currency of the balance.
    pub currency: Currency,
    /// The account's type, which defines the meaning of the balance.
    pub kind: LedgerAccountTypeId,
    /// Whether new prepares may use the account. It does not affect the completion of a transfer.
    pub is_active: bool,
    /// Whether the account has been opened with a balance. Listings omit accounts without one.
    pub is_opened: bool,
    pub balance: Amount,
    /// Sum of the reserved transfers that may still lower this balance, by commit or reversal.
    pub pending_credits: Amount,
    pub created_at: Timestamp,
    /// When the balance last changed.
    pub changed_at: Timestamp,
}

stored_struct! {
    LedgerAccountType { id, name, description, is_active, is_settleable }
    Account {
        id, participant, currency, kind, is_active, is_opened, balance, pending_credits, created_at, changed_at,
    }
}
