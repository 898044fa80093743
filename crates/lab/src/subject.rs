//! What is driven and measured in a run: the hub or a baseline.

use std::sync::Arc;
use std::time::Duration;

use upesi_sim::Simulator;

use crate::latency::{LatencyMs, Phases};
use crate::operation::Generator;
use crate::options::{Load, RunOptions};
use crate::process::Usage;
use crate::result::{BaselineResult, ProcessResult, ScheduleResult, SliceResult};
use crate::statistics::{
    cores_used, mebibytes, median, milliseconds, per_second, ratio, rounded, us_per_event,
};
use crate::tally::Tally;

/// Open loop: the 99th percentile of lag above which a run does not count.
const LAG_US_MAX: u64 = 10_000;

/// One thing that is driven and measured: the hub or a baseline.
pub(crate) struct Subject {
    pub name: &'static str,
    pub simulator: Simulator,
    pub generator: Arc<Generator>,
    /// The process behind it, if it is on this machine.
    pub pid: Option<u32>,
    /// Measured time of one slice.
    pub slice: Duration,
    pub tally: Tally,
    pub slices: Vec<SliceResult>,
    pub measured: Duration,
    pub process_cpu: Duration,
    pub lab_cpu: Duration,
    pub process_last: Usage,
    pub lab_last: Usage,
}

pub(crate) fn usage_of_lab() -> Usage {
    // Absent figures show as zero; a run is not given up for them.
    Usage::own().unwrap_or_default()
}

pub(crate) fn schedule(options: &RunOptions, tally: &Tally) -> Option<ScheduleResult> {
    if matches!(options.load, Load::Closed { .. }) {
        return None;
    }
    let lag = |quantile| tally.lag.value_at_quantile(quantile);
    Some(ScheduleResult {
        lag_ms_p50: milliseconds(lag(0.5)),
        lag_ms_p99: milliseconds(lag(0.99)),
        lag_ms_max: milliseconds(tally.lag.max()),
        skipped: tally.skipped,
        valid: tally.skipped == 0 && lag(0.99) <= LAG_US_MAX,
    })
}

impl Subject {
    /// Something that has not been measured yet.
    pub fn new(
        name: &'static str,
        simulator: Simulator,
        generator: Generator,
        pid: Option<u32>,
        slice: Duration,
    ) -> Self {
        Self {
            name,
            simulator,
            generator: Arc::new(generator),
            pid,
            slice,
            tally: Tally::default(),
            slices: Vec::new(),
            measured: Duration::ZERO,
            process_cpu: Duration::ZERO,
            lab_cpu: Duration::ZERO,
            process_last: Usage::default(),
            lab_last: Usage::default(),
        }
    }

    /// Adds a slice. The usages were read at the beginning and at the end of `between_readings`.
    pub fn record(
        &mut self,
        tally: &Tally,
        between_readings: Duration,
        process: [Usage; 2],
        lab: [Usage; 2],
    ) {
        self.process_cpu += process[1].cpu.saturating_sub(process[0].cpu);
        self.lab_cpu += lab[1].cpu.saturating_sub(lab[0].cpu);
        (self.process_last, self.lab_last) = (process[1], lab[1]);
        self.measured += between_readings;
        self.slices.push(SliceResult {
            seconds: self.slice.as_secs_f64(),
            completed: tally.completed,
            throughput_per_s: rounded(per_second(tally.completed, self.slice), 1),
        });
        self.tally.add(tally);
    }

    pub fn usage(&self) -> Usage {
        self.pid.and_then(|pid| Usage::of(pid).ok()).unwrap_or_default()
    }

    pub fn throughput(&self) -> f64 {
        median(self.slices.iter().map(|slice| slice.throughput_per_s)).unwrap_or(0.0)
    }

    pub fn process(&self) -> Option<ProcessResult> {
        self.pid.map(|_| self.process_result(self.process_cpu, self.process_last))
    }

    pub fn lab(&self) -> ProcessResult {
        self.process_result(self.lab_cpu, self.lab_last)
    }

    fn process_result(&self, cpu: Duration, last: Usage) -> ProcessResult {
        let cpu_us_per_operation = us_per_event(cpu, self.tally.completed).map(|cpu| rounded(cpu, 1));
        ProcessResult {
            cpu_us_per_operation,
            cpu_us_per_transfer: cpu_us_per_operation.filter(|_| self.generator.scenario.moves_money()),
            cores: cores_used(cpu, self.measured).map(|cores| rounded(cores, 2)),
            rss_mb: rounded(mebibytes(last.resident_bytes), 1),
            rss_peak_mb: rounded(mebibytes(last.resident_peak_bytes), 1),
        }
    }

    pub fn as_baseline(&self, hub_throughput: f64) -> BaselineResult {
        let throughput = self.throughput();
        BaselineResult {
            name: self.name,
            throughput_per_s: rounded(throughput, 1),
            ratio: ratio(hub_throughput, throughput).map(|ratio| rounded(ratio, 3)),
            latency_ms: LatencyMs::of(&self.tally.latency),
            phases: Phases::of(self.generator.scenario, &self.tally),
            process: self.process(),
            lab: self.lab(),
            completed: self.tally.completed,
            failed: self.tally.failed,
            slices: self.slices.clone(),
        }
    }
}
