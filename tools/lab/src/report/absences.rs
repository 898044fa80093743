//! Sentences about missing runs of a suite.

use crate::plan::suite_plan::LeftOut;
use crate::result::suite::SuiteFailure;

/// One sentence for each missing run of a suite: runs without a result, then scenarios that were left out.
pub(crate) fn absences(missing: &[String], failures: &[SuiteFailure], left_out: &[LeftOut]) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_run_is_reported_once_with_its_reason() {
        let failure = |run: &str| SuiteFailure { run: run.to_owned(), error: "skipped: no rate".to_owned() };
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
