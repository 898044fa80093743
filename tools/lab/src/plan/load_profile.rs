//! Load shapes: how operations arrive.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::section::Section;
use crate::plan::options::{DFSPS_MAX, OUTSTANDING_MAX, RATE_PER_S_MAX};
use crate::plan::pairs::PairChoice;
use crate::plan::scenario::Scenario;

/// Maximum number of parallel loads.
pub(crate) const LOADS_MAX: usize = 8;

/// One straight part of a varying load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Virtual users, or arrivals per second, at its end.
    pub level: u32,
    /// Time from the previous level to this one.
    #[serde(rename = "ms", serialize_with = "milliseconds", deserialize_with = "of_milliseconds")]
    pub length: Duration,
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn of_milliseconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

/// The arrival of operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Closed loop. Each virtual user finishes one operation before it starts the next.
    Closed {
        /// Virtual users.
        users: usize,
    },
    /// Closed loop whose number of users changes linearly in each stage. The run is one slice as long as its stages.
    RampingUsers {
        /// Virtual users at the start.
        start: u32,
        /// The stages that follow.
        stages: Vec<Stage>,
    },
    /// Open loop: operations begin at a fixed rate, even if earlier ones have not ended. Latency counts from the
    /// intended start.
    Open {
        /// Arrivals per second.
        rate_per_s: u32,
        /// Maximum number of operations without an outcome. Further arrivals are counted as skipped and make the run
        /// invalid.
        outstanding_max: usize,
    },
    /// Open loop with a rate that changes linearly in each stage, or with random arrivals. If it has stages, the run is
    /// one slice as long as they are.
    Arrivals {
        /// Arrivals per second at the start.
        start_per_s: u32,
        /// The stages that follow; without any the rate stays.
        stages: Vec<Stage>,
        /// Poisson arrivals, drawn from the seed, instead of evenly spaced ones.
        poisson: bool,
        /// As in [`Load::Open`].
        outstanding_max: usize,
    },
    /// Several open loops at the same time, each with its own operations.
    Parallel {
        /// The loops.
        loads: Vec<ParallelLoad>,
    },
}

/// One of several loads at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelLoad {
    /// The kind of its operations.
    pub operation: Scenario,
    /// Its load shape: an open loop.
    pub load: Load,
}

impl Default for Load {
    fn default() -> Self {
        Self::Closed { users: 1 }
    }
}

impl Load {
    /// Maximum number of operations without an outcome.
    pub fn outstanding_max(&self) -> usize {
        match self {
            Self::Closed { users } => *users,
            Self::RampingUsers { start, stages } => highest(*start, stages) as usize,
            Self::Open { outstanding_max, .. } | Self::Arrivals { outstanding_max, .. } => *outstanding_max,
            Self::Parallel { loads } => loads.iter().map(|part| part.load.outstanding_max()).sum(),
        }
    }

    /// Whether operations begin when they are due, instead of when a user is free.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Arrivals { .. } | Self::Parallel { .. })
    }

    /// The highest arrival rate of an open loop; the sum for several loops.
    pub fn rate_per_s_max(&self) -> Option<u32> {
        match self {
            Self::Open { rate_per_s, .. } => Some(*rate_per_s),
            Self::Arrivals { start_per_s, stages, .. } => Some(highest(*start_per_s, stages)),
            Self::Parallel { loads } => {
                let rates = loads.iter().filter_map(|part| part.load.rate_per_s_max());
                Some(rates.fold(0, u32::saturating_add))
            }
            _ => None,
        }
    }

    /// The load with another constant rate. A load without one does not change.
    #[must_use]
    pub fn at_rate(&self, rate_per_s: u32) -> Self {
        match self {
            Self::Open { outstanding_max, .. } => {
                Self::Open { rate_per_s, outstanding_max: *outstanding_max }
            }
            Self::Arrivals { stages, poisson, outstanding_max, .. } if stages.is_empty() => Self::Arrivals {
                start_per_s: rate_per_s,
                stages: Vec::new(),
                poisson: *poisson,
                outstanding_max: *outstanding_max,
            },
            other => other.clone(),
        }
    }

    /// The stages of a varying load; of several loads, the longest stages.
    pub fn stages(&self) -> &[Stage] {
        match self {
            Self::RampingUsers { stages, .. } | Self::Arrivals { stages, .. } => stages,
            Self::Parallel { loads } => {
                let all = loads.iter().map(|part| part.load.stages());
                all.max_by_key(|stages| length(stages)).unwrap_or_default()
            }
            Self::Closed { .. } | Self::Open { .. } => &[],
        }
    }

    /// The total duration of its stages; `None` without stages.
    pub fn stages_length(&self) -> Option<Duration> {
        let stages = self.stages();
        (!stages.is_empty()).then(|| length(stages))
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stages = |f: &mut std::fmt::Formatter<'_>, start: u32| {
            write!(f, "{start}")?;
            self.stages().iter().try_for_each(|stage| write!(f, " → {}", stage.level))
        };
        match self {
            Self::Closed { users } => write!(f, "{users} virtual users"),
            Self::RampingUsers { start, .. } => {
                stages(f, *start)?;
                f.write_str(" virtual users")
            }
            Self::Open { rate_per_s, .. } => write!(f, "{rate_per_s} arrivals/s"),
            Self::Arrivals { start_per_s, poisson, .. } => {
                stages(f, *start_per_s)?;
                f.write_str(if *poisson { " Poisson arrivals/s" } else { " arrivals/s" })
            }
            Self::Parallel { loads } => loads.iter().enumerate().try_for_each(|(index, part)| {
                let plus = if index == 0 { "" } else { " + " };
                write!(f, "{plus}{} {}", part.operation.name(), part.load)
            }),
        }
    }
}

