//! The figures of an attack, the verdict, and its evidence: `attacks.json`, with one entry for each run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use upesi_lab::result::evidence::{Provenance, Subject};

use super::Plan;
use crate::black_hole::of_hundred;
use crate::hub_binary;

/// Maximum p99 of payments with a flood, in thousandths of the p99 without it.
pub const P99_PERMILLE_MAX: u64 = 3_000;
/// Lower bound of the p99 without a flood in that comparison. Below it, the machine's scheduler determines the p99, not
/// the hub: the hub, the DFSPs and the attackers share the machine.
pub const P99_FLOOR_US: u64 = 5_000;
pub const RSS_MIB_MAX: u64 = 300;
/// Maximum log output of the hub during a flood, in KiB per minute.
pub const LOGGED_KIB_PER_MIN_MAX: u64 = 1_024;
/// Minimum percentage of due payments that must end in a phase; below it, there is no p99.
const MEASURED_PERCENT_MIN: u64 = 50;

/// The end of a payment or a request.
#[derive(Clone, Debug)]
pub struct EndedPayment {
    pub intended: Instant,
    /// Time from the due time to the end, or the failure.
    pub outcome: Result<Duration, String>,
}

/// The p99 of the payments that were due in that time, in microseconds; `None` if too few of them ended.
pub fn p99_us(ended: &[EndedPayment], from: Instant, to: Instant, rate_per_s: u64) -> Option<u64> {
    let due = ended.iter().filter(|ended| (from..to).contains(&ended.intended));
    let latencies = due.filter_map(|ended| ended.outcome.as_ref().ok());
    let mut us: Vec<u64> =
        latencies.map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)).collect();
    us.sort_unstable();
    let due = (to - from).as_secs() * rate_per_s;
    (us.len() as u64 * 100 >= due * MEASURED_PERCENT_MIN).then(|| of_hundred(&us, 99))
}

/// Start and end of a measurement.
pub type Window = (Instant, Instant);

/// The p99 of payments in the phases of one round: quiet, with the flood or storm of handshakes, and with the same one
/// against a stand-in for the hub. `None` if too few payments ended. The evidence of handshakes has its own names for
/// the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub quiet_p99_us: Option<u64>,
    #[serde(rename = "storm_p99_us")]
    pub flood_p99_us: Option<u64>,
    /// The p99 with a flood of the same kind and rate against a server that answers everything immediately. It shows
    /// the machine's own share. Measured only for floods that keep the machine busy.
    #[serde(rename = "elsewhere_p99_us")]
    pub control_p99_us: Option<u64>,
}

impl Round {
    /// Computes the figures from the windows of the three phases.
    pub fn of(windows: [Option<Window>; 3], ended: &[EndedPayment], rate_per_s: u64) -> Self {
        let [quiet_p99_us, flood_p99_us, control_p99_us] = windows.map(|window| {
            let (from, to) = window?;
            p99_us(ended, from, to, rate_per_s)
        });
        Self { quiet_p99_us, flood_p99_us, control_p99_us }
    }

    /// The p99 with the flood, in thousandths of the p99 without it. If the machine was as slow with the flood against
    /// the stand-in, that p99 is the base.
    fn permille(self) -> Option<u64> {
        let before = self.quiet_p99_us?.max(self.control_p99_us.unwrap_or(0)).max(P99_FLOOR_US);
        Some(self.flood_p99_us?.saturating_mul(1_000) / before)
    }
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told = |us: Option<u64>| us.map_or_else(|| "–".to_owned(), |us| format!("{} ms", ms(us)));
        write!(f, "{} before the flood, {} during it", told(self.quiet_p99_us), told(self.flood_p99_us))?;
        match self.control_p99_us {
            None => Ok(()),
            control => write!(f, ", {} with the flood on a stand-in", told(control)),
        }
    }
}

/// Microseconds as milliseconds, or thousandths as a factor.
pub fn ms(us: u64) -> String {
    format!("{}.{}", us / 1_000, us % 1_000 / 100)
}

/// The median; `None` without values.
pub fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Number of successful payments, number of the others, and the failure of the first of these.
pub fn outcomes(ended: &[EndedPayment]) -> (u64, u64, Option<&str>) {
    let mut failures = ended.iter().filter_map(|ended| ended.outcome.as_ref().err());
    let failed = failures.clone().count();
    ((ended.len() - failed) as u64, failed as u64, failures.next().map(String::as_str))
}

/// Bounds of one attack in addition to the common bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum rate of writes to the disk that the attack causes, in KiB per second.
    pub written_kib_per_s_max: Option<u64>,
    /// Minimum number of delivered callbacks to the DFSP that rejects some, per thousand.
    pub delivered_permille_min: Option<u64>,
    /// Whether the attack comes through servers that the hub calls.
    pub calls: bool,
}

