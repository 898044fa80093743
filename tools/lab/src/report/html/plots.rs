//! The plots: a run over time, its latencies by percentile, the probes of a search, and a suite's figures by its varied
//! parameter.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::table::Markup;
use crate::figures::plain;
use crate::plan::metric::Metric;
use crate::plan::parameters;
use crate::plan::plot::SuitePlot;
use crate::report::input::Results;
use crate::report::run::Run;
use crate::result::schema::{Probe, TimelineRow};
use crate::statistics::intervals::{CONFIDENCE, Interval, mean_interval};

/// Values with a larger ratio than this get a logarithmic axis.
const LOG_RATIO: f64 = 20.0;
/// Distance of two points of a percentile curve, in nines.
const NINES_STEP: f64 = 0.015;

type Figure = fn(&TimelineRow) -> Option<f64>;
/// Name, colour, stroke, value.
type Line = (&'static str, usize, &'static str, Figure);

/// Title, unit, whether logarithmic, lines. Values with the unit `/s` are counts of an interval.
const OVER_TIME: [(&str, &str, bool, &[Line]); 6] = [
    (
        "Completed per second",
        "/s",
        false,
        &[
            ("offered", 4, "dashed", |row| Some(row.offered as f64)),
            ("completed", 0, "line", |row| Some(row.completed as f64)),
            ("failed", 3, "line", |row| Some(row.failed as f64).filter(|failed| *failed > 0.0)),
        ],
    ),
    (
        "Latency, logarithmic",
        "ms",
        true,
        &[
            ("slowest", 4, "faint", |row| row.max_ms),
            ("p99", 1, "line", |row| row.p99_ms),
            ("p95", 2, "line", |row| row.p95_ms),
            ("p50", 0, "line", |row| row.p50_ms),
        ],
    ),
    (
        "Waiting in the hub, at the end of each second",
        "",
        false,
        &[
            ("relays", 2, "line", |row| row.queues.relay),
            ("ingress", 4, "faint", |row| row.queues.ingress),
            ("callbacks", 1, "line", |row| row.queues.callbacks),
            ("engine", 0, "line", |row| row.queues.engine),
        ],
    ),
    ("CPU cores that the hub keeps busy", "", false, &[("CPU cores", 0, "line", |row| row.hub_cpu_cores)]),
    ("Memory of the hub", "MiB", false, &[("memory", 0, "line", |row| row.hub_rss_mb)]),
    ("Disk that the hub uses", "MiB", false, &[("disk", 0, "points", |row| row.hub_disk_mb)]),
];

fn over_time(run: &Run, figure: Figure, unit: &str) -> Vec<(f64, Option<f64>)> {
    let scale = if unit == "/s" { 1.0 / run.interval_s() } else { 1.0 };
    run.rows().iter().map(|row| (row.t, figure(row).map(|value| value * scale))).collect()
}

/// Throughput, latency, queues, CPU, memory and disk of one run, one below the other on the same time axis.
pub(crate) fn of_run(run: &Run, group: &str) -> Vec<Plot> {
    let seconds = run.rows().last().map_or(0.0, |row| row.t);
    let mut shaded = Vec::new();
    if let Some((start, end)) = run.steady_window() {
        shaded.extend((start > 0.0).then_some((0.0, start)));
        shaded.extend((end < seconds).then_some((end, seconds)));
    }
    let plot = |(title, unit, is_log, lines): &(&str, &'static str, bool, &[Line])| {
        let series = lines.iter().map(|(name, colour, stroke, figure)| {
            let mut points = over_time(run, *figure, unit);
            if *stroke == "points" {
                // Figures that are measured only at some times must not leave gaps.
                points.retain(|(_, y)| y.is_some());
            }
            Series { name: (*name).to_owned(), colour: *colour, stroke, points, ..Series::default() }
        });
        // A queue that was always empty is not drawn, and neither is a single point.
        let is_used = |series: &Series| {
            !title.starts_with("Waiting")
                || series.points.iter().any(|(_, y)| y.is_some_and(|depth| depth > 0.0))
        };
        let series: Vec<Series> = series.filter(|series| series.count() > 0 && is_used(series)).collect();
        series.iter().any(|series| series.count() > 1).then(|| Plot {
            title: (*title).to_owned(),
            note: if shaded.is_empty() { String::new() } else { "Grey: not part of the figures.".to_owned() },
            unit,
            is_log: *is_log,
            series,
            shaded: shaded.clone(),
            wide: true,
            group: group.to_owned(),
            ..Plot::default()
        })
    };
    OVER_TIME.iter().filter_map(plot).collect()
}

