//! The table of `docs/reliability.md`. It is generated from the evidence of trials and of the lab's measurements.

use std::path::Path;

use serde::{Deserialize, Serialize};
use upesi_lab::figures::count as grouped;
use upesi_lab::result::evidence::{Evidence, EvidenceError, Provenance};

use super::evidence;
use super::trials::Part;
use crate::attacks::{self, AttacksRun};
use crate::black_hole::{self, BlackHoleRun, GROWTH_PERMILLE_MAX};
use crate::evidence::{Run, TrialEvidence};
use crate::trials;

pub const BEGIN: &str = "<!-- reliability: written by `torture table` from docs/evidence, do not edit -->";
pub const END: &str = "<!-- end of reliability -->";

/// A text with its table regenerated. A text without markers does not change.
pub fn updated(text: &str, evidence: &Path) -> Result<String, EvidenceError> {
    let Some((before, rest)) = text.split_once(BEGIN) else { return Ok(text.to_owned()) };
    let Some((_, after)) = rest.split_once(END) else { return Ok(text.to_owned()) };
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", table(evidence)?))
}

/// One row for each trial, for each subject of other programs, for the black hole, for attacks, and for the lab's
/// measurements.
pub fn table(directory: &Path) -> Result<String, EvidenceError> {
    let mut lines =
        String::from("| what | tried | violations | goal | commits, dates |\n|---|---:|---:|---:|---|\n");
    for subject in trials::TRIALS.iter().map(|trial| trial.subject()).chain(evidence::subjects()) {
        let evidence = TrialEvidence::read(directory, subject.name)?;
        let runs = evidence.runs.iter().map(|run| &run.provenance);
        lines.push_str(&counted(subject.what, &evidence, subject.goal, runs));
        let parts = trials::PARTS.iter().filter(|part| part.of == subject.name);
        parts.for_each(|line| lines.push_str(&part(line, &evidence)));
    }
    lines.push_str(&black_hole(&Evidence::read(directory, black_hole::SUBJECT.name)?.runs));
    lines.push_str(&attacks(&Evidence::read(directory, attacks::SUBJECT.name)?.runs));
    let overload: Vec<MeasuredRun> = Evidence::read(directory, "overload")?.runs;
    let (alike, one) = overload.iter().partition::<Vec<_>, _>(|run| run.flooders.is_none());
    let flood = "transfers sent at many times the rate that the hub accepts";
    lines.push_str(&measured(&format!("{flood}, from all DFSPs"), |run| run.offered, &alike));
    lines.push_str(&measured(&format!("{flood}, from one DFSP of several"), |run| run.offered, &one));
    let growth = Evidence::read(directory, "growth")?.runs;
    let history = "finished transfers in a hub's history";
    lines.push_str(&measured(history, |run| run.transfers, &growth.iter().collect::<Vec<_>>()));
    Ok(lines)
}

/// The row of a part of a trial, from the runs that counted it. Violations of other runs may not concern the part.
fn part(part: &Part, evidence: &TrialEvidence) -> String {
    let mut counted = TrialEvidence::default();
    for run in &evidence.runs {
        if let Some(count) = run.details.get(part.detail) {
            counted.runs.push(Run { count: *count, ..run.clone() });
            counted.count += count;
            counted.violations += run.violations;
        }
    }
    self::counted(part.what, &counted, part.goal, counted.runs.iter().map(|run| &run.provenance))
}

/// The row of a count.
fn counted<'a>(
    what: &str,
    evidence: &TrialEvidence,
    goal: u64,
    runs: impl Iterator<Item = &'a Provenance>,
) -> String {
    let (count, violations, goal) = (grouped(evidence.count), violations(evidence), grouped(goal));
    format!("| {what} | {count} | {violations} | {goal} | {} |\n", span(runs))
}

/// The number of violations, and the count after the last one.
fn violations(evidence: &TrialEvidence) -> String {
    let count = grouped(evidence.violations);
    match evidence.clean_since() {
        None => count,
        Some(0) => format!("{count}, not run since"),
        Some(since) => format!("{count}, none in the {} since", grouped(since)),
    }
}