/// The result of one attack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackResult {
    pub name: String,
    pub what: String,
    #[serde(skip)]
    pub rounds: Vec<Round>,
    /// The rounds in words: payments' p99 in milliseconds.
    pub p99: Vec<String>,
    /// The median over the rounds of the p99 with the flood, in thousandths of the p99 before.
    pub p99_permille: Option<u64>,
    /// Latencies of new connections of an honest DFSP, from the connection to the answer.
    #[serde(skip)]
    pub connected: Vec<Round>,
    /// The median over the rounds of their p99, in thousandths of the p99 before. Absent in runs before 2026-11-29.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_permille: Option<u64>,
    /// The rounds of new connections in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connected_p99: Vec<String>,
    /// Log output of the hub during the flood, in KiB per minute.
    #[serde(default)]
    pub logged_kib_per_min: u64,
    pub rss_mib_max: u64,
    /// Additional writes of the hub to the disk during the flood, in KiB per second.
    pub written_kib_per_s: u64,
    /// Requests that the attacker sent (short ones in blocks of 64), or connections that it opened and held.
    pub sent: u64,
    /// Connections that the hub opened to the attacker's endpoint in the meantime.
    pub called: u64,
    /// The start of the first answer to the attacker.
    pub answered: String,
    /// Successful honest payments.
    pub paid: u64,
    pub failed: u64,
    /// Honest requests on new connections, to the ports of DFSPs and operators, that were answered correctly.
    pub asked: u64,
    pub unanswered: u64,
    /// Finally delivered callbacks to the DFSP that rejects some, per thousand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_permille: Option<u64>,
    /// Problems other than the figures: the hub ended, or the audit has findings.
    pub findings: Vec<String>,
    pub violations: Vec<String>,
}

impl AttackResult {
    /// Computes the medians and compares all figures with the bounds.
    #[must_use]
    pub fn judged(mut self, bounds: Bounds) -> Self {
        self.p99_permille = median_permille(&self.rounds);
        self.p99 = self.rounds.iter().map(ToString::to_string).collect();
        self.connected_permille = median_permille(&self.connected);
        self.connected_p99 = self.connected.iter().map(ToString::to_string).collect();
        self.violations = self.findings.clone();
        let mut broken = |is_broken: bool, what: String| {
            if is_broken {
                self.violations.push(what);
            }
        };
        let too_slow = self.p99_permille.is_none_or(|permille| permille > P99_PERMILLE_MAX);
        broken(too_slow, format!("payments' p99 is {} of the p99 before", times(self.p99_permille)));
        let connects_slowly = self.connected_permille.is_none_or(|permille| permille > P99_PERMILLE_MAX);
        let connected = times(self.connected_permille);
        broken(connects_slowly, format!("new connections' p99 is {connected} of the p99 before"));
        let logged = self.logged_kib_per_min;
        broken(logged > LOGGED_KIB_PER_MIN_MAX, format!("the hub logged {logged} KiB a minute"));
        broken(lasts(&self.rounds), "payments' p99 stays high after the flood".to_owned());
        broken(self.rss_mib_max > RSS_MIB_MAX, format!("the hub used {} MiB", self.rss_mib_max));
        broken(self.rss_mib_max == 0, "the hub's memory was not measured".to_owned());
        let (paid, failed) = (self.paid, self.failed);
        broken(failed > 0, format!("{failed} honest payments of {} failed", paid + failed));
        let unanswered = self.unanswered;
        let asked = self.asked + unanswered;
        broken(
            unanswered > 0,
            format!("{unanswered} of {asked} honest requests on new connections were not answered"),
        );
        broken(asked == 0, "no honest request was sent on a new connection".to_owned());
        broken(self.sent == 0, "the attack sent nothing".to_owned());
        broken(bounds.calls && self.called == 0, "the hub did not call the attacker's endpoint".to_owned());
        let written = self.written_kib_per_s;
        let is_too_much = bounds.written_kib_per_s_max.is_some_and(|most| written > most);
        broken(is_too_much, format!("the hub wrote {written} KiB a second"));
        let delivered = self.delivered_permille.unwrap_or(0);
        let is_too_little = bounds.delivered_permille_min.is_some_and(|least| delivered < least);
        broken(
            is_too_little,
            format!("only {delivered} of 1,000 callbacks were delivered to the DFSP that rejects 100"),
        );
        self
    }
}

fn median_permille(rounds: &[Round]) -> Option<u64> {
    median(rounds.iter().copied().map(Round::permille).collect::<Option<_>>()?)
}

