//! Accounts: one balance per participant, currency and ledger account type.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use upesi_types::{Amount, Currency, Timestamp};

use crate::participant::ParticipantId;
use crate::stored::stored_struct;

/// Identifies an account; the integer that the admin API shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub NonZeroU32);

impl AccountId {
    /// Creates an id from the integer of the admin API. Returns `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The integer.
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    pub(crate) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Identifies a ledger account type. Types 1–6 exist from the start; operators may add more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerAccountTypeId(pub u8);

impl LedgerAccountTypeId {
    /// Net obligation of a DFSP in the current settlement cycle.
    pub const POSITION: Self = Self(1);
    /// Mirror of the funds that a DFSP holds at the settlement bank.
    pub const SETTLEMENT: Self = Self(2);
    /// The hub's counter-account for funds in and out.
    pub const HUB_RECONCILIATION: Self = Self(3);
    /// The hub's counter-account for net settlement.
    pub const HUB_MULTILATERAL_SETTLEMENT: Self = Self(4);
    /// Fee obligations of a DFSP.
    pub const INTERCHANGE_FEE: Self = Self(5);
    /// Mirror of the funds for fee settlement.
    pub const INTERCHANGE_FEE_SETTLEMENT: Self = Self(6);
    /// Name of the type that hub operators may add for fees.
    pub const HUB_FEE_NAME: &'static str = "HUB_FEE";
}

/// A ledger account type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerAccountType {
    /// Identifier.
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
    /// Owner.
    pub participant: ParticipantId,
    /// Currency of the balance.
    pub currency: Currency,
    /// The account's type, which gives the balance its meaning.
    pub kind: LedgerAccountTypeId,
    /// Whether new prepares may use the account. It does not affect the completion of a transfer.
    pub is_active: bool,
    /// Whether the account has been opened with a balance. Listings omit accounts without one.
    pub is_opened: bool,
    /// The balance.
    pub balance: Amount,
    /// Sum of the reserved transfers that may still lower this balance, by commit or reversal.
    pub pending_credits: Amount,
    /// When the account was created.
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
