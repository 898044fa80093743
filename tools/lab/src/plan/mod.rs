//! Scenario files: the declaration of what to run. A file is TOML. It is read completely, and every mistake is reported
//! with its line, before anything is started.
//!
//! - [`ScenarioFile::named`] finds a built-in one, [`ScenarioFile::read`] one on disk.
//! - [`ScenarioFile::points`] returns its runs: one, or one for each combination of a sweep.
//! - [`SuiteFile`] is a list of scenarios that run one after the other.
//!
//! The keys are documented in `docs/lab/scenarios.md`.

pub(crate) mod load_profile;
pub mod metric;
pub(crate) mod operations;
pub(crate) mod options;
pub(crate) mod pairs;
pub mod parameter;
pub mod parameters;
pub(crate) mod plot;
mod read;
pub(crate) mod scenario;
pub mod section;
pub(crate) mod security;
pub mod stage;
mod suite;
pub(crate) mod suite_plan;
pub(crate) mod surroundings;
mod sweep;
pub(crate) mod target;
pub(crate) mod targets;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use section::Node;
pub use section::duration_of;
pub use suite::{SuiteFile, SuiteQuestion, SuiteRun};
pub use sweep::{Claim, Point};
use upesi_keys::read_limited_text;

use crate::plan::options::RunOptions;
use crate::plan::plot::SuitePlot;

/// Maximum size of a scenario or suite file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of repetitions of a scenario, and of a suite.
pub const REPETITIONS_MAX: usize = 50;

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its line, from 1; 0 for the file as a whole.
    pub line: usize,
    pub text: String,
}

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("there is no {what} {name:?}; `upesi lab list` shows them all, and a file is given by its path")]
    Unknown { what: &'static str, name: String },
    #[error("{}", describe(.file, .mistakes))]
    Mistakes { file: String, mistakes: Vec<Mistake> },
}

fn describe(file: &str, mistakes: &[Mistake]) -> String {
    let line = |mistake: &Mistake| match mistake.line {
        0 => format!("{file}: {}", mistake.text),
        line => format!("{file}:{line}: {}", mistake.text),
    };
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The kind of test of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Test {
    Smoke,
    #[default]
    Average,
    Stress,
    /// A sudden rise of the load, and its aftermath.
    Spike,
    /// Searches the highest rate that meets the targets.
    Breakpoint(Search),
    /// A run of hours, with its effect on latency, memory and disk.
    Soak,
}

impl Test {
    pub const NAMES: [&'static str; 6] = ["smoke", "average", "stress", "spike", "breakpoint", "soak"];

    /// Its name in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Average => "average",
            Self::Stress => "stress",
            Self::Spike => "spike",
            Self::Breakpoint(_) => "breakpoint",
            Self::Soak => "soak",
        }
    }
}

/// The search for the highest rate that meets the targets: upwards by a factor until one is missed, then between the
/// last met and the first missed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The first rate, in arrivals per second.
    pub start_per_s: u32,
    /// Factor of the rate while the targets are met, in per cent; above 100.
    pub factor_percent: u32,
    /// The search ends when met and missed are this close, in per cent of the met rate.
    pub precision_percent: u32,
    pub probes_max: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self { start_per_s: 500, factor_percent: 160, precision_percent: 5, probes_max: 16 }
    }
}

/// The work of a scenario.
#[derive(Clone, Debug)]
pub enum Work {
    /// DFSPs exchange messages through a hub.
    EndToEnd { options: Box<RunOptions>, test: Test },
    Isolated {
        /// The name of the stage: see [`stage::KINDS`].
        stage: String,
        table: Option<Node>,
        /// Arguments of the hub, if the stage needs one.
        hub_arguments: Vec<String>,
        seed: u64,
    },
}

/// A scenario file that was read and is valid.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The name of its file, without the ending.
    pub name: String,
    pub title: String,
    pub description: String,
    /// The text as written, for users who copy it.
    pub text: String,
    /// Number of runs of every point; the points take turns.
    pub repetitions: usize,
    points: Vec<Point>,
    plots: Vec<SuitePlot>,
    claims: Vec<Claim>,
}

