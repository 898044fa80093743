//! The comparison of runs with the first of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::metric::Metric;
use crate::report::difference::{Difference, Judgement, deciding};
use crate::report::input::Results;
use crate::report::run::Run;
use crate::report::verdict::{self, verdict};
use crate::result::suite::{PairFigure, PairResult};
use crate::statistics::intervals::{
    CONFIDENCE, Interval, paired_difference, pairs_to_tell, relative_difference, repetitions_to_tell,
};
use crate::statistics::median;

/// An interval narrower than this on both sides of zero counts as "the same": no decision depends on less.
const SAME_WITHIN: f64 = 0.02;
/// The difference that the advice on repetitions is about.
const ADVICE_EFFECT: f64 = 0.05;

/// Two runs, and the differences of their figures.
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

pub(super) fn suites(results: &Results) -> Vec<Pair> {
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

/// Pairs within suites: runs that took turns, and other ablations. The base of an ablation is the run of the same name
/// that the suite lists first.
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

pub(super) fn pair(base: &Run, other: &Run, subject: Option<String>, confidence: f64) -> Pair {
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
