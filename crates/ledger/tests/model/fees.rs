//! Fees in the naive model: the fees of each commit are stored with the deal.

use super::ask::{Ask, Name, PAYERS, RuleAsk};
use super::scheme::{Deal, End, Scheme, done, refused};

/// An amount that one party owes another.
#[derive(Clone)]
pub struct Flow {
    /// The window that settles it.
    pub window: Option<u32>,
    pub is_fee: bool,
    pub from: Name,
    pub to: Name,
    pub units: i64,
}

/// A rule and its validity.
pub struct FeeRule {
    said: RuleAsk,
    from_ms: i64,
    until_ms: Option<i64>,
}

impl FeeRule {
    /// The share, rounded half up to the rule's decimals, computed by counting steps.
    fn charge(&self, deal: &Deal, now_ms: i64) -> i64 {
        let said = &self.said;
        let is_meant = self.from_ms <= now_ms
            && self.until_ms.is_none_or(|until| now_ms < until)
            && deal.units >= said.least
            && said.most.is_none_or(|most| deal.units <= most)
            && deal.payer != deal.payee
            && (!said.names_payers || PAYERS.contains(&deal.payer));
        if !is_meant {
            return 0;
        }
        let step = [10_000, 1_000, 100, 10, 1][usize::from(said.decimals)];
        let millionths = deal.units * i64::from(said.rate);
        let mut steps = 0;
        while 2 * millionths >= (2 * steps + 1) * step * 1_000_000 {
            steps += 1;
        }
        steps * step + said.fixed
    }
}

impl Scheme {
    /// All committed amounts: transfers and their fees.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let committed = self.deals.values().filter(|deal| matches!(deal.end, End::Committed(_)));
        committed.flat_map(|deal| {
            let Deal { payer: from, payee: to, units, window, .. } = *deal;
            [Flow { window, is_fee: false, from, to, units }].into_iter().chain(deal.fees.iter().cloned())
        })
    }

    /// The fees of a commit, one by each rule in the order of creation.
    pub fn fees_of(&self, deal: &Deal, now_ms: i64) -> Vec<Flow> {
        let window = Some(self.windows.len() as u32 + 1);
        let fees = self.fee_rules.values().map(|rule| {
            let units = rule.charge(deal, now_ms);
            let (from, to) =
                if rule.said.is_paid_by_payer { (deal.payer, deal.payee) } else { (deal.payee, deal.payer) };
            Flow { window, is_fee: true, from, to, units }
        });
        fees.filter(|fee| fee.units > 0).collect()
    }

    /// A member's debt in fees.
    pub fn fees(&self, name: Name) -> i64 {
        let fees = self.flows().filter(|flow| flow.is_fee);
        let owed: i64 = fees
            .map(|fee| i64::from(fee.from == name) * fee.units - i64::from(fee.to == name) * fee.units)
            .sum();
        owed + self.settled(name, true)
    }

    /// Adds a rule, or sets its end.
    pub fn hear_rule(&mut self, ask: &Ask, now_ms: i64) -> String {
        match ask {
            Ask::FeeRule(said) => {
                let from_ms = now_ms + said.begins_in_ms;
                let until_ms = said.lasts_ms.map(|lasts_ms| from_ms + lasts_ms);
                let charges = said.rate > 0 || said.fixed > 0;
                let are_bounds = said.most.is_none_or(|most| said.least <= most);
                let is_in_time = said.begins_in_ms >= 0 && until_ms.is_none_or(|until| until > from_ms);
                let is_new = !self.fee_rules.contains_key(&said.id);
                if !charges || !are_bounds || !is_in_time || !is_new {
                    return refused(3100);
                }
                if said.names_payers && !PAYERS.iter().all(|name| self.members.contains_key(name)) {
                    return refused(3200);
                }
                self.fee_rules.insert(said.id, FeeRule { said: said.clone(), from_ms, until_ms });
                done()
            }
            Ask::EndFee { id, in_ms } => {
                let Some(rule) = self.fee_rules.get_mut(id) else { return refused(3200) };
                let until = now_ms + in_ms.unwrap_or(0);
                if rule.until_ms == Some(until) {
                    return "= already done".to_owned();
                }
                if until < now_ms || rule.until_ms.is_some_and(|before| before <= now_ms) {
                    return refused(3100);
                }
                rule.until_ms = Some(until);
                done()
            }
            other => panic!("{other:?} is about no rule"),
        }
    }
}
