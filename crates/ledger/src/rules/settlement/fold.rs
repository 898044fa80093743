//! Applies the events of settlement models and settlements to the state.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId, SettlementId};
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::settlement::model::SettlementModel;
use crate::settlement::remainder;
use crate::settlement::settlements::{
    CarriedRemainder, Settlement, SettlementAccount, SettlementNet, SettlementStage,
};
use crate::settlement::window::{ContentRef, WindowState};

impl Ledger {
    pub(crate) fn add_model(&mut self, model: SettlementModel) {
        assert!(model.id as usize == self.models.len() + 1, "settlement models are numbered without gaps");
        self.models.push(model);
    }

    pub(crate) fn add_settlement(
        &mut self,
        now: Timestamp,
        id: SettlementId,
        model: u32,
        reason: &str,
        contents: Vec<ContentRef>,
        nets: &[SettlementNet],
    ) {
        assert!(id.index() == self.settlements.len(), "settlements are numbered without gaps");
        for place in &contents {
            self.windows.set_state(*place, WindowState::Pending, id, now, reason);
        }
        self.settlements.push(Settlement::new(id, model, now, reason, contents, nets));
    }

    pub(crate) fn apply_settlement_advanced(
        &mut self,
        now: Timestamp,
        id: SettlementId,
        stages: Vec<SettlementStage>,
    ) {
        let settlement = &mut self.settlements[id.index()];
        let was_final = settlement.is_final();
        settlement.advance(now, stages, &mut self.windows);
        if settlement.is_final() && !was_final {
            let left = settlement.accounts.iter().map(|account| (account.account, account.carried_over));
            remainder::add(&mut self.carried, left);
        }
    }

    pub(crate) fn apply_settlement_aborted(
        &mut self,
        now: Timestamp,
        id: SettlementId,
        reason: Box<str>,
        external_reference: Option<Box<str>>,
    ) {
        let settlement = &mut self.settlements[id.index()];
        let was_final = settlement.is_final();
        settlement.abort(now, reason, external_reference, &mut self.windows);
        if !was_final {
            let given_back = settlement.accounts.iter().map(|account| (account.account, account.carried_in));
            remainder::add(&mut self.carried, given_back);
        }
    }

    pub(crate) fn apply_remainders(&mut self, id: SettlementId, remainders: &[CarriedRemainder]) {
        let taken = remainders.iter().map(|one| (one.account, one.carried_in.negated()));
        remainder::add(&mut self.carried, taken);
        for CarriedRemainder { account, carried_in, carried_over } in remainders {
            let account = self.settled_account_mut(id, *account);
            (account.carried_in, account.carried_over) = (*carried_in, *carried_over);
        }
    }

    pub(crate) fn settled_account_mut(
        &mut self,
        id: SettlementId,
        account: AccountId,
    ) -> &mut SettlementAccount {
        let found = self.settlements[id.index()].account_mut(account);
        found.unwrap_or_else(|| panic!("settlement {id} has no such account"))
    }

    pub(crate) fn raise_cap(&mut self, id: SettlementId, account: AccountId, amount: Amount) {
        self.shift_cap(account, amount);
        self.settled_account_mut(id, account).cap_raised_by = Some(amount);
    }

    pub(crate) fn return_cap(&mut self, id: SettlementId, account: AccountId, amount: Amount) {
        self.shift_cap(account, amount.negated());
        self.settled_account_mut(id, account).cap_raised_by = None;
    }

    /// Raises or lowers the net debit cap of a position.
    fn shift_cap(&mut self, position: AccountId, change: Amount) {
        let Account { participant, currency, .. } = *self.account_ref(position);
        let limits = &mut self.participant_mut(participant).limits;
        let limit = limits.iter_mut().find(|limit| limit.currency == currency);
        let shifted = limit.and_then(|limit| Some((limit.value.checked_add(change)?, limit)));
        let Some((value, limit)) = shifted else { panic!("account {} has no such cap", position.number()) };
        limit.value = value;
    }

    /// Records that an operator set another cap: it stays, whatever happens to the settlements that raised the previous
    /// cap.
    pub(crate) fn forget_cap_raises(&mut self, participant: ParticipantId, currency: Currency) {
        let position = self.participant(participant).account(currency, LedgerAccountTypeId::POSITION);
        let Some(position) = position else { return };
        for settlement in self.settlements.iter_mut().filter(|settlement| !settlement.is_final()) {
            if let Some(account) = settlement.account_mut(position) {
                account.cap_raised_by = None;
            }
        }
    }
}
