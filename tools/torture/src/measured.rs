//! What the lab measured and judged itself: `overload.json` and `growth.json`, as far as the table shows them.

use serde::{Deserialize, Serialize};
use upesi_lab::result::evidence::Provenance;

/// One run; it has many more members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Of overload: by how many DFSPs too much was asked; absent where all did.
    pub flooders: Option<u64>,
    /// Of overload: transfers begun while too many were.
    pub offered: u64,
    pub transfers: u64,
    /// Whether no audit found anything. An audit of growth that does ends it, so that nothing is recorded.
    #[serde(default = "yes")]
    pub audits_ok: bool,
    pub aims: Vec<MeasuredAim>,
}

const fn yes() -> bool {
    true
}

/// An aim beside what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredAim {
    pub name: String,
    pub unit: String,
    pub is_at_least: bool,
    pub goal: f64,
    /// What was measured; absent where what was hoped for never came.
    pub median: Option<f64>,
    pub is_reached: bool,
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
    use upesi_lab::result::evidence::Evidence;

    use super::*;

    #[test]
    fn runs_are_read_with_whatever_else_they_have() {
        let directory = tempfile::tempdir().unwrap();
        let read = || Evidence::<MeasuredRun>::read(directory.path(), "overload").unwrap().runs;
        assert_eq!(read(), []);
        let text = r#"{"name": "overload", "runs": [
            {"commit": "a", "date": "d", "flooders": null, "offered": 9, "audits_ok": false, "seed": 1, "aims": [
                {"name": "recovery", "unit": "s", "is_at_least": false, "goal": 1.0, "median": null, "lowest": 1.0,
                 "is_reached": false}]},
            {"commit": "b", "flooders": 1, "transfers": 7}]}"#;
        std::fs::write(directory.path().join("overload.json"), text).unwrap();
        let [first, second] = &read()[..] else { panic!("two runs") };
        assert_eq!((first.offered, first.audits_ok, first.flooders), (9, false, None));
        assert_eq!(first.aims[0].words(), "recovery ≤ 1 s: never, missed");
        assert_eq!((second.transfers, second.audits_ok, second.flooders), (7, true, Some(1)));
    }
}
