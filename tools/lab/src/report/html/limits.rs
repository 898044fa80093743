//! Targets, where a hub breaks, and what time does to it.

use super::axis::{Axis, Scale, round_milliseconds, round_number};
use super::markup::Markup;
use super::plot::{Plot, Point, Series, Stroke};
use crate::report::figures::{count, microseconds, milliseconds, number, or_absent, percent, signed_percent};
use crate::report::run::{Probe, Run, Target};

/// Targets beside what was measured; nothing without targets.
pub(crate) fn targets(heading: &'static str, targets: &[Target]) -> Markup {
    let mut markup = Markup::new();
    if targets.is_empty() {
        return markup;
    }
    markup.put(
        "<table class=\"targets\"><thead><tr><th>{}</th><th>asked for</th><th>measured</th><th></th></tr></thead><tbody>",
        &[&heading],
    );
    for target in targets {
        let value = |value: Option<f64>| value.map_or_else(String::new, |value| in_unit(&target.name, value));
        let (class, verdict) = match (target.met, &target.not_judged) {
            (Some(true), _) => ("met", "met".to_owned()),
            (Some(false), _) => ("alarm", "missed".to_owned()),
            (None, Some(why)) => ("", format!("not judged: {why}")),
            (None, None) => ("", "not judged".to_owned()),
        };
        markup.put(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>",
            &[&spelled(&target.name), &value(target.limit), &value(target.measured), &class, &verdict],
        );
    }
    markup.raw("</tbody></table>");
    markup
}

/// A figure in the unit that its name ends with.
fn in_unit(name: &str, value: f64) -> String {
    match name {
        name if name.ends_with("_ms") => milliseconds(value),
        name if name.ends_with("_us") => microseconds(value),
        name if name.ends_with("_mb") => format!("{} MiB", number(value)),
        name if name.contains("share") => percent(value),
        name if name.ends_with("per_s") || name.ends_with("per second") => format!("{}/s", number(value)),
        name if name.ends_with("seconds") => format!("{} s", number(value)),
        _ => number(value),
    }
}

fn spelled(name: &str) -> String {
    match name {
        "throughput_per_s" => "throughput".to_owned(),
        "hub_rss_mb" => "memory of the hub".to_owned(),
        "hub_disk_mb" => "disk that the hub uses".to_owned(),
        "completed_share_of_due" => "completed of what was due".to_owned(),
        name => {
            let bare = ["_ms", "_us", "_mb", "_per_s"].into_iter().find_map(|unit| name.strip_suffix(unit));
            bare.unwrap_or(name).replace('_', " ")
        }
    }
}

/// Every rate that was tried, as a plot of its tail latency and as rows.
pub(crate) fn breakpoint(run: &Run, group: &str) -> Markup {
    let mut markup = Markup::new();
    let Some(found) = run.breakpoint.as_ref().filter(|found| !found.probes.is_empty()) else { return markup };
    let text = match (found.highest_met_per_s, found.lowest_missed_per_s) {
        (Some(met), Some(missed)) if found.is_generators() => format!(
            "{} per second met every target. At {} per second the load generator could not keep up: the hub may hold more.",
            number(met),
            number(missed)
        ),
        (Some(met), Some(missed)) => {
            format!("{} per second met every target, {} per second did not.", number(met), number(missed))
        }
        (Some(met), None) => format!("Every rate up to {} per second met every target.", number(met)),
        (None, Some(missed)) => format!("Already {} per second missed a target.", number(missed)),
        (None, None) => "No rate could be judged.".to_owned(),
    };
    markup.put("<p>{}</p>", &[&text]);
    let mut probes: Vec<&Probe> = found.probes.iter().filter(|probe| probe.rate_per_s.is_some()).collect();
    probes.sort_by(|first, second| {
        first.rate_per_s.unwrap_or(0.0).total_cmp(&second.rate_per_s.unwrap_or(0.0))
    });
    if let Some(plot) = probe_plot(&probes, group) {
        markup.add(&plot.markup());
    }
    markup.raw(
        "<div class=\"scroll\"><table><thead><tr><th>asked for, per second</th><th>completed, per second</th><th>p99</th>\
         <th>lost</th><th>cores idle</th><th></th></tr></thead><tbody>",
    );
    for probe in probes {
        let (class, verdict) =
            if probe.met { ("met", "met".to_owned()) } else { ("alarm", probe.reasons.join("; ")) };
        markup.put(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>",
            &[
                &or_absent(probe.rate_per_s, number),
                &or_absent(probe.throughput_per_s, number),
                &or_absent(probe.p99_ms, milliseconds),
                &count(probe.lost.unwrap_or(0)),
                &or_absent(probe.idle_share, percent),
                &class,
                &if verdict.is_empty() { "missed".to_owned() } else { verdict },
            ],
        );
    }
    markup.raw("</tbody></table></div>");
    markup
}

