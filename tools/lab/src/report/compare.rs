//! The comparison of runs with the first of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ReportError;
use crate::judge::suite_pairs::{PairFigure, PairResult};
use crate::report::input::Results;
use crate::report::run::Run;
use crate::report::statistics::{
    CONFIDENCE, Interval, geometric_mean, paired_difference, pairs_to_tell, relative_difference,
    repetitions_to_tell,
};
use crate::report::verdict::verdict;
use crate::report::{text, verdict};
use crate::result::statistics::median;

/// An interval narrower than this on both sides of zero counts as "the same": no decision depends on less.
const SAME_WITHIN: f64 = 0.02;
/// The difference that advice on repetitions is about.
const ADVICE_EFFECT: f64 = 0.05;

/// A figure of a comparison. In files it has the name of the result's member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    #[default]
    #[serde(rename = "throughput_per_s")]
    Throughput,
    /// Throughput divided by that of a baseline that took turns with it: a slow machine slows both.
    #[serde(rename = "ratio")]
    Ratio,
    /// Median latency.
    #[serde(rename = "latency_ms.p50")]
    Median,
    /// 99th percentile of latency.
    #[serde(rename = "latency_ms.p99")]
    Tail,
    #[serde(rename = "hub.cpu_us_per_operation")]
    Cpu,
}

impl Metric {
    /// All figures, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Throughput, Self::Ratio, Self::Median, Self::Tail, Self::Cpu];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Ratio => "ratio to the baseline",
            Self::Median => "p50",
            Self::Tail => "p99",
            Self::Cpu => "CPU per operation",
        }
    }

    /// The member of a result with this figure.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_per_s",
            Self::Ratio => "ratio",
            Self::Median => "latency_ms.p50",
            Self::Tail => "latency_ms.p99",
            Self::Cpu => "hub.cpu_us_per_operation",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Ratio)
    }

    /// A value of it with its unit.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{}/s", crate::report::figures::number(value)),
            Self::Ratio => crate::report::figures::number(value),
            Self::Median | Self::Tail => crate::report::figures::milliseconds(value),
            Self::Cpu => crate::report::figures::microseconds(value),
        }
    }
}

/// The judgement on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Real,
    /// The difference is too small to matter, whatever its value.
    Same,
    Noise,
    /// There is only one measurement, so nothing is known about noise.
    Untold,
}

/// The difference of one figure between a run and the base.
#[derive(Clone, Debug)]
pub struct Difference {
    pub metric: Metric,
    /// The base's value: per second, milliseconds or microseconds.
    pub base: f64,
    pub other: f64,
    /// The difference relative to the base: 0.12 is 12 % more.
    pub relative: f64,
    /// The interval of the difference at the comparison's confidence.
    pub interval: Option<Interval>,
    pub judgement: Judgement,
    /// Further repetitions of each side that would show a difference of 5 %, if the judgement is noise.
    pub repetitions_more: Option<usize>,
    /// Whether the interval is computed from parts of single runs instead of repetitions. Then it does not contain the
    /// machine's variation between runs.
    pub within_run: bool,
    /// Number of turns behind the interval, if the two took turns; the values are medians in that case.
    pub pairs: Option<usize>,
    /// The figures of the runs if they differ in the opposite direction to the repetitions. `base` and `other` are then
    /// geometric means of the repetitions, so that no sign contradicts them.
    pub contradicting: Option<[f64; 2]>,
}

impl Difference {
    /// The difference with values whose direction agrees with `relative`.
    fn agreeing_with(self, base: &[f64], other: &[f64]) -> Self {
        let [own_base, own_other] = [self.base, self.other];
        if (own_other - own_base) * self.relative >= 0.0 {
            return self;
        }
        let [Some(base), Some(other)] = [base, other].map(geometric_mean) else { return self };
        Self { base, other, contradicting: Some([own_base, own_other]), ..self }
    }

    /// A warning about figures that differ in the opposite direction.
    fn contradiction(&self) -> Option<String> {
        let [base, other] = self.contradicting?.map(|value| self.metric.format(value));
        Some(format!(
            "{}: {base} and {other}, the figures of the runs as a whole, differ the other way than the means of their repetitions; the comparison shows the means",
            self.metric.name()
        ))
    }

    pub fn is_better(&self) -> bool {
        (self.relative > 0.0) == self.metric.more_is_better()
    }

