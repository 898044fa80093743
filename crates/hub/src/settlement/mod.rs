//! `upesi settlement`: closes and settles windows through the admin API, runs whole settlements as jobs, creates
//! reports, and processes the bank's files.

mod api;
mod bank;
mod job;
mod preview;
mod proposing;
mod report;
mod shown;
#[cfg_attr(not(feature = "workbooks"), path = "no_workbook.rs")]
mod workbook;

use std::io::Write;
use std::time::Duration;

use api::{Settlement, SettlementApi, Window};
use shown::Shown;
use upesi_http::ClientTls;
use upesi_types::FspId;

use self::job::Advance;
use crate::await_hub::await_admin;
use crate::exit::{Exit, Failure, Outcome};
use crate::scheme::admin_api::{AdminApi, AdminError, AdminToken};
use crate::scheme::{admin_failure, write};
use crate::terminal::note;
use crate::times::Zone;

#[cfg(test)]
pub(crate) use bank::cells_of_csv;
pub use upesi_ledger::SettlementState;

pub use bank::{Reconcile, reconcile};
pub use job::JobName;
pub use preview::Preview;
pub use report::{Report, ReportKind, matrix, report};

/// The hub to call, and the form of the output.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Base URL of the hub's admin API.
    pub admin_url: String,
    /// TLS for an `https://` URL.
    pub admin_tls: Option<ClientTls>,
    /// The operator's token, if the admin port requires one.
    pub admin_token: Option<AdminToken>,
    /// Time to wait for a hub that does not answer yet.
    pub wait: Duration,
    /// Print one JSON object instead of text.
    pub json: bool,
    /// Time zone of the times in texts. JSON and reports are in UTC.
    pub zone: Zone,
}

/// An action of the command.
#[derive(Clone, Debug)]
pub enum Action {
    /// Show windows and settlements that are not finished.
    Overview,
    /// Show one settlement.
    ShowSettlement(u32),
    /// Show one window, with the settlements of its contents.
    ShowWindow(u32),
    /// Close a window; without a number, the open one.
    Close {
        /// The window.
        window: Option<u32>,
        /// The operator's reason.
        reason: String,
    },
    /// Settle closed windows.
    Create {
        /// Name of the settlement model.
        model: String,
        /// The windows.
        windows: Vec<u32>,
        /// The operator's reason.
        reason: String,
    },
    /// Advance accounts of a settlement.
    Advance {
        /// The settlement.
        settlement: u32,
        /// The state to reach; by default the next one.
        goal: Option<SettlementState>,
        /// Only the accounts of this DFSP.
        dfsp: Option<FspId>,
        /// The operator's reason.
        reason: String,
        /// The bank's reference.
        reference: Option<String>,
    },
    /// Abort a settlement.
    Abort {
        /// The settlement.
        settlement: u32,
        /// The operator's reason.
        reason: String,
        /// The bank's reference.
        reference: Option<String>,
    },
    /// Close the open window, create settlements and finish them, or continue this.
    Run(Job),
}

/// A whole settlement as a job with a name.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name: the same name continues the same job.
    pub name: JobName,
    /// Names of the models to use; if empty, all that govern the window's contents.
    pub models: Vec<String>,
    /// A closed window to settle, instead of closing the open one.
    pub window: Option<u32>,
    /// The state to reach.
    pub goal: SettlementState,
    /// Whether an operator sees the window and its sums first.
    pub preview: Preview,
}

impl Job {
    /// A job of a program: with all models, without a preview.
    pub const fn unattended(name: JobName, goal: SettlementState) -> Self {
        Self { name, models: Vec::new(), window: None, goal, preview: Preview::None }
    }

    /// Whether it uses a model.
    fn has_model(&self, name: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|own| own == name)
    }
}

/// Performs an action, and prints its result.
///
/// # Errors
/// 69 if the hub does not answer, 1 if it rejects a call, or if an account cannot advance, 75 if an approval is
/// pending.
pub async fn run(options: &HubOptions, action: &Action, output: &mut (dyn Write + Send)) -> Outcome {
    let hub = Hub::connect(options).await?;
    let shown = hub.act(action).await.map_err(|error| match action {
        // These actions have a goal, so steps before it are not repeated.
        Action::Run(_) | Action::Advance { goal: Some(_), .. } => error.into_failure_to_continue(),
        _ => error.into_failure(),
    })?;
    write(output, &if options.json { shown.to_json()? } else { shown.to_text(&options.zone) })?;
    shown.next.iter().for_each(note);
    Ok(())
}

/// Reason why an action was not performed.
#[derive(Debug, thiserror::Error)]
enum SettlementError {
    #[error(transparent)]
    Admin(AdminError),
    #[error("{0}")]
    Stopped(String),
    /// These approvals are needed first.
    #[error("{}", waiting_text(.0))]
    Waiting(Vec<u64>),
}

