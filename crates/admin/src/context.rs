//! What the API works with: the engine, and what the process lends it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_engine::{Clock, EngineHandle, Payload};
use upesi_ledger::{AdminCommand, AdminOutcome, Command, Ledger, Reply};
use upesi_tables::TablesError;
use upesi_types::Timestamp;

use crate::changes::Change;
use crate::debug::Holders;
use crate::directory::DirectoryHandle;
use crate::error::ApiError;
use crate::lanes::{Lanes, NoLanes};
use crate::metrics_text::MetricsText;
use crate::quotes::QuoteView;

/// What is logged, and how that is changed.
pub trait LogLevel: Send + Sync {
    /// What is in force: a level, or a list of directives.
    fn level(&self) -> String;

    /// The targets that directives may name.
    fn targets(&self) -> Vec<String>;

    /// Puts another level in force.
    ///
    /// # Errors
    /// Why it is none; nothing was changed.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// The log of a process that cannot change it.
#[derive(Clone, Copy, Debug)]
pub struct FixedLog;

impl LogLevel for FixedLog {
    fn level(&self) -> String {
        "unknown".to_owned()
    }

    fn targets(&self) -> Vec<String> {
        Vec::new()
    }

    fn set_level(&self, _level: &str) -> Result<(), String> {
        Err("this process cannot change its log level".to_owned())
    }
}

/// Finds a kept quote by its id.
pub type FindQuote = Arc<dyn Fn(&str) -> Result<Option<QuoteView>, TablesError> + Send + Sync>;

/// What the API works with. Cheap to clone.
#[derive(Clone)]
pub struct AdminContext {
    /// The hub.
    pub engine: EngineHandle,
    /// Host that stands in the links of answers, with a port where it has one.
    pub hostname: Arc<str>,
    /// Version of the hub, for `/health`.
    pub version: &'static str,
    /// The party directory and the oracles; without them, those resources answer 501.
    pub directory: Option<DirectoryHandle>,
    /// The kept quotes; `None` if quotes are not kept.
    pub quotes: Option<FindQuote>,
    /// The lanes of callbacks.
    pub lanes: Arc<dyn Lanes>,
    /// The metrics.
    pub metrics: MetricsText,
    /// What `/debug/heap` shows of the hub itself; `None` where profiling is off.
    pub profiling: Option<Holders>,
    /// The log's level.
    pub log_level: Arc<dyn LogLevel>,
    /// When the process started, for its uptime.
    pub started: Instant,
    /// The same by the calendar.
    pub started_at: Timestamp,
}

impl AdminContext {
    /// A context with the defaults: host name `central-ledger`, no directory, no quotes, no lanes, no metrics, a log
    /// level that stays.
    pub fn new(engine: EngineHandle) -> Self {
        let started_at = engine.clock().now();
        Self {
            engine,
            hostname: "central-ledger".into(),
            version: env!("CARGO_PKG_VERSION"),
            directory: None,
            quotes: None,
            lanes: Arc::new(NoLanes),
            metrics: MetricsText::new(Duration::ZERO, String::new),
            profiling: None,
            log_level: Arc::new(FixedLog),
            started: Instant::now(),
            started_at,
        }
    }

    /// Makes a change and waits until it is durable. The log tells from what to what; another operator's change of the
    /// same thing at the same moment may lie between.
    pub(crate) async fn change(&self, command: AdminCommand) -> Result<AdminOutcome, ApiError> {
        let asked = command.clone();
        let change = self.ask(move |ledger| Change::of(&asked, ledger)).await?;
        let outcome = self.submit(Command::Admin(command)).await?;
        change.log(&outcome);
        Ok(outcome)
    }

    pub(crate) async fn submit(&self, command: Command) -> Result<AdminOutcome, ApiError> {
        match self.engine.submit(command, Payload::default()).await? {
            Reply::Admin(reply) => Ok(reply?),
            Reply::Accepted | Reply::UnknownSender(_) | Reply::NeedsArchive => {
                Err(ApiError::internal("The engine gave no answer to an operator's command"))
            }
        }
    }

    /// Asks a question of what is durable.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.engine.read(question).await?)
    }
}

impl fmt::Debug for AdminContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminContext").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}
