//! A window closed, settled and finished as one job.
//!
//! The hub keeps all that a job needs to continue: the reason of the window's close and of each settlement's creation
//! names the job, and stays whatever becomes of them. Each step is looked up before it is made, and the hub moves an
//! account's money once, so a second call after a crash makes the steps that are missing.

use std::fmt;
use std::str::FromStr;

use upesi_ledger::SettlementState;

use super::advance::Advance;
use super::api::{Content, Model, Settlement, Window};
use super::{Done, Hub, Job, SettlementError, Waiting};
use crate::scheme::admin_api::AdminError;

/// Longest name, so that the references that it begins fit 50 characters.
const NAME_CHARS_MAX: usize = 26;

/// Name of a job: 1 to 26 letters, digits, dots, hyphens and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName(String);

impl FromStr for JobName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "give a name of 1 to {NAME_CHARS_MAX} letters, digits, dots, hyphens and underscores, such as 2026-11-23"
        ))
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JobName {
    /// The reason of all that the job changes.
    fn reason(&self) -> String {
        format!("settlement run {self}")
    }

    fn reference(&self, settlement: u32, account: u32) -> String {
        format!("{self}-{settlement}-{account}")
    }
}

impl Hub {
    /// The settlements that a job created, aborted ones included, the oldest first.
    pub(super) async fn settlements_of(&self, job: &JobName) -> Done<Vec<Settlement>> {
        Ok(self.api.settlements_created_for(&job.reason()).await?)
    }
}

impl Job {
    /// Makes the steps that are missing, and returns the job's window and settlements. What waits for a second person
    /// keeps only its own settlement back.
    pub(super) async fn run(&self, hub: &Hub) -> Done<(Vec<Window>, Vec<Settlement>)> {
        let mut settlements = hub.settlements_of(&self.name).await?;
        let Some(window) = self.window(hub, &settlements).await? else {
            return Ok((vec![hub.api.window(hub.open_window().await?).await?], Vec::new()));
        };
        settlements.retain(|settlement| settlement.state != SettlementState::Aborted.as_str());
        let (reason, mut waiting) = (self.name.reason(), Waiting::default());
        for model in self.models(hub, &window).await? {
            let created = hub.api.create(&model, &reason, &[window.id]).await;
            settlements.extend(waiting.take(created.map_err(Into::into))?);
        }
        let mut finished = Vec::new();
        for settlement in settlements {
            let id = settlement.id;
            let reference = move |account| Some(self.name.reference(id, account));
            let advance = Advance { goal: self.goal, only: None, reason: &reason, reference: &reference };
            finished.extend(waiting.take(advance.run(&hub.api, settlement).await)?);
        }
        waiting.check()?;
        Ok((vec![hub.api.window(window.id).await?], finished))
    }

    /// The job's window, closed now if it was not; `None` if the open window is empty.
    async fn window(&self, hub: &Hub, settlements: &[Settlement]) -> Done<Option<Window>> {
        let begun = settlements.iter().flat_map(|settlement| &settlement.settlement_windows).next();
        if let Some(id) = begun.map(|window| window.id).or(self.window) {
            let window = hub.api.window(id).await?;
            if window.state == "OPEN" {
                return Err(SettlementError::Stopped(format!("window {id} is open: close it first")));
            }
            return Ok(Some(window));
        }
        let reason = self.name.reason();
        // Whatever became of it since: others may have begun to settle it.
        let closed = hub.api.windows_closed_for(&reason).await?;
        if let Some(window) = closed.into_iter().max_by_key(|window| window.id) {
            return Ok(Some(window));
        }
        match hub.close(None, &reason).await {
            Ok(mut windows) => Ok(Some(windows.swap_remove(0))),
            Err(SettlementError::Admin(AdminError::Refused { text, .. })) if text.ends_with(" is empty") => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The models that can settle contents of a window now. Contents without one are named on stderr.
    async fn models(&self, hub: &Hub, window: &Window) -> Done<Vec<String>> {
        let models = hub.api.models().await?;
        let mut names = Vec::new();
        for content in
            window.content.iter().filter(|content| ["CLOSED", "ABORTED"].contains(&&*content.state))
        {
            match governing(&models, content) {
                Some(model) => names.push(model.name.clone()),
                None => {
                    let Content { currency_id, ledger_account_type, .. } = content;
                    let what = format!("window {}: {currency_id} {ledger_account_type}", window.id);
                    eprintln!("upesi: {what} stays: no active model of deferred net settlement governs it");
                }
            }
        }
        names.retain(|name| self.models.is_empty() || self.models.contains(name));
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// The model of net settlement that governs a content: one of its currency, else one of all currencies.
pub(super) fn governing<'a>(models: &'a [Model], content: &Content) -> Option<&'a Model> {
    let is_own = |model: &&Model| model.currency.as_ref() == Some(&content.currency_id);
    let has_own = models.iter().any(|model| is_own(&model));
    models.iter().find(|model| {
        (if has_own { is_own(model) } else { model.currency.is_none() })
            && model.ledger_account_type_id == content.ledger_account_type
            && model.settlement_granularity == "NET"
            && model.settlement_delay == "DEFERRED"
    })
}
