//! Plots of a suite: a figure against what was varied.

use std::collections::BTreeMap;

use super::axis::{Axis, Scale, round_milliseconds, round_number};
use super::plot::{Plot, Point, Series, Stroke};
use crate::report::compare::Metric;
use crate::report::figures::number;
use crate::report::input::{Plot as SuitePlot, Results};
use crate::report::parameters;
use crate::report::run::{Run, plain};
use crate::report::statistics::{CONFIDENCE, Interval, mean_interval};

/// Values that are further apart than this ratio are laid out by ratio.
const LOG_RATIO: f64 = 20.0;
/// The share of a category's width that its columns take.
const COLUMNS_SHARE: f64 = 0.6;

/// Draws a plot of a suite; `None` when no run has both figures.
pub(crate) fn plot(plot: &SuitePlot, results: &Results, group: &str) -> Option<Plot> {
    let runs: Vec<&Run> = plot.runs.iter().filter_map(|&index| results.runs.get(index)).collect();
    let unit = runs.first().map_or_else(String::new, |run| run.units());
    let numeric = runs.iter().all(|run| run.value(&plot.x).is_none() || run.number(&plot.x).is_some());
    let categories = categories(plot, &runs);
    // Numbers with one word among them, such as `natural`, still are an order that a line can follow.
    let words = categories.iter().filter(|category| category.parse::<f64>().is_err()).count();
    let ordered = numeric || (words <= 1 && categories.len() > 2);
    let x_of = |run: &Run| {
        if numeric {
            run.number(&plot.x)
        } else {
            let text = plain(run.value(&plot.x)?);
            Some(categories.iter().position(|category| *category == text)? as f64)
        }
    };
    let mut lines: BTreeMap<(u64, String), Vec<Point>> = BTreeMap::new();
    for run in &runs {
        let (Some(x), Some(y)) = (x_of(run), run.number(&plot.y)) else { continue };
        let value = plot.series.as_deref().and_then(|series| run.value(series));
        // Lines in the order of their numbers; texts after them, by themselves.
        let order =
            value.and_then(serde_json::Value::as_f64).map_or(u64::MAX, |value| (value.max(0.0) * 1e3) as u64);
        let name = match (&plot.series, value) {
            (Some(series), Some(value)) => parameters::text(series, value),
            _ => String::new(),
        };
        let interval = whiskers(plot, run).map(|(interval, _)| interval);
        let x_text = run.value(&plot.x).map(|value| parameters::text(&plot.x, value)).unwrap_or_default();
        let margin =
            interval.map_or_else(String::new, |interval| format!(" ± {}", number(interval.half_width())));
        let y_text = format!("{}{margin} {}", figure(&plot.y, y), suffix(&plot.y)).trim_end().to_owned();
        let range = interval.map(|interval| (interval.low.max(0.0), interval.high));
        lines.entry((order, name)).or_default().push(Point { x, y, x_text, y_text, range });
    }
    // Columns of one category stand beside each other; what lies between two categories means nothing, so no line is drawn.
    let slot = COLUMNS_SHARE / lines.len().max(1) as f64;
    let shift = |index: usize, lines: usize| (index as f64 - (lines - 1) as f64 / 2.0) * slot;
    let (count, stroke) = if ordered {
        (lines.len(), Stroke::Dotted)
    } else {
        (lines.len(), Stroke::Columns(slot * 0.94 / categories.len() as f64))
    };
    let series = lines.into_iter().enumerate().map(|(colour, ((_, name), mut points))| {
        points.sort_by(|first, second| first.x.total_cmp(&second.x));
        if !ordered {
            points.iter_mut().for_each(|point| point.x += shift(colour, count));
        }
        Series { name, colour, stroke, points: points.into_iter().map(Some).collect() }
    });
    let series: Vec<Series> = series.collect();
    if series.is_empty() {
        return None;
    }
    let points = || series.iter().flat_map(|series| series.points.iter().flatten());
    let tops = points().flat_map(|point| [point.y, point.range.map_or(point.y, |(_, high)| high)]);
    let y_format = if is_time(&plot.y) { round_milliseconds } else { round_number };
    let y = Axis::new(Scale::from_zero(tops), 5, y_format, "");
    let x = if numeric {
        numbers_axis(points().map(|point| point.x), &plot.x)
    } else {
        categories_axis(&categories, &plot.x)
    };
    Some(Plot {
        title: plot.title.clone(),
        note: format!("{}{}.", y_name(&plot.y, &unit), whiskers_text(plot, &runs)),
        x,
        y,
        series,
        shaded: Vec::new(),
        wide: false,
        group: group.to_owned(),
    })
}

