//! The audit: does the hub agree with what the DFSPs saw?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upesi_sim::{Counters, ExpectedPosition, TransferCounts, units_text};
use upesi_types::{Amount, Currency, FspId};

use crate::result::AuditSummary;
use crate::result::schema::SettlementResult;

/// What the load generator counted itself, apart from the simulators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Originated {
    /// POSTs sent.
    pub sent: u64,
    /// Of those, answered 202.
    pub accepted: u64,
    /// Answered with an error.
    pub refused: u64,
    /// Without an answer.
    pub unanswered: u64,
}

impl std::ops::AddAssign for Originated {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }
}

impl std::ops::Mul<u64> for Originated {
    type Output = Self;

    /// Of requests that are about so many transfers each, the transfers.
    fn mul(self, transfers: u64) -> Self {
        Self {
            sent: self.sent * transfers,
            accepted: self.accepted * transfers,
            refused: self.refused * transfers,
            unanswered: self.unanswered * transfers,
        }
    }
}

/// Everything the audit looks at.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The hub's side, by currency.
    pub sides: Vec<Side>,
    /// The DFSPs' books.
    pub expected: BTreeMap<FspId, BTreeMap<Currency, ExpectedPosition>>,
    /// The DFSPs' transfers by state.
    pub transfers: TransferCounts,
    /// The DFSPs' counters.
    pub counters: Counters,
    /// The load generator's own count.
    pub originated: Originated,
    /// What was settled beside the load.
    pub settlement: Option<SettlementResult>,
    /// What that brought to light.
    pub findings: Vec<String>,
}

/// What a hub says of one currency.
#[derive(Clone, Debug)]
pub struct Side {
    /// The currency.
    pub currency: Currency,
    /// How much each transfer moves.
    pub amount: Amount,
    /// What participants owed before the run: their positions, and where commits settle also what they drew from their
    /// cover.
    pub before: BTreeMap<String, Amount>,
    /// The same after everything came to rest.
    pub after: BTreeMap<String, Amount>,
    /// What settlements took from the positions in between; negative where they added to them.
    pub settled: BTreeMap<String, i128>,
    /// Of positions: how many commits were put into settlement windows; absent where that is not known.
    pub in_windows: Option<u64>,
    /// How many of the DFSPs' transfers and legs of conversions should be there.
    pub committed: u64,
}

/// One DFSP's position at the hub beside its own books, as decimal texts; both count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct PositionCheck {
    /// The participant.
    pub participant: String,
    /// The currency.
    pub currency: String,
    /// Change of the hub's position during the run, but for what was settled.
    pub hub: String,
    /// What the DFSP's own books say; two values while something is unsure.
    pub books: String,
    /// Whether they agree.
    pub ok: bool,
}

/// Compares a hub with the books.
pub fn audit(evidence: &Evidence) -> AuditSummary {
    let mut findings = evidence.findings.clone();
    let (mut checks, mut sum_is_zero, mut doubled) = (Vec::new(), true, 0);
    for side in &evidence.sides {
        let found = audit_side(evidence, side, &mut findings);
        checks.extend(found.checks);
        sum_is_zero &= found.sum_is_zero;
        doubled += found.doubled;
    }
    let transfers = evidence.transfers;
    let finished = (transfers.committed + transfers.aborted).saturating_sub(evidence.originated.refused);
    let in_flight = transfers.accepted + transfers.sent;
    let accepted = evidence.originated.accepted + evidence.originated.unanswered;
    let accounted = accepted == finished + in_flight;
    if !accounted {
        findings.push(format!(
            "{accepted} accepted transfers are not {finished} finished and {in_flight} in flight"
        ));
    }
    let lost = transfers.accepted;
    if lost > 0 {
        findings.push(format!("{lost} accepted transfers have no outcome"));
    }
    if transfers.sales_open > 0 {
        findings.push(format!("{} conversions of payees have no outcome", transfers.sales_open));
    }
    let counters = evidence.counters;
    for (count, text) in [
        (counters.contradictions, "callbacks contradict an outcome that was final"),
        (
            counters.wrong_fulfilments_received,
            "commits carry a fulfilment that does not answer the condition",
        ),
        (counters.callbacks_unexpected, "callbacks are about transfers that the DFSP does not know"),
    ] {
        if count > 0 {
            findings.push(format!("{count} {text}"));
        }
    }
    AuditSummary {
        ok: findings.is_empty(),
        performed: true,
        positions_ok: checks.iter().all(|check| check.ok),
        sum_ok: sum_is_zero,
        accepted,
        finished,
        in_flight,
        lost,
        doubled,
        contradictions: counters.contradictions,
        callbacks_repeated: counters.callbacks_repeated,
        answers: Vec::new(),
        positions: checks,
        findings,
    }
}

