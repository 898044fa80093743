//! `upesi settlement reconcile`: the file that the settlement bank has filled in, checked against the settlement, and
//! the settlement finished by it.

mod apply;
mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use apply::{Applied, Records};
#[cfg(feature = "workbooks")]
pub(super) use file::ROWS_MAX;
use file::{BankFile, Line};
use serde::Serialize;
use upesi_types::{Amount, Currency};

use super::api::Settlement;
use super::report::Figures;
use super::{Done, Hub, HubOptions, SettlementError};
use crate::exit::{Exit, Failure, Outcome};
use crate::scheme::state::settlement_balance;
use crate::scheme::write;

#[cfg(test)]
pub(crate) use file::cells_of_csv;

/// A bank's file to be checked, and what to do by it.
#[derive(Clone, Debug)]
pub struct Reconcile {
    /// The settlement.
    pub settlement: u32,
    /// The file.
    pub file: PathBuf,
    /// Whether the settlement is finished by it.
    pub applies: bool,
    /// Whether deposits and withdrawals are recorded, too.
    pub moves_cover: bool,
    /// Whether net debit caps above the new balances become these.
    pub lowers_caps: bool,
    /// Whether net debit caps below the new balances become these.
    pub raises_caps: bool,
}

/// A row of the file, with the hub's side of it.
struct Entry {
    line: Line,
    /// Number of the account that holds the cover.
    settlement_account: u64,
    cover: Cover,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    settlement: u32,
    state: String,
    reference: String,
    accounts: Vec<AccountShown>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountShown {
    dfsp: String,
    account_id: u32,
    currency: String,
    net: String,
    cover: String,
    balance: String,
}

/// Checks a file, and finishes its settlement if that is wanted.
///
/// # Errors
/// 66 if the file cannot be read, 65 with everything that is wrong with it, 69 if the hub does not answer, 1 if it
/// refuses or an account cannot be finished, 75 if a second person has to approve, 64 if the accounts have no caps to
/// set.
pub async fn reconcile(
    options: &HubOptions,
    reconcile: &Reconcile,
    output: &mut (dyn Write + Send),
) -> Outcome {
    let (cells, digest) = file::read(&reconcile.file)?;
    // Caps have no reason of their own, and a second person is told one.
    let hub = Hub::connect(options).await?.with_reason(&apply::reason(reconcile.settlement));
    let figures = hub.figures(reconcile.settlement).await.map_err(SettlementError::into_failure)?;
    figures.check().map_err(|text| Failure::new(Exit::Data, text))?;
    let file = checked(&cells, &figures).map_err(|mistakes| {
        let shown = reconcile.file.display();
        Failure::new(Exit::Data, format!("{shown}: nothing was changed\n{}", mistakes.join("\n")))
    })?;
    let reference = format!("bank-{}-{}", reconcile.settlement, &digest[..16]);
    let settlement = hub.settlement_of(reconcile.settlement).await?;
    let entries = hub.entries(&file, &settlement).await.map_err(SettlementError::into_failure)?;
    let mut warnings = repeated(&settlement, &reference);
    warnings.extend(entries.iter().flat_map(|entry| warnings_of(&entry.line, entry.cover)));
    let mut applied = Applied::default();
    let Reconcile { settlement: id, moves_cover, lowers_caps, raises_caps, .. } = *reconcile;
    if (lowers_caps || raises_caps) && settlement.account_type() != Some("POSITION") {
        let text = format!("settlement {id} is not about positions: its accounts have no net debit caps");
        return Err(Failure::new(Exit::Usage, text));
    }
    if reconcile.applies {
        let records =
            Records { settlement: id, reference: &reference, moves_cover, lowers_caps, raises_caps };
        applied = hub.apply(&records, &entries).await.map_err(SettlementError::into_failure)?;
    }
    let state = hub.settlement_of(reconcile.settlement).await?.state;
    let shown = Shown::new(reconcile.settlement, state, reference, &entries, warnings);
    write(output, &if options.json { shown.to_json()? } else { shown.to_text() })?;
    ended(applied)
}

/// What failed, and what waits for a second person.
fn ended(Applied { failures, waiting }: Applied) -> Outcome {
    let failures = (!failures.is_empty()).then(|| {
        format!("these accounts are not finished; the same call continues\n{}", failures.join("\n"))
    });
    match (waiting.check(), failures) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(failures)) => Err(Failure::new(Exit::Failure, failures)),
        (Err(waiting), failures) => {
            let mut failure = waiting.into_failure_to_continue();
            if let Some(failures) = failures {
                failure.message = format!("{}\n{failures}", failure.message);
            }
            Err(failure)
        }
    }
}

fn checked(cells: &[Vec<String>], figures: &Figures) -> Result<BankFile, Vec<String>> {
    let file = BankFile::parse(cells)?;
    let errors = errors(&file, figures);
    if errors.is_empty() { Ok(file) } else { Err(errors) }
}

