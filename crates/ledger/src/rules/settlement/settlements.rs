//! Creates, advances and aborts settlements.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use upesi_types::{Amount, Currency};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId, SettlementId, WindowId};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::settlement::changes::{AdvanceFault, NewSettlement, SettlementAbort, SettlementAdvance};
use crate::settlement::model::{Delay, Granularity, SettlementModel};
use crate::settlement::remainder;
use crate::settlement::settlements::{
    CarriedRemainder, Settlement, SettlementAccount, SettlementNet, SettlementStage, SettlementState,
};
use crate::settlement::window::ContentRef;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_create_settlement(&self, new: &NewSettlement, out: &mut Decision) -> Outcome {
        let model = self.model_named(&new.model).filter(|model| model.is_active);
        let model = model.ok_or_else(|| AdminRefusal::SettlementModelUnknown { name: new.model.clone() })?;
        if model.granularity == Granularity::Gross || model.delay == Delay::Immediate {
            return Err(AdminRefusal::SettlementModelGross);
        }
        if new.windows.len() > self.config.limits.windows_per_settlement {
            return Err(AdminRefusal::SettlementWindowsMany);
        }
        let windows: BTreeSet<_> = new.windows.iter().copied().collect();
        let is_inapplicable = |id: &WindowId| self.contents_for(model, *id).next().is_none();
        let inapplicable: Vec<_> = windows.iter().copied().filter(is_inapplicable).collect();
        if windows.is_empty() || !inapplicable.is_empty() {
            return Err(AdminRefusal::WindowsInapplicable { windows: inapplicable });
        }
        let contents: Vec<_> = windows.into_iter().flat_map(|id| self.contents_for(model, id)).collect();
        let (accounts, remainders) = self.nets_of(&contents)?;
        let kept: usize = self.settlements().iter().map(|settlement| settlement.accounts.len()).sum();
        if self.settlements().len() >= self.config.limits.settlements
            || kept + accounts.len() > self.config.limits.settlement_accounts
        {
            return Err(AdminRefusal::SettlementsFull);
        }
        let id = SettlementId(self.settlements().len() as u32 + 1);
        let (model, reason) = (model.id, new.reason.clone());
        out.events.push(Event::SettlementCreated { id, model, reason, contents, accounts });
        if !remainders.is_empty() {
            out.events.push(Event::RemaindersCarried { id, accounts: remainders });
        }
        Ok(AdminOutcome::SettlementCreated(id))
    }

    /// The contents of a window that a model can settle now.
    fn contents_for<'a>(
        &'a self,
        model: &'a SettlementModel,
        window: WindowId,
    ) -> impl Iterator<Item = ContentRef> + 'a {
        let contents = self.window(window).into_iter().flat_map(|window| &window.contents);
        let can_settle = contents.filter(move |content| {
            content.state.can_be_settled()
                && content.kind == model.ledger_account_type
                && self.models_governing(content.currency).iter().any(|governing| governing.id == model.id)
        });
        can_settle.map(move |content| ContentRef { window, content: content.id })
    }

    /// The net amount of each account in whole units of its currency, and the remainders that are not zero. This
    /// includes accounts with a remainder from earlier settlements in these currencies.
    fn nets_of(
        &self,
        contents: &[ContentRef],
    ) -> Result<(Vec<SettlementNet>, Vec<CarriedRemainder>), AdminRefusal> {
        let mut exact = BTreeMap::<(Currency, LedgerAccountTypeId), BTreeMap<AccountId, i128>>::new();
        for content in contents.iter().filter_map(|place| self.windows.content(*place)) {
            let nets = exact.entry((content.currency, content.kind)).or_default();
            for net in &content.nets {
                *nets.entry(net.account).or_default() += net.units;
            }
        }
        for (id, amount) in &self.carried {
            let account = self.account_ref(*id);
            if let Some(nets) = exact.get_mut(&(account.currency, account.kind)) {
                *nets.entry(*id).or_default() += i128::from(amount.units());
            }
        }
        let (mut nets, mut remainders) = (Vec::new(), Vec::new());
        for ((currency, _), exact) in exact {
            let unit = currency.smallest_unit().unwrap_or(1);
            for (account, units) in remainder::whole_units(&exact, unit.into()) {
                let amount = |units| i64::try_from(units).ok().and_then(Amount::from_units);
                let net = amount(units).ok_or(AdminRefusal::BalanceFull)?;
                let carried_over = amount(exact[&account] - units).ok_or(AdminRefusal::BalanceFull)?;
                let carried_in = self.carried.get(&account).copied().unwrap_or(Amount::ZERO);
                nets.push(SettlementNet { account, net });
                if carried_in != Amount::ZERO || carried_over != Amount::ZERO {
                    remainders.push(CarriedRemainder { account, carried_in, carried_over });
                }
            }
        }
        nets.sort_unstable_by_key(|net| net.account);
        remainders.sort_unstable_by_key(|remainder| remainder.account);
        Ok((nets, remainders))
    }

    pub(crate) fn decide_advance_settlement(
        &self,
        advance: &SettlementAdvance,
        out: &mut Decision,
    ) -> Outcome {
        let settlement = self.settlement(advance.id).ok_or(AdminRefusal::SettlementUnknown)?;
        let mut seen = BTreeSet::new();
        let mut faults = Vec::new();
        let mut stages = Vec::new();
        let mut movements = Movements::new(self, settlement);
        for (item, index) in advance.items.iter().zip(0_u32..) {
            let account = self.check_account(settlement, item.participant, item.account, &mut seen);
            let allowed = account.and_then(|account| match settlement.may_advance(account, item.state) {
                true => Ok(account),
                false => Err(AdvanceFault::StateNotAllowed),
            });
            match allowed {
                Ok(account) => {
                    movements.advance(account, item.state)?;
                    stages.push(SettlementStage {
                        account: account.account,
                        state: item.state,
                        reason: item.reason.clone(),
                        external_reference: item.external_reference.clone(),
                        cap_raised_to: None,
                    });
                }
                Err(fault) => faults.push((index, fault)),
            }
        }
        if !stages.is_empty() {
            out.events.push(Event::SettlementAdvanced { id: settlement.id, accounts: stages });
            out.events.append(&mut movements.events);
        }
        Ok(AdminOutcome::SettlementAdvanced { faults })
    }

    /// Finds the account that a call names, and checks that the call names it only once.
    pub(crate) fn check_account<'a>(
        &self,
        settlement: &'a Settlement,
        participant: u32,
        number: u32,
        seen: &mut BTreeSet<AccountId>,
    ) -> Result<&'a SettlementAccount, AdvanceFault> {
        let account = AccountId::new(number).and_then(|id| settlement.account(id));
        let account = account.ok_or(AdvanceFault::AccountUnknown)?;
        if self.account_ref(account.account).participant.number() != participant {
            return Err(AdvanceFault::AccountOfAnother);
        }
        if !seen.insert(account.account) {
            return Err(AdvanceFault::AccountRepeated);
        }
        Ok(account)
    }

    pub(crate) fn decide_abort_settlement(&self, abort: &SettlementAbort, out: &mut Decision) -> Outcome {
        use SettlementState as S;
        let settlement = self.settlement(abort.id).ok_or(AdminRefusal::SettlementUnknown)?;
        if matches!(settlement.state, S::Committed | S::Settling | S::Settled) {
            return Err(AdminRefusal::SettlementStateChange);
        }
        if settlement.accounts.iter().any(|account| account.state == S::Committed) {
            return Err(AdminRefusal::SettlementCommitted);
        }
        let mut movements = Movements::new(self, settlement);
        for account in settlement.accounts.iter().filter(|account| account.state == S::Reserved) {
            movements.reverse(account)?;
        }
        out.events.push(Event::SettlementAborted {
            id: settlement.id,
            reason: abort.reason.clone(),
            external_reference: abort.external_reference.clone(),
        });
        out.events.append(&mut movements.events);
        Ok(AdminOutcome::Done)
    }
}

