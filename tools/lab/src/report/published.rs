//! Published figures beside ours.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::ReportError;
use crate::figures::{ABSENT, count, grouped, joined, number, or_absent, percent, signed_percent};
use crate::report::conditions::{self, Conditions};
use crate::report::grid::{Grid, escaped, wrapped};
use crate::report::run::Run;
use crate::report::{input, verdict};
use crate::result::file::{FileError, read};
use crate::result::statistics::ratio;
use crate::result::suite::{DifferenceResult, PairFigure, SuiteResult};

/// Number of seconds for a figure of one moment.
const MOMENT_ROWS: usize = 10;
/// Maximum share of failed operations at such a moment, as for a whole run.
const FAILED_SHARE_MAX: f64 = 0.01;

/// The published figures, as they are kept in a file (`[[rows]]`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Published {
    /// The rows, in the order in which they are shown.
    pub rows: Vec<PublishedRow>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PublishedRow {
    /// The row's id, by which our figure is found.
    pub id: String,
    pub what: String,
    /// The figure in `unit`; absent if it was not published.
    pub figure: Option<f64>,
    /// Its unit, such as `/s` or `ms`.
    pub unit: String,
    #[serde(default)]
    pub conditions: String,
    /// Number of CPUs of the hub with which it was reached.
    pub vcpus: Option<f64>,
    #[serde(default)]
    pub source: String,
    /// Whether less is better; if absent, it is so for units of time.
    pub less_is_better: Option<bool>,
    /// Whether the ratio of the figures is meaningless: for differences between two runs, and counts.
    #[serde(default)]
    pub no_ratio: bool,
    /// The reason why there is no run of ours, if there is none.
    pub unavailable: Option<String>,
}

impl PublishedRow {
    pub(crate) fn less_is_better(&self) -> bool {
        self.less_is_better.unwrap_or_else(|| ["µs", "us", "ms", "s", "min", "%"].contains(&self.unit.trim()))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Ours {
    /// The figure in the row's unit; absent if this machine could not run it.
    pub figure: Option<f64>,
    conditions: Conditions,
    pub load: String,
    /// The reason why the figure is doubtful or absent.
    pub note: String,
    /// The objectives that the hub missed in that run. Its figure is then not compared with theirs.
    pub missed: Option<String>,
    pub vcpus: Option<f64>,
}

impl Ours {
    /// Hardware and settings in a line.
    pub fn conditions(&self) -> String {
        conditions::text(&self.conditions)
    }

    /// No figure, with the reason.
    pub fn absent(why: &str) -> Self {
        Self { note: why.to_owned(), ..Self::default() }
    }

    /// Puts a remark about the figure before its doubts.
    pub fn remark(&mut self, text: &str) {
        self.note = joined([text, &self.note], "; ");
    }

    /// Takes a figure from a result, by the path of its member (`throughput_per_s`, `latency_ms.p99`,
    /// `stages.prepare.mean_us`), in the row's unit. Includes the load of the run, the conditions in the result, and
    /// doubts. Fails if the result cannot be read.
    pub fn of(result: &Path, member: &str, unit: &str) -> Result<Self, ReportError> {
        let results = input::load(&[result.to_owned()])?;
        Ok(results.runs.first().map_or_else(Self::default, |run| Self::of_run(run, member, unit)))
    }

    fn of_run(run: &Run, member: &str, unit: &str) -> Self {
        let failed = run.count("failed").filter(|failed| *failed > 0);
        let failed = failed.map(|failed| format!("{} failed", count(failed)));
        Self {
            figure: run.number(member).map(|figure| in_unit(figure, member, unit)),
            conditions: conditions::of(run),
            load: conditions::driven_with(run),
            note: failed.into_iter().chain(verdict::doubts(run)).collect::<Vec<_>>().join("; "),
            missed: verdict::missed(run),
            vcpus: run.number("environment.cores"),
        }
    }

    /// Takes the completed operations per second in the ten seconds after the hub had this many transfers, including
    /// those that it began with. The missed objectives are then those of these seconds. Fails if the result cannot be
    /// read.
    pub fn at_transfers(result: &Path, transfers: u64) -> Result<Self, ReportError> {
        let results = input::load(&[result.to_owned()])?;
        let Some(run) = results.runs.first() else { return Ok(Self::default()) };
        let mut ours = Self { figure: None, ..Self::of_run(run, "throughput_per_s", "/s") };
        let Some(moment) = moment(run, transfers) else {
            ours.remark(&format!(
                "n/a: the run ended before the hub had {} transfers behind it",
                count(transfers)
            ));
            return Ok(ours);
        };
        ours.figure = Some(moment.per_s);
        if audited(run) {
            let failed = moment.failed_share;
            ours.missed = (failed > FAILED_SHARE_MAX)
                .then(|| format!("{} of the operations of that moment failed", percent(failed)));
        }
        ours.remark(&format!(
            "in the {} s after it had {} transfers behind it",
            grouped(moment.seconds, 0),
            count(transfers)
        ));
        Ok(ours)
    }

    /// Takes the difference between a run of a suite and the one that it took turns with. `suite` is the suite's
    /// directory; `run` and `base` are directories in it. The interval is in the note. Fails if the suite or the run's
    /// result cannot be read.
    pub fn difference(
        suite: &Path,
        run: &str,
        base: &str,
        member: &str,
        unit: &str,
    ) -> Result<Self, ReportError> {
        let mut ours = Self::of(&suite.join(run).join("result.json"), member, unit)?;
        ours.figure = None;
        let file = suite.join("suite.json");
        let suite = SuiteResult::deserialize(read(&file)?)
            .map_err(|source| FileError::Malformed { path: file, source })?;
        let found = turns(&suite, run, base, member);
        match found.and_then(|found| Some((found, found.difference?))) {
            Some((figure, DifferenceResult { centre, low, high, .. })) => {
                ours.figure = Some(in_unit(figure.base_median * centre, member, unit));
                let ([centre, low, high], pairs) =
                    ([centre, low, high].map(signed_percent), figure.base.len());
                ours.remark(&format!("{centre} (95 %: {low} to {high}) in {pairs} turns with the other"));
            }
            None => ours.remark("n/a: the two took too few turns to tell"),
        }
        Ok(ours)
    }
}

/// Some seconds of a run.
struct Moment {
    seconds: f64,
    per_s: f64,
    failed_share: f64,
}

/// The seconds after the hub had this many transfers; `None` if the run ended before or within them.
fn moment(run: &Run, transfers: u64) -> Option<Moment> {
    let rows = run.rows();
    let mut behind = run.options.get("existing_transfers").and_then(Value::as_f64).unwrap_or(0.0);
    let mut first = 0;
    while behind < transfers as f64 {
        behind += rows.get(first)?.completed as f64;
        first += 1;
    }
    let rows = rows.get(first..first + MOMENT_ROWS)?;
    let completed = rows.iter().map(|row| row.completed).sum::<u64>() as f64;
    let failed = rows.iter().map(|row| row.failed).sum::<u64>() as f64;
    let seconds = run.interval_s() * rows.len() as f64;
    let failed_share = ratio(failed, completed + failed).unwrap_or(1.0);
    Some(Moment { seconds, per_s: ratio(completed, seconds)?, failed_share })
}

fn audited(run: &Run) -> bool {
    run.audited().is_none_or(|audit| audit.ok)
}

/// The comparison of two runs that took turns.
fn turns<'suite>(
    suite: &'suite SuiteResult,
    run: &str,
    base: &str,
    member: &str,
) -> Option<&'suite PairFigure> {
    let place = |name: &str| suite.runs.iter().position(|known| known == name);
    let (base, other) = (place(base)?, place(run)?);
    let pair = suite.pairs.iter().find(|pair| (pair.base, pair.other) == (base, other))?;
    pair.figures.iter().find(|figure| figure.figure.member() == member)
}

