//! The table of `docs/reliability.md`, written from the evidence.

use std::path::Path;

use crate::attacks::AttacksEvidence;
use crate::black_hole::{BlackHoleEvidence, GROWTH_PERMILLE_MAX};
use crate::evidence::{Evidence, EvidenceError};
use crate::measured::{MeasuredAim, MeasuredEvidence, MeasuredRun};
use crate::{noted, trials};

/// Where the table begins.
pub const BEGIN: &str = "<!-- reliability: written by `torture table` from docs/evidence, do not edit -->";
/// Where it ends.
pub const END: &str = "<!-- end of reliability -->";

/// A text with its table written anew. A text without markers is left as it is.
pub fn updated(text: &str, evidence: &Path) -> Result<String, EvidenceError> {
    let Some((before, rest)) = text.split_once(BEGIN) else { return Ok(text.to_owned()) };
    let Some((_, after)) = rest.split_once(END) else { return Ok(text.to_owned()) };
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", table(evidence)?))
}

/// One line for each trial, for each thing that other programs try, for the black hole, for attacks, and for what
/// the lab measures.
pub fn table(directory: &Path) -> Result<String, EvidenceError> {
    let mut lines =
        String::from("| what | tried | violations | goal | commits, dates |\n|---|---:|---:|---:|---|\n");
    for subject in trials::TRIALS.iter().map(|trial| trial.subject()).chain(noted::subjects()) {
        let evidence = Evidence::read(directory, subject.name)?;
        let runs = evidence.runs.iter().map(|run| (run.commit.as_str(), run.date.as_str()));
        lines.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            subject.what,
            grouped(evidence.count),
            violations(&evidence),
            grouped(subject.goal),
            span(runs)
        ));
    }
    lines.push_str(&black_hole(&BlackHoleEvidence::read(directory)?));
    lines.push_str(&attacks(&AttacksEvidence::read(directory)?));
    let overload = MeasuredEvidence::read(directory, "overload")?;
    let (alike, one) = overload.runs.iter().partition::<Vec<_>, _>(|run| run.flooders.is_none());
    let flood = "transfers offered at many times what the hub takes";
    lines.push_str(&measured(&format!("{flood}, from all DFSPs alike"), |run| run.offered, &alike));
    lines.push_str(&measured(&format!("{flood}, from one DFSP of several"), |run| run.offered, &one));
    let growth = MeasuredEvidence::read(directory, "growth")?;
    let history = "finished transfers in a hub's history";
    lines.push_str(&measured(history, |run| run.transfers, &growth.runs.iter().collect::<Vec<_>>()));
    Ok(lines)
}

/// How many there were, and what came after the last.
fn violations(evidence: &Evidence) -> String {
    let count = grouped(evidence.violations);
    match evidence.clean_since() {
        None => count,
        Some(0) => format!("{count}, nothing tried since"),
        Some(since) => format!("{count}, none in the {} since", grouped(since)),
    }
}

/// The last run, as a line: callbacks are what is tried, and the others' latency is what it aims at.
fn black_hole(evidence: &BlackHoleEvidence) -> String {
    let what = "callbacks to a DFSP that answered nothing for minutes, all delivered once it was back";
    let max = GROWTH_PERMILLE_MAX / 10;
    let broken: usize = evidence.runs.iter().map(|run| run.violations.len()).sum();
    let delivered: u64 = evidence.runs.iter().map(|run| run.callbacks_delivered).sum();
    let growth = evidence.runs.last().map_or_else(String::new, |run| {
        let permille = run.p99_growth_permille;
        let sign = if permille < 0 { "−" } else { "+" };
        format!(": {sign}{}.{} %", permille.abs() / 10, permille.abs() % 10)
    });
    let runs = evidence.runs.iter().map(|run| (run.commit.as_str(), run.date.as_str()));
    format!(
        "| {what} | {} | {broken} | others' p99 ≤ +{max} %{growth} | {} |\n",
        grouped(delivered),
        span(runs)
    )
}

/// The last run, as a line: how many attacks of it broke a promise, and how many of the first did.
fn attacks(evidence: &AttacksEvidence) -> String {
    let what = "attacks that need no credential, or only one DFSP's, beside honest payments";
    let runs = evidence.runs.iter().map(|run| (run.commit.as_str(), run.date.as_str()));
    let span = span(runs);
    let Some(last) = evidence.runs.last() else { return format!("| {what} | 0 | 0 | – | {span} |\n") };
    let first = evidence.runs.first().filter(|_| evidence.runs.len() > 1);
    let before = first.map_or_else(String::new, |first| format!(", {} in {}", first.broken(), first.commit));
    let (tried, broken) = (last.attacks.len(), last.broken());
    format!("| {what} | {tried} | {broken}{before} | {} | {span} |\n", last.aims())
}