/// The postings of one call. Each is checked against the balances after the previous ones.
pub(crate) struct Movements<'a> {
    ledger: &'a Ledger,
    settlement: SettlementId,
    moves_money: bool,
    checks_liquidity: bool,
    balances: BTreeMap<AccountId, Amount>,
    pub(crate) events: Vec<Event>,
}

impl<'a> Movements<'a> {
    pub(crate) fn new(ledger: &'a Ledger, settlement: &Settlement) -> Self {
        let model = ledger.models().get((settlement.model as usize).wrapping_sub(1));
        Self {
            ledger,
            settlement: settlement.id,
            moves_money: model.is_some_and(|model| model.auto_position_reset),
            checks_liquidity: model.is_some_and(|model| model.require_liquidity_check),
            balances: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Makes the postings of a state change. Recipients are paid at RESERVED, before senders are relieved at COMMITTED.
    pub(crate) fn advance(
        &mut self,
        account: &SettlementAccount,
        state: SettlementState,
    ) -> Result<(), AdminRefusal> {
        match state {
            SettlementState::Reserved if self.is_due(account, state) && account.net.is_negative() => {
                self.raise_cap(account)?;
                self.post(account, account.net.negated())
            }
            SettlementState::Committed if self.is_due(account, state) && account.net > Amount::ZERO => {
                self.post(account, account.net.negated())
            }
            _ => Ok(()),
        }
    }

    /// Whether the state change may move an account's position.
    pub(crate) fn is_due(&self, account: &SettlementAccount, state: SettlementState) -> bool {
        self.moves_money && account.state != state
    }

    /// Reverses the payment of a recipient and the increase of its cap, unless an operator has set another cap since.
    fn reverse(&mut self, account: &SettlementAccount) -> Result<(), AdminRefusal> {
        if !self.moves_money || !account.net.is_negative() {
            return Ok(());
        }
        self.post(account, account.net)?;
        // Earlier versions stored the resulting cap instead of the amount of the increase.
        let limit = self.limit(account);
        let raised_before = account.cap_raised_to.is_some() && account.cap_raised_to == limit;
        let raised_by = account.cap_raised_by.or(raised_before.then_some(account.net.negated()));
        if let Some(amount) = raised_by {
            limit.and_then(|cap| cap.checked_sub(amount)).ok_or(AdminRefusal::BalanceFull)?;
            self.events.push(Event::CapReturned { id: self.settlement, account: account.account, amount });
        }
        Ok(())
    }

    /// Raises a recipient's cap by the amount that it is paid, if its position would otherwise exceed the cap.
    fn raise_cap(&mut self, account: &SettlementAccount) -> Result<(), AdminRefusal> {
        let Some(cap) = self.limit(account).filter(|_| self.checks_liquidity) else { return Ok(()) };
        let position = self.ledger.account_ref(account.account).balance;
        let amount = account.net.negated();
        if i128::from(position.units()) + i128::from(amount.units()) > i128::from(cap.units()) {
            cap.checked_add(amount).ok_or(AdminRefusal::BalanceFull)?;
            self.events.push(Event::CapRaised { id: self.settlement, account: account.account, amount });
        }
        Ok(())
    }

    /// The net debit cap of a position.
    fn limit(&self, account: &SettlementAccount) -> Option<Amount> {
        let account = self.ledger.account_ref(account.account);
        let is_position = account.kind == LedgerAccountTypeId::POSITION;
        let limit = self.ledger.participant(account.participant).limit(account.currency);
        limit.filter(|_| is_position).map(|limit| limit.value)
    }

    /// Posts an amount to the account, against the hub's settlement account.
    fn post(&mut self, account: &SettlementAccount, change: Amount) -> Result<(), AdminRefusal> {
        let currency = self.ledger.account_ref(account.account).currency;
        let hub = self.ledger.participant(ParticipantId::HUB);
        let hub = hub
            .account(currency, LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT)
            .ok_or(AdminRefusal::HubSettlementAccountMissing { currency })?;
        self.add(account.account, change)?;
        self.add(hub, change.negated())?;
        let (debit, credit, amount) = if change.is_negative() {
            (hub, account.account, change.negated())
        } else {
            (account.account, hub, change)
        };
        self.events.push(Event::Posted { debit, credit, amount });
        Ok(())
    }

    /// A balance after the previous postings.
    pub(crate) fn balance(&self, id: AccountId) -> Amount {
        self.balances.get(&id).copied().unwrap_or_else(|| self.ledger.account_ref(id).balance)
    }

    /// Adds an amount to a balance. The result must stay in range even after all reserved transfers lower it.
    pub(crate) fn add(&mut self, id: AccountId, change: Amount) -> Result<(), AdminRefusal> {
        let account = self.ledger.account_ref(id);
        let balance = self.balances.entry(id).or_insert(account.balance);
        let after = balance.checked_add(change).ok_or(AdminRefusal::BalanceFull)?;
        after.checked_sub(account.pending_credits).ok_or(AdminRefusal::BalanceFull)?;
        *balance = after;
        Ok(())
    }
}
