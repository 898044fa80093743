//! The auditor's own books of settlement: nets from the commits, and the movements of each stage of a settlement.

use std::collections::{BTreeMap, BTreeSet};

use upesi_ledger::{
    AccountId, CarriedRemainder, ContentId, ContentRef, Event, Ledger, LedgerAccountTypeId, NewContent,
    ParticipantId, Record, SettlementAccount, SettlementId, SettlementNet, SettlementStage, SettlementState,
    WindowId, WindowState,
};
use upesi_types::{Currency, TransferId};

use super::entry::CheckResult;
use super::scheme::{Position, Rules, SchemeBooks};

/// Nets by account, in ten-thousandths; positive if it owes.
type Nets = BTreeMap<AccountId, i128>;
/// A change by a stage, in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Added to one account, and subtracted from the other.
    Posting(AccountId, AccountId, i128),
    /// A net debit cap.
    Cap(ParticipantId, Currency, i128),
}

/// A content that is not settled.
#[derive(Clone, Debug)]
struct Content {
    window: WindowId,
    is_pending: bool,
    nets: Nets,
}

/// A net debit cap that the liquidity check of a settlement raised.
#[derive(Clone, Copy, Debug)]
enum Raise {
    /// An earlier version raised the cap to this value. An abort lowers it if it still has this value.
    To(i128),
    /// The cap was raised by this amount. An abort lowers it, unless an operator has set another cap since.
    By(i128),
}

#[derive(Clone, Debug)]
struct Settlement {
    rules: Rules,
    is_aborted: bool,
    contents: Vec<ContentRef>,
    nets: Nets,
    states: BTreeMap<AccountId, SettlementState>,
    raised: BTreeMap<AccountId, Raise>,
    /// The movements of funds that moved the cover of nets.
    funds: BTreeMap<AccountId, TransferId>,
    /// Remainders from earlier settlements, and of this one, below the smallest units of currencies.
    carried_in: Nets,
    carried_over: Nets,
}

/// The books of settlement.
#[derive(Clone, Debug, Default)]
pub(super) struct SettlementBooks {
    /// Nets of the open window.
    open: Nets,
    open_transfers: u64,
    /// Number of transfers of each closed window.
    closed: Vec<u64>,
    contents_len: u32,
    contents: BTreeMap<ContentId, Content>,
    settlements: Vec<Settlement>,
    /// Remainders of ended settlements for the next ones.
    carried: Nets,
}