/// The row of the last run: the number of callbacks, and the other DFSPs' latency as the objective.
fn black_hole(runs: &[BlackHoleRun]) -> String {
    let what = "callbacks to a DFSP that did not answer for minutes, all delivered after its return";
    let max = GROWTH_PERMILLE_MAX / 10;
    let broken: usize = runs.iter().map(|run| run.violations.len()).sum();
    let delivered: u64 = runs.iter().map(|run| run.callbacks_delivered).sum();
    let growth = runs.last().map_or_else(String::new, |run| {
        let permille = run.p99_growth_permille;
        let sign = if permille < 0 { "−" } else { "+" };
        format!(": {sign}{}.{} %", permille.abs() / 10, permille.abs() % 10)
    });
    let runs = runs.iter().map(|run| &run.provenance);
    format!(
        "| {what} | {} | {broken} | others' p99 ≤ +{max} %{growth} | {} |\n",
        grouped(delivered),
        span(runs)
    )
}

/// The row of the newest results: how many attacks broke a promise, and how many did in the first run.
fn attacks(runs: &[AttacksRun]) -> String {
    let what = "attacks with no credential, or with one DFSP's, during honest payments";
    let span = span(runs.iter().map(|run| &run.provenance));
    let Some(newest) = AttacksRun::newest(runs) else {
        return format!("| {what} | 0 | 0 | – | {span} |\n");
    };
    let first = runs.first().filter(|_| runs.len() > 1);
    let before = first
        .map_or_else(String::new, |first| format!(", {} in {}", first.broken(), first.provenance.commit));
    let (tried, broken) = (newest.attacks.len(), newest.broken());
    format!("| {what} | {tried} | {broken}{before} | {} | {span} |\n", newest.aims())
}

/// The row of a measurement by the lab: its count in the last run, and each aim with its result.
fn measured(what: &str, count: fn(&MeasuredRun) -> u64, runs: &[&MeasuredRun]) -> String {
    let broken = runs.iter().filter(|run| !run.audits_ok).count();
    let (count, aims) = runs.last().map_or((0, "–".to_owned()), |run| {
        let aims = run.aims.iter().map(MeasuredAim::words).collect::<Vec<_>>();
        (count(run), aims.join("; "))
    });
    let span = span(runs.iter().map(|run| &run.provenance));
    format!("| {what} | {} | {broken} | {aims} | {span} |\n", grouped(count))
}

/// The commits and days of runs, oldest first: the first and the last, and the number of commits.
fn span<'a>(runs: impl Iterator<Item = &'a Provenance>) -> String {
    let (mut commits, mut days): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for Provenance { commit, date, .. } in runs {
        let day = date.split('T').next().unwrap_or_default();
        // If a commit occurs again, its last place counts.
        commits.retain(|known| known != commit);
        commits.push(commit);
        days.push(day);
    }
    days.dedup();
    let (Some(day), Some(last_day)) = (days.first(), days.last()) else { return "not run yet".to_owned() };
    let commits = match commits[..] {
        [first, .., last] => format!("{first} to {last} ({})", commits.len()),
        _ => commits.concat(),
    };
    if day == last_day { format!("{commits}, {day}") } else { format!("{commits}, {day} to {last_day}") }
}

/// One run; the file has many more fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct MeasuredRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    /// For overload: the number of DFSPs that sent too much; absent if all did.
    pub flooders: Option<u64>,
    /// For overload: transfers started during the overload.
    pub offered: u64,
    pub transfers: u64,
    /// Whether the audits of all runs had no finding. A finding in an audit of growth ends the run, and nothing is
    /// recorded.
    #[serde(default = "yes")]
    pub audits_ok: bool,
    pub aims: Vec<MeasuredAim>,
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct MeasuredAim {
    pub name: String,
    pub unit: String,
    pub is_at_least: bool,
    pub goal: f64,
    /// The measured value; absent if the expected event did not occur.
    pub median: Option<f64>,
    pub is_reached: bool,
}

impl MeasuredAim {
    /// The aim, its result, and whether it was missed.
    pub fn words(&self) -> String {
        let Self { name, unit, is_at_least, goal, median, is_reached } = self;
        let relation = if *is_at_least { "≥" } else { "≤" };
        let median = median.map_or_else(|| "never".to_owned(), |median| format!("{median:.1}"));
        let missed = if *is_reached { "" } else { ", missed" };
        format!("{name} {relation} {goal} {unit}: {median}{missed}")
    }
}