/// What the lab measured, as a line: how much of it in the last run, and each aim beside what that reached.
fn measured(what: &str, count: fn(&MeasuredRun) -> u64, runs: &[&MeasuredRun]) -> String {
    let broken = runs.iter().filter(|run| !run.audits_ok).count();
    let (count, aims) = runs.last().map_or((0, "–".to_owned()), |run| {
        let aims = run.aims.iter().map(MeasuredAim::words).collect::<Vec<_>>();
        (count(run), aims.join("; "))
    });
    let span = span(runs.iter().map(|run| (run.commit.as_str(), run.date.as_str())));
    format!("| {what} | {} | {broken} | {aims} | {span} |\n", grouped(count))
}

/// The commits that runs, oldest first, were of, and their days: the first and the last, and how many commits.
fn span<'a>(runs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let (mut commits, mut days): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (commit, date) in runs {
        let day = date.split('T').next().unwrap_or_default();
        // The last place of a commit that comes again counts.
        commits.retain(|known| *known != commit);
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

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attacks::{AttackResult, AttacksRun};
    use crate::black_hole::BlackHoleRun;
    use crate::evidence::Run;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in
            [(0, "0"), (7, "7"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn commits_and_days_are_told_from_the_first_to_the_last() {
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
            assert_eq!(span(runs.iter().copied()), text);
        }
    }

    #[test]
    fn violations_say_what_was_tried_after_them() {
        for (runs, text) in [
            (&[(1_000, 0)][..], "0"),
            (&[(1_000, 2)], "2, nothing tried since"),
            (&[(1_000, 0), (500, 1), (90_000, 0), (919, 0)], "1, none in the 90,919 since"),
            (&[(1_000, 1), (500, 0), (200, 3)], "4, nothing tried since"),
        ] {
            let mut evidence = Evidence::default();
            for (index, (count, violations)) in (0_u64..).zip(runs) {
                let (from, to, commit) = (index, index + 1, index.to_string());
                let run = Run { commit, from, to, count: *count, violations: *violations, ..Run::default() };
                evidence.add(run).unwrap();
            }
            assert_eq!(super::violations(&evidence), text);
        }
    }

    #[test]
    fn the_black_hole_has_its_line() {
        let mut evidence = BlackHoleEvidence::default();
        assert!(black_hole(&evidence).ends_with("| 0 | 0 | others' p99 ≤ +10 % | not run yet |\n"));
        for p99_growth_permille in [45, -231] {
            let (commit, date) = ("a".to_owned(), "2026-11-21T1".to_owned());
            let callbacks_delivered = 1_000;
            let run = BlackHoleRun {
                commit,
                date,
                callbacks_delivered,
                p99_growth_permille,
                ..BlackHoleRun::default()
            };
            evidence.runs.push(run);
            let growth = if p99_growth_permille < 0 { "−23.1" } else { "+4.5" };
            assert!(black_hole(&evidence).contains(&format!("others' p99 ≤ +10 %: {growth} % |")));
        }
        assert!(black_hole(&evidence).contains("| 2,000 | 0 |"));
    }

    #[test]
    fn attacks_have_a_line_that_says_what_the_first_run_found() {
        let mut evidence = AttacksEvidence::default();
        assert!(attacks(&evidence).ends_with("| 0 | 0 | – | not run yet |\n"));
        for (commit, violations) in [("a", vec!["slow".to_owned()]), ("b", Vec::new())] {
            let attack = AttackResult { violations, p99_permille: Some(900), ..AttackResult::default() };
            let (commit, date) = (commit.to_owned(), "2026-11-22T1".to_owned());
            let attacks = vec![attack];
            evidence.runs.push(AttacksRun { commit, date, attacks, ..AttacksRun::default() });
        }
        let line = attacks(&evidence);
        assert!(line.contains("payments | 1 | 0, 1 in a | payments' p99 ≤ 3 ×"), "{line}");
        assert!(line.ends_with("| a to b (2), 2026-11-22 |\n"), "{line}");
    }

    #[test]
    fn what_the_lab_measured_has_a_line_with_its_aims() {
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
            commit: "a".to_owned(),
            date: "2026-11-22T1".to_owned(),
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
    fn only_what_is_between_the_markers_changes() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let updated = updated(&text, directory.path()).unwrap();
        assert!(updated.starts_with("before\n") && updated.ends_with(&format!("{END}\nafter\n")));
        assert!(!updated.contains("old") && updated.contains("not run yet"));
        assert_eq!(super::updated(&updated, directory.path()).unwrap(), updated);
        assert_eq!(super::updated("no markers", directory.path()).unwrap(), "no markers");
    }
}
