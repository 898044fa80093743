//! The printed form of windows and settlements.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use upesi_process::exit::{Exit, Failure};
use upesi_process::times::Zone;
use upesi_types::Amount;
use upesi_types::text::Escaped;

use super::api::{Account, Settlement, Window};

/// The output of a command.
#[derive(Debug, Serialize)]
pub(super) struct SettlementOutput {
    windows: Vec<WindowShown>,
    settlements: Vec<SettlementShown>,
    /// The operator's next step, for stderr.
    #[serde(skip)]
    pub(super) next: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WindowShown {
    id: u32,
    state: String,
    reason: String,
    created_date: String,
    changed_date: String,
    contents: Vec<ContentShown>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentShown {
    currency: String,
    ledger_account_type: String,
    state: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SettlementShown {
    id: u32,
    model: String,
    state: String,
    reason: String,
    created_date: String,
    changed_date: String,
    windows: Vec<u32>,
    accounts: Vec<AccountShown>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountShown {
    dfsp: String,
    account_id: u32,
    currency: String,
    /// Positive if the DFSP owes; a text, so that no reader rounds it.
    net: String,
    state: String,
    reason: String,
    external_reference: Option<String>,
}

impl SettlementOutput {
    pub(super) fn new(windows: &[Window], settlements: &[Settlement], names: &BTreeMap<u32, String>) -> Self {
        Self {
            windows: windows.iter().map(WindowShown::new).collect(),
            settlements: settlements.iter().map(|one| SettlementShown::new(one, names)).collect(),
            next: None,
        }
    }

    pub(super) fn to_json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::new(Exit::Software, error))?;
        Ok(text + "\n")
    }

    pub(super) fn to_text(&self, zone: &Zone) -> String {
        let mut text = String::new();
        for window in &self.windows {
            window.write(&mut text, zone);
        }
        for settlement in &self.settlements {
            settlement.write(&mut text, zone);
        }
        text
    }
}

impl WindowShown {
    fn new(window: &Window) -> Self {
        let contents = window.content.iter().map(|content| ContentShown {
            currency: content.currency_id.clone(),
            ledger_account_type: content.ledger_account_type.clone(),
            state: content.state.clone(),
        });
        Self {
            id: window.id,
            state: window.state.clone(),
            reason: window.reason.clone(),
            created_date: window.created_date.clone(),
            changed_date: window.changed_date.clone(),
            contents: contents.collect(),
        }
    }

    fn write(&self, text: &mut String, zone: &Zone) {
        let Self { id, state, reason, .. } = self;
        let changed = zone.show_text(&self.changed_date);
        let reason = if reason.is_empty() { String::new() } else { format!(": {}", Escaped(reason)) };
        let _ = writeln!(text, "window {id}  {state} since {changed}{reason}");
        for content in &self.contents {
            let ContentShown { currency, ledger_account_type, state } = content;
            let _ = writeln!(text, "  {currency} {ledger_account_type:<10} {state}");
        }
    }
}

impl SettlementShown {
    fn new(settlement: &Settlement, names: &BTreeMap<u32, String>) -> Self {
        let account = |account: &Account| {
            let net = account.net_settlement_amount.as_ref();
            AccountShown {
                dfsp: names.get(&account.id).cloned().unwrap_or_default(),
                account_id: account.id,
                currency: net.map_or_else(String::new, |net| net.currency.clone()),
                net: net.map_or(Amount::ZERO, |net| net.amount.0).to_string(),
                state: account.state.clone(),
                reason: account.reason.clone(),
                external_reference: account.external_reference.clone(),
            }
        };
        Self {
            id: settlement.id,
            model: settlement.settlement_model.clone(),
            state: settlement.state.clone(),
            reason: settlement.reason.clone(),
            created_date: settlement.created_date.clone(),
            changed_date: settlement.changed_date.clone(),
            windows: settlement.settlement_windows.iter().map(|window| window.id).collect(),
            accounts: settlement.accounts().map(|(_, one)| account(one)).collect(),
        }
    }

    fn write(&self, text: &mut String, zone: &Zone) {
        let windows: Vec<String> = self.windows.iter().map(u32::to_string).collect();
        let plural = if windows.len() == 1 { "" } else { "s" };
        let windows = windows.join(", ");
        let Self { id, model, state, reason, .. } = self;
        let changed = zone.show_text(&self.changed_date);
        let _ = writeln!(text, "settlement {id}  {model} of window{plural} {windows}");
        let _ = writeln!(text, "  {state} since {changed}: {}", Escaped(reason));
        let names = self.accounts.iter().map(|account| account.dfsp.len());
        let width = names.chain(["DFSP".len()]).max().unwrap_or(0);
        let _ =
            writeln!(text, "  {:<width$}  account  {:>18}       {:<22}  reference", "DFSP", "net", "state");
        for account in &self.accounts {
            let AccountShown { dfsp, account_id, currency, net, state, external_reference, .. } = account;
            let reference = Escaped(external_reference.as_deref().unwrap_or(""));
            let line =
                format!("  {dfsp:<width$}  {account_id:>7}  {net:>18} {currency}   {state:<22}  {reference}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}
