//! One stage of the hub at a time: the ledger, positions (ledger and journal), the journal, the archive, callbacks, and
//! the two requests of a transfer over HTTP, each without the others; and the load generator, without a hub.
//!
//! [`run`] takes the kind and the table of a scenario file and gives a result like any other run. What each kind
//! measures and leaves out stands in `docs/lab/isolated.md`.

mod admin;
mod archive;
mod edge;
mod flow;
mod generator;
mod journal;
mod ledger;
mod measurement;
mod notification;
mod position;
mod receiver;
pub(crate) mod scheme;
mod senders;
mod settings;
mod source;
pub mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::drive::child::ChildError;
use crate::result::LabResult;
pub(crate) use flow::start_delivering;
use measurement::Measurement;
pub(crate) use measurement::table;
use settings::Keys;
use stream::StreamError;

/// What surrounds a run of one stage.
#[derive(Clone, Debug)]
pub struct Context {
    pub name: String,
    pub title: String,
    pub description: String,
    /// A directory on the disk to measure. What is made there is removed at the end.
    pub scratch: PathBuf,
    /// The `upesi` binary that is started as hub by the kinds `prepare`, `fulfil` and `admin`; `None` is this program
    /// itself.
    pub binary: Option<PathBuf>,
    /// More arguments for that hub, such as `--set=log.level=debug`.
    pub hub_arguments: Vec<String>,
    /// Where that hub's log goes; `None` throws it away.
    pub logs: Option<PathBuf>,
    /// Where what is recorded for the occasion is kept for other runs that need the same; `None` keeps nothing.
    pub recordings: Option<PathBuf>,
    pub seed: u64,
    /// The commit this program was built from, if known.
    pub commit: Option<String>,
}

impl Context {
    fn hub_binary(&self) -> Result<PathBuf, IsolatedError> {
        let source =
            |source| IsolatedError::Io { what: "cannot find this program's file".to_owned(), source };
        self.binary.clone().map_or_else(|| std::env::current_exe().map_err(source), Ok)
    }
}

impl Default for Context {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            description: String::new(),
            scratch: std::env::temp_dir(),
            binary: None,
            hub_arguments: Vec::new(),
            logs: None,
            recordings: None,
            seed: 1,
            commit: None,
        }
    }
}

/// The stages that can be measured alone, and what each is, in a few words.
pub const KINDS: [(&str, &str); 9] = [
    ("ledger", "deciding and folding, in memory, on one thread"),
    ("position", "a recorded stream through the engine: ledger and journal, no HTTP"),
    ("journal", "appending batches of records, with or without sync"),
    ("archive", "storing finished transfers and finding them again"),
    ("notification", "a recorded stream through the courier to receivers"),
    ("prepare", "POST /transfers over HTTP to a hub of its own, until the 202"),
    ("fulfil", "PUT /transfers/{ID} over HTTP for transfers that are reserved already, until the 200"),
    ("admin", "reads of the admin API with an operator's token, to a hub of its own"),
    ("generator", "the load generator's schedule, with nothing to send and nobody to send it to"),
];

/// The settings of one run, ready.
enum Stage {
    Ledger(ledger::Settings),
    Position(position::Settings),
    Journal(journal::Settings),
    Archive(archive::Settings),
    Notification(notification::Settings),
    Edge(edge::Settings),
    Admin(admin::Settings),
    Generator(generator::Settings),
}

impl Stage {
    /// Reads the table of a kind; every mistake is named.
    fn read(kind: &str, table: &toml::Table) -> Result<Self, IsolatedError> {
        let mut keys = Keys::new(kind, table);
        let stage = match kind {
            "ledger" => Self::Ledger(ledger::Settings::read(&mut keys)),
            "position" => Self::Position(position::Settings::read(&mut keys)),
            "journal" => Self::Journal(journal::Settings::read(&mut keys)),
            "archive" => Self::Archive(archive::Settings::read(&mut keys)),
            "notification" => Self::Notification(notification::Settings::read(&mut keys)),
            "prepare" => Self::Edge(edge::Settings::read(edge::Request::Prepare, &mut keys)),
            "fulfil" => Self::Edge(edge::Settings::read(edge::Request::Fulfil, &mut keys)),
            "admin" => Self::Admin(admin::Settings::read(&mut keys)),
            "generator" => Self::Generator(generator::Settings::read(&mut keys)),
            other => return Err(IsolatedError::unknown_kind(other)),
        };
        keys.finish()?;
        Ok(stage)
    }

    fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        match self {
            Self::Ledger(settings) => settings.run(context),
            Self::Position(settings) => settings.run(context),
            Self::Journal(settings) => settings.run(context),
            Self::Archive(settings) => settings.run(context),
            Self::Notification(settings) => settings.run(context),
            Self::Edge(settings) => settings.run(context),
            Self::Admin(settings) => settings.run(context),
            Self::Generator(settings) => settings.run(context),
        }
    }
}

/// Checks the table of a kind without running anything. Errors: [`IsolatedError::Kind`] for an unknown kind,
/// [`IsolatedError::Settings`] with every mistake in the table.
pub fn check(kind: &str, table: &toml::Table) -> Result<(), IsolatedError> {
    Stage::read(kind, table).map(drop)
}

/// Measures one stage alone. Blocks until it is over; must not be called from within an async runtime. Errors: A
/// mistake in the table, an unreadable stream, a disk or a process that fails.
pub fn run(kind: &str, table: &toml::Table, context: &Context) -> Result<LabResult, IsolatedError> {
    let stage = Stage::read(kind, table)?;
    crate::observe::process::allow_many_files();
    let started_at = stream::now();
    let mut measurement = stage.run(context)?;
    // What was asked for; the rest is as the documentation says. Of a recorded stream it also counts between how many,
    // and of several submitters whether all had something to do.
    measurement.parameters.retain(|(key, _)| match *key {
        "dfsps" => true,
        position::SUBMITTING => table.contains_key("submitters"),
        key => table.contains_key(key),
    });
    Ok(measurement.result(kind, context, started_at))
}

/// Why a stage could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum IsolatedError {
    #[error("there is no isolated kind {kind:?}; give one of {kinds}")]
    Kind { kind: String, kinds: String },
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the engine does not start: {0}")]
    Start(#[from] upesi_engine::StartError),
    #[error("the engine refused {what}: {reason}")]
    Refused { what: &'static str, reason: String },
    #[error(transparent)]
    Journal(#[from] upesi_journal::JournalError),
    #[error(transparent)]
    Directory(#[from] upesi_journal::DataDirectoryError),
    #[error("the archive: {0}")]
    Archive(#[from] upesi_tables::TablesError),
    #[error("no stream can be recorded: {0}")]
    Recording(Box<crate::drive::run::LabError>),
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("no operator can be made: {0}")]
    Operator(String),
    #[error(transparent)]
    Workers(#[from] upesi_http::WorkersError),
    #[error("the receivers cannot listen: {0}")]
    Bind(#[from] upesi_http::BindError),
    #[error("the simulated DFSPs cannot start: {0}")]
    Sim(#[from] upesi_sim::SimError),
    #[error("{what} made no progress for {seconds} s")]
    Stuck { what: &'static str, seconds: u64 },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl IsolatedError {
    fn unknown_kind(kind: &str) -> Self {
        let kinds: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
        Self::Kind { kind: kind.to_owned(), kinds: kinds.join(", ") }
    }

    pub(super) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {what} {}", path.display());
        move |source| Self::Io { what, source }
    }

    pub(super) fn thread(source: io::Error) -> Self {
        Self::Io { what: "cannot start a thread".to_owned(), source }
    }

    /// A failure of a thread of the measurement itself.
    pub(super) fn panicked() -> Self {
        Self::Io { what: "a thread of the measurement".to_owned(), source: io::Error::other("it panicked") }
    }

    /// Whether the asker made a mistake, rather than the machine.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Kind { .. } | Self::Settings(_))
    }

    /// The stream that is missing, if that is what is wrong.
    pub fn missing_stream(&self) -> Option<&PathBuf> {
        match self {
            Self::Stream(error) => error.missing(),
            _ => None,
        }
    }
}

/// A fresh directory; it is removed with this value.
fn scratch(parent: &Path) -> Result<TempDir, IsolatedError> {
    std::fs::create_dir_all(parent).map_err(IsolatedError::io("create", parent))?;
    let made = tempfile::Builder::new().prefix("upesi-lab-").tempdir_in(parent);
    made.map_err(IsolatedError::io("create a directory in", parent))
}
