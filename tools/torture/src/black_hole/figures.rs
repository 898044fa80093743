//! The figures of three phases: before, while the DFSP is lost, and after. The evidence is `black-hole.json`, with one
//! entry for each run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use upesi_lab::result::evidence::{Provenance, Subject};
use upesi_lab::{AdminClient, Usage};
use upesi_types::FspId;

use super::books::BooksVerdict;
use super::{DFSPS, Plan};
use crate::hub_binary;

/// A phase of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Before,
    During,
    /// The DFSP is back, and receives the missed callbacks.
    After,
}

/// The figures of one phase. Latency is measured on transfers between the other DFSPs, from their due time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseResult {
    pub phase: Phase,
    pub seconds: u64,
    /// Successful transfers of the other DFSPs.
    pub completed: u64,
    pub failed: u64,
    /// Median latency.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// Maximum of each sampled value.
    #[serde(flatten)]
    pub most: Sample,
}

#[derive(Debug)]
struct Counting {
    phase: Phase,
    begun: Instant,
    lasted: Option<Duration>,
    latencies_us: Vec<u64>,
    failed: u64,
    most: Sample,
}

/// The figures of all phases while they are measured.
#[derive(Debug, Default)]
pub struct BlackHoleCounts(Mutex<Vec<Counting>>);

impl BlackHoleCounts {
    fn phases(&self) -> MutexGuard<'_, Vec<Counting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a phase.
    pub fn begin(&self, phase: Phase) {
        let (mut phases, begun) = (self.phases(), Instant::now());
        if let Some(last) = phases.last_mut() {
            last.lasted = Some(begun - last.begun);
        }
        let most = Sample::default();
        phases.push(Counting { phase, begun, lasted: None, latencies_us: Vec::new(), failed: 0, most });
    }

    /// Records the end of a transfer between the other DFSPs, in the phase of its due time.
    pub fn ended(&self, intended: Instant, ended: Option<Instant>) {
        let mut phases = self.phases();
        let Some(phase) = phases.iter_mut().rev().find(|phase| phase.begun <= intended) else { return };
        match ended {
            Some(ended) => {
                let us = ended.saturating_duration_since(intended).as_micros();
                phase.latencies_us.push(u64::try_from(us).unwrap_or(u64::MAX));
            }
            None => phase.failed += 1,
        }
    }

    /// Records a sample of the hub.
    pub fn sample(&self, sample: Sample) {
        if let Some(phase) = self.phases().last_mut() {
            phase.most = phase.most.most(sample);
        }
    }

    pub fn results(&self) -> Vec<PhaseResult> {
        self.phases().iter_mut().map(Counting::result).collect()
    }
}

impl Counting {
    fn result(&mut self) -> PhaseResult {
        self.latencies_us.sort_unstable();
        PhaseResult {
            phase: self.phase,
            seconds: self.lasted.unwrap_or_else(|| self.begun.elapsed()).as_secs(),
            completed: self.latencies_us.len() as u64,
            failed: self.failed,
            p50_us: of_hundred(&self.latencies_us, 50),
            p99_us: of_hundred(&self.latencies_us, 99),
            max_us: self.latencies_us.last().copied().unwrap_or(0),
            most: self.most,
        }
    }
}

/// The percentile of sorted values; 0 if there are none.
pub(crate) fn of_hundred(sorted: &[u64], part: usize) -> u64 {
    let rank = (sorted.len() * part).div_ceil(100);
    rank.checked_sub(1).map_or(0, |index| sorted[index])
}

/// Maximum growth of the others' p99, in thousandths.
pub const GROWTH_PERMILLE_MAX: i64 = 100;

