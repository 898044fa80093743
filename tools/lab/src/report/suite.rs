//! A suite's statements about its runs: the compared runs, the claims, and the runs that answer each question.

use crate::figures::{ABSENT, capitalised, count, milliseconds, minute, number, percent};
use crate::plan::metric::Metric;
use crate::report::compare::Pair;
use crate::report::conditions::{self, Conditions};
use crate::report::difference::{Judgement, judgement};
use crate::report::grid::Grid;
use crate::report::input::{Results, Suite};
use crate::report::run::Run;
use crate::report::verdict::missed;
use crate::result::suite::{ClaimResult, ClaimVerdict, SuiteResult};

/// The duration of a suite, in a sentence, if it is recorded. `place` names the machine, and may be empty.
fn took(suite: &SuiteResult, place: &str) -> Option<String> {
    let time = |seconds: f64| milliseconds(seconds * 1e3);
    let mut text = format!("took {}", time(Some(suite.took_s).filter(|seconds| *seconds > 0.0)?));
    if !place.is_empty() {
        text.push_str(&format!(" on {place}"));
    }
    if !suite.began_at.is_empty() {
        text.push_str(&format!(", from {}", minute(&suite.began_at)));
    }
    if let Some(within_s) = suite.within_s {
        let relation = if suite.took_s <= within_s { "within" } else { "which is longer than" };
        text.push_str(&format!(", {relation} the {} that it may take", time(within_s)));
    }
    Some(text + ".")
}

/// The heading of runs that no question names.
const OTHERS: &str = "Other runs";

/// Headings, each with its runs. If the suite has no questions: all runs without a heading.
pub(crate) fn sections(results: &Results) -> Vec<(Option<&str>, Vec<usize>)> {
    let questions = || results.suites.iter().flat_map(|suite| &suite.file.questions);
    let asked: Vec<_> =
        questions().map(|question| (Some(question.text.as_str()), question.runs.clone())).collect();
    if asked.is_empty() {
        return vec![(None, (0..results.runs.len()).collect())];
    }
    let rest = (0..results.runs.len()).filter(|run| !asked.iter().any(|(_, runs)| runs.contains(run)));
    let rest: Vec<usize> = rest.collect();
    let others = (!rest.is_empty()).then_some((Some(OTHERS), rest));
    asked.into_iter().filter(|(_, runs)| !runs.is_empty()).chain(others).collect()
}

pub(crate) fn runs_of(results: &Results, places: &[usize]) -> Vec<Run> {
    places.iter().filter_map(|&place| results.runs.get(place)).cloned().collect()
}

/// Durations and machines of suites, a sentence each, as far as they are recorded.
pub(crate) fn lengths(results: &Results) -> Vec<String> {
    let sentence = |suite: &Suite| {
        let runs = suite.runs.iter().filter_map(|&place| results.runs.get(place));
        let all: Vec<Conditions> = runs.map(conditions::of).collect();
        let mut place = conditions::shared(all.iter());
        place.retain(|(name, _)| ["cores", "processor"].contains(name));
        let place: Vec<String> = place.into_iter().map(|(_, text)| text).collect();
        let sentence = took(&suite.file, &place.join(", "))?;
        let is_alone = results.suites.len() == 1;
        Some(if is_alone { capitalised(&sentence) } else { format!("{}: {sentence}", suite.file.title) })
    };
    results.suites.iter().filter_map(sentence).collect()
}

/// The claims of all suites.
pub(crate) fn claims(results: &Results) -> impl Iterator<Item = &ClaimResult> {
    results.suites.iter().flat_map(|suite| &suite.file.claims)
}

/// The verdict on a suite, in sentences: its claims, then the missed objectives of its runs, then missing parts.
pub(crate) fn verdict(suite: &Suite, runs: &[Run]) -> Vec<String> {
    let claims = &suite.file.claims;
    let holding = claims.iter().filter(|claim| claim.verdict == ClaimVerdict::Holds).count();
    let mut sentences: Vec<String> = match claims.len() {
        0 => Vec::new(),
        all if all == holding => vec![format!("All {all} claims hold.")],
        all => vec![format!("{holding} of {all} claims hold.")],
    };
    for claim in claims {
        match claim.verdict {
            ClaimVerdict::Holds => {}
            ClaimVerdict::Broken => sentences.push(format!("Does not hold: {}.", claim.text)),
            ClaimVerdict::Untold => sentences.push(format!("Undecided: {}.", claim.text)),
        }
    }
    let of_suite: Vec<&Run> = suite.runs.iter().filter_map(|&place| runs.get(place)).collect();
    let labels = |wanted: &dyn Fn(&Run) -> bool| {
        of_suite.iter().filter(|run| wanted(run)).map(|run| run.label.clone()).collect::<Vec<_>>()
    };
    let is_unsound = |run: &Run| run.audited().is_some_and(|audit| !audit.ok);
    let faults = [
        ("Not valid", labels(&|run| run.judged().is_some_and(|validity| !validity.valid))),
        ("Failed their audit", labels(&is_unsound)),
        // An isolated stage has no money to audit.
        ("Not audited", labels(&|run| run.audited().is_none() && !run.is_isolated())),
        ("Missed a threshold or a target", labels(&|run| !is_unsound(run) && missed(run).is_some())),
    ];
    let found = faults.iter().filter(|(_, runs)| !runs.is_empty());
    sentences.extend(found.map(|(what, runs)| format!("{what}: {}.", runs.join(", "))));
    if faults.iter().all(|(_, runs)| runs.is_empty()) {
        sentences.push(match of_suite.len() {
            1 => "The run is valid, and nothing was missed.".to_owned(),
            all => format!("All {all} runs are valid, and nothing was missed."),
        });
    }
    if !suite.absences.is_empty() {
        let count = suite.absences.len();
        let (things, are) = if count == 1 { ("part", "is") } else { ("parts", "are") };
        sentences.push(format!("{count} {things} of the suite {are} missing: see below."));
    }
    sentences
}

