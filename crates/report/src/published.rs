//! Published figures beside ours.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::conditions::{self, Conditions};
use crate::error::ReportError;
use crate::figures::{ABSENT, number, or_absent, signed_percent};
use crate::text::{Grid, escaped};
use crate::{input, load, warnings};

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
    /// Whether one figure divided by the other says nothing: differences between two runs, counts.
    #[serde(default)]
    pub no_ratio: bool,
}

impl PublishedRow {
    pub(crate) fn less_is_better(&self) -> bool {
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
    /// What drove the run: users, seconds, DFSPs.
    pub load: String,
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

    /// Puts what is to be known of the figure before what speaks against it.
    pub fn remark(&mut self, text: &str) {
        if !text.is_empty() {
            let rest = std::mem::take(&mut self.note);
            self.note =
                [text, &rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        }
    }

    /// Takes a figure from a result, by the path of its member (`throughput_per_s`, `latency_ms.p99`,
    /// `stages.prepare.mean_us`), in the row's unit, with what drove the run, the conditions that the result names and what
    /// makes it doubtful.
    ///
    /// # Errors
    /// When the result cannot be read.
    pub fn of(result: &Path, member: &str, unit: &str) -> Result<Self, ReportError> {
        let results = input::load(&[result.to_owned()])?;
        let Some(run) = results.runs.first() else { return Ok(Self::default()) };
        let failed = run.failed.filter(|failed| *failed > 0);
        let failed = failed.map(|failed| format!("{} failed", crate::figures::count(failed)));
        Ok(Self {
            figure: run.number(member).map(|figure| in_unit(figure, member, unit)),
            conditions: conditions::of(run),
            load: load::of(run),
            note: failed.into_iter().chain(warnings::of_run(run)).collect::<Vec<_>>().join("; "),
            vcpus: run.number("environment.cores"),
        })
    }

    /// Takes by how much a run of a suite differs from the one that it took turns with: `suite` is the suite's directory,
    /// `run` and `base` are directories in it. The interval stands in the note.
    ///
    /// # Errors
    /// When the suite or the run's result cannot be read.
    pub fn difference(
        suite: &Path,
        run: &str,
        base: &str,
        member: &str,
        unit: &str,
    ) -> Result<Self, ReportError> {
        let mut ours = Self::of(&suite.join(run).join("result.json"), member, unit)?;
        ours.figure = None;
        let suite = input::read(&suite.join("suite.json"))?;
        match turns(&suite, run, base, member) {
            Some(Turns { base, centre, low, high, pairs }) => {
                ours.figure = Some(in_unit(base * centre, member, unit));
                let [centre, low, high] = [centre, low, high].map(signed_percent);
                ours.remark(&format!("{centre} (95 %: {low} to {high}) in {pairs} turns with the other"));
            }
            None => ours.remark("n/a: the two took too few turns to tell"),
        }
        Ok(ours)
    }
}

/// What two runs that took turns came to: the base's figure, and by how much the other differs, as parts of it.
struct Turns {
    base: f64,
    centre: f64,
    low: f64,
    high: f64,
    pairs: usize,
}

fn turns(suite: &Value, run: &str, base: &str, member: &str) -> Option<Turns> {
    let place = |name: &str| suite.get("runs")?.as_array()?.iter().position(|known| known == name);
    let (base, other) = (place(base)?, place(run)?);
    let is =
        |pair: &Value, key: &str, place: usize| pair.get(key).and_then(Value::as_u64) == Some(place as u64);
    let mut pairs = suite.get("pairs")?.as_array()?.iter();
    let pair = pairs.find(|pair| is(pair, "base", base) && is(pair, "other", other))?;
    let figures = pair.get("figures")?.as_array()?;
    let figure = figures.iter().find(|figure| figure.get("figure").is_some_and(|name| name == member))?;
    let difference = figure.get("difference")?;
    let part = |name: &str| difference.get(name).and_then(Value::as_f64);
    Some(Turns {
        base: figure.get("base_median")?.as_f64()?,
        centre: part("centre")?,
        low: part("low")?,
        high: part("high")?,
        pairs: figure.get("base")?.as_array()?.len(),
    })
}

/// A member's figure in a row's unit. Names of members end with theirs; shares go from 0 to 1.
fn in_unit(figure: f64, member: &str, unit: &str) -> f64 {
    let has = |ending: &str| {
        member.split('.').any(|name| name.ends_with(ending) || name.contains(&format!("{ending}_")))
    };
    match unit.trim() {
        "%" => figure * 100.0,
        "ms" if has("_us") => figure / 1e3,
        "s" if has("_us") => figure / 1e6,
        "µs" if has("_ms") => figure * 1e3,
        "s" if has("_ms") => figure / 1e3,
        _ => figure,
    }
}

/// Published figures beside ours, worked out: what the table of Markdown and the page show.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Where most of ours were made, said once.
    pub conditions: String,
    /// The rows, in the order of the file.
    pub rows: Vec<BesideRow>,
}

/// One published figure beside ours.
#[derive(Clone, Debug, Default)]
pub struct BesideRow {
    /// What was published.
    pub row: PublishedRow,
    /// Our figure in the row's unit.
    pub ours: Option<f64>,
    /// How many times better ours is.
    pub times: Option<f64>,
    /// The same for each vCPU, or why that is not told.
    pub per_vcpu: String,
    /// What drove our run.
    pub load: String,
    /// What is to be known of our figure: where its conditions differ from those of most, or why there is none.
    pub remark: String,
}

impl BesideRow {
    /// A value in the row's unit.
    pub(crate) fn shown(&self, value: Option<f64>) -> String {
        value.map_or_else(|| ABSENT.to_owned(), |value| with_unit(value, &self.row.unit))
    }
}

/// Puts ours beside what was published. A row of which `results` knows nothing is kept.
pub fn beside(published: &Published, results: &BTreeMap<String, Ours>) -> Beside {
    let measured = results.values().filter(|ours| ours.figure.is_some()).map(|ours| &ours.conditions);
    let shared = conditions::shared(measured);
    let rows = published.rows.iter().map(|row| {
        let ours = results.get(&row.id);
        let figure = ours.and_then(|ours| ours.figure);
        let times = row.figure.zip(figure).filter(|_| !row.no_ratio).and_then(|(theirs, ours)| {
            if row.less_is_better() { ratio(theirs, ours) } else { ratio(ours, theirs) }
        });
        BesideRow {
            row: row.clone(),
            ours: figure,
            times,
            per_vcpu: per_vcpu(row, ours.and_then(|ours| ours.vcpus), times),
            load: ours.map(|ours| ours.load.clone()).unwrap_or_default(),
            remark: ours.map_or_else(|| "not run".to_owned(), |ours| remark(ours, &shared)),
        }
    });
    Beside { rows: rows.collect(), conditions: conditions::text(&shared) }
}

/// The rows as a table of Markdown: what, theirs, ours, how many times better ours is, the same per vCPU (for rates), their
/// conditions, what drove our run, and what is to be known of our figure. Above it stands once where ours were made, and in the rows only what
/// differs. A row of which `results` knows nothing is kept, with a dash.
pub fn table(published: &Published, results: &BTreeMap<String, Ours>) -> String {
    let beside = beside(published, results);
    let mut grid = Grid::new(&[
        "what",
        "published",
        "ours",
        "times better",
        "per vCPU",
        "their conditions",
        "source",
        "our load",
        "of ours",
    ]);
    for row in &beside.rows {
        grid.row(vec![
            row.row.what.clone(),
            row.shown(row.row.figure),
            row.shown(row.ours),
            or_absent(row.times, times),
            row.per_vcpu.clone(),
            row.row.conditions.clone(),
            row.row.source.clone(),
            row.load.clone(),
            row.remark.clone(),
        ]);
    }
    if beside.conditions.is_empty() {
        return grid.markdown();
    }
    format!("Ours, unless a row says otherwise: {}\n\n{}", escaped(&beside.conditions), grid.markdown())
}

/// How many times better.
pub(crate) fn times(times: f64) -> String {
    format!("{} ×", number(times))
}

/// How many times better ours is per vCPU, or why that is not told.
fn per_vcpu(row: &PublishedRow, ours: Option<f64>, times: Option<f64>) -> String {
    let Some(times) = times else { return ABSENT.to_owned() };
    // A latency does not grow with the number of CPUs, so only rates are divided by it.
    if row.less_is_better() {
        return "not a rate".to_owned();
    }
    match (row.vcpus, ours) {
        (None, _) => "theirs not told".to_owned(),
        (_, None) => "ours not told".to_owned(),
        (Some(theirs), Some(ours)) => or_absent(ratio(times * theirs, ours), self::times),
    }
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
    if unit == "ms" && value.abs() < 0.1 {
        // Two digits would be left of it.
        crate::figures::milliseconds(value)
    } else if unit.is_empty() || unit.starts_with('/') {
        format!("{}{unit}", number(value))
    } else {
        format!("{} {unit}", number(value))
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0 && part.is_finite()).then(|| part / whole)
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