/// Whether payments are still slow in the quiet phases after a flood. They are if even the quietest of the later rounds
/// is slow.
fn lasts(rounds: &[Round]) -> bool {
    let quiet = |round: &Round| round.quiet_p99_us.unwrap_or(u64::MAX);
    let Some(first) = rounds.first() else { return false };
    let least = rounds[1..].iter().map(quiet).min().unwrap_or(0);
    least.saturating_mul(1_000) / quiet(first).max(P99_FLOOR_US) > P99_PERMILLE_MAX
}

/// Thousandths as a factor.
pub fn times(permille: Option<u64>) -> String {
    permille.map_or_else(|| "not measured".to_owned(), |permille| format!("{} ×", ms(permille)))
}

/// A run of several attacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttacksRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    pub rate_per_s: u64,
    /// Duration of each phase of a round, in seconds.
    pub phase_s: u64,
    pub attacks: Vec<AttackResult>,
}

impl AttacksRun {
    /// Creates a run from results. Without `commit`, the hub is of this program's commit.
    pub fn new(plan: &Plan, commit: Option<String>, duration: Duration, attacks: Vec<AttackResult>) -> Self {
        let mut provenance =
            Provenance { build: hub_binary::build_of(&plan.binary), ..Provenance::now(duration) };
        if let Some(commit) = commit {
            provenance.commit = commit;
        }
        Self { provenance, rate_per_s: plan.rate_per_s, phase_s: plan.phase.as_secs(), attacks }
    }

    /// The newest result of each attack, by name. A run of a single attack replaces only the result of this attack. All
    /// other data come from the last run.
    pub fn newest(runs: &[Self]) -> Option<Self> {
        let all = runs.iter().flat_map(|run| &run.attacks);
        let newest: BTreeMap<_, _> = all.map(|attack| (&attack.name, attack)).collect();
        Some(Self { attacks: newest.into_values().cloned().collect(), ..runs.last()?.clone() })
    }

    pub fn broken(&self) -> usize {
        self.attacks.iter().filter(|attack| !attack.violations.is_empty()).count()
    }

    /// The objectives and their results in words.
    pub fn aims(&self) -> String {
        let slowest = self.attacks.iter().map(|attack| attack.p99_permille);
        // An attack without a p99 counts as worse than any with one.
        let slowest =
            if slowest.clone().any(|permille| permille.is_none()) { None } else { slowest.flatten().max() };
        let memory = self.attacks.iter().map(|attack| attack.rss_mib_max).max().unwrap_or(0);
        format!(
            "payments' p99 ≤ {} × (of at least {} ms): {}; ≤ {RSS_MIB_MAX} MiB: {memory}; no crash, no \
             failed payment",
            P99_PERMILLE_MAX / 1_000,
            P99_FLOOR_US / 1_000,
            times(slowest)
        )
    }
}

impl AttackResult {
    /// The result in lines for a terminal.
    pub fn summary(&self) -> String {
        let verdict = if self.violations.is_empty() { "kept" } else { "BROKEN" };
        let Self { name, rss_mib_max, written_kib_per_s, paid, failed, asked, .. } = self;
        let Self { unanswered, sent, answered, called, logged_kib_per_min, .. } = self;
        let mut text = format!(
            "{name}: {verdict}: p99 {} ({}); new connections {} ({}); {rss_mib_max} MiB; {written_kib_per_s} KiB/s more \
             written; {logged_kib_per_min} KiB/min logged; {paid} payments, {failed} failed; {asked} requests, \
             {unanswered} unanswered; {sent} sent, answered {answered:?}, {called} calls",
            times(self.p99_permille),
            self.p99.join("; "),
            times(self.connected_permille),
            self.connected_p99.join("; "),
        );
        if let Some(permille) = self.delivered_permille {
            text.push_str(&format!("; {permille} of 1,000 delivered"));
        }
        self.violations.iter().for_each(|violation| text.push_str(&format!("\n    {violation}")));
        text
    }
}

/// The subject of its file of evidence. The first run there is of the hub before it was hardened against the attacks.
pub const SUBJECT: Subject = Subject {
    name: "attacks",
    what: "floods with no credential, or with one DFSP's, during honest payments",
    command: "torture attacks --report docs/evidence",
};

#[cfg(test)]
mod tests {
    use upesi_lab::result::evidence::Evidence;

    use super::*;

    fn round(quiet: u64, flood: u64, control: Option<u64>) -> Round {
        Round { quiet_p99_us: Some(quiet), flood_p99_us: Some(flood), control_p99_us: control }
    }