    /// `+12 % ± 3 %`.
    pub fn text(&self) -> String {
        let relative = crate::report::figures::signed_percent(self.relative);
        match &self.interval {
            Some(interval) => {
                format!("{relative} ± {}", crate::report::figures::percent(interval.half_width()))
            }
            None => relative,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Pair {
    /// The common subject of both runs, if suites are compared.
    pub subject: Option<String>,
    pub base: String,
    pub other: String,
    /// The deciding figure: throughput, or the tail latency if the schedule set the throughput of both.
    pub decided_by: Option<Metric>,
    pub verdict: String,
    /// The differences of figures that both runs have.
    pub differences: Vec<Difference>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Comparison {
    /// Every run except the base, each with the base.
    pub pairs: Vec<Pair>,
    /// Confidence of the intervals. If several runs are compared with one base, it is higher than 0.95 for each, so
    /// that all hold together.
    pub confidence: f64,
    table: String,
}

impl Comparison {
    /// A few sentences about the method of the intervals, and about effects that they do not contain.
    pub fn method(&self) -> String {
        let intervals = || {
            let differences = self.pairs.iter().flat_map(|pair| &pair.differences);
            differences.filter(|difference| difference.interval.is_some())
        };
        let took_turns = intervals().any(|difference| difference.pairs.is_some());
        let apart = intervals().any(|difference| difference.pairs.is_none());
        let mut method = String::new();
        if took_turns {
            method.push_str(
                "Runs that took turns are compared turn by turn (Student's t of the differences of logarithms), each with the mean of \
                 its base before and after; their figures are medians. ",
            );
        }
        let confidence = confidence_text(self.confidence);
        method.push_str(&format!("Intervals: Welch's t on logarithms, {confidence} confidence."));
        if apart {
            method.push_str(if took_turns {
                " What has no turns was measured at different times"
            } else {
                " What is compared here did not take turns but was measured at different times"
            });
            method.push_str(
                ": how the machine differed between these is in the difference, and not in its interval.",
            );
        }
        if intervals().any(|difference| difference.within_run) {
            method.push_str(
                " Figures with a \u{2020} rest on slices or seconds of single runs, which tell the noise within a run and not that \
                 between runs: repeat both (--repetitions) before deciding on them.",
            );
        }
        method
    }
}

/// A confidence with as many digits as distinguish it from certainty.
fn confidence_text(confidence: f64) -> String {
    format!("{} %", format!("{:.2}", confidence * 100.0).trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.table)?;
        for pair in &self.pairs {
            write!(formatter, "\n{}", text::pair(pair))?;
        }
        writeln!(formatter, "\n{}", self.method())
    }
}

pub(crate) fn compare(results: &Results) -> Result<Comparison, ReportError> {
    let runs = &results.runs;
    let table = text::table(runs);
    let (pairs, confidence, nothing) = if results.only_suites && results.suites.len() > 1 {
        (suites(results), CONFIDENCE, ReportError::NothingInCommon)
    } else if results.only_suites {
        (within_suites(results), CONFIDENCE, ReportError::OnlyOne)
    } else {
        let [base, others @ ..] = runs.as_slice() else { return Err(ReportError::Nothing) };
        // Bonferroni: with several intervals for one base, each needs a higher confidence.
        let confidence = 1.0 - (1.0 - CONFIDENCE) / others.len() as f64;
        let pairs = others.iter().map(|other| pair(base, other, None, confidence)).collect();
        (pairs, confidence, ReportError::OnlyOne)
    };
    if pairs.is_empty() { Err(nothing) } else { Ok(Comparison { pairs, confidence, table }) }
}

fn suites(results: &Results) -> Vec<Pair> {
    let key = |run: &Run| (run.name().to_owned(), run.parameters_text());
    let [first, others @ ..] = results.suites.as_slice() else { return Vec::new() };
    let base: BTreeMap<_, _> =
        first.runs.iter().map(|&place| &results.runs[place]).map(|run| (key(run), run)).collect();
    let beside_base = |&place: &usize| {
        let run = &results.runs[place];
        let base = base.get(&key(run))?;
        let subject = match key(run) {
            (name, parameters) if parameters.is_empty() => name,
            (name, parameters) => format!("{name}, {parameters}"),
        };
        Some(pair(base, run, Some(subject), CONFIDENCE))
    };
    others.iter().flat_map(|suite| &suite.runs).filter_map(beside_base).collect()
}

/// Pairs within suites: runs that took turns, and other runs with something switched off, each with the run of the same
/// name that the suite lists first.
pub(crate) fn within_suites(results: &Results) -> Vec<Pair> {
    let runs = &results.runs;
    let turns = || results.suites.iter().flat_map(|suite| &suite.file.pairs);
    let took_turns: BTreeSet<usize> = turns().map(|beside| beside.other).collect();
    let others = ablations(runs, &took_turns);
    turns().filter_map(|beside| beside_base(beside, runs)).chain(others).collect()
}

/// Within a subject, the varied parameters are a sufficient name.
fn named(run: &Run) -> Run {
    Run { label: run.parameters_text(), ..run.clone() }
}

fn beside_base(beside: &PairResult, runs: &[Run]) -> Option<Pair> {
    let (base, other) = (named(runs.get(beside.base)?), named(runs.get(beside.other)?));
    let difference = |PairFigure { figure: metric, base, other, .. }: &PairFigure| {
        let interval = paired_difference(base, other, CONFIDENCE)?;
        let judgement = judge(&interval);
        let needed = pairs_to_tell(base, other, ADVICE_EFFECT, CONFIDENCE);
        let more = needed.map(|needed| needed.saturating_sub(base.len())).filter(|more| *more > 0);
        let difference = Difference {
            metric: *metric,
            base: median(base.iter().copied())?,
            other: median(other.iter().copied())?,
            relative: interval.centre,
            interval: Some(interval),
            judgement,
            repetitions_more: more.filter(|_| judgement == Judgement::Noise),
            within_run: false,
            pairs: Some(base.len()),
            contradicting: None,
        };
        Some(difference.agreeing_with(base, other))
    };
    let differences: Vec<_> = beside.figures.iter().filter_map(difference).collect();
    let subject = Some(other.title().to_owned());
    (!differences.is_empty()).then(|| judged(&base, &other, subject, differences))
}

fn ablations(runs: &[Run], except: &BTreeSet<usize>) -> Vec<Pair> {
    let mut bases: BTreeMap<&str, &Run> = BTreeMap::new();
    let mut pairs = Vec::new();
    let ablated = runs.iter().enumerate().filter(|(_, run)| run.parameters.contains_key("ablation"));
    for (place, run) in ablated {
        match bases.get(run.name()) {
            Some(_) if except.contains(&place) => {}
            Some(base) => {
                pairs.push(pair(&named(base), &named(run), Some(run.title().to_owned()), CONFIDENCE));
            }
            None => {
                bases.insert(run.name(), run);
            }
        }
    }
    pairs
}

fn pair(base: &Run, other: &Run, subject: Option<String>, confidence: f64) -> Pair {
    let differences =
        Metric::ALL.into_iter().filter_map(|metric| difference(metric, base, other, confidence)).collect();
    judged(base, other, subject, differences)
}

/// Two runs with the judgements of their differences.
fn judged(base: &Run, other: &Run, subject: Option<String>, differences: Vec<Difference>) -> Pair {
    Pair {
        subject,
        base: base.label.clone(),
        other: other.label.clone(),
        decided_by: (base.unit() == other.unit()).then(|| deciding(base, other)),
        verdict: verdict(base, other, &differences),
        warnings: verdict::of_pair(base, other)
            .into_iter()
            .chain(differences.iter().filter_map(Difference::contradiction))
            .collect(),
        differences,
    }
}

/// The deciding figure of two runs. If the schedule set the throughput of both, throughput is not a finding.
pub(crate) fn deciding(base: &Run, other: &Run) -> Metric {
    if base.is_open_loop() && other.is_open_loop() { Metric::Tail } else { Metric::Throughput }
}

fn difference(metric: Metric, base: &Run, other: &Run, confidence: f64) -> Option<Difference> {
    let is_of_another = metric == Metric::Ratio && base.baseline_name() != other.baseline_name();
    if is_of_another || base.unit() != other.unit() {
        return None;
    }
    let (base_value, other_value) = (base.figure(metric)?, other.figure(metric)?);
    if base_value <= 0.0 {
        return None;
    }
    let samples = base.samples(metric).zip(other.samples(metric));
    let interval = samples
        .as_ref()
        .and_then(|(base, other)| relative_difference(&base.values, &other.values, confidence));
    let relative = interval.map_or(other_value / base_value - 1.0, |interval| interval.centre);
    let judgement = interval.map_or(Judgement::Untold, |interval| judge(&interval));
    let advice = samples.as_ref().filter(|_| judgement == Judgement::Noise).and_then(|(base, other)| {
        let needed = repetitions_to_tell(&base.values, &other.values, ADVICE_EFFECT, confidence)?;
        Some(needed.saturating_sub(base.values.len().min(other.values.len()))).filter(|more| *more > 0)
    });
    let within_run = interval.is_some()
        && samples.as_ref().is_some_and(|(base, other)| base.are_within_run || other.are_within_run);
    let difference = Difference {
        metric,
        base: base_value,
        other: other_value,
        relative,
        interval,
        judgement,
        repetitions_more: advice,
        within_run,
        pairs: None,
        contradicting: None,
    };
    Some(match samples {
        Some((base, other)) => difference.agreeing_with(&base.values, &other.values),
        None => difference,
    })
}

fn judge(interval: &Interval) -> Judgement {
    if interval.low.abs().max(interval.high.abs()) <= SAME_WITHIN {
        Judgement::Same
    } else if interval.contains(0.0) {
        Judgement::Noise
    } else {
        Judgement::Real
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
