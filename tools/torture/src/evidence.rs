//! The evidence: one JSON file for each trial. Every run adds to it. The counts of other programs are treated like
//! trials.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
pub use upesi_lab::result::evidence::{EvidenceError, Provenance};
use upesi_lab::result::evidence::{read_file, write_file};

/// Maximum number of violations that are recorded in full.
const VIOLATIONS_LISTED_MAX: usize = 50;

/// The subject of a file of evidence.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: &'static str,
    pub what: &'static str,
    pub goal: u64,
    pub command: String,
}

/// The contents of a trial's file of evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEvidence {
    pub name: String,
    pub what: String,
    pub command: String,
    /// The count that `make torture` aims for.
    pub goal: u64,
    pub count: u64,
    pub violations: u64,
    /// Ranges `[from, to)` of seeds that were run, merged.
    pub seeds: Vec<[u64; 2]>,
    /// All runs, oldest first. A run that continues the previous one, by the same command on the same commit and
    /// machine, is part of it.
    pub runs: Vec<Run>,
}

/// One run, or several that continue one another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The first seed.
    pub from: u64,
    /// The seed after the last.
    pub to: u64,
    pub count: u64,
    pub details: BTreeMap<String, u64>,
    pub violations: u64,
    pub violated: Vec<Violation>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub seed: u64,
    pub message: String,
}

impl TrialEvidence {
    /// Reads a trial's evidence from a directory; empty without a file.
    pub fn read(directory: &Path, name: &str) -> Result<Self, EvidenceError> {
        Ok(read_file(directory, name)?.unwrap_or_default())
    }

    /// Adds a run to the file about a subject. The file need not exist.
    pub fn record(directory: &Path, subject: &Subject, run: Run) -> Result<(), EvidenceError> {
        let mut evidence = Self::read(directory, subject.name)?;
        evidence.name = subject.name.to_owned();
        evidence.what = subject.what.to_owned();
        evidence.command.clone_from(&subject.command);
        evidence.goal = subject.goal;
        evidence.add(run)?;
        write_file(directory, subject.name, &evidence)
    }

    /// The first seed that no run has reached.
    pub fn next_seed(&self) -> u64 {
        self.runs.iter().map(|run| run.to).max().unwrap_or(0)
    }

    /// The count of the runs after the last one with a violation; `None` if there was never one.
    pub fn clean_since(&self) -> Option<u64> {
        let last = self.runs.iter().rposition(|run| run.violations > 0)?;
        Some(self.runs[last + 1..].iter().map(|run| run.count).sum())
    }

    /// Adds a run. Its seeds must be new.
    pub fn add(&mut self, run: Run) -> Result<(), EvidenceError> {
        if self.runs.iter().any(|known| run.from < known.to && known.from < run.to) {
            return Err(EvidenceError::Overlap { from: run.from, next: self.next_seed() });
        }
        match self.runs.last_mut() {
            Some(last) if last.is_continued_by(&run) => last.absorb(run),
            _ => self.runs.push(run),
        }
        self.count = self.runs.iter().map(|run| run.count).sum();
        self.violations = self.runs.iter().map(|run| run.violations).sum();
        self.seeds = merged(self.runs.iter().map(|run| [run.from, run.to]).collect());
        Ok(())
    }
}

impl Run {
    fn is_continued_by(&self, next: &Self) -> bool {
        let (own, other) = (&self.provenance, &next.provenance);
        self.to == next.from
            && (&own.commit, &own.machine) == (&other.commit, &other.machine)
            && (&own.build, &own.command) == (&other.build, &other.command)
    }

    fn absorb(&mut self, next: Self) {
        self.to = next.to;
        self.provenance.date = next.provenance.date;
        self.provenance.duration_s += next.provenance.duration_s;
        self.count += next.count;
        self.violations += next.violations;
        for (name, count) in next.details {
            *self.details.entry(name).or_default() += count;
        }
        self.violated.extend(next.violated);
        self.violated.truncate(VIOLATIONS_LISTED_MAX);
    }
}

fn merged(mut ranges: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    ranges.sort_unstable();
    let mut merged: Vec<[u64; 2]> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last[1] >= range[0] => last[1] = last[1].max(range[1]),
            _ => merged.push(range),
        }
    }
    merged
}

/// Subjects of other programs, in the order of the table, after the trials.
pub fn subjects() -> [Subject; 1] {
    [Subject {
        name: "fuzz",
        what: "inputs chosen by a fuzzer, which every parser accepts or rejects correctly",
        goal: 500_000_000,
        command: "make fuzz".to_owned(),
    }]
}

/// A program's report about one of its runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    /// The build of the program, and the program that chose its inputs.
    pub build: String,
    pub duration_s: u64,
    pub counts: BTreeMap<String, u64>,
    pub violations: Vec<String>,
}

/// The next seed of a program. Never 0, because libFuzzer would draw a seed itself.
pub fn next_seed(directory: &Path, subject: &Subject) -> Result<u64, EvidenceError> {
    Ok(TrialEvidence::read(directory, subject.name)?.next_seed().max(1))
}

