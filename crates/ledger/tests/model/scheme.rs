//! A naive second implementation of the rules: balances are recomputed from the list of events, in plain integers.

use std::collections::BTreeMap;

use upesi_ledger::command::FulfilState;

use super::ask::{
    Ask, AskPrepare, EXPIRY_MAX_MS, Given, Known, NAMES, Name, VALIDITY_MS, Who, named, put_fingerprint,
};
use super::fees::{FeeRule, Flow};
use super::settle::{Closed, Settling};

type Print = [u8; 16];
/// Messages: lines such as `alpha PUT COMMITTED`, or `= refused 3100` for an operator.
pub type Told = Vec<String>;

#[derive(Default)]
pub struct Scheme {
    on_us: bool,
    confirms: bool,
    guards_positions: bool,
    /// Whether the default model is for gross settlement. It governs while the currency's own model is off.
    has_gross: bool,
    pub is_model_off: bool,
    has_other_type: bool,
    pub members: BTreeMap<Name, Member>,
    pub deals: BTreeMap<u8, Deal>,
    pub movements: BTreeMap<u8, Movement>,
    /// Whether fees have their own model. The model of positions then stays in effect.
    pub has_fee_model: bool,
    pub fee_rules: BTreeMap<u8, FeeRule>,
    pub windows: Vec<Closed>,
    pub settlings: Vec<Settling>,
    /// Undelivered callbacks, oldest first, and whether each is parked.
    pub owed: BTreeMap<Name, Vec<bool>>,
}

#[derive(Default, Clone)]
pub struct Member {
    is_inactive: bool,
    has_accounts: bool,
    is_opened: bool,
    is_position_active: bool,
    cap: Option<i64>,
    begins_with: i64,
    has_endpoint: bool,
}

pub struct Deal {
    print: Print,
    pub payer: Name,
    pub payee: Name,
    pub units: i64,
    expires_ms: i64,
    pub end: End,
    /// The window that was open at its commit; none if the commit settled it.
    pub window: Option<u32>,
    /// Fees that its commit charged.
    pub fees: Vec<Flow>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    Open,
    /// Ended by the fulfil with this fingerprint.
    Committed(Print),
    /// Ended by a fulfil, by an abort, or by its deadline.
    Aborted(Option<(Kind, Print)>),
    /// Ended by an operator.
    Expired,
    /// Never reserved.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Fulfil,
    Abort,
}

pub struct Movement {
    said: (Name, bool, i64),
    pub state: &'static str,
    expires_ms: i64,
}

impl Scheme {
    pub fn new([on_us, confirms, guards_positions, has_gross, has_fee_model]: [bool; 5]) -> Self {
        Self { on_us, confirms, guards_positions, has_gross, has_fee_model, ..Self::default() }
    }

    const fn is_ungoverned(&self) -> bool {
        self.is_model_off && !self.has_gross
    }

    /// All amounts in a member's position.
    pub fn position(&self, name: Name) -> i64 {
        let mut sum = self.members.get(name).map_or(0, |member| member.begins_with);
        for deal in self.deals.values() {
            let (debits, credits) = match deal.end {
                End::Open => (true, false),
                End::Committed(_) => (deal.window.is_some(), deal.window.is_some()),
                End::Aborted(_) | End::Expired | End::Refused => (false, false),
            };
            sum += if debits && deal.payer == name { deal.units } else { 0 };
            sum -= if credits && deal.payee == name { deal.units } else { 0 };
        }
        sum + self.settled(name, false)
    }

    pub fn begins_with(&self, name: Name) -> i64 {
        self.members.get(name).map_or(0, |member| member.begins_with)
    }

    /// Transfers that their commit settled, outside of any window.
    pub fn paid_at_once(&self) -> impl Iterator<Item = &Deal> {
        let deals = self.deals.values();
        deals.filter(|deal| matches!(deal.end, End::Committed(_)) && deal.window.is_none())
    }

    /// The negated balance of the settlement account.
    pub fn cover(&self, name: Name) -> i64 {
        let gross = self.paid_at_once().map(|deal| {
            let [paid, got] = [deal.payer, deal.payee].map(|party| i64::from(party == name) * deal.units);
            got - paid
        });
        let gross: i64 = gross.sum();
        let of_name = self.movements.values().filter(|movement| movement.said.0 == name);
        of_name
            .map(|movement| match movement {
                Movement { said: (_, true, units), .. } => *units,
                Movement { state: "ABORTED_REJECTED", .. } => 0,
                Movement { said: (_, _, units), .. } => -units,
            })
            .sum::<i64>()
            + gross
    }

