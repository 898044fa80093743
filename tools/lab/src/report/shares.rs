//! The CPU time of a hub by stage, as `upesi lab profile` keeps it beside a result.

use serde::Deserialize;

/// The file's name, beside `result.json`.
pub(crate) const FILE: &str = "shares.json";

/// What a profile saw.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shares {
    pub samples: u64,
    /// The stages, the busiest first.
    pub stages: Vec<StageShare>,
}

/// What a stage used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StageShare {
    pub stage: String,
    pub samples: u64,
    pub share: f64,
    pub error: f64,
    pub inside: Vec<Inside>,
}

/// A part of what a stage used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Inside {
    pub what: String,
    pub share: f64,
}