impl SettlementBooks {
    /// Opens the books with a trusted state.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let mut books = Self::default();
        for window in ledger.windows() {
            if window.state == WindowState::Open {
                for pair in ledger.window_pairs(window).unwrap_or_default().iter() {
                    add(&mut books.open, pair.payer, pair.payee, pair.sum.units);
                    books.open_transfers += pair.sum.transfers;
                }
                continue;
            }
            books.closed.push(window.contents.iter().map(|content| content.sum.transfers).sum());
            for content in &window.contents {
                books.contents_len += 1;
                let nets = content.nets.iter().map(|net| (net.account, net.units)).collect();
                let is_pending = content.state == WindowState::Pending;
                if content.state != WindowState::Settled {
                    books.contents.insert(content.id, Content { window: window.id, is_pending, nets });
                }
            }
        }
        for settlement in ledger.settlements() {
            let model = ledger.models().get((settlement.model as usize).wrapping_sub(1));
            let accounts = settlement.accounts.iter();
            let raised = |item: &SettlementAccount| {
                let by = item.cap_raised_by.map(|by| Raise::By(by.units().into()));
                Some((item.account, by.or(item.cap_raised_to.map(|cap| Raise::To(cap.units().into())))?))
            };
            let carried = |of: fn(&SettlementAccount) -> i64| {
                let carried = accounts.clone().map(move |item| (item.account, i128::from(of(item))));
                carried.filter(|(_, units)| *units != 0).collect::<Nets>()
            };
            books.settlements.push(Settlement {
                rules: model.map_or_else(Rules::default, Rules::of),
                raised: accounts.clone().filter_map(raised).collect(),
                funds: accounts.clone().filter_map(|item| Some((item.account, item.funds?))).collect(),
                carried_in: carried(|item| item.carried_in.units()),
                carried_over: carried(|item| item.carried_over.units()),
                is_aborted: settlement.state == SettlementState::Aborted,
                contents: settlement.contents.clone(),
                nets: accounts.clone().map(|item| (item.account, i128::from(item.net.units()))).collect(),
                states: accounts.map(|item| (item.account, item.state)).collect(),
            });
        }
        books.carried = ledger.carried().map(|(id, amount)| (id, amount.units().into())).collect();
        books
    }

    /// Enters a commit: both legs, in the open window.
    pub(super) fn committed(&mut self, payer: AccountId, payee: AccountId, units: i128) {
        add(&mut self.open, payer, payee, units);
        self.open_transfers += 1;
    }

    /// Enters a record's events about windows and settlements. The error describes a contradiction to the books.
    pub(super) fn enter(
        &mut self,
        seq: u64,
        record: &Record<'_>,
        scheme: &SchemeBooks,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        for event in &record.events {
            let expected = match event {
                Event::WindowClosed { id, next, contents, .. } => {
                    self.closed(*id, *next, contents, scheme)?;
                    continue;
                }
                Event::SettlementCreated { id, model, contents, accounts, .. } => {
                    let remainders = remainders_of(*id, &record.events);
                    let (id, rules) = (*id, scheme.rules(*model));
                    self.created(CreatedSettlement { id, rules, contents, accounts, remainders }, scheme)?;
                    continue;
                }
                Event::LimitSet { participant, currency, .. } => {
                    self.forget_raises(*participant, *currency, scheme);
                    continue;
                }
                Event::SettlementAdvanced { id, accounts } => self.advanced(*id, accounts, scheme)?,
                Event::SettlementAborted { id, .. } => self.aborted(*id, scheme)?,
                _ => continue,
            };
            let found: Vec<Effect> = record.events.iter().filter_map(|event| effect(event, scheme)).collect();
            let of_kind = |is_cap: bool, effects: &[Effect]| {
                let wanted = |effect: &&Effect| matches!(effect, Effect::Cap(..)) == is_cap;
                effects.iter().filter(wanted).copied().collect::<Vec<_>>()
            };
            for (is_cap, what, whose) in [(false, "moves", "nets"), (true, "caps", "liquidity check")] {
                let (found, expected) = (of_kind(is_cap, &found), of_kind(is_cap, &expected));
                if found != expected {
                    let (is, should) = (found.len(), expected.len());
                    findings.push(format!(
                        "record {seq}: its settlement {what} {is} amounts, which differ from the {should} amounts of its {whose}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn closed(
        &mut self,
        id: WindowId,
        next: WindowId,
        new: &[NewContent],
        scheme: &SchemeBooks,
    ) -> CheckResult {
        let open = self.closed.len() as u32 + 1;
        if (id.0, next.0) != (open, open + 1) || self.open_transfers == 0 {
            return Err(format!("window {id} is closed and {next} opened, while {open} is open"));
        }
        let mut contents = BTreeMap::<_, Nets>::new();
        for (account, units) in std::mem::take(&mut self.open) {
            let kind = scheme.kind(account).ok_or_else(|| format!("window {id} has an unknown account"))?;
            contents.entry(kind).or_default().insert(account, units);
        }
        let numbered: Vec<_> = (self.contents_len + 1..).zip(contents).collect();
        let mine = numbered.iter().map(|(number, ((currency, kind), _))| {
            let (id, currency, kind) = (ContentId(*number), *currency, *kind);
            NewContent { id, currency, kind }
        });
        if !mine.eq(new.iter().copied()) {
            return Err(format!("window {id} is closed with contents that differ from its transfers"));
        }
        for (number, (_, nets)) in numbered {
            self.contents_len = number;
            self.contents.insert(ContentId(number), Content { window: id, is_pending: false, nets });
        }
        self.closed.push(std::mem::take(&mut self.open_transfers));
        Ok(())
    }

    /// Removes the raises of a cap because an operator set another one, which no abort lowers.
    fn forget_raises(&mut self, owner: ParticipantId, currency: Currency, scheme: &SchemeBooks) {
        let is_own = |account: AccountId| {
            let position = scheme.position(account);
            position.is_some_and(|position| position.owner == owner && position.currency == currency)
        };
        for settlement in &mut self.settlements {
            settlement.raised.retain(|account, raise| matches!(raise, Raise::To(_)) || !is_own(*account));
        }
    }

    fn created(&mut self, created: CreatedSettlement<'_>, scheme: &SchemeBooks) -> CheckResult {
        let CreatedSettlement { id, rules, contents, accounts, remainders } = created;
        if id.0 as usize != self.settlements.len() + 1 {
            return Err(format!("settlement {id} follows settlement {}", self.settlements.len()));
        }
        let mut exact = Nets::new();
        for place in contents {
            let content = self.contents.get_mut(&place.content);
            let content = content.filter(|content| content.window == place.window && !content.is_pending);
            let Some(content) = content else {
                return Err(format!(
                    "settlement {id} settles content {} of window {}, which cannot be settled",
                    place.content, place.window
                ));
            };
            content.is_pending = true;
            for (account, units) in &content.nets {
                *exact.entry(*account).or_default() += units;
            }
        }
        let carried_in = self.take_carried(&exact, scheme);
        for (account, units) in &carried_in {
            *exact.entry(*account).or_default() += units;
        }
        let of = |side: fn(&CarriedRemainder) -> i64| {
            let carried = remainders.iter().map(|item| (item.account, i128::from(side(item))));
            carried.filter(|(_, units)| *units != 0).collect::<Nets>()
        };
        if carried_in != of(|item| item.carried_in.units()) {
            return Err(format!(
                "settlement {id} carries in remainders that differ from the remainders of earlier settlements"
            ));
        }
        let carried_over = of(|item| item.carried_over.units());
        let nets: Nets = accounts.iter().map(|item| (item.account, i128::from(item.net.units()))).collect();
        let mut sum = nets.clone();
        carried_over.iter().for_each(|(account, units)| *sum.entry(*account).or_default() += units);
        if contents.is_empty() || nets.len() != accounts.len() || sum != exact {
            return Err(format!("the nets of settlement {id} differ from its windows"));
        }
        check_whole(id, &nets, &carried_over, remainders, scheme)?;
        let states = nets.keys().map(|account| (*account, SettlementState::Pending)).collect();
        let contents = contents.to_vec();
        let (raised, funds) = (BTreeMap::new(), BTreeMap::new());
        self.settlements.push(Settlement {
            rules,
            is_aborted: false,
            contents,
            nets,
            states,
            raised,
            funds,
            carried_in,
            carried_over,
        });
        Ok(())
    }

    /// Takes the waiting remainders of the currencies and types that a settlement settles.
    fn take_carried(&mut self, settled: &Nets, scheme: &SchemeBooks) -> Nets {
        let kinds: BTreeSet<(Currency, LedgerAccountTypeId)> =
            settled.keys().filter_map(|account| scheme.kind(*account)).collect();
        let is_settled =
            |account: &AccountId| scheme.kind(*account).is_some_and(|kind| kinds.contains(&kind));
        let taken: Nets = self
            .carried
            .iter()
            .filter(|(account, _)| is_settled(account))
            .map(|(id, units)| (*id, *units))
            .collect();
        self.carried.retain(|account, _| !taken.contains_key(account));
        taken
    }

    fn carry(&mut self, remainders: &Nets) {
        for (account, units) in remainders {
            *self.carried.entry(*account).or_default() += units;
        }
        self.carried.retain(|_, units| *units != 0);
    }

    /// Enters a movement of funds as an account's net; `units` is positive for a withdrawal.
    pub(super) fn cover_moved(
        &mut self,
        id: SettlementId,
        account: AccountId,
        funds: TransferId,
        units: i128,
    ) -> CheckResult {
        let taken = self
            .settlements
            .iter()
            .flat_map(|settlement| settlement.funds.values())
            .any(|known| *known == funds);
        let settlement = known(&mut self.settlements, id)?;
        let number = account.number();
        let net = settlement.nets.get(&account).copied();
        if net != Some(units) || units == 0 || taken || settlement.funds.contains_key(&account) {
            return Err(format!("settlement {id}: funds {funds} are not the movement of account {number}"));
        }
        let state = settlement.states[&account];
        if !matches!(state, SettlementState::Committed | SettlementState::Settled) {
            return Err(format!(
                "settlement {id}: the cover of account {number} moves although its state is {}",
                state.as_str()
            ));
        }
        let is_unpaid =
            |(account, net): (&AccountId, &i128)| *net > 0 && !settlement.funds.contains_key(account);
        if units < 0 && settlement.nets.iter().any(is_unpaid) {
            return Err(format!(
                "settlement {id}: account {number} is credited before all debtors have paid"
            ));
        }
        settlement.funds.insert(account, funds);
        Ok(())
    }

    /// Enters new states of accounts. Returns the required movements, and the caps to raise.
    fn advanced(
        &mut self,
        id: SettlementId,
        stages: &[SettlementStage],
        scheme: &SchemeBooks,
    ) -> Result<Vec<Effect>, String> {
        let settlement = known(&mut self.settlements, id)?;
        let furthest_behind = settlement.states.values().map(|state| state.number()).min().unwrap_or(0);
        let mut moved = Vec::new();
        let mut seen = BTreeSet::new();
        for SettlementStage { account, state, cap_raised_to, .. } in stages {
            let before =
                *settlement.states.get(account).filter(|_| seen.insert(*account)).ok_or_else(|| {
                    format!("settlement {id} has no account {}, or moves it twice", account.number())
                })?;
            if before == *state {
                continue;
            }
            if before.next() != Some(*state) || before.number() > furthest_behind {
                let (before, state) = (before.as_str(), state.as_str());
                return Err(format!(
                    "settlement {id}: account {} goes from {before} to {state}",
                    account.number()
                ));
            }
            settlement.states.insert(*account, *state);
            let net = settlement.nets[account];
            let is_due = match state {
                SettlementState::Reserved => net < 0,
                SettlementState::Committed => net > 0,
                _ => false,
            };
            let is_due = is_due && settlement.rules.resets_positions;
            let raised = settlement.raised_cap(*account, scheme).filter(|_| is_due && net < 0);
            let cap_raised_to = cap_raised_to.map(|cap| i128::from(cap.units()));
            if cap_raised_to.is_some_and(|cap| raised.map(|(_, raised)| raised) != Some(cap)) {
                return Err(format!(
                    "settlement {id}: the cap of account {} is raised to a different amount than its position requires",
                    account.number()
                ));
            }
            if let Some((effect, _)) = raised {
                settlement.raised.insert(*account, cap_raised_to.map_or(Raise::By(-net), Raise::To));
                moved.push(effect);
            }
            if is_due {
                moved.push(movement(*account, -net, scheme)?);
            }
        }
        let settled = |account: &AccountId| settlement.states.get(account) == Some(&SettlementState::Settled);
        let is_final = settlement.states.keys().all(settled);
        let left = if is_final { std::mem::take(&mut settlement.carried_over) } else { Nets::new() };
        let settled = |account: &AccountId| settlement.states.get(account) == Some(&SettlementState::Settled);
        for place in &settlement.contents {
            if self.contents.get(&place.content).is_some_and(|content| content.nets.keys().all(settled)) {
                self.contents.remove(&place.content);
            }
        }
        self.carry(&left);
        Ok(moved)
    }

    /// Enters an abort. Returns the movements to reverse, and the caps to lower.
    fn aborted(&mut self, id: SettlementId, scheme: &SchemeBooks) -> Result<Vec<Effect>, String> {
        let settlement = known(&mut self.settlements, id)?;
        if settlement.is_aborted {
            return Ok(Vec::new());
        }
        let mut moved = Vec::new();
        for (account, state) in &mut settlement.states {
            let net = settlement.nets[account];
            match state {
                SettlementState::Pending | SettlementState::Recorded => {}
                SettlementState::Reserved if net < 0 && settlement.rules.resets_positions => {
                    moved.push(movement(*account, net, scheme)?);
                    let position = scheme.position(*account);
                    let lowered = position.and_then(|position| {
                        let cap = match settlement.raised.remove(account)? {
                            Raise::By(units) => position.cap - units,
                            Raise::To(cap) if cap == position.cap => position.cap + net,
                            Raise::To(_) => return None,
                        };
                        Some(Effect::Cap(position.owner, position.currency, cap))
                    });
                    moved.extend(lowered);
                }
                SettlementState::Reserved => {}
                other => return Err(format!("settlement {id} is aborted with accounts {}", other.as_str())),
            }
            *state = SettlementState::Aborted;
        }
        settlement.is_aborted = true;
        let given_back = std::mem::take(&mut settlement.carried_in);
        for place in &settlement.contents {
            if let Some(content) = self.contents.get_mut(&place.content) {
                content.is_pending = false;
            }
        }
        self.carry(&given_back);
        Ok(moved)
    }

    /// Compares the books with the replayed ledger; each difference is a sentence.
    pub(super) fn compare(&self, ledger: &Ledger, findings: &mut Vec<String>) {
        let booked: Vec<u64> = self.closed.iter().copied().chain([self.open_transfers]).collect();
        let found = ledger.windows().iter().map(|window| match window.state {
            WindowState::Open => transfers_of(ledger, window),
            _ => window.contents.iter().map(|content| content.sum.transfers).sum(),
        });
        let found: Vec<u64> = found.collect();
        if booked != found {
            findings.push(format!(
                "transfers per settlement window: {booked:?} were committed, the ledger has {found:?}"
            ));
        }
        for content in ledger.windows().iter().flat_map(|window| &window.contents) {
            let mine = self.contents.get(&content.id);
            let theirs = content.nets.iter().map(|net| (net.account, net.units));
            let is_as_booked = match (mine, content.state) {
                (None, state) => state == WindowState::Settled,
                (Some(mine), state) => {
                    mine.is_pending == (state == WindowState::Pending)
                        && theirs.eq(mine.nets.iter().map(|(account, units)| (*account, *units)))
                }
            };
            if !is_as_booked {
                findings.push(format!(
                    "content {} of a settlement window is {}, with other nets or another state than its events",
                    content.id,
                    content.state.as_str()
                ));
            }
        }
        let carried = ledger.carried().map(|(account, amount)| (account, i128::from(amount.units())));
        if !carried.eq(self.carried.iter().map(|(account, units)| (*account, *units))) {
            findings.push("the remainders of settlements differ from their events".to_owned());
        }
        for (mine, theirs) in self.settlements.iter().zip(ledger.settlements()) {
            let funds = theirs.accounts.iter().filter_map(|item| Some((item.account, item.funds?)));
            if !funds.eq(mine.funds.iter().map(|(account, funds)| (*account, *funds))) {
                findings.push(format!(
                    "the movements of cover of settlement {} differ from its events",
                    theirs.id
                ));
            }
            let states = theirs.accounts.iter().map(|item| (item.account, item.state));
            if !states.eq(mine.states.iter().map(|(account, state)| (*account, *state))) {
                findings.push(format!("the states of settlement {} differ from its events", theirs.id));
            }
        }
    }
}

impl Settlement {
    /// The cap that an account needs once it is paid its net, if that is above the current one.
    fn raised_cap(&self, account: AccountId, scheme: &SchemeBooks) -> Option<(Effect, i128)> {
        let paid = -self.nets.get(&account)?;
        let Position { owner, currency, units, cap } =
            scheme.position(account).filter(|_| self.rules.checks_liquidity)?;
        let raised = cap + paid;
        (units + paid > cap).then_some((Effect::Cap(owner, currency, raised), raised))
    }
}

fn transfers_of(ledger: &Ledger, window: &upesi_ledger::Window) -> u64 {
    ledger.window_pairs(window).unwrap_or_default().iter().map(|pair| pair.sum.transfers).sum()
}

fn add(nets: &mut Nets, payer: AccountId, payee: AccountId, units: i128) {
    *nets.entry(payer).or_default() += units;
    *nets.entry(payee).or_default() -= units;
}

fn known(settlements: &mut [Settlement], id: SettlementId) -> Result<&mut Settlement, String> {
    let index = (id.0 as usize).checked_sub(1);
    let found = index.and_then(|index| settlements.get_mut(index));
    found.ok_or_else(|| format!("settlement {id} does not exist"))
}

/// The posting that adds an amount to an account, against the hub's account for settlement.
fn movement(account: AccountId, units: i128, scheme: &SchemeBooks) -> Result<Effect, String> {
    let currency = scheme.kind(account).map(|(currency, _)| currency);
    let hub = currency.and_then(|currency| scheme.hub_account(currency));
    let hub =
        hub.ok_or_else(|| format!("account {} has no settlement account of the hub", account.number()))?;
    Ok(if units < 0 { Effect::Posting(hub, account, -units) } else { Effect::Posting(account, hub, units) })
}

/// A settlement as its creation records it.
struct CreatedSettlement<'a> {
    id: SettlementId,
    rules: Rules,
    contents: &'a [ContentRef],
    accounts: &'a [SettlementNet],
    remainders: &'a [CarriedRemainder],
}

/// The remainders at the creation of a settlement.
fn remainders_of(settlement: SettlementId, events: &[Event]) -> &[CarriedRemainder] {
    let found = events.iter().find_map(|event| match event {
        Event::RemaindersCarried { id, accounts } if *id == settlement => Some(&**accounts),
        _ => None,
    });
    found.unwrap_or_default()
}

/// Checks that a settlement with remainders has nets of whole units that sum to zero, and leaves less than a unit of
/// each account. Settlements of earlier versions have no remainders and any nets.
fn check_whole(
    id: SettlementId,
    nets: &Nets,
    carried_over: &Nets,
    remainders: &[CarriedRemainder],
    scheme: &SchemeBooks,
) -> CheckResult {
    let mut sums = BTreeMap::<Currency, i128>::new();
    for (account, units) in nets {
        let Some((currency, _)) = scheme.kind(*account) else {
            return Err(format!("settlement {id} has an unknown account"));
        };
        *sums.entry(currency).or_default() += units;
        let unit = currency.smallest_unit().map_or(1, i128::from);
        let over = carried_over.get(account).copied().unwrap_or(0);
        if !remainders.is_empty() && (units % unit != 0 || over.abs() >= unit) {
            return Err(format!(
                "settlement {id}: the net of account {} is not rounded correctly",
                account.number()
            ));
        }
    }
    match sums.values().any(|sum| *sum != 0) {
        true => Err(format!("the nets of settlement {id} do not sum to zero")),
        false => Ok(()),
    }
}

fn effect(event: &Event, scheme: &SchemeBooks) -> Option<Effect> {
    let shifted = |account: AccountId, units: i128| {
        let Position { owner, currency, cap, .. } = scheme.position(account)?;
        Some(Effect::Cap(owner, currency, cap + units))
    };
    match event {
        Event::CapRaised { account, amount, .. } => shifted(*account, amount.units().into()),
        Event::CapReturned { account, amount, .. } => shifted(*account, -i128::from(amount.units())),
        Event::Posted { debit, credit, amount } => {
            Some(Effect::Posting(*debit, *credit, i128::from(amount.units())))
        }
        Event::LimitSet { participant, currency, value, .. } => {
            Some(Effect::Cap(*participant, *currency, i128::from(value.units())))
        }
        _ => None,
    }
}
