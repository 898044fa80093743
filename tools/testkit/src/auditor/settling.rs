//! The auditor's books of settlement: windows from commits, nets from windows, and the movements of each stage.

use std::collections::{BTreeMap, BTreeSet};

use upesi_ledger::{
    AdminCommand, CarriedRemainder, ContentId, ContentRef, Event, FeePayer, FeeRule, FundsDirection,
    Granularity, Ledger, NewContent, Record, SettlementId, SettlementNet, SettlementStage, SettlementState,
    WindowId, WindowState,
};
use upesi_types::Timestamp;

use super::Findings;
use super::account::{AccountKey, HUB, INTERCHANGE_FEE, Leg, MULTILATERAL, POSITION, currency_of};

/// The sum that one account's committed transfers owe another, and their number.
type Paid = BTreeMap<(AccountKey, AccountKey), (i128, u64)>;
/// Nets in ten-thousandths; positive if the account owes.
type Nets = BTreeMap<AccountKey, i128>;

/// A change of balances or caps that a record causes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The amount is added to the first account and taken from the second.
    Moved(AccountKey, AccountKey, i128),
    /// A participant's cap in a currency rises by this amount.
    Cap(u32, u8, i128),
}

/// Queries of the settlement books to the other books.
pub(super) trait Accounts {
    fn key(&self, account: u32) -> Option<AccountKey>;
    fn balance(&self, key: AccountKey) -> i128;
    fn cap(&self, owner: u32, currency: u8) -> i128;
}

#[derive(Clone, Copy, Debug)]
struct Model {
    is_active: bool,
    /// Whether it governs a single currency; the other model is the default.
    is_own: bool,
    is_gross: bool,
    resets_positions: bool,
    checks_liquidity: bool,
}

/// The part of a closed window that concerns one type of account.
#[derive(Debug)]
struct Content {
    window: u32,
    /// Currency and type of its accounts.
    kind: (u8, u8),
    nets: Nets,
    state: WindowState,
}

#[derive(Debug)]
struct Settlement {
    model: Model,
    contents: Vec<ContentId>,
    nets: Nets,
    states: BTreeMap<AccountKey, SettlementState>,
    /// The amount that the liquidity check added to each cap. Removed when an operator sets the cap.
    raised: BTreeMap<AccountKey, i128>,
    /// Accounts whose cover has moved.
    paid: BTreeSet<AccountKey>,
    /// Amounts below the currency's smallest unit from earlier settlements.
    carried_in: Nets,
    /// Amounts below the currency's smallest unit for later settlements.
    carried_over: Nets,
    is_aborted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SettlementCounts {
    pub(crate) windows: u64,
    pub(crate) settlements: u64,
    /// Records that moved only some of a settlement's accounts to a state.
    pub(crate) pieces: u64,
    pub(crate) settled: u64,
    pub(crate) aborted: u64,
    pub(crate) caps_raised: u64,
    pub(crate) caps_lowered: u64,
    pub(crate) settled_at_once: u64,
    pub(crate) fees: u64,
}

/// Requests of operators, whether they succeeded or not.
#[derive(Debug, Default)]
pub(crate) struct OperatorRequests {
    closes: BTreeSet<u32>,
    /// The windows of each requested settlement.
    settlements: BTreeSet<Vec<u32>>,
    /// Settlement, account, state.
    stages: BTreeSet<(u32, u32, u8)>,
    aborts: BTreeSet<u32>,
}

impl OperatorRequests {
    /// Notes an operator's request.
    pub(crate) fn ask(&mut self, command: &AdminCommand) {
        match command {
            AdminCommand::CloseWindow { id, .. } => {
                self.closes.insert(id.0);
            }
            AdminCommand::CreateSettlement(new) => {
                self.settlements.insert(numbers(new.windows.iter().copied()));
            }
            AdminCommand::AdvanceSettlement(advance) => {
                let items = advance.items.iter();
                self.stages.extend(items.map(|item| (advance.id.0, item.account, item.state.number())));
            }
            AdminCommand::MoveCover(cover) => {
                for state in [SettlementState::Committed, SettlementState::Settled] {
                    let items = cover.items.iter();
                    self.stages.extend(items.map(|item| (cover.id.0, item.account, state.number())));
                }
            }
            AdminCommand::AbortSettlement(abort) => {
                self.aborts.insert(abort.id.0);
            }
            _ => {}
        }
    }