/// A run of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlackHoleRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    pub seed: u64,
    pub dfsps: u64,
    pub rate_per_s: u64,
    /// Duration of the loss, in seconds.
    pub dark_s: u64,
    pub phases: Vec<PhaseResult>,
    /// Growth of the others' p99 while the DFSP was lost, in thousandths of the p99 before.
    pub p99_growth_permille: i64,
    /// Growth of the others' p99 while the DFSP received the missed callbacks, in thousandths of the p99 before.
    pub p99_growth_after_permille: i64,
    /// Time from the healing until nothing was owed or open. The load continued in the meantime.
    pub caught_up_after_ms: u64,
    /// Transfers with the lost DFSP that were answered 202.
    pub transfers_with_lost: u64,
    /// Callbacks that the hub owed the lost DFSP for these transfers, according to their ends; 0 in runs before this
    /// was counted.
    #[serde(default)]
    pub callbacks_owed: u64,
    /// Callbacks that the lost DFSP received, without repetitions: the owed ones, and answers to its late messages.
    pub callbacks_delivered: u64,
    pub callbacks_repeated: u64,
    /// Owed callbacks that did not come; in runs before these were counted, transfers that lacked callbacks.
    pub missing: u64,
    /// Transfers whose callbacks came in a different order than they were created.
    pub out_of_order: u64,
    pub violations: Vec<String>,
}

impl BlackHoleRun {
    pub(super) fn new(
        plan: &Plan,
        duration: Duration,
        phases: Vec<PhaseResult>,
        caught_up: Duration,
        verdict: BooksVerdict,
    ) -> Self {
        Self {
            provenance: Provenance { build: hub_binary::build_of(&plan.binary), ..Provenance::now(duration) },
            seed: plan.seed,
            dfsps: DFSPS as u64,
            rate_per_s: plan.rate_per_s,
            dark_s: plan.dark.as_secs(),
            p99_growth_permille: growth_permille(&phases, Phase::During),
            p99_growth_after_permille: growth_permille(&phases, Phase::After),
            phases,
            caught_up_after_ms: u64::try_from(caught_up.as_millis()).unwrap_or(u64::MAX),
            transfers_with_lost: verdict.transfers,
            callbacks_owed: verdict.owed,
            callbacks_delivered: verdict.delivered,
            callbacks_repeated: verdict.repeated,
            missing: verdict.missing,
            out_of_order: verdict.out_of_order,
            violations: verdict.violations,
        }
    }

    /// Whether the others were not affected. Meaningful only on a quiet machine.
    pub const fn is_within_bounds(&self) -> bool {
        self.p99_growth_permille <= GROWTH_PERMILLE_MAX
    }

    /// The result in lines for a terminal.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for phase in &self.phases {
            let PhaseResult { seconds, completed, failed, p50_us, p99_us, max_us, .. } = phase;
            let Sample { rss_kib, engine_queue, lane_items, owed, parked } = phase.most;
            text.push_str(&format!(
                "{:>7}: {seconds} s, {completed} transfers of the others, {failed} failed, p50 {p50_us} us, p99 {p99_us} us, \
                 max {max_us} us; hub {} MiB, {engine_queue} commands queued, {lane_items} callbacks in the lost \
                 one's lane, {owed} owed, {parked} parked at most\n",
                format!("{:?}", phase.phase).to_lowercase(),
                rss_kib / 1024,
            ));
        }
        let Self { p99_growth_permille, caught_up_after_ms, transfers_with_lost, callbacks_owed, .. } = self;
        let Self { callbacks_delivered, callbacks_repeated, missing, out_of_order, .. } = self;
        text.push_str(&format!(
            "the others' p99 changed by {p99_growth_permille} per mille (at most {GROWTH_PERMILLE_MAX}: {}); caught up \
             {caught_up_after_ms} ms after it was back; {transfers_with_lost} transfers with the lost one, {callbacks_owed} \
             callbacks owed, {callbacks_delivered} delivered, {callbacks_repeated} again, {missing} missing, {out_of_order} out \
             of order; {} violations",
            if self.is_within_bounds() { "met" } else { "missed" },
            self.violations.len(),
        ));
        text
    }
}

/// Growth of the p99 in a phase, in thousandths of the p99 before.
fn growth_permille(phases: &[PhaseResult], phase: Phase) -> i64 {
    let p99 = |phase| phases.iter().find(|result| result.phase == phase).map_or(0, |result| result.p99_us);
    let (before, then) = (p99(Phase::Before).max(1), p99(phase));
    i64::try_from(then.saturating_mul(1_000) / before).unwrap_or(i64::MAX) - 1_000
}

