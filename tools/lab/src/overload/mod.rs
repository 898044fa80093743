//! `upesi lab overload`: the behaviour of a hub under many times its maximum load.
//!
//! After a warm-up, four phases: below the peak, at the peak, many times the peak, below the peak again. Transfers
//! arrive in open loop from all DFSPs equally, while a few other connections measure how fast rejections come. With
//! `--flood-from`, single DFSPs send many times the peak, while the others continue as before.

mod fairness;
mod figures;
mod prober;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use figures::{Conditions, Measured, OverloadReport, Times};
use prober::Prober;
use report::RunReport;
use upesi_process::exit::{Exit, Failure, Outcome};

use crate::failures::{cannot_create, runtime, software, unavailable, unless_any, usage};
use crate::result::evidence::{Evidence, Provenance, Subject};
use crate::{HubProcess, Load, RunOptions, Stage, TargetHub};

/// The load changes within this time.
const STEP: Duration = Duration::from_millis(1);
const PHASES: u32 = 4;
/// Transfers at the peak before the first phase: more than wait in memory for the archive, so that the hub has reached
/// the memory that the peak needs.
const WARM_UP_TRANSFERS: u64 = 70_000;
const WARM_UP_S_MIN: u64 = 3;
/// Warm-up of a run that does not measure memory.
const WARM_UP_S_FLOOD: u64 = 10;
/// Maximum number of transfers without an outcome; at the maximum, no more are sent.
const OUTSTANDING_MAX: usize = 10_000;
const DFSP_PREFIX: &str = "overload";
const SUBJECT: Subject = Subject {
    name: "overload",
    what: "many times the load that a hub accepts, from all DFSPs and from a single one",
    command: "make overload",
};

/// Arguments of `upesi lab overload`.
#[derive(Args, Clone, Debug)]
pub struct OverloadArguments {
    /// Maximum number of transfers per second that the hub should accept.
    ///
    /// The hub is started with this value of admission.rate_max. A hub that shares two cores with its load generator
    /// cannot receive ten times its capacity, but it can receive ten times its rate limit. The rejections are the same.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub peak: u32,
    /// Do not set admission.rate_max: --peak is the measured maximum of this machine.
    #[arg(long)]
    pub unbounded: bool,
    /// Load under overload, as a multiple of the peak.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub factor: u32,
    /// Number of DFSPs, out of --dfsps, that send the overload alone, while the others keep their share of --normal.
    /// The others are measured in three phases: before, flood, after.
    #[arg(long, value_name = "N")]
    pub flood_from: Option<usize>,
    /// Load of the first and the last phase, in percent of the peak.
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    pub normal: u32,
    /// Length of each phase, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub phase: u64,
    /// Load at the peak before the first phase, in seconds; by default 70,000 transfers, so that memory has reached its
    /// level, and ten seconds with --flood-from.
    #[arg(long, value_name = "SECONDS")]
    pub warm_up: Option<u64>,
    /// Number of repetitions, each with a new hub; the result has the medians.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Number of DFSPs.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Total number of connections from the DFSPs to the hub. Each costs the hub about 20 KiB.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=8_192))]
    pub connections: u32,
    /// Seed of the choice of payers and payees.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of threads of simulators and load; by default one per core, at most four.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Argument for the hub, such as --hub-argument=--set=admission.refusal_hold_ms=0. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub hub_argument: Vec<String>,
    /// Directory for overload.json and, for each run, result.json, the hub's log and its data.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Directory for the evidence of these runs, such as docs/evidence.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print overload.json to stdout instead of the tables.
    #[arg(long)]
    pub json: bool,
}

impl OverloadArguments {
    fn phase_length(&self) -> Duration {
        Duration::from_secs(self.phase.max(4))
    }

    fn warm_up_length(&self) -> Duration {
        let usual = match self.flood_from {
            Some(_) => WARM_UP_S_FLOOD,
            None => WARM_UP_TRANSFERS.div_ceil(u64::from(self.peak.max(1))),
        };
        Duration::from_secs(self.warm_up.unwrap_or(usual).max(WARM_UP_S_MIN))
    }

