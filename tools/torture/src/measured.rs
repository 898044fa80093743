//! What the lab measured and judged itself: `overload.json` and `growth.json`, as far as the table shows them.

use std::path::Path;

use serde::Deserialize;

use crate::evidence::{Evidence, EvidenceError, read_file};

/// All runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MeasuredEvidence {
    /// The runs, oldest first.
    pub runs: Vec<MeasuredRun>,
}

/// One run; it has many more members.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MeasuredRun {
    /// The commit that was measured; a `+` says that sources differed from it.
    pub commit: String,
    /// When it ended, ISO 8601.
    pub date: String,
    /// Of overload: by how many DFSPs too much was asked; absent where all did.
    pub flooders: Option<u64>,
    /// Of overload: transfers begun while too many were.
    pub offered: u64,
    /// Of growth: finished transfers at the end.
    pub transfers: u64,
    /// Whether no audit found anything. An audit of growth that does ends it, so that nothing is recorded.
    #[serde(default = "yes")]
    pub audits_ok: bool,
    /// What was to be reached.
    pub aims: Vec<MeasuredAim>,
}

const fn yes() -> bool {
    true
}

/// An aim beside what was measured.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MeasuredAim {
    /// What is measured.
    pub name: String,
    /// In what.
    pub unit: String,
    /// Whether more is better.
    pub is_at_least: bool,
    /// The bound.
    pub goal: f64,
    /// What was measured; absent where what was hoped for never came.
    pub median: Option<f64>,
    /// Whether that is within the bound.
    pub is_reached: bool,
}

impl MeasuredEvidence {
    /// What a directory knows of a measurement; nothing, where there is no file.
    ///
    /// # Errors
    /// When the file there cannot be read.
    pub fn read(directory: &Path, name: &str) -> Result<Self, EvidenceError> {
        read_file(Evidence::path(directory, name))
    }
}

impl MeasuredAim {
    /// The aim, what came of it, and whether it was missed.
    pub fn words(&self) -> String {
        let Self { name, unit, is_at_least, goal, median, is_reached } = self;
        let relation = if *is_at_least { "≥" } else { "≤" };
        let median = median.map_or_else(|| "never".to_owned(), |median| format!("{median:.1}"));
        let missed = if *is_reached { "" } else { ", missed" };
        format!("{name} {relation} {goal} {unit}: {median}{missed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_with_whatever_else_they_have() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(
            MeasuredEvidence::read(directory.path(), "overload").unwrap(),
            MeasuredEvidence::default()
        );
        let text = r#"{"name": "overload", "runs": [
            {"commit": "a", "date": "d", "flooders": null, "offered": 9, "audits_ok": false, "seed": 1, "aims": [
                {"name": "recovery", "unit": "s", "is_at_least": false, "goal": 1.0, "median": null, "lowest": 1.0,
                 "is_reached": false}]},
            {"commit": "b", "flooders": 1, "transfers": 7}]}"#;
        std::fs::write(Evidence::path(directory.path(), "overload"), text).unwrap();
        let [first, second] = &MeasuredEvidence::read(directory.path(), "overload").unwrap().runs[..] else {
            panic!("two runs");
        };
        assert_eq!((first.offered, first.audits_ok, first.flooders), (9, false, None));
        assert_eq!(first.aims[0].words(), "recovery ≤ 1 s: never, missed");
        assert_eq!((second.transfers, second.audits_ok, second.flooders), (7, true, Some(1)));
    }
}