/// The subject of its file of evidence.
pub const SUBJECT: Subject = Subject {
    name: "black-hole",
    what: "one DFSP of eight accepts connections and never answers; then it is back",
    command: "torture black-hole --report docs/evidence",
};

/// Observed values of the hub, at one moment or their maximum. The evidence has the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    #[serde(rename = "hub_rss_kib_max")]
    pub rss_kib: u64,
    /// Commands in the hub's queue, sampled once a second.
    #[serde(rename = "engine_queue_max")]
    pub engine_queue: u64,
    /// Callbacks in the lane of the lost DFSP, in memory.
    #[serde(rename = "lane_items_max")]
    pub lane_items: u64,
    /// Owed callbacks to all DFSPs.
    #[serde(rename = "owed_max")]
    pub owed: u64,
    /// Parked callbacks among them, which an operator may send again.
    #[serde(rename = "parked_max")]
    pub parked: u64,
}

impl Sample {
    /// The maximum of each value.
    pub fn most(self, other: Self) -> Self {
        Self {
            rss_kib: self.rss_kib.max(other.rss_kib),
            engine_queue: self.engine_queue.max(other.engine_queue),
            lane_items: self.lane_items.max(other.lane_items),
            owed: self.owed.max(other.owed),
            parked: self.parked.max(other.parked),
        }
    }
}

/// Watches a hub during the trial.
#[derive(Debug)]
pub struct Watching {
    pid: u32,
    lost: FspId,
    last: Option<Sample>,
}

impl Watching {
    /// Creates an observer of a hub by its process id, and of the lane of a DFSP.
    pub const fn new(pid: u32, lost: FspId) -> Self {
        Self { pid, lost, last: None }
    }

    /// Takes a sample. `None` if the hub does not answer every query.
    pub async fn look(&mut self, admin: &AdminClient) -> Option<Sample> {
        self.last = None;
        let callbacks: Value = admin.read("/callbacks?limit=1").await.ok()?;
        let lanes: Value = admin.read("/lanes").await.ok()?;
        let metrics = admin.get("/metrics").await.ok()?;
        let (pending, parked) =
            (callbacks["totals"]["pending"].as_u64()?, callbacks["totals"]["parked"].as_u64()?);
        let rss = Usage::of(self.pid).map_or(0, |usage| usage.resident_bytes);
        self.last = Some(Sample {
            rss_kib: rss / 1024,
            engine_queue: gauge(std::str::from_utf8(&metrics).ok()?, "upesi_engine_queue_depth").unwrap_or(0),
            lane_items: lane_items(&lanes, self.lost.as_str()),
            owed: pending + parked,
            parked,
        });
        self.last
    }

    /// Whether nothing was owed at the last sample.
    pub fn owes_nothing(&self) -> bool {
        self.last.is_some_and(|sample| sample.owed == 0)
    }

    /// Whether a callback was parked at the last sample.
    pub fn is_parked(&self) -> bool {
        self.last.is_some_and(|sample| sample.parked > 0)
    }

    /// The owed callbacks at the last sample, in words.
    pub fn owes(&self) -> String {
        match self.last {
            Some(Sample { owed, parked, .. }) => format!("{owed} callbacks, {parked} of them parked"),
            None => "the hub does not answer".to_owned(),
        }
    }
}

fn lane_items(lanes: &Value, lost: &str) -> u64 {
    let lane = lanes.as_array().into_iter().flatten().find(|lane| lane["participant"] == lost);
    let Some(lane) = lane else { return 0 };
    ["queued", "retrying", "inFlight"].iter().filter_map(|name| lane[name].as_u64()).sum()
}

