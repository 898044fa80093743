//! The subjects of a run: the hub, or a baseline.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use upesi_http::available_cores;
use upesi_sim::{
    AmountType, DfspSettings, FX_RATE_PER_MILLE_USUAL, FxTransferOptions, Originator, OriginatorOptions,
    PARTIES_PER_DFSP, PayeeFxTransfers, PaymentOptions, Phase, SimConfig, Simulator, Upstream,
};
use upesi_types::FspId;

use crate::drive::error::LabError;
use crate::drive::operation::Generator;
use crate::drive::session::Run;
use crate::observe::hub_metrics::Snapshot;
use crate::observe::machine::CoreTime;
use crate::observe::process::{ProcessReading, WatchedProcess};
use crate::observe::tally::Tally;
use crate::plan::operations::phases_of;
use crate::plan::options::OptionsError;
use crate::plan::pairs::Pairs;
use crate::plan::scenario::Scenario;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::schema::ProcessRow;
use crate::result::{BaselineResult, ProcessResult, SliceResult};
use crate::statistics::{cores_used, mebibytes, median, per_second, ratio, rounded, us_per_event};

/// Maximum time between a transfer's signature and its load.
const AHEAD: Duration = Duration::from_secs(3_600);

/// The hub or a baseline, which is driven and measured.
pub(crate) struct Subject {
    pub name: &'static str,
    pub simulator: Simulator,
    /// One for each of the parallel loads; never empty.
    pub generators: Vec<Arc<Generator>>,
    pub slice: Duration,
    pub tally: Tally,
    pub tallies: Vec<Tally>,
    pub slices: Vec<SliceResult>,
    pub measured: Duration,
    /// The subject's processes that are on this machine, over all slices.
    pub processes: Vec<WatchedProcess>,
    pub lab: WatchedProcess,
    /// Usage of the machine's cores in the slices.
    pub cores: CoreTime,
    /// The hub's metrics at the start and the end of each slice.
    pub metrics: Vec<(Snapshot, Snapshot)>,
}

/// The counters of the hub and of the lab at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub at: Instant,
    pub processes: Vec<ProcessReading>,
    pub lab: ProcessReading,
    pub cores: Option<CoreTime>,
    pub metrics: Option<Snapshot>,
}

