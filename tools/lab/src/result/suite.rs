//! The result of a suite: the contents of `suite.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::metric::Metric;
use crate::plan::plot::SuitePlot;
use crate::plan::suite_plan::{LeftOut, SuiteQuestion};
#[cfg(doc)]
use crate::result::LabResult;

/// A run that gave no result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuiteFailure {
    /// Its directory.
    pub run: String,
    /// The cause.
    pub error: String,
}

/// The contents of `suite.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteResult {
    /// Version of this layout, equal to the version of `result.json`.
    pub schema_version: u32,
    /// The suite's name.
    pub name: String,
    /// A short title.
    pub title: String,
    /// The purpose of the suite.
    pub description: String,
    /// Number of times that the whole suite was run.
    pub repetitions: usize,
    /// Time of the start, ISO 8601.
    pub began_at: String,
    /// Time of the end of the last run.
    pub ended_at: String,
    /// Duration of the suite in seconds.
    pub took_s: f64,
    /// Maximum duration in seconds, if one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_s: Option<f64>,
    /// Directories of the points, relative to the suite's.
    pub runs: Vec<String>,
    /// Plots of the runs.
    pub plots: Vec<SuitePlot>,
    /// Runs that gave no result.
    pub failures: Vec<SuiteFailure>,
    /// Scenarios that were not run, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Directories of results that did not pass.
    pub not_passed: Vec<String>,
    /// For each of these, the reasons: [`LabResult::failings`].
    pub failings: BTreeMap<String, Vec<String>>,
    /// Questions, and the runs that answer them.
    pub questions: Vec<SuiteQuestion>,
    /// Runs beside a base, compared with it.
    pub pairs: Vec<PairResult>,
    /// Claims and their verdicts.
    pub claims: Vec<ClaimResult>,
}

/// Two points that were run beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairResult {
    /// The base of the comparison: an index into the suite's `runs`.
    pub base: usize,
    /// The compared point: an index into the suite's `runs`.
    pub other: usize,
    /// The figures that both have.
    pub figures: Vec<PairFigure>,
}

/// One figure of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairFigure {
    /// The figure: a member of `result.json`.
    pub figure: Metric,
    /// Values of the base, one for each of the other's: the mean of the runs before and after.
    pub base: Vec<f64>,
    /// Values of the other.
    pub other: Vec<f64>,
    /// The median of the base's values.
    pub base_median: f64,
    /// The median of the other's values.
    pub other_median: f64,
    /// Difference of the other, relative to the base; absent with fewer than two pairs.
    pub difference: Option<DifferenceResult>,
}

/// An interval of a relative difference: 0.12 is 12 % more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DifferenceResult {
    /// The estimate: the mean of the paired differences of logarithms.
    pub centre: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: f64,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimVerdict {
    /// The whole interval is within the bound.
    #[serde(rename = "holds")]
    Holds,
    /// The whole interval is beyond the bound.
    #[serde(rename = "does not hold")]
    Broken,
    /// The bound is inside the interval, or there is no interval.
    #[default]
    #[serde(rename = "cannot be told")]
    Untold,
}

/// A claim with its measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimResult {
    /// The claim.
    pub text: String,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// The verdict in words, with the interval.
    pub words: String,
    /// The base of the comparison: an index into the suite's `runs`.
    pub base: usize,
    /// The point that the claim is about: an index into the suite's `runs`.
    pub other: usize,
    /// The figure of the comparison.
    pub figure: Metric,
    /// Maximum deterioration, in per cent.
    pub at_most_percent: f64,
}
