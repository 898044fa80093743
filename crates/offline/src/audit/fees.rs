//! The auditor's own rule for interchange fees: the fee that a rule requires of a commit.

use upesi_ledger::{AccountId, Event, FeeRule, NoFee, ParticipantId};
use upesi_types::{Currency, Timestamp, TransferId};

use super::judge::InFlight;

/// Rounding step of a fee in ten-thousandths, for each number of decimals.
const STEPS: [i128; 5] = [10_000, 1_000, 100, 10, 1];
const MILLION: i128 = 1_000_000;

/// The required fee of a rule that applies to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FeeDue {
    pub(super) transfer: TransferId,
    pub(super) rule: u32,
    pub(super) units: i128,
    /// The accounts that owe and receive the fee, or the reason why no fee is owed.
    pub(super) owed: Result<(AccountId, AccountId), NoFee>,
}

impl FeeDue {
    /// The fee in an event, if it has one.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let (transfer, rule, amount, owed) = match *event {
            Event::FeeCharged { transfer, rule, payer, payee, amount } => {
                (transfer, rule, amount, Ok((payer, payee)))
            }
            Event::FeeNotCharged { transfer, rule, amount, reason } => (transfer, rule, amount, Err(reason)),
            _ => return None,
        };
        Some(Self { transfer, rule, units: i128::from(amount.units()), owed })
    }
}

/// The fee of a transfer in a currency between two DFSPs, in ten-thousandths; 0 if the rule does not apply.
pub(super) fn charge(rule: &FeeRule, currency: Currency, transfer: &InFlight, at: Timestamp) -> i128 {
    let terms = &rule.terms;
    let names = |list: &[ParticipantId], party| list.is_empty() || list.contains(&party);
    let is_meant = [
        terms.currency == currency,
        at >= rule.from,
        rule.until.is_none_or(|until| at < until),
        transfer.units >= i128::from(terms.amount_min.units()),
        terms.amount_max.is_none_or(|most| transfer.units <= i128::from(most.units())),
        transfer.payer != transfer.payee,
        names(&terms.payers, transfer.payer),
        names(&terms.payees, transfer.payee),
    ];
    if is_meant.contains(&false) {
        return 0;
    }
    let step = STEPS[usize::from(terms.decimals).min(STEPS.len() - 1)];
    let (whole, share) = (MILLION * step, transfer.units * i128::from(terms.rate));
    let rounded = share / whole + i128::from(share % whole * 2 >= whole);
    rounded * step + i128::from(terms.fixed.units())
}