/// Whether the settlement was finished, and by which file.
fn repeated(settlement: &Settlement, reference: &str) -> Vec<String> {
    let of_file = |own: &Option<String>| own.as_deref() == Some(reference);
    let by_this = settlement.accounts().any(|(_, account)| of_file(&account.external_reference));
    match (&*settlement.state, by_this) {
        ("SETTLED", true) => vec!["this file was applied before: the settlement is SETTLED".to_owned()],
        ("SETTLED", false) => vec!["the settlement is SETTLED, by other means than this file".to_owned()],
        (_, true) => vec!["this file was applied before, in part".to_owned()],
        (_, false) => Vec::new(),
    }
}

impl Hub {
    async fn settlement_of(&self, id: u32) -> Result<Settlement, Failure> {
        let settlement = self.api.settlement(id).await.map_err(SettlementError::from);
        settlement.map_err(SettlementError::into_failure)
    }

    /// The hub's side of each row.
    async fn entries(&self, file: &BankFile, settlement: &Settlement) -> Done<Vec<Entry>> {
        let mut entries = Vec::with_capacity(file.lines.len());
        for line in &file.lines {
            let Line { name, currency, .. } = line;
            let balance = settlement_balance(&self.api.0, name, currency).await?;
            let missing =
                || SettlementError::Stopped(format!("{name} has no SETTLEMENT account in {currency}"));
            let balance = balance.ok_or_else(missing)?;
            let cover = Cover { amount: balance.cover(), is_moved: false };
            let mut entry = Entry { line: line.clone(), settlement_account: balance.id, cover };
            let mut accounts = settlement.accounts().map(|(_, account)| account);
            let is_recorded = accounts
                .any(|account| account.id == entry.line.account && account.cover_transfer_id.is_some());
            // Earlier versions recorded the movement by itself.
            entry.cover.is_moved =
                is_recorded || self.movement(&entry, file.settlement).await?.state.is_some();
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl Shown {
    fn new(
        settlement: u32,
        state: String,
        reference: String,
        entries: &[Entry],
        warnings: Vec<String>,
    ) -> Self {
        let account = |entry: &Entry| AccountShown {
            dfsp: entry.line.name.clone(),
            account_id: entry.line.account,
            currency: entry.line.currency.clone(),
            net: entry.line.net.to_string(),
            cover: entry.cover.amount.to_string(),
            balance: entry.line.balance.to_string(),
        };
        Self { settlement, state, reference, accounts: entries.iter().map(account).collect(), warnings }
    }

    fn to_json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::new(Exit::Software, error))?;
        Ok(text + "\n")
    }

    fn to_text(&self) -> String {
        let Self { settlement, state, reference, .. } = self;
        let mut text = format!("settlement {settlement}  {state}, reference {reference}\n");
        let width = self.accounts.iter().map(|account| account.dfsp.len()).chain([4]).max().unwrap_or(0);
        let _ = writeln!(
            text,
            "  {:<width$}  account  {:>18}  {:>18}  {:>18}",
            "DFSP", "net", "cover", "at the bank"
        );
        for account in &self.accounts {
            let AccountShown { dfsp, account_id, currency, net, cover, balance } = account;
            let _ = writeln!(
                text,
                "  {dfsp:<width$}  {account_id:>7}  {net:>18}  {cover:>18}  {balance:>18} {currency}"
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "? {warning}");
        }
        text
    }
}

// What a bank's file must say so that it is this settlement's, and what an operator should look at.

/// Everything that makes the file another one than the hub wrote, or not a whole one.
fn errors(file: &BankFile, figures: &Figures) -> Vec<String> {
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
    currency.decimals().filter(|_| !currency.has(amount))
}

fn error_of(line: &Line, figures: &Figures) -> Option<String> {
    let Line { participant, account, name, net, currency, .. } = line;
    for (what, amount) in [("balance", line.balance), ("settlement transfer", *net)] {
        if let Some(decimals) = Currency::parse(currency).and_then(|known| too_fine(amount, known)) {
            let text = format!("the {what} {amount} has more decimals than {currency}, which has {decimals}");
            // Versions before remainders were carried over left such nets.
            let is_of_hub =
                figures.parties.get(account).is_some_and(|party| party.net == amount.units().into());
            return Some(match what {
                "settlement transfer" if is_of_hub => {
                    format!("{text}: abort the settlement and create it again")
                }
                _ => text,
            });
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
struct Cover {
    /// The present cover.
    amount: Amount,
    /// Whether the settlement's movement is in it.
    is_moved: bool,
}

/// What an operator should look at before going on.
fn warnings_of(line: &Line, cover: Cover) -> Vec<String> {
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