/// Adds a program's report to its evidence. Fails if the file cannot be read or written.
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

    fn run(commit: &str, from: u64, to: u64) -> Run {
        let details = BTreeMap::from([("torn".to_owned(), to - from)]);
        let provenance = Provenance { commit: commit.into(), ..Provenance::default() };
        Run { provenance, from, to, count: 10 * (to - from), details, ..Run::default() }
    }

    /// New counts are added over time. It does not matter that older runs lack them.
    #[test]
    fn new_count_is_added_to_a_run_without_it() {
        let mut evidence = TrialEvidence::default();
        evidence.add(run("a", 0, 5)).unwrap();
        let mut next = run("a", 5, 7);
        next.details.insert("doubled".to_owned(), 3);
        evidence.add(next).unwrap();
        let expected = BTreeMap::from([("doubled".to_owned(), 3), ("torn".to_owned(), 7)]);
        assert_eq!(evidence.runs[0].details, expected);
    }

    #[test]
    fn consecutive_runs_are_merged() {
        let mut evidence = TrialEvidence { name: "some".into(), ..TrialEvidence::default() };
        for added in [run("a", 0, 5), run("a", 5, 7), run("b", 7, 9), run("b", 20, 21)] {
            evidence.add(added).unwrap();
        }
        assert_eq!(evidence.runs.len(), 3);
        assert_eq!(evidence.runs[0].details["torn"], 7);
        assert_eq!((evidence.count, evidence.next_seed()), (100, 21));
        assert_eq!(evidence.seeds, [[0, 9], [20, 21]]);
    }

    #[test]
    fn run_keeps_its_command() {
        let with = |command: &str, run: Run| Run {
            provenance: Provenance { command: command.into(), ..run.provenance.clone() },
            ..run
        };
        let mut evidence = TrialEvidence::default();
        evidence.add(with("torture fsync --minutes 1", run("a", 0, 5))).unwrap();
        evidence.add(with("torture fsync --minutes 1", run("a", 5, 6))).unwrap();
        evidence.add(with("torture fsync --minutes 2", run("a", 6, 9))).unwrap();
        let commands: Vec<_> =
            evidence.runs.iter().map(|run| (run.to, run.provenance.command.as_str())).collect();
        assert_eq!(commands, [(6, "torture fsync --minutes 1"), (9, "torture fsync --minutes 2")]);
        // Runs from before are written as they were read.
        let before = serde_json::to_string(&run("a", 0, 5)).unwrap();
        assert!(!before.contains("command"), "{before}");
    }

    #[test]
    fn only_runs_after_the_last_violation_are_clean() {
        let mut evidence = TrialEvidence::default();
        for (from, violations, since) in
            [(0, 0, None), (1, 2, Some(0)), (2, 0, Some(10)), (3, 0, Some(20)), (4, 1, Some(0))]
        {
            evidence.add(Run { violations, ..run(&from.to_string(), from, from + 1) }).unwrap();
            assert_eq!(evidence.clean_since(), since, "{from}");
        }
    }

    #[test]
    fn repeated_seed_is_rejected() {
        let mut evidence = TrialEvidence::default();
        evidence.add(run("a", 10, 20)).unwrap();
        for (from, to, is_new) in
            [(0, 10, true), (19, 21, false), (12, 13, false), (5, 30, false), (20, 21, true)]
        {
            let outcome = evidence.clone().add(run("b", from, to));
            assert_eq!(outcome.is_ok(), is_new, "{from}..{to}: {outcome:?}");
        }
    }

    #[test]
    fn written_file_is_read_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(TrialEvidence::read(directory.path(), "some").unwrap(), TrialEvidence::default());
        let mut evidence = TrialEvidence { name: "some".into(), goal: 7, ..TrialEvidence::default() };
        evidence.add(run("a", 0, 5)).unwrap();
        write_file(directory.path(), "some", &evidence).unwrap();
        assert_eq!(TrialEvidence::read(directory.path(), "some").unwrap(), evidence);
        std::fs::write(directory.path().join("some.json"), "[]").unwrap();
        assert!(matches!(
            TrialEvidence::read(directory.path(), "some"),
            Err(EvidenceError::Malformed { .. })
        ));
    }

    fn report(seed: u64, target: &str, count: u64) -> Report {
        let counts = BTreeMap::from([(target.to_owned(), count)]);
        Report { seed, build: "release".into(), duration_s: 30, counts, violations: Vec::new() }
    }

    #[test]
    fn consecutive_turns_are_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let [subject] = subjects();
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
    fn violations_are_recorded_and_repeated_seeds_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let [subject] = subjects();
        let broken = Report { violations: vec!["routes: no slash".into()], ..report(4, "routes", 3) };
        note(directory.path(), &subject, broken.clone()).unwrap();
        let evidence = TrialEvidence::read(directory.path(), "fuzz").unwrap();
        assert_eq!((evidence.violations, evidence.runs[0].violated[0].seed), (1, 4));
        assert!(matches!(note(directory.path(), &subject, broken), Err(EvidenceError::Overlap { .. })));
    }
}
