//! The verdict on two runs, in words that a reader can act on.

use serde_json::{Map, Value};

use crate::figures::{count, number, percent, plain};
use crate::plan::metric::Metric;
use crate::report::difference::{Difference, Judgement, deciding};
use crate::report::run::Run;

/// The note about an interval within single runs, for a reader who must decide.
const REPEAT: &str = "This rests on single runs. The interval does not contain the machine's changes over \
                      time: repeat both runs in turn (--repetitions) before you decide.";

/// The verdict on throughput, or on the tail latency if the schedule set the throughput; then other certain
/// differences.
pub(crate) fn verdict(base: &Run, other: &Run, differences: &[Difference]) -> String {
    let (first, second) = (quoted(&base.label), quoted(&other.label));
    if base.unit() != other.unit() {
        let (units, other_units) = (base.units(), other.units());
        return format!(
            "{first} counts {units} and {second} counts {other_units}: the two cannot be compared."
        );
    }
    let main = deciding(base, other);
    let Some(difference) = differences.iter().find(|difference| difference.metric == main) else {
        return format!("{first} and {second} have no {} in common to compare.", main.name());
    };
    let mut verdict = distrust(base, other);
    verdict.push_str(&sentence(&first, &second, difference));
    verdict.push_str(&by_ratio(difference, differences));
    let also = differences.iter().filter(|other| {
        other.metric != main
            && other.judgement == Judgement::Real
            && !(main == Metric::Tail && matches!(other.metric, Metric::Throughput | Metric::Ratio))
    });
    let also: Vec<_> = also
        .map(|also| {
            let less_sure = also.within_run && !difference.within_run;
            format!("{}{}", clause(also, other.unit()), if less_sure { " within these runs" } else { "" })
        })
        .collect();
    if !also.is_empty() {
        verdict.push_str(&format!(" Also: {}.", also.join("; ")));
    }
    verdict
}

/// A note about the ratio to a baseline, if throughput differs and the ratio does not: the machine may be the cause.
fn by_ratio(main: &Difference, differences: &[Difference]) -> String {
    let ratio = differences.iter().find(|difference| difference.metric == Metric::Ratio);
    let is_told_by_throughput = main.metric == Metric::Throughput && main.judgement == Judgement::Real;
    match ratio.filter(|_| is_told_by_throughput) {
        Some(ratio) if matches!(ratio.judgement, Judgement::Same | Judgement::Noise) => format!(
            " The ratio to the baseline, which ran in turn with each, shows no difference ({}): the machine \
             may be the cause.",
            ratio.text()
        ),
        _ => String::new(),
    }
}

/// A label as a name within a sentence.
fn quoted(label: &str) -> String {
    format!("\u{201c}{label}\u{201d}")
}

/// Figures of a run that failed do not become better by a comparison.
fn distrust(base: &Run, other: &Run) -> String {
    let mut doubts = Vec::new();
    for run in [base, other] {
        if run.judged().is_some_and(|validity| !validity.valid) {
            doubts.push(format!("{} is not valid", quoted(&run.label)));
        }
        if run.audited().is_some_and(|audit| !audit.ok) {
            doubts.push(format!("{} failed its audit", quoted(&run.label)));
        }
    }
    if doubts.is_empty() { String::new() } else { format!("Do not rely on this: {}. ", doubts.join(" and ")) }
}

fn magnitude(difference: &Difference) -> String {
    let relative = percent(difference.relative);
    match &difference.interval {
        Some(interval) => format!("{relative} ± {}", percent(interval.half_width())),
        None => relative,
    }
}

fn direction(difference: &Difference) -> &'static str {
    let [more, less] = match difference.metric {
        Metric::Throughput => ["faster", "slower"],
        Metric::Ratio | Metric::Median | Metric::Tail => ["higher", "lower"],
        Metric::Cpu => ["more", "less"],
    };
    if difference.relative > 0.0 { more } else { less }
}

fn sentence(base: &str, other: &str, difference: &Difference) -> String {
    let name = difference.metric.name();
    let subject = match difference.metric {
        Metric::Throughput => format!("{other} is"),
        _ => format!("{other}: {name} is"),
    };
    let (size, direction, text) = (magnitude(difference), direction(difference), difference.text());
    match difference.judgement {
        // The difference from a second run may be larger than the variation within a single run.
        Judgement::Real if difference.within_run => {
            format!("{subject} {size} {direction} than {base} within these runs. {REPEAT}")
        }
        Judgement::Real => format!("{subject} {size} {direction} than {base}; the difference is real."),
        Judgement::Same if difference.within_run => {
            format!("{other} and {base} are the same in {name} within these runs: {text}. {REPEAT}")
        }
        Judgement::Same => {
            format!("{other} and {base} are the same in {name} for all practical purposes: {text}.")
        }
        Judgement::Noise if difference.within_run => format!(
            "{other} against {base}: any difference in {name} is within the noise of these runs: {text}. \
             {REPEAT}"
        ),
        Judgement::Noise => {
            let advice = difference.repetitions_more.map(|more| {
                let repetitions = if more == 1 { "repetition" } else { "repetitions" };
                format!("{more} more {repetitions} of each would show a difference of 5 %")
            });
            let most =
                difference.interval.map_or(0.0, |interval| interval.low.abs().max(interval.high.abs()));
            let rest = advice.unwrap_or_else(|| format!("it is below {}", percent(most)));
            format!("{other} against {base}: any difference in {name} is within the noise: {text}; {rest}.")
        }
        Judgement::Untold => format!(
            "{subject} {size} {direction} than {base} in one measurement each; without repetitions, this may be \
             noise."
        ),
    }
}