fn length(stages: &[Stage]) -> Duration {
    stages.iter().map(|stage| stage.length).sum()
}

fn highest(start: u32, stages: &[Stage]) -> u32 {
    stages.iter().map(|stage| stage.level).fold(start, u32::max)
}

const SHAPES: [&str; 5] = ["closed", "ramping-users", "open", "ramping-rate", "poisson"];
const PAIRS: [&str; 6] = ["uniform", "unidirectional", "hot-pair", "weighted", "long-tail", "listed"];
/// The largest weight of a listed pair.
const WEIGHT_MAX: u64 = 1_000_000;
/// Default limit of operations without an outcome in an open loop.
const OUTSTANDING_USUAL: usize = 10_000;

/// Reads `[load]`; the default is 32 virtual users. Also returns the requested percentage of the highest rate that was
/// found before, if there is one.
pub(crate) fn load(section: &mut Section<'_>) -> (Load, Option<u32>) {
    let shape = section.choice("shape", &SHAPES).unwrap_or(0);
    let users = section.size("users", 1..=OUTSTANDING_MAX);
    let start = section.small::<u32>("start", 0..=u64::from(RATE_PER_S_MAX));
    let rate = section.small::<u32>("rate_per_s", 1..=u64::from(RATE_PER_S_MAX));
    let percent = section.small::<u32>("percent_of_breakpoint", 1..=10_000);
    let outstanding = section.size("outstanding_max", 1..=OUTSTANDING_MAX);
    let outstanding_max = outstanding.unwrap_or(OUTSTANDING_USUAL);
    let stages: Vec<Stage> = section.tables("stages", "load.stages").iter_mut().map(stage).collect();
    let name = SHAPES[shape];
    let (line, within) = (section.line(), section.name());
    let missing =
        |key: &str| section.mistake_at(line, format!("{within}.{key} is missing: shape {name:?} needs it"));
    if stages.is_empty() && matches!(name, "ramping-users" | "ramping-rate") {
        missing("stages");
    }
    if rate.is_none() && matches!(name, "open" | "poisson") {
        missing("rate_per_s");
    }
    let unused = [
        (users.is_some() && name != "closed", "users"),
        (rate.is_some() && !matches!(name, "open" | "poisson"), "rate_per_s"),
        (percent.is_some() && !matches!(name, "open" | "poisson"), "percent_of_breakpoint"),
        (start.is_some() && !matches!(name, "ramping-users" | "ramping-rate"), "start"),
        (!stages.is_empty() && matches!(name, "closed" | "open" | "poisson"), "stages"),
        (outstanding.is_some() && matches!(name, "closed" | "ramping-users"), "outstanding_max"),
    ];
    for (_, key) in unused.into_iter().filter(|(is_unused, _)| *is_unused) {
        section.mistake_at(line, format!("{within}.{key} has no effect on shape {name:?}"));
    }
    let (start, rate) = (start.unwrap_or(1), percent_of(rate.unwrap_or(1), percent.unwrap_or(100)));
    let load = match name {
        "ramping-users" => Load::RampingUsers { start, stages },
        "open" => Load::Open { rate_per_s: rate, outstanding_max },
        "poisson" => Load::Arrivals { start_per_s: rate, stages: Vec::new(), poisson: true, outstanding_max },
        "ramping-rate" => Load::Arrivals { start_per_s: start, stages, poisson: false, outstanding_max },
        _ => Load::Closed { users: users.unwrap_or(32) },
    };
    (load, percent)
}