    /// Balance of the hub's reconciliation account.
    pub fn reconciliation(&self) -> i64 {
        let settled = self.movements.values().filter(|movement| movement.state == "COMMITTED");
        settled.map(|movement| if movement.said.1 { movement.said.2 } else { -movement.said.2 }).sum()
    }

    pub fn cap(&self, name: Name) -> i64 {
        self.members.get(name).and_then(|member| member.cap).unwrap_or(0)
    }

    /// Executes a request. Returns the messages.
    pub fn hear(&mut self, ask: &Ask, known: Option<&Known>, now_ms: i64) -> Told {
        let told = match ask {
            Ask::Prepare(_) | Ask::Resend { .. } => panic!("prepares are heard by hear_prepare"),
            Ask::Fulfil { id, .. } | Ask::Abort { id, .. } => self.hear_put(*id, ask, known, now_ms),
            Ask::Get { id, from } => self.hear_get(*id, from),
            Ask::Tick => self.tick(now_ms),
            Ask::Expire { id } => self.expire(*id),
            Ask::Delivered(name) => {
                self.owed.remove(name);
                vec![]
            }
            Ask::Park(name) => {
                if let Some(first) = self.owed.get_mut(name).and_then(|owed| owed.first_mut()) {
                    *first = true;
                }
                vec![]
            }
            Ask::Redeliver(name) => {
                let parked = self.owed.get_mut(name).into_iter().flatten().filter(|is_parked| **is_parked);
                let count = parked.map(|is_parked| *is_parked = false).count();
                vec![if count == 0 { refused(3200) } else { done() }]
            }
            Ask::Funds { id, name, is_deposit, units } => {
                vec![self.move_funds(*id, (name, *is_deposit, *units), now_ms)]
            }
            Ask::EndFunds { id, name, is_commit } => vec![self.end_funds(*id, name, *is_commit, now_ms)],
            Ask::FeeRule(_) | Ask::EndFee { .. } => vec![self.hear_rule(ask, now_ms)],
            Ask::CloseWindow(_) | Ask::Settle { .. } | Ask::Advance { .. } | Ask::AbortSettlement(_) => {
                vec![self.operate_settlement(ask)]
            }
            Ask::Drain | Ask::Restart => vec![],
            operation => vec![self.operate(operation)],
        };
        self.note(&told);
        told
    }

    /// Records the callbacks.
    fn note(&mut self, told: &Told) {
        for line in told.iter().filter(|line| !line.starts_with('=')) {
            let target =
                NAMES.into_iter().find(|name| line.starts_with(&format!("{name} "))).expect("a member");
            self.owed.entry(target).or_default().push(false);
        }
    }

    pub fn hear_prepare(&mut self, ask: &AskPrepare, from: Name, expires_ms: i64, now_ms: i64) -> Told {
        if !self.members.contains_key(from) {
            return unknown_sender();
        }
        let print = ask.fingerprint(expires_ms);
        let mut told = Vec::new();
        let mut tell = |members: &BTreeMap<Name, Member>, target: Name, what: &str| {
            if members.contains_key(target) {
                told.push(format!("{target} {what}"));
            }
        };
        if let Some(deal) = self.deals.get(&ask.id) {
            let answer = match () {
                () if deal.print != print => "ERROR 3106",
                () if from != ask.payer => "ERROR 3100",
                () => &format!("PUT {}", deal.public_state()),
            };
            tell(&self.members, from, answer);
        } else {
            let refusal = self.judge(ask, from, expires_ms, now_ms);
            match refusal {
                Some(code) => tell(&self.members, from, &format!("ERROR {code}")),
                None => tell(&self.members, ask.payee, "POST"),
            }
            // A member that joins later is not a party to earlier rejected transfers.
            let known = |name| if self.members.contains_key(name) { name } else { "" };
            let deal = Deal {
                print,
                payer: known(ask.payer),
                payee: known(ask.payee),
                units: ask.units.unwrap_or(0),
                expires_ms,
                end: if refusal.is_some() { End::Refused } else { End::Open },
                window: None,
                fees: vec![],
            };
            self.deals.insert(ask.id, deal);
        }
        self.note(&told);
        told
    }