impl Subject {
    /// Creates a subject without measurements.
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
            processes: pids.iter().map(|pid| WatchedProcess::new(*pid)).collect(),
            lab: WatchedProcess::new(std::process::id()),
            cores: CoreTime::default(),
            metrics: Vec::new(),
        }
    }

    /// Reads every current counter except the hub's metrics.
    pub fn read(&self) -> Reading {
        Reading {
            at: Instant::now(),
            processes: self.processes.iter().map(WatchedProcess::now).collect(),
            lab: self.lab.now(),
            cores: CoreTime::now(),
            metrics: None,
        }
    }

    /// The first generator, which has all common properties.
    pub fn generator(&self) -> &Arc<Generator> {
        &self.generators[0]
    }

    /// The phases of any operation.
    pub fn phases(&self) -> Vec<Phase> {
        phases_of(self.generators.iter().map(|generator| generator.scenario))
    }

    /// Adds the load of each generator between two readings.
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

    /// Adds the outcomes of each generator's operations.
    pub fn add(&mut self, tallies: &[Tally]) {
        for (sum, tally) in self.tallies.iter_mut().zip(tallies) {
            sum.add(tally);
            self.tally.add(tally);
        }
    }

    pub fn throughput(&self) -> f64 {
        median(self.slices.iter().map(|slice| slice.throughput_per_s)).unwrap_or(0.0)
    }

    /// All processes of the subject combined; `None` if none is on this machine.
    pub fn together(&self) -> Option<WatchedProcess> {
        (!self.processes.is_empty()).then(|| WatchedProcess::together(&self.processes))
    }

    pub fn process(&self) -> Option<ProcessResult> {
        self.together().map(|process| self.process_result(&process))
    }

    pub fn lab(&self) -> ProcessResult {
        self.process_result(&self.lab)
    }

    /// The processes of the subject combined, and each of them if there are several, and the lab.
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

    fn process_row(&self, name: &str, process: &WatchedProcess) -> ProcessRow {
        let result = self.process_result(process);
        process.row(name, result.cpu_us_per_operation, result.cores)
    }

    fn process_result(&self, process: &WatchedProcess) -> ProcessResult {
        let WatchedProcess { cpu, last, .. } = process;
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

    /// Number of transfers in each operation; `None` if not all operations move money.
    fn transfers_per_operation(&self) -> Option<u64> {
        let moves_money = self.generators.iter().all(|generator| generator.scenario.moves_money());
        moves_money.then(|| self.generator().transfers_per_operation())
    }

    /// The result of a baseline, with its ratio to the hub's throughput.
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

/// Minimum and maximum number of connections from the simulators to a hub.
const CONNECTIONS_MIN: usize = 64;
const CONNECTIONS_MAX: usize = 8_192;

impl Run<'_> {
    pub(crate) fn subject(
        &self,
        name: &'static str,
        upstream: Upstream,
        pids: &[u32],
        slice: Duration,
    ) -> Result<Subject, LabError> {
        let options = self.options;
        let mut config = SimConfig::new(options.dfsps, upstream);
        let dfsp = |name: String| Some((FspId::parse(&name)?, DfspSettings::default()));
        config.dfsps = options
            .dfsp_names()
            .into_iter()
            .map(dfsp)
            .collect::<Option<_>>()
            .ok_or(OptionsError::DfspPrefix)?;
        config.listen = SocketAddr::new(options.sim_address, 0);
        config.seed = options.seed;
        // A POST and a PUT per transfer may wait for their responses at the same time. With fewer connections, the load
        // generator would be the bottleneck without a warning.
        let usual = (2 * options.load.outstanding_max()).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        config.connections_max = options.connections_max.unwrap_or(usual);
        config.currencies = vec![options.currency];
        config.payee_fx_transfers = options.payees_currency().map(|currency| PayeeFxTransfers {
            currency,
            rate_per_mille: FX_RATE_PER_MILLE_USUAL,
            fxps: options.fxp_indexes(),
        });
        if let Some(keys) = &self.keys {
            let names: Vec<_> = config.dfsps.iter().map(|(name, _)| *name).collect();
            config.security = keys.dfsps(&names, options.security)?;
        }
        let secret = config.secret.clone();
        let simulator = Simulator::start(config, &self.workers)?;
        let operations = options.operations();
        let places = operations.len() as u64;
        let generators = (0..).zip(operations);
        let generators = generators
            .map(|(place, operation)| self.generator(&simulator, &secret, operation, (place, places)))
            .collect::<Result<_, _>>()?;
        Ok(Subject::new(name, simulator, generators, pids, slice))
    }

    /// The generator of the operations of one load, number `place` of `places`.
    fn generator(
        &self,
        simulator: &Simulator,
        secret: &[u8],
        scenario: Scenario,
        (place, places): (u64, u64),
    ) -> Result<Generator, OptionsError> {
        let options = self.options;
        let originator_options = OriginatorOptions {
            amount: options.amount,
            currency: options.currency,
            expiry: options.expiry,
            seed: options.seed,
            nonce: self.nonce,
            trace: options.trace,
            resends_max: 0,
        };
        let payments = PaymentOptions {
            callback_timeout: options.callback_timeout,
            parties_per_dfsp: PARTIES_PER_DFSP,
            amount_type: AmountType::Send,
        };
        let mut originator = Originator::new(simulator, originator_options).with_payments(payments);
        if scenario.converts() {
            let fxps = options.fxp_indexes();
            let (target, rate_per_mille) = (options.target_currency(), FX_RATE_PER_MILLE_USUAL);
            let conversions = FxTransferOptions { target, rate_per_mille, fxps };
            originator = originator.with_fx_transfers(conversions).ok_or(OptionsError::Amount)?;
        }
        if scenario == Scenario::Bulks {
            originator = originator.with_bulks(options.bulk_items);
        }
        Ok(Generator {
            scenario,
            originator: originator.with_body_bytes(options.body_bytes.unwrap_or(0)),
            pairs: Pairs { dfsps: options.dfsps, choice: options.pairs.clone(), seed: options.seed },
            names: simulator.names().collect(),
            parties: options.parties,
            parties_from: options.parties_from(),
            secret: secret.to_vec(),
            callback_timeout: options.callback_timeout,
            place,
            places,
            operations: AtomicU64::new(0),
        })
    }

    /// Signs a subject's first transfers. Other messages contain times that are not known before; they are signed when
    /// they are sent.
    pub(crate) fn sign_ahead(&self, subject: &Subject) {
        let security = self.options.security;
        if !security.is_signed() || security.sign_ahead == 0 {
            return;
        }
        self.progress.set_message("signing ahead");
        for generator in subject.generators.iter().filter(|one| one.scenario == Scenario::Transfers) {
            let coming: Vec<_> = (0..security.sign_ahead).map(|count| generator.coming(count)).collect();
            generator.originator.sign_ahead(&coming, available_cores(), self.options.expiry + AHEAD);
        }
    }
}