/// The interval of a point, and whether it is of one run's slices only.
fn whiskers(plot: &SuitePlot, run: &Run) -> Option<(Interval, bool)> {
    let samples = run.samples(Metric::Throughput).filter(|_| plot.y == "throughput_per_s")?;
    Some((mean_interval(&samples.values, CONFIDENCE)?, samples.origin.is_within_run()))
}

/// What the whiskers are, where there are some.
fn whiskers_text(plot: &SuitePlot, runs: &[&Run]) -> &'static str {
    let within: Vec<bool> =
        runs.iter().filter_map(|run| whiskers(plot, run)).map(|(_, within)| within).collect();
    match (within.is_empty(), within.contains(&true)) {
        (true, _) => "",
        (false, false) => "; whiskers are 95 % intervals",
        (false, true) => "; whiskers are 95 % intervals of what differed within each run",
    }
}

/// The texts on the horizontal axis, in the order in which the suite names them.
fn categories(plot: &SuitePlot, runs: &[&Run]) -> Vec<String> {
    let mut categories: Vec<String> = Vec::new();
    for text in runs.iter().filter_map(|run| run.value(&plot.x)).map(plain) {
        if !categories.contains(&text) {
            categories.push(text);
        }
    }
    categories
}

fn categories_axis(categories: &[String], name: &str) -> Axis {
    let scale = Scale::Linear { low: -0.5, high: categories.len() as f64 - 0.5 };
    let ticks = categories
        .iter()
        .enumerate()
        .map(|(index, text)| (scale.place(index as f64), parameters::tick(name, text)))
        .collect();
    Axis { scale, ticks, name: parameters::axis(name) }
}

/// Ticks exactly where there are values: what was varied has few.
fn numbers_axis(values: impl Iterator<Item = f64>, name: &str) -> Axis {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (low, high) = (values[0], values[values.len() - 1]);
    let scale = if low > 0.0 && high / low > LOG_RATIO {
        let margin = (high / low).powf(0.04);
        Scale::Log { low: low / margin, high: high * margin }
    } else {
        let margin = if high > low { (high - low) * 0.04 } else { 1.0 };
        Scale::Linear { low: low - margin, high: high + margin }
    };
    let ticks = values.iter().map(|value| (scale.place(*value), short(*value))).collect();
    Axis { scale, ticks, name: parameters::axis(name) }
}

/// Large round numbers as `10 K` and `2 M`.
fn short(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 1e6 => format!("{} M", round_number((value / 1e4).round() / 1e2)),
        magnitude if magnitude >= 1e4 => format!("{} K", round_number((value / 1e2).round() / 1e1)),
        _ => round_number(value),
    }
}

fn is_time(figure: &str) -> bool {
    figure.starts_with("latency_ms") || figure.ends_with("_ms")
}

fn figure(name: &str, value: f64) -> String {
    if is_time(name) { crate::report::figures::milliseconds(value) } else { number(value) }
}

fn suffix(name: &str) -> &'static str {
    match name {
        "throughput_per_s" => "per second",
        "hub_cpu_us" | "hub.cpu_us_per_operation" => "µs",
        _ => "",
    }
}

fn y_name(name: &str, units: &str) -> String {
    match name {
        "throughput_per_s" => format!("{units} per second"),
        "latency_ms.p50" | "p50_ms" => "p50 latency".to_owned(),
        "latency_ms.p99" | "p99_ms" => "p99 latency".to_owned(),
        "hub_cpu_us" | "hub.cpu_us_per_operation" => "CPU of the hub per operation, µs".to_owned(),
        name => name.replace(['_', '.'], " "),
    }
}