fn clause(difference: &Difference, unit: &str) -> String {
    let (size, direction) = (magnitude(difference), direction(difference));
    match difference.metric {
        Metric::Throughput => format!("{size} {direction}"),
        Metric::Ratio | Metric::Median | Metric::Tail => {
            format!("{} {size} {direction}", difference.metric.name())
        }
        Metric::Cpu => format!("{size} {direction} CPU per {unit}"),
    }
}

// Doubts that a reader must know before trusting a figure or a comparison.

/// Members of the environment with the time, the program and the hub of the run. They may differ, because they are
/// compared.
const MAY_DIFFER: [&str; 6] = ["started_at", "version", "commit", "build", "durability", "hub"];
/// Options that shape the figures.
const SHAPING: [&str; 5] = ["load", "dfsps", "parties", "unidirectional", "trace"];

pub(crate) fn of_run(run: &Run) -> Vec<String> {
    let thresholds = thresholds(run);
    let thresholds =
        thresholds.map(|findings| format!("{}: the hub did not meet the thresholds: {findings}", run.label));
    validity(run).into_iter().chain(thresholds).chain(integrity(run)).collect()
}

/// The thresholds that the hub missed.
pub(crate) fn thresholds(run: &Run) -> Option<String> {
    let missed = run.thresholds.as_ref().filter(|thresholds| !thresholds.met)?;
    Some(said(&missed.findings))
}

/// The objectives that a run missed: its audit, its thresholds, its targets.
pub(crate) fn missed(run: &Run) -> Option<String> {
    let is_unsound = run.audited().is_some_and(|audit| !audit.ok);
    let audit = is_unsound.then(|| "the integrity audit failed".to_owned());
    let targets = run.targets.iter().filter(|target| !target.met).map(|target| {
        format!("{} {} instead of {}", target.name, number(target.measured), number(target.limit))
    });
    let all: Vec<String> = audit.into_iter().chain(thresholds(run)).chain(targets).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn validity(run: &Run) -> Option<String> {
    let invalid = run.judged().filter(|validity| !validity.valid)?;
    Some(format!("{}: the run is not valid: {}", run.label, said(&invalid.findings)))
}

fn integrity(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    match run.audited() {
        Some(audit) if !audit.ok => {
            let findings = said(&audit.findings);
            warnings.push(format!("{}: the integrity audit failed: {findings}", run.label));
        }
        None if !run.is_isolated() && run.value("audit").is_none() => {
            warnings.push(format!("{}: no integrity audit was made", run.label));
        }
        _ => {}
    }
    if let Some(lost) = Some(run.lost).filter(|lost| *lost > 0) {
        warnings.push(format!("{}: {} accepted requests have no outcome", run.label, count(lost)));
    }
    warnings
}

fn said(findings: &[String]) -> String {
    if findings.is_empty() { "no reason given".to_owned() } else { findings.join("; ") }
}

/// Reasons against the comparison of two runs.
pub(crate) fn of_pair(base: &Run, other: &Run) -> Vec<String> {
    let mut warnings = of_run(base);
    warnings.extend(of_run(other));
    if base.name() != other.name() {
        warnings.push(format!("the scenarios differ: {} is not {}", base.name(), other.name()));
    }
    let durability = |run: &Run| {
        let settings = run.environment.get("durability").filter(|settings| !settings.is_null()).map(plain);
        let durable = run.durable.map(|durable| if durable { "durable" } else { "not durable" }.to_owned());
        settings.or(durable)
    };
    if let (Some(first), Some(second)) = (durability(base), durability(other))
        && first != second
    {
        warnings
            .push(format!("durability differs: {} has {first}, {} has {second}", base.label, other.label));
    }
    let is_of_machine = |name: &str| !MAY_DIFFER.contains(&name);
    for (name, value, there) in differing(&base.environment, &other.environment, is_of_machine) {
        warnings.push(format!(
            "the machines differ in {name}: {} has {value}, {} has {there}",
            base.label, other.label
        ));
    }
    // Parameters are varied on purpose.
    let is_varied = |name: &str| [base, other].iter().any(|run| run.parameters.contains_key(name));
    let shapes = |name: &str| SHAPING.contains(&name) && !is_varied(name);
    for (name, value, there) in differing(&base.options, &other.options, shapes) {
        warnings.push(format!("the load differs in {name}: {value} and {there}"));
    }
    warnings
}

/// Members that both have with different values, with both values.
fn differing(
    base: &Map<String, Value>,
    other: &Map<String, Value>,
    counts: impl Fn(&str) -> bool,
) -> Vec<(String, String, String)> {
    let both = base
        .iter()
        .filter(|(name, _)| counts(name))
        .filter_map(|(name, value)| Some((name.clone(), plain(value), plain(other.get(name)?))));
    both.filter(|(_, value, there)| value != there).collect()
}