    fn explains(&self, event: &Event) -> bool {
        match event {
            Event::WindowClosed { id, .. } => self.closes.contains(&id.0),
            Event::SettlementCreated { contents, .. } => {
                self.settlements.contains(&numbers(contents.iter().map(|place| place.window)))
            }
            Event::SettlementAdvanced { id, accounts } => accounts
                .iter()
                .all(|stage| self.stages.contains(&(id.0, stage.account.number(), stage.state.number()))),
            Event::SettlementAborted { id, .. } => self.aborts.contains(&id.0),
            _ => true,
        }
    }
}

/// Numbers of windows in ascending order, without duplicates.
fn numbers(windows: impl Iterator<Item = WindowId>) -> Vec<u32> {
    windows.map(|id| id.0).collect::<BTreeSet<_>>().into_iter().collect()
}

#[derive(Debug, Default)]
pub(super) struct SettlementBooks {
    models: Vec<Model>,
    open: Paid,
    closed: Vec<Paid>,
    contents: Vec<Content>,
    settlements: Vec<Settlement>,
    /// Amounts that ended settlements pass on to the next ones.
    carried: Nets,
    fee_rules: Vec<FeeRule>,
    pub(super) counts: SettlementCounts,
}

/// A settlement as its creation records it.
struct CreatedSettlement<'a> {
    id: SettlementId,
    model: u32,
    contents: &'a [ContentRef],
    accounts: &'a [SettlementNet],
    remainders: &'a [CarriedRemainder],
}

impl SettlementBooks {
    /// The fees of a transfer between two DFSPs in the scheme's currency: debtor, creditor and amount.
    pub(super) fn fees(&self, payer: u32, payee: u32, amount: i128, at: Timestamp) -> Vec<Leg> {
        let mut fees = Vec::new();
        for rule in &self.fee_rules {
            let is_over = rule.until.is_some_and(|until| until <= at);
            // Fee rules of this world name no DFSPs and round to whole hundredths.
            let share = amount * i128::from(rule.terms.rate);
            let hundredths = share / 100_000_000 + i128::from(share % 100_000_000 >= 50_000_000);
            let fee = hundredths * 100 + i128::from(rule.terms.fixed.units());
            if at < rule.from || is_over || amount < i128::from(rule.terms.amount_min.units()) || fee == 0 {
                continue;
            }
            let (from, to) = match rule.terms.paid_by {
                FeePayer::Payer => (payer, payee),
                FeePayer::Payee => (payee, payer),
            };
            let account = |owner| AccountKey { owner, kind: INTERCHANGE_FEE, currency: 0 };
            fees.push(Leg { debtor: account(from), creditor: account(to), amount: fee });
        }
        fees
    }

    /// Whether the model that governs a currency settles each transfer by its commit. The scheme's currency may have
    /// its own model.
    pub(super) fn settles_commits(&self, currency: u8) -> bool {
        let active =
            || self.models.iter().filter(|model| model.is_active && (currency == 0 || !model.is_own));
        active().find(|model| model.is_own).or(active().next()).is_some_and(|model| model.is_gross)
    }

    /// Enters both legs of a commit in the open window.
    pub(super) fn committed(&mut self, payer: AccountKey, payee: AccountKey, amount: i128) {
        let paid = self.open.entry((payer, payee)).or_default();
        *paid = (paid.0 + amount, paid.1 + 1);
    }

