//! Funds in and out: deposits to and withdrawals from a DFSP's settlement account.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use core::fmt::{self, Formatter};

use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::base::ids::{AccountId, ParticipantId};
use crate::base::show::{Names, PrintedValue, Show, shown_as_word};
use crate::base::stored::{stored_struct, wire_enum};
use crate::money::account::Account;
use crate::money::transfer::{Fingerprint, PublicState, TransferView};

/// The reason of a withdrawal that was rejected.
pub(crate) const REASON_NOT_COVERED: &str = "Aborted due to insufficient funds";
/// The reason of a withdrawal that expired.
pub(crate) const REASON_LATE: &str = "The withdrawal was not committed in time";

wire_enum! {
    /// The direction of the movement.
    FundsDirection {
        /// Deposit.
        In = 1 "recordFundsIn",
        /// Withdrawal.
        Out = 2 "recordFundsOut",
    }
}

wire_enum! {
    /// The state of a movement of funds.
    FundsState {
        /// The withdrawal holds the money.
        Reserved = 1 "RESERVED",
        /// The movement is complete. Final.
        Committed = 2 "COMMITTED",
        /// The movement was reversed or rejected. Final.
        Aborted = 3 "ABORTED_REJECTED",
    }
}

/// A movement of funds between a DFSP's settlement account and the hub's reconciliation account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FundsTransfer {
    /// Identifier chosen by the operator.
    pub id: TransferId,
    /// Deposit or withdrawal.
    pub direction: FundsDirection,
    pub participant: ParticipantId,
    /// The DFSP's settlement account.
    pub account: AccountId,
    /// The hub's reconciliation account.
    pub hub_account: AccountId,
    /// The amount, above zero.
    pub amount: Amount,
    pub currency: Currency,
    /// The bank's reference.
    pub external_reference: Box<str>,
    /// The operator's reason for the last step.
    pub reason: Box<str>,
    /// JSON text of the request's extension array.
    pub extensions: Option<Box<str>>,
    /// Fingerprint of the request, to distinguish a resend from a modified request.
    pub fingerprint: Fingerprint,
    pub state: FundsState,
    /// Time when it was recorded.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// Time when a reserved withdrawal expires.
    pub expires_at: Timestamp,
}

impl FundsTransfer {
    /// The view for a participant that queries it: the state, and the time of the state if it is final. The reference,
    /// the reason and the extensions are only for operators.
    pub fn view(&self) -> TransferView {
        let state = match self.state {
            FundsState::Reserved => PublicState::Reserved,
            FundsState::Committed => PublicState::Committed,
            FundsState::Aborted => PublicState::Aborted,
        };
        let completed_at = (self.state != FundsState::Reserved).then_some(self.changed_at);
        TransferView { state, completed_at, fulfilment: None, extensions: None, cause: None }
    }
}

/// The reserved withdrawals: their deadlines, and the amounts that their ends may still take from balances. An abort
/// takes the amount from the DFSP's account, a commit from the hub's account.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenWithdrawals {
    deadlines: BTreeSet<(Timestamp, TransferId)>,
    pending: BTreeMap<AccountId, i128>,
}

impl OpenWithdrawals {
    /// Adds a reserved withdrawal.
    pub(crate) fn open(&mut self, funds: &FundsTransfer) {
        self.deadlines.insert((funds.expires_at, funds.id));
        self.add(funds, funds.amount.units().into());
    }

    /// Removes a withdrawal that ends.
    pub(crate) fn close(&mut self, funds: &FundsTransfer) {
        self.deadlines.remove(&(funds.expires_at, funds.id));
        self.add(funds, -i128::from(funds.amount.units()));
    }

    fn add(&mut self, funds: &FundsTransfer, units: i128) {
        for account in [funds.account, funds.hub_account] {
            let pending = self.pending.entry(account).or_default();
            *pending += units;
            if *pending == 0 {
                self.pending.remove(&account);
            }
        }
    }

    /// Deadlines, earliest first.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = (Timestamp, TransferId)> {
        self.deadlines.iter().copied()
    }

    /// Whether a balance that falls by `units` ten-thousandths stays in range regardless of how the reserved
    /// withdrawals end.
    pub(crate) fn leave_room(&self, account: &Account, units: i128) -> bool {
        self.leave_room_at(account.id, account.balance, units)
    }

    /// Like `leave_room`, for another balance of the account.
    pub(crate) fn leave_room_at(&self, id: AccountId, balance: Amount, units: i128) -> bool {
        let pending = self.pending.get(&id).copied().unwrap_or(0);
        let lowest = i128::from(balance.units()) - pending - units;
        lowest >= i128::from(Amount::MAX.negated().units())
    }
}

stored_struct! {
    FundsTransfer {
        id, direction, participant, account, hub_account, amount, currency, external_reference, reason, extensions,
        fingerprint, state, created_at, changed_at, expires_at,
    }
}

shown_as_word!(FundsDirection: as_str, FundsState: as_str);

impl Show for FundsTransfer {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("transferId", self.id.show()),
            ("action", self.direction.show()),
            ("participant", self.participant.show()),
            ("account", self.account.show()),
            ("hubAccount", self.hub_account.show()),
            ("amount", self.amount.show()),
            ("currency", self.currency.show()),
            ("externalReference", self.external_reference.show()),
            ("reason", self.reason.show()),
            ("state", self.state.show()),
        ])
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            FundsDirection::In => "in",
            FundsDirection::Out => "out",
        };
        let owner = names.participant(self.participant);
        let state = self.state.as_str();
        write!(f, "{direction} {} {owner} {} {} {state}", self.id, self.amount, self.currency)
    }
}
