//! Published figures beside ours.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::conditions::{self, Conditions};
use crate::error::ReportError;
use crate::figures::{ABSENT, number, or_absent};
use crate::text::{Grid, escaped};
use crate::{input, warnings};

/// The published figures, as they are kept in a file (`[[rows]]`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Published {
    /// The rows, in the order in which they are shown.
    pub rows: Vec<PublishedRow>,
}

/// One published figure.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PublishedRow {
    /// Names the row; ours is found by it.
    pub id: String,
    /// What was measured.
    pub what: String,
    /// The figure in `unit`; absent where nobody published one.
    #[serde(default)]
    pub figure: Option<f64>,
    /// Its unit, such as `/s` or `ms`.
    pub unit: String,
    /// Hardware and settings it was reached with.
    #[serde(default)]
    pub conditions: String,
    /// CPUs of the hub it was reached with.
    #[serde(default)]
    pub vcpus: Option<f64>,
    /// Who published it, and when.
    #[serde(default)]
    pub source: String,
    /// Whether less is better; if absent, so it is for units of time.
    #[serde(default)]
    pub less_is_better: Option<bool>,
}

impl PublishedRow {
    fn less_is_better(&self) -> bool {
        self.less_is_better.unwrap_or_else(|| ["µs", "us", "ms", "s", "min", "%"].contains(&self.unit.trim()))
    }
}

/// Our figure for a row.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    /// The figure in the row's unit; absent where this machine could not run it.
    pub figure: Option<f64>,
    /// Hardware and settings.
    conditions: Conditions,
    /// What makes the figure doubtful, or why there is none.
    pub note: String,
    /// CPUs of the hub.
    pub vcpus: Option<f64>,
}

impl Ours {
    /// Hardware and settings in a line.
    pub fn conditions(&self) -> String {
        conditions::text(&self.conditions)
    }

    /// No figure, and why.
    pub fn absent(why: &str) -> Self {
        Self { note: why.to_owned(), ..Self::default() }
    }

    /// Takes a figure from a result, by the path of its member (`throughput_per_s`, `latency_ms.p99`), with the conditions
    /// that the result names and what makes it doubtful.
    ///
    /// # Errors
    /// When the result cannot be read.
    pub fn of(result: &Path, member: &str) -> Result<Self, ReportError> {
        let results = input::load(&[result.to_owned()])?;
        let Some(run) = results.runs.first() else { return Ok(Self::default()) };
        Ok(Self {
            figure: run.number(member),
            conditions: conditions::of(run),
            note: warnings::of_run(run).join("; "),
            vcpus: run.number("environment.cores"),
        })
    }
}

/// The rows as a table of Markdown: what, theirs, ours, how many times better ours is, the same per vCPU (for rates), their
/// conditions, and what is to be known of our figure. Above it stands once where ours were made, and in the rows only what
/// differs. A row of which `results` knows nothing is kept, with a dash.
pub fn table(published: &Published, results: &BTreeMap<String, Ours>) -> String {
    let measured = results.values().filter(|ours| ours.figure.is_some()).map(|ours| &ours.conditions);
    let shared = conditions::shared(measured);
    let mut grid = Grid::new(&[
        "what",
        "published",
        "ours",
        "times better",
        "per vCPU",
        "their conditions",
        "source",
        "of ours",
    ]);
    for row in &published.rows {
        let ours = results.get(&row.id);
        let figure = ours.and_then(|ours| ours.figure);
        let shown =
            |value: Option<f64>| value.map_or_else(|| ABSENT.to_owned(), |value| with_unit(value, &row.unit));
        let times = row.figure.zip(figure).and_then(|(theirs, ours)| {
            if row.less_is_better() { ratio(theirs, ours) } else { ratio(ours, theirs) }
        });
        // A latency does not grow with the number of CPUs, so only rates are divided by it.
        let per_vcpu = times
            .filter(|_| !row.less_is_better())
            .and_then(|times| Some(times * ratio(row.vcpus?, ours?.vcpus?)?));
        grid.row(vec![
            row.what.clone(),
            shown(row.figure),
            shown(figure),
            or_absent(times, |times| format!("{} ×", number(times))),
            or_absent(per_vcpu, |times| format!("{} ×", number(times))),
            row.conditions.clone(),
            row.source.clone(),
            ours.map_or_else(|| "not run".to_owned(), |ours| remark(ours, &shared)),
        ]);
    }
    if shared.is_empty() {
        return grid.markdown();
    }
    format!(
        "Ours, unless a row says otherwise: {}\n\n{}",
        escaped(&conditions::text(&shared)),
        grid.markdown()
    )
}