    fn normal_per_s(&self) -> u32 {
        u32::try_from(u64::from(self.peak) * u64::from(self.normal) / 100).unwrap_or(u32::MAX).max(1)
    }

    fn flood_per_s(&self) -> u32 {
        self.peak.saturating_mul(self.factor)
    }

    fn times(&self) -> Times {
        Times { warm_up: self.warm_up_length(), phase: self.phase_length() }
    }

    fn load(&self) -> Load {
        let normal = self.normal_per_s();
        self.staged(self.peak, &[normal, self.peak, self.flood_per_s(), normal])
    }

    /// A load that warms up at the first rate, and then has each of the other rates for a phase.
    fn staged(&self, first: u32, rates: &[u32]) -> Load {
        let stage = |level, length| Stage { level, length };
        let mut stages = vec![stage(first, self.warm_up_length())];
        for &rate in rates {
            stages.extend([stage(rate, STEP), stage(rate, self.phase_length() - STEP)]);
        }
        Load::Arrivals { start_per_s: first, stages, poisson: false, outstanding_max: OUTSTANDING_MAX }
    }

    fn validate(&self) -> Outcome {
        match self.flood_from {
            Some(flooders) if flooders == 0 || flooders + 2 > self.dfsps => {
                Err(usage("--flood-from must be at least 1, and leave at least two other --dfsps"))
            }
            _ => Ok(()),
        }
    }

    fn hub_arguments(&self) -> Vec<String> {
        let mut arguments = self.hub_argument.clone();
        if !self.unbounded {
            arguments.push(format!("--set=admission.rate_max={}", self.peak));
        }
        arguments
    }
}

/// Runs the phases the requested number of times. Fails with 1 if a goal is missed.
pub fn run(arguments: &OverloadArguments) -> Outcome {
    arguments.validate()?;
    match arguments.flood_from {
        None => repeat(arguments, measure),
        Some(_) => repeat(arguments, fairness::measure),
    }
}

fn repeat<R: Measured>(
    arguments: &OverloadArguments,
    measure: fn(&OverloadArguments, &Path) -> Result<R, Failure>,
) -> Outcome {
    let started = Instant::now();
    let mut runs = Vec::new();
    for number in 1..=arguments.runs {
        let out = match arguments.runs {
            1 => arguments.out.clone(),
            _ => arguments.out.join(format!("run-{number}")),
        };
        if arguments.runs > 1 {
            eprintln!("run {number} of {}", arguments.runs);
        }
        runs.push(measure(arguments, &out)?);
    }
    let report = OverloadReport::of(runs, Conditions::of(arguments), Provenance::now(started.elapsed()));
    let json = serde_json::to_string_pretty(&report).map_err(software)?;
    let write = |error| Failure::new(Exit::InputOutput, format!("cannot write into --out: {error}"));
    std::fs::write(arguments.out.join("overload.json"), &json).map_err(write)?;
    if let Some(directory) = &arguments.report {
        Evidence::add(directory, &SUBJECT, report.evidence().map_err(software)?)?;
    }
    upesi_process::exit::write_out(&if arguments.json { format!("{json}\n") } else { report.table() })?;
    unless_any(&report.missed())
}

/// A hub under measurement, on its own data directory.
struct MeasuredHub {
    hub: HubProcess,
    data: PathBuf,
}

impl MeasuredHub {
    fn start(arguments: &OverloadArguments, out: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(out).map_err(cannot_create(out))?;
        let (data, log) = (out.join("hub-data"), out.join("hub.log"));
        if data.exists() {
            let text =
                format!("{} exists already: the measured hub must start without a history", data.display());
            return Err(Failure::new(Exit::CannotCreate, text));
        }
        let binary = std::env::current_exe().map_err(unavailable)?;
        let hub_arguments = arguments.hub_arguments();
        let hub = HubProcess::start(&binary, &data, &hub_arguments, Some(&log));
        let hub = runtime()?.block_on(hub).map_err(unavailable)?;
        Ok(Self { hub, data })
    }