/// A member's figure in a row's unit. The names of members end with their unit; shares go from 0 to 1.
fn in_unit(figure: f64, member: &str, unit: &str) -> f64 {
    let has = |ending: &str| {
        member.split('.').any(|name| name.ends_with(ending) || name.contains(&format!("{ending}_")))
    };
    match unit.trim() {
        "%" => figure * 100.0,
        "ms" if has("_us") => figure / 1e3,
        "s" if has("_us") => figure / 1e6,
        "min" if has("seconds") || has("_s") => figure / 60.0,
        "µs" if has("_ms") => figure * 1e3,
        "s" if has("_ms") => figure / 1e3,
        _ => figure,
    }
}

/// Published figures beside ours, computed for the table of Markdown and the page.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// A summary in sentences for a reader who runs a payment scheme; empty if there is none.
    pub summary: String,
    /// The conditions of most of our runs, stated once.
    pub conditions: String,
    /// The rows, in the order of the file.
    pub rows: Vec<BesideRow>,
}

#[derive(Clone, Debug, Default)]
pub struct BesideRow {
    pub row: PublishedRow,
    pub ours: Option<f64>,
    /// The factor by which ours is better; also absent if our run missed an objective.
    pub times: Option<f64>,
    /// The objectives that our run missed.
    pub missed: Option<String>,
    /// The factor per vCPU, or the reason why there is none.
    pub per_vcpu: String,
    pub load: String,
    /// The remark about our figure: conditions that differ from those of most runs, or why there is no figure.
    pub remark: String,
}

impl BesideRow {
    pub(crate) fn shown(&self, value: Option<f64>) -> String {
        value.map_or_else(|| ABSENT.to_owned(), |value| with_unit(value, &self.row.unit))
    }

    /// The factor by which ours is better, or the objectives that our run missed.
    pub(crate) fn times_text(&self) -> String {
        match &self.missed {
            Some(missed) => format!("missed: {missed}"),
            None => or_absent(self.times, times),
        }
    }
}

