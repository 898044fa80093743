//! Closes, settles and finishes a window as one job.
//!
//! The hub stores everything that a job needs to continue: the reason of the window's close and of each settlement's
//! creation names the job, and does not change later. Each step is looked up before it is made, and the hub moves an
//! account's money once. So a second call after a crash makes the missing steps.

use std::fmt;
use std::str::FromStr;

use upesi_admin::ErrorName;
use upesi_ledger::SettlementState;
use upesi_process::terminal::note;
use upesi_process::times::Zone;

use super::advance::Advance;
use super::api::{Content, Model, Settlement, Window};
use super::error::{Done, PendingApprovals, SettlementError};
use super::hub::Hub;
use super::proposing::create_call;

/// Maximum length of a name, so that references with it fit into 50 characters.
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
    /// The reason of all changes by the job.
    fn reason(&self) -> String {
        format!("settlement run {self}")
    }

    fn reference(&self, settlement: u32, account: u32) -> String {
        format!("{self}-{settlement}-{account}")
    }
}

/// Whether an operator sees the window and its sums first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Show it on stderr. A name that contains another day must be confirmed: here already, or at the terminal.
    Shown {
        /// Whether it is already confirmed.
        is_confirmed: bool,
    },
    /// No preview, for programs.
    None,
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
    pub(super) fn has_model(&self, name: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|own| own == name)
    }
}

impl Hub {
    /// The settlements that a job created, including aborted ones, the oldest first.
    pub(super) async fn settlements_of(&self, job: &JobName) -> Done<Vec<Settlement>> {
        Ok(self.api.settlements_created_for(&job.reason()).await?)
    }
}

impl Job {
    /// Makes the missing steps, and returns the job's window and settlements. A pending approval delays only its own
    /// settlement.
    pub(super) async fn run(&self, hub: &Hub) -> Done<(Vec<Window>, Vec<Settlement>)> {
        let mut settlements = hub.settlements_of(&self.name).await?;
        let Some(window) = self.window(hub, &settlements).await? else {
            return Ok((vec![hub.open_window().await?], Vec::new()));
        };
        settlements.retain(|settlement| settlement.state != SettlementState::Aborted.as_str());
        let (reason, mut waiting) = (self.name.reason(), PendingApprovals::default());
        if hub.has_second_person().await {
            self.propose(hub, &window, &settlements).await?;
        }
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

    /// The operator's next step for settlements that are not finished.
    pub(super) fn next_step(&self, settlements: &[Settlement]) -> Option<String> {
        let unsettled = settlements.iter().filter(|one| one.state != SettlementState::Settled.as_str());
        let numbers: Vec<String> = unsettled.map(|settlement| settlement.id.to_string()).collect();
        let (what, number) = match &numbers[..] {
            _ if self.preview == Preview::None => return None,
            [] => return None,
            [one] => (format!("settlement {one} is"), one.as_str()),
            several => (format!("settlements {} are", several.join(" and ")), "NUMBER"),
        };
        Some(format!(
            "{what} not finished: the bank has to act\n  \
             its file: upesi settlement report {number} --kind bank --out FILE\n  \
             to finish with the filled file: upesi settlement reconcile {number} FILE --apply\n  \
             to finish without it: upesi settlement run {} --to settled",
            self.name
        ))
    }

    /// Proposes the missing steps as one change set: the creation of settlements, or the stages of existing ones.
    ///
    /// # Errors
    /// The pending approval.
    async fn propose(&self, hub: &Hub, window: &Window, settlements: &[Settlement]) -> Done<()> {
        let reason = self.name.reason();
        let models = self.models(hub, window).await?;
        let mut calls: Vec<_> = models.iter().map(|model| create_call(model, &reason, window.id)).collect();
        for settlement in settlements {
            let reference = |account| Some(self.name.reference(settlement.id, account));
            let advance = Advance { goal: self.goal, only: None, reason: &reason, reference: &reference };
            calls.extend(advance.calls(settlement));
        }
        if calls.is_empty() { Ok(()) } else { hub.propose(&reason, &calls).await }
    }

    /// The job's window, closed now if necessary; `None` if the open window is empty and no other one is waiting.
    async fn window(&self, hub: &Hub, settlements: &[Settlement]) -> Done<Option<Window>> {
        let mut begun = settlements.iter().flat_map(|settlement| &settlement.settlement_windows);
        let begun = begun.next().map(|window| window.id);
        if let Some(id) = begun.or(self.window) {
            let window = hub.api.window(id).await?;
            if window.is_open() {
                return Err(SettlementError::Stopped(format!("window {id} is open: close it first")));
            }
            if begun.is_none() {
                self.preview(hub, &window).await?;
            }
            return Ok(Some(window));
        }
        let reason = self.name.reason();
        // Regardless of its later states: another operator may have begun to settle it.
        let closed = hub.api.windows_closed_for(&reason).await?;
        if let Some(window) = closed.into_iter().max_by_key(|window| window.id) {
            return Ok(Some(window));
        }
        let open = hub.open_window().await?;
        self.preview(hub, &open).await?;
        match hub.api.close(open.id, &reason).await {
            Ok(_) => Ok(Some(hub.api.window(open.id).await?)),
            Err(error) if error.is(ErrorName::WindowEmpty) => {
                expect_none_unsettled(open.id, &hub.unsettled_windows().await?, &hub.zone)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The models that can settle contents of a window now. Contents without one are named on stderr.
    async fn models(&self, hub: &Hub, window: &Window) -> Done<Vec<String>> {
        let models = hub.api.models().await?;
        let mut names = Vec::new();
        for content in window.content.iter().filter(|content| content.can_be_settled()) {
            match governing(&models, content) {
                Some(model) => names.push(model.name.clone()),
                None => {
                    let Content { currency_id, ledger_account_type, .. } = content;
                    let what = format!("window {}: {currency_id} {ledger_account_type}", window.id);
                    note(format_args!("{what} stays: no active model of deferred net settlement governs it"));
                }
            }
        }
        names.retain(|name| self.has_model(name));
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// Reports unsettled windows, which an empty open window hides.
fn expect_none_unsettled(open: u32, unsettled: &[Window], zone: &Zone) -> Done<()> {
    if unsettled.is_empty() {
        return Ok(());
    }
    let line = |window: &Window| {
        let changed = zone.show_text(&window.changed_date);
        format!("window {} is {} since {changed}", window.id, window.state)
    };
    let lines: Vec<String> = unsettled.iter().map(line).collect();
    Err(SettlementError::Stopped(format!(
        "nothing was done: the open window {open} is empty, but other windows are not settled\n{}\nsettle one that is CLOSED or \
         ABORTED with --window NUMBER; see upesi settlement show for one that is PENDING_SETTLEMENT",
        lines.join("\n")
    )))
}

/// The model of net settlement that governs a content: one of its currency, otherwise one of all currencies.
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