    /// Enters the changes of models, windows and settlements in a record, before the other books take its effects.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    pub(super) fn enter(
        &mut self,
        record: &Record<'_>,
        accounts: &impl Accounts,
        asked: &OperatorRequests,
        findings: &mut Findings,
    ) {
        let mut expected = Vec::new();
        let mut is_settling = false;
        for event in &record.events {
            let entered = match event {
                Event::SettlementModelCreated(model) => {
                    self.models.push(Model {
                        is_active: model.is_active,
                        is_own: model.currency.is_some(),
                        is_gross: model.granularity == Granularity::Gross,
                        resets_positions: model.auto_position_reset,
                        checks_liquidity: model.require_liquidity_check,
                    });
                    continue;
                }
                Event::SettlementModelActivitySet { id, is_active } => {
                    self.models[*id as usize - 1].is_active = *is_active;
                    continue;
                }
                Event::FeeRuleCreated(rule) => {
                    self.fee_rules.push(rule.clone());
                    continue;
                }
                Event::FeeRuleEnded { id, until } => {
                    self.fee_rules[*id as usize - 1].until = Some(*until);
                    continue;
                }
                Event::WindowClosed { id, next, contents, .. } => self.closed(*id, *next, contents),
                Event::SettlementCreated { id, model, contents, accounts: nets, .. } => {
                    let remainders = record.events.iter().find_map(|event| match event {
                        Event::RemaindersCarried { accounts, .. } => Some(&**accounts),
                        _ => None,
                    });
                    let remainders = remainders.unwrap_or_default();
                    let created =
                        CreatedSettlement { id: *id, model: *model, contents, accounts: nets, remainders };
                    self.created(created, accounts)
                }
                Event::LimitSet { participant, currency, .. } => {
                    let key = AccountKey::position(participant.number(), currency_of(*currency));
                    for settlement in &mut self.settlements {
                        settlement.raised.remove(&key);
                    }
                    continue;
                }
                Event::CoverMoved { id, account, .. } => {
                    let moved = record.events.iter().filter_map(|event| match event {
                        Event::FundsPrepared(funds) => Some(funds),
                        _ => None,
                    });
                    let amounts = moved.map(|funds| {
                        let amount = i128::from(funds.amount.units());
                        (
                            funds.participant.number(),
                            if funds.direction == FundsDirection::In { -amount } else { amount },
                        )
                    });
                    self.cover_moved(*id, accounts.key(account.number()), amounts.collect())
                }
                Event::SettlementAdvanced { id, accounts: stages } => {
                    self.advanced(*id, stages, accounts).map(|effects| expected.extend(effects))
                }
                Event::SettlementAborted { id, .. } => {
                    self.aborted(*id).map(|effects| expected.extend(effects))
                }
                _ => continue,
            };
            is_settling = true;
            if !asked.explains(event) {
                findings.add(format!("settlement: no operator asked for {event:?}"));
            }
            if let Err(finding) = entered {
                findings.add(format!("settlement: {finding}"));
            }
        }
        if is_settling {
            let mut found: Vec<_> =
                record.events.iter().filter_map(|event| effect(event, accounts)).collect();
            found.sort();
            expected.sort();
            if found != expected {
                findings.add(format!("settlement: a record moves {found:?}, its stages are {expected:?}"));
            }
        }
    }

    fn closed(&mut self, id: WindowId, next: WindowId, contents: &[NewContent]) -> Result<(), String> {
        let open = self.closed.len() as u32 + 1;
        if (id.0, next.0) != (open, open + 1) || self.open.is_empty() {
            let count = self.open.len();
            return Err(format!(
                "window {id} is closed and {next} is opened, but {open} is open, with {count} paid in it"
            ));
        }
        let paid = std::mem::take(&mut self.open);
        let mut nets = BTreeMap::<(u8, u8), Nets>::new();
        for ((payer, payee), (amount, _)) in &paid {
            let nets = nets.entry((payer.currency, payer.kind)).or_default();
            *nets.entry(*payer).or_default() += amount;
            *nets.entry(*payee).or_default() -= amount;
        }
        let first = self.contents.len() as u32 + 1;
        let mine = (first..).zip(nets.keys().copied());
        if !mine.eq(contents
            .iter()
            .map(|content| (content.id.0, (currency_of(content.currency), content.kind.0))))
        {
            return Err(format!("the contents of window {id} differ from its transfers"));
        }
        for (kind, nets) in nets {
            self.contents.push(Content { window: id.0, kind, nets, state: WindowState::Closed });
        }
        self.closed.push(paid);
        self.counts.windows += 1;
        Ok(())
    }

    fn created(&mut self, created: CreatedSettlement<'_>, keys: &impl Accounts) -> Result<(), String> {
        let CreatedSettlement { id, model, contents, accounts, remainders } = created;
        let mut nets = Nets::new();
        for place in contents {
            let content = self.contents.get_mut(place.content.0 as usize - 1);
            let content =
                content.ok_or_else(|| format!("settlement {id} settles a window that is not closed"))?;
            let is_free = matches!(content.state, WindowState::Closed | WindowState::Aborted);
            if content.window != place.window.0 || !is_free {
                return Err(format!("settlement {id} settles window {} again", place.window));
            }
            content.state = WindowState::Pending;
            for (account, amount) in &content.nets {
                *nets.entry(*account).or_default() += amount;
            }
        }
        let kinds: BTreeSet<_> = nets.keys().map(|key| (key.kind, key.currency)).collect();
        let (taken, left): (Nets, Nets) = std::mem::take(&mut self.carried)
            .into_iter()
            .partition(|(key, _)| kinds.contains(&(key.kind, key.currency)));
        self.carried = left;
        taken.iter().for_each(|(key, units)| *nets.entry(*key).or_default() += units);
        let side = |of: fn(&CarriedRemainder) -> i64| {
            let known = remainders
                .iter()
                .filter_map(|one| Some((keys.key(one.account.number())?, i128::from(of(one)))));
            known.filter(|(_, units)| *units != 0).collect::<Nets>()
        };
        let carried_over = side(|one| one.carried_over.units());
        let carried_in = side(|one| one.carried_in.units());
        let mine = nets;
        let nets: Option<Nets> = accounts
            .iter()
            .map(|net| Some((keys.key(net.account.number())?, i128::from(net.net.units()))))
            .collect();
        let nets = nets.ok_or_else(|| format!("settlement {id} has unknown accounts"))?;
        let mut theirs = nets.clone();
        carried_over.iter().for_each(|(key, units)| *theirs.entry(*key).or_default() += units);
        if theirs != mine || id.0 as usize != self.settlements.len() + 1 {
            return Err(format!("settlement {id} has the nets {theirs:?}, its windows have {mine:?}"));
        }
        // Banks move whole hundredths.
        let is_fine =
            nets.values().any(|net| net % 100 != 0) || carried_over.values().any(|over| over.abs() >= 100);
        if carried_in != taken || is_fine || nets.values().sum::<i128>() != 0 {
            return Err(format!(
                "settlement {id} has the nets {nets:?}, in {carried_in:?}, over {carried_over:?}"
            ));
        }
        let model = self.models.get(model as usize - 1).copied();
        self.settlements.push(Settlement {
            model: model.ok_or_else(|| format!("settlement {id} has no model"))?,
            contents: contents.iter().map(|place| place.content).collect(),
            states: nets.keys().map(|account| (*account, SettlementState::Pending)).collect(),
            nets,
            raised: BTreeMap::new(),
            paid: BTreeSet::new(),
            carried_in,
            carried_over,
            is_aborted: false,
        });
        self.counts.settlements += 1;
        Ok(())
    }

    /// Enters new states of accounts. Returns the movements that are due: of recipients at RESERVED, of senders at
    /// COMMITTED.
    fn advanced(
        &mut self,
        id: SettlementId,
        stages: &[SettlementStage],
        accounts: &impl Accounts,
    ) -> Result<Vec<Effect>, String> {
        let settlement = known(&mut self.settlements, id)?;
        let least = settlement.states.values().map(|state| state.number()).min().unwrap_or(0);
        let mut effects = Vec::new();
        let mut steps = 0;
        for stage in stages {
            let key = accounts.key(stage.account.number());
            let key = key.filter(|key| settlement.states.contains_key(key));
            let key = key.ok_or_else(|| format!("settlement {id} advances an unknown account"))?;
            let before = settlement.states[&key];
            if before == stage.state {
                continue;
            }
            if before.next() != Some(stage.state) || before.number() > least {
                return Err(format!("settlement {id}: {key:?} goes from {before:?} to {:?}", stage.state));
            }
            steps += 1;
            settlement.states.insert(key, stage.state);
            let net = settlement.nets[&key];
            let moves = match stage.state {
                SettlementState::Reserved => net < 0,
                SettlementState::Committed => net > 0,
                _ => false,
            };
            let raised = if moves && settlement.model.resets_positions {
                effects.push(moved(key, -net));
                let (cap, needed) = (accounts.cap(key.owner, key.currency), accounts.balance(key) - net);
                let is_capped = key.kind == POSITION && settlement.model.checks_liquidity;
                let is_short = net < 0 && is_capped && needed > cap;
                is_short.then_some(-net)
            } else {
                None
            };
            if let Some(by) = raised {
                effects.push(Effect::Cap(key.owner, key.currency, by));
                settlement.raised.insert(key, by);
                self.counts.caps_raised += 1;
            }
        }
        self.counts.pieces += u64::from(steps > 0 && steps < settlement.states.len());
        if steps > 0 {
            self.settle_contents(id);
        }
        Ok(effects)
    }

    /// Marks each content as settled if all its accounts are.
    fn settle_contents(&mut self, id: SettlementId) {
        let settlement = &mut self.settlements[id.0 as usize - 1];
        let states = &settlement.states;
        let is_settled = |key: &AccountKey| states.get(key) == Some(&SettlementState::Settled);
        let mut left = Nets::new();
        if states.keys().all(is_settled) {
            self.counts.settled += 1;
            left = std::mem::take(&mut settlement.carried_over);
        }
        for content in &settlement.contents {
            let content = &mut self.contents[content.0 as usize - 1];
            if content.nets.keys().all(is_settled) {
                content.state = WindowState::Settled;
            }
        }
        self.carry(left);
    }

    fn carry(&mut self, remainders: Nets) {
        for (key, units) in remainders {
            *self.carried.entry(key).or_default() += units;
        }
        self.carried.retain(|_, units| *units != 0);
    }

    /// Enters that the cover of an account moved, as one of the movements of funds in its record.
    fn cover_moved(
        &mut self,
        id: SettlementId,
        key: Option<AccountKey>,
        moved: Vec<(u32, i128)>,
    ) -> Result<(), String> {
        let settlement = known(&mut self.settlements, id)?;
        let net = key.and_then(|key| Some((key, *settlement.nets.get(&key)?)));
        let (key, net) = net.ok_or_else(|| format!("settlement {id} moves cover of an unknown account"))?;
        let is_finished = settlement.states[&key].number() >= SettlementState::Committed.number();
        if !moved.contains(&(key.owner, net)) || !is_finished || !settlement.paid.insert(key) {
            return Err(format!("settlement {id} moves cover of {key:?}, which owes {net}, by {moved:?}"));
        }
        let mut owing = settlement.nets.iter().filter(|(_, net)| **net > 0);
        match net < 0 && owing.any(|(key, _)| !settlement.paid.contains(key)) {
            true => Err(format!("settlement {id} credits {key:?} before all have paid")),
            false => Ok(()),
        }
    }

    /// Enters the abort of a settlement. Returns the effects that it must reverse.
    fn aborted(&mut self, id: SettlementId) -> Result<Vec<Effect>, String> {
        let settlement = known(&mut self.settlements, id)?;
        if settlement.is_aborted {
            return Ok(Vec::new());
        }
        let mut effects = Vec::new();
        for (key, state) in &mut settlement.states {
            let net = settlement.nets[key];
            if state.number() > SettlementState::Reserved.number() {
                return Err(format!("settlement {id} is aborted with {key:?} in {state:?}"));
            }
            if *state == SettlementState::Reserved && net < 0 && settlement.model.resets_positions {
                effects.push(moved(*key, net));
                if let Some(by) = settlement.raised.remove(key) {
                    effects.push(Effect::Cap(key.owner, key.currency, -by));
                    self.counts.caps_lowered += 1;
                }
            }
            *state = SettlementState::Aborted;
        }
        settlement.is_aborted = true;
        let given_back = std::mem::take(&mut settlement.carried_in);
        for content in &settlement.contents {
            self.contents[content.0 as usize - 1].state = WindowState::Aborted;
        }
        self.carry(given_back);
        self.counts.aborted += 1;
        Ok(effects)
    }

    /// Compares the ledger's windows and settlements with these books.
    pub(super) fn compare(&self, ledger: &Ledger, accounts: &impl Accounts, findings: &mut Findings) {
        let key = |id: upesi_ledger::AccountId| accounts.key(id.number()).unwrap_or_default();
        let mine: Vec<_> = self.closed.iter().chain([&self.open]).collect();
        for (index, window) in ledger.windows().iter().enumerate() {
            let pairs = ledger.window_pairs(window).unwrap_or_default();
            let theirs: Paid = pairs
                .iter()
                .map(|pair| ((key(pair.payer), key(pair.payee)), (pair.sum.units, pair.sum.transfers)))
                .collect();
            if mine.get(index).copied() != Some(&theirs) {
                let mine = mine.get(index);
                findings.add(format!("settlement: window {} holds {theirs:?}, not {mine:?}", window.id));
            }
        }
        if ledger.windows().len() != mine.len() || ledger.settlements().len() != self.settlements.len() {
            findings.add("settlement: the windows and settlements differ from the recorded ones".to_owned());
        }
        let contents = ledger.windows().iter().flat_map(|window| &window.contents);
        for (mine, theirs) in self.contents.iter().zip(contents) {
            let nets: Nets = theirs.nets.iter().map(|net| (key(net.account), net.units)).collect();
            let kind = (currency_of(theirs.currency), theirs.kind.0);
            if (theirs.state, kind) != (mine.state, mine.kind) || nets != mine.nets {
                findings.add(format!("settlement: content {} is {theirs:?}, not {mine:?}", theirs.id));
            }
        }
        for (mine, theirs) in self.settlements.iter().zip(ledger.settlements()) {
            let states = theirs.accounts.iter().map(|one| (key(one.account), one.state));
            let nets = theirs.accounts.iter().map(|one| (key(one.account), i128::from(one.net.units())));
            if states.collect::<BTreeMap<_, _>>() != mine.states || nets.collect::<Nets>() != mine.nets {
                findings.add(format!("settlement: settlement {} is {theirs:?}, not {mine:?}", theirs.id));
            }
        }
    }
}

