//! The plan of a day: all its payments, drawn from the story and a seed before anything is sent.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use upesi_sim::{PARTIES_PER_DFSP, mix};
use upesi_types::{Amount, Currency};

use super::story::{Flow, Group, HOURS, Kind, Story};

/// Number of parties of each DFSP.
pub(super) const PARTIES: u64 = 25;
/// Number of the first party that no DFSP has registered.
const UNKNOWN_PARTIES: u64 = 900_000_000;
/// The story states the counts of its groups for this number of ordinary payments.
const GROUPS_FIT: u64 = 400;
/// Separates the draws of a day from other draws.
const DAY: u64 = 0x6461_7900;

/// One payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PlannedPayment {
    /// Determines ids and the payee's party.
    pub number: u64,
    pub kind: Kind,
    /// Index of the payer and of the payee.
    pub pair: [usize; 2],
    pub currency: String,
    /// In ten-thousandths.
    pub units: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Plan {
    pub seed: u64,
    pub dfsps: Vec<String>,
    /// The ordinary payments of each hour.
    pub hours: Vec<Vec<PlannedPayment>>,
    /// The payments of each event of the story.
    pub groups: Vec<Vec<PlannedPayment>>,
}

/// The story contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoryError {
    #[error("{0} is not a DFSP of the scheme")]
    Dfsp(String),
    #[error("{0} is not a currency")]
    Currency(String),
    #[error("the amounts from {0} to {1} cannot be drawn")]
    Amounts(u64, u64),
    #[error("the weights of {0} cannot be drawn")]
    Weights(String),
    #[error("{0} is not an hour")]
    Hour(usize),
}

impl PlannedPayment {
    pub fn amount(&self) -> Amount {
        Amount::from_units(self.units).unwrap_or_default()
    }
}

impl Plan {
    /// Plans a day with this number of ordinary payments. The same arguments give the same plan.
    pub fn draw(story: &Story, dfsps: Vec<String>, seed: u64, transfers: u64) -> Result<Self, StoryError> {
        let mut drawing = Drawing { seed, draws: 0, payments: 0, dfsps };
        let volumes = &story.traffic.volumes;
        let whole: u64 = volumes.iter().sum::<u64>().max(1);
        let mut hours = Vec::with_capacity(HOURS);
        let (mut volume, mut planned) = (0, 0);
        for hour in volumes {
            volume += hour;
            let until = transfers * volume / whole;
            let payments = (planned..until).map(|_| drawing.ordinary(&story.traffic.currencies));
            hours.push(payments.collect::<Result<_, _>>()?);
            planned = until;
        }
        let mut groups = Vec::with_capacity(story.events.len());
        for event in &story.events {
            if event.hour >= HOURS {
                return Err(StoryError::Hour(event.hour));
            }
            let payments = event.payments.as_ref().map(|group| drawing.group(group, transfers));
            groups.push(payments.transpose()?.unwrap_or_default());
        }
        Ok(Self { seed, dfsps: drawing.dfsps, hours, groups })
    }

    /// SHA-256 of the plan, in hexadecimal.
    pub fn digest(&self) -> String {
        // Cannot fail: every key of the plan is a text.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Number of all payments.
    pub fn count(&self) -> usize {
        self.hours.iter().chain(&self.groups).map(Vec::len).sum()
    }

    /// The index of a DFSP.
    pub fn index(&self, name: &str) -> Result<usize, StoryError> {
        index_of(&self.dfsps, name)
    }
}

fn index_of(dfsps: &[String], name: &str) -> Result<usize, StoryError> {
    let found = dfsps.iter().position(|dfsp| dfsp == name);
    found.ok_or_else(|| StoryError::Dfsp(name.to_owned()))
}

struct Drawing {
    seed: u64,
    draws: u64,
    payments: u64,
    dfsps: Vec<String>,
}

impl Drawing {
    /// A number below `end`, which is positive.
    fn below(&mut self, end: u64) -> u64 {
        self.draws += 1;
        mix(mix(self.seed ^ DAY) ^ self.draws) % end
    }

    fn ordinary(&mut self, flows: &[Flow]) -> Result<PlannedPayment, StoryError> {
        let shares: Vec<u64> = flows.iter().map(|flow| flow.per_mille).collect();
        let flow = &flows[self.weighted(&shares).ok_or_else(|| StoryError::Weights("traffic".to_owned()))?];
        let lacks = || StoryError::Weights(flow.currency.clone());
        let mut weights: Vec<u64> = flow.weights.values().copied().collect();
        let payer = self.weighted(&weights).ok_or_else(lacks)?;
        weights[payer] = 0;
        let payee = self.weighted(&weights).ok_or_else(lacks)?;
        let names: Vec<&String> = flow.weights.keys().collect();
        let pair = [names[payer], names[payee]].map(|name| index_of(&self.dfsps, name));
        let [payer, payee] = pair;
        self.payment(Kind::Payment, [payer?, payee?], &flow.currency, flow.amounts, false)
    }

