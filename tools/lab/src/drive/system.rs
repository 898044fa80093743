//! The subjects of a run: the hub, or a baseline.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use upesi_http::ClientTls;
use upesi_sim::{
    AmountType, ConversionOptions, DfspSettings, FX_RATE_PER_MILLE_USUAL, Originator, OriginatorOptions,
    PARTIES_PER_DFSP, PayeeConversions, PaymentOptions, Phase, ServiceUrls, SimConfig, Simulator, Upstream,
    prefix_of,
};
use upesi_types::{FspId, Timestamp};

use crate::drive::child::{Process, free_loopback_addresses};
use crate::drive::measure::Watch;
use crate::drive::operation::Generator;
use crate::drive::parallel::phases_of;
use crate::drive::run::{LabError, RAMP, Run};
use crate::judge::audit::Evidence;
use crate::observe::hub_metrics::{Scraper, Snapshot};
use crate::observe::machine::CoreTime;
use crate::observe::process::{Moment, Watched};
use crate::observe::tally::Tally;
use crate::observe::timeline::Timeline;
use crate::plan::options::{Baseline, OptionsError, RunOptions};
use crate::plan::pairs::Pairs;
use crate::plan::scenario::Scenario;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::schema::{ProcessRow, Validity};
use crate::result::statistics::{
    cores_used, mebibytes, median, milliseconds, per_second, ratio, rounded, us_per_event,
};
use crate::result::{AuditSummary, BaselineResult, LabResult, ProcessResult, ScheduleResult, SliceResult};

/// Open loop: maximum 99th percentile of the lag for a valid run.
const LAG_US_MAX: u64 = 10_000;

