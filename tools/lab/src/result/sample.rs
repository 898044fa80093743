//! A load generator's result for tests, in which nothing is left out.
#![expect(clippy::float_arithmetic, reason = "comparing measurements; no money")]

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use upesi_sim::{Counters, DfspSettings};

use super::latency::written;
use crate::drive::parallel::LoadResult;
use crate::drive::system::TargetRecord;
use crate::judge::answers::AnswerCheck;
use crate::judge::audit::{Originated, PositionCheck};
use crate::observe::machine::{Build, Environment, Storage};
use crate::observe::tally::Exchanges;
use crate::observe::timeline::interval_histogram;
use crate::plan::load_profile::Load;
use crate::plan::options::{Baseline, Settlement};
use crate::plan::scenario::Scenario;
use crate::plan::section::Security;
use crate::result::latency::{LatencyMs, PhaseResult, Phases};
use crate::result::schema::{
    BreakpointResult, DriftResult, DriftRow, HistogramResult, Limit, MachineResult, Parameter, Probe,
    ProcessRow, ProgrammeCheck, Queues, SettlementResult, StageResult, TargetCheck, ThresholdCheck,
    Thresholds, TimelineResult, TimelineRow, Validity, WindowResult,
};
use crate::result::statistics::latency_histogram;
use crate::result::{
    AuditSummary, BaselineResult, LabResult, OptionsEcho, ProcessResult, SCHEMA_VERSION, ScheduleResult,
    SliceResult,
};

/// So many operations of that latency.
fn latencies(mut empty: Histogram<u64>, ms: u64, count: u64) -> Histogram<u64> {
    empty.saturating_record_n(ms * 1_000, count);
    empty
}

fn process(cpu_us: f64) -> ProcessResult {
    ProcessResult {
        cpu_us_per_operation: Some(cpu_us),
        cpu_us_per_transfer: Some(cpu_us),
        cores: Some(0.5),
        rss_mb: 100.0,
        rss_peak_mb: 120.0,
    }
}

pub(crate) fn process_row(name: &str, cpu_us: f64) -> ProcessRow {
    ProcessRow {
        name: name.to_owned(),
        cpu_us_per_operation: Some(cpu_us),
        cores: Some(0.5),
        rss_mb: Some(100.0),
        rss_peak_mb: Some(120.0),
        disk_write_mb: Some(7.0),
        context_switches_voluntary: Some(5),
        context_switches_involuntary: Some(6),
        waited_share: Some(0.1),
    }
}

fn phases(latency: &Histogram<u64>, count: u64) -> Phases {
    let exchanges = Exchanges {
        originated: Originated { sent: count + 1, accepted: count, refused: 1, unanswered: 2 },
        completed: count,
        errors: 3,
        wrong: 4,
        late: 5,
    };
    let phase = PhaseResult { latency_ms: LatencyMs::of(latency), exchanges };
    Phases { discovery: Some(phase), agreement: Some(phase), conversion: Some(phase), transfer: Some(phase) }
}

fn check(value: f64) -> ThresholdCheck {
    ThresholdCheck { name: "success_share".to_owned(), limit: 0.99, value, met: value >= 0.99 }
}

fn target(name: &'static str, limit: f64) -> TargetCheck {
    TargetCheck { name: name.into(), limit, measured: 1.0, met: true }
}

fn row(t: f64, ms: u64, count: u64) -> TimelineRow {
    let queues =
        Queues { ingress: Some(1.0), engine: Some(count as f64), callbacks: Some(3.0), relay: Some(4.0) };
    TimelineRow {
        t,
        completed: count,
        failed: 1,
        offered: count + 1,
        share_over_1s: Some(if ms > 1_000 { 1.0 } else { 0.0 }),
        hub_cpu_cores: Some(0.7),
        hub_rss_mb: Some(64.0),
        hub_disk_mb: Some(9.0),
        queues,
        ..crate::observe::timeline::percentiles(&latencies(interval_histogram(), ms, count))
    }
}