impl From<AdminError> for SettlementError {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Waiting { approval, .. } => Self::Waiting(vec![approval]),
            error => Self::Admin(error),
        }
    }
}

impl SettlementError {
    fn into_failure(self) -> Failure {
        match self {
            Self::Admin(error) => admin_failure(&error),
            Self::Stopped(text) => Failure::new(Exit::Failure, text),
            Self::Waiting(approvals) => {
                let made = if approvals.len() == 1 { "it" } else { "them" };
                Failure::new(Exit::Temporary, format!("{}, which makes {made}", waiting_text(&approvals)))
            }
        }
    }

    /// The failure of a command that continues from there when it is repeated.
    fn into_failure_to_continue(self) -> Failure {
        match self {
            Self::Waiting(approvals) => {
                let again = "then repeat this command to continue";
                Failure::new(Exit::Temporary, format!("{}, {again}", waiting_text(&approvals)))
            }
            other => other.into_failure(),
        }
    }
}

/// The next step for pending approvals.
fn waiting_text(approvals: &[u64]) -> String {
    let ids: Vec<_> = approvals.iter().map(u64::to_string).collect();
    let (changes, them) = match ids.len() {
        1 => ("1 change needs".to_owned(), "it"),
        count => (format!("{count} changes need"), "them"),
    };
    let ids = ids.join(" ");
    format!("{changes} a second person: have {them} approved (upesi admin approve {ids})")
}

/// Pending approvals of steps, gathered while other steps continue.
#[derive(Debug, Default)]
struct Waiting(Vec<u64>);

impl Waiting {
    /// The result of a step; `None` if it needs an approval.
    fn take<T>(&mut self, step: Done<T>) -> Done<Option<T>> {
        match step {
            Ok(done) => Ok(Some(done)),
            Err(SettlementError::Waiting(approvals)) => {
                self.0.extend(approvals);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// The pending approvals, if there are any.
    fn check(self) -> Done<()> {
        if self.0.is_empty() { Ok(()) } else { Err(SettlementError::Waiting(self.0)) }
    }
}

type Done<T> = Result<T, SettlementError>;

struct Hub {
    api: SettlementApi,
    zone: Zone,
}

impl Hub {
    async fn connect(options: &HubOptions) -> Result<Self, Failure> {
        let tls = options.admin_tls.clone();
        let api = AdminApi::with_tls(&options.admin_url, tls).map_err(|error| admin_failure(&error))?;
        let api = api.with_token(options.admin_token.clone());
        await_admin(&options.admin_url, options.admin_tls.as_ref(), options.wait).await?;
        Ok(Self { api: SettlementApi(api), zone: options.zone.clone() })
    }

    /// Sets a reason for every call.
    fn with_reason(self, reason: &str) -> Self {
        Self { api: SettlementApi(self.api.0.with_reason(reason)), ..self }
    }

    async fn act(&self, action: &Action) -> Done<Shown> {
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
                let goal = goal.unwrap_or_else(|| job::following(&found));
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

    async fn shown(&self, windows: Vec<Window>, settlements: Vec<Settlement>) -> Done<Shown> {
        let names = if settlements.is_empty() { Default::default() } else { self.api.names().await? };
        Ok(Shown::new(&windows, &settlements, &names))
    }

    /// The windows that are open or not settled, and unfinished settlements.
    async fn overview(&self) -> Done<Shown> {
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

    /// The accounts of a DFSP; `None` for all accounts.
    async fn accounts_of(&self, dfsp: Option<&FspId>) -> Done<Option<Vec<u32>>> {
        let Some(dfsp) = dfsp else { return Ok(None) };
        let names = self.api.names().await?;
        let own = names.iter().filter(|(_, name)| name.as_str() == dfsp.as_str());
        let accounts: Vec<u32> = own.map(|(account, _)| *account).collect();
        if accounts.is_empty() {
            return Err(SettlementError::Stopped(format!("there is no participant {dfsp}")));
        }
        Ok(Some(accounts))
    }

    async fn open_window(&self) -> Done<Window> {
        let open = self.api.windows("state=OPEN").await?;
        open.into_iter().next().ok_or_else(|| SettlementError::Stopped("no window is open".to_owned()))
    }

    /// The windows that are closed and not settled.
    async fn unsettled_windows(&self) -> Done<Vec<Window>> {
        let mut windows = Vec::new();
        for state in ["CLOSED", "ABORTED", "PENDING_SETTLEMENT"] {
            windows.extend(self.api.windows(&format!("state={state}")).await?);
        }
        windows.sort_by_key(|window| window.id);
        Ok(windows)
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
    fn a_content_has_the_model_of_its_currency_else_the_one_of_all() {
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
    fn names_of_jobs_fit_references() {
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