    /// The reason why a prepare is rejected, if it is.
    fn judge(&self, ask: &AskPrepare, from: Name, expires_ms: i64, now_ms: i64) -> Option<u16> {
        let is_active = |name| self.members.get(name).is_some_and(|member: &Member| !member.is_inactive);
        let can_hold = |name| self.members.get(name).is_some_and(|member| member.is_position_active);
        let is_valid = from == ask.payer
            && ask.units.is_some_and(|units| units > 0)
            && is_active(ask.payer)
            && is_active(ask.payee)
            && ask.has_condition
            && expires_ms >= now_ms
            && expires_ms <= now_ms + EXPIRY_MAX_MS
            && (self.on_us || !ask.payer.eq_ignore_ascii_case(ask.payee))
            && can_hold(ask.payer)
            && can_hold(ask.payee);
        let after = self.position(ask.payer) + ask.units.unwrap_or(0);
        match () {
            () if !is_valid => Some(3100),
            () if self.is_ungoverned() => Some(6000),
            () if after > self.cover(ask.payer) => Some(4001),
            () if after > self.cap(ask.payer) => Some(4200),
            () => None,
        }
    }

    /// A PUT, and the fees of its commit.
    fn hear_put(&mut self, id: u8, ask: &Ask, known: Option<&Known>, now_ms: i64) -> Told {
        let was_open = self.deals.get(&id).is_some_and(|deal| deal.end == End::Open);
        let told = self.answer_put(id, ask, known, now_ms);
        let committed = self.deals.get(&id).filter(|deal| matches!(deal.end, End::Committed(_)));
        if let Some(deal) = committed.filter(|_| was_open) {
            let fees = self.fees_of(deal, now_ms);
            self.deals.entry(id).and_modify(|deal| deal.fees = fees);
        }
        told
    }

    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn answer_put(&mut self, id: u8, ask: &Ask, known: Option<&Known>, now_ms: i64) -> Told {
        let print = put_fingerprint(ask);
        let (from, to, kind) = match ask {
            Ask::Fulfil { from, to, .. } => (*from, *to, Kind::Fulfil),
            Ask::Abort { from, to, .. } => (*from, *to, Kind::Abort),
            other => panic!("{other:?} is no PUT"),
        };
        // A source in different case is the member with that name.
        let source = named(from, known).unwrap_or("ghost");
        let sender = self.members.keys().copied().find(|name| name.eq_ignore_ascii_case(source));
        let Some(sender) = sender else { return unknown_sender() };
        let refuse = |code: u16| vec![format!("{sender} ERROR {code}")];
        let Some(deal) = self.deals.get_mut(&id) else { return refuse(2001) };
        let waits_for_patch = matches!(ask, Ask::Fulfil { state: FulfilState::Reserved, is_v10: false, .. });
        if let Ask::Fulfil { state, is_v10, .. } = ask {
            let answers = *state == FulfilState::Committed || (*state == FulfilState::Reserved && !is_v10);
            if !answers {
                return refuse(3100);
            }
        }
        if sender != deal.payee {
            return refuse(3100);
        }
        let is_open = deal.end == End::Open;
        let patch = |deal: &Deal, mut told: Told| {
            if waits_for_patch {
                told.push(format!("{} PATCH {}", deal.payee, deal.public_state()));
            }
            told
        };
        let is_rightly_addressed = !matches!(to, Who::Nobody)
            && named(to, known).is_some_and(|to| to.eq_ignore_ascii_case(deal.payer));
        if is_open && !is_rightly_addressed {
            deal.end = End::Aborted(Some((kind, print)));
            return patch(deal, vec![format!("{} ERROR 3100", deal.payer)]);
        }
        if !is_rightly_addressed {
            return patch(deal, refuse(3100));
        }
        let before = match deal.end {
            End::Committed(print) => Some((Kind::Fulfil, print)),
            End::Aborted(by) => by,
            End::Open | End::Expired | End::Refused => None,
        };
        match before.filter(|(before, _)| *before == kind) {
            Some((_, before)) if before == print && waits_for_patch => return patch(deal, vec![]),
            Some((_, before)) if before == print => {
                return vec![format!("{sender} PUT {}", deal.public_state())];
            }
            Some(_) => return refuse(3106),
            None if !is_open => return patch(deal, refuse(3100)),
            None => {}
        }
        let (payer, payee) = (deal.payer, deal.payee);
        let is_late = deal.expires_ms <= now_ms;
        let is_right = !matches!(ask, Ask::Fulfil { fulfilment, .. } if *fulfilment != Given::Right);
        let confirmed = self.confirms && payer != payee;
        match ask {
            _ if is_right && is_late => {
                deal.end = End::Aborted(Some((kind, print)).filter(|(kind, _)| *kind == Kind::Fulfil));
                patch(deal, vec![format!("{payer} ERROR 3303"), format!("{payee} ERROR 3303")])
            }
            Ask::Fulfil { .. } if !is_right => {
                deal.end = End::Aborted(Some((kind, print)));
                patch(deal, vec![format!("{payer} ERROR 3100")])
            }
            Ask::Fulfil { .. } => {
                deal.end = End::Committed(print);
                let is_gross = self.has_gross && self.is_model_off;
                deal.window = (!is_gross).then_some(self.windows.len() as u32 + 1);
                if waits_for_patch {
                    return patch(deal, vec![format!("{payer} PUT COMMITTED")]);
                }
                let mut told = vec![format!("{payer} PUT forwarded")];
                told.extend(confirmed.then(|| format!("{payee} PUT confirmed")));
                told
            }
            Ask::Abort { code: 7001, .. } => {
                deal.end = End::Aborted(Some((kind, print)));
                vec![format!("{payer} ERROR 3100")]
            }
            _ => {
                deal.end = End::Aborted(Some((kind, print)));
                let mut told = vec![format!("{payer} ERROR forwarded")];
                told.extend(confirmed.then(|| format!("{payee} ERROR confirmed")));
                told
            }
        }
    }

