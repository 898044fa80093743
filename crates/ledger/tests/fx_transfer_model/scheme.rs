//! A naive second implementation of the rules: positions are recomputed from the lists of events.

use std::collections::BTreeMap;

use upesi_ledger::AbortKind;

use super::ask::{Answer, Ask, Course, FX_TRANSFERS, LIMIT, Member, Money, NAMES, Setup, TRANSFERS};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Open,
    /// Only FX transfers have this state.
    Fulfilled,
    /// In the window that was open then.
    Committed(u32),
    Aborted(AbortKind),
}

impl End {
    /// The window that was open at the commit.
    pub const fn window(self) -> Option<u32> {
        if let Self::Committed(window) = self { Some(window) } else { None }
    }
}

#[derive(Clone, Debug)]
pub struct Deal {
    pub payer: Member,
    pub payee: Member,
    /// The proxy that carries it.
    pub carrier: Member,
    pub money: Money,
    pub expires_ms: i64,
    /// Whether it was charged, if it is committed and a rule applies.
    pub is_charged: Option<bool>,
    pub end: End,
}

#[derive(Clone, Debug)]
pub struct Swap {
    pub transfer: u8,
    pub is_of_payee: bool,
    pub initiator: Member,
    pub fxp: Member,
    pub source: Money,
    pub target: Money,
    pub expires_ms: i64,
    pub was_reserved: bool,
    pub ends_with_transfer: bool,
    pub end: End,
}

impl Swap {
    pub fn is_live(&self) -> bool {
        matches!(self.end, End::Open | End::Fulfilled)
    }

    pub fn is_ready(&self, now_ms: i64) -> bool {
        self.end == End::Fulfilled && self.expires_ms > now_ms
    }
}

/// The fee of a transfer: 10 %, rounded half up, plus one ten-thousandth.
pub const fn fee(units: i64) -> i64 {
    let mut tenths = 0;
    while 2 * units >= (2 * tenths + 1) * 10 {
        tenths += 1;
    }
    tenths + 1
}

/// Debtor, creditor if committed, amount, and window.
pub struct Movement {
    pub debtor: Member,
    pub creditor: Option<Member>,
    pub money: Money,
    pub window: Option<u32>,
    pub is_fee: bool,
}

pub struct Scheme {
    pub setup: Setup,
    pub deals: BTreeMap<u8, Deal>,
    pub swaps: BTreeMap<u8, Swap>,
    pub window: u32,
    /// The first window that is not settled, by currency, for positions and for fees.
    pub unsettled: [[u32; 2]; 2],
    /// Net debit caps that a settlement raised.
    pub caps: BTreeMap<(Member, usize), i64>,
}

impl Scheme {
    pub fn new(setup: Setup) -> Self {
        let (deals, swaps) = (BTreeMap::new(), BTreeMap::new());
        Self { setup, deals, swaps, window: 1, unsettled: [[1; 2]; 2], caps: BTreeMap::new() }
    }

    /// Everything that was reserved or committed.
    pub fn movements(&self) -> Vec<Movement> {
        let mut all = Vec::new();
        let mut add = |debtor, creditor, money, end: End, is_fee| {
            let window = end.window();
            all.push(Movement { debtor, creditor: window.map(|_| creditor), money, window, is_fee });
        };
        for deal in self.deals.values().filter(|deal| !matches!(deal.end, End::Aborted(_))) {
            add(deal.carrier, deal.payee, deal.money, deal.end, false);
            if deal.is_charged == Some(true) {
                // In the first currency payers pay the fee, in the second payees do: the parties of the transfer, also
                // with a conversion.
                let parties = [(deal.payer, deal.payee), (deal.payee, deal.payer)];
                let (from, to) = parties[deal.money.1];
                add(from, to, (fee(deal.money.0), deal.money.1), deal.end, true);
            }
        }
        for swap in self.swaps.values().filter(|swap| !matches!(swap.end, End::Aborted(_))) {
            if swap.is_of_payee {
                add(swap.fxp, swap.initiator, swap.target, swap.end, false);
            }
            if swap.end.window().is_some() || !swap.is_of_payee {
                add(swap.initiator, swap.fxp, swap.source, swap.end, false);
            }
        }
        all
    }

    /// Whether the commit settled it, so that it is in no window.
    pub fn is_at_once(&self, movement: &Movement) -> bool {
        !movement.is_fee && movement.window.is_some() && self.setup.is_gross[movement.money.1]
    }

    /// Whether it was settled with its window.
    pub fn is_settled(&self, movement: &Movement) -> bool {
        let first = self.unsettled[movement.money.1][usize::from(movement.is_fee)];
        !self.is_at_once(movement) && movement.window.is_some_and(|window| window < first)
    }

