//! Moves liquidity cover with a settlement: an account becomes COMMITTED and its money is debited or credited in one
//! record.
//!
//! A payer that is COMMITTED has its position back. If a later record debited its money, the payer could spend the
//! cover in between, and nothing would be left to debit. No creditor account is credited before all debtors have paid.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use upesi_types::{Amount, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::core::config::FundsOutGuard;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::funds::{FundsDirection, FundsState, FundsTransfer};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::settlement::settlements::Movements;
use crate::settlement::changes::{AdvanceFault, CoverItem, SettlementCover};
use crate::settlement::settlements::{Settlement, SettlementAccount, SettlementStage, SettlementState};

impl SettlementAccount {
    /// The account's state once the cover has moved: COMMITTED, or SETTLED if the account is already SETTLED.
    fn state_with_cover(&self) -> SettlementState {
        match self.state {
            SettlementState::Settled => SettlementState::Settled,
            _ => SettlementState::Committed,
        }
    }
}

impl Ledger {
    /// Moves the cover of the given accounts. Accounts that cannot be finished are skipped. Payers are processed first,
    /// whatever their order in the call.
    pub(crate) fn decide_move_cover(
        &self,
        cover: &SettlementCover,
        now: Timestamp,
        out: &mut Decision,
    ) -> Result<AdminOutcome, AdminRefusal> {
        let settlement = self.settlement(cover.id).ok_or(AdminRefusal::SettlementUnknown)?;
        let (mut seen, mut faults, mut accounts) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (item, index) in cover.items.iter().zip(0_u32..) {
            match self.check_account(settlement, item.participant, item.account, &mut seen) {
                Ok(account) => accounts.push((account, item, index)),
                Err(fault) => faults.push((index, fault)),
            }
        }
        accounts.sort_by_key(|(account, ..)| account.net.is_negative());
        let unpaid = settlement.accounts.iter().filter(|account| account.is_unpaid());
        let mut unpaid: BTreeSet<AccountId> = unpaid.map(|account| account.account).collect();
        let mut stages = Vec::new();
        let mut moves = Moves { ledger: self, movements: Movements::new(self, settlement), now, made: 0 };
        for (account, item, index) in accounts {
            if account.funds.is_some() {
                continue;
            }
            let moved = match account.net.is_negative() && !unpaid.is_empty() {
                true => Err(AdvanceFault::PayerUnfinished),
                false => moves.make(settlement, account, item)?,
            };
            match moved {
                Ok(stage) => {
                    unpaid.remove(&account.account);
                    stages.extend(stage);
                }
                Err(fault) => faults.push((index, fault)),
            }
        }
        if !stages.is_empty() {
            out.events.push(Event::SettlementAdvanced { id: settlement.id, accounts: stages });
            out.events.append(&mut moves.movements.events);
        }
        faults.sort_unstable_by_key(|(index, _)| *index);
        Ok(AdminOutcome::SettlementAdvanced { faults })
    }

    /// The amount that must remain as cover of a position, as after a withdrawal.
    fn cover_needed(&self, position: Amount) -> Amount {
        match self.config().funds_out_guard {
            FundsOutGuard::SettlementAccount => Amount::ZERO,
            FundsOutGuard::Position => position.max(Amount::ZERO),
        }
    }
}

/// The movements of one call.
struct Moves<'a> {
    ledger: &'a Ledger,
    movements: Movements<'a>,
    now: Timestamp,
    made: usize,
}

impl<'a> Moves<'a> {
    /// Finishes an account. Returns its new state, or `None` if nothing changes.
    fn make(
        &mut self,
        settlement: &Settlement,
        account: &SettlementAccount,
        item: &CoverItem,
    ) -> Result<Result<Option<SettlementStage>, AdvanceFault>, AdminRefusal> {
        let state = account.state_with_cover();
        if !settlement.may_advance(account, state) {
            return Ok(Err(AdvanceFault::StateNotAllowed));
        }
        if account.net == Amount::ZERO && account.state == state {
            return Ok(Ok(None));
        }
        if account.net != Amount::ZERO {
            let Some(cover) = self.account_of_cover(account) else {
                return Ok(Err(AdvanceFault::CoverAccountMissing));
            };
            match self.ledger.funds(item.funds) {
                Some(known) if !self.is_movement_of(known, cover, account) => {
                    return Ok(Err(AdvanceFault::FundsIdTaken));
                }
                Some(_) => self.movements.advance(account, state)?,
                None if !self.covers(cover, account, state) => return Ok(Err(AdvanceFault::CoverMissing)),
                None => {
                    self.movements.advance(account, state)?;
                    self.record(settlement, cover, account, item)?;
                }
            }
            let (id, account, funds) = (settlement.id, account.account, item.funds);
            self.movements.events.push(Event::CoverMoved { id, account, funds });
        } else {
            self.movements.advance(account, state)?;
        }
        Ok(Ok(Some(SettlementStage {
            account: account.account,
            state,
            reason: item.reason.clone(),
            external_reference: item.external_reference.clone(),
            cap_raised_to: None,
        })))
    }