    fn hear_get(&self, id: u8, from: Name) -> Told {
        let Some(member) = self.members.get(from) else { return unknown_sender() };
        let answer = match self.deals.get(&id) {
            _ if member.is_inactive => "ERROR 3100".to_owned(),
            None => "ERROR 3208".to_owned(),
            Some(deal) if deal.payer != from && deal.payee != from => "ERROR 3000".to_owned(),
            Some(deal) => format!("PUT {}", deal.public_state()),
        };
        vec![format!("{from} {answer}")]
    }

    fn tick(&mut self, now_ms: i64) -> Told {
        let mut told = Vec::new();
        for deal in self.deals.values_mut() {
            if deal.end == End::Open && deal.expires_ms < now_ms {
                deal.end = End::Aborted(None);
                told.extend([deal.payer, deal.payee].map(|party| format!("{party} ERROR 3303")));
            }
        }
        for movement in self.movements.values_mut() {
            if movement.state == "RESERVED" && movement.expires_ms < now_ms {
                movement.state = "ABORTED_REJECTED";
            }
        }
        told
    }

    fn expire(&mut self, id: u8) -> Told {
        let Some(deal) = self.deals.get_mut(&id) else { return vec![refused(3208)] };
        match deal.end {
            End::Open => {
                deal.end = End::Expired;
                let parties = [deal.payer, deal.payee].map(|party| format!("{party} ERROR 3303"));
                [done()].into_iter().chain(parties).collect()
            }
            End::Expired => vec!["= already done".to_owned()],
            _ => vec![refused(3100)],
        }
    }

    fn move_funds(&mut self, id: u8, said: (Name, bool, i64), now_ms: i64) -> String {
        let (name, is_deposit, units) = said;
        let Some(member) = self.members.get(name) else { return refused(3200) };
        if !member.has_accounts {
            return refused(3100);
        }
        if let Some(before) = self.movements.get(&id) {
            return if before.said == said { format!("= {}", before.state) } else { refused(3106) };
        }
        if !member.is_opened {
            return refused(3100);
        }
        if units == 0 {
            return refused(3101);
        }
        let needed = if self.guards_positions { self.position(name).max(0) } else { 0 };
        let state = match () {
            () if is_deposit => "COMMITTED",
            () if self.cover(name) - units >= needed => "RESERVED",
            () => "ABORTED_REJECTED",
        };
        self.movements.insert(id, Movement { said, state, expires_ms: now_ms + VALIDITY_MS });
        format!("= {state}")
    }

    fn end_funds(&mut self, id: u8, name: Name, is_commit: bool, now_ms: i64) -> String {
        let Some(member) = self.members.get(name) else { return refused(3200) };
        if !member.has_accounts {
            return refused(3100);
        }
        let wanted = if is_commit { "COMMITTED" } else { "ABORTED_REJECTED" };
        match self.movements.get_mut(&id).filter(|movement| movement.said.0 == name) {
            None => refused(3208),
            Some(movement) if movement.state == wanted && !movement.said.1 => format!("= {wanted}"),
            Some(movement) if movement.state != "RESERVED" => refused(3100),
            Some(movement) if is_commit && movement.expires_ms <= now_ms => refused(3303),
            Some(movement) => {
                movement.state = wanted;
                format!("= {wanted}")
            }
        }
    }