    /// A member's debt from the selected movements of a currency.
    fn sum(&self, member: Member, currency: usize, counts: impl Fn(&Movement) -> bool) -> i64 {
        let is_own = |party: Member| i64::from(self.setup.liable(party) == member);
        let all = self.movements().into_iter();
        all.filter(|movement| movement.money.1 == currency && counts(movement))
            .map(|movement| {
                movement.money.0 * (is_own(movement.debtor) - movement.creditor.map_or(0, is_own))
            })
            .sum()
    }

    /// Reserved amounts, and committed amounts that are not settled.
    pub fn position(&self, member: Member, currency: usize) -> i64 {
        self.sum(member, currency, |movement| {
            !movement.is_fee && !self.is_at_once(movement) && !self.is_settled(movement)
        })
    }

    /// The remaining deposit.
    pub fn cover(&self, member: Member, currency: usize) -> i64 {
        LIMIT - self.sum(member, currency, |movement| self.is_at_once(movement))
    }

    /// A member's debt in fees.
    pub fn fees(&self, member: Member, currency: usize) -> i64 {
        self.sum(member, currency, |movement| movement.is_fee && !self.is_settled(movement))
    }

    pub fn cap(&self, member: Member, currency: usize) -> i64 {
        self.caps.get(&(member, currency)).copied().unwrap_or(LIMIT)
    }

    /// Returns whether the open window had any content.
    pub fn close_window(&mut self) -> bool {
        let is_there =
            |movement: &Movement| movement.window == Some(self.window) && !self.is_at_once(movement);
        let is_any = self.movements().iter().any(is_there);
        self.window += u32::from(is_any);
        is_any
    }

    /// Settles all closed windows in a currency. Returns whether there was anything to settle.
    pub fn settle(&mut self, currency: usize, is_fee: bool) -> bool {
        let open = self.window;
        let is_due = |movement: &Movement| {
            let is_own = (movement.money.1, movement.is_fee) == (currency, is_fee);
            let is_closed = movement.window.is_some_and(|window| window < open);
            is_own && is_closed && !self.is_at_once(movement) && !self.is_settled(movement)
        };
        if !self.movements().iter().any(is_due) {
            return false;
        }
        // A recipient may exceed its cap until others pay. Fees have no cap.
        let mut raised = Vec::new();
        for member in (0..NAMES.len()).filter(|_| !is_fee) {
            let (paid, cap) = (-self.sum(member, currency, is_due), self.cap(member, currency));
            if paid > 0 && self.position(member, currency) + paid > cap {
                raised.push(((member, currency), cap + paid));
            }
        }
        self.caps.extend(raised);
        self.unsettled[currency][usize::from(is_fee)] = open;
        true
    }

    /// Whether the fee of a transfer is owed: both parties need accounts in its currency. A payer with a conversion may
    /// have none.
    fn charges(&self, deal: &Deal) -> Option<bool> {
        let has = |member| self.setup.has(member, deal.money.1);
        self.setup.has_fees[deal.money.1].then(|| has(deal.payer) && has(deal.payee))
    }

    /// Whether all amounts of an FX transfer have an account.
    fn has_accounts(&self, swap: &Swap) -> bool {
        let has = |member, (_, currency): Money| self.setup.has(member, currency);
        has(swap.fxp, swap.source)
            && has(swap.fxp, swap.target)
            && has(swap.initiator, swap.source)
            && (!swap.is_of_payee || has(swap.initiator, swap.target))
    }

    /// Whether the same member is liable for both.
    fn are_same_participant(&self, one: Member, other: Member) -> bool {
        self.setup.liable(one) == self.setup.liable(other)
    }

    pub fn affords(&self, member: Member, (units, currency): Money) -> bool {
        let member = self.setup.liable(member);
        let bound = self.cap(member, currency).min(self.cover(member, currency));
        units > 0 && self.position(member, currency) + units <= bound
    }

    pub fn linked(&self, transfer: u8, is_of_payee: bool, initiator: Member) -> Option<u8> {
        let is_it = |swap: &Swap| {
            swap.is_live()
                && (swap.transfer, swap.is_of_payee, swap.initiator) == (transfer, is_of_payee, initiator)
        };
        self.swaps.iter().find(|(_, swap)| is_it(swap)).map(|(id, _)| *id)
    }

