//! `upesi settlement`: closes and settles windows through the admin API, runs whole settlements as jobs, creates
//! reports, and processes the bank's files.

mod advance;
mod api;
mod bank;
mod cell;
mod error;
mod hub;
mod job;
mod preview;
mod proposing;
mod report;
mod shown;
#[cfg_attr(not(feature = "workbooks"), path = "no_workbook.rs")]
mod workbook;

use std::io::Write;

use upesi_process::exit::{Outcome, write_to};
use upesi_process::terminal::note;
use upesi_types::FspId;

use self::advance::{Advance, following};
use self::api::{Settlement, Window};
use self::error::Done;
use self::hub::Hub;
use self::shown::SettlementOutput;

#[cfg(test)]
pub(crate) use bank::cells_of_csv;
pub use upesi_ledger::SettlementState;

pub use bank::{Reconcile, reconcile};
pub use hub::HubOptions;
pub use job::{Job, JobName, Preview};
pub use report::{Report, ReportKind, matrix, report};

/// An action of the command.
#[derive(Clone, Debug)]
pub enum Action {
    /// Show windows and settlements that are not finished.
    Overview,
    ShowSettlement(u32),
    /// Show one window, with the settlements of its contents.
    ShowWindow(u32),
    /// Close a window; without a number, the open one.
    Close {
        window: Option<u32>,
        reason: String,
    },
    /// Settle closed windows.
    Create {
        /// Name of the settlement model.
        model: String,
        windows: Vec<u32>,
        reason: String,
    },
    /// Advance accounts of a settlement.
    Advance {
        settlement: u32,
        /// The state to reach; by default the next one.
        goal: Option<SettlementState>,
        /// Only the accounts of this DFSP.
        dfsp: Option<FspId>,
        reason: String,
        /// The bank's reference.
        reference: Option<String>,
    },
    /// Abort a settlement.
    Abort {
        settlement: u32,
        reason: String,
        /// The bank's reference.
        reference: Option<String>,
    },
    /// Close the open window, create settlements and finish them, or continue this.
    Run(Job),
}

/// Performs an action, and prints its result.
///
/// # Errors
/// 69 if the hub does not answer, 1 if it rejects a call, or if an account cannot advance, 75 if an approval is
/// pending.
pub async fn run(options: &HubOptions, action: &Action, output: &mut (dyn Write + Send)) -> Outcome {
    let hub = Hub::connect(options).await?;
    let shown = hub.act(action).await.map_err(|error| match action {
        // These actions have a goal. A repeated call continues after the steps that were already made.
        Action::Run(_) | Action::Advance { goal: Some(_), .. } => error.into_failure_to_continue(),
        _ => error.into_failure(),
    })?;
    write_to(output, &if options.json { shown.to_json()? } else { shown.to_text(&options.zone) })?;
    shown.next.iter().for_each(note);
    Ok(())
}

impl Hub {
    async fn act(&self, action: &Action) -> Done<SettlementOutput> {
        match action {
            Action::Overview => self.overview().await,
            Action::ShowSettlement(id) => self.shown(Vec::new(), vec![self.api.settlement(*id).await?]).await,
            Action::ShowWindow(id) => {
                let window = self.api.window(*id).await?;
                let settlements = self.api.settlements(&format!("settlementWindowId={id}")).await?;
                self.shown(vec![window], settlements).await
            }
            Action::Close { window, reason } => {
                let closed = self.close(*window, reason).await?;
                self.shown(closed, Vec::new()).await
            }
            Action::Create { model, windows, reason } => {
                let created = self.api.create(model, reason, windows).await?;
                self.shown(Vec::new(), vec![created]).await
            }
            Action::Advance { settlement, goal, dfsp, reason, reference } => {
                let found = self.api.settlement(*settlement).await?;
                let goal = goal.unwrap_or_else(|| following(&found));
                let only = self.accounts_of(dfsp.as_ref()).await?;
                let reference = |_| reference.clone();
                let advance = Advance { goal, only, reason, reference: &reference };
                let advanced = advance.run(&self.api, found).await?;
                self.shown(Vec::new(), vec![advanced]).await
            }
            Action::Abort { settlement, reason, reference } => {
                self.api.abort(*settlement, reason, reference.as_deref()).await?;
                self.shown(Vec::new(), vec![self.api.settlement(*settlement).await?]).await
            }
            Action::Run(job) => {
                let (windows, settlements) = job.run(self).await?;
                let next = job.next_step(&settlements);
                let mut shown = self.shown(windows, settlements).await?;
                shown.next = next;
                Ok(shown)
            }
        }
    }

