//! `upesi settlement reconcile`: checks the file from the settlement bank against the settlement, and finishes the
//! settlement by it.

mod apply;
mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use apply::{Applied, Records};
use file::{BankFile, Line, Mistake, Row};
use serde::Serialize;
use upesi_ledger::SettlementState;
use upesi_process::exit::{Exit, Failure, Outcome, write_to};
use upesi_process::terminal::note;
use upesi_types::{Amount, Currency};

use super::api::Settlement;
use super::error::{Done, SettlementError};
use super::hub::{Hub, HubOptions};
use super::report::SettlementFigures;
use crate::scheme::state::settlement_balance;

#[cfg(test)]
pub(crate) use file::cells_of_csv;

/// A bank file to check, and the actions by it.
#[derive(Clone, Debug)]
pub struct Reconcile {
    pub settlement: u32,
    pub file: PathBuf,
    /// Whether to finish the settlement.
    pub applies: bool,
    /// Whether to record deposits and withdrawals, too.
    pub moves_cover: bool,
    /// Whether to lower net debit caps that are above the new balances to these.
    pub lowers_caps: bool,
    /// Whether to raise net debit caps that are below the new balances to these.
    pub raises_caps: bool,
}

/// A row of the file, with the hub's data.
struct Entry {
    line: Line,
    /// Number of the account with the cover.
    settlement_account: u64,
    cover: Cover,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BankFileOutput {
    settlement: u32,
    state: String,
    /// Whether the file was applied, or only checked.
    applied: bool,
    reference: String,
    accounts: Vec<ReconciledAccount>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReconciledAccount {
    dfsp: String,
    account_id: u32,
    currency: String,
    net: String,
    cover: String,
    balance: String,
}

/// Checks a file, and finishes its settlement if requested.
///
/// # Errors
/// 66 if the file cannot be read, 65 with all its faults, 69 if the hub does not answer, 1 if it rejects a call or an
/// account cannot be finished, 75 if an approval is pending, 64 if the accounts have no caps to set.
pub async fn reconcile(
    options: &HubOptions,
    reconcile: &Reconcile,
    output: &mut (dyn Write + Send),
) -> Outcome {
    let (cells, digest) = file::read(&reconcile.file)?;
    // A change of a cap has no reason of its own, but the approver needs one.
    let hub = Hub::connect(options).await?.with_reason(&apply::reason(reconcile.settlement));
    let figures = hub.figures(reconcile.settlement).await.map_err(SettlementError::into_failure)?;
    figures.check().map_err(|text| Failure::new(Exit::Data, text))?;
    let lines = checked(&cells, &figures).map_err(|mistakes| {
        let shown = reconcile.file.display();
        Failure::new(Exit::Data, format!("{shown}: nothing was changed\n{}", mistakes.join("\n")))
    })?;
    let reference = format!("bank-{}-{}", reconcile.settlement, &digest[..16]);
    let settlement = hub.settlement_of(reconcile.settlement).await?;
    let entries = hub.entries(&lines, &settlement).await.map_err(SettlementError::into_failure)?;
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
    let is_settled = state == SettlementState::Settled.as_str();
    let shown = BankFileOutput::new(reconcile, state, reference, &entries, warnings);
    write_to(output, &if options.json { shown.to_json()? } else { shown.to_text() })?;
    if !reconcile.applies {
        note("the file was only checked; nothing was changed");
        if !is_settled {
            note("--apply finishes the settlement; --move-cover also records the bank's movements");
        }
    }
    ended(applied)
}

/// The end of the command: its failures and pending approvals.
fn ended(Applied { failures, waiting }: Applied) -> Outcome {
    let failures = (!failures.is_empty()).then(|| {
        format!("these accounts are not finished; repeat this command to continue\n{}", failures.join("\n"))
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

/// The rows of a file, one for each account of the settlement.
///
/// # Errors
/// All faults, by row.
fn checked(cells: &[Vec<String>], figures: &SettlementFigures) -> Result<Vec<Line>, Vec<String>> {
    let BankFile { settlement, rows, mut mistakes } = BankFile::parse(cells);
    mistakes.extend(contradictions(settlement, &rows, figures));
    // Faults of the whole file come last.
    mistakes.sort_by_key(|mistake| mistake.row.unwrap_or(usize::MAX));
    if mistakes.is_empty() {
        return Ok(rows.into_iter().filter_map(|row| line_of(row, figures)).collect());
    }
    Err(mistakes.iter().map(Mistake::to_string).collect())
}

/// A row that is completely readable.
fn line_of(row: Row, figures: &SettlementFigures) -> Option<Line> {
    let currency = currency_of(&row, figures)?.to_owned();
    let Row { number: row, owner, balance, net, .. } = row;
    let (_, account, name) = owner?;
    Some(Line { row, account, name, balance: balance?, net: net?, currency })
}

/// The currency of a row; the currency of its account if the file has no column of currencies.
fn currency_of<'a>(row: &'a Row, figures: &'a SettlementFigures) -> Option<&'a str> {
    if row.currency.is_some() {
        return row.currency.as_deref();
    }
    let (_, account, _) = row.owner.as_ref()?;
    figures.parties.get(account).map(|party| &*party.currency)
}

/// Whether the settlement was already finished, and whether by this file.
fn repeated(settlement: &Settlement, reference: &str) -> Vec<String> {
    let of_file = |own: &Option<String>| own.as_deref() == Some(reference);
    let by_this = settlement.accounts().any(|(_, account)| of_file(&account.external_reference));
    match (&*settlement.state, by_this) {
        ("SETTLED", true) => vec!["this file was applied before: the settlement is SETTLED".to_owned()],
        ("SETTLED", false) => vec!["the settlement is SETTLED, but not with this file".to_owned()],
        (_, true) => vec!["this file was partly applied before".to_owned()],
        (_, false) => Vec::new(),
    }
}

impl Hub {
    async fn settlement_of(&self, id: u32) -> Result<Settlement, Failure> {
        let settlement = self.api.settlement(id).await.map_err(SettlementError::from);
        settlement.map_err(SettlementError::into_failure)
    }

    /// The hub's data for each row.
    async fn entries(&self, lines: &[Line], settlement: &Settlement) -> Done<Vec<Entry>> {
        let mut entries = Vec::with_capacity(lines.len());
        for line in lines {
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
            // Earlier versions recorded the movement separately.
            entry.cover.is_moved = is_recorded || self.movement(&entry, settlement.id).await?.state.is_some();
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl BankFileOutput {
    fn new(
        Reconcile { settlement, applies, .. }: &Reconcile,
        state: String,
        reference: String,
        entries: &[Entry],
        warnings: Vec<String>,
    ) -> Self {
        let account = |entry: &Entry| ReconciledAccount {
            dfsp: entry.line.name.clone(),
            account_id: entry.line.account,
            currency: entry.line.currency.clone(),
            net: entry.line.net.to_string(),
            cover: entry.cover.amount.to_string(),
            balance: entry.line.balance.to_string(),
        };
        let accounts = entries.iter().map(account).collect();
        Self { settlement: *settlement, state, applied: *applies, reference, accounts, warnings }
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
            let ReconciledAccount { dfsp, account_id, currency, net, cover, balance } = account;
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

// Checks that a bank file belongs to this settlement, and finds warnings for operators.

/// All faults that show that the hub did not write this file, or that it is incomplete.
fn contradictions(settlement: Option<u32>, rows: &[Row], figures: &SettlementFigures) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    if let Some(other) = settlement.filter(|settlement| *settlement != figures.id) {
        let text = format!("this is the file of settlement {other}, not {}", figures.id);
        mistakes.push(Mistake { row: Some(1), text });
    }
    let mut of_all = Vec::new();
    if figures.state == "ABORTED" {
        of_all.push(format!("settlement {} was aborted", figures.id));
    }
    let mut seen = BTreeSet::new();
    for row in rows {
        let account = row.owner.as_ref().map(|(_, account, _)| *account);
        let found = match account.filter(|account| !seen.insert(*account)) {
            Some(account) => vec![format!("account {account} is listed twice")],
            None => contradictions_of(row, figures),
        };
        mistakes.extend(found.into_iter().map(|text| Mistake { row: Some(row.number), text }));
    }
    let missing = figures.parties.iter().filter(|(account, _)| !seen.contains(account));
    of_all.extend(missing.map(|(account, party)| {
        format!("account {account} of {} is missing; the settlement has it", party.name)
    }));
    let wrong = sums(rows, figures).into_iter().filter_map(|(currency, sum)| Some((currency, sum?)));
    of_all.extend(wrong.filter(|(_, sum)| *sum != 0).map(|(currency, sum)| {
        let sum = i64::try_from(sum).ok().and_then(Amount::from_units);
        let sum = sum.map_or_else(|| "more than an amount".to_owned(), |sum| sum.to_string());
        format!("the settlement transfers in {currency} sum to {sum}, not 0")
    }));
    mistakes.extend(of_all.into_iter().map(|text| Mistake { row: None, text }));
    mistakes
}

/// The sum of the settlement transfers in each currency; `None` if one of them cannot be read.
fn sums<'a>(rows: &'a [Row], figures: &'a SettlementFigures) -> BTreeMap<&'a str, Option<i128>> {
    let mut sums = BTreeMap::<&str, Option<i128>>::new();
    for row in rows {
        let Some(currency) = currency_of(row, figures) else { continue };
        let sum = sums.entry(currency).or_insert(Some(0));
        *sum = sum.zip(row.net).map(|(sum, net)| sum + i128::from(net.units()));
    }
    sums
}

/// The decimals of a currency, if an amount has more, so that no bank can hold or pay it.
fn too_fine(amount: Amount, currency: Currency) -> Option<u32> {
    currency.decimals().filter(|_| !currency.has(amount))
}

/// The contradictions between a row and the hub.
fn contradictions_of(row: &Row, figures: &SettlementFigures) -> Vec<String> {
    let mut found = Vec::new();
    let party = row.owner.as_ref().and_then(|(_, account, _)| figures.parties.get(account));
    for (what, amount) in [("balance", row.balance), ("settlement transfer", row.net)] {
        let (Some(amount), Some(currency)) = (amount, currency_of(row, figures)) else { continue };
        let Some(decimals) = Currency::parse(currency).and_then(|known| too_fine(amount, known)) else {
            continue;
        };
        let text = format!("the {what} {amount} has more decimals than {currency}, which has {decimals}");
        // Versions before the carry-over of remainders created such nets.
        let is_of_hub = party.is_some_and(|party| party.net == amount.units().into());
        found.push(match what {
            "settlement transfer" if is_of_hub => {
                format!("{text}: abort the settlement and create it again")
            }
            _ => text,
        });
    }
    let Some((participant, account, name)) = &row.owner else { return found };
    let Some(party) = party else {
        found.push(format!("the settlement has no account {account}"));
        return found;
    };
    if (party.participant, &party.name) != (*participant, name) {
        let (participant, name) = (party.participant, &party.name);
        found.push(format!("account {account} belongs to {participant} {name}"));
    }
    if let Some(other) = row.currency.as_ref().filter(|currency| **currency != party.currency) {
        found.push(format!("account {account} is in {}, not {other:?}", party.currency));
    }
    if let Some(net) = row.net.filter(|net| party.net != i128::from(net.units())) {
        let settled = i64::try_from(party.net).ok().and_then(Amount::from_units).unwrap_or_default();
        let (name, currency) = (&party.name, &party.currency);
        found.push(format!("the settlement transfer of {name} is {settled} {currency}, not {net}"));
    }
    found
}

/// The hub's cover for a DFSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cover {
    /// The current cover.
    amount: Amount,
    /// Whether it includes the settlement's movement.
    is_moved: bool,
}

/// Warnings for the operator before the file is applied.
fn warnings_of(line: &Line, cover: Cover) -> Vec<String> {
    let Line { name, currency, balance, net, row, .. } = line;
    let mut warnings = Vec::new();
    let expected = if cover.is_moved { Some(cover.amount) } else { cover.amount.checked_sub(*net) };
    if expected != Some(*balance) {
        let expected = expected.map_or_else(|| "more than an amount".to_owned(), |amount| amount.to_string());
        warnings.push(format!(
            "row {row}: {name} has {balance} {currency} at the bank, but {expected} at the hub: find the reason, and record \
             it as a deposit or withdrawal"
        ));
    }
    if *balance <= Amount::ZERO {
        warnings.push(format!("row {row}: {name} has no funds left in {currency}: check its net debit cap"));
    }
    warnings
}
