//! The auditor's own books of settlement: nets from the commits, and what each stage of a settlement must move.

use std::collections::{BTreeMap, BTreeSet};

use upesi_ledger::{
    AccountId, ContentId, ContentRef, Event, Ledger, NewContent, ParticipantId, Record, SettlementAccount,
    SettlementId, SettlementModel, SettlementNet, SettlementStage, SettlementState, WindowId, WindowState,
};
use upesi_types::Currency;

use super::books::Finding;
use super::scheme::SchemeBooks;

/// Nets by account, in ten-thousandths; positive when it owes.
type Nets = BTreeMap<AccountId, i128>;
/// A change that a stage makes, in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// An addition to one account, taken from the other.
    Posting(AccountId, AccountId, i128),
    /// A net debit cap.
    Cap(ParticipantId, Currency, i128),
}

/// What a model does at a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    pub resets_positions: bool,
    pub checks_liquidity: bool,
}

/// A position before a record, and what caps it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub owner: ParticipantId,
    pub currency: Currency,
    pub units: i128,
    pub cap: i128,
}

/// A content that is not settled.
#[derive(Clone, Debug)]
struct Content {
    window: WindowId,
    is_pending: bool,
    nets: Nets,
}

/// A settlement.
#[derive(Clone, Debug)]
struct Settlement {
    rules: Rules,
    is_aborted: bool,
    contents: Vec<ContentRef>,
    nets: Nets,
    states: BTreeMap<AccountId, SettlementState>,
    /// Caps that the liquidity check raised, as it left them.
    raised: BTreeMap<AccountId, i128>,
}

/// The books.
#[derive(Clone, Debug, Default)]
pub(super) struct SettlementBooks {
    /// Nets of the open window.
    open: Nets,
    open_transfers: u64,
    /// Transfers of each closed window.
    closed: Vec<u64>,
    contents_len: u32,
    contents: BTreeMap<ContentId, Content>,
    settlements: Vec<Settlement>,
}

