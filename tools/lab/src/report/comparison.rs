//! A comparison of several runs with the first one, as a table and in words.

use std::fmt;

use super::ReportError;
use crate::report::compare::{Pair, pair, suites, within_suites};
use crate::report::input::Results;
use crate::report::text;
use crate::statistics::intervals::CONFIDENCE;

/// All pairs, and the confidence of their intervals.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Every run except the base, each with the base.
    pub pairs: Vec<Pair>,
    /// Confidence of the intervals. If several runs are compared with one base, it is higher than 0.95 for each
    /// interval, so that all hold together.
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
                " Runs without turns were measured at different times"
            } else {
                " These runs did not take turns. They were measured at different times"
            });
            method.push_str(
                ": a change of the machine in between is in the difference, and not in its interval.",
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

/// A confidence with enough digits to differ from certainty.
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

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