/// A subject that is driven and measured: the hub or a baseline.
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
    pub processes: Vec<Watched>,
    pub lab: Watched,
    /// Usage of the machine's cores in the slices.
    pub cores: CoreTime,
    /// The hub's metrics at the start and the end of each slice.
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
    /// Computes a slice's result from a tally.
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
            processes: pids.iter().map(|pid| Watched::new(*pid)).collect(),
            lab: Watched::new(std::process::id()),
            cores: CoreTime::default(),
            metrics: Vec::new(),
        }
    }

    /// Reads every current counter except the hub's metrics.
    pub fn read(&self) -> Reading {
        Reading {
            at: Instant::now(),
            processes: self.processes.iter().map(Watched::now).collect(),
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
    pub fn together(&self) -> Option<Watched> {
        (!self.processes.is_empty()).then(|| Watched::together(&self.processes))
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

    /// Number of transfers in each operation; `None` if not all operations move money.
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
        // A POST and a PUT per transfer may wait for their answers at the same time. With fewer connections the load
        // generator would become the bottleneck, unnoticed.
        let usual = (2 * options.load.outstanding_max()).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        config.connections_max = options.connections_max.unwrap_or(usual);
        config.currencies = vec![options.currency];
        config.payee_conversions = options.payees_currency().map(|currency| PayeeConversions {
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
            let conversions = ConversionOptions { target, rate_per_mille, fxps };
            originator = originator.with_conversions(conversions).ok_or(OptionsError::Amount)?;
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

    /// The baselines, and the forwarder's process, which ends when it is dropped.
    pub(crate) async fn baselines(
        &self,
        slice: Duration,
    ) -> Result<(Vec<Subject>, Option<Process>), LabError> {
        let (mut subjects, mut process) = (Vec::new(), None);
        for baseline in &self.options.baselines {
            let (subject, started) = self.baseline(*baseline, slice).await?;
            subjects.push(subject);
            process = started.or(process);
        }
        Ok((subjects, process))
    }

    pub(crate) async fn baseline(
        &self,
        baseline: Baseline,
        slice: Duration,
    ) -> Result<(Subject, Option<Process>), LabError> {
        let name = baseline.name();
        if baseline == Baseline::SimsOnly {
            return Ok((self.subject(name, Upstream::Peers, &[], slice)?, None));
        }
        self.progress.set_message("starting the forwarder");
        let [address] = free_loopback_addresses()?;
        let security = self.options.security;
        let scheme = if security.is_mutual() { "https" } else { "http" };
        let mut subject = self.subject(name, Upstream::Hub(format!("{scheme}://{address}")), &[], slice)?;
        let mut arguments: Vec<String> =
            ["lab", "forwarder", "--listen", &address.to_string()].map(str::to_owned).into();
        for (index, dfsp) in subject.simulator.names().enumerate() {
            let route = format!("{dfsp}={}", subject.simulator.base_url(&dfsp));
            let prefix = format!("{}={dfsp}", prefix_of(index));
            arguments.extend(["--route".to_owned(), route, "--prefix".to_owned(), prefix]);
        }
        let mut tls = None;
        if let Some(keys) = &self.keys {
            arguments.extend(keys.forwarder_arguments(security));
            tls = keys.caller(security)?;
        }
        let log = self.log("forwarder.log");
        let mut started = Process::start("the forwarder", &self.binary()?, &arguments, log.as_deref())?;
        started.ready(&[(address, tls.as_ref())]).await?;
        subject.processes = vec![Watched::new(started.pid())];
        Ok((subject, Some(started)))
    }

    pub(crate) async fn alone(
        &self,
        baseline: Baseline,
        started_at: Timestamp,
    ) -> Result<LabResult, LabError> {
        let options = self.options;
        let slice = options.duration / options.slice_count() as u32;
        let (mut subject, process) = self.baseline(baseline, slice).await?;
        let pids = subject.processes.iter().map(|process| process.pid).collect();
        let mut watch = Watch { scraper: Scraper::default(), timeline: Timeline::new(pids, None) };
        for index in 0..options.slice_count() {
            if index == 0 {
                self.sign_ahead(&subject);
            }
            let ramp = if index == 0 { options.warm_up } else { RAMP };
            self.slice(&mut subject, ramp, Some(&mut watch)).await;
        }
        drop(process);
        let evidence =
            Evidence { expected: BTreeMap::new(), ..self.evidence(&subject, (Vec::new(), Vec::new()), None) };
        let target = baseline.name().to_owned();
        let mut result = self.result(&subject, &[], &evidence, &watch.timeline, target, started_at);
        // Without a hub there are no positions to compare, and nothing is durable.
        result.audit = AuditSummary { ok: true, ..AuditSummary::default() };
        result.validity.findings.retain(|finding| !finding.starts_with("the audit"));
        result.validity = Validity::of(result.validity.findings);
        (result.lost, result.durable, result.environment.durability) = (0, None, None);
        Ok(result)
    }
}

// A running hub of any make: the addresses of its services and metrics, and its processes.

/// A running hub, of any make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetHub {
    /// Base URL of the FSPIOP API, for all resources without their own URL below.
    pub fspiop_url: String,
    /// Base URL for `/parties` and `/participants`, if it differs.
    pub lookups_url: Option<String>,
    /// Base URL for `/quotes`, `/bulkQuotes` and `/fxQuotes`, if it differs.
    pub quotes_url: Option<String>,
    /// Base URL for `/transfers`, if it differs.
    pub transfers_url: Option<String>,
    pub admin_url: String,
    /// Places of metrics, each of a part of the hub: URLs of the texts, or base URLs with the text at `/metrics`. If
    /// empty: at the admin API, if it has them.
    pub metrics_urls: Vec<String>,
    /// Its processes on this machine, if CPU and memory are to be measured.
    pub pids: Vec<u32>,
    /// TLS of its admin API, and of metrics there.
    pub admin_tls: Option<ClientTls>,
    /// Whether it makes transfers durable before it answers, as far as the operator knows.
    pub durable: Option<bool>,
}

/// The addresses of a hub that was already running, as in results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRecord {
    /// Base URL for lookups.
    pub lookups: String,
    /// Base URL for quotes.
    pub quotes: String,
    /// Base URL for transfers.
    pub transfers: String,
    /// Base URL of the admin API.
    pub admin: String,
    /// Places of the metrics.
    pub metrics: Vec<String>,
    /// The processes that were measured.
    pub pids: Vec<u32>,
}

impl TargetHub {
    /// A hub that has its whole FSPIOP API at one URL.
    pub fn at(fspiop_url: impl Into<String>, admin_url: impl Into<String>) -> Self {
        Self { fspiop_url: fspiop_url.into(), admin_url: admin_url.into(), ..Self::default() }
    }

    /// The base URLs by resource.
    pub fn services(&self) -> ServiceUrls {
        let or_usual = |url: &Option<String>| url.as_ref().unwrap_or(&self.fspiop_url).clone();
        ServiceUrls {
            lookups: or_usual(&self.lookups_url),
            quotes: or_usual(&self.quotes_url),
            transfers: or_usual(&self.transfers_url),
            others: self.fspiop_url.clone(),
        }
    }

    /// The base URLs of its FSPIOP API, without duplicates.
    pub(crate) fn fspiop_urls(&self) -> Vec<String> {
        let ServiceUrls { lookups, quotes, transfers, others } = self.services();
        let mut urls = vec![others, lookups, quotes, transfers];
        urls.sort();
        urls.dedup();
        urls
    }

    /// Whether it runs on this machine, judging by its addresses and processes.
    pub(crate) fn is_local(&self) -> bool {
        let is_loopback =
            |url: &String| ["//127.", "//localhost", "//[::1]"].iter().any(|host| url.contains(host));
        !self.pids.is_empty() || self.fspiop_urls().iter().any(is_loopback)
    }

    pub(crate) fn record(&self) -> TargetRecord {
        let ServiceUrls { lookups, quotes, transfers, .. } = self.services();
        let metrics = if self.metrics_urls.is_empty() {
            vec![self.admin_url.clone()]
        } else {
            self.metrics_urls.clone()
        };
        let (admin, pids) = (self.admin_url.clone(), self.pids.clone());
        TargetRecord { lookups, quotes, transfers, admin, metrics, pids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_url_of_its_own_is_at_the_usual_one() {
        let whole = TargetHub::at("http://hub:4000", "http://hub:4001");
        assert_eq!(whole.fspiop_urls(), ["http://hub:4000"]);
        assert_eq!(whole.record().metrics, ["http://hub:4001"]);
        let parts = TargetHub {
            quotes_url: Some("http://quoting:3002".to_owned()),
            transfers_url: Some("http://ml:3000".to_owned()),
            metrics_urls: vec!["http://ml:3000".to_owned(), "http://quoting:3002".to_owned()],
            pids: vec![4, 7],
            ..whole
        };
        let record = parts.record();
        assert_eq!(
            [record.lookups.as_str(), &record.quotes, &record.transfers],
            ["http://hub:4000", "http://quoting:3002", "http://ml:3000"]
        );
        assert_eq!((record.metrics.len(), record.pids), (2, vec![4, 7]));
        assert_eq!(parts.fspiop_urls().len(), 3);
    }

    #[test]
    fn one_service_or_process_here_makes_the_hub_share_this_machine() {
        let away = || TargetHub::at("http://10.0.0.7:4000", "http://127.0.0.1:1");
        let here = Some("http://localhost:3000".to_owned());
        for (target, is_local) in [
            (away(), false),
            (TargetHub { pids: vec![7], ..away() }, true),
            (TargetHub { transfers_url: here, ..away() }, true),
            (TargetHub::at("http://[::1]:4000", ""), true),
        ] {
            assert_eq!(target.is_local(), is_local, "{target:?}");
        }
    }
}
