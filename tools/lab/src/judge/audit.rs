//! The audit compares the hub with the records of the DFSPs.

use std::collections::BTreeMap;

use upesi_sim::{Counters, ExpectedPosition, TransferCounts, units_text};
use upesi_types::{Amount, Currency, FspId};

use crate::result::audit::{AuditSummary, PositionCheck};
use crate::result::exchanges::GeneratorCounts;
use crate::result::schema::SettlementResult;

/// Everything that the audit examines.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The hub's side, by currency.
    pub sides: Vec<HubSide>,
    /// The DFSPs' books.
    pub expected: BTreeMap<FspId, BTreeMap<Currency, ExpectedPosition>>,
    /// The DFSPs' transfers by state.
    pub transfers: TransferCounts,
    pub counters: Counters,
    /// The load generator's own count.
    pub originated: GeneratorCounts,
    /// Settlements beside the load.
    pub settlement: Option<SettlementResult>,
    /// Findings of these settlements.
    pub findings: Vec<String>,
}

/// The hub's side in one currency.
#[derive(Clone, Debug)]
pub struct HubSide {
    pub currency: Currency,
    /// Amount of each transfer.
    pub amount: Amount,
    /// The debts of participants before the run: their positions and, if commits settle, also the amounts drawn from
    /// their cover.
    pub before: BTreeMap<String, Amount>,
    /// The debts after everything came to rest.
    pub after: BTreeMap<String, Amount>,
    /// Amounts that settlements took from the positions in between; negative if they added to them.
    pub settled: BTreeMap<String, i128>,
    /// Number of commits that were put into settlement windows of positions; absent if unknown.
    pub in_windows: Option<u64>,
    /// Expected number of the DFSPs' transfers and legs of FX transfers.
    pub committed: u64,
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
            "{accepted} accepted transfers are not the sum of {finished} finished and {in_flight} in flight"
        ));
    }
    let counters = evidence.counters;
    findings.extend(counted([
        (transfers.accepted, "accepted transfers have no outcome"),
        (transfers.sales_open, "FX transfers of payees have no outcome"),
        (counters.contradictions, "callbacks contradict an outcome that was final"),
        (
            counters.wrong_fulfilments_received,
            "commits carry a fulfilment that does not answer the condition",
        ),
        (counters.callbacks_unexpected, "callbacks are about transfers that the DFSP does not know"),
    ]));
    AuditSummary {
        ok: findings.is_empty(),
        performed: true,
        positions_ok: checks.iter().all(|check| check.ok),
        sum_ok: sum_is_zero,
        accepted,
        finished,
        in_flight,
        lost: transfers.accepted,
        doubled,
        contradictions: counters.contradictions,
        callbacks_repeated: counters.callbacks_repeated,
        answers: Vec::new(),
        positions: checks,
        findings,
    }
}

/// Counts that should be zero and are not, each in words.
pub(super) fn counted<'text>(
    all: impl IntoIterator<Item = (u64, &'text str)>,
) -> impl Iterator<Item = String> {
    all.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}"))
}

/// The verdict on one currency.
struct CurrencyVerdict {
    checks: Vec<PositionCheck>,
    sum_is_zero: bool,
    doubled: u64,
}

fn audit_side(evidence: &Evidence, side: &HubSide, findings: &mut Vec<String>) -> CurrencyVerdict {
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
        let HubSide { currency, committed, .. } = side;
        findings.push(format!(
            "settlement windows hold {in_windows} commits in {currency}, but {committed} must be in one each"
        ));
    }
    CurrencyVerdict { checks, sum_is_zero, doubled }
}

type Range = (i128, i128);

/// The figures of all positions.
struct Positions {
    /// The checks of all participants.
    checks: Vec<PositionCheck>,
    /// The sum of all changes.
    sum: i128,
    /// The amounts that are reserved for the payers.
    reserved: Range,
    /// Amounts that participants hold beyond the receipts in their own books. They were credited twice, returned
    /// although they were paid, or credited to another participant. Missing amounts are not subtracted. If a
    /// participant was charged twice and credited twice, this figure does not show it.
    surplus: i128,
}

