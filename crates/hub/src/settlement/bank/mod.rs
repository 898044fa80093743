//! `upesi settlement reconcile`: the file that the settlement bank has filled in, checked against the settlement, and
//! the settlement finished by it.

mod apply;
mod caps;
mod check;
mod file;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::api::Settlement;
use super::report::Figures;
use super::{Done, Hub, HubOptions, SettlementError};
use crate::exit::{Exit, Failure, Outcome};
use crate::scheme::state::settlement_balance;
use crate::scheme::write;
use apply::{Applied, Records};
use check::Cover;
use file::{BankFile, Line};

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
    let entries = hub.entries(&file).await.map_err(SettlementError::into_failure)?;
    let settlement = hub.settlement_of(reconcile.settlement).await?;
    let mut warnings = repeated(&settlement, &reference);
    warnings.extend(entries.iter().flat_map(|entry| check::warnings(&entry.line, entry.cover)));
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
    let errors = check::errors(&file, figures);
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
    async fn entries(&self, file: &BankFile) -> Done<Vec<Entry>> {
        let mut entries = Vec::with_capacity(file.lines.len());
        for line in &file.lines {
            let Line { name, currency, .. } = line;
            let balance = settlement_balance(&self.api.0, name, currency).await?;
            let missing =
                || SettlementError::Stopped(format!("{name} has no SETTLEMENT account in {currency}"));
            let balance = balance.ok_or_else(missing)?;
            let cover = Cover { amount: balance.cover(), is_moved: false };
            let mut entry = Entry { line: line.clone(), settlement_account: balance.id, cover };
            let movement = self.movement(&entry, file.settlement).await;
            // A movement that was refused has moved nothing; applying the file tells of it.
            entry.cover.is_moved = matches!(movement, Ok(Some(_)));
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