impl SettlementBooks {
    /// Opens the books with a state that is taken as given.
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
            let raised =
                |item: &SettlementAccount| Some((item.account, i128::from(item.cap_raised_to?.units())));
            books.settlements.push(Settlement {
                rules: model.map_or_else(Rules::default, Rules::of),
                raised: accounts.clone().filter_map(raised).collect(),
                is_aborted: settlement.state == SettlementState::Aborted,
                contents: settlement.contents.clone(),
                nets: accounts.clone().map(|item| (item.account, i128::from(item.net.units()))).collect(),
                states: accounts.map(|item| (item.account, item.state)).collect(),
            });
        }
        books
    }

    /// Enters a commit: both legs, in the window that is open.
    pub(super) fn committed(&mut self, payer: AccountId, payee: AccountId, units: i128) {
        add(&mut self.open, payer, payee, units);
        self.open_transfers += 1;
    }

    /// Enters what a record says of windows and settlements. The error says what contradicts the books.
    pub(super) fn enter(
        &mut self,
        seq: u64,
        record: &Record<'_>,
        scheme: &SchemeBooks,
        findings: &mut Vec<String>,
    ) -> Finding {
        for event in &record.events {
            let expected = match event {
                Event::WindowClosed { id, next, contents, .. } => {
                    self.closed((*id, *next), contents, scheme)?;
                    continue;
                }
                Event::SettlementCreated { id, model, contents, accounts, .. } => {
                    self.created(*id, scheme.rules(*model), contents, accounts)?;
                    continue;
                }
                Event::SettlementAdvanced { id, accounts } => self.advanced(*id, accounts, scheme)?,
                Event::SettlementAborted { id, .. } => self.aborted(*id, scheme)?,
                _ => continue,
            };
            let found: Vec<Effect> = record.events.iter().filter_map(effect).collect();
            let of_kind = |is_cap: bool, effects: &[Effect]| {
                let wanted = |effect: &&Effect| matches!(effect, Effect::Cap(..)) == is_cap;
                effects.iter().filter(wanted).copied().collect::<Vec<_>>()
            };
            for (is_cap, what, whose) in [(false, "moves", "nets"), (true, "caps", "liquidity check")] {
                let (found, expected) = (of_kind(is_cap, &found), of_kind(is_cap, &expected));
                if found != expected {
                    let (is, should) = (found.len(), expected.len());
                    findings.push(format!(
                        "record {seq}: its settlement {what} {is} amounts that are not the {should} of its {whose}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn closed(
        &mut self,
        (id, next): (WindowId, WindowId),
        new: &[NewContent],
        scheme: &SchemeBooks,
    ) -> Finding {
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
            return Err(format!("window {id} is closed with other contents than its transfers have"));
        }
        for (number, (_, nets)) in numbered {
            self.contents_len = number;
            self.contents.insert(ContentId(number), Content { window: id, is_pending: false, nets });
        }
        self.closed.push(std::mem::take(&mut self.open_transfers));
        Ok(())
    }

    fn created(
        &mut self,
        id: SettlementId,
        rules: Rules,
        contents: &[ContentRef],
        accounts: &[SettlementNet],
    ) -> Finding {
        if id.0 as usize != self.settlements.len() + 1 {
            return Err(format!("settlement {id} follows settlement {}", self.settlements.len()));
        }
        let mut nets = Nets::new();
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
                *nets.entry(*account).or_default() += units;
            }
        }
        let theirs = accounts.iter().map(|item| (item.account, i128::from(item.net.units())));
        if contents.is_empty() || !theirs.eq(nets.iter().map(|(account, units)| (*account, *units))) {
            return Err(format!("settlement {id} has other nets than its windows"));
        }
        let states = nets.keys().map(|account| (*account, SettlementState::Pending)).collect();
        let contents = contents.to_vec();
        let raised = BTreeMap::new();
        self.settlements.push(Settlement { rules, is_aborted: false, contents, nets, states, raised });
        Ok(())
    }

    /// Enters new states of accounts. Returns what they must move, and the caps that they must raise.
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
            if cap_raised_to.map(|cap| i128::from(cap.units())) != raised.map(|(_, cap)| cap) {
                return Err(format!(
                    "settlement {id}: account {} has its cap raised to another amount than its position needs",
                    account.number()
                ));
            }
            if let Some((effect, cap)) = raised {
                settlement.raised.insert(*account, cap);
                moved.push(effect);
            }
            if is_due {
                moved.push(movement(*account, -net, scheme)?);
            }
        }
        let settled = |account: &AccountId| settlement.states.get(account) == Some(&SettlementState::Settled);
        for place in &settlement.contents {
            if self.contents.get(&place.content).is_some_and(|content| content.nets.keys().all(settled)) {
                self.contents.remove(&place.content);
            }
        }
        Ok(moved)
    }

    /// Enters an abort. Returns what it must give back, and the caps that it must lower.
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
                    let is_as_raised =
                        |position: &Position| settlement.raised.get(account) == Some(&position.cap);
                    let lowered = position.filter(is_as_raised);
                    moved.extend(lowered.map(|at| Effect::Cap(at.owner, at.currency, at.cap + net)));
                }
                SettlementState::Reserved => {}
                other => return Err(format!("settlement {id} is aborted with accounts {}", other.as_str())),
            }
            *state = SettlementState::Aborted;
        }
        settlement.is_aborted = true;
        for place in &settlement.contents {
            if let Some(content) = self.contents.get_mut(&place.content) {
                content.is_pending = false;
            }
        }
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
        for (mine, theirs) in self.settlements.iter().zip(ledger.settlements()) {
            let states = theirs.accounts.iter().map(|item| (item.account, item.state));
            if !states.eq(mine.states.iter().map(|(account, state)| (*account, *state))) {
                findings.push(format!("settlement {} has other states than its events", theirs.id));
            }
        }
    }
}

impl Settlement {
    /// The cap that an account needs once it is paid its net, if that is above the present one.
    fn raised_cap(&self, account: AccountId, scheme: &SchemeBooks) -> Option<(Effect, i128)> {
        let paid = -self.nets.get(&account)?;
        let Position { owner, currency, units, cap } =
            scheme.position(account).filter(|_| self.rules.checks_liquidity)?;
        let raised = cap + paid;
        (units + paid > cap).then_some((Effect::Cap(owner, currency, raised), raised))
    }
}

impl Rules {
    /// What a model does at a stage.
    pub(super) fn of(model: &SettlementModel) -> Self {
        Self { resets_positions: model.auto_position_reset, checks_liquidity: model.require_liquidity_check }
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

/// The posting that adds so much to an account, against the hub's account for settlement.
fn movement(account: AccountId, units: i128, scheme: &SchemeBooks) -> Result<Effect, String> {
    let currency = scheme.kind(account).map(|(currency, _)| currency);
    let hub = currency.and_then(|currency| scheme.hub_account(currency));
    let hub =
        hub.ok_or_else(|| format!("account {} has no settlement account of the hub", account.number()))?;
    Ok(if units < 0 { Effect::Posting(hub, account, -units) } else { Effect::Posting(account, hub, units) })
}

fn effect(event: &Event) -> Option<Effect> {
    match event {
        Event::Posted { debit, credit, amount } => {
            Some(Effect::Posting(*debit, *credit, i128::from(amount.units())))
        }
        Event::LimitSet { participant, currency, value, .. } => {
            Some(Effect::Cap(*participant, *currency, i128::from(value.units())))
        }
        _ => None,
    }
}