/// Throughput and tail latency of several runs on one time axis.
pub(crate) fn of_runs(runs: &[Run], group: &str) -> Vec<Plot> {
    let figures: [(&str, &'static str, bool, Figure); 2] = [
        ("Completed per second", "/s", false, |row| Some(row.completed as f64)),
        ("p99 latency of each second, logarithmic", "ms", true, |row| row.p99_ms),
    ];
    let plot = |(title, unit, is_log, figure): (&str, &'static str, bool, Figure)| {
        let series = runs.iter().enumerate().map(|(colour, run)| {
            let points = over_time(run, figure, unit);
            Series { name: run.label.clone(), colour, stroke: "line", points, ..Series::default() }
        });
        let series: Vec<Series> = series.filter(|series| series.count() > 0).collect();
        let (title, group) = (title.to_owned(), group.to_owned());
        // A single run is not a comparison.
        (series.len() > 1).then(|| Plot { title, unit, is_log, series, wide: true, group, ..Plot::default() })
    };
    figures.into_iter().filter_map(plot).collect()
}

/// For each share of the operations, the time of its slowest one.
pub(crate) fn percentiles(runs: &[Run], group: &str) -> Option<Plot> {
    let series = runs.iter().enumerate().map(|(colour, run)| curve(run, colour));
    let series: Vec<Series> = series.filter(|series| series.count() > 1).collect();
    (!series.is_empty()).then(|| Plot {
        title: "Latency by percentile".to_owned(),
        note: "both axes logarithmic; each step to the right leaves out nine tenths of the rest.".to_owned(),
        x: Axis::Nines,
        unit: "ms",
        is_log: true,
        series,
        group: group.to_owned(),
        ..Plot::default()
    })
}

fn curve(run: &Run, colour: usize) -> Series {
    let total = run.buckets().iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let (mut shares, mut below): (Vec<(f64, f64)>, u64) = (Vec::new(), 0);
    for (upper_us, count) in run.buckets() {
        below = below.saturating_add(*count);
        shares.push((below as f64 / total.max(1) as f64, *upper_us as f64 / 1e3));
    }
    // The last bucket contains all operations. It is shown a little beyond the place of the slowest operation.
    let last = if total > 1 { (total as f64).log10() } else { 6.0 };
    let mut series = Series { name: run.label.clone(), colour, stroke: "line", ..Series::default() };
    let mut before = f64::NEG_INFINITY;
    for (share, value) in shares {
        let x = if share < 1.0 { (-(1.0 - share).log10()).min(last) } else { last + 0.12 };
        if x - before >= NINES_STEP || share >= 1.0 {
            before = x;
            series.points.push((x, Some(value)));
        }
    }
    series
}

/// Every rate of a search, by its tail latency.
pub(crate) fn probes(probes: &[&Probe], group: &str) -> Option<Plot> {
    let series = [("met every target", 0, true), ("missed one", 3, false)].map(|(name, colour, met)| {
        let of = probes.iter().filter(|probe| probe.met == met);
        let points =
            of.map(|probe| (f64::from(probe.rate_per_s), Some(probe.p99_ms).filter(|p99| *p99 > 0.0)));
        Series {
            name: name.to_owned(),
            colour,
            stroke: "dots",
            points: points.collect(),
            ..Series::default()
        }
    });
    let series: Vec<Series> = series.into_iter().filter(|series| series.count() > 0).collect();
    (series.iter().map(Series::count).sum::<usize>() > 1).then(|| Plot {
        title: "p99 latency by arrival rate".to_owned(),
        note: "logarithmic.".to_owned(),
        x: Axis::Numbers { name: "requested arrivals per second".to_owned(), is_log: false },
        unit: "ms",
        is_log: true,
        series,
        wide: true,
        group: format!("{group}-breakpoint"),
        ..Plot::default()
    })
}

/// A plot of a suite: a figure by the varied parameter; `None` if no run has both.
pub(crate) fn of_suite(plot: &SuitePlot, results: &Results, group: &str) -> Option<Plot> {
    let runs: Vec<&Run> = plot.runs.iter().filter_map(|&index| results.runs.get(index)).collect();
    let numeric = runs.iter().all(|run| run.value(&plot.x).is_none() || run.number(&plot.x).is_some());
    let mut words: Vec<String> = Vec::new();
    for text in runs.iter().filter_map(|run| run.value(&plot.x)).map(plain) {
        if !words.contains(&text) {
            words.push(text);
        }
    }
    // Numbers with one word among them, such as `natural`, still have an order for a line.
    let strange = words.iter().filter(|word| word.parse::<f64>().is_err()).count();
    let is_ordered = numeric || (strange <= 1 && words.len() > 2);
    let x_of = |run: &Run| match numeric {
        true => run.number(&plot.x),
        false => {
            let text = plain(run.value(&plot.x)?);
            Some(words.iter().position(|word| *word == text)? as f64)
        }
    };
    let mut lines: BTreeMap<(u64, String), Series> = BTreeMap::new();
    for run in &runs {
        let (Some(x), Some(y)) = (x_of(run), run.number(&plot.y)) else { continue };
        let value = plot.series.as_deref().and_then(|series| run.value(series));
        // Lines are in the order of their numbers, followed by texts.
        let order =
            value.and_then(serde_json::Value::as_f64).map_or(u64::MAX, |value| (value.max(0.0) * 1e3) as u64);
        let name = plot.series.as_deref().zip(value);
        let name = name.map_or_else(String::new, |(series, value)| parameters::text(series, value));
        let line = lines.entry((order, name)).or_default();
        line.points.push((x, Some(y)));
        line.ranges.push(whiskers(plot, run).map(|(interval, _)| (interval.low.max(0.0), interval.high)));
    }
    let stroke = if is_ordered { "points" } else { "columns" };
    let series: Vec<Series> = (lines.into_iter().enumerate())
        .map(|(colour, ((_, name), line))| Series { name, colour, stroke, ..line })
        .collect();
    if series.is_empty() {
        return None;
    }
    let (y, unit) = y_axis(&plot.y, runs.first().copied());
    Some(Plot {
        title: plot.title.clone(),
        note: format!("{y}{}.", whiskers_text(plot, &runs)),
        x: x_axis(plot, &series, numeric, &words),
        unit,
        series,
        group: group.to_owned(),
        ..Plot::default()
    })
}

fn x_axis(plot: &SuitePlot, series: &[Series], numeric: bool, words: &[String]) -> Axis {
    let name = parameters::axis(&plot.x);
    if !numeric {
        return Axis::Words {
            name,
            words: words.iter().map(|word| parameters::tick(&plot.x, word)).collect(),
        };
    }
    let values = || series.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    Axis::Numbers { name, is_log: low > 0.0 && high / low > LOG_RATIO }
}

/// The interval of a point, and whether it is computed from slices of one run only.
fn whiskers(plot: &SuitePlot, run: &Run) -> Option<(Interval, bool)> {
    let samples = run.samples(Metric::Throughput).filter(|_| plot.y == "throughput_per_s")?;
    Some((mean_interval(&samples.values, CONFIDENCE)?, samples.are_within_run))
}

fn whiskers_text(plot: &SuitePlot, runs: &[&Run]) -> &'static str {
    let within: Vec<bool> = runs.iter().filter_map(|run| Some(whiskers(plot, run)?.1)).collect();
    match (within.is_empty(), within.contains(&true)) {
        (true, _) => "",
        (false, false) => "; whiskers are 95 % intervals",
        (false, true) => "; whiskers are 95 % intervals of the variation within each run",
    }
}