/// What is to be known of a figure of ours beside what is said of all.
fn remark(ours: &Ours, shared: &Conditions) -> String {
    let mut parts = match ours.figure {
        Some(_) => conditions::differing(&ours.conditions, shared),
        None => Vec::new(),
    };
    parts.extend(Some(ours.note.clone()).filter(|note| !note.is_empty()));
    parts.join("; ")
}

fn with_unit(value: f64, unit: &str) -> String {
    let unit = unit.trim();
    if unit.is_empty() || unit.starts_with('/') {
        format!("{}{unit}", number(value))
    } else {
        format!("{} {unit}", number(value))
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0 && part.is_finite()).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, figure: Option<f64>, unit: &str, vcpus: Option<f64>) -> PublishedRow {
        PublishedRow {
            id: id.into(),
            what: format!("row {id}"),
            figure,
            unit: unit.into(),
            conditions: "16 pods | relaxed".into(),
            vcpus,
            source: "2023".into(),
            less_is_better: None,
        }
    }

    #[test]
    fn ratios_say_how_many_times_better_whatever_the_unit() {
        let published = Published {
            rows: vec![
                row("rate", Some(220.0), "/s", Some(16.0)),
                row("time", Some(140.0), "ms", Some(16.0)),
                row("unpublished", None, "/s", None),
                row("unrun", Some(5.0), "/s", None),
                row("zero", Some(0.0), "/s", None),
            ],
        };
        let ours = |figure| Ours {
            figure: Some(figure),
            conditions: vec![("cores", "2 cores".into()), ("durability", "synced".into())],
            note: String::new(),
            vcpus: Some(2.0),
        };
        let results = [("rate", 3_300.0), ("time", 14.0), ("unpublished", 9.0), ("zero", 9.0)];
        let mut results: BTreeMap<String, Ours> =
            results.into_iter().map(|(id, figure)| (id.to_owned(), ours(figure))).collect();
        let zero = results.get_mut("zero").unwrap();
        (zero.conditions[1].1, zero.note) = ("none".into(), "it lagged".into());
        results.insert("unrun".into(), Ours::absent("n/a: no broker"));
        let table = table(&published, &results);
        let (said_once, _) = table.split_once("\n\n").unwrap();
        assert_eq!(said_once, "Ours, unless a row says otherwise: 2 cores · synced");
        assert_eq!(table.matches("2 cores").count(), 1);
        let lines: Vec<_> = table.lines().skip(4).collect();
        assert!(
            lines[0].starts_with(
                "| row rate | 220/s | 3,300/s | 15.0 × | 120 × | 16 pods \\| relaxed | 2023 |  |"
            ),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("| row time | 140 ms | 14.0 ms | 10.0 × | – |"), "{}", lines[1]);
        assert!(lines[2].starts_with("| row unpublished | – | 9.00/s | – | – |"), "{}", lines[2]);
        assert!(
            lines[3].starts_with(
                "| row unrun | 5.00/s | – | – | – | 16 pods \\| relaxed | 2023 | n/a: no broker |"
            ),
            "{}",
            lines[3]
        );
        assert!(lines[4].starts_with("| row zero | 0/s | 9.00/s | – | – |"), "{}", lines[4]);
        assert!(lines[4].ends_with("| none; it lagged |"), "{}", lines[4]);
    }
}