#[cfg(test)]
mod tests {
    use upesi_lab::result::evidence::Evidence;

    use super::*;
    use crate::attacks::AttackResult;

    fn provenance(commit: &str, date: &str) -> Provenance {
        Provenance { commit: commit.to_owned(), date: date.to_owned(), ..Provenance::default() }
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in
            [(0, "0"), (7, "7"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn span_has_first_and_last_commit_and_day() {
        for (runs, text) in [
            (&[][..], "not run yet"),
            (&[("a", "2026-11-21T01:02:03.000Z")], "a, 2026-11-21"),
            (&[("a", "2026-11-21T1"), ("a", "2026-11-21T2")], "a, 2026-11-21"),
            (
                &[("a", "2026-11-21T1"), ("b+", "2026-11-21T2"), ("c", "2026-11-21T3")],
                "a to c (3), 2026-11-21",
            ),
            (&[("a", "2026-11-21T1"), ("b", "2026-11-23T2")], "a to b (2), 2026-11-21 to 2026-11-23"),
            (
                &[("b", "2026-11-21T1"), ("a", "2026-11-21T1"), ("b", "2026-11-22T1")],
                "a to b (2), 2026-11-21 to 2026-11-22",
            ),
        ] {
            let runs: Vec<_> = runs.iter().map(|(commit, date)| provenance(commit, date)).collect();
            assert_eq!(span(runs.iter()), text);
        }
    }

    #[test]
    fn violations_are_printed_with_the_count_since() {
        for (runs, text) in [
            (&[(1_000, 0)][..], "0"),
            (&[(1_000, 2)], "2, not run since"),
            (&[(1_000, 0), (500, 1), (90_000, 0), (919, 0)], "1, none in the 90,919 since"),
            (&[(1_000, 1), (500, 0), (200, 3)], "4, not run since"),
        ] {
            let mut evidence = TrialEvidence::default();
            for (index, (count, violations)) in (0_u64..).zip(runs) {
                let (from, to, provenance) = (index, index + 1, provenance(&index.to_string(), ""));
                let run =
                    Run { provenance, from, to, count: *count, violations: *violations, ..Run::default() };
                evidence.add(run).unwrap();
            }
            assert_eq!(super::violations(&evidence), text);
        }
    }

    /// A run from before the part was counted is left out of the part.
    #[test]
    fn part_is_counted_from_runs_that_have_its_count() {
        let line = Part { of: "x", detail: "worlds with all", what: "worlds", goal: 20_000 };
        let mut evidence = TrialEvidence::default();
        let run = |commit: &str, from: u64, details: &[(&str, u64)], violations| Run {
            provenance: provenance(commit, "2026-11-24T1"),
            from,
            to: from + 1,
            count: 100_000,
            details: details.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            violations,
            ..Run::default()
        };
        evidence.add(run("a", 0, &[("events", 7)], 3)).unwrap();
        assert_eq!(part(&line, &evidence), "| worlds | 0 | 0 | 20,000 | not run yet |\n");
        evidence.add(run("b", 1, &[("worlds with all", 1_500)], 1)).unwrap();
        evidence.add(run("c", 2, &[("worlds with all", 500)], 0)).unwrap();
        let expected = "| worlds | 2,000 | 1, none in the 500 since | 20,000 | b to c (2), 2026-11-24 |\n";
        assert_eq!(part(&line, &evidence), expected);
    }

    #[test]
    fn black_hole_has_its_row() {
        let mut runs: Vec<BlackHoleRun> = Vec::new();
        assert!(black_hole(&runs).ends_with("| 0 | 0 | others' p99 ≤ +10 % | not run yet |\n"));
        for p99_growth_permille in [45, -231] {
            let (provenance, callbacks_delivered) = (provenance("a", "2026-11-21T1"), 1_000);
            runs.push(BlackHoleRun {
                provenance,
                callbacks_delivered,
                p99_growth_permille,
                ..BlackHoleRun::default()
            });
            let growth = if p99_growth_permille < 0 { "−23.1" } else { "+4.5" };
            assert!(black_hole(&runs).contains(&format!("others' p99 ≤ +10 %: {growth} % |")));
        }
        assert!(black_hole(&runs).contains("| 2,000 | 0 |"));
    }

    #[test]
    fn attacks_row_has_the_newest_results_and_the_first_violations() {
        let mut runs: Vec<AttacksRun> = Vec::new();
        assert!(attacks(&runs).ends_with("| 0 | 0 | – | not run yet |\n"));
        let attack = |name: &str, permille, mib, broken: usize| AttackResult {
            name: name.to_owned(),
            p99_permille: Some(permille),
            rss_mib_max: mib,
            violations: vec!["slow".to_owned(); broken],
            ..AttackResult::default()
        };
        // The second run has all attacks, the third one only one.
        for (commit, results, expected) in [
            ("a", vec![attack("x", 9_000, 80, 1), attack("y", 9_500, 90, 2)], ("2 | 2 ", "9.5 ×", "90")),
            (
                "b",
                vec![attack("x", 1_000, 40, 0), attack("y", 3_500, 30, 1)],
                ("2 | 1, 2 in a ", "3.5 ×", "40"),
            ),
            ("c", vec![attack("y", 2_500, 35, 0)], ("2 | 0, 2 in a ", "2.5 ×", "40")),
        ] {
            let provenance = provenance(commit, "2026-11-22T1");
            runs.push(AttacksRun { provenance, attacks: results, ..AttacksRun::default() });
            let (line, (counts, p99, mib)) = (attacks(&runs), expected);
            assert!(line.contains(&format!("payments | {counts}| payments' p99 ≤ 3 ×")), "{line}");
            assert!(line.contains(&format!(": {p99}; ≤ 300 MiB: {mib};")), "{line}");
        }
        assert!(attacks(&runs).ends_with("| a to c (3), 2026-11-22 |\n"), "{}", attacks(&runs));
    }

    #[test]
    fn measurement_of_the_lab_has_a_row_with_its_objectives() {
        assert_eq!(measured("x", |run| run.offered, &[]), "| x | 0 | 0 | – | not run yet |\n");
        let aim = |name: &str, median, is_reached| MeasuredAim {
            name: name.to_owned(),
            unit: "%".to_owned(),
            is_at_least: true,
            goal: 95.0,
            median,
            is_reached,
        };
        let run = |offered, audits_ok| MeasuredRun {
            provenance: provenance("a", "2026-11-22T1"),
            offered,
            audits_ok,
            aims: vec![
                aim("goodput", Some(99.26), true),
                aim("share", Some(80.0), false),
                aim("end", None, false),
            ],
            ..MeasuredRun::default()
        };
        let (before, last) = (run(7, false), run(120_000, true));
        assert_eq!(
            measured("x", |run| run.offered, &[&before, &last]),
            "| x | 120,000 | 1 | goodput ≥ 95 %: 99.3; share ≥ 95 %: 80.0, missed; end ≥ 95 %: never, missed | \
             a, 2026-11-22 |\n"
        );
    }

    #[test]
    fn update_changes_only_text_between_the_markers() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let updated = updated(&text, directory.path()).unwrap();
        assert!(updated.starts_with("before\n") && updated.ends_with(&format!("{END}\nafter\n")));
        assert!(!updated.contains("old") && updated.contains("not run yet"));
        assert_eq!(super::updated(&updated, directory.path()).unwrap(), updated);
        assert_eq!(super::updated("no markers", directory.path()).unwrap(), "no markers");
    }

    #[test]
    fn runs_are_read_with_unknown_members() {
        let directory = tempfile::tempdir().unwrap();
        let read = || Evidence::<MeasuredRun>::read(directory.path(), "overload").unwrap().runs;
        assert_eq!(read(), []);
        let text = r#"{"name": "overload", "runs": [
            {"commit": "a", "date": "d", "flooders": null, "offered": 9, "audits_ok": false, "seed": 1, "aims": [
                {"name": "recovery", "unit": "s", "is_at_least": false, "goal": 1.0, "median": null, "lowest": 1.0,
                 "is_reached": false}]},
            {"commit": "b", "flooders": 1, "transfers": 7}]}"#;
        std::fs::write(directory.path().join("overload.json"), text).unwrap();
        let [first, second] = &read()[..] else { panic!("two runs") };
        assert_eq!((first.offered, first.audits_ok, first.flooders), (9, false, None));
        assert_eq!(first.aims[0].words(), "recovery ≤ 1 s: never, missed");
        assert_eq!((second.transfers, second.audits_ok, second.flooders), (7, true, Some(1)));
    }
}
