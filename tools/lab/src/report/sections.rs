//! The runs of a report in the order in which they are read: by the questions that they answer, where a suite names
//! them.

use crate::report::compare::{Judgement, Metric, Pair};
use crate::report::conditions::{self, Conditions};
use crate::report::figures::{ABSENT, capitalised, count, percent};
use crate::report::input::{Results, Suite};
use crate::report::run::Run;
use crate::report::suite::Claim;
use crate::report::text::{Grid, judgement};

/// What is above the runs that no question names.
const OTHERS: &str = "Other runs";

/// Headings, each with the runs below it; one without heading where there are no questions.
pub(crate) fn sections(results: &Results) -> Vec<(Option<&str>, Vec<usize>)> {
    let questions = || results.suites.iter().flat_map(|suite| &suite.questions);
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

/// The runs of a section.
pub(crate) fn runs_of(results: &Results, places: &[usize]) -> Vec<Run> {
    places.iter().filter_map(|&place| results.runs.get(place)).cloned().collect()
}

/// How long suites took and on what, a sentence each, as far as they say.
pub(crate) fn lengths(results: &Results) -> Vec<String> {
    let sentence = |suite: &Suite| {
        let runs = suite.runs.iter().filter_map(|&place| results.runs.get(place));
        let all: Vec<Conditions> = runs.map(conditions::of).collect();
        let mut place = conditions::shared(all.iter());
        place.retain(|(name, _)| ["cores", "processor"].contains(name));
        let place: Vec<String> = place.into_iter().map(|(_, text)| text).collect();
        let sentence = suite.length.as_ref()?.sentence(&place.join(", "));
        let is_alone = results.suites.len() == 1;
        Some(if is_alone { capitalised(&sentence) } else { format!("{}: {sentence}", suite.title) })
    };
    results.suites.iter().filter_map(sentence).collect()
}

/// What was to be shown, in all suites.
pub(crate) fn claims(results: &Results) -> impl Iterator<Item = &Claim> {
    results.suites.iter().flat_map(|suite| &suite.claims)
}

/// Runs that took turns with a base, as rows; `None` where none did.
pub(crate) fn costs(pairs: &[Pair]) -> Option<Grid> {
    let mut grid = Grid::new(&[
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
    ]);
    let mut is_empty = true;
    for pair in pairs {
        let of = |metric| pair.differences.iter().find(|difference| difference.metric == metric);
        let Some(throughput) = of(Metric::Throughput).filter(|throughput| throughput.pairs.is_some()) else {
            continue;
        };
        is_empty = false;
        let by = |metric| of(metric).map_or_else(|| ABSENT.to_owned(), |difference| difference.text());
        grid.row(vec![
            pair.other.clone(),
            pair.base.clone(),
            crate::report::figures::number(throughput.other),
            crate::report::figures::number(throughput.base),
            throughput.text(),
            by(Metric::Median),
            by(Metric::Tail),
            by(Metric::Cpu),
            throughput.pairs.unwrap_or(0).to_string(),
            word(throughput.judgement, throughput.is_better()).to_owned(),
        ]);
    }
    (!is_empty).then_some(grid)
}

/// The hub's CPU time by stage, of every run that was looked into; `None` where none was.
pub(crate) fn stage_shares(runs: &[Run]) -> Option<Grid> {
    let mut grid = Grid::new(&["run", "stage", "of the hub's CPU time", "±", "samples"]);
    let mut is_empty = true;
    for run in runs {
        for stage in run.shares.iter().flat_map(|shares| &shares.stages) {
            is_empty = false;
            let [share, error] = [stage.share, stage.error].map(percent);
            grid.row(vec![run.label.clone(), stage.stage.clone(), share, error, count(stage.samples)]);
        }
    }
    (!is_empty).then_some(grid)
}

const fn word(of: Judgement, is_better: bool) -> &'static str {
    match of {
        Judgement::Real if is_better => "more",
        Judgement::Real => "less",
        other => judgement(other),
    }
}