fn known(settlements: &mut [Settlement], id: SettlementId) -> Result<&mut Settlement, String> {
    let found = settlements.get_mut((id.0 as usize).wrapping_sub(1));
    found.ok_or_else(|| format!("settlement {id} does not exist"))
}

/// An amount that is added to an account and taken from the hub's account.
const fn moved(account: AccountKey, amount: i128) -> Effect {
    let hub = AccountKey { owner: HUB, kind: MULTILATERAL, currency: account.currency };
    if amount < 0 { Effect::Moved(hub, account, -amount) } else { Effect::Moved(account, hub, amount) }
}

fn effect(event: &Event, accounts: &impl Accounts) -> Option<Effect> {
    let key = |id: upesi_ledger::AccountId| accounts.key(id.number()).unwrap_or_default();
    match event {
        Event::Posted { debit, credit, amount } => {
            Some(Effect::Moved(key(*debit), key(*credit), i128::from(amount.units())))
        }
        Event::CapRaised { account, amount, .. } => {
            let AccountKey { owner, currency, .. } = key(*account);
            Some(Effect::Cap(owner, currency, i128::from(amount.units())))
        }
        Event::CapReturned { account, amount, .. } => {
            let AccountKey { owner, currency, .. } = key(*account);
            Some(Effect::Cap(owner, currency, -i128::from(amount.units())))
        }
        _ => None,
    }
}
