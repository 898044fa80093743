//! The auditor's own rule for interchange fees: what each commit must charge.

use upesi_ledger::{AccountId, Event, FeePayer, FeeRule, LedgerAccountTypeId, NoFee, ParticipantId};
use upesi_types::{Amount, Currency, Timestamp, TransferId};

use super::books::Books;
use super::judge::{InFlight, Place};

/// Ten-thousandths that the rounding of a fee goes by, for each number of decimals.
const STEPS: [i128; 5] = [10_000, 1_000, 100, 10, 1];
const MILLION: i128 = 1_000_000;

/// What a rule that applies to a commit must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FeeDue {
    transfer: TransferId,
    rule: u32,
    units: i128,
    /// Who owes it to whom, or why nobody does.
    owed: Result<(AccountId, AccountId), NoFee>,
}

impl FeeDue {
    /// What an event says of a fee, if it is one of a fee.
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
fn charge(rule: &FeeRule, currency: Currency, transfer: &InFlight, at: Timestamp) -> i128 {
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

impl Books {
    /// The fees of a commit in the order of their rules. A party without an account for fees owes none, and what a
    /// balance cannot hold is not charged.
    pub(super) fn fees_due(&self, place: Place<'_>, id: TransferId, transfer: &InFlight) -> Vec<FeeDue> {
        let Some((currency, _)) = self.scheme.kind(transfer.payer_account) else { return Vec::new() };
        let kind = LedgerAccountTypeId::INTERCHANGE_FEE;
        let account = |party| {
            let id = self.scheme.account_id_of(party, currency, kind)?;
            Some((id, self.scheme.account_of(party, currency, kind)?.units))
        };
        let mut accounts = account(transfer.payer).zip(account(transfer.payee));
        let most = i128::from(Amount::MAX.units());
        let mut due = Vec::new();
        for rule in self.scheme.fee_rules() {
            let units = charge(rule, currency, transfer, place.time);
            if units <= 0 || units > most {
                continue;
            }
            let owed = match &mut accounts {
                None => Err(NoFee::Account),
                Some((payer, payee)) => {
                    let (from, to) = match rule.terms.paid_by {
                        FeePayer::Payer => (payer, payee),
                        FeePayer::Payee => (payee, payer),
                    };
                    if from.1 + units > most || to.1 - units < -most {
                        Err(NoFee::Room)
                    } else {
                        (from.1, to.1) = (from.1 + units, to.1 - units);
                        Ok((from.0, to.0))
                    }
                }
            };
            due.push(FeeDue { transfer: id, rule: rule.id, units, owed });
        }
        due
    }
}
