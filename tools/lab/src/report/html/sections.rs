//! The comparison on the page: the verdict in words, intervals as bars, the figures.

use std::collections::BTreeMap;

use super::plots::{self, Plot};
use super::table::{Bar, Cell, Markup, columns, findings, table};
use super::tied;
use crate::figures::{ABSENT, count, microseconds, milliseconds, number, or_absent, percent, signed_percent};
use crate::plan::parameters;
use crate::report::compare::Pair;
use crate::report::comparison::Comparison;
use crate::report::difference::{Difference, Judgement, judged};
use crate::report::run::Run;
use crate::result::schema::Probe;

pub(crate) fn section(comparison: &Comparison, heading: &str) -> Markup {
    let mut pairs: Markup = comparison.pairs.iter().map(one).collect();
    if comparison.pairs.iter().any(|pair| pair.subject.is_some()) {
        pairs = Markup::of(
            "{}<details><summary><b>All figures of all pairs</b></summary>{}</details>",
            &[&overview(comparison), &pairs],
        );
    }
    Markup::of(
        "<section class=\"verdict\"><h2>{}</h2>{}<p class=\"note\">{} A bar shows the interval of the true \
         difference; a bar that touches the middle may be noise.</p></section>",
        &[&heading, &pairs, &comparison.method()],
    )
}

/// Many pairs in one table, because a reader of forty pairs first needs an overview.
fn overview(comparison: &Comparison) -> Markup {
    let main = |pair: &Pair| {
        pair.differences.iter().find(|difference| Some(difference.metric) == pair.decided_by).cloned()
    };
    let pairs: Vec<(&Pair, Difference)> =
        comparison.pairs.iter().filter_map(|pair| Some((pair, main(pair)?))).collect();
    let reach = reach(pairs.iter().map(|(_, difference)| difference));
    let rows = pairs.iter().map(|(pair, difference)| {
        let subject = pair.subject.as_deref().unwrap_or_default();
        // Runs of one subject are distinguished by their own names.
        let is_alone = comparison.pairs.iter().filter(|other| other.subject == pair.subject).count() == 1;
        let name = if is_alone { subject } else { pair.other.as_str() };
        let small = match (is_alone, pair.warnings.is_empty()) {
            (_, false) => "see the warnings below".to_owned(),
            (true, true) => format!("{} against {}", pair.other, pair.base),
            (false, true) => format!("against {}", pair.base),
        };
        row(name, &small, difference, reach)
    });
    table(&head("base", "other", reach).each_ref().map(String::as_str), rows)
}

fn one(pair: &Pair) -> Markup {
    let subject = pair.subject.as_ref().map(|subject| Markup::of("<h3>{}</h3>", &[subject]));
    let reach = reach(pair.differences.iter());
    let rows = pair.differences.iter().map(|difference| {
        let small = if difference.metric.more_is_better() { "more is better" } else { "less is better" };
        row(difference.metric.name(), small, difference, reach)
    });
    Markup::of(
        "<article>{}<p class=\"lead\">{}</p>{}{}</article>",
        &[
            &subject.unwrap_or_default(),
            &tied(&pair.verdict),
            &findings(&pair.warnings),
            &table(&head(&pair.base, &pair.other, reach).each_ref().map(String::as_str), rows),
        ],
    )
}

fn head(base: &str, other: &str, reach: f64) -> [String; 6] {
    let reach = crate::figures::grouped(reach * 100.0, 0);
    ["", base, other, "difference", &format!("−{reach} % …+{reach} %"), ""].map(str::to_owned)
}

/// A difference as figures and as a bar around the middle.
fn row(name: &str, small: &str, difference: &Difference, reach: f64) -> Vec<Cell> {
    let mark = if difference.within_run { " †" } else { "" };
    let place = |value: f64| (value / reach + 1.0) / 2.0;
    let tone = match difference.judgement {
        // A difference between single runs must be confirmed by repetitions first.
        Judgement::Real if difference.within_run => "unsure",
        Judgement::Real if difference.is_better() => "better",
        Judgement::Real => "worse",
        _ => "unsure",
    };
    let interval = difference.interval.map(|interval| (place(interval.low), place(interval.high)));
    vec![
        Cell::from(name).with(small),
        difference.metric.format(difference.base).into(),
        difference.metric.format(difference.other).into(),
        Cell::classed(format!("{}{mark}", difference.text()), tone),
        Cell::bar(Bar { ends: interval, mark: Some(place(difference.relative)), class: tone }),
        judged(difference).into(),
    ]
}

