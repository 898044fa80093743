//! What a suite says of its runs beside their results: what was run beside what, what was to be shown, which question is
//! answered by which.

use serde::Deserialize;

use crate::compare::Metric;

/// Two runs that took turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// The base, as an index into the runs.
    pub base: usize,
    /// What is compared with it.
    pub other: usize,
    /// The figures of both, one value for each turn.
    pub figures: Vec<(Metric, Vec<f64>, Vec<f64>)>,
}

/// A claim, judged by whoever ran the suite.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Claim {
    /// The claim.
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