    /// The common options of all loads on the hub.
    fn options(&self, arguments: &OverloadArguments) -> RunOptions {
        RunOptions {
            warm_up: arguments.warm_up_length(),
            seed: arguments.seed,
            connections_max: usize::try_from(arguments.connections).ok(),
            workers: arguments.workers,
            target: Some(TargetHub {
                pids: vec![self.hub.pid()],
                durable: Some(true),
                ..TargetHub::at(self.hub.fspiop_url(), self.hub.admin_url())
            }),
            commit: upesi_process::version::commit().map(str::to_owned),
            ..RunOptions::default()
        }
    }

    /// The data of a failed run are evidence. After a successful run they are removed.
    fn tidy(&self, is_good: bool) {
        if is_good {
            let _ = std::fs::remove_dir_all(&self.data);
        }
    }
}

fn measure(arguments: &OverloadArguments, out: &Path) -> Result<RunReport, Failure> {
    let mut tried = MeasuredHub::start(arguments, out)?;
    let prober = Prober::start(&tried.hub.fspiop_url(), &format!("{DFSP_PREFIX}-1"), arguments.peak)?;
    let result = crate::drive::run::run(&RunOptions {
        dfsps: arguments.dfsps,
        load: arguments.load(),
        duration: arguments.phase_length() * PHASES,
        dfsp_prefix: DFSP_PREFIX.to_owned(),
        out: Some(out.to_owned()),
        ..tried.options(arguments)
    });
    let probes = prober.finish();
    tried.hub.end();
    let report = RunReport::of(&result?, &probes, arguments.peak, arguments.times());
    tried.tidy(report.audit_ok);
    Ok(report)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Duration;

    use clap::Parser;
    use serde_json::Value;

    use super::OverloadArguments;
    use super::fairness::{FairnessReport, loads, usual_per_s};
    use super::figures::{Conditions, OverloadReport, Refusals, Times};
    use super::prober::{Probe, Prober};
    use super::report::RunReport;
    use crate::Load;
    use crate::result::evidence::Provenance;
    use crate::result::schema::{HistogramResult, TimelineResult, TimelineRow};
    use crate::statistics::latency_histogram;

    const TIMES: Times = Times { warm_up: Duration::from_secs(5), phase: Duration::from_secs(10) };
    /// When the load falls.
    const FELL_S: u32 = 35;

    /// The figures of a second, or a step, of a phase, by its number.
    struct Conduct {
        overload: fn() -> (u64, f64),
        /// The figures of a tenth of a second after the load fell, by its number.
        after: fn(u32) -> (u64, f64),
        rss_mb: fn(u32) -> f64,
    }

    const GOOD: Conduct = Conduct { overload: || (950, 6.0), after: |_| (800, 4.0), rss_mb: |_| 100.0 };

    /// A row or a step that ends at `t`. A second has `part` of them.
    fn row(t: f64, part: u64, conduct: &Conduct) -> TimelineRow {
        let (offered, (completed, p99_ms)) = if t <= 5.0 {
            (1_000, (1_000, 5.0))
        } else if t <= 15.001 {
            (800, (800, 4.0))
        } else if t <= 25.001 {
            (1_000, (1_000, 5.0))
        } else if t <= 35.001 {
            (10_000, (conduct.overload)())
        } else {
            (800, (conduct.after)(((t - f64::from(FELL_S)) * 10.0).round() as u32))
        };
        TimelineRow {
            t,
            completed: completed / part,
            failed: (offered - completed) / part,
            offered: offered / part,
            p50_ms: Some(p99_ms),
            p99_ms: (completed > 0).then_some(p99_ms),
            max_ms: Some(p99_ms),
            hub_cpu_cores: Some(0.5),
            hub_rss_mb: Some((conduct.rss_mb)(t as u32)),
            ..TimelineRow::default()
        }
    }

    /// The latencies of a second with the same latency for all operations.
    fn histogram(row: &TimelineRow) -> String {
        let mut histogram = latency_histogram();
        histogram.saturating_record_n((row.p50_ms.unwrap_or(0.0) * 1e3) as u64, row.completed);
        HistogramResult::of(&histogram).v2_deflate_base64
    }

    const REFUSALS: Refusals = Refusals { count: 90_000, p50_ms: 0.3, p99_ms: 4.0, max_ms: 30.0 };

    fn run(conduct: &Conduct) -> RunReport {
        let rows: Vec<_> = (1..=45).map(|t| row(f64::from(t), 1, conduct)).collect();
        let timeline = TimelineResult {
            interval_s: 1,
            histograms: rows.iter().map(histogram).collect(),
            rows,
            steps: (1..=450).map(|t| row(f64::from(t) / 10.0, 10, conduct)).collect(),
        };
        let probe = |ms| Probe { status: 503, duration: Duration::from_millis(ms) };
        let probes: Vec<_> = (0..100).map(|index| probe(if index == 0 { 50 } else { 2 })).collect();
        RunReport { refusals: REFUSALS, audit_ok: true, ..RunReport::of_timeline(&timeline, &probes, TIMES) }
    }

    fn judged(runs: Vec<RunReport>) -> OverloadReport<RunReport> {
        OverloadReport::of(runs, Conditions::default(), Provenance::default())
    }

    fn report(conduct: &Conduct) -> OverloadReport<RunReport> {
        judged(vec![run(conduct)])
    }

    fn is(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-6
    }

    #[test]
    fn hub_that_holds_reaches_every_goal() {
        let report = report(&GOOD);
        assert_eq!(report.missed(), Vec::<String>::new());
        let run = &report.runs[0];
        assert!(is(run.goodput, 0.95) && is(run.p99_factor, 1.5), "{run:?}");
        assert!((run.p99_whole_factor - 1.5).abs() < 0.05, "{run:?}");
        assert!(run.recovery_s.is_some_and(|s| is(s, 0.1)), "one step: {:?}", run.recovery_s);
        assert_eq!(run.probes.count, 100);
        assert!(is(run.probes.p99_ms, 2.0) && is(run.probes.max_ms, 50.0));
        // Two of the ten seconds of each phase are reported separately, and the step is included.
        assert!(
            run.phases.iter().all(|phase| (phase.step.seconds, phase.figures.seconds) == (2, 8)),
            "{run:?}"
        );
        assert!(is(run.phases[2].step.completed_per_s, 950.0));
        assert_eq!(report.offered, 100_000);
        assert!(is(run.usual.p99_ms_max, 4.4) && is(run.usual.completed_per_s_min, 720.0), "{:?}", run.usual);
        let table = report.table();
        assert!(table.contains("goodput under overload     95.00") && !table.contains("missed"), "{table}");
    }

    #[test]
    fn hub_that_breaks_down_misses_its_goals() {
        let after = |tenth| match tenth {
            // The hub accepts everything again immediately, but late, and settles only at the end.
            0..=30 => (800, 90.0),
            40 => (800, 90.0),
            _ => (800, 4.0),
        };
        let rss_mb = |t| if t > 25 { 120.0 } else { 100.0 };
        let report = report(&Conduct { overload: || (100, 900.0), after, rss_mb });
        let missed = report.missed();
        let begins = [
            "goodput under overload is 10.00",
            "p99 of accepted",
            "p99 of all",
            "growth of memory is 20.00",
            "recovery is 3.10",
        ];
        assert_eq!(missed.len(), begins.len(), "{missed:?}");
        for (missed, begin) in missed.iter().zip(begins) {
            assert!(missed.starts_with(begin), "{missed}");
        }
        assert!(
            report.table().contains("100 ms after:    800 committed/s,      0 not committed, p99 90.00 ms")
        );
    }

    #[test]
    fn memory_at_the_peak_is_not_growth() {
        let rss_mb = |t: u32| f64::from(t.min(20)) * 10.0;
        let run = run(&Conduct { rss_mb, ..GOOD });
        assert!(is(run.rss_warm_mb, 200.0) && is(run.rss_growth, 0.0), "{run:?}");
    }

    #[test]
    fn single_good_step_is_not_a_recovery() {
        let flickering =
            run(&Conduct { after: |tenth| (800, if tenth % 3 == 0 { 9.0 } else { 4.0 }), ..GOOD });
        assert_eq!(flickering.recovery_s, None);
        let silent = run(&Conduct { after: |tenth| (if tenth > 5 { 800 } else { 0 }, 4.0), ..GOOD });
        assert!(silent.recovery_s.is_some_and(|s| is(s, 0.6)), "{:?}", silent.recovery_s);
    }

    #[test]
    fn goals_are_judged_by_medians_of_runs() {
        let slow = Conduct { overload: || (800, 30.0), ..GOOD };
        let report = judged(vec![run(&GOOD), run(&slow), run(&GOOD)]);
        assert_eq!(report.missed(), Vec::<String>::new());
        let goodput = &report.aims[0];
        assert!(
            is(goodput.median, 95.0) && is(goodput.lowest, 80.0) && is(goodput.highest, 95.0),
            "{goodput:?}"
        );
        let report = judged(vec![run(&slow), run(&slow), run(&GOOD)]);
        assert_eq!(report.missed().len(), 3, "{:?}", report.missed());
        let mut late = run(&GOOD);
        late.findings.push("the load generator did not keep its schedule".to_owned());
        let report = judged(vec![run(&GOOD), late]);
        assert_eq!(report.missed(), ["run 2: the load generator did not keep its schedule"]);
    }

    #[test]
    fn prober_continues_on_a_new_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // Each response ends its connection.
        let hub = std::thread::spawn(move || {
            for stream in listener.incoming().take(9) {
                let (mut stream, mut request, mut piece) = (stream.unwrap(), Vec::new(), [0; 1024]);
                while !request.ends_with(b"{}") {
                    let length = stream.read(&mut piece).unwrap();
                    assert!(length > 0, "a request that ends early");
                    request.extend_from_slice(&piece[..length]);
                }
                assert!(request.starts_with(b"POST /transfers HTTP/1.1\r\n"));
                let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}";
                stream.write_all(answer).unwrap();
            }
        });
        let prober = Prober::start(&url, "a", 1_000_000).unwrap();
        hub.join().unwrap();
        let probes = prober.finish();
        assert_eq!(probes.iter().map(|probe| probe.status).collect::<Vec<_>>(), [503; 9]);
    }

    #[test]
    fn run_without_rejections_misses_its_goals() {
        let quiet = RunReport { refusals: Refusals::default(), ..run(&GOOD) };
        let missed = judged(vec![quiet]).missed();
        assert_eq!(missed, ["p99 of refusals is inf ms, not ≤ 10"]);
    }

    #[test]
    fn evidence_has_machine_and_command_but_no_steps() {
        let mut report = report(&GOOD);
        report.provenance.command = "upesi lab overload --peak 600".to_owned();
        report.provenance.build = "release".to_owned();
        report.conditions = Conditions { seed: 7, connections: 256, dfsps: 8, ..Conditions::default() };
        assert!(!report.runs[0].recovery_steps.is_empty());
        let entry = report.evidence().unwrap();
        for name in ["commit", "machine", "build", "date", "duration_s", "hub_arguments", "phase_s", "step_s"]
        {
            assert!(entry.get(name).is_some(), "{name}: {entry}");
        }
        assert_eq!((&entry["seed"], &entry["connections"]), (&Value::from(7), &Value::from(256)));
        assert_eq!(entry["command"], "upesi lab overload --peak 600");
        assert_eq!(entry["flooders"], Value::Null, "all alike");
        assert!(entry["runs"][0].get("recovery_steps").is_none(), "{entry}");
        assert_eq!(entry["runs"][0]["phases"][0]["step"]["seconds"], 2);
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: OverloadArguments,
    }

    fn arguments(line: &str) -> OverloadArguments {
        Line::parse_from(["overload", "--out", "out"].into_iter().chain(line.split_whitespace())).arguments
    }

    #[test]
    fn flooders_leave_the_others_their_share() {
        let one = arguments("--peak 600 --flood-from 1 --phase 20");
        assert_eq!(usual_per_s(&one, 1), (420, 60));
        let [others, flood] = loads(&one, 1);
        assert!(matches!(others, Load::Open { rate_per_s: 420, .. }), "{others:?}");
        // Warm-up, its share, ten times the peak, its share again.
        let levels: Vec<u32> = flood.stages().iter().map(|stage| stage.level).collect();
        assert_eq!(levels, [60, 60, 60, 6_000, 6_000, 60, 60]);
        assert_eq!(flood.stages_length(), Some(Duration::from_secs(10 + 3 * 20)));
        for (line, is_valid) in [
            ("", true),
            ("--flood-from 1", true),
            ("--flood-from 6", true),
            ("--flood-from 7", false),
            ("--flood-from 0", false),
            ("--flood-from 1 --dfsps 3", true),
            ("--flood-from 1 --dfsps 2", false),
        ] {
            assert_eq!(arguments(line).validate().is_ok(), is_valid, "{line}");
        }
    }

    /// The completed part and the latency of the others, by the phase of each second.
    fn fairness(apart_s: f64, flooded: (u64, f64)) -> FairnessReport {
        let rows = |offered: fn(bool) -> u64, got: &dyn Fn(bool) -> (u64, f64), apart_s: f64| {
            let row = |t: u32| {
                let since = f64::from(t) - apart_s;
                let is_flood = since > 15.0 && since <= 25.0;
                let (completed, p99_ms) = got(is_flood);
                let failed = offered(is_flood) - completed;
                let (t, p99_ms) = (f64::from(t), Some(p99_ms));
                TimelineRow {
                    t,
                    completed,
                    failed,
                    offered: completed + failed,
                    p50_ms: p99_ms,
                    p99_ms,
                    ..TimelineRow::default()
                }
            };
            let rows: Vec<_> = (1..=50).map(row).collect();
            TimelineResult {
                histograms: rows.iter().map(histogram).collect(),
                rows,
                ..TimelineResult::default()
            }
        };
        let others = rows(|_| 420, &|is_flood| if is_flood { flooded } else { (420, 4.0) }, apart_s);
        let flooders = rows(
            |is_flood| if is_flood { 6_000 } else { 60 },
            &|is_flood| if is_flood { (180, 50.0) } else { (60, 4.0) },
            0.0,
        );
        let report = FairnessReport::of_timelines(&others, &flooders, apart_s, TIMES);
        FairnessReport { refusals: REFUSALS, audit_ok: true, ..report }
    }

    fn missed_of(report: FairnessReport) -> Vec<String> {
        OverloadReport::of(vec![report], Conditions::default(), Provenance::default()).missed()
    }

    #[test]
    fn others_are_measured_by_the_start_of_the_flood() {
        for apart_s in [0.0, 3.0] {
            let report = fairness(apart_s, (418, 6.0));
            assert!(is(report.goodput_before, 1.0) && is(report.goodput, 418.0 / 420.0), "{report:?}");
            assert!(is(report.p99_factor, 1.5), "{report:?}");
            let flood = &report.flooders[1];
            assert!(is(flood.figures.failed_per_s, 5_820.0) && is(flood.figures.completed_per_s, 180.0));
            assert_eq!(missed_of(report), Vec::<String>::new());
        }
    }

    #[test]
    fn starved_or_slow_others_miss_goals() {
        let starved = missed_of(fairness(0.0, (210, 4.0)));
        assert_eq!(starved, ["goodput of the others is 50.00 % of their load, not ≥ 95"]);
        let slow = missed_of(fairness(0.0, (420, 12.0)));
        assert_eq!(slow.len(), 2, "{slow:?}");
        assert!(slow[0].starts_with("p99 of the others is 3.00 times"), "{slow:?}");
    }
}