/// A round limit for the axis that includes all differences, unless one is far away from the rest.
fn reach<'a>(differences: impl Iterator<Item = &'a Difference>) -> f64 {
    let ends = differences.flat_map(|difference| {
        let interval = difference.interval.map(|interval| [interval.low, interval.high]);
        interval.into_iter().flatten().chain([difference.relative])
    });
    let largest = ends.map(f64::abs).filter(|end| end.is_finite()).fold(0.02, f64::max);
    [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0].into_iter().find(|reach| *reach >= largest).unwrap_or(10.0)
}

/// A row for each stage, with its parts by the processor's work; empty without a profile.
pub(crate) fn shares(run: &Run) -> Markup {
    let Some(shares) = run.shares.as_ref().filter(|shares| shares.samples > 0) else {
        return Markup::default();
    };
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for inside in shares.stages.iter().flat_map(|stage| &stage.inside) {
        *sums.entry(&inside.what).or_default() += inside.share;
    }
    let mut kinds: Vec<(&str, f64)> = sums.into_iter().collect();
    kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
    let rows = shares.stages.iter().map(|stage| {
        let inside = kinds.iter().map(|(kind, _)| {
            let found = stage.inside.iter().find(|inside| inside.what == *kind);
            found.map_or_else(|| ABSENT.to_owned(), |inside| percent(inside.share)).into()
        });
        let figures = [percent(stage.share), percent(stage.error), count(stage.samples)].map(Cell::from);
        [stage.stage.as_str().into(), Cell::share(stage.share, None)]
            .into_iter()
            .chain(figures)
            .chain(inside)
            .collect()
    });
    let all = [percent(1.0), String::new(), count(shares.samples)].into_iter();
    let all = all.chain(kinds.iter().map(|(_, sum)| percent(*sum))).map(Cell::from);
    let all: Vec<Cell> = ["all".into(), Cell::share(1.0, None)].into_iter().chain(all).collect();
    let head: Vec<&str> = ["stage", " … ", "share", "±", "samples"]
        .into_iter()
        .chain(kinds.iter().map(|(kind, _)| *kind))
        .collect();
    Markup::of(
        "{}<p class=\"note\">The hub's CPU time by stage, from {} samples of its stacks. A sample counts \
         for the innermost stage of its stack. ± is half of the share's 95 % interval, if samples are independent.</p>",
        &[&table(&head, rows.chain([all])), &count(shares.samples)],
    )
}

/// The flame graph of the same samples, folded; empty if the run has no graph that fits the page. As an image it can
/// neither run nor fetch anything.
pub(crate) fn flame_graph(run: &Run) -> Markup {
    Markup::text(run.flame_graph.as_deref().unwrap_or_default()).within(
        "<details><summary>The flame graph of the same samples</summary><img alt=\"Flame graph\" style=\"max-width:100%\" \
         src=\"data:image/svg+xml;base64,{}\"></details>",
    )
}

// The objectives of a run with its results: targets, the rates of a search, and the drift over time.

/// A row of an objective with its result, or the reason why it was not judged.
pub(super) fn objective(
    name: &str,
    limit: f64,
    measured: f64,
    met: Option<bool>,
    why: Option<&str>,
) -> Vec<Cell> {
    let verdict = match (met, why) {
        (Some(true), _) => Cell::classed("met", "met"),
        (Some(false), _) => Cell::classed("missed", "alarm"),
        (None, None) => Cell::from("not judged"),
        (None, Some(why)) => Cell::from(format!("not judged: {why}")),
    };
    vec![spelled(name).into(), in_unit(name, limit).into(), in_unit(name, measured).into(), verdict]
}

