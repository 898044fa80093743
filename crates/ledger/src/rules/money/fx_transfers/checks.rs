//! The rules for a new FX transfer, in order. The first violation is reported.

use upesi_types::{Amount, Present, UnfitAmount};

use super::{AskedMoney, DeterminingState, PrepareFxTransfer};
use crate::base::ids::ParticipantId;
use crate::base::refusal::Refusal;
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::fx_transfer::{FxTransferAccounts, FxTransferSide};
use crate::money::transfer::{Transfer, TransferState};
use crate::rules::money::prepare::active;
use crate::scheme::participant::Participant;

/// The FXP and the accounts of an FX transfer that may be reserved.
pub(super) struct Reservation {
    pub(super) fxp: ParticipantId,
    pub(super) accounts: FxTransferAccounts,
}

/// An amount that an account carries, with the owner that a rejection names.
struct CarriedAmount<'a> {
    owner: &'a Participant,
    account: &'a Account,
    amount: Amount,
}

impl Ledger {
    /// Checks the rules.
    pub(super) fn check_fx_transfer(
        &self,
        prepare: &PrepareFxTransfer,
        initiator: Option<&Participant>,
        fxp: Option<&Participant>,
        determining: DeterminingState<'_>,
        present: Present,
    ) -> Result<Reservation, Refusal> {
        if prepare.source != prepare.initiator {
            return Err(Refusal::SourceNotPayer);
        }
        let source = fitting(&prepare.source_amount)?;
        let target = fitting(&prepare.target_amount)?;
        let initiator = active(initiator, &prepare.initiator)?;
        let fxp = active(fxp, &prepare.counter_party)?;
        if prepare.destination.is_some_and(|named| !named.eq_ignore_case(&prepare.counter_party)) {
            return Err(Refusal::DestinationNotFxp);
        }
        if prepare.condition.is_none() {
            return Err(Refusal::ConditionInvalid);
        }
        self.check_expiration(prepare.expires_at.ok_or(Refusal::ExpirationMissing)?, present)?;
        if self.are_same_participant(initiator, fxp) && !self.config().on_us_transfers {
            return Err(Refusal::PartiesEqual);
        }
        let (from, to) = (prepare.source_amount.currency, prepare.target_amount.currency);
        if from == to {
            return Err(Refusal::CurrenciesEqual);
        }
        let Some(transfer_id) = prepare.determining_transfer else {
            return Err(Refusal::DeterminingTransferMissing);
        };
        if self.is_item_of_bulk(transfer_id) {
            return Err(Refusal::BulkItemAlone);
        }
        let fxp_source = self.active_position_account(fxp, from)?;
        let fxp_target = self.active_position_account(fxp, to)?;
        let side = match determining {
            DeterminingState::Absent => FxTransferSide::Payer,
            DeterminingState::Known(_) | DeterminingState::Final => FxTransferSide::Payee,
        };
        if self.fx_transfers.linked(transfer_id, side, Some(initiator.id)).is_some() {
            return Err(Refusal::FxTransferInProgress);
        }
        let bought = CarriedAmount { owner: fxp, account: fxp_source, amount: source };
        let (initiator_source, initiator_target) = match determining {
            DeterminingState::Absent => {
                let account = self.active_position_account(initiator, from)?;
                self.check_liquidity(initiator, account, source)?;
                check_room(&[CarriedAmount { owner: initiator, account, amount: source }, bought])?;
                (account, None)
            }
            DeterminingState::Final => return Err(Refusal::DeterminingTransferFinal),
            DeterminingState::Known(transfer) => {
                let received = self.received_account(prepare, transfer, initiator, source)?;
                let account = self.active_position_account(initiator, to)?;
                self.check_liquidity(fxp, fxp_target, target)?;
                let sold = CarriedAmount { owner: fxp, account: fxp_target, amount: target };
                check_room(&[sold, CarriedAmount { owner: initiator, account, amount: target }, bought])?;
                (received, Some(account.id))
            }
        };
        let accounts = FxTransferAccounts {
            initiator_source: initiator_source.id,
            initiator_target,
            fxp_source: fxp_source.id,
            fxp_target: fxp_target.id,
        };
        Ok(Reservation { fxp: fxp.id, accounts })
    }

    /// The account of a payee that receives the amount to convert. The determining transfer must be reserved,
    /// pay this payee, and have the same amount.
    fn received_account(
        &self,
        prepare: &PrepareFxTransfer,
        transfer: &Transfer,
        payee: &Participant,
        source: Amount,
    ) -> Result<&Account, Refusal> {
        if transfer.state != TransferState::Reserved {
            return Err(Refusal::DeterminingTransferFinal);
        }
        let Some(account) = transfer.payee_account.filter(|_| transfer.payee == Some(payee.id)) else {
            return Err(Refusal::InitiatorNotPayee);
        };
        if transfer.currency != prepare.source_amount.currency || transfer.amount != source {
            return Err(Refusal::DeterminingAmountDiffers);
        }
        Ok(self.account_ref(account))
    }
}

fn fitting(asked: &AskedMoney) -> Result<Amount, Refusal> {
    match &asked.amount {
        Err(UnfitAmount { error, text }) => Err(Refusal::AmountUnfit { text: text.clone(), error: *error }),
        Ok(amount) if *amount <= Amount::ZERO => Err(Refusal::AmountNotPositive { amount: *amount }),
        Ok(amount) => Ok(*amount),
    }
}

/// Checks that every account stays in range regardless of how its pending amounts end, including the amounts of this FX
/// transfer. An FXP that converts for itself carries both sides on one account.
fn check_room(carried: &[CarriedAmount<'_>]) -> Result<(), Refusal> {
    for CarriedAmount { owner, account, .. } in carried {
        let mut on_it = carried.iter().filter(|other| other.account.id == account.id);
        let pending = on_it.try_fold(account.pending_credits, |sum, other| sum.checked_add(other.amount));
        if pending.and_then(|pending| account.balance.checked_sub(pending)).is_none() {
            return Err(Refusal::AccountFull { name: owner.name, currency: account.currency });
        }
    }
    Ok(())
}