    fn good() -> AttackResult {
        AttackResult {
            rounds: vec![round(6_000, 9_000, None); 3],
            connected: vec![round(6_000, 9_000, None); 3],
            rss_mib_max: 40,
            sent: 9,
            called: 1,
            paid: 1_000,
            asked: 30,
            delivered_permille: Some(900),
            written_kib_per_s: 100,
            ..AttackResult::default()
        }
    }

    const BOUNDS: Bounds =
        Bounds { written_kib_per_s_max: Some(1_024), delivered_permille_min: Some(850), calls: true };

    /// Each figure alone breaks the promise when it is out of its bounds, and not before.
    #[test]
    fn figure_out_of_its_bound_is_a_violation() {
        type Change = fn(&mut AttackResult);
        let cases: [(Change, usize, &str); 25] = [
            (|_| {}, 0, "nothing"),
            (|it| it.rounds = vec![round(6_000, 18_000, None); 3], 0, "exactly three times"),
            (|it| it.rounds = vec![round(6_000, 18_007, None); 3], 1, "more than three times"),
            (|it| it.rounds = vec![round(100, 15_000, None); 3], 0, "three times the floor"),
            (|it| it.rounds = vec![round(100, 15_006, None); 3], 1, "more than that"),
            (|it| it.rounds = vec![round(6_000, 30_000, Some(10_000)); 3], 0, "as slow without the hub"),
            (|it| it.rounds = vec![round(6_000, 30_011, Some(10_000)); 3], 1, "slower with the hub"),
            (|it| it.rounds[1].flood_p99_us = Some(900_000), 0, "one round of three"),
            (|it| it.rounds[1..].fill(round(6_000, 900_000, None)), 1, "two rounds of three"),
            (|it| it.rounds[0].flood_p99_us = None, 1, "a flood during which too few payments ended"),
            (|it| it.rounds.clear(), 1, "no rounds"),
            (|it| it.rounds[1..].fill(round(19_000, 19_000, None)), 1, "quiet phases that stay slow"),
            (|it| it.connected = vec![round(6_000, 18_000, None); 3], 0, "connections exactly three times"),
            (|it| it.connected = vec![round(6_000, 18_007, None); 3], 1, "connections more than that"),
            (|it| it.connected.clear(), 1, "no new connections"),
            (|it| it.logged_kib_per_min = 1_025, 1, "the log"),
            (|it| it.rss_mib_max = 301, 1, "memory"),
            (|it| it.rss_mib_max = 0, 1, "memory that was not measured"),
            (|it| it.failed = 1, 1, "a payment"),
            (|it| it.unanswered = 1, 1, "a request"),
            (|it| it.sent = 0, 1, "an attack that never was"),
            (|it| it.called = 0, 1, "an endpoint that was not called"),
            (|it| it.written_kib_per_s = 1_025, 1, "the disk"),
            (|it| it.delivered_permille = Some(849), 1, "callbacks"),
            (|it| it.findings.push("the hub ended".into()), 1, "an end"),
        ];
        for (change, violations, what) in cases {
            let mut result = good();
            change(&mut result);
            let judged = result.judged(BOUNDS);
            assert_eq!(judged.violations.len(), violations, "{what}: {:?}", judged.violations);
        }
        let unbounded =
            AttackResult { written_kib_per_s: 1 << 20, called: 0, delivered_permille: None, ..good() };
        assert_eq!(unbounded.judged(Bounds::default()).violations, Vec::<String>::new());
    }

    #[test]
    fn p99_counts_payments_by_due_time_and_needs_enough() {
        let from = Instant::now();
        let ms = Duration::from_millis;
        let ended = |at: u64, outcome| EndedPayment { intended: from + ms(at), outcome };
        let mut all: Vec<EndedPayment> =
            (0..10).map(|number| ended(100 * number, Ok(ms(number + 1)))).collect();
        all.push(ended(1_000, Ok(ms(900))));
        assert_eq!(p99_us(&all, from, from + ms(1_000), 10), Some(10_000));
        assert_eq!(p99_us(&all, from, from + ms(1_000), 20), Some(10_000));
        assert_eq!(p99_us(&all, from, from + ms(1_000), 21), None);
        all[3].outcome = Err("refused".to_owned());
        assert_eq!(p99_us(&all, from, from + ms(1_000), 20), None);
    }

    #[test]
    fn factors_are_printed_with_one_decimal() {
        let text = "5.0 ms before the flood, – during it, 0.9 ms with the flood on a stand-in";
        let round = Round { flood_p99_us: None, ..round(5_010, 0, Some(999)) };
        assert_eq!(round.to_string(), text);
        assert_eq!((times(Some(2_961)), times(None)), ("2.9 ×".to_owned(), "not measured".to_owned()));
    }

    #[test]
    fn evidence_adds_runs_and_shows_their_worst_attack() {
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
