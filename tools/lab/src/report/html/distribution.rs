//! How latencies are distributed: by percentile for engineers, by round classes for everybody.

use super::axis::{Axis, Scale, nines_of, round_milliseconds};
use super::markup::Markup;
use super::plot::{Plot, Point, Series, Stroke};
use crate::report::figures::{milliseconds, percent};
use crate::report::run::Run;

/// The percentile plot of runs: at each share of the operations, how long the slowest of them took.
pub(crate) fn percentiles(runs: &[&Run], group: &str) -> Option<Plot> {
    let series = runs.iter().enumerate().map(|(index, run)| curve(run, index));
    let series: Vec<Series> = series.filter(|series| series.points.len() > 1).collect();
    if series.is_empty() {
        return None;
    }
    let points = || series.iter().flat_map(|series| series.points.iter().flatten());
    let nines = points().map(|point| point.x).fold(1.0, f64::max);
    let y = Axis::new(Scale::log(points().map(|point| point.y)), 5, round_milliseconds, "");
    Some(Plot {
        title: "Latency by percentile".to_owned(),
        note: "both axes logarithmic; each step to the right leaves out nine tenths of what is left."
            .to_owned(),
        x: Axis::percentiles(nines),
        y,
        series,
        shaded: Vec::new(),
        wide: false,
        group: group.to_owned(),
    })
}

fn curve(run: &Run, colour: usize) -> Series {
    let total: f64 = run.histogram.buckets.iter().map(|(_, count)| count.max(0.0)).sum();
    let mut shares: Vec<(f64, f64)> = Vec::new();
    let mut below = 0.0;
    for &(upper_us, count) in &run.histogram.buckets {
        below += count.max(0.0);
        if total > 0.0 && upper_us.is_finite() {
            shares.push((below / total, upper_us / 1e3));
        }
    }
    let stroke = if shares.is_empty() { Stroke::Dotted } else { Stroke::Solid };
    if shares.is_empty() {
        // Layout 1 has the percentiles only.
        let latency = &run.latency_ms;
        let known = [
            (0.5, latency.p50),
            (0.9, latency.p90),
            (0.95, latency.p95),
            (0.99, latency.p99),
            (0.999, latency.p999),
        ];
        let known = known.into_iter().chain([(0.9999, latency.p9999)]);
        shares.extend(known.filter_map(|(share, value)| Some((share, value.filter(|value| *value > 0.0)?))));
    }
    // The whole is beyond all nines: it is shown where a single operation of all is.
    let last = if total > 1.0 { total.log10() } else { 6.0 };
    let mut points: Vec<Option<Point>> = Vec::new();
    let mut before = f64::NEG_INFINITY;
    for (share, value) in shares {
        // A little further on, so that the slowest does not stand above the second slowest.
        let x = if share < 1.0 { nines_of(share).min(last) } else { last + 0.12 };
        if x - before < 0.015 && share < 1.0 {
            continue;
        }
        before = x;
        let x_text =
            if share < 1.0 { format!("{} of 100", percentile_text(share)) } else { "all".to_owned() };
        points.push(Some(Point { x, y: value, x_text, y_text: milliseconds(value), range: None }));
    }
    Series { name: run.label.clone(), colour, stroke, points }
}

fn percentile_text(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Bars: which share of the operations took how long, in classes of 1, 2, 5, 10 … milliseconds.
pub(crate) fn classes(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let total: f64 = run.histogram.buckets.iter().map(|(_, count)| count.max(0.0)).sum();
    let Some(&(smallest, _)) = run.histogram.buckets.first().filter(|_| total > 0.0) else { return markup };
    let mut bounds = vec![round_below(smallest)];
    let largest = run.histogram.buckets.iter().map(|(upper, _)| *upper).fold(smallest, f64::max);
    while bounds.last().is_some_and(|bound| *bound < largest) && bounds.len() < 40 {
        let next = round_above(bounds[bounds.len() - 1]);
        bounds.push(next);
    }
    let mut counts = vec![0.0; bounds.len()];
    for &(upper, count) in &run.histogram.buckets {
        let class = bounds.iter().position(|bound| upper <= *bound).unwrap_or(bounds.len() - 1);
        counts[class] += count.max(0.0);
    }
    let most = counts.iter().copied().fold(0.0, f64::max);
    markup.put(
        "<figure class=\"plot\"><figcaption><b>How long {} took</b> <span>share of all, by time.</span></figcaption>\
         <table class=\"bars\">",
        &[&run.units()],
    );
    for (class, count) in counts.iter().enumerate().filter(|(class, count)| *class > 0 || **count > 0.0) {
        let upper = round_milliseconds(bounds[class] / 1e3);
        let name = match class.checked_sub(1) {
            Some(below) => format!("{} to {upper}", round_milliseconds(bounds[below] / 1e3)),
            None => format!("up to {upper}"),
        };
        let share = count / total;
        let shown = if share > 0.0 { percent(share) } else { "none".to_owned() };
        markup.put(
            "<tr><th scope=\"row\">{}</th><td><i style=\"width:{}%\"></i></td><td class=\"n\">{}</td></tr>",
            &[&name, &format!("{:.2}", count / most * 100.0), &shown],
        );
    }
    markup.raw("</table></figure>");
    markup
}

fn round_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.max(1.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|round| round * decade).find(|round| *round <= value).unwrap_or(decade)
}

fn round_above(value: f64) -> f64 {
    let decade = 10_f64.powf((value * 1.001).log10().floor());
    let steps = [2.0, 5.0, 10.0].into_iter().map(|round| round * decade);
    steps.into_iter().find(|round| *round > value * 1.001).unwrap_or(decade * 10.0)
}
