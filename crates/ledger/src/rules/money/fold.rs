//! Applies the events of transfers, accounts, funds and fees to the state.

pub(crate) mod bulks;
pub(crate) mod fx_transfers;

use alloc::boxed::Box;

use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::base::refusal::AbortKind;
use crate::core::state::Ledger;
use crate::money::account::{Account, LedgerAccountType};
use crate::money::fee::FeeRule;
use crate::money::funds::{FundsDirection, FundsState, FundsTransfer};
use crate::money::transfer::{ChargedFee, SettlementMode, Transfer, TransferState, accounts_of};
use crate::scheme::participant::AccountRef;

impl Ledger {
    pub(crate) fn apply_prepared(&mut self, seq: u64, now: Timestamp, transfer: Transfer) {
        if let TransferState::Reserved = transfer.state {
            self.totals.reserved += 1;
            let (payer, payee) = accounts_of(&transfer);
            self.post(payer, transfer.amount, now);
            self.add_pending(payer, transfer.amount);
            self.add_pending(payee, transfer.amount);
        } else {
            self.totals.refused += 1;
        }
        self.fx_transfers.ended.note_use(transfer.id);
        self.transfers.insert(seq, transfer);
    }

    /// Ends a reserved transfer. A commit credits the payee or is settled immediately; an abort releases the payer's
    /// amount.
    pub(crate) fn end_transfer(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: TransferId,
        state: TransferState,
        extensions: Option<Box<str>>,
        settled: SettlementMode,
    ) {
        let transfer =
            self.transfer(id).unwrap_or_else(|| panic!("transfer {id} ends but was never prepared"));
        let (payer, payee) = accounts_of(transfer);
        let amount = transfer.amount.negated();
        let credited = match &state {
            TransferState::Committed(_) => {
                self.totals.committed += 1;
                self.settle_commit(now, payer, payee, amount.negated(), settled)
            }
            TransferState::Aborted(end) => {
                self.totals.aborted += 1;
                self.totals.expired += u64::from(end.kind == AbortKind::Expired);
                payer
            }
            TransferState::Reserved => unreachable!("a transfer ends committed or aborted"),
        };
        self.post(credited, amount, now);
        self.add_pending(payer, amount);
        self.add_pending(payee, amount);
        self.transfers.finish(seq, id, |transfer| {
            if let TransferState::Committed(_) = state {
                transfer.extensions = extensions;
            }
            transfer.state = state;
        });
        self.note_end_of_item(id);
    }

    /// Settles a committed transfer, or a movement of an FX transfer, immediately or with the open window. Returns the
    /// account that is credited.
    pub(crate) fn settle_commit(
        &mut self,
        now: Timestamp,
        payer: AccountId,
        payee: AccountId,
        amount: Amount,
        settled: SettlementMode,
    ) -> AccountId {
        match settled {
            SettlementMode::InWindow => {
                self.windows.add(payer, payee, amount);
                payee
            }
            SettlementMode::AtOnce { payer: payer_cover, payee: payee_cover } => {
                self.totals.settled_at_once += 1;
                self.post(payer_cover, amount, now);
                self.post(payee_cover, amount.negated(), now);
                payer
            }
        }
    }

    pub(crate) fn apply_funds_prepared(&mut self, now: Timestamp, funds: FundsTransfer) {
        match (funds.direction, funds.state) {
            (FundsDirection::In, _) => {
                self.post(funds.hub_account, funds.amount, now);
                self.post(funds.account, funds.amount.negated(), now);
            }
            (FundsDirection::Out, FundsState::Reserved) => {
                self.post(funds.account, funds.amount, now);
                self.withdrawals.open(&funds);
            }
            (FundsDirection::Out, _) => {}
        }
        let previous = self.funds.insert(funds.id, funds);
        assert!(previous.is_none(), "a movement of funds is recorded twice");
    }

    pub(crate) fn apply_funds_ended(
        &mut self,
        now: Timestamp,
        id: TransferId,
        state: FundsState,
        reason: Box<str>,
    ) {
        let Some(funds) = self.funds.get_mut(&id) else { panic!("funds {id} end but were never recorded") };
        assert!(funds.state == FundsState::Reserved, "funds {id} end twice");
        funds.state = state;
        funds.reason = reason;
        funds.changed_at = now;
        let credited = if state == FundsState::Committed { funds.hub_account } else { funds.account };
        let amount = funds.amount;
        self.withdrawals.close(funds);
        self.post(credited, amount.negated(), now);
    }

    pub(crate) fn add_fee_rule(&mut self, rule: FeeRule) {
        assert!(rule.id as usize == self.fee_rules.len() + 1, "fee rules are numbered without gaps");
        self.fee_rules.push(rule);
    }

    /// Adds a fee to the balances, to the open window and to its transfer.
    pub(crate) fn charge_fee(&mut self, now: Timestamp, transfer: TransferId, fee: ChargedFee) {
        let ChargedFee { payer, payee, amount, .. } = fee;
        self.totals.fees += 1;
        self.post(payer, amount, now);
        self.post(payee, amount.negated(), now);
        self.windows.add(payer, payee, amount);
        self.transfers.note_fee(transfer, fee);
    }

    pub(crate) fn add_account(
        &mut self,
        now: Timestamp,
        id: AccountId,
        participant: ParticipantId,
        currency: Currency,
        kind: LedgerAccountTypeId,
        is_opened: bool,
    ) {
        assert!(id.index() == self.accounts.len(), "accounts are numbered without gaps");
        self.accounts.push(Account {
            id,
            participant,
            currency,
            kind,
            is_active: is_opened,
            is_opened,
            balance: Amount::ZERO,
            pending_credits: Amount::ZERO,
            created_at: now,
            changed_at: now,
        });
        self.participant_mut(participant).accounts.push(AccountRef { currency, kind, id });
    }

    pub(crate) fn open_account(&mut self, now: Timestamp, id: AccountId) {
        let account = self.account_mut(id);
        account.is_opened = true;
        account.is_active = true;
        account.changed_at = now;
    }

    pub(crate) fn add_account_type(&mut self, kind: LedgerAccountType) {
        assert!(
            usize::from(kind.id.0) == self.account_types.len() + 1,
            "account types are numbered without gaps"
        );
        self.account_types.push(kind);
    }

    pub(crate) fn post(&mut self, account: AccountId, change: Amount, now: Timestamp) {
        let account = self.account_mut(account);
        let Some(balance) = account.balance.checked_add(change) else {
            panic!("the balance of account {} exceeds the range of amounts", account.id.number())
        };
        account.balance = balance;
        account.changed_at = now;
    }

    pub(crate) fn add_pending(&mut self, account: AccountId, change: Amount) {
        let account = self.account_mut(account);
        let pending = account.pending_credits.checked_add(change).filter(|pending| !pending.is_negative());
        let Some(pending) = pending else {
            panic!("account {} has impossible reservations", account.id.number())
        };
        account.pending_credits = pending;
    }

    pub(crate) fn account_mut(&mut self, id: AccountId) -> &mut Account {
        &mut self.accounts[id.index()]
    }
}