    /// An operator's change of the scheme.
    fn operate(&mut self, ask: &Ask) -> String {
        match *ask {
            Ask::Create(name) if self.members.keys().any(|member| member.eq_ignore_ascii_case(name)) => {
                refused(3000)
            }
            Ask::Create(_) if self.is_ungoverned() => refused(6000),
            Ask::Create(name) => {
                self.members.insert(name, Member { has_accounts: true, ..Member::default() });
                done()
            }
            Ask::ActivateModel(is_active) => {
                change(&mut self.is_model_off, !is_active && !self.has_fee_model)
            }
            Ask::Model { .. } => refused(3000),
            Ask::AccountType if self.has_other_type => refused(3000),
            Ask::AccountType => change(&mut self.has_other_type, true),
            Ask::HubAccount { .. } => refused(3003),
            Ask::Activate { name, .. }
            | Ask::ActivateAccount { name, .. }
            | Ask::Endpoint { name, .. }
            | Ask::Open { name, .. }
            | Ask::Limit { name, .. } => {
                let is_used = self.is_position_used(name);
                self.operate_member(ask, name, is_used)
            }
            ref other => panic!("{other:?} is not an operator's change"),
        }
    }

    /// Whether a transfer is in a member's position: in flight, or in a window.
    fn is_position_used(&self, name: Name) -> bool {
        self.deals.values().filter(|deal| deal.payer == name || deal.payee == name).any(|deal| {
            match deal.end {
                End::Open => true,
                End::Committed(_) => deal.window.is_some(),
                End::Aborted(_) | End::Expired | End::Refused => false,
            }
        })
    }

    fn operate_member(&mut self, ask: &Ask, name: Name, is_used: bool) -> String {
        match self.members.get_mut(name) {
            Some(member) => {
                let answer = member.operate(ask, is_used);
                if matches!(ask, Ask::Limit { .. }) && answer == done() {
                    // A cap that an operator sets stays in effect after settlements.
                    let parties = self.settlings.iter_mut().filter_map(|one| one.parties.get_mut(name));
                    parties.for_each(|party| party.raised_by = 0);
                }
                answer
            }
            None => refused(3200),
        }
    }
}

impl Member {
    pub fn set_cap(&mut self, cap: i64) {
        self.cap = Some(cap);
    }

    /// `is_used`: whether a transfer is in its position.
    fn operate(&mut self, ask: &Ask, is_used: bool) -> String {
        match *ask {
            Ask::Activate { is_active, .. } => change(&mut self.is_inactive, !is_active),
            Ask::ActivateAccount { is_position, .. } if !self.is_opened || !is_position => refused(3100),
            Ask::ActivateAccount { is_active, .. } => change(&mut self.is_position_active, is_active),
            Ask::Endpoint { is_empty: true, .. } => refused(3101),
            Ask::Endpoint { .. } => change(&mut self.has_endpoint, true),
            Ask::Open { .. } if !self.has_accounts => refused(3200),
            Ask::Open { position, .. } if self.is_opened && (is_used || position == self.begins_with) => {
                refused(3100)
            }
            Ask::Open { cap, .. } if cap < 0 => refused(3101),
            Ask::Open { cap, position, .. } if position > cap => refused(3100),
            Ask::Open { cap, position, .. } => {
                // A correction does not activate an inactive account.
                self.is_position_active |= !self.is_opened;
                self.is_opened = true;
                (self.cap, self.begins_with) = (Some(cap), position);
                done()
            }
            Ask::Limit { .. } if self.cap.is_none() => refused(3200),
            Ask::Limit { cap, .. } if cap < 0 => refused(3101),
            Ask::Limit { cap, .. } => {
                let before = self.cap.replace(cap);
                if before == Some(cap) { "= already done".to_owned() } else { done() }
            }
            ref other => panic!("{other:?} concerns no member"),
        }
    }
}

impl Deal {
    pub fn public_state(&self) -> &'static str {
        match self.end {
            End::Open => "RESERVED",
            End::Committed(_) => "COMMITTED",
            End::Aborted(_) | End::Expired | End::Refused => "ABORTED",
        }
    }
}

fn change(flag: &mut bool, value: bool) -> String {
    if std::mem::replace(flag, value) == value { "= already done".to_owned() } else { done() }
}

pub fn done() -> String {
    "= done".to_owned()
}

pub fn refused(code: u16) -> String {
    format!("= refused {code}")
}

/// No participant can receive a callback.
fn unknown_sender() -> Told {
    vec!["= unknown sender".to_owned()]
}