    /// The first member, from `from` on, that has accounts in all these currencies and a different liable participant
    /// than `other`.
    fn member(&self, from: Member, other: Option<Member>, currencies: &[usize]) -> Member {
        let mut all = (0..NAMES.len()).map(|step| (from + step) % NAMES.len());
        let is_apt = |member: &Member| {
            other.is_none_or(|other| !self.are_same_participant(*member, other))
                && currencies.iter().all(|currency| self.setup.has(*member, *currency))
        };
        all.find(is_apt).unwrap_or(from % NAMES.len())
    }

    /// The next request for a transfer that has not ended, or for the following one.
    pub fn next(&self, course: &Course) -> Ask {
        let Course { transfer, payer, payee, fxp, money, units, converts, more, answer, expires_in_ms } =
            *course;
        let mut ids = (0..TRANSFERS).map(|step| (transfer + step) % TRANSFERS);
        let is_open = |id: &u8| self.deals.get(id).is_none_or(|deal| deal.end == End::Open);
        let Some(id) = ids.find(is_open) else { return Ask::Tick };
        let unused = (0..FX_TRANSFERS).find(|id| !self.swaps.contains_key(id)).filter(|_| converts);
        let answered = |id| match answer {
            Answer::Decline => Ask::AbortFxTransfer { id },
            _ => Ask::FulfilFxTransfer { id, is_right: matches!(answer, Answer::Fulfil) },
        };
        let Some(deal) = self.deals.get(&id) else {
            let is_own = |swap: &&Swap| swap.transfer == id && swap.is_live();
            let payer = self.member(payer, None, &[money.1]);
            return match (self.swaps.iter().find(|(_, swap)| is_own(swap)), unused) {
                (Some((id, Swap { end: End::Open, .. })), _) => answered(*id),
                (Some((_, swap)), _) => {
                    let payee = self.member(payee, Some(swap.initiator), &[swap.target.1]);
                    Ask::PrepareConverted { id, payee, more, expires_in_ms }
                }
                (None, Some(unused)) => {
                    // Most payers with a conversion have no account in the other currency.
                    let lacks = |payer: &Member| !self.setup.has(*payer, 1 - money.1);
                    let mut all = (payer..payer + 3).map(|from| self.member(from, None, &[money.1]));
                    let (initiator, source) = (all.find(lacks).unwrap_or(payer), money);
                    let fxp = self.member(fxp, Some(initiator), &[0, 1]);
                    Ask::Convert { id: unused, transfer: id, initiator, fxp, source, units, expires_in_ms }
                }
                (None, None) => {
                    let payee = self.member(payee, Some(payer), &[money.1]);
                    Ask::Prepare { id, payer, payee, money, expires_in_ms }
                }
            };
        };
        let payees = self.linked(id, true, deal.payee);
        match (payees.map(|swap| (swap, self.swaps[&swap].end)), unused) {
            (Some((swap, End::Open)), _) => answered(swap),
            (None, Some(unused)) => {
                let fxp = self.member(fxp, Some(deal.payee), &[0, 1]);
                Ask::ConvertReceived { id: unused, transfer: id, fxp, units, more, expires_in_ms }
            }
            _ => match answer {
                Answer::Decline => Ask::Abort { id },
                _ => Ask::Fulfil { id, is_right: matches!(answer, Answer::Fulfil) },
            },
        }
    }

    /// A transfer ends, and its FX transfers end with the same outcome.
    pub fn end(&mut self, id: u8, end: End) {
        let deal = &self.deals[&id];
        let linked = [self.linked(id, false, deal.payer), self.linked(id, true, deal.payee)];
        let is_charged = end.window().and_then(|_| self.charges(deal));
        for swap in linked.into_iter().flatten() {
            let swap = self.swaps.get_mut(&swap).unwrap();
            (swap.end, swap.ends_with_transfer) = (end, true);
        }
        let deal = self.deals.get_mut(&id).unwrap();
        (deal.end, deal.is_charged) = (end, is_charged);
    }

    pub fn deadline(&self, id: u8) -> i64 {
        let deal = &self.deals[&id];
        let payers = self.linked(id, false, deal.payer).map(|swap| self.swaps[&swap].expires_ms);
        payers.map_or(deal.expires_ms, |expires_ms| expires_ms.min(deal.expires_ms))
    }

