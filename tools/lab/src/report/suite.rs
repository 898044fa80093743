//! What a suite says of its runs beside their results: what was run beside what, what was to be shown, which question
//! is answered by which.

use serde::Deserialize;

use crate::report::compare::Metric;
use crate::report::figures::{milliseconds, minute};

/// Two runs that took turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// The base, as an index into the runs.
    pub base: usize,
    pub other: usize,
    /// The figures of both, one value for each turn.
    pub figures: Vec<(Metric, Vec<f64>, Vec<f64>)>,
}

/// A claim, judged by whoever ran the suite.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Claim {
    pub text: String,
    /// What became of it in words, with the interval.
    pub words: String,
}

/// A question and the runs that answer it, as indices into the runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    pub text: String,
    pub runs: Vec<usize>,
}

/// How long a suite took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Length {
    pub began_at: Option<String>,
    pub seconds: f64,
    /// The seconds that it may take, where the suite says so.
    pub within_s: Option<f64>,
}

impl Length {
    /// In a sentence; `place` is what it ran on, and may be empty.
    pub(crate) fn sentence(&self, place: &str) -> String {
        let time = |seconds: f64| milliseconds(seconds * 1e3);
        let mut text = format!("took {}", time(self.seconds));
        if !place.is_empty() {
            text.push_str(&format!(" on {place}"));
        }
        if let Some(began_at) = &self.began_at {
            text.push_str(&format!(", from {}", minute(began_at)));
        }
        if let Some(within_s) = self.within_s {
            let is_within = self.seconds <= within_s;
            let relation = if is_within { "within" } else { "which is longer than" };
            text.push_str(&format!(", {relation} the {} that it may take", time(within_s)));
        }
        text + "."
    }
}

/// A run that gave no result at one time or another, and why.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Failure {
    pub run: String,
    pub error: String,
}

/// A scenario that was not run, and why.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct LeftOut {
    pub scenario: String,
    pub question: Option<String>,
    pub reason: String,
}

/// What a suite names and what is not there, a sentence each: runs without a result, then what was left out.
pub(crate) fn absences(missing: &[String], failures: &[Failure], left_out: &[LeftOut]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for failure in failures {
        let often = if missing.contains(&failure.run) { "" } else { " (not every time)" };
        let sentence = format!("Left no result{often}: {}: {}", failure.run, failure.error);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    let unexplained = missing.iter().filter(|run| failures.iter().all(|failure| failure.run != **run));
    sentences.extend(unexplained.map(|run| format!("Left no result: {run}")));
    sentences.extend(left_out.iter().map(|run| {
        let question = run.question.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
        format!("Left out: {}{question}: {}", run.scenario, run.reason)
    }));
    sentences
}

/// A pair as it is written.
#[derive(Deserialize)]
pub(crate) struct PairFile {
    base: usize,
    other: usize,
    figures: Vec<FigureFile>,
}

#[derive(Deserialize)]
struct FigureFile {
    figure: String,
    base: Vec<f64>,
    other: Vec<f64>,
}

/// A question as it is written.
#[derive(Deserialize)]
pub(crate) struct QuestionFile {
    text: String,
    runs: Vec<usize>,
}

impl PairFile {
    /// With the places of the runs; `None` when one of them left no result.
    pub(crate) fn placed(self, place: impl Fn(usize) -> Option<usize>) -> Option<Beside> {
        let figure = |file: FigureFile| {
            let metric = Metric::ALL.into_iter().find(|metric| metric.member() == file.figure)?;
            (file.base.len() == file.other.len()).then_some((metric, file.base, file.other))
        };
        let figures = self.figures.into_iter().filter_map(figure).collect();
        Some(Beside { base: place(self.base)?, other: place(self.other)?, figures })
    }
}

impl QuestionFile {
    /// With the places of the runs that left a result.
    pub(crate) fn placed(self, place: impl Fn(usize) -> Option<usize>) -> Question {
        Question { text: self.text, runs: self.runs.into_iter().filter_map(place).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_took_is_told_beside_what_it_may_take() {
        let began_at = Some("2026-11-22T01:55:03.123Z".to_owned());
        let hour = Length { began_at, seconds: 3_138.4, within_s: Some(3_600.0) };
        assert_eq!(
            hour.sentence("2 cores, AMD EPYC"),
            "took 52.3 min on 2 cores, AMD EPYC, from 2026-11-22 01:55 UTC, within the 60.0 min that it may take."
        );
        let longer = Length { seconds: 3_700.0, began_at: None, ..hour };
        assert_eq!(longer.sentence(""), "took 61.7 min, which is longer than the 60.0 min that it may take.");
        let short = Length { seconds: 9.0, ..Length::default() };
        assert_eq!(short.sentence(""), "took 9.00 s.");
    }

    #[test]
    fn what_is_not_there_is_told_once_with_its_reason() {
        let failure = |run: &str| Failure { run: run.to_owned(), error: "skipped: no rate".to_owned() };
        let left_out = |question: Option<&str>| LeftOut {
            scenario: "history".to_owned(),
            question: question.map(str::to_owned),
            reason: "it needs a hub of its own".to_owned(),
        };
        let missing = ["a", "b"].map(str::to_owned);
        let failures = ["a", "a", "c"].map(failure);
        let sentences = absences(&missing, &failures, &[left_out(None), left_out(Some("Slower?"))]);
        assert_eq!(
            sentences,
            [
                "Left no result: a: skipped: no rate",
                "Left no result (not every time): c: skipped: no rate",
                "Left no result: b",
                "Left out: history: it needs a hub of its own",
                "Left out: history (Slower?): it needs a hub of its own",
            ]
        );
        assert_eq!(absences(&[], &[], &[]), Vec::<String>::new());
    }
}
