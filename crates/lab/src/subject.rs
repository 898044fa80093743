//! What is driven and measured in a run: the hub or a baseline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_sim::{Phase, Simulator};

use crate::cores::CoreTime;
use crate::detail::Detail;
use crate::hub_metrics::Snapshot;
use crate::latency::{LatencyMs, Phases};
use crate::measured::ProcessRow;
use crate::operation::Generator;
use crate::options::RunOptions;
use crate::parallel::phases_of;
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
    /// One for each of the loads in parallel; never none.
    pub generators: Vec<Arc<Generator>>,
    /// The process behind it, if it is on this machine.
    pub pid: Option<u32>,
    /// Measured time of one slice.
    pub slice: Duration,
    pub tally: Tally,
    /// The same by load.
    pub tallies: Vec<Tally>,
    pub slices: Vec<SliceResult>,
    pub measured: Duration,
    pub process_cpu: Duration,
    pub lab_cpu: Duration,
    pub process_last: Usage,
    pub lab_last: Usage,
    /// What the process and the lab did beside, over all slices.
    pub detail: Detail,
    pub lab_detail: Detail,
    /// What became of the machine's cores in the slices.
    pub cores: CoreTime,
    /// The hub's metrics at the beginning and the end of each slice.
    pub metrics: Vec<(Snapshot, Snapshot)>,
}

/// The counters of the hub and of the lab at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub at: Instant,
    pub process: Usage,
    pub lab: Usage,
    pub process_detail: Detail,
    pub lab_detail: Detail,
    pub cores: Option<CoreTime>,
    pub metrics: Option<Snapshot>,
}

fn usage_of_lab() -> Usage {
    // Absent figures show as zero; a run is not given up for them.
    Usage::own().unwrap_or_default()
}

pub(crate) fn schedule(options: &RunOptions, tally: &Tally) -> Option<ScheduleResult> {
    if !options.load.is_open() {
        return None;
    }
    let lag = |quantile| tally.lag.value_at_quantile(quantile);
    Some(ScheduleResult {
        due: tally.lag.len() + tally.skipped,
        lag_ms_p50: milliseconds(lag(0.5)),
        lag_ms_p99: milliseconds(lag(0.99)),
        lag_ms_max: milliseconds(tally.lag.max()),
        skipped: tally.skipped,
        valid: tally.skipped == 0 && lag(0.99) <= LAG_US_MAX,
    })
}

fn process_row(name: &str, result: &ProcessResult, detail: &Detail) -> ProcessRow {
    ProcessRow {
        name: name.to_owned(),
        cpu_us_per_operation: result.cpu_us_per_operation,
        cores: result.cores,
        rss_mb: result.rss_mb,
        rss_peak_mb: result.rss_peak_mb,
        disk_write_mb: detail.disk_write_bytes.map(|bytes| rounded(mebibytes(bytes), 2)),
        context_switches_voluntary: detail.voluntary,
        context_switches_involuntary: detail.involuntary,
        waited_share: detail.run_queue.waited_share(),
    }
}

impl Subject {
    /// Something that has not been measured yet.
    pub fn new(
        name: &'static str,
        simulator: Simulator,
        generators: Vec<Generator>,
        pid: Option<u32>,
        slice: Duration,
    ) -> Self {
        Self {
            name,
            simulator,
            tallies: generators.iter().map(|_| Tally::default()).collect(),
            generators: generators.into_iter().map(Arc::new).collect(),
            pid,
            slice,
            tally: Tally::default(),
            slices: Vec::new(),
            measured: Duration::ZERO,
            process_cpu: Duration::ZERO,
            lab_cpu: Duration::ZERO,
            process_last: Usage::default(),
            lab_last: Usage::default(),
            detail: Detail::default(),
            lab_detail: Detail::default(),
            cores: CoreTime::default(),
            metrics: Vec::new(),
        }
    }

    /// Reads every counter of this moment but the hub's metrics.
    pub fn read(&self) -> Reading {
        Reading {
            at: Instant::now(),
            process: self.usage(),
            lab: usage_of_lab(),
            process_detail: self.pid.map(Detail::of).unwrap_or_default(),
            lab_detail: Detail::of(std::process::id()),
            cores: CoreTime::now(),
            metrics: None,
        }
    }

    /// The first generator: what all have in common is its as well.
    pub fn generator(&self) -> &Arc<Generator> {
        &self.generators[0]
    }

    /// The phases that any operation goes through.
    pub fn phases(&self) -> Vec<Phase> {
        phases_of(self.generators.iter().map(|generator| generator.scenario))
    }

    /// Adds load between two readings, of each generator.
    pub fn record(&mut self, tallies: &[Tally], before: Reading, after: Reading) {
        let completed = tallies.iter().map(|tally| tally.completed).sum();
        self.process_cpu += after.process.cpu.saturating_sub(before.process.cpu);
        self.lab_cpu += after.lab.cpu.saturating_sub(before.lab.cpu);
        (self.process_last, self.lab_last) = (after.process, after.lab);
        self.detail.add_growth(&before.process_detail, &after.process_detail);
        self.lab_detail.add_growth(&before.lab_detail, &after.lab_detail);
        self.cores.add_growth(before.cores, after.cores);
        self.metrics.extend(before.metrics.zip(after.metrics));
        self.measured += after.at - before.at;
        self.slices.push(SliceResult {
            seconds: self.slice.as_secs_f64(),
            completed,
            throughput_per_s: rounded(per_second(completed, self.slice), 1),
        });
        self.add(tallies);
    }

    /// Adds what became of operations, of each generator.
    pub fn add(&mut self, tallies: &[Tally]) {
        for (sum, tally) in self.tallies.iter_mut().zip(tallies) {
            sum.add(tally);
            self.tally.add(tally);
        }
    }

    fn usage(&self) -> Usage {
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

    /// The process behind the subject, if it is on this machine, and the lab.
    pub fn process_rows(&self) -> Vec<ProcessRow> {
        let own = self.process().map(|result| process_row(self.name, &result, &self.detail));
        own.into_iter().chain([process_row("lab", &self.lab(), &self.lab_detail)]).collect()
    }

    fn process_result(&self, cpu: Duration, last: Usage) -> ProcessResult {
        let cpu_us_per_operation = us_per_event(cpu, self.tally.completed).map(|cpu| rounded(cpu, 1));
        ProcessResult {
            cpu_us_per_operation,
            cpu_us_per_transfer: cpu_us_per_operation.filter(|_| self.is_of_transfers()),
            cores: cores_used(cpu, self.measured).map(|cores| rounded(cores, 2)),
            rss_mb: rounded(mebibytes(last.resident_bytes), 1),
            rss_peak_mb: rounded(mebibytes(last.resident_peak_bytes), 1),
        }
    }

    /// Whether each operation is one transfer.
    fn is_of_transfers(&self) -> bool {
        self.generators.iter().all(|generator| generator.scenario.moves_money())
    }

    pub fn as_baseline(&self, hub_throughput: f64) -> BaselineResult {
        let throughput = self.throughput();
        BaselineResult {
            name: self.name,
            throughput_per_s: rounded(throughput, 1),
            ratio: ratio(hub_throughput, throughput).map(|ratio| rounded(ratio, 3)),
            latency_ms: LatencyMs::of(&self.tally.latency),
            phases: Phases::of(&self.phases(), &self.tally),
            process: self.process(),
            lab: self.lab(),
            completed: self.tally.completed,
            failed: self.tally.failed,
            slices: self.slices.clone(),
        }
    }
}
