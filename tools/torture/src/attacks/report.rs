//! The evidence of attacks: `attacks.json`, one entry for each run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use upesi_lab::result::evidence::{Provenance, Subject};

use super::figures::{AttackResult, times};
use super::{P99_FLOOR_US, P99_PERMILLE_MAX, Plan, RSS_MIB_MAX};
use crate::hub_binary;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttacksRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    pub rate_per_s: u64,
    /// How long each phase of a round lasted, in seconds.
    pub phase_s: u64,
    pub attacks: Vec<AttackResult>,
}

impl AttacksRun {
    /// Of results; the hub is of the commit of this program, unless that is said.
    pub fn new(plan: &Plan, commit: Option<String>, duration: Duration, attacks: Vec<AttackResult>) -> Self {
        let mut provenance =
            Provenance { build: hub_binary::build_of(&plan.binary), ..Provenance::now(duration) };
        if let Some(commit) = commit {
            provenance.commit = commit;
        }
        Self { provenance, rate_per_s: plan.rate_per_s, phase_s: plan.phase.as_secs(), attacks }
    }

    /// Attacks that broke a promise.
    pub fn broken(&self) -> usize {
        self.attacks.iter().filter(|attack| !attack.violations.is_empty()).count()
    }

    /// What is aimed at, and the worst of all attacks.
    pub fn aims(&self) -> String {
        let slowest = self.attacks.iter().map(|attack| attack.p99_permille);
        // An attack that tells no p99 is worse than any that does.
        let slowest =
            if slowest.clone().any(|permille| permille.is_none()) { None } else { slowest.flatten().max() };
        let memory = self.attacks.iter().map(|attack| attack.rss_mib_max).max().unwrap_or(0);
        format!(
            "payments' p99 ≤ {} × (of at least {} ms): {}; ≤ {RSS_MIB_MAX} MiB: {memory}; no end, none refused",
            P99_PERMILLE_MAX / 1_000,
            P99_FLOOR_US / 1_000,
            times(slowest)
        )
    }
}

impl AttackResult {
    /// What came of it, in lines.
    pub fn summary(&self) -> String {
        let verdict = if self.violations.is_empty() { "kept" } else { "BROKEN" };
        let mut text = format!(
            "{}: {verdict}: p99 {} ({}); {} MiB; {} KiB/s more written; {} payments, {} failed; {} requests, {} unanswered; \
             {} sent, answered {:?}, {} calls",
            self.name,
            times(self.p99_permille),
            self.p99.join("; "),
            self.rss_mib_max,
            self.written_kib_per_s,
            self.paid,
            self.failed,
            self.asked,
            self.unanswered,
            self.sent,
            self.answered,
            self.called,
        );
        if let Some(permille) = self.delivered_permille {
            text.push_str(&format!("; {permille} of 1,000 delivered"));
        }
        self.violations.iter().for_each(|violation| text.push_str(&format!("\n    {violation}")));
        text
    }
}

/// The subject of its file of evidence. The first run there is of the hub before it was made to stand the attacks.
pub const SUBJECT: Subject = Subject {
    name: "attacks",
    what: "floods that need no credential, or only one DFSP's, beside honest payments",
    command: "torture attacks --report docs/evidence",
};

#[cfg(test)]
mod tests {
    use upesi_lab::result::evidence::Evidence;

    use super::*;

    #[test]
    fn runs_are_added_and_the_worst_of_a_run_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let attack = |permille, mib, violations: &[&str]| AttackResult {
            p99_permille: permille,
            rss_mib_max: mib,
            violations: violations.iter().map(|text| (*text).to_owned()).collect(),
            ..AttackResult::default()
        };
        let before = vec![attack(Some(1_000), 30, &[]), attack(None, 870, &["slow", "large"])];
        let after = vec![attack(Some(2_100), 30, &[]), attack(Some(1_000), 90, &[])];
        for attacks in [before, after] {
            Evidence::add(directory.path(), &SUBJECT, AttacksRun { attacks, ..AttacksRun::default() })
                .unwrap();
        }
        let evidence = Evidence::<AttacksRun>::read(directory.path(), "attacks").unwrap();
        let broken: Vec<_> = evidence.runs.iter().map(AttacksRun::broken).collect();
        assert_eq!(broken, [1, 0]);
        let aims: Vec<_> = evidence.runs.iter().map(AttacksRun::aims).collect();
        assert!(aims[0].contains(": not measured;") && aims[0].contains("MiB: 870;"), "{}", aims[0]);
        assert!(aims[1].contains(": 2.1 ×;") && aims[1].contains("MiB: 90;"), "{}", aims[1]);
        assert!(evidence.runs[0].attacks[1].summary().contains("BROKEN: p99 not measured"));
    }
}