/// A metric without labels.
pub(crate) fn gauge(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use upesi_lab::result::evidence::Evidence;

    use super::*;

    #[test]
    fn percentile_is_one_of_the_values() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (values, part, expected) in [
            (&hundred[..], 50, 50),
            (&hundred[..], 99, 99),
            (&hundred[..], 100, 100),
            (&hundred[..1], 99, 1),
            (&hundred[..2], 50, 1),
            (&[], 99, 0),
        ] {
            assert_eq!(of_hundred(values, part), expected, "{part} of {}", values.len());
        }
    }

    #[test]
    fn transfer_counts_in_the_phase_of_its_due_time() {
        let figures = BlackHoleCounts::default();
        let early = Instant::now();
        figures.begin(Phase::Before);
        let intended = Instant::now();
        figures.begin(Phase::During);
        let ms = Duration::from_millis;
        figures.ended(intended, Some(intended + ms(3)));
        figures.ended(early, Some(early + ms(9)));
        figures.ended(Instant::now(), None);
        figures.sample(Sample { owed: 3, ..Sample::default() });
        figures.sample(Sample { owed: 2, parked: 1, ..Sample::default() });
        let results = figures.results();
        assert_eq!((results[0].completed, results[0].p99_us, results[0].failed), (1, 3_000, 0));
        assert_eq!((results[1].completed, results[1].failed), (0, 1));
        assert_eq!((results[1].most.owed, results[1].most.parked), (3, 1));
    }

    fn phase(phase: Phase, p99_us: u64) -> PhaseResult {
        PhaseResult {
            phase,
            seconds: 60,
            completed: 9_000,
            failed: 0,
            p50_us: 1_000,
            p99_us,
            max_us: 9_999,
            most: Sample { rss_kib: 30_000, engine_queue: 1, lane_items: 2, owed: 3, parked: 0 },
        }
    }

    fn run(before_us: u64, during_us: u64) -> BlackHoleRun {
        let plan = Plan {
            dark: Duration::from_secs(180),
            light: Duration::from_secs(60),
            rate_per_s: 200,
            seed: 1,
            binary: "target/release/upesi".into(),
            settings: Vec::new(),
            log: None,
        };
        let phases =
            vec![phase(Phase::Before, before_us), phase(Phase::During, during_us), phase(Phase::After, 1)];
        BlackHoleRun::new(
            &plan,
            Duration::from_secs(300),
            phases,
            Duration::from_secs(2),
            BooksVerdict::default(),
        )
    }

    #[test]
    fn growth_of_ten_percent_is_within_bounds() {
        for (before, during, permille, is_within) in [
            (1_000, 1_100, 100, true),
            (1_000, 1_101, 101, false),
            (2_000, 1_000, -500, true),
            (0, 0, -1_000, true),
        ] {
            let run = run(before, during);
            assert_eq!((run.p99_growth_permille, run.is_within_bounds()), (permille, is_within));
        }
        assert!(run(1_000, 1_200).summary().contains("200 per mille (at most 100: missed)"));
    }

    #[test]
    fn run_is_added_to_earlier_ones() {
        let directory = tempfile::tempdir().unwrap();
        for during in [1_000, 2_000] {
            Evidence::add(directory.path(), &SUBJECT, run(1_000, during)).unwrap();
        }
        let evidence = Evidence::<BlackHoleRun>::read(directory.path(), "black-hole").unwrap();
        let growths: Vec<_> = evidence.runs.iter().map(|run| run.p99_growth_permille).collect();
        assert_eq!((growths, evidence.name.as_str()), (vec![0, 1_000], "black-hole"));
        let mut provenances = evidence.runs.iter().map(|run| &run.provenance);
        assert!(provenances.all(|of| of.build == "release" && !of.command.is_empty()));
    }

    #[test]
    fn lanes_and_metrics_are_read() {
        let lanes = json!([
            {"participant": "dfsp-1", "queued": 9},
            {"participant": "dfsp-8", "queued": 3, "retrying": 2, "inFlight": 1, "catchingUp": true},
        ]);
        assert_eq!(lane_items(&lanes, "dfsp-8"), 6);
        assert_eq!(lane_items(&lanes, "dfsp-9"), 0);
        let metrics = "# TYPE upesi_engine_queue_depth gauge\nupesi_engine_queue_depth 17\nupesi_engine_queue_depth_x 3\n";
        assert_eq!(gauge(metrics, "upesi_engine_queue_depth"), Some(17));
        assert_eq!(gauge(metrics, "upesi_nothing"), None);
    }
}