/// The name of a figure and its unit.
fn y_axis(name: &str, run: Option<&Run>) -> (String, &'static str) {
    match name {
        "throughput_per_s" => (format!("{} per second", run.map_or_else(String::new, Run::units)), "/s"),
        "latency_ms.p50" | "p50_ms" => ("p50 latency".to_owned(), "ms"),
        "latency_ms.p99" | "p99_ms" => ("p99 latency".to_owned(), "ms"),
        "hub_cpu_us" | "hub.cpu_us_per_operation" => ("CPU of the hub per operation, µs".to_owned(), "µs"),
        name => {
            let is_time = name.starts_with("latency_ms") || name.ends_with("_ms");
            (name.replace(['_', '.'], " "), if is_time { "ms" } else { "" })
        }
    }
}

/// Number of colours for series in the style sheet.
pub(crate) const COLOURS: usize = 6;

#[derive(Clone, Debug, Default)]
pub(crate) enum Axis {
    #[default]
    Time,
    /// Percentiles by the nines: 1 is p90, 2 is p99.
    Nines,
    /// Numbers, logarithmic if they are far apart.
    Numbers { name: String, is_log: bool },
    /// Words, at 0, 1, 2 and so on.
    Words { name: String, words: Vec<String> },
}

/// A line: a name, its style (`line`, `faint`, `dashed`, `points` or `columns`), and its points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub name: String,
    pub colour: usize,
    pub stroke: &'static str,
    pub points: Vec<(f64, Option<f64>)>,
    /// Intervals of the points.
    pub ranges: Vec<Option<(f64, f64)>>,
}