fn probe_plot(probes: &[&Probe], group: &str) -> Option<Plot> {
    let series =
        [("met every target", 0, true), ("missed one", 3, false)].into_iter().map(|(name, colour, met)| {
            let points = probes.iter().filter(|probe| probe.met == met).filter_map(|probe| {
                let (x, y) = (probe.rate_per_s?, probe.p99_ms.filter(|p99| *p99 > 0.0)?);
                Some(Some(Point {
                    x,
                    y,
                    x_text: format!("{} per second", number(x)),
                    y_text: milliseconds(y),
                    range: None,
                }))
            });
            Series { name: name.to_owned(), colour, stroke: Stroke::Dotted, points: points.collect() }
        });
    let series: Vec<Series> = series.filter(|series: &Series| !series.points.is_empty()).collect();
    if series.iter().map(|series| series.points.len()).sum::<usize>() < 2 {
        return None;
    }
    let points = || series.iter().flat_map(|series| series.points.iter().flatten());
    let x = Axis::new(
        Scale::from_zero(points().map(|point| point.x)),
        8,
        round_number,
        "arrivals per second that were asked for",
    );
    let y = Axis::new(Scale::log(points().map(|point| point.y)), 5, round_milliseconds, "");
    Some(Plot {
        title: "p99 latency by arrival rate".to_owned(),
        note: "logarithmic.".to_owned(),
        x,
        y,
        series,
        shaded: Vec::new(),
        wide: true,
        group: format!("{group}-breakpoint"),
    })
}

/// How figures moved during a long run.
pub(crate) fn drift(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let Some(drift) = run.drift.as_ref().filter(|drift| !drift.rows.is_empty()) else { return markup };
    let over =
        drift.seconds.map_or_else(String::new, |seconds| format!(" over {}", milliseconds(seconds * 1e3)));
    markup.put("<p class=\"note\">Lines fitted to the steady window{}.</p>", &[&over]);
    markup.raw(
        "<div class=\"scroll\"><table><thead><tr><th>figure</th><th>at the start</th><th>at the end</th><th>change</th>\
         <th>in an hour</th><th></th></tr></thead><tbody>",
    );
    for row in &drift.rows {
        let value = |value: Option<f64>| value.map_or_else(String::new, |value| in_unit(&row.name, value));
        markup.put(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            &[
                &spelled(&row.name),
                &value(row.start),
                &value(row.end),
                &or_absent(row.change, signed_percent),
                &value(row.per_hour),
                &row.verdict,
            ],
        );
    }
    markup.raw("</tbody></table></div>");
    if let Some(bytes) = drift.disk_bytes_per_operation {
        markup.put("<p class=\"note\">{} bytes of disk per {}.</p>", &[&number(bytes), &run.unit()]);
    }
    if let Some(check) = &drift.kept_up {
        markup.add(&targets("Did it keep up?", std::slice::from_ref(check)));
    }
    markup.add(&targets("Targets of the reference hub's programme of 2020", &drift.programme_2020));
    markup
}