/// A result in which nothing is left out, neither here nor in the file: what is added to a result must be added here.
#[allow(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn full(instance: u32, ms: u64, count: u64) -> LabResult {
    let latency = latencies(latency_histogram(), ms, count);
    let written_latency = written(&latency);
    let second = written(&latencies(interval_histogram(), ms, count));
    let environment = Environment {
        cores: 4 * instance as usize,
        cpu: Some("a processor".to_owned()),
        memory_mb: Some(8_000),
        kernel: Some("6.1".to_owned()),
        version: "1".to_owned(),
        build: Build::default(),
        commit: Some("abc".to_owned()),
        storage: Some(Storage { device: "/dev/vda".to_owned(), filesystem: "ext4".to_owned() }),
        durability: Some("synced".to_owned()),
        hub: Some(TargetRecord {
            lookups: "http://hub".to_owned(),
            quotes: "http://hub".to_owned(),
            transfers: "http://hub".to_owned(),
            admin: "http://admin".to_owned(),
            metrics: vec!["http://admin".to_owned()],
            pids: vec![instance],
        }),
        started_at: "2026-01-01T00:00:00.000Z".to_owned(),
    };
    let options = OptionsEcho {
        scenario: Scenario::Payments,
        dfsps: 3,
        parties: 50,
        existing_transfers: 7,
        instance: Some(instance),
        load: Load::Closed { users: instance as usize },
        duration_s: 20.0,
        warm_up_s: 2.0,
        slices: 1,
        amount: "2".to_owned(),
        currency: "XXX".to_owned(),
        unidirectional: false,
        pairs: "uniform".to_owned(),
        cool_down_s: 0.5,
        fxps: 1,
        payees_convert: true,
        bulk_items: 1,
        settlement: Settlement { gross: true, every_ms: Some(5_000) },
        hub_arguments: vec!["--set=x".to_owned()],
        behaviour: DfspSettings::default(),
        trace: true,
        baselines: vec![Baseline::Forwarder],
        workers: 2,
        security: Security::default(),
    };
    let slice = SliceResult { seconds: 20.0, completed: count, throughput_per_s: count as f64 / 20.0 };
    let baseline = BaselineResult {
        name: "forwarder".into(),
        throughput_per_s: 1.0,
        ratio: Some(1.0),
        latency_ms: LatencyMs::of(&latency),
        phases: phases(&latency, count),
        process: Some(process(1.0)),
        lab: process(1.0),
        completed: 1,
        failed: 1,
        slices: vec![slice.clone()],
    };
    LabResult {
        schema_version: SCHEMA_VERSION,
        name: "payments".to_owned(),
        title: "Payments".to_owned(),
        description: "Some".to_owned(),
        kind: "end-to-end".into(),
        unit: "payment".into(),
        parameters: BTreeMap::from([("users".to_owned(), Parameter::Number(i64::from(instance)))]),
        scenario: "payments".into(),
        environment,
        options,
        load_began_at: Some(format!("2026-01-01T00:00:0{instance}.000Z")),
        seed: 1,
        target: "http://hub".to_owned(),
        completed: count,
        failed: 1,
        lost: 2,
        late: 3,
        originated: Originated { sent: count, accepted: count, refused: 1, unanswered: 2 },
        throughput_per_s: count as f64 / 20.0,
        latency_ms: LatencyMs::of(&latency),
        http_ms: LatencyMs::of(&latency),
        refusals: 3,
        refusal_ms: LatencyMs::default(),
        phases: phases(&latency, count),
        schedule: Some(ScheduleResult {
            due: count + 1,
            lag_ms_p50: ms as f64,
            lag_ms_p99: ms as f64,
            lag_ms_max: ms as f64,
            skipped: 1,
            valid: false,
        }),
        hub: Some(process(400.0)),
        lab: process(100.0),
        durable: Some(true),
        baseline: Some(baseline.clone()),
        ratio: Some(1.0),
        more_baselines: vec![baseline],
        slices: vec![slice],
        simulators: Counters { prepares_received: count, ..Counters::default() },
        settlement: Some(SettlementResult { runs: 2, windows: 1, settlements: 1, slowest_ms: 40 }),
        audit: AuditSummary {
            ok: true,
            performed: true,
            positions_ok: true,
            sum_ok: true,
            accepted: count,
            finished: count - 1,
            in_flight: 1,
            lost: 2,
            doubled: 3,
            contradictions: 4,
            callbacks_repeated: 5,
            answers: vec![AnswerCheck {
                phase: "discovery".into(),
                accepted: 7,
                right: 6,
                errors: 1,
                wrong: 2,
                late: 3,
            }],
            positions: vec![PositionCheck {
                participant: format!("dfsp{instance}-1"),
                currency: "XXX".to_owned(),
                hub: "0".to_owned(),
                books: "0".to_owned(),
                ok: true,
            }],
            findings: vec!["something".to_owned()],
        },
        timeline: Some(TimelineResult {
            interval_s: 1,
            rows: vec![row(1.0, ms, count), row(2.0, ms, count), row(3.0, ms, count)],
            histograms: vec![second; 3],
            steps: Vec::new(),
        }),
        histogram: Some(HistogramResult {
            phases: ["discovery", "agreement", "conversion", "transfer"]
                .map(|name| (name.into(), written_latency.clone()))
                .into(),
            schedule_lag: Some(written_latency),
            ..HistogramResult::of(&latency)
        }),
        stages: vec![StageResult {
            stage: format!("stage of {instance}"),
            operations: 1,
            per_s: 1.0,
            mean_us: 1.0,
            p50_us: Some(1.0),
            p99_us: Some(1.0),
            queue_depth: Some(1.0),
            batch_mean: Some(1.0),
            cpu_share: Some(1.0),
        }],
        processes: vec![process_row("hub", 400.0), process_row("lab", 100.0), process_row("forwarder", 1.0)],
        validity: Validity::of(vec!["lagged".to_owned()]),
        thresholds: Some(Thresholds {
            met: false,
            findings: vec!["some failed".to_owned()],
            checked: vec![check(0.5)],
        }),
        machine: Some(MachineResult {
            shared: true,
            full: true,
            other_programs_share: Some(0.1),
            words: "shared".to_owned(),
        }),
        window: WindowResult {
            trimmed_start_s: 2.0,
            trimmed_end_s: 0.5,
            seconds: 20.0,
            stolen_share: Some(0.01 * f64::from(instance)),
            idle_share: Some(0.3),
        },
        loads: vec![LoadResult {
            operation: Scenario::Quotes,
            load: Load::Open { rate_per_s: 1, outstanding_max: 1 },
            completed: count,
            failed: 1,
            throughput_per_s: 1.0,
            latency_ms: LatencyMs::of(&latency),
            phases: phases(&latency, count),
            schedule: Some(ScheduleResult::default()),
        }],
        repetitions: vec![count as f64 / 20.0],
        repeated: BTreeMap::from([("latency_ms.p99".into(), vec![ms as f64])]),
        targets: vec![target("p99_ms", 1_000.0), target("throughput_per_s", 3.0), target("lost", 2.0)],
        breakpoint: Some(BreakpointResult {
            highest_met_per_s: Some(1),
            lowest_missed_per_s: Some(2),
            limited_by: Some(Limit::Target),
            probes: vec![Probe {
                rate_per_s: 1,
                throughput_per_s: 1.0,
                p99_ms: 1.0,
                idle_share: Some(0.3),
                lost: 0,
                met: true,
                valid: true,
                reasons: vec!["none".to_owned()],
            }],
        }),
        drift: Some(DriftResult {
            seconds: 1.0,
            held_s: 1.0,
            rows: vec![DriftRow {
                name: "p99_ms".into(),
                start: 1.0,
                end: 1.0,
                per_hour: 1.0,
                change: Some(1.0),
                verdict: "steady".to_owned(),
            }],
            disk_bytes_per_operation: Some(1.0),
            kept_up: Some(check(0.99)),
            programme_2020: vec![ProgrammeCheck {
                name: "T1".into(),
                limit: 1.0,
                measured: 1.0,
                met: Some(true),
                not_judged: Some("for a reason".into()),
            }],
        }),
    }
}