    pub fn convert(&mut self, id: u8, mut swap: Swap, now_ms: i64) {
        if self.swaps.contains_key(&id) {
            return;
        }
        let deal = self.deals.get(&swap.transfer);
        swap.is_of_payee = deal.is_some();
        let is_valid = !self.are_same_participant(swap.initiator, swap.fxp)
            && swap.expires_ms >= now_ms
            && self.has_accounts(&swap);
        let is_second = self.linked(swap.transfer, swap.is_of_payee, swap.initiator).is_some();
        let (is_right, is_affordable) = match deal {
            None => (true, self.affords(swap.initiator, swap.source)),
            Some(deal) => (
                (deal.end, deal.payee, deal.money) == (End::Open, swap.initiator, swap.source),
                self.affords(swap.fxp, swap.target),
            ),
        };
        swap.end = match (is_valid && !is_second && is_right, is_affordable) {
            (false, _) => End::Aborted(AbortKind::Invalid),
            (true, false) => End::Aborted(AbortKind::Rejected),
            (true, true) => End::Open,
        };
        swap.was_reserved = swap.is_live();
        self.swaps.insert(id, swap);
    }

    pub fn prepare(&mut self, id: u8, mut deal: Deal, now_ms: i64) {
        if self.deals.contains_key(&id) {
            return;
        }
        let linked = self.linked(id, false, deal.payer);
        let swap = linked.map(|swap| self.swaps[&swap].clone());
        deal.carrier = swap.as_ref().map_or(deal.payer, |swap| swap.fxp);
        let is_abandoned = |swap: &Swap| {
            matches!(swap.end, End::Aborted(_))
                && (swap.transfer, swap.is_of_payee, swap.initiator) == (id, false, deal.payer)
        };
        let is_right = !self.are_same_participant(deal.payer, deal.payee)
            && deal.expires_ms >= now_ms
            && (swap.is_some() || !self.swaps.values().any(is_abandoned))
            && self.setup.has(deal.carrier, deal.money.1)
            && self.setup.has(deal.payee, deal.money.1)
            && swap.is_none_or(|swap| swap.is_ready(now_ms) && swap.target == deal.money);
        deal.end = match (is_right, self.affords(deal.carrier, deal.money)) {
            (false, _) => End::Aborted(AbortKind::Invalid),
            (true, false) => End::Aborted(AbortKind::Rejected),
            (true, true) => End::Open,
        };
        // The FX transfer of its payer ends with a rejected transfer; the payee has none yet.
        if let Some(swap) = linked.filter(|_| deal.end != End::Open) {
            let swap = self.swaps.get_mut(&swap).unwrap();
            (swap.end, swap.ends_with_transfer) = (deal.end, true);
        }
        self.deals.insert(id, deal);
    }

    pub fn fulfil(&mut self, id: u8, is_right: bool, now_ms: i64) {
        let Some(deal) = self.deals.get(&id).filter(|deal| deal.end == End::Open) else { return };
        let payees = self.linked(id, true, deal.payee).map(|swap| &self.swaps[&swap]);
        if !is_right {
            self.end(id, End::Aborted(AbortKind::InvalidFulfil));
        } else if self.deadline(id) <= now_ms {
            self.end(id, End::Aborted(AbortKind::Expired));
        } else if payees.is_none_or(|swap| swap.is_ready(now_ms)) {
            self.end(id, End::Committed(self.window));
        }
    }

    pub fn tick(&mut self, now_ms: i64) {
        let ids: Vec<u8> = self.deals.keys().copied().collect();
        for id in ids {
            let deal = &self.deals[&id];
            if deal.end == End::Open && self.deadline(id) < now_ms {
                self.end(id, End::Aborted(AbortKind::Expired));
            }
        }
        for swap in self.swaps.values_mut().filter(|swap| swap.is_live() && swap.expires_ms < now_ms) {
            swap.end = End::Aborted(AbortKind::Expired);
        }
    }

    pub fn hear(&mut self, ask: &Ask, now_ms: i64) {
        let aborted = |is_late, kind| End::Aborted(if is_late { AbortKind::Expired } else { kind });
        match *ask {
            Ask::FulfilFxTransfer { id, is_right } => {
                if let Some(swap) = self.swaps.get_mut(&id).filter(|swap| swap.end == End::Open) {
                    swap.end = match (is_right, swap.expires_ms <= now_ms) {
                        (true, false) => End::Fulfilled,
                        (true, true) => End::Aborted(AbortKind::Expired),
                        (false, _) => End::Aborted(AbortKind::InvalidFulfil),
                    };
                }
            }
            Ask::AbortFxTransfer { id } => {
                if let Some(swap) = self.swaps.get_mut(&id).filter(|swap| swap.end == End::Open) {
                    swap.end = aborted(swap.expires_ms <= now_ms, AbortKind::ByPayee);
                }
            }
            Ask::Fulfil { id, is_right } => self.fulfil(id, is_right, now_ms),
            Ask::Abort { id } if self.deals.get(&id).is_some_and(|deal| deal.end == End::Open) => {
                self.end(id, aborted(self.deadline(id) <= now_ms, AbortKind::ByPayee));
            }
            _ => {}
        }
    }
}
