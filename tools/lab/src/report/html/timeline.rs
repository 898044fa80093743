//! Plots over the time of a run.

use super::axis::{Axis, Scale, round_milliseconds, round_number};
use super::plot::{Plot, Point, Series, Stroke};
use crate::report::figures::{milliseconds, number};
use crate::report::run::{Row, Run};

/// Most points of a line: more than a page shows apart.
const POINTS_MAX: usize = 240;

/// How several rows become one point.
#[derive(Clone, Copy)]
enum Merge {
    Mean,
    Worst,
}

/// One line to draw: its name, how it looks, and what it shows of a row.
struct Line {
    name: String,
    colour: usize,
    stroke: Stroke,
    value: fn(&Row) -> Option<f64>,
    merge: Merge,
}

fn line(name: &str, colour: usize, stroke: Stroke, value: fn(&Row) -> Option<f64>, merge: Merge) -> Line {
    Line { name: name.to_owned(), colour, stroke, value, merge }
}

/// Throughput, latency, CPU and memory of one run, one below the other on the same time.
pub(crate) fn of_run(run: &Run, group: &str) -> Vec<Plot> {
    let units = run.units();
    let throughput = [
        line("offered", 4, Stroke::Dashed, |row| row.offered, Merge::Mean),
        line("completed", 0, Stroke::Solid, |row| row.completed, Merge::Mean),
        line("failed", 3, Stroke::Solid, |row| row.failed.filter(|failed| *failed > 0.0), Merge::Mean),
    ];
    let latency = [
        line("slowest", 4, Stroke::Faint, |row| row.max_ms, Merge::Worst),
        line("p99", 1, Stroke::Solid, |row| row.p99_ms, Merge::Worst),
        line("p95", 2, Stroke::Solid, |row| row.p95_ms, Merge::Worst),
        line("p50", 0, Stroke::Solid, |row| row.p50_ms, Merge::Mean),
    ];
    let queues = queues(run);
    let disk = [line("disk", 0, Stroke::Dotted, |row| row.hub_disk_mb, Merge::Worst)];
    let cpu = [line("CPU cores", 0, Stroke::Solid, |row| row.hub_cpu_cores, Merge::Mean)];
    let memory = [line("memory", 0, Stroke::Solid, |row| row.hub_rss_mb, Merge::Worst)];
    let rate = |value: f64| format!("{}/s", number(value));
    let cores = |value: f64| format!("{} cores", number(value));
    let megabytes = |value: f64| format!("{} MiB", number(value));
    let waiting = |value: f64| format!("{} waiting", number(value));
    let plots = [
        plot(
            run,
            group,
            &throughput,
            Value {
                title: format!("{} per second", crate::report::figures::capitalised(&units)),
                log: false,
                format: rate,
                per_interval: true,
            },
        ),
        plot(
            run,
            group,
            &latency,
            Value {
                title: "Latency, logarithmic".to_owned(),
                log: true,
                format: milliseconds,
                per_interval: false,
            },
        ),
        plot(
            run,
            group,
            &queues,
            Value {
                title: "Waiting in the hub, at the end of each second".to_owned(),
                log: false,
                format: waiting,
                per_interval: false,
            },
        ),
        plot(
            run,
            group,
            &cpu,
            Value {
                title: "CPU cores that the hub keeps busy".to_owned(),
                log: false,
                format: cores,
                per_interval: false,
            },
        ),
        plot(
            run,
            group,
            &memory,
            Value {
                title: "Memory of the hub, MiB".to_owned(),
                log: false,
                format: megabytes,
                per_interval: false,
            },
        ),
        plot(
            run,
            group,
            &disk,
            Value {
                title: "Disk that the hub uses, MiB".to_owned(),
                log: false,
                format: megabytes,
                per_interval: false,
            },
        ),
    ];
    let mut plots: Vec<Plot> = plots.into_iter().flatten().collect();
    name_axes_once(&mut plots);
    plots
}

/// The queues of the hub in which anything waited when they were looked at.
fn queues(run: &Run) -> Vec<Line> {
    let all = [
        line("relays", 2, Stroke::Solid, |row| row.queue_relay, Merge::Worst),
        line("ingress", 4, Stroke::Faint, |row| row.queue_ingress, Merge::Worst),
        line("callbacks", 1, Stroke::Solid, |row| row.queue_callbacks, Merge::Worst),
        line("engine", 0, Stroke::Solid, |row| row.queue_engine, Merge::Worst),
    ];
    let is_used = |line: &Line| run.timeline.rows.iter().filter_map(line.value).any(|depth| depth > 0.0);
    all.into_iter().filter(is_used).collect()
}

/// Plots below each other share their time: the last names it, the first says what the grey is.
fn name_axes_once(plots: &mut [Plot]) {
    let last = plots.len().saturating_sub(1);
    for (index, plot) in plots.iter_mut().enumerate() {
        if index < last {
            plot.x.name.clear();
        }
        if index > 0 {
            plot.note.clear();
        }
    }
}

