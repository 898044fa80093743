//! The rules once more, naively: positions are recomputed from the lists of what happened.

use std::collections::BTreeMap;

use super::ask::{Ask, LIMIT, Member, Money, Setup};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Open,
    /// Of a conversion.
    Fulfilled,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
pub struct Deal {
    pub payer: Member,
    pub payee: Member,
    /// Who carries it.
    pub carrier: Member,
    pub money: Money,
    pub expires_ms: i64,
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

/// What a transfer is charged: a tenth half up, and a hundredth of a hundredth on top.
pub const fn fee(units: i64) -> i64 {
    let mut tenths = 0;
    while 2 * units >= (2 * tenths + 1) * 10 {
        tenths += 1;
    }
    tenths + 1
}

/// The rules once more.
#[derive(Default)]
pub struct Scheme {
    pub setup: Setup,
    pub deals: BTreeMap<u8, Deal>,
    pub swaps: BTreeMap<u8, Swap>,
}

impl Scheme {
    /// Everything that was reserved or committed: who owes, who is owed if it is committed, what.
    fn movements(&self) -> Vec<(Member, Option<Member>, Money)> {
        let mut all = Vec::new();
        for deal in self.deals.values().filter(|deal| deal.end != End::Aborted) {
            let is_committed = deal.end == End::Committed;
            all.push((deal.carrier, is_committed.then_some(deal.payee), deal.money));
        }
        for swap in self.swaps.values().filter(|swap| swap.end != End::Aborted) {
            let is_committed = swap.end == End::Committed;
            if swap.is_of_payee {
                all.push((swap.fxp, is_committed.then_some(swap.initiator), swap.target));
            }
            if is_committed || !swap.is_of_payee {
                all.push((swap.initiator, is_committed.then_some(swap.fxp), swap.source));
            }
        }
        all
    }

    /// What a member of this scheme came to owe by movements of a currency, by those that count.
    fn sum(&self, member: Member, currency: usize, counts: impl Fn(bool) -> bool) -> i64 {
        let own = self.movements().into_iter().filter(|(_, creditor, (_, of))| {
            let is_settled = creditor.is_some() && self.setup.is_gross[currency];
            *of == currency && counts(is_settled)
        });
        let is_own = |party: Member| i64::from(self.setup.liable(party) == member);
        own.map(|(debtor, creditor, (units, _))| is_own(debtor) * units - creditor.map_or(0, is_own) * units)
            .sum()
    }

    /// Everything that a position went through, from the lists.
    pub fn position(&self, member: Member, currency: usize) -> i64 {
        self.sum(member, currency, |is_settled| !is_settled)
    }

    /// What is left of the deposit.
    pub fn cover(&self, member: Member, currency: usize) -> i64 {
        LIMIT - self.sum(member, currency, |is_settled| is_settled)
    }

    /// What a member owes in fees: of a converted transfer its own parties, in its currency.
    pub fn fees(&self, member: Member, currency: usize) -> i64 {
        let deals = self.deals.values();
        let charged =
            deals.filter(|deal| deal.end == End::Committed && deal.money.1 == currency && self.charges(deal));
        charged
            .map(|deal| {
                // In the first currency payers pay, in the second payees.
                let (from, to) =
                    if currency == 0 { (deal.payer, deal.payee) } else { (deal.payee, deal.payer) };
                let is_own = |party: Member| i64::from(self.setup.liable(party) == member);
                (is_own(from) - is_own(to)) * fee(deal.money.0)
            })
            .sum()
    }

    /// Whether the fee of a transfer is owed: both parties have accounts in its currency. A payer that converted may
    /// have none.
    pub fn charges(&self, deal: &Deal) -> bool {
        let has = |member| self.setup.has(member, deal.money.1);
        self.setup.has_fees[deal.money.1] && has(deal.payer) && has(deal.payee)
    }

    /// Whether all that a conversion moves has an account.
    fn has_accounts(&self, swap: &Swap) -> bool {
        let has = |member, (_, currency): Money| self.setup.has(member, currency);
        has(swap.fxp, swap.source)
            && has(swap.fxp, swap.target)
            && has(swap.initiator, swap.source)
            && (!swap.is_of_payee || has(swap.initiator, swap.target))
    }

    /// Whether one owes to itself what the two send to each other.
    fn are_one(&self, one: Member, other: Member) -> bool {
        self.setup.liable(one) == self.setup.liable(other)
    }

    pub fn affords(&self, member: Member, (units, currency): Money) -> bool {
        let member = self.setup.liable(member);
        let bound = LIMIT.min(self.cover(member, currency));
        units > 0 && self.position(member, currency) + units <= bound
    }