/// Reads `[[parallel]]`: open loops at the same time, each with its operation.
pub(crate) fn parallel(sections: &mut [Section<'_>]) -> Vec<ParallelLoad> {
    let mut loads = Vec::new();
    for section in sections {
        let found = section.choice("operation", &Scenario::ALL.map(Scenario::name));
        if found.is_none() {
            section.mistake("parallel: a load needs an operation");
        }
        let (load, percent) = load(section);
        if !load.is_open() {
            let text = "parallel.shape: parallel loads need a rate: open, poisson or ramping-rate";
            section.mistake(text);
        }
        if percent.is_some() {
            section.mistake("parallel.percent_of_breakpoint: a breakpoint search has a single load");
        }
        loads.push(ParallelLoad { operation: Scenario::ALL[found.unwrap_or(0)], load });
    }
    loads
}

/// A percentage of a rate, limited to valid rates.
pub(crate) fn percent_of(rate_per_s: u32, percent: u32) -> u32 {
    let part = u64::from(rate_per_s) * u64::from(percent) / 100;
    u32::try_from(part).unwrap_or(u32::MAX).clamp(1, RATE_PER_S_MAX)
}

fn stage(section: &mut Section<'_>) -> Stage {
    let level = section.small::<u32>("to", 0..=u64::from(RATE_PER_S_MAX));
    let length = section.duration("within");
    if level.is_none() || length.is_none() {
        section.mistake("a stage needs both to = NUMBER and within = \"TIME\"");
    }
    Stage { level: level.unwrap_or(1), length: length.unwrap_or(Duration::ZERO) }
}

/// Reads `[dfsps]`: their number, and the pairs.
pub(crate) fn dfsps(section: &mut Section<'_>) -> (usize, PairChoice) {
    let count = section.size("count", 2..=DFSPS_MAX);
    let pairs = section.choice("pairs", &PAIRS).unwrap_or(0);
    let weights = section.integers("weights");
    let hot = section.small::<u16>("hot_pair_per_mille", 0..=1000);
    let listed: Vec<_> = section.tables("listed", "dfsps.listed").iter_mut().filter_map(pair).collect();
    let line = section.line();
    let name = PAIRS[pairs];
    if weights.is_some() != (name == "weighted") {
        section.mistake_at(line, "dfsps.weights and pairs = \"weighted\" require each other");
    }
    if hot.is_some() && name != "hot-pair" {
        section.mistake_at(line, "dfsps.hot_pair_per_mille requires pairs = \"hot-pair\"");
    }
    if listed.is_empty() == (name == "listed") {
        section.mistake_at(line, "dfsps.listed and pairs = \"listed\" require each other");
    }
    let highest = listed.iter().map(|(payer, payee, _)| payer.max(payee) + 1).max();
    let usual = weights.as_ref().map(Vec::len).or(highest).map_or(8, |count| count.max(2));
    let count = count.unwrap_or(usual);
    let choice = match name {
        "unidirectional" => PairChoice::Unidirectional,
        "hot-pair" => PairChoice::HotPair { per_mille: hot.unwrap_or(900) },
        "weighted" => PairChoice::weighted(weights.unwrap_or_default()),
        "long-tail" => PairChoice::long_tail(count),
        "listed" => PairChoice::listed(listed),
        _ => PairChoice::Uniform,
    };
    let text = match name {
        "listed" => format!("dfsps.listed: give pairs of two different DFSPs of 1 to {count}"),
        _ => format!("dfsps.weights: give {count} numbers above zero, one for each DFSP"),
    };
    if !choice.fits(count) {
        section.mistake_at(line, text);
    }
    (count, choice)
}

/// One pair of `listed`: payer and payee from 0, and its weight.
fn pair(section: &mut Section<'_>) -> Option<(usize, usize, u64)> {
    let [payer, payee] = ["from", "to"].map(|key| section.size(key, 1..=DFSPS_MAX));
    let weight = section.integer("weight", 1..=WEIGHT_MAX);
    let pair = payer.zip(payee).zip(weight).map(|((payer, payee), weight)| (payer - 1, payee - 1, weight));
    if pair.is_none() {
        section.mistake("a pair needs from, to (DFSPs, from 1) and weight");
    }
    pair
}