/// The rows under a heading; empty without rows.
pub(super) fn objectives(heading: &str, rows: impl Iterator<Item = Vec<Cell>>) -> Markup {
    table(&[heading, "asked for", "measured", ""], rows)
}

/// A figure in the unit at the end of its name.
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
        "completed_share_of_due" => "completed part of the due operations".to_owned(),
        name => parameters::spelled(name).0,
    }
}

/// Every rate that was tried, as a plot of its tail latency and as rows.
pub(super) fn breakpoint(run: &Run, group: &str) -> Markup {
    let Some(found) = run.breakpoint.as_ref().filter(|found| !found.probes.is_empty()) else {
        return Markup::default();
    };
    let rate = |rate: u32| number(f64::from(rate));
    let text = match (found.highest_met_per_s.map(rate), found.lowest_missed_per_s.map(rate)) {
        (Some(met), Some(missed)) if found.is_generators() => format!(
            "{met} per second met every target. At {missed} per second the load generator could not keep \
             up: the hub may handle more."
        ),
        (Some(met), Some(missed)) => {
            format!("{met} per second met every target, {missed} per second did not.")
        }
        (Some(met), None) => format!("Every rate up to {met} per second met every target."),
        (None, Some(missed)) => format!("Even {missed} per second missed a target."),
        (None, None) => "No rate could be judged.".to_owned(),
    };
    let mut probes: Vec<&Probe> = found.probes.iter().collect();
    probes.sort_by_key(|probe| probe.rate_per_s);
    let plot = plots::probes(&probes, group).as_ref().map(Plot::markup).unwrap_or_default();
    let verdict = |probe: &Probe| match (probe.met, probe.reasons.join("; ")) {
        (true, _) => Cell::classed("met", "met"),
        (false, reasons) if reasons.is_empty() => Cell::classed("missed", "alarm"),
        (false, reasons) => Cell::classed(reasons, "alarm"),
    };
    let rows = columns(
        probes,
        &[
            ("requested, per second", &|probe| rate(probe.rate_per_s).into()),
            ("completed, per second", &|probe| number(probe.throughput_per_s).into()),
            ("p99", &|probe| milliseconds(probe.p99_ms).into()),
            ("lost", &|probe| count(probe.lost).into()),
            ("cores idle", &|probe| or_absent(probe.idle_share, percent).into()),
            ("", &verdict),
        ],
    );
    Markup::of("<p>{}</p>{}{}", &[&text, &plot, &rows])
}

/// The drift of figures during a long run.
pub(super) fn drift(run: &Run) -> Markup {
    let Some(drift) = run.drift.as_ref().filter(|drift| !drift.rows.is_empty()) else {
        return Markup::default();
    };
    let over = if drift.seconds > 0.0 {
        format!(" over {}", milliseconds(drift.seconds * 1e3))
    } else {
        String::new()
    };
    let rows = columns(
        &drift.rows,
        &[
            ("figure", &|row| spelled(&row.name).into()),
            ("at the start", &|row| in_unit(&row.name, row.start).into()),
            ("at the end", &|row| in_unit(&row.name, row.end).into()),
            ("change", &|row| or_absent(row.change, signed_percent).into()),
            ("in an hour", &|row| in_unit(&row.name, row.per_hour).into()),
            ("", &|row| row.verdict.as_str().into()),
        ],
    );
    let disk = drift.disk_bytes_per_operation.map(|bytes| {
        Markup::of("<p class=\"note\">{} bytes of disk per {}.</p>", &[&number(bytes), &run.unit()])
    });
    let kept_up = drift.kept_up.iter();
    let kept_up = kept_up.map(|one| objective(&one.name, one.limit, one.value, Some(one.met), None));
    let of_2020 = drift.programme_2020.iter();
    let of_2020 =
        of_2020.map(|one| objective(&one.name, one.limit, one.measured, one.met, one.not_judged.as_deref()));
    Markup::of(
        "<p class=\"note\">Lines fitted to the steady window{}.</p>{}{}{}{}",
        &[
            &over,
            &rows,
            &disk.unwrap_or_default(),
            &objectives("Did it keep up?", kept_up),
            &objectives("Targets of Mojaloop's programme of 2020", of_2020),
        ],
    )
}