impl ScenarioFile {
    /// A built-in scenario by its name; `None` if there is none.
    pub fn builtin(name: &str) -> Option<Result<Self, PlanError>> {
        let (name, text) = SCENARIOS.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(name, text))
    }

    /// Finds a built-in scenario by its name, or reads a file by its path. Fails if there is none, or if it has
    /// mistakes.
    pub fn named(name: &str) -> Result<Self, PlanError> {
        if let Some(builtin) = Self::builtin(name) {
            return builtin;
        }
        if looks_like_path(name) {
            return Self::read(Path::new(name));
        }
        Err(PlanError::Unknown { what: "scenario", name: name.to_owned() })
    }

    /// Reads a file. Fails if it cannot be read or has mistakes.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text = read_text(path)?;
        let mut scenario = Self::parse(&path.display().to_string(), &text)?;
        scenario.rename(&stem(path));
        Ok(scenario)
    }

    /// Parses a text; `name` is its file's name. Fails with every mistake in it.
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        Self::with_changes(name, text, &[])
    }

    /// Parses a text with changed values, each at a path such as `time.measured`.
    fn with_changes(name: &str, text: &str, changes: &[(String, Node)]) -> Result<Self, PlanError> {
        let (node, mistakes) = Node::parse(text);
        read::scenario(name, text, node, mistakes, changes)
            .map_err(|mistakes| PlanError::Mistakes { file: name.to_owned(), mistakes })
    }

    fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        for point in &mut self.points {
            if let Work::EndToEnd { options, .. } = &mut point.work {
                options.identity.name = Some(name.to_owned());
            }
        }
    }

    /// The points to run: one, or one for each combination of the sweep and each ablation.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    pub fn plots(&self) -> &[SuitePlot] {
        &self.plots
    }

    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Whether all points are compared with the first one, as for ablations and for a sweep of two points.
    pub fn is_against_first(&self) -> bool {
        let is_ablation = |point: &Point| point.parameters.contains_key("ablation");
        self.points.len() == 2 || (self.points.len() > 1 && self.points.iter().all(is_ablation))
    }
}

fn looks_like_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "toml")
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read_text(path: &Path) -> Result<String, PlanError> {
    let unreadable = |source| PlanError::Unreadable { path: path.to_owned(), source };
    read_limited_text(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            let mistake = Mistake { line: 0, text: error.to_string() };
            PlanError::Mistakes { file: path.display().to_string(), mistakes: vec![mistake] }
        }
        _ => unreadable(error),
    })
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "from {}/s upwards by {} %, to within {} %",
            self.start_per_s,
            self.factor_percent.saturating_sub(100),
            self.precision_percent
        )
    }
}

/// Name and text of a file.
type Builtin = (&'static str, &'static str);

macro_rules! builtin {
    ($directory:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $directory, $name, ".toml")))),*]
    };
}

/// All scenarios, in the order of the list.
pub const SCENARIOS: &[Builtin] = builtin!["":
    "smoke",
    "average",
    "stress",
    "spike",
    "breakpoint",
    "breakpoint-transfers",
    "around-breakpoint",
    "soak",
    "overload",
    "transfers-8",
    "transfers-uni",
    "transfers-bi",
    "transfers-hot-pair",
    "transfers-skewed",
    "transfers-long-tail",
    "transfers-reserved",
    "transfers-mixed",
    "transfers-users",
    "transfers-dfsps",
    "lookups-8",
    "quotes-8",
    "payments-8",
    "payments-weighted",
    "secured",
    "fx-payments",
    "bulk",
    "settlement-under-load",
    "gross",
    "window-of-10-million",
    "open-constant",
    "open-poisson",
    "open-ladder",
    "parallel-ladder",
    "published-ramp",
    "ablations",
    "measuring-overhead",
    "existing-rows",
    "generator-alone",
    "simulators-only",
    "forwarder-only",
    "prepare-only",
    "fulfil-only",
    "notification-keep-alive",
    "notification-pool",
    "notification-bodies",
    "notification-receivers",
    "notification-dfsps",
    "journal-alone",
];

pub const SUITES: &[Builtin] =
    builtin!["suites/": "quick", "architect", "characterize", "measuring-overhead"];