fn positions(evidence: &Evidence, side: &HubSide) -> Positions {
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
        // A position counts the participant's debt.
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
mod tests {
    use super::*;

    fn expected(paid: i128, reserved: i128, received: i128) -> ExpectedPosition {
        let value = paid + reserved - received;
        ExpectedPosition { low: value, high: value, reserved, paid, received }
    }

    /// Ten transfers of 2 from `one` to `two`, all committed, at a hub that was in use before.
    fn good() -> Evidence {
        let currency = Currency::parse("XXX").unwrap();
        let amounts = |values: [i64; 3]| {
            let names = ["one", "two", "bystander"].map(str::to_owned);
            names.into_iter().zip(values.map(|value| Amount::from_units(value).unwrap())).collect()
        };
        let books =
            |name: &str, position| (FspId::parse(name).unwrap(), BTreeMap::from([(currency, position)]));
        Evidence {
            sides: vec![HubSide {
                currency,
                amount: Amount::from_units(20_000).unwrap(),
                before: amounts([70_000, -70_000, 0]),
                after: amounts([270_000, -270_000, 0]),
                settled: BTreeMap::new(),
                in_windows: Some(10),
                committed: 10,
            }],
            expected: BTreeMap::from([
                books("one", expected(200_000, 0, 0)),
                books("two", expected(0, 0, 200_000)),
            ]),
            transfers: TransferCounts { committed: 10, incoming_committed: 10, ..TransferCounts::default() },
            counters: Counters { callbacks: 10, ..Counters::default() },
            originated: GeneratorCounts { sent: 10, accepted: 10, refused: 0, unanswered: 0 },
            settlement: None,
            findings: Vec::new(),
        }
    }

    #[test]
    fn honest_hub_passes() {
        let summary = audit(&good());
        assert_eq!(summary.findings, Vec::<String>::new());
        assert!(summary.ok && summary.performed && summary.positions_ok && summary.sum_ok);
        assert_eq!((summary.accepted, summary.finished, summary.in_flight, summary.lost), (10, 10, 0, 0));
        assert_eq!(summary.doubled, 0);
    }

    #[test]
    fn surplus_is_counted_in_transfers_without_subtracting_missing_money() {
        for (positions, doubled) in [
            // Credited twice; credited twice for two transfers; a little more than the books show.
            ([270_000, -290_000, 0], 1),
            ([270_000, -310_000, 0], 2),
            ([270_000, -270_001, 0], 1),
            // Given back to the payer although the payee was paid.
            ([250_000, -270_000, 0], 1),
            // Credited to another participant.
            ([270_000, -250_000, -20_000], 1),
            // The whole transfer a second time.
            ([290_000, -290_000, 0], 1),
            // Forgotten, or charged without a payment: the position is wrong, but nothing was credited twice.
            ([270_000, -250_000, 0], 0),
            ([290_000, -270_000, 0], 0),
        ] {
            let mut evidence = good();
            for (name, units) in ["one", "two", "bystander"].into_iter().zip(positions) {
                evidence.sides[0].after.insert(name.to_owned(), Amount::from_units(units).unwrap());
            }
            let summary = audit(&evidence);
            assert_eq!((summary.doubled, summary.ok), (doubled, false), "{positions:?}");
            let is_told = summary.findings.iter().any(|finding| finding.contains("was counted twice"));
            assert_eq!(is_told, doubled > 0, "{:?}", summary.findings);
        }
    }

    #[test]
    fn each_fault_of_the_hub_is_found() {
        type Fault = fn(&mut Evidence);
        fn set(evidence: &mut Evidence, name: &str, units: i64) {
            evidence.sides[0].after.insert(name.to_owned(), Amount::from_units(units).unwrap());
        }
        let faults: [(Fault, &str); 10] = [
            (|evidence| set(evidence, "one", 290_000), "one: the hub"),
            (|evidence| set(evidence, "two", -269_999), "sum to 0.0001"),
            (|evidence| evidence.sides[0].after.retain(|name, _| name != "two"), "no position"),
            (|evidence| set(evidence, "bystander", 1), "bystander"),
            (
                |evidence| evidence.originated.accepted = 11,
                "11 accepted transfers are not the sum of 10 finished",
            ),
            (|evidence| evidence.sides[0].in_windows = Some(9), "windows hold 9 commits in XXX, but 10"),
            (
                |evidence| evidence.findings.push("settlement 1 is PENDING".to_owned()),
                "settlement 1 is PENDING",
            ),
            (|evidence| evidence.counters.contradictions = 1, "contradict"),
            (|evidence| evidence.counters.wrong_fulfilments_received = 1, "fulfilment"),
            (|evidence| evidence.counters.callbacks_unexpected = 1, "does not know"),
        ];
        for (fault, text) in faults {
            let mut evidence = good();
            fault(&mut evidence);
            let summary = audit(&evidence);
            assert!(!summary.ok);
            assert!(
                summary.findings.iter().any(|finding| finding.contains(text)),
                "{text}: {:?}",
                summary.findings
            );
        }
    }

    #[test]
    fn transfer_without_outcome_is_lost_even_if_positions_agree() {
        let mut evidence = good();
        evidence.originated.accepted += 1;
        evidence.originated.sent += 1;
        evidence.transfers.accepted = 1;
        evidence.sides[0].after.insert("one".into(), Amount::from_units(290_000).unwrap());
        let currency = evidence.sides[0].currency;
        evidence
            .expected
            .insert(FspId::parse("one").unwrap(), BTreeMap::from([(currency, expected(200_000, 20_000, 0))]));
        let summary = audit(&evidence);
        assert!(summary.positions_ok && summary.sum_ok, "{:?}", summary.findings);
        assert_eq!(summary.lost, 1);
        assert!(!summary.ok);
    }

    #[test]
    fn unanswered_post_may_or_may_not_have_happened() {
        for hub in [270_000, 290_000] {
            let mut evidence = good();
            evidence.originated = GeneratorCounts { sent: 11, accepted: 10, refused: 0, unanswered: 1 };
            evidence.transfers.sent = 1;
            evidence.sides[0].after.insert("one".into(), Amount::from_units(hub).unwrap());
            let (name, currency) = (FspId::parse("one").unwrap(), evidence.sides[0].currency);
            let position = ExpectedPosition { high: 220_000, ..expected(200_000, 0, 0) };
            evidence.expected.insert(name, BTreeMap::from([(currency, position)]));
            assert_eq!(audit(&evidence).findings, Vec::<String>::new(), "{hub}");
        }
    }

    /// Positions no longer contain settled amounts, but the amounts still count as paid and received.
    #[test]
    fn settled_amounts_are_added_to_the_positions() {
        let mut evidence = good();
        let side = &mut evidence.sides[0];
        side.settled = BTreeMap::from([("one".to_owned(), 150_000), ("two".to_owned(), -150_000)]);
        for (name, units) in [("one", 120_000), ("two", -120_000)] {
            side.after.insert(name.to_owned(), Amount::from_units(units).unwrap());
        }
        assert_eq!(audit(&evidence).findings, Vec::<String>::new());
        evidence.sides[0].settled.insert("two".to_owned(), -150_001);
        let summary = audit(&evidence);
        assert!(!summary.positions_ok && !summary.sum_ok, "{:?}", summary.findings);
    }

    /// Each currency is judged separately: a surplus in one does not compensate for another.
    #[test]
    fn each_currency_is_judged_separately() {
        let mut evidence = good();
        let other = Currency::parse("XTS").unwrap();
        evidence.sides.push(HubSide { currency: other, in_windows: None, ..evidence.sides[0].clone() });
        for (name, books) in &mut evidence.expected {
            let paid = if name.as_str() == "one" { expected(200_000, 0, 0) } else { expected(0, 0, 200_000) };
            books.insert(other, paid);
        }
        let summary = audit(&evidence);
        assert!(summary.ok && summary.positions.len() == 6, "{summary:?}");
        evidence.sides[1].after.insert("one".to_owned(), Amount::from_units(270_001).unwrap());
        evidence.sides[0].after.insert("one".to_owned(), Amount::from_units(269_999).unwrap());
        let summary = audit(&evidence);
        let wrong: Vec<_> =
            summary.positions.iter().filter(|check| !check.ok).map(|check| &*check.currency).collect();
        assert_eq!(wrong, ["XXX", "XTS"]);
    }
}