/// Runs that took turns with a base, as rows; `None` if there are none.
pub(crate) fn costs(pairs: &[Pair]) -> Option<Grid> {
    let head = [
        "took turns",
        "with",
        "per second",
        "with",
        "differs by",
        "p50 by",
        "p99 by",
        "CPU each by",
        "turns",
        "throughput",
    ];
    let row = |pair: &Pair| {
        let of = |metric| pair.differences.iter().find(|difference| difference.metric == metric);
        let by = |metric| of(metric).map_or_else(|| ABSENT.to_owned(), |difference| difference.text());
        let throughput = of(Metric::Throughput)?;
        Some(vec![
            pair.other.clone(),
            pair.base.clone(),
            number(throughput.other),
            number(throughput.base),
            throughput.text(),
            by(Metric::Median),
            by(Metric::Tail),
            by(Metric::Cpu),
            throughput.pairs?.to_string(),
            word(throughput.judgement, throughput.is_better()).to_owned(),
        ])
    };
    Grid::new(&head, pairs.iter().filter_map(row)).if_any()
}

/// The hub's CPU time by stage, for every run with a profile; `None` if there is none.
pub(crate) fn stage_shares(runs: &[Run]) -> Option<Grid> {
    let stages = runs
        .iter()
        .flat_map(|run| run.shares.iter().flat_map(|shares| &shares.stages).map(move |stage| (run, stage)));
    let rows = stages.map(|(run, stage)| {
        let [share, error] = [stage.share, stage.error].map(percent);
        vec![run.label.clone(), stage.stage.clone(), share, error, count(stage.samples)]
    });
    Grid::new(&["run", "stage", "of the hub's CPU time", "±", "samples"], rows).if_any()
}

const fn word(of: Judgement, is_better: bool) -> &'static str {
    match of {
        Judgement::Real if is_better => "more",
        Judgement::Real => "less",
        other => judgement(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn verdict_names_missed_objectives() {
        let run =
            |label: &str, json: serde_json::Value| Run { label: label.to_owned(), ..Run::of(json).unwrap() };
        let sound = json!({"audit": {"ok": true}, "validity": {"valid": true, "findings": []}});
        let with = |name: &str, value: serde_json::Value| {
            let mut raw = sound.clone();
            raw[name] = value;
            raw
        };
        let target = |met: bool| json!([{"name": "p99_ms", "limit": 10.0, "measured": 20.0, "met": met}]);
        let told = |runs: &[Run]| {
            verdict(&Suite { runs: (0..runs.len()).collect(), ..Suite::default() }, runs).join(" ")
        };
        let isolated = json!({"kind": "isolated", "validity": {"valid": true, "findings": []}});
        let good = [run("a", with("targets", target(true))), run("b", isolated)];
        assert_eq!(told(&good), "All 2 runs are valid, and nothing was missed.");
        assert_eq!(told(&good[..1]), "The run is valid, and nothing was missed.");
        let bad = [
            run("a", with("validity", json!({"valid": false, "findings": ["late"]}))),
            run("b", with("audit", json!({"ok": false}))),
            run("c", json!({"validity": {"valid": true, "findings": []}})),
            run("d", with("targets", target(false))),
            run("e", with("thresholds", json!({"met": false, "findings": ["late"]}))),
            run("f", sound.clone()),
        ];
        assert_eq!(
            told(&bad),
            "Not valid: a. Failed their audit: b. Not audited: c. Missed a threshold or a target: d, e."
        );
    }

    #[test]
    fn duration_is_reported_with_its_limit() {
        let (began_at, within_s) = ("2026-11-22T01:55:03.123Z".to_owned(), Some(3_600.0));
        let hour = SuiteResult { began_at, took_s: 3_138.4, within_s, ..SuiteResult::default() };
        assert_eq!(
            took(&hour, "2 cores, AMD EPYC").unwrap(),
            "took 52.3 min on 2 cores, AMD EPYC, from 2026-11-22 01:55 UTC, within the 60.0 min that it may take."
        );
        let longer = SuiteResult { took_s: 3_700.0, began_at: String::new(), ..hour };
        let text = "took 61.7 min, which is longer than the 60.0 min that it may take.";
        assert_eq!(took(&longer, "").unwrap(), text);
        let short = SuiteResult { took_s: 9.0, ..SuiteResult::default() };
        assert_eq!(took(&short, "").unwrap(), "took 9.00 s.");
        assert_eq!(took(&SuiteResult::default(), "2 cores"), None);
    }
}