/// Throughput and tail latency of several runs on one time.
pub(crate) fn of_runs(runs: &[&Run], group: &str) -> Vec<Plot> {
    let throughput = Value {
        title: "Completed per second".to_owned(),
        log: false,
        format: |value| format!("{}/s", number(value)),
        per_interval: true,
    };
    let latency = Value {
        title: "p99 latency of each second, logarithmic".to_owned(),
        log: true,
        format: milliseconds,
        per_interval: false,
    };
    let plots = [
        overlay(runs, group, throughput, |row| row.completed, Merge::Mean),
        overlay(runs, group, latency, |row| row.p99_ms, Merge::Worst),
    ];
    let mut plots: Vec<Plot> = plots.into_iter().flatten().collect();
    name_axes_once(&mut plots);
    plots
}

/// One figure of several runs; one run alone is no comparison.
fn overlay(
    runs: &[&Run],
    group: &str,
    value: Value,
    figure: fn(&Row) -> Option<f64>,
    merge: Merge,
) -> Option<Plot> {
    let series = runs.iter().enumerate().map(|(index, run)| {
        let line = line(&run.label, index, Stroke::Solid, figure, merge);
        let scale = if value.per_interval { 1.0 / run.interval_s() } else { 1.0 };
        series(run, &line, value.format, scale)
    });
    let series: Vec<_> = series.filter(|series| series.points.iter().any(Option::is_some)).collect();
    let seconds = runs.iter().map(|run| duration(run)).fold(0.0, f64::max);
    let note = String::new();
    (series.len() > 1).then(|| assemble(value.title, note, series, value.log, seconds, Vec::new(), group))
}

struct Value {
    title: String,
    log: bool,
    format: fn(f64) -> String,
    /// Whether rows count per interval what is shown per second.
    per_interval: bool,
}

fn plot(run: &Run, group: &str, lines: &[Line], value: Value) -> Option<Plot> {
    let scale = if value.per_interval { 1.0 / run.interval_s() } else { 1.0 };
    let all = lines.iter().map(|line| series(run, line, value.format, scale));
    let series: Vec<_> = all.filter(|series| series.points.iter().any(Option::is_some)).collect();
    // A single point is no development.
    if series.iter().all(|series| series.points.iter().flatten().count() < 2) {
        return None;
    }
    let seconds = duration(run);
    let mut shaded = Vec::new();
    if let Some((start, end)) = run.steady_window() {
        shaded.extend((start > 0.0).then_some((0.0, start)));
        shaded.extend((end < seconds).then_some((end, seconds)));
    }
    let merged = run.timeline.rows.len().div_ceil(POINTS_MAX);
    let mut note = String::new();
    if merged > 1 {
        let seconds = number(merged as f64 * run.interval_s());
        note = format!(
            "each point is of {seconds} s: means; of p95, p99, slowest, what waits and memory the worst. "
        );
    }
    if !shaded.is_empty() {
        note.push_str("Grey: not part of the figures.");
    }
    Some(assemble(value.title, note, series, value.log, seconds, shaded, group))
}

fn assemble(
    title: String,
    note: String,
    series: Vec<Series>,
    log: bool,
    seconds: f64,
    shaded: Vec<(f64, f64)>,
    group: &str,
) -> Plot {
    let values = || series.iter().flat_map(|series| series.points.iter().flatten().map(|point| point.y));
    let y = if log {
        Axis::new(Scale::log(values()), 4, round_milliseconds, "")
    } else {
        Axis::new(Scale::from_zero(values()), 5, round_number, "")
    };
    Plot { title, note, x: Axis::time(seconds), y, series, shaded, wide: true, group: group.to_owned() }
}

fn duration(run: &Run) -> f64 {
    run.timeline.rows.last().map_or(0.0, |row| row.t)
}

fn series(run: &Run, line: &Line, format: fn(f64) -> String, scale: f64) -> Series {
    let rows = &run.timeline.rows;
    let chunk = rows.len().div_ceil(POINTS_MAX).max(1);
    let points = rows.chunks(chunk).map(|rows| {
        let values: Vec<f64> = rows.iter().filter_map(line.value).filter(|value| value.is_finite()).collect();
        let merged = match line.merge {
            Merge::Mean => crate::report::statistics::mean(&values)?,
            Merge::Worst => values.into_iter().reduce(f64::max)?,
        };
        let y = merged * scale;
        // A point stands in the middle of what it is of.
        let start = (rows[0].t - run.interval_s()).max(0.0);
        let x = start + run.interval_s() * rows.len() as f64 / 2.0;
        Some(Point { x, y, x_text: format!("{} s", round_number(start)), y_text: format(y), range: None })
    });
    let mut points: Vec<Option<Point>> = points.collect();
    if line.stroke == Stroke::Dotted {
        // What is looked at now and then is no gap in between.
        points.retain(Option::is_some);
    }
    Series { name: line.name.clone(), colour: line.colour, stroke: line.stroke, points }
}
