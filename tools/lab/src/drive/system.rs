//! What is driven and measured in a run: the hub or a baseline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_sim::{Phase, Simulator};

use crate::drive::operation::Generator;
use crate::drive::parallel::phases_of;
use crate::observe::cores::CoreTime;
use crate::observe::hub_metrics::Snapshot;
use crate::observe::tally::Tally;
use crate::observe::usage::{Moment, Watched};
use crate::plan::options::RunOptions;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::schema::ProcessRow;
use crate::result::statistics::{
    cores_used, mebibytes, median, milliseconds, per_second, ratio, rounded, us_per_event,
};
use crate::result::{BaselineResult, ProcessResult, ScheduleResult, SliceResult};

/// Open loop: the 99th percentile of lag above which a run does not count.
const LAG_US_MAX: u64 = 10_000;

/// One thing that is driven and measured: the hub or a baseline.
pub(crate) struct Subject {
    pub name: &'static str,
    pub simulator: Simulator,
    /// One for each of the loads in parallel; never none.
    pub generators: Vec<Arc<Generator>>,
    pub slice: Duration,
    pub tally: Tally,
    pub tallies: Vec<Tally>,
    pub slices: Vec<SliceResult>,
    pub measured: Duration,
    /// The processes behind it, as far as they are on this machine, over all slices.
    pub processes: Vec<Watched>,
    pub lab: Watched,
    /// What became of the machine's cores in the slices.
    pub cores: CoreTime,
    /// The hub's metrics at the beginning and the end of each slice.
    pub metrics: Vec<(Snapshot, Snapshot)>,
}

/// The counters of the hub and of the lab at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub at: Instant,
    pub processes: Vec<Moment>,
    pub lab: Moment,
    pub cores: Option<CoreTime>,
    pub metrics: Option<Snapshot>,
}

pub(crate) fn schedule(options: &RunOptions, tally: &Tally) -> Option<ScheduleResult> {
    if !options.load.is_open() {
        return None;
    }
    Some(ScheduleResult::of(tally))
}

impl ScheduleResult {
    /// Of what was counted.
    pub(crate) fn of(tally: &Tally) -> Self {
        let lag = |quantile| tally.lag.value_at_quantile(quantile);
        Self {
            due: tally.lag.len() + tally.skipped,
            lag_ms_p50: milliseconds(lag(0.5)),
            lag_ms_p99: milliseconds(lag(0.99)),
            lag_ms_max: milliseconds(tally.lag.max()),
            skipped: tally.skipped,
            valid: tally.skipped == 0 && lag(0.99) <= LAG_US_MAX,
        }
    }
}

impl Subject {
    /// Something that has not been measured yet.
    pub fn new(
        name: &'static str,
        simulator: Simulator,
        generators: Vec<Generator>,
        pids: &[u32],
        slice: Duration,
    ) -> Self {
        Self {
            name,
            simulator,
            tallies: generators.iter().map(|_| Tally::default()).collect(),
            generators: generators.into_iter().map(Arc::new).collect(),
            slice,
            tally: Tally::default(),
            slices: Vec::new(),
            measured: Duration::ZERO,
            processes: pids.iter().map(|pid| Watched::new(*pid)).collect(),
            lab: Watched::new(std::process::id()),
            cores: CoreTime::default(),
            metrics: Vec::new(),
        }
    }

    /// Reads every counter of this moment but the hub's metrics.
    pub fn read(&self) -> Reading {
        Reading {
            at: Instant::now(),
            processes: self.processes.iter().map(Watched::now).collect(),
            lab: self.lab.now(),
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
        for (process, (before, after)) in
            self.processes.iter_mut().zip(before.processes.iter().zip(&after.processes))
        {
            process.add(before, after);
        }
        self.lab.add(&before.lab, &after.lab);
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

    pub fn throughput(&self) -> f64 {
        median(self.slices.iter().map(|slice| slice.throughput_per_s)).unwrap_or(0.0)
    }

    /// All processes behind the subject as one; `None` where none is on this machine.
    pub fn together(&self) -> Option<Watched> {
        (!self.processes.is_empty()).then(|| Watched::together(&self.processes))
    }

    pub fn process(&self) -> Option<ProcessResult> {
        self.together().map(|process| self.process_result(&process))
    }

    pub fn lab(&self) -> ProcessResult {
        self.process_result(&self.lab)
    }

    /// What is behind the subject as one, where it is several processes each of them too, and the lab.
    pub fn process_rows(&self) -> Vec<ProcessRow> {
        let mut rows: Vec<ProcessRow> =
            self.together().map(|process| self.process_row(self.name, &process)).into_iter().collect();
        if self.processes.len() > 1 {
            rows.extend(self.processes.iter().map(|process| {
                let name = format!("{}, {} {}", self.name, process.program, process.pid);
                self.process_row(&name, process)
            }));
        }
        rows.push(self.process_row("lab", &self.lab));
        rows
    }

    fn process_row(&self, name: &str, process: &Watched) -> ProcessRow {
        let result = self.process_result(process);
        process.row(name, result.cpu_us_per_operation, result.cores)
    }

    fn process_result(&self, process: &Watched) -> ProcessResult {
        let Watched { cpu, last, .. } = process;
        let cpu_us_per_operation = us_per_event(*cpu, self.tally.completed).map(|cpu| rounded(cpu, 1));
        ProcessResult {
            cpu_us_per_operation,
            cpu_us_per_transfer: self
                .transfers_per_operation()
                .and_then(|transfers| us_per_event(*cpu, self.tally.completed * transfers))
                .map(|cpu| rounded(cpu, 1)),
            cores: cores_used(*cpu, self.measured).map(|cores| rounded(cores, 2)),
            rss_mb: rounded(mebibytes(last.resident_bytes), 1),
            rss_peak_mb: rounded(mebibytes(last.resident_peak_bytes), 1),
        }
    }

    /// Of how many transfers each operation is made; `None` where not all move money.
    fn transfers_per_operation(&self) -> Option<u64> {
        let moves_money = self.generators.iter().all(|generator| generator.scenario.moves_money());
        moves_money.then(|| self.generator().transfers_per_operation())
    }

    pub fn as_baseline(&self, hub_throughput: f64) -> BaselineResult {
        let throughput = self.throughput();
        BaselineResult {
            name: self.name.into(),
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