    async fn shown(&self, windows: Vec<Window>, settlements: Vec<Settlement>) -> Done<SettlementOutput> {
        let names = if settlements.is_empty() { Default::default() } else { self.api.names().await? };
        Ok(SettlementOutput::new(&windows, &settlements, &names))
    }

    /// The windows that are open or not settled, and unfinished settlements.
    async fn overview(&self) -> Done<SettlementOutput> {
        let mut windows = self.unsettled_windows().await?;
        windows.extend(self.api.windows("state=OPEN").await?);
        windows.sort_by_key(|window| window.id);
        let mut settlements = Vec::new();
        for state in SettlementState::ALL {
            if !matches!(state, SettlementState::Settled | SettlementState::Aborted) {
                settlements.extend(self.api.settlements(&format!("state={}", state.as_str())).await?);
            }
        }
        settlements.sort_by_key(|settlement| settlement.id);
        self.shown(windows, settlements).await
    }

    /// Closes a window, and returns it and the new open one. A closed window stays unchanged.
    async fn close(&self, window: Option<u32>, reason: &str) -> Done<Vec<Window>> {
        let id = match window {
            Some(id) => id,
            None => self.open_window().await?.id,
        };
        if window.is_some() {
            let found = self.api.window(id).await?;
            if !found.is_open() {
                return Ok(vec![found]);
            }
        }
        let open = self.api.close(id, reason).await?;
        Ok(vec![self.api.window(id).await?, open])
    }
}

#[cfg(test)]
mod tests {
    use super::job::governing;
    use super::{JobName, api};

    fn model(name: &str, currency: Option<&str>, kind: &str, granularity: &str) -> api::Model {
        let text = serde_json::json!({
            "name": name,
            "settlementGranularity": granularity,
            "settlementDelay": "DEFERRED",
            "currency": currency,
            "ledgerAccountTypeId": kind,
        });
        serde_json::from_value(text).unwrap()
    }

    /// As in the ledger: a model for all currencies does not govern a currency with models of its own.
    #[test]
    fn governing_prefers_the_model_of_the_currency() {
        let models = [
            model("ALL", None, "POSITION", "NET"),
            model("ALLFEES", None, "INTERCHANGE_FEE", "NET"),
            model("KENYA", Some("KES"), "POSITION", "NET"),
            model("TANZANIA", Some("TZS"), "POSITION", "GROSS"),
        ];
        for (currency, kind, expected) in [
            ("KES", "POSITION", Some("KENYA")),
            ("KES", "INTERCHANGE_FEE", None),
            ("TZS", "POSITION", None),
            ("ZMW", "POSITION", Some("ALL")),
            ("ZMW", "INTERCHANGE_FEE", Some("ALLFEES")),
            ("ZMW", "ESCROW", None),
        ] {
            let content = serde_json::json!({"state": "CLOSED", "ledgerAccountType": kind, "currencyId": currency, "createdDate": ""});
            let content = serde_json::from_value(content).unwrap();
            let found = governing(&models, &content).map(|model| &*model.name);
            assert_eq!(found, expected, "{currency} {kind}");
        }
        assert!(
            governing(
                &models[..0],
                &serde_json::from_value(serde_json::json!({
                    "state": "CLOSED", "ledgerAccountType": "POSITION", "currencyId": "KES", "createdDate": ""
                }))
                .unwrap()
            )
            .is_none()
        );
    }

    #[test]
    fn job_names_fit_references() {
        for name in ["2026-11-23", "eod.KES_1", &"a".repeat(26)] {
            assert_eq!(name.parse::<JobName>().unwrap().to_string(), name);
        }
        for name in ["", "a b", "é", "a/b", &"a".repeat(27)] {
            assert!(
                name.parse::<JobName>().unwrap_err().starts_with("give a name of 1 to 26 letters"),
                "{name}"
            );
        }
    }
}