/// What one currency came to.
struct Judged {
    checks: Vec<PositionCheck>,
    sum_is_zero: bool,
    doubled: u64,
}

fn audit_side(evidence: &Evidence, side: &Side, findings: &mut Vec<String>) -> Judged {
    let Positions { checks, sum, reserved, surplus } = positions(evidence, side);
    for check in checks.iter().filter(|check| !check.ok) {
        findings.push(format!(
            "{}: the hub's position changed by {}, the books say {}",
            check.participant, check.hub, check.books
        ));
    }
    let sum_is_zero = reserved.0 <= sum && sum <= reserved.1;
    if !sum_is_zero {
        let reserved = range_text(reserved.0, reserved.1);
        let sum = units_text(sum);
        findings
            .push(format!("all positions sum to {sum} while {reserved} is reserved for transfers in flight"));
    }
    let amount = i128::from(side.amount.units()).max(1);
    let doubled = u64::try_from((surplus + amount - 1) / amount).unwrap_or(u64::MAX);
    if doubled > 0 {
        let surplus = units_text(surplus);
        findings.push(format!(
            "participants hold {surplus} more than their books say: money of {doubled} transfers was counted twice"
        ));
    }
    if let Some(in_windows) = side.in_windows.filter(|in_windows| *in_windows != side.committed) {
        let Side { currency, committed, .. } = side;
        findings.push(format!(
            "settlement windows hold {in_windows} commits in {currency}, but {committed} must be in one each"
        ));
    }
    Judged { checks, sum_is_zero, doubled }
}

type Range = (i128, i128);

/// What the positions say.
struct Positions {
    /// Of every participant.
    checks: Vec<PositionCheck>,
    /// All changes together.
    sum: i128,
    /// What the payers hold reserved.
    reserved: Range,
    /// What participants hold beyond what they received and kept by their own books: credited twice, given back though
    /// it was paid, or credited to somebody else. What is too little is not set against it; of one who was charged
    /// twice and credited twice nothing shows.
    surplus: i128,
}

fn positions(evidence: &Evidence, side: &Side) -> Positions {
    let mut checks = Vec::new();
    let (mut sum, mut surplus, mut certain, mut unsure) = (0, 0, 0, (0, 0));
    let mut books: BTreeMap<String, Option<ExpectedPosition>> =
        side.after.keys().chain(side.before.keys()).map(|name| (name.clone(), None)).collect();
    for (name, by_currency) in &evidence.expected {
        books.insert(name.to_string(), by_currency.get(&side.currency).copied());
    }
    let units =
        |all: &BTreeMap<String, Amount>, name: &str| all.get(name).map(|amount| i128::from(amount.units()));
    for (name, expected) in books {
        let before = units(&side.before, &name).unwrap_or(0) - side.settled.get(&name).copied().unwrap_or(0);
        // A participant without a position is as wrong as one with a wrong position.
        let change = units(&side.after, &name).map(|after| after - before);
        let (low, high) = expected.map_or((0, 0), |expected| (expected.low, expected.high));
        if let Some(expected) = expected {
            certain += expected.reserved;
            let settled = expected.paid + expected.reserved - expected.received;
            unsure.0 += expected.low - settled;
            unsure.1 += expected.high - settled;
        }
        sum += change.unwrap_or(0);
        // A position counts what the participant owes.
        surplus += change.map_or(0, |change| (low - change).max(0));
        checks.push(PositionCheck {
            participant: name,
            currency: side.currency.to_string(),
            hub: change.map_or_else(|| "no position".to_owned(), units_text),
            books: range_text(low, high),
            ok: change.is_some_and(|change| (low..=high).contains(&change)),
        });
    }
    Positions { checks, sum, reserved: (certain + unsure.0, certain + unsure.1), surplus }
}

fn range_text(low: i128, high: i128) -> String {
    if low == high { units_text(low) } else { format!("{} to {}", units_text(low), units_text(high)) }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
