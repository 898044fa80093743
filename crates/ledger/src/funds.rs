//! Funds in and out: deposits to and withdrawals from a DFSP's settlement account.

use alloc::boxed::Box;

use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::account::AccountId;
use crate::callback::TransferView;
use crate::participant::ParticipantId;
use crate::settlement_model::wire_enum;
use crate::stored::stored_struct;
use crate::transfer::{Fingerprint, PublicState};

/// The reason of a withdrawal that was refused.
pub(crate) const REASON_NOT_COVERED: &str = "Aborted due to insufficient funds";
/// The reason of a withdrawal that expired.
pub(crate) const REASON_LATE: &str = "The withdrawal was not committed in time";

wire_enum! {
    /// Which way the money goes.
    FundsDirection {
        /// Deposit.
        In = 1 "recordFundsIn",
        /// Withdrawal.
        Out = 2 "recordFundsOut",
    }
}

wire_enum! {
    /// Where a movement of funds stands.
    FundsState {
        /// The withdrawal holds the money.
        Reserved = 1 "RESERVED",
        /// Done. Final.
        Committed = 2 "COMMITTED",
        /// Undone or refused. Final.
        Aborted = 3 "ABORTED_REJECTED",
    }
}

/// A movement of funds between a DFSP's settlement account and the hub's reconciliation account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FundsTransfer {
    /// Identifier chosen by the operator.
    pub id: TransferId,
    /// Which way.
    pub direction: FundsDirection,
    /// Whose funds.
    pub participant: ParticipantId,
    /// The DFSP's settlement account.
    pub account: AccountId,
    /// The hub's reconciliation account.
    pub hub_account: AccountId,
    /// How much, above zero.
    pub amount: Amount,
    /// Of what.
    pub currency: Currency,
    /// The bank's reference.
    pub external_reference: Box<str>,
    /// Why, in the operator's words; of the last step.
    pub reason: Box<str>,
    /// JSON text of the request's extension array.
    pub extensions: Option<Box<str>>,
    /// Fingerprint of the request, to tell a resend from a modified one.
    pub fingerprint: Fingerprint,
    /// Where it stands.
    pub state: FundsState,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// When a reserved withdrawal is given back.
    pub expires_at: Timestamp,
}

impl FundsTransfer {
    /// What its participant is told when it asks: the state, and when it was reached if it is final. The reference, the
    /// reason and the extensions are the operator's.
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

stored_struct! {
    FundsTransfer {
        id, direction, participant, account, hub_account, amount, currency, external_reference, reason, extensions,
        fingerprint, state, created_at, changed_at, expires_at,
    }
}