impl Series {
    pub fn count(&self) -> usize {
        self.points.iter().filter(|(_, y)| y.is_some_and(f64::is_finite)).count()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Plot {
    pub title: String,
    pub note: String,
    pub x: Axis,
    /// The unit of the values.
    pub unit: &'static str,
    /// Whether the axis of the values is logarithmic.
    pub is_log: bool,
    pub series: Vec<Series>,
    /// Parts along the horizontal axis that do not count.
    pub shaded: Vec<(f64, f64)>,
    /// Whether the plot has the full width of the page.
    pub wide: bool,
    /// Plots over time in the same group show the same second when the reader points at it.
    pub group: String,
}

impl Plot {
    /// The plot as a figure of the page; empty if there is nothing to draw.
    pub fn markup(&self) -> Markup {
        if self.series.iter().all(|series| series.count() == 0) {
            return Markup::default();
        }
        let class = if self.wide { "plot full" } else { "plot" };
        Markup::of(
            "<figure class=\"{}\"><figcaption><b>{}</b> <span>{}</span></figcaption>{}</figure>",
            &[&class, &self.title, &self.note, &Markup::data(&self.values())],
        )
    }

    fn values(&self) -> Value {
        let x = match &self.x {
            Axis::Time => json!({ "kind": "time", "name": "seconds" }),
            Axis::Nines => json!({ "kind": "nines", "name": "percentile" }),
            Axis::Numbers { name, is_log } => json!({ "kind": "numbers", "name": name, "log": is_log }),
            Axis::Words { name, words } => json!({ "kind": "words", "name": name, "words": words }),
        };
        // A logarithmic curve cannot show zero.
        let is_shown = |y: &f64| y.is_finite() && (!self.is_log || *y > 0.0);
        let series = self.series.iter().map(|series| {
            let mut points: Vec<(f64, Option<f64>, Value)> = (series.points.iter().enumerate())
                .map(|(place, (x, y))| (*x, y.filter(is_shown), json!(series.ranges.get(place))))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points.dedup_by(|later, earlier| later.0 == earlier.0);
            json!({
                "name": series.name,
                "colour": series.colour % COLOURS,
                "stroke": series.stroke,
                "x": points.iter().map(|point| rounded(point.0)).collect::<Vec<_>>(),
                "y": points.iter().map(|point| point.1.map(rounded)).collect::<Vec<_>>(),
                "ranges": if series.ranges.is_empty() { Value::Null } else { points.into_iter().map(|point| point.2).collect() },
            })
        });
        json!({
            "x": x,
            "unit": self.unit,
            "log": self.is_log,
            "series": series.collect::<Vec<_>>(),
            "shaded": self.shaded,
            "group": self.group,
        })
    }
}

/// Rounds to four decimals: more than a page shows.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