    pub fn linked(&self, transfer: u8, is_of_payee: bool, initiator: Member) -> Option<u8> {
        let is_it = |swap: &Swap| {
            swap.is_live()
                && (swap.transfer, swap.is_of_payee, swap.initiator) == (transfer, is_of_payee, initiator)
        };
        self.swaps.iter().find(|(_, swap)| is_it(swap)).map(|(id, _)| *id)
    }

    /// A transfer ends, and the conversions that it determines end alike.
    pub fn end(&mut self, id: u8, end: End) {
        let Deal { payer, payee, .. } = self.deals[&id];
        let linked = [self.linked(id, false, payer), self.linked(id, true, payee)];
        for swap in linked.into_iter().flatten() {
            self.swaps.get_mut(&swap).unwrap().end = end;
        }
        self.deals.get_mut(&id).unwrap().end = end;
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
        let is_valid =
            !self.are_one(swap.initiator, swap.fxp) && swap.expires_ms >= now_ms && self.has_accounts(&swap);
        let is_second = self.linked(swap.transfer, swap.is_of_payee, swap.initiator).is_some();
        let is_right = match deal {
            None => self.affords(swap.initiator, swap.source) && swap.target.0 > 0,
            Some(deal) => {
                (deal.end, deal.payee, deal.money) == (End::Open, swap.initiator, swap.source)
                    && self.affords(swap.fxp, swap.target)
            }
        };
        swap.end = if is_valid && !is_second && is_right { End::Open } else { End::Aborted };
        self.swaps.insert(id, swap);
    }

    pub fn prepare(&mut self, id: u8, mut deal: Deal, now_ms: i64) {
        if self.deals.contains_key(&id) {
            return;
        }
        let swap = self.linked(id, false, deal.payer).map(|swap| self.swaps[&swap].clone());
        deal.carrier = swap.as_ref().map_or(deal.payer, |swap| swap.fxp);
        let is_right = !self.are_one(deal.payer, deal.payee)
            && deal.expires_ms >= now_ms
            && self.setup.has(deal.carrier, deal.money.1)
            && self.setup.has(deal.payee, deal.money.1)
            && swap.is_none_or(|swap| swap.is_ready(now_ms) && swap.target == deal.money)
            && self.affords(deal.carrier, deal.money);
        self.deals.insert(id, deal);
        if !is_right {
            let payer = self.deals[&id].payer;
            // Its payer's conversion ends with it; there is none of a payee yet.
            if let Some(swap) = self.linked(id, false, payer) {
                self.swaps.get_mut(&swap).unwrap().end = End::Aborted;
            }
            self.deals.get_mut(&id).unwrap().end = End::Aborted;
        }
    }

    pub fn fulfil(&mut self, id: u8, is_right: bool, now_ms: i64) {
        let Some(deal) = self.deals.get(&id).filter(|deal| deal.end == End::Open) else { return };
        let payees = self.linked(id, true, deal.payee).map(|swap| &self.swaps[&swap]);
        if !is_right || self.deadline(id) <= now_ms {
            self.end(id, End::Aborted);
        } else if payees.is_none_or(|swap| swap.is_ready(now_ms)) {
            self.end(id, End::Committed);
        }
    }

    pub fn tick(&mut self, now_ms: i64) {
        let ids: Vec<u8> = self.deals.keys().copied().collect();
        for id in ids {
            let deal = &self.deals[&id];
            if deal.end == End::Open && self.deadline(id) < now_ms {
                self.end(id, End::Aborted);
            }
        }
        for swap in self.swaps.values_mut().filter(|swap| swap.is_live() && swap.expires_ms < now_ms) {
            swap.end = End::Aborted;
        }
    }

    pub fn hear(&mut self, ask: &Ask, now_ms: i64) {
        match *ask {
            Ask::FulfilConversion { id, is_right } => {
                if let Some(swap) = self.swaps.get_mut(&id).filter(|swap| swap.end == End::Open) {
                    let is_late = swap.expires_ms <= now_ms;
                    swap.end = if is_right && !is_late { End::Fulfilled } else { End::Aborted };
                }
            }
            Ask::AbortConversion { id } => {
                if let Some(swap) = self.swaps.get_mut(&id).filter(|swap| swap.end == End::Open) {
                    swap.end = End::Aborted;
                }
            }
            Ask::Fulfil { id, is_right } => self.fulfil(id, is_right, now_ms),
            Ask::Abort { id } if self.deals.get(&id).is_some_and(|deal| deal.end == End::Open) => {
                self.end(id, End::Aborted);
            }
            Ask::Tick => self.tick(now_ms),
            _ => {}
        }
    }
}