    /// The owner's settlement account, which mirrors the owner's balance at the bank.
    fn account_of_cover(&self, account: &SettlementAccount) -> Option<&'a Account> {
        let settled = self.ledger.account_ref(account.account);
        let owner = self.ledger.participant(settled.participant);
        let id = owner.account(settled.currency, LedgerAccountTypeId::SETTLEMENT)?;
        Some(self.ledger.account_ref(id)).filter(|account| account.is_opened)
    }

    /// Whether a recorded movement equals an account's net amount and belongs to no other settlement.
    fn is_movement_of(&self, known: &FundsTransfer, cover: &Account, account: &SettlementAccount) -> bool {
        let (direction, amount) = direction_of(account.net);
        let mut others = self.ledger.settlements().iter().flat_map(|settlement| &settlement.accounts);
        (known.account, known.direction, known.amount) == (cover.id, direction, amount)
            && known.state == FundsState::Committed
            && others.all(|other| other.funds != Some(known.id))
    }

    /// Whether enough cover remains after a withdrawal. When the account becomes COMMITTED, the position falls by the
    /// same amount.
    fn covers(&self, cover: &Account, account: &SettlementAccount, state: SettlementState) -> bool {
        if account.net.is_negative() {
            return true;
        }
        let owner = self.ledger.participant(cover.participant);
        let position = owner.account(cover.currency, LedgerAccountTypeId::POSITION);
        let before = position.map_or(Amount::ZERO, |id| self.movements.balance(id));
        let is_relieved = position == Some(account.account) && self.movements.is_due(account, state);
        let relief = if is_relieved { account.net } else { Amount::ZERO };
        let needed = before.checked_sub(relief).map(|position| self.ledger.cover_needed(position));
        let left = self.movements.balance(cover.id).checked_add(account.net).map(Amount::negated);
        needed.zip(left).is_some_and(|(needed, left)| left >= needed)
    }

    /// Records the deposit, or the withdrawal as both reserved and committed.
    fn record(
        &mut self,
        settlement: &Settlement,
        cover: &Account,
        account: &SettlementAccount,
        item: &CoverItem,
    ) -> Result<(), AdminRefusal> {
        let ledger = self.ledger;
        if ledger.funds_len() + self.made >= ledger.config.limits.funds_transfers {
            return Err(AdminRefusal::FundsFull);
        }
        self.made += 1;
        let hub = ledger.participant(ParticipantId::HUB);
        let hub_account = hub
            .account(cover.currency, LedgerAccountTypeId::HUB_RECONCILIATION)
            .ok_or(AdminRefusal::ReconciliationAccountMissing { currency: cover.currency })?;
        let (direction, amount) = direction_of(account.net);
        let falls = if direction == FundsDirection::In { cover.id } else { hub_account };
        if !ledger.withdrawals.leave_room_at(falls, self.movements.balance(falls), amount.units().into()) {
            return Err(AdminRefusal::BalanceFull);
        }
        self.movements.add(cover.id, account.net)?;
        self.movements.add(hub_account, account.net.negated())?;
        let reference = item.external_reference.clone();
        let state = match direction {
            FundsDirection::In => FundsState::Committed,
            FundsDirection::Out => FundsState::Reserved,
        };
        self.movements.events.push(Event::FundsPrepared(FundsTransfer {
            id: item.funds,
            direction,
            participant: cover.participant,
            account: cover.id,
            hub_account,
            amount,
            currency: cover.currency,
            external_reference: reference.unwrap_or_else(|| format!("settlement {}", settlement.id).into()),
            reason: item.reason.clone(),
            extensions: None,
            // The movement has no request for funds. Such a request with the same id is a different one.
            fingerprint: [0; 16],
            state,
            created_at: self.now,
            changed_at: self.now,
            expires_at: self.now.plus_ms(ledger.config.internal_transfer_validity_ms),
        }));
        if direction == FundsDirection::Out {
            let (id, reason) = (item.funds, item.reason.clone());
            self.movements.events.push(Event::FundsEnded { id, state: FundsState::Committed, reason });
        }
        Ok(())
    }
}

fn direction_of(net: Amount) -> (FundsDirection, Amount) {
    if net.is_negative() { (FundsDirection::In, net.negated()) } else { (FundsDirection::Out, net) }
}
