//! Decides funds in (deposits) and funds out (withdrawals).

use upesi_types::{Amount, FspId, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::core::config::FundsOutGuard;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::facts::{Archived, DecisionInput};
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::changes::{Deposit, FundsAction, FundsEnd, FundsPrepare};
use crate::money::funds::{FundsDirection, FundsState, FundsTransfer, REASON_NOT_COVERED};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::participant::Participant;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    /// Decides a deposit or withdrawal. Funds of a suspended DFSP can move, too: suspension stops its new payments, but
    /// not the settlement of earlier ones.
    pub(crate) fn decide_prepare_funds(
        &self,
        funds: &FundsPrepare,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Outcome {
        let now = facts.now();
        let (participant, account) = self.settlement_account(&funds.name, funds.account)?;
        if account.currency != funds.currency {
            return Err(AdminRefusal::FundsAccountMismatch);
        }
        if let Some(original) = self.funds(funds.id) {
            return if original.fingerprint == funds.fingerprint && original.account == account.id {
                Ok(AdminOutcome::Funds(original.id, original.state))
            } else {
                Err(AdminRefusal::FundsModified)
            };
        }
        // An id must identify only one object.
        let is_transfer = self.transfer(funds.id).is_some()
            || self.is_item_of_bulk(funds.id)
            || matches!(facts.archived, Archived::Found(_));
        if is_transfer {
            return Err(AdminRefusal::FundsIsTransfer);
        }
        if !account.is_active || !account.is_opened {
            return Err(AdminRefusal::FundsAccountInactive);
        }
        if funds.amount <= Amount::ZERO {
            return Err(AdminRefusal::FundsAmount);
        }
        if self.funds_len() >= self.config.limits.funds_transfers {
            return Err(AdminRefusal::FundsFull);
        }
        let hub = self.participant(ParticipantId::HUB);
        let Some(hub_account) = hub.account(funds.currency, LedgerAccountTypeId::HUB_RECONCILIATION) else {
            return Err(AdminRefusal::ReconciliationAccountMissing { currency: funds.currency });
        };
        let state = match funds.direction {
            FundsDirection::In => self.check_deposit(account, hub_account, funds.amount)?,
            FundsDirection::Out if self.covers_withdrawal(participant, account, funds.amount) => {
                self.check_withdrawal(hub_account, funds.amount)?
            }
            FundsDirection::Out => FundsState::Aborted,
        };
        let reason = match (funds.direction, state) {
            (FundsDirection::Out, FundsState::Aborted) => REASON_NOT_COVERED.into(),
            _ => funds.reason.clone(),
        };
        out.events.push(Event::FundsPrepared(FundsTransfer {
            id: funds.id,
            direction: funds.direction,
            participant: participant.id,
            account: account.id,
            hub_account,
            amount: funds.amount,
            currency: funds.currency,
            external_reference: funds.external_reference.clone(),
            reason,
            extensions: funds.extensions.clone(),
            fingerprint: funds.fingerprint,
            state,
            created_at: now,
            changed_at: now,
            expires_at: now.plus_ms(self.config().internal_transfer_validity_ms),
        }));
        Ok(AdminOutcome::Funds(funds.id, state))
    }

    pub(crate) fn decide_deposit(
        &self,
        deposit: &Deposit,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(&deposit.name)?;
        let account = participant.account(deposit.currency, LedgerAccountTypeId::SETTLEMENT);
        let Deposit { id, name, amount, currency, .. } = *deposit;
        let funds = FundsPrepare {
            direction: FundsDirection::In,
            id,
            name,
            account: account.ok_or(AdminRefusal::AccountUnknown)?,
            amount,
            currency,
            external_reference: deposit.external_reference.clone(),
            reason: deposit.reason.clone(),
            extensions: deposit.extensions.clone(),
            fingerprint: deposit.fingerprint,
        };
        self.decide_prepare_funds(&funds, facts, out)
    }

    fn settlement_account(
        &self,
        name: &FspId,
        id: AccountId,
    ) -> Result<(&Participant, &Account), AdminRefusal> {
        let participant =
            self.participant_named(name).ok_or(AdminRefusal::ParticipantUnknown { name: *name })?;
        let account = self.account(id).filter(|account| account.participant == participant.id);
        let Some(account) = account else {
            return Err(AdminRefusal::FundsAccountMismatch);
        };
        if account.kind != LedgerAccountTypeId::SETTLEMENT {
            return Err(AdminRefusal::AccountNotSettlement);
        }
        Ok((participant, account))
    }

    fn check_deposit(
        &self,
        account: &Account,
        hub_account: AccountId,
        amount: Amount,
    ) -> Result<FundsState, AdminRefusal> {
        let fits = self.withdrawals.leave_room(account, amount.units().into())
            && self.account_ref(hub_account).balance.checked_add(amount).is_some();
        if fits { Ok(FundsState::Committed) } else { Err(AdminRefusal::BalanceFull) }
    }

    /// The end of a withdrawal cannot be rejected, so the hub's account must be able to hold the amount now. The DFSP's
    /// account always can: an abort returns what the reservation debited.
    fn check_withdrawal(&self, hub_account: AccountId, amount: Amount) -> Result<FundsState, AdminRefusal> {
        let fits = self.withdrawals.leave_room(self.account_ref(hub_account), amount.units().into());
        if fits { Ok(FundsState::Reserved) } else { Err(AdminRefusal::BalanceFull) }
    }

    /// Whether enough cover remains after a withdrawal. The settlement account alone must cover the position, whichever
    /// account the model takes cover from, because the position will be settled with it.
    fn covers_withdrawal(&self, participant: &Participant, settlement: &Account, amount: Amount) -> bool {
        let position = participant.account(settlement.currency, LedgerAccountTypeId::POSITION);
        let needed = match self.config().funds_out_guard {
            FundsOutGuard::SettlementAccount => Amount::ZERO,
            FundsOutGuard::Position => {
                position.map_or(Amount::ZERO, |id| self.account_ref(id).balance).max(Amount::ZERO)
            }
        };
        settlement.balance.checked_add(amount).is_some_and(|balance| balance.negated() >= needed)
    }

    pub(crate) fn decide_end_funds(&self, end: &FundsEnd, now: Timestamp, out: &mut Decision) -> Outcome {
        let (_, account) = self.settlement_account(&end.name, end.account)?;
        let Some(funds) = self.funds(end.id).filter(|funds| funds.account == account.id) else {
            return Err(AdminRefusal::FundsUnknown);
        };
        let wanted = match end.action {
            FundsAction::Commit => FundsState::Committed,
            FundsAction::Abort => FundsState::Aborted,
        };
        if funds.state == wanted && funds.direction == FundsDirection::Out {
            return Ok(AdminOutcome::Funds(funds.id, funds.state));
        }
        if funds.state != FundsState::Reserved {
            return Err(AdminRefusal::FundsFinal { state: funds.state });
        }
        if funds.expires_at <= now && end.action == FundsAction::Commit {
            return Err(AdminRefusal::WithdrawalExpired);
        }
        out.events.push(Event::FundsEnded { id: funds.id, state: wanted, reason: end.reason.clone() });
        Ok(AdminOutcome::Funds(funds.id, wanted))
    }
}