/// Puts our figures beside the published ones. A row without an entry in `results` is kept.
pub fn beside(published: &Published, results: &BTreeMap<String, Ours>) -> Beside {
    let measured = results.values().filter(|ours| ours.figure.is_some()).map(|ours| &ours.conditions);
    let shared = conditions::shared(measured);
    let rows =
        published.rows.iter().map(|row| {
            let ours = results.get(&row.id);
            let figure = ours.and_then(|ours| ours.figure);
            let missed = ours.filter(|_| figure.is_some()).and_then(|ours| ours.missed.clone());
            let comparable = row.figure.zip(figure).filter(|_| !row.no_ratio && missed.is_none());
            let times = comparable.and_then(|(theirs, ours)| {
                if row.less_is_better() { ratio(theirs, ours) } else { ratio(ours, theirs) }
            });
            BesideRow {
                row: row.clone(),
                ours: figure,
                times,
                missed,
                per_vcpu: per_vcpu(row, ours.and_then(|ours| ours.vcpus), times),
                load: ours.map(|ours| ours.load.clone()).unwrap_or_default(),
                remark: ours.map_or_else(|| "not run".to_owned(), |ours| remark(ours, &shared)),
            }
        });
    Beside { rows: rows.collect(), conditions: conditions::text(&shared), summary: String::new() }
}

/// The rows as a table of Markdown: what, theirs, ours, the factor by which ours is better, and the same per vCPU (for
/// rates). The rows refer to notes below the table, each stated once: their conditions, our load, and remarks about our
/// figure. The conditions of our runs are stated once above it, and the notes contain only differences. A row without a
/// figure of ours is kept, with a dash.
pub fn table(beside: &Beside) -> String {
    let (mut theirs, mut ours) = (Notes::new('P'), Notes::new('O'));
    let rows = beside.rows.iter().zip(conditions_in_full(beside)).map(|(row, conditions)| {
        vec![
            row.row.what.clone(),
            row.shown(row.row.figure),
            row.shown(row.ours),
            row.times_text(),
            row.per_vcpu.clone(),
            theirs.name([&row.row.source, &conditions]),
            ours.name([&row.load, &row.remark]),
        ]
    });
    let head = ["what", "published", "ours", "times better", "per vCPU", "theirs", "of ours"];
    let grid = Grid::new(&head, rows);
    let made = match beside.conditions.as_str() {
        "" => String::new(),
        conditions => {
            let text = format!("Ours, unless a note says otherwise: {}", escaped(conditions));
            format!("{}\n", wrapped(&text, ""))
        }
    };
    format!(
        "{made}{}\n**How theirs were reached**\n\n{}\n**What drove ours, and what is to be known of them**\n\n{}",
        grid.markdown(),
        theirs.markdown(),
        ours.markdown()
    )
}

/// Remarks below a table, each stated once.
struct Notes {
    letter: char,
    texts: Vec<String>,
}

impl Notes {
    const fn new(letter: char) -> Self {
        Self { letter, texts: Vec::new() }
    }

    /// The reference to the remark that consists of these parts; empty if they are empty.
    fn name(&mut self, parts: [&str; 2]) -> String {
        let text = joined(parts, "; ");
        if text.is_empty() {
            return String::new();
        }
        let known = self.texts.iter().position(|known| *known == text);
        let place = known.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        format!("{}{}", self.letter, place + 1)
    }

    fn markdown(&self) -> String {
        let point = |(place, text): (usize, &String)| {
            wrapped(&format!("- **{}{}** {}", self.letter, place + 1, escaped(text)), "  ")
        };
        self.texts.iter().enumerate().map(point).collect()
    }
}

/// Their conditions, with "as the row above" spelled out, because rows may be moved, and notes belong to several rows.
pub(crate) fn conditions_in_full(beside: &Beside) -> Vec<String> {
    let mut before = String::new();
    beside.rows.iter().map(|row| spelled(&row.row.conditions, &mut before)).collect()
}

/// The text of a row, with a reference to the row above replaced by that row's text.
fn spelled(said: &str, before: &mut String) -> String {
    let same =
        ["otherwise as the row above", "as the row above"].into_iter().find(|same| said.contains(same));
    match (same, said.strip_prefix("the same")) {
        (Some(same), _) => said.replacen(same, before, 1),
        (None, Some(rest)) if rest.is_empty() || rest.starts_with([',', ';']) => format!("{before}{rest}"),
        _ => {
            said.clone_into(before);
            said.to_owned()
        }
    }
}

pub(crate) fn times(times: f64) -> String {
    format!("{} ×", number(times))
}

/// The factor by which ours is better per vCPU, or the reason why there is none.
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

/// The remark about a figure of ours, without the common conditions.
fn remark(ours: &Ours, shared: &Conditions) -> String {
    let differing = ours.figure.map(|_| conditions::differing(&ours.conditions, shared).join("; "));
    joined([&differing.unwrap_or_default(), &ours.note], "; ")
}

fn with_unit(value: f64, unit: &str) -> String {
    let unit = unit.trim();
    if unit == "ms" && value.abs() < 0.1 {
        // Otherwise only two digits would be left.
        crate::figures::milliseconds(value)
    } else if unit.is_empty() || unit.starts_with('/') {
        format!("{}{unit}", number(value))
    } else {
        format!("{} {unit}", number(value))
    }
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
