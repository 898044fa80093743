//! What a run was to reach beside what it reached: targets, the rates of a search, what time did to it.

use super::plots;
use super::table::{Cell, Markup, table};
use crate::report::figures::{count, microseconds, milliseconds, number, or_absent, percent, signed_percent};
use crate::report::run::Run;
use crate::result::schema::{Probe, TargetCheck, ThresholdCheck};

pub(super) struct Objective<'run> {
    name: &'run str,
    limit: f64,
    measured: f64,
    met: Option<bool>,
    why: &'run str,
}

impl<'run> From<&'run TargetCheck> for Objective<'run> {
    fn from(check: &'run TargetCheck) -> Self {
        let (name, met) = (check.name.as_ref(), Some(check.met));
        Self { name, limit: check.limit, measured: check.measured, met, why: "" }
    }
}

impl<'run> From<&'run ThresholdCheck> for Objective<'run> {
    fn from(check: &'run ThresholdCheck) -> Self {
        Self { name: &check.name, limit: check.limit, measured: check.value, met: Some(check.met), why: "" }
    }
}

/// What was to be reached, beside what was; nothing of none.
pub(super) fn objectives<'run>(heading: &str, all: impl Iterator<Item = Objective<'run>>) -> Markup {
    let row = |one: Objective<'run>| {
        let verdict = match (one.met, one.why) {
            (Some(true), _) => Cell::classed("met", "met"),
            (Some(false), _) => Cell::classed("missed", "alarm"),
            (None, "") => Cell::from("not judged"),
            (None, why) => Cell::from(format!("not judged: {why}")),
        };
        vec![
            spelled(one.name).into(),
            in_unit(one.name, one.limit).into(),
            in_unit(one.name, one.measured).into(),
            verdict,
        ]
    };
    table(&[heading, "asked for", "measured", ""], all.map(row))
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
pub(super) fn breakpoint(run: &Run, group: &str) -> Markup {
    let mut markup = Markup::new();
    let Some(found) = run.breakpoint.as_ref().filter(|found| !found.probes.is_empty()) else { return markup };
    let rate = |rate: u32| number(f64::from(rate));
    let text = match (found.highest_met_per_s.map(rate), found.lowest_missed_per_s.map(rate)) {
        (Some(met), Some(missed)) if found.is_generators() => format!(
            "{met} per second met every target. At {missed} per second the load generator could not keep up: the hub may hold more."
        ),
        (Some(met), Some(missed)) => {
            format!("{met} per second met every target, {missed} per second did not.")
        }
        (Some(met), None) => format!("Every rate up to {met} per second met every target."),
        (None, Some(missed)) => format!("Already {missed} per second missed a target."),
        (None, None) => "No rate could be judged.".to_owned(),
    };
    markup.put("<p>{}</p>", &[&text]);
    let mut probes: Vec<&Probe> = found.probes.iter().collect();
    probes.sort_by_key(|probe| probe.rate_per_s);
    if let Some(plot) = plots::probes(&probes, group) {
        markup.add(&plot.markup());
    }
    let rows = probes.iter().map(|probe| {
        let verdict = match (probe.met, probe.reasons.join("; ")) {
            (true, _) => Cell::classed("met", "met"),
            (false, reasons) if reasons.is_empty() => Cell::classed("missed", "alarm"),
            (false, reasons) => Cell::classed(reasons, "alarm"),
        };
        vec![
            rate(probe.rate_per_s).into(),
            number(probe.throughput_per_s).into(),
            milliseconds(probe.p99_ms).into(),
            count(probe.lost).into(),
            or_absent(probe.idle_share, percent).into(),
            verdict,
        ]
    });
    let head = ["asked for, per second", "completed, per second", "p99", "lost", "cores idle", ""];
    markup.add(&table(&head, rows));
    markup
}

/// How figures moved during a long run.
pub(super) fn drift(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let Some(drift) = run.drift.as_ref().filter(|drift| !drift.rows.is_empty()) else { return markup };
    let over = if drift.seconds > 0.0 {
        format!(" over {}", milliseconds(drift.seconds * 1e3))
    } else {
        String::new()
    };
    markup.put("<p class=\"note\">Lines fitted to the steady window{}.</p>", &[&over]);
    let rows = drift.rows.iter().map(|row| {
        vec![
            spelled(&row.name).into(),
            in_unit(&row.name, row.start).into(),
            in_unit(&row.name, row.end).into(),
            or_absent(row.change, signed_percent).into(),
            in_unit(&row.name, row.per_hour).into(),
            row.verdict.as_str().into(),
        ]
    });
    markup.add(&table(&["figure", "at the start", "at the end", "change", "in an hour", ""], rows));
    if let Some(bytes) = drift.disk_bytes_per_operation {
        markup.put("<p class=\"note\">{} bytes of disk per {}.</p>", &[&number(bytes), &run.unit()]);
    }
    markup.add(&objectives("Did it keep up?", drift.kept_up.iter().map(Objective::from)));
    let of_2020 = drift.programme_2020.iter().map(|check| Objective {
        name: &check.name,
        limit: check.limit,
        measured: check.measured,
        met: check.met,
        why: check.not_judged.as_deref().unwrap_or_default(),
    });
    markup.add(&objectives("Targets of Mojaloop's programme of 2020", of_2020));
    markup
}
