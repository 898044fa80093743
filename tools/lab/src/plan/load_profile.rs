//! How operations arrive.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::scenario::Scenario;

/// One straight part of a load that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Virtual users, or arrivals per second, at its end.
    pub level: u32,
    /// How long it takes to get there from the level before.
    #[serde(rename = "ms", serialize_with = "milliseconds", deserialize_with = "of_milliseconds")]
    pub length: Duration,
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn of_milliseconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

/// How operations arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Closed loop: each virtual user does one operation to its end, and then the next.
    Closed {
        /// Virtual users.
        users: usize,
    },
    /// Closed loop whose number of users moves along straight lines. The run is one slice as long as its stages.
    RampingUsers {
        /// Virtual users at the start.
        start: u32,
        /// What follows.
        stages: Vec<Stage>,
    },
    /// Open loop: operations begin at a fixed rate whether or not earlier ones are done; latency counts from the
    /// intended start.
    Open {
        /// Arrivals per second.
        rate_per_s: u32,
        /// Operations without outcome at a time; arrivals beyond are counted as skipped and make the run invalid.
        outstanding_max: usize,
    },
    /// Open loop whose rate moves along straight lines, or whose arrivals are random. With stages, the run is one slice
    /// as long as they are.
    Arrivals {
        /// Arrivals per second at the start.
        start_per_s: u32,
        /// What follows; without any the rate stays.
        stages: Vec<Stage>,
        /// Poisson arrivals, drawn from the seed, instead of evenly spaced ones.
        poisson: bool,
        /// As of [`Load::Open`].
        outstanding_max: usize,
    },
    /// Several open loops at the same time, each with operations of its own.
    Parallel {
        /// The loops.
        loads: Vec<ParallelLoad>,
    },
}

/// One of several loads at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelLoad {
    /// What one operation of it is.
    pub operation: Scenario,
    /// How they arrive: an open loop.
    pub load: Load,
}

impl Default for Load {
    fn default() -> Self {
        Self::Closed { users: 1 }
    }
}

impl Load {
    /// Operations that may be without outcome at a time.
    pub fn outstanding_max(&self) -> usize {
        match self {
            Self::Closed { users } => *users,
            Self::RampingUsers { start, stages } => highest(*start, stages) as usize,
            Self::Open { outstanding_max, .. } | Self::Arrivals { outstanding_max, .. } => *outstanding_max,
            Self::Parallel { loads } => loads.iter().map(|part| part.load.outstanding_max()).sum(),
        }
    }

    /// Whether operations begin when they are due rather than when a user is free.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Arrivals { .. } | Self::Parallel { .. })
    }

    /// The highest arrival rate of an open loop; of several, the sum of theirs.
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

    /// The same with another constant rate; a load without one stays as it is.
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

    /// The stages of a load that moves; of several, those that take longest.
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

    /// How long its stages take together; `None` without stages.
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
