//! What other programs try and count. They hand in their counts, and the evidence and the table treat them like trials.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::evidence::{EvidenceError, Provenance, Run, Subject, TrialEvidence, Violation};

/// All of them, in the order of the table, behind the trials.
pub fn subjects() -> impl Iterator<Item = Subject> {
    [Subject {
        name: "fuzz",
        what: "inputs chosen by a fuzzer, which every parser refuses in order or understands",
        goal: 500_000_000,
        command: "make fuzz".to_owned(),
    }]
    .into_iter()
}

/// The subject of that name.
pub fn named(name: &str) -> Option<Subject> {
    subjects().find(|subject| subject.name == name)
}

/// What a program has to say of one of its runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    /// How it was built, and what drove it.
    pub build: String,
    pub duration_s: u64,
    pub counts: BTreeMap<String, u64>,
    pub violations: Vec<String>,
}

/// The seed that a program is to run with next. Never 0, by which libFuzzer understands that it should draw one.
pub fn next_seed(directory: &Path, subject: &Subject) -> Result<u64, EvidenceError> {
    Ok(TrialEvidence::read(directory, subject.name)?.next_seed().max(1))
}

/// Adds a run to the evidence.
pub fn note(directory: &Path, subject: &Subject, report: Report) -> Result<(), EvidenceError> {
    let seed = report.seed;
    let violated = report.violations.into_iter().map(|message| Violation { seed, message });
    let violated: Vec<_> = violated.collect();
    let run = Run {
        provenance: Provenance {
            build: report.build,
            command: subject.command.clone(),
            ..Provenance::now(Duration::from_secs(report.duration_s))
        },
        from: seed,
        to: seed + 1,
        count: report.counts.values().sum(),
        details: report.counts,
        violations: violated.len() as u64,
        violated,
    };
    TrialEvidence::record(directory, subject, run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seed: u64, target: &str, count: u64) -> Report {
        let counts = BTreeMap::from([(target.to_owned(), count)]);
        Report { seed, build: "release".into(), duration_s: 30, counts, violations: Vec::new() }
    }

    #[test]
    fn turns_that_follow_one_another_are_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let subject = named("fuzz").unwrap();
        for (target, count) in [("bodies", 10), ("routes", 500), ("bodies", 7)] {
            let seed = next_seed(directory.path(), &subject).unwrap();
            note(directory.path(), &subject, report(seed, target, count)).unwrap();
        }
        let evidence = TrialEvidence::read(directory.path(), "fuzz").unwrap();
        assert_eq!((evidence.count, evidence.goal), (517, subject.goal));
        assert_eq!((evidence.seeds.as_slice(), evidence.runs.len()), ([[1, 4]].as_slice(), 1));
        assert_eq!(evidence.runs[0].details["bodies"], 17);
        assert_eq!(evidence.runs[0].provenance.duration_s, 90);
    }

    #[test]
    fn what_broke_is_written_down_and_no_seed_counts_twice() {
        let directory = tempfile::tempdir().unwrap();
        let subject = named("fuzz").unwrap();
        let broken = Report { violations: vec!["routes: no slash".into()], ..report(4, "routes", 3) };
        note(directory.path(), &subject, broken.clone()).unwrap();
        let evidence = TrialEvidence::read(directory.path(), "fuzz").unwrap();
        assert_eq!((evidence.violations, evidence.runs[0].violated[0].seed), (1, 4));
        assert!(matches!(note(directory.path(), &subject, broken), Err(EvidenceError::Overlap { .. })));
    }
}