    fn group(&mut self, group: &Group, transfers: u64) -> Result<Vec<PlannedPayment>, StoryError> {
        let pair = [index_of(&self.dfsps, &group.payer)?, index_of(&self.dfsps, &group.payee)?];
        let count = if group.is_fixed { group.count } else { (group.count * transfers / GROUPS_FIT).max(1) };
        let payment = |_| self.payment(group.kind, pair, &group.currency, group.amounts, group.unknown_party);
        (0..count).map(payment).collect()
    }

    fn payment(
        &mut self,
        kind: Kind,
        pair: [usize; 2],
        currency: &str,
        amounts: [u64; 2],
        is_unknown: bool,
    ) -> Result<PlannedPayment, StoryError> {
        if Currency::parse(currency).is_none() {
            return Err(StoryError::Currency(currency.to_owned()));
        }
        let party = self.below(PARTIES) + if is_unknown { UNKNOWN_PARTIES } else { 0 };
        let number = self.payments * PARTIES_PER_DFSP + party;
        self.payments += 1;
        let units = self.units(amounts)?;
        Ok(PlannedPayment { number, kind, pair, currency: currency.to_owned(), units })
    }

    /// An amount of whole units. Small ones are more frequent: each doubling of the smallest amount has the same share.
    fn units(&mut self, [least, most]: [u64; 2]) -> Result<i64, StoryError> {
        let impossible = StoryError::Amounts(least, most);
        if least == 0 || most < least {
            return Err(impossible);
        }
        let doublings = u64::from((most / least).ilog2()) + 1;
        let low = least << self.below(doublings);
        let high = low.saturating_mul(2).min(most);
        let whole = low + self.below(high - low + 1);
        i64::try_from(whole).ok().and_then(|whole| whole.checked_mul(10_000)).ok_or(impossible)
    }

    /// An index, drawn by these weights; `None` if they are all zero.
    fn weighted(&mut self, weights: &[u64]) -> Option<usize> {
        let sum: u64 = weights.iter().sum();
        let mut drawn = if sum == 0 { return None } else { self.below(sum) };
        weights.iter().position(|weight| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DFSPS, story};
    use super::*;

    fn plan(seed: u64, transfers: u64) -> Plan {
        let dfsps = DFSPS.map(str::to_owned).to_vec();
        Plan::draw(&story().unwrap(), dfsps, seed, transfers).unwrap()
    }

    #[test]
    fn seed_and_number_of_transfers_determine_the_plan() {
        let one = plan(7, 300);
        assert_eq!((&one, one.digest()), (&plan(7, 300), plan(7, 300).digest()));
        assert_ne!(one.digest(), plan(8, 300).digest());
        assert_ne!(one.digest(), plan(7, 301).digest());
        assert_eq!(one.hours.iter().map(Vec::len).sum::<usize>(), 300);
    }

    #[test]
    fn payments_have_different_numbers_two_dfsps_and_an_amount_of_their_range() {
        let story = story().unwrap();
        let plan = plan(3, 2_000);
        let payments: Vec<_> = plan.hours.iter().chain(&plan.groups).flatten().collect();
        let numbers: std::collections::BTreeSet<_> = payments.iter().map(|payment| payment.number).collect();
        assert_eq!(numbers.len(), payments.len());
        assert!(payments.iter().all(|payment| payment.pair[0] != payment.pair[1]));
        for payment in plan.hours.iter().flatten() {
            let flow = story.traffic.currencies.iter().find(|flow| flow.currency == payment.currency);
            let [least, most] = flow.unwrap().amounts.map(|amount| i64::try_from(amount).unwrap() * 10_000);
            assert!((least..=most).contains(&payment.units), "{payment:?}");
        }
        let busiest = |hour: usize| plan.hours[hour].len();
        assert!(busiest(18) > busiest(9) && busiest(9) > busiest(2), "the curve of volumes");
    }

    #[test]
    fn impossible_stories_are_rejected() {
        let dfsps = DFSPS.map(str::to_owned).to_vec();
        let drawn = |change: fn(&mut Story)| {
            let mut story = story().unwrap();
            change(&mut story);
            Plan::draw(&story, dfsps.clone(), 1, 50)
        };
        let group =
            |story: &mut Story| story.events.iter().position(|event| event.payments.is_some()).unwrap();
        assert_eq!(group(&mut story().unwrap()), 2);
        for (change, error) in [
            ((|story| story.events[0].hour = 24) as fn(&mut Story), StoryError::Hour(24)),
            (|story| story.traffic.currencies[0].amounts = [5, 4], StoryError::Amounts(5, 4)),
            (
                |story| story.traffic.currencies[1].weights.values_mut().for_each(|weight| *weight = 0),
                StoryError::Weights("UGX".to_owned()),
            ),
            (
                |story| story.events[2].payments.as_mut().unwrap().payer = "bank".to_owned(),
                StoryError::Dfsp("bank".to_owned()),
            ),
            (
                |story| story.events[2].payments.as_mut().unwrap().currency = "KSH".to_owned(),
                StoryError::Currency("KSH".to_owned()),
            ),
        ] {
            assert_eq!(drawn(change), Err(error));
        }
    }
}
