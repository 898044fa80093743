//! Operators' changes of settlement as data, with their stored and printed forms.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Currency, TransferId};

use crate::base::ids::{SettlementId, WindowId};
use crate::base::stored::stored_struct;
use crate::base::table::shown_struct;
use crate::settlement::model::{Delay, Granularity, Interchange};
use crate::settlement::settlements::SettlementState;

/// A settlement model to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSettlementModel {
    /// Name, alphanumeric, 2–30 characters.
    pub name: Box<str>,
    /// Gross or net.
    pub granularity: Granularity,
    /// Bilateral or multilateral.
    pub interchange: Interchange,
    /// Immediate or deferred.
    pub delay: Delay,
    /// Currency; absent for the default model.
    pub currency: Option<Currency>,
    /// Whether liquidity must be checked.
    pub require_liquidity_check: bool,
    /// Name of the ledger account type that is settled.
    pub ledger_account_type: Box<str>,
    /// Name of the ledger account type that provides cover.
    pub settlement_account_type: Box<str>,
    /// Whether positions are reset when a settlement completes.
    pub auto_position_reset: bool,
}

impl NewSettlementModel {
    /// The model that nearly every scheme uses: deferred, net and multilateral, for positions, covered by settlement
    /// accounts. Without a currency it is the default model.
    pub fn deferred_net(name: &str, currency: Option<Currency>) -> Self {
        Self {
            name: name.into(),
            granularity: Granularity::Net,
            interchange: Interchange::Multilateral,
            delay: Delay::Deferred,
            currency,
            require_liquidity_check: true,
            ledger_account_type: "POSITION".into(),
            settlement_account_type: "SETTLEMENT".into(),
            auto_position_reset: true,
        }
    }
}

/// `POST /settlements`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSettlement {
    /// Name of the settlement model.
    pub model: Box<str>,
    pub reason: Box<str>,
    /// The windows to settle.
    pub windows: Vec<WindowId>,
}

/// `PUT /settlements/{id}` with accounts and the states that they reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementAdvance {
    pub id: SettlementId,
    /// The accounts.
    pub items: Vec<AdvanceItem>,
}

/// An account and its new state, as an operator names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvanceItem {
    /// Number of the participant.
    pub participant: u32,
    /// Number of the account.
    pub account: u32,
    pub state: SettlementState,
    pub reason: Box<str>,
    /// The bank's reference.
    pub external_reference: Option<Box<str>>,
}

/// `PUT /settlements/{id}` with the state ABORTED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementAbort {
    pub id: SettlementId,
    pub reason: Box<str>,
    /// The bank's reference.
    pub external_reference: Option<Box<str>>,
}

/// The reason why one account of a call was skipped. The other accounts advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceFault {
    /// The settlement has no such account.
    AccountUnknown,
    /// The account belongs to another participant.
    AccountOfAnother,
    /// The call names the account more than once.
    AccountRepeated,
    /// The account cannot change to this state now.
    StateNotAllowed,
    /// The remaining cover would be less than the position needs.
    CoverMissing,
    /// A debtor account is not COMMITTED with its withdrawal, so no creditor account can be credited.
    PayerUnfinished,
    /// The owner has no open cover account.
    CoverAccountMissing,
    /// The id belongs to another movement of funds, or to one that moved nothing.
    FundsIdTaken,
}

impl AdvanceFault {
    /// The fault as text for operators.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AccountUnknown => "Account not found",
            Self::AccountOfAnother => "Participant and account mismatch",
            Self::AccountRepeated => "Account already processed once",
            Self::StateNotAllowed => "State change not allowed",
            Self::CoverMissing => "The cover that would remain does not cover the position",
            Self::PayerUnfinished => "A payer of the settlement is not finished",
            Self::CoverAccountMissing => "Settlement account not found or not open",
            Self::FundsIdTaken => "Another movement of funds has this transferId",
        }
    }
}

/// `PUT /settlements/{id}/cover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementCover {
    pub id: SettlementId,
    /// The accounts.
    pub items: Vec<CoverItem>,
}

/// An account whose net amount the bank moved, as an operator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverItem {
    /// Number of the participant.
    pub participant: u32,
    /// Number of the account.
    pub account: u32,
    /// The id of the withdrawal or deposit.
    pub funds: TransferId,
    pub reason: Box<str>,
    /// The bank's reference.
    pub external_reference: Option<Box<str>>,
}

stored_struct! {
    NewSettlementModel {
        name, granularity, interchange, delay, currency, require_liquidity_check, ledger_account_type,
        settlement_account_type, auto_position_reset,
    }
    NewSettlement { model, reason, windows }
    SettlementAdvance { id, items }
    AdvanceItem { participant, account, state, reason, external_reference }
    SettlementAbort { id, reason, external_reference }
    SettlementCover { id, items }
    CoverItem { participant, account, funds, reason, external_reference }
}

shown_struct! {
    NewSettlementModel {
        name, granularity as "settlementGranularity", interchange as "settlementInterchange",
        delay as "settlementDelay", currency, require_liquidity_check, ledger_account_type, settlement_account_type,
        auto_position_reset,
    }
    NewSettlement { model as "settlementModel", reason, windows as "settlementWindows" }
    SettlementAdvance { id as "settlementId", items as "accounts" }
    AdvanceItem { participant, account, state, reason, external_reference }
    SettlementAbort { id as "settlementId", reason, external_reference }
    SettlementCover { id as "settlementId", items as "accounts" }
    CoverItem { participant, account, funds as "transferId", reason, external_reference }
}
