//! What a bank's file must say so that it is this settlement's, and what an operator should look at.

use std::collections::{BTreeMap, BTreeSet};

use upesi_types::{Amount, Currency};

use super::super::report::Figures;
use super::file::{BankFile, Line};

/// Decimals of an amount.
const DECIMALS_MAX: u32 = 4;

/// Everything that makes the file another one than the hub wrote, or not a whole one.
pub(super) fn errors(file: &BankFile, figures: &Figures) -> Vec<String> {
    let mut errors = Vec::new();
    if file.settlement != figures.id {
        errors.push(format!("row 1: it is the file of settlement {}, not {}", file.settlement, figures.id));
    }
    if figures.state == "ABORTED" {
        errors.push(format!("settlement {} was aborted", figures.id));
    }
    let mut seen = BTreeSet::new();
    let mut sums = BTreeMap::<&str, i128>::new();
    for line in &file.lines {
        *sums.entry(&line.currency).or_default() += i128::from(line.net.units());
        if !seen.insert(line.account) {
            errors.push(format!("row {}: account {} is named twice", line.row, line.account));
            continue;
        }
        errors.extend(error_of(line, figures).map(|text| format!("row {}: {text}", line.row)));
    }
    let missing = figures.parties.iter().filter(|(account, _)| !seen.contains(account));
    errors.extend(missing.map(|(account, party)| {
        format!("account {account} of {} is missing, which the settlement has", party.name)
    }));
    let wrong = sums.iter().filter(|(_, sum)| **sum != 0);
    errors.extend(wrong.map(|(currency, sum)| {
        let sum = i64::try_from(*sum).ok().and_then(Amount::from_units);
        let sum = sum.map_or_else(|| "more than an amount".to_owned(), |sum| sum.to_string());
        format!("the settlement transfers in {currency} sum to {sum}, not 0")
    }));
    errors
}

/// The decimals of a currency, if an amount has more: no bank can hold or pay it.
fn too_fine(amount: Amount, currency: Currency) -> Option<u32> {
    let decimals = currency.decimals()?;
    let step = 10_i64.pow(DECIMALS_MAX.saturating_sub(decimals));
    (amount.units() % step != 0).then_some(decimals)
}

fn error_of(line: &Line, figures: &Figures) -> Option<String> {
    let Line { participant, account, name, net, currency, .. } = line;
    for (what, amount) in [("balance", line.balance), ("settlement transfer", *net)] {
        if let Some(decimals) = Currency::parse(currency).and_then(|known| too_fine(amount, known)) {
            return Some(format!(
                "the {what} {amount} has more decimals than {currency}, which has {decimals}"
            ));
        }
    }
    let Some(party) = figures.parties.get(account) else {
        return Some(format!("the settlement has no account {account}"));
    };
    if (party.participant, &party.name) != (*participant, name) {
        let (participant, name) = (party.participant, &party.name);
        return Some(format!("account {account} is that of {participant} {name}"));
    }
    if party.currency != *currency {
        return Some(format!("account {account} is in {}, not {currency:?}", party.currency));
    }
    if party.net != i128::from(net.units()) {
        let settled = i64::try_from(party.net).ok().and_then(Amount::from_units).unwrap_or_default();
        return Some(format!("the settlement transfer of {name} is {settled} {currency}, not {net}"));
    }
    None
}

/// What the hub holds for a DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    /// The present cover.
    pub(super) amount: Amount,
    /// Whether the settlement's movement is in it.
    pub(super) is_moved: bool,
}

/// What an operator should look at before going on.
pub(super) fn warnings(line: &Line, cover: Cover) -> Vec<String> {
    let Line { name, currency, balance, net, row, .. } = line;
    let mut warnings = Vec::new();
    let expected = if cover.is_moved { Some(cover.amount) } else { cover.amount.checked_sub(*net) };
    if expected != Some(*balance) {
        let expected = expected.map_or_else(|| "more than an amount".to_owned(), |amount| amount.to_string());
        warnings.push(format!(
            "row {row}: {name} has {balance} {currency} at the bank, {expected} by the hub: find the reason, and record \
             it as a deposit or withdrawal"
        ));
    }
    if *balance <= Amount::ZERO {
        warnings
            .push(format!("row {row}: {name} has nothing left in {currency}: consider its net debit cap"));
    }
    warnings
}
